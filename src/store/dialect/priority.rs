//! SQLite: the thread that writes goes before others.
//!
//! All decisions wait for it, and each text that it is sent wakes it. Where all processors are busy with requests it
//! then waits for one of them, again and again, while soon nobody else has anything left to do. So it is put before the
//! other threads, where the system lets us: as root, with `CAP_SYS_NICE`, or with `LimitNICE=` of systemd. Elsewhere
//! all stays as it is.
//!
//! On Linux each thread has a priority of its own ([setpriority(2)], "C library/kernel differences").
//!
//! [setpriority(2)]: https://man7.org/linux/man-pages/man2/setpriority.2.html

use std::io;
use std::path::Path;

use rustix::process::{Pid, setpriority_process};

/// What the thread is called; the system keeps 15 characters.
pub(super) const WRITER: &str = "runtab-writer";
/// Its priority: others have 0, and less goes first.
const NICE: i32 = -10;
/// Where Linux lists the threads of this process.
const THREADS: &str = "/proc/self/task";

/// Puts threads of this name before others; answers how many there are.
pub(super) fn raise(name: &str) -> io::Result<usize> {
    let mut raised = 0_usize;
    for thread in std::fs::read_dir(THREADS)? {
        let thread = thread?;
        // One that has ended meanwhile has no name any more.
        if !is_called(&thread.path(), name) {
            continue;
        }
        let id = thread.file_name().to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
        setpriority_process(Some(id.ok_or(io::ErrorKind::InvalidData)?), NICE)?;
        raised = raised.saturating_add(1);
    }
    Ok(raised)
}

fn is_called(thread: &Path, name: &str) -> bool {
    std::fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::mpsc::channel;

    use rustix::process::getpriority_process;
    use rustix::thread::gettid;

    use super::{NICE, raise};

    #[test]
    fn a_thread_goes_first_where_the_system_lets_it() {
        const NAME: &str = "goes-first";
        let ((ready, is_ready), (go, may_go)) = (channel(), channel::<()>());
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            ready.send(getpriority_process(Some(gettid())).unwrap()).unwrap();
            may_go.recv().unwrap();
            getpriority_process(Some(gettid())).unwrap()
        });
        let before = is_ready.recv().unwrap();
        let own = || getpriority_process(Some(gettid())).unwrap();
        let mine = own();
        let raised = raise(NAME);
        go.send(()).unwrap();
        let after = thread.unwrap().join().unwrap();
        match raised {
            Ok(count) => assert_eq!((count, after), (1, NICE)),
            Err(error) => assert_eq!((error.kind(), after), (ErrorKind::PermissionDenied, before)),
        }
        assert_eq!((own(), raise("nobody's name").ok()), (mine, Some(0)), "nobody else does");
    }
}
