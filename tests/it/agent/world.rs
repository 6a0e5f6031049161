//! A pretend host: counters that tests set, disks that tests size, and clocks that tests move.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use runtab::agent::clock::Instants;
use runtab::agent::host::Host;
use runtab::agent::sandbox::{Place, Sandbox};
use runtab::agent::source::{Look, Reading, SourceError};
use runtab::domain::time::Timestamp;

use crate::harness::Time;

/// A group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// What its counter says, in microseconds.
    pub(crate) cpu_us: i64,
    /// Which counter it is.
    pub(crate) counter: u64,
    /// Whether anything runs in it.
    pub(crate) alive: bool,
}

#[derive(Debug, Default)]
struct State {
    groups: BTreeMap<String, Group>,
    disk_mib: i64,
    disk_looks: usize,
}

/// The host; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// A group is there, and says so much, in seconds.
    pub(crate) fn set_s(&self, name: &str, cpu_s: i64) {
        self.set_us(name, cpu_s * 1_000_000);
    }

    /// A group is there, and says so much, in microseconds.
    pub(crate) fn set_us(&self, name: &str, cpu_us: i64) {
        let mut state = self.state();
        let group = state.groups.entry(name.to_owned()).or_insert(Group { cpu_us, counter: 1, alive: true });
        group.cpu_us = cpu_us;
        group.alive = true;
    }

    /// Everything in a group has ended.
    pub(crate) fn exit(&self, name: &str) {
        self.state().groups.get_mut(name).expect("a group").alive = false;
    }

    /// A group is removed.
    pub(crate) fn remove(&self, name: &str) {
        self.state().groups.remove(name);
    }

    /// A group is made again under the same name.
    pub(crate) fn make_again(&self, name: &str) {
        let mut state = self.state();
        let group = state.groups.get_mut(name).expect("a group");
        *group = Group { cpu_us: 0, counter: group.counter + 1, alive: true };
    }

    /// What every disk takes from now on.
    pub(crate) fn set_disk_mib(&self, mib: i64) {
        self.state().disk_mib = mib;
    }
}

impl Host for World {
    fn look(&mut self, sandbox: &Sandbox, _: Instants) -> Result<Look, SourceError> {
        let Place::Group(name) = &sandbox.place else { panic!("groups only") };
        let found = self.state().groups.get(name).copied();
        let group = found.ok_or_else(|| SourceError::Gone(name.into()))?;
        let reading = Reading { cpu_usage_us: group.cpu_us, counter: group.counter };
        Ok(Look { reading, alive: group.alive, summed: false })
    }

    fn disk_mib(&mut self, _: &[PathBuf]) -> io::Result<i64> {
        let mut state = self.state();
        state.disk_looks += 1;
        Ok(state.disk_mib)
    }

    fn groups(&mut self) -> io::Result<BTreeSet<String>> {
        Ok(self.state().groups.keys().cloned().collect())
    }

    fn forget(&mut self, _: &Sandbox) {}

    fn cpus(&self) -> i64 {
        4
    }
}

/// Both clocks at an instant, the host having booted an hour before 2026-11-10T12:00:00Z.
pub(crate) fn instants(now: Time) -> Instants {
    const BOOT_MS: i64 = 1_794_308_400_000;
    Instants { boot_ms: now.0 - BOOT_MS, real: Timestamp::from_ms(now.0).expect("a time of this era") }
}
