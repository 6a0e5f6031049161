//! Where CPU readings come from.
//!
//! A reading names its counter. While that stays the same, the counter never goes back; another one (a group made
//! anew, another process) began from zero; `epochs.rs` makes of it the number by which the ledger tells a new counter
//! from a glitch. Memory is not read here: what is billed is what the lease reserves, not what the guest touched.

use std::io;
use std::path::{Path, PathBuf};

use super::{cgroup, cgroup1, proc};

/// What a source says at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// CPU since the counter began, in microseconds.
    pub cpu_usage_us: i64,
    /// Which counter, within one boot of the host: the inode of a cgroup, the start time of a process in ticks.
    pub counter: u64,
}

/// A reading, and whether anything runs that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The reading.
    pub reading: Reading,
    /// Whether the group has a process, or the process has not ended: after its end the reading is the last one.
    pub alive: bool,
    /// Whether it is a sum that can fall without having begun again, when one of its parts goes: such a fall is none.
    pub summed: bool,
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
    /// A cgroup v1 directory of the controller `cpuacct`: its `cpuacct.usage`.
    Cgroup1(PathBuf),
    /// A process, with its children as far as it has waited for them: `/proc/PID/stat`. Coarser (clock ticks), and
    /// blind to children that still run: for machines without a writable cgroup.
    Process(u32),
    /// A process and its living descendants, each with the children that it has waited for. The sum can fall when one
    /// ends unwaited for, or leaves the tree.
    Tree(u32),
}

impl CpuSource {
    /// Reads the counter now.
    pub fn read(&self) -> Result<Reading, SourceError> {
        match self {
            Self::Cgroup(directory) => cgroup::read(directory),
            Self::Cgroup1(directory) => cgroup1::read(directory),
            Self::Process(pid) => proc::read(*pid),
            Self::Tree(pid) => proc::read_tree(*pid).map(|look| look.reading),
        }
    }

    /// Reads the counter now, and whether anything runs that it counts.
    pub fn look(&self) -> Result<Look, SourceError> {
        match self {
            // In this order: what runs on after the reading is read again, what has ended before it is read whole.
            Self::Cgroup(directory) => {
                let alive = cgroup::is_populated(directory)?;
                Ok(Look { reading: cgroup::read(directory)?, alive, summed: false })
            }
            Self::Cgroup1(directory) => {
                let alive = cgroup1::is_populated(directory)?;
                Ok(Look { reading: cgroup1::read(directory)?, alive, summed: false })
            }
            Self::Process(pid) => Ok(Look { reading: proc::read(*pid)?, alive: true, summed: false }),
            Self::Tree(pid) => proc::read_tree(*pid),
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
