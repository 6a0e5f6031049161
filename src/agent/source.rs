//! Where CPU readings come from, and how much disk a sandbox takes.
//!
//! A reading names its counter. While that stays the same, the counter never goes back; another one (a group made
//! anew, another process) began from zero. An agent sends as `epoch` the time, in milliseconds, at which it first saw
//! the counter, so that a new one has a higher epoch and the ledger can tell it from a glitch. Memory is not read here:
//! what is billed is what the lease reserves, not what the guest touched.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{cgroup, proc};

/// What a source says at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// CPU since the counter began, in microseconds.
    pub cpu_usage_us: i64,
    /// Which counter, within one boot of the host: the inode of a cgroup, the start time of a process in ticks.
    pub counter: u64,
}

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The group or process is gone. Its last reading stands.
    #[error("{} is gone", .0.display())]
    Gone(PathBuf),
    /// It can't be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not say what it should.
    #[error("{}: {detail}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        detail: &'static str,
    },
}

/// Where CPU readings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSource {
    /// A cgroup v2 directory: `usage_usec` of its `cpu.stat`, which contains all its processes, gone ones too.
    Cgroup(PathBuf),
    /// A process, with its children as far as it has waited for them: `/proc/PID/stat`. Coarser (clock ticks), and
    /// blind to children that still run: for machines without a writable cgroup.
    Process(u32),
}

impl CpuSource {
    /// Reads the counter now.
    pub fn read(&self) -> Result<Reading, SourceError> {
        match self {
            Self::Cgroup(directory) => cgroup::read(directory),
            Self::Process(pid) => proc::read(*pid),
        }
    }
}

/// Reads a file of a source; a missing one, or one whose process ended meanwhile, is [`SourceError::Gone`].
pub(super) fn read_file(path: &Path) -> Result<String, SourceError> {
    std::fs::read_to_string(path).map_err(|source| {
        let path = path.to_owned();
        let no_device = rustix::io::Errno::NODEV.raw_os_error();
        let no_process = rustix::io::Errno::SRCH.raw_os_error();
        let gone = source.kind() == io::ErrorKind::NotFound
            || source.raw_os_error().is_some_and(|code| code == no_device || code == no_process);
        if gone { SourceError::Gone(path) } else { SourceError::Unreadable { path, source } }
    })
}

/// Bytes that the files under a directory take on disk: allocated blocks (sparse files count what they hold), each
/// file once whatever the number of its links, symbolic links not followed. What vanishes meanwhile counts nothing.
pub fn allocated_bytes(directory: &Path) -> io::Result<u64> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![directory.to_owned()];
    let mut bytes: u64 = 0;
    while let Some(path) = waiting.pop() {
        let meta = match std::fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != directory => continue,
            Err(error) => return Err(error),
        };
        if !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
        if meta.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                waiting.push(entry?.path());
            }
        }
    }
    Ok(bytes)
}

/// Bytes in MiB, rounded up: how a sample carries them.
#[must_use]
pub fn mebibytes(bytes: u64) -> i64 {
    i64::try_from(bytes.div_ceil(1_048_576)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::{allocated_bytes, mebibytes};

    #[test]
    fn disk_is_what_is_allocated_and_each_file_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let empty = allocated_bytes(directory.path()).unwrap();
        let file = directory.path().join("a");
        std::fs::write(&file, vec![7_u8; 1_048_576]).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        let one = allocated_bytes(directory.path()).unwrap() - empty;
        assert!((1_048_576..1_200_000).contains(&one), "{one}");
        std::fs::hard_link(&file, directory.path().join("b")).unwrap();
        std::os::unix::fs::symlink(&file, directory.path().join("c")).unwrap();
        let linked = allocated_bytes(directory.path()).unwrap() - empty;
        assert!(linked < one + 8_192, "{linked}");
        let mut sparse = std::fs::File::create(directory.path().join("sparse")).unwrap();
        sparse.seek(SeekFrom::Start(1 << 30)).unwrap();
        sparse.write_all(b"x").unwrap();
        sparse.sync_all().unwrap();
        assert!(allocated_bytes(directory.path()).unwrap() - empty < one + 100_000);
        assert!(allocated_bytes(&directory.path().join("missing")).is_err());
    }

    #[test]
    fn a_part_of_a_mebibyte_counts_whole() {
        assert_eq!([0, 1, 1_048_576, 1_048_577].map(mebibytes), [0, 1, 1, 2]);
    }
}
