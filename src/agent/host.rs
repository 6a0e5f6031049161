//! The machine as the sampler sees it: counters, disks, groups. A trait, so that tests have a host of their own.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::clock::Instants;
use super::replay::Replay;
use super::sandbox::{Place, Sandbox};
use super::source::{CpuSource, Look, SourceError};
use super::storage::{allocated_in, mebibytes};
use crate::config::agent::SourceKind;

/// What the sampler asks of a host.
pub trait Host: Send {
    /// A sandbox's counter, and whether it runs.
    fn look(&mut self, sandbox: &Sandbox, now: Instants) -> Result<Look, SourceError>;
    /// The disk that files take, in MiB.
    fn disk_mib(&mut self, files: &[PathBuf]) -> io::Result<i64>;
    /// Names of the groups that are there, as sandboxes' files would give them.
    fn groups(&mut self) -> io::Result<BTreeSet<String>>;
    /// Nothing more is asked of a sandbox.
    fn forget(&mut self, sandbox: &Sandbox);
    /// How many CPUs it has: what bounds the CPU time of anything on it.
    fn cpus(&self) -> i64;
}

/// The machine that this runs on.
#[derive(Debug)]
pub struct Machine {
    kind: SourceKind,
    root: PathBuf,
    /// What is before and after the name in a group's directory name.
    prefix: String,
    suffix: String,
    replay: Replay,
    cpus: i64,
}

impl Machine {
    /// The machine, read in the way that the settings name. `pattern` has one `*`.
    #[must_use]
    pub fn new(kind: SourceKind, root: &Path, pattern: &str) -> Self {
        let (prefix, suffix) = pattern.split_once('*').unwrap_or((pattern, ""));
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Of the machine, not of this process, which may be held to fewer.
        let online = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let online = online.lines().filter(|line| line.starts_with("processor")).count();
        Self {
            kind,
            root: root.to_owned(),
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
            replay: Replay::default(),
            cpus: i64::try_from(cpus.max(online)).unwrap_or(i64::MAX),
        }
    }

    /// The directory or file of a place; `None` for a process.
    #[must_use]
    pub fn path(&self, place: &Place) -> Option<PathBuf> {
        match place {
            Place::Group(name) => Some(self.root.join(format!("{}{name}{}", self.prefix, self.suffix))),
            Place::Directory(path) => Some(path.clone()),
            Place::Process(_) => None,
        }
    }

    /// The file whose changes tell that the last process of a group has ended, where the kernel has one.
    #[must_use]
    pub fn events(&self, place: &Place) -> Option<PathBuf> {
        let cgroup2 = self.kind == SourceKind::Cgroup2;
        self.path(place).filter(|_| cgroup2).map(|path| path.join("cgroup.events"))
    }
}

impl Host for Machine {
    fn look(&mut self, sandbox: &Sandbox, now: Instants) -> Result<Look, SourceError> {
        let path = match (self.path(&sandbox.place), sandbox.pid) {
            (Some(path), _) if self.kind != SourceKind::Process => path,
            (_, Some(pid)) => return CpuSource::Tree(pid).look(),
            (path, None) => return Err(SourceError::Gone(path.unwrap_or_default())),
        };
        let look = match self.kind {
            SourceKind::Cgroup2 | SourceKind::Process => CpuSource::Cgroup(path).look(),
            SourceKind::Cgroup1 => CpuSource::Cgroup1(path).look(),
            SourceKind::Replay => self.replay.look(&path, now.boot_ms),
        };
        let ended = sandbox.pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        look.map(|look| Look { alive: look.alive && !ended, ..look })
    }

    fn disk_mib(&mut self, files: &[PathBuf]) -> io::Result<i64> {
        allocated_in(files).map(mebibytes)
    }

    fn groups(&mut self) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        if self.kind == SourceKind::Process {
            return Ok(names);
        }
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            if self.kind != SourceKind::Replay && !entry.file_type()?.is_dir() {
                continue;
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            let inner = name.strip_prefix(&self.prefix).and_then(|rest| rest.strip_suffix(&self.suffix));
            names.extend(inner.filter(|inner| !inner.is_empty()).map(str::to_owned));
        }
        Ok(names)
    }

    fn forget(&mut self, sandbox: &Sandbox) {
        if let Some(path) = self.path(&sandbox.place) {
            self.replay.forget(&path);
        }
    }

    fn cpus(&self) -> i64 {
        self.cpus
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Host as _, Machine};
    use crate::agent::clock::Instants;
    use crate::agent::sandbox::Sandbox;
    use crate::config::agent::SourceKind;
    use crate::domain::time::Timestamp;

    fn now() -> Instants {
        Instants { boot_ms: 0, real: Timestamp::EPOCH }
    }

    fn group(root: &Path, name: &str, usage_us: i64) {
        std::fs::create_dir_all(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("cpu.stat"), format!("usage_usec {usage_us}\n")).unwrap();
    }

    #[test]
    fn groups_are_found_by_the_pattern_and_read_by_their_name() {
        let root = tempfile::tempdir().unwrap();
        group(root.path(), "vm-a.scope", 7);
        group(root.path(), "vm-b.scope", 8);
        group(root.path(), "other", 9);
        std::fs::write(root.path().join("vm-file.scope"), "").unwrap();
        let mut machine = Machine::new(SourceKind::Cgroup2, root.path(), "vm-*.scope");
        assert_eq!(machine.groups().unwrap().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        let sandbox = Sandbox::read(br#"{"account":"x","sandbox":"b"}"#).unwrap();
        assert_eq!(machine.look(&sandbox, now()).unwrap().reading.cpu_usage_us, 8);
        let ended = Sandbox::read(br#"{"account":"x","sandbox":"b","group":"b","pid":4194304}"#).unwrap();
        assert!(!machine.look(&ended, now()).unwrap().alive, "its process is gone");
        assert!(machine.cpus() >= 1);
    }

    #[test]
    fn a_process_is_read_with_its_descendants_whatever_the_source() {
        let text = format!(r#"{{"account":"x","sandbox":"b","pid":{}}}"#, std::process::id());
        let sandbox = Sandbox::read(text.as_bytes()).unwrap();
        for kind in [SourceKind::Process, SourceKind::Cgroup2] {
            let mut machine = Machine::new(kind, Path::new("/nowhere"), "*");
            let look = machine.look(&sandbox, now()).unwrap();
            assert!(look.alive && look.summed);
        }
        let mut machine = Machine::new(SourceKind::Process, Path::new("/nowhere"), "*");
        let nobody = Sandbox::read(br#"{"account":"x","sandbox":"b"}"#).unwrap();
        assert!(machine.look(&nobody, now()).is_err() && machine.groups().unwrap().is_empty());
    }
}
