//! cgroup v1, the controller `cpuacct`: `cpuacct.usage`, in nanoseconds. For hosts whose jailer makes v1 groups.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::source::{Reading, SourceError, read_file};

/// Reads a group's counter, named by the directory's inode. Somebody may write 0 to it: that is seen as a counter that
/// goes back.
pub(super) fn read(directory: &Path) -> Result<Reading, SourceError> {
    let path = directory.join("cpuacct.usage");
    let text = read_file(&path)?;
    let Some(cpu_usage_us) = text.trim().parse::<i64>().ok().map(|ns| ns.div_euclid(1_000)).filter(|us| *us >= 0)
    else {
        return Err(SourceError::Malformed { path, detail: "no whole number of nanoseconds" });
    };
    match std::fs::metadata(directory) {
        Ok(meta) => Ok(Reading { cpu_usage_us, counter: meta.ino() }),
        Err(source) => Err(SourceError::Unreadable { path: directory.to_owned(), source }),
    }
}

/// Whether a group has a process: v1 has no `cgroup.events`, but `cgroup.procs` is empty then.
pub(super) fn is_populated(directory: &Path) -> Result<bool, SourceError> {
    match read_file(&directory.join("cgroup.procs")) {
        Ok(text) => Ok(!text.trim().is_empty()),
        Err(SourceError::Gone(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use crate::agent::source::{CpuSource, SourceError};

    #[test]
    fn nanoseconds_become_microseconds_and_an_empty_group_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let source = CpuSource::Cgroup1(directory.path().to_owned());
        assert!(matches!(source.look(), Err(SourceError::Gone(_))));
        std::fs::write(directory.path().join("cpuacct.usage"), "1234567999\n").unwrap();
        std::fs::write(directory.path().join("cgroup.procs"), "7\n").unwrap();
        let look = source.look().unwrap();
        assert_eq!((look.reading.cpu_usage_us, look.alive), (1_234_567, true));
        std::fs::write(directory.path().join("cgroup.procs"), "").unwrap();
        assert!(!source.look().unwrap().alive);
        for bad in ["-1", "much", ""] {
            std::fs::write(directory.path().join("cpuacct.usage"), bad).unwrap();
            assert!(matches!(source.read(), Err(SourceError::Malformed { .. })), "{bad:?}");
        }
    }
}
