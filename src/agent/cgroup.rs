//! cgroup v2: `usage_usec` of `cpu.stat`, there even where the cpu controller is off. `memory.current` is not used:
//! memory that a guest freed stays on the host. Under KVM the user and system split is wrong; only the sum is read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::source::{Reading, SourceError, read_file};

/// Reads a group's counter, named by the directory's inode: a group made again under the same name has another one.
pub(super) fn read(directory: &Path) -> Result<Reading, SourceError> {
    let path = directory.join("cpu.stat");
    let text = read_file(&path)?;
    let Some(cpu_usage_us) = usage_us(&text) else {
        return Err(SourceError::Malformed { path, detail: "no usage_usec line with a whole number" });
    };
    match std::fs::metadata(directory) {
        Ok(meta) => Ok(Reading { cpu_usage_us, counter: meta.ino() }),
        Err(source) => Err(SourceError::Unreadable { path: directory.to_owned(), source }),
    }
}

/// Whether a group has a process, its subgroups included: `populated` of its `cgroup.events`. Where there is no such file
/// (a root group), it has.
pub(super) fn is_populated(directory: &Path) -> Result<bool, SourceError> {
    match read_file(&directory.join("cgroup.events")) {
        Ok(text) => Ok(text.lines().any(|line| line.trim() == "populated 1")),
        Err(SourceError::Gone(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

fn usage_us(text: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()
}

/// Where cgroup v2 is mounted, from the text of `/proc/self/mounts`; the first such mount.
#[must_use]
pub fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{is_populated, mount_point, read, usage_us};
    use crate::agent::source::{CpuSource, SourceError};

    #[test]
    fn the_sum_is_read_and_nothing_else() {
        assert_eq!(usage_us("usage_usec 1234567\nuser_usec 1\nsystem_usec 2\n"), Some(1_234_567));
        assert_eq!(usage_us("user_usec 1\nusage_usec 5\n"), Some(5));
        assert_eq!(usage_us("usage_usec -\n"), None);
        assert_eq!(usage_us(""), None);
    }

    #[test]
    fn a_group_that_is_gone_is_told_from_one_that_is_broken() {
        let directory = tempfile::tempdir().unwrap();
        let source = CpuSource::Cgroup(directory.path().to_owned());
        assert!(matches!(source.read(), Err(SourceError::Gone(_))));
        std::fs::write(directory.path().join("cpu.stat"), "nr_periods 0\n").unwrap();
        assert!(matches!(read(directory.path()), Err(SourceError::Malformed { .. })));
        std::fs::write(directory.path().join("cpu.stat"), "usage_usec 42\n").unwrap();
        let reading = source.read().unwrap();
        assert_eq!(reading.cpu_usage_us, 42);
        assert_eq!(reading.counter, source.read().unwrap().counter);
    }

    #[test]
    fn a_group_whose_last_process_has_ended_is_told() {
        let directory = tempfile::tempdir().unwrap();
        assert!(is_populated(directory.path()).unwrap());
        for (text, populated) in [("populated 1\nfrozen 0\n", true), ("populated 0\nfrozen 0\n", false), ("", false)] {
            std::fs::write(directory.path().join("cgroup.events"), text).unwrap();
            assert_eq!(is_populated(directory.path()).unwrap(), populated);
        }
    }

    #[test]
    fn the_mount_is_found_among_others() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point("proc /proc proc rw 0 0\n"), None);
    }
}
