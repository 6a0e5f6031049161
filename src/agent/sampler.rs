//! A round of readings: every sandbox is looked at once, and rows come of it.
//!
//! All rows of a round have one label. What a sandbox's document changed since the last round is done here too: a lease
//! that is not there any more is finished with a last reading, a new one begins with its baseline.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::{Instants, Labels};
use super::epochs::{Noticed, Taken, Track};
use super::host::Host;
use super::row::{Row, Running};
use super::sandbox::{Key, LeaseTerms, Sandbox};
use super::source::SourceError;
use crate::domain::time::Timestamp;

/// A sandbox as the sampler knows it.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What its document says.
    pub sandbox: Sandbox,
    /// Its counter.
    pub track: Track,
    /// When its disk was looked at last, on the boot clock.
    storage_boot_ms: Option<i64>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

/// What a sandbox does, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a lease, but nothing of it runs yet.
    Waiting,
    /// It runs.
    Running,
    /// Its lease's last reading was taken.
    Ended,
    /// It has no lease.
    Resting,
}

impl State {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Resting => "resting",
        }
    }
}

impl Kept {
    /// What it does.
    #[must_use]
    pub fn state(&self) -> State {
        match (&self.track.lease, self.track.begun, self.track.ended) {
            (None, _, _) => State::Resting,
            (Some(_), false, _) => State::Waiting,
            (Some(_), true, false) => State::Running,
            (Some(_), true, true) => State::Ended,
        }
    }
}

/// What a round brought.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Rows to be sent, baselines before readings.
    pub rows: Vec<Row>,
    /// The step that the calendar's clock has made since the last round, in milliseconds.
    pub clock_step_ms: Option<i64>,
    /// Whether something was noticed that must be kept before long: a lease, an epoch, an end.
    pub changed: bool,
    /// Counters that were another one.
    pub new_epochs: u64,
    /// Readings below the one before.
    pub went_back: u64,
    /// Groups that were gone before a last reading could be taken.
    pub last_missed: u64,
    /// Counters and disks that could not be read.
    pub unreadable: u64,
}

/// Takes readings.
#[derive(Debug)]
pub struct Sampler<H> {
    host: H,
    labels: Labels,
    kept: BTreeMap<Key, Kept>,
    storage_interval_ms: i64,
}

impl<H: Host> Sampler<H> {
    /// A sampler that goes on where an earlier one stopped: with its tracks and after its labels.
    #[must_use]
    pub fn new(host: H, labels: Labels, tracks: BTreeMap<Key, (Sandbox, Track)>, storage_interval_ms: i64) -> Self {
        let kept = |(sandbox, track)| Kept { sandbox, track, storage_boot_ms: None, fault: None };
        let kept = tracks.into_iter().map(|(key, track)| (key, kept(track))).collect();
        Self { host, labels, kept, storage_interval_ms }
    }

    /// The sandboxes as they were seen last.
    #[must_use]
    pub fn kept(&self) -> &BTreeMap<Key, Kept> {
        &self.kept
    }

    /// The labels that were given.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.labels
    }

    /// The server has refused labels as being of the future: they hold no later ones.
    pub fn release_labels(&mut self) {
        self.labels.release();
    }

    /// The host.
    pub fn host(&mut self) -> &mut H {
        &mut self.host
    }

    /// Looks at the sandboxes that are wanted, or only at some of them; what is not wanted any more is finished.
    pub fn round(&mut self, wanted: &BTreeMap<Key, Sandbox>, only: Option<&BTreeSet<Key>>, now: Instants) -> Round {
        let (label, clock_step_ms) = self.labels.label(now);
        let mut round = Round { clock_step_ms, ..Round::default() };
        let in_scope = |key: &Key| only.is_none_or(|only| only.contains(key));
        let gone: Vec<Key> =
            self.kept.keys().filter(|key| in_scope(key) && !wanted.contains_key(*key)).cloned().collect();
        for key in gone {
            if let Some(mut kept) = self.kept.remove(&key) {
                self.finish(&mut kept, label, now, &mut round);
                self.host.forget(&kept.sandbox);
                round.changed = true;
            }
        }
        for (key, sandbox) in wanted.iter().filter(|(key, _)| in_scope(key)) {
            let mut kept = self.kept.remove(key).unwrap_or_else(|| new(sandbox));
            self.follow(&mut kept, sandbox, label, now, &mut round);
            self.look(&mut kept, label, now, &mut round);
            self.kept.insert(key.clone(), kept);
        }
        round
    }

    /// Does what a document has changed.
    fn follow(&mut self, kept: &mut Kept, sandbox: &Sandbox, label: Timestamp, now: Instants, round: &mut Round) {
        let lease = sandbox.lease.as_ref().map(|lease| &lease.id);
        if kept.track.lease.as_ref() != lease {
            self.finish(kept, label, now, round);
            kept.track.begin(lease);
            round.changed = true;
        }
        if kept.sandbox.place != sandbox.place {
            self.host.forget(&kept.sandbox);
        }
        if kept.sandbox != *sandbox {
            kept.sandbox = sandbox.clone();
        }
    }

    /// Takes the last reading of a lease that is not there any more.
    fn finish(&mut self, kept: &mut Kept, label: Timestamp, now: Instants, round: &mut Round) {
        let Some(terms) = kept.sandbox.lease.clone().filter(|_| !kept.track.ended) else { return };
        match self.host.look(&kept.sandbox, now) {
            Ok(look) => {
                let taken = kept.track.take(&terms, look, label, self.host.cpus());
                note(taken.noticed, round);
                let storage_mib = self.storage(kept, now, true, round);
                give(kept, &terms, taken, storage_mib, round);
            }
            Err(error) => unreadable(kept, &error, round),
        }
    }

    fn look(&mut self, kept: &mut Kept, label: Timestamp, now: Instants, round: &mut Round) {
        let looked = self.host.look(&kept.sandbox, now);
        let Some(terms) = kept.sandbox.lease.clone() else {
            if let Ok(look) = looked {
                kept.track.rest(look, label);
            }
            return self.rest(kept, label, now, round);
        };
        kept.fault = None;
        let (begun, ended) = (kept.track.begun, kept.track.ended);
        match looked {
            Ok(look) => {
                let taken = kept.track.take(&terms, look, label, self.host.cpus());
                note(taken.noticed, round);
                if taken.given.is_empty() {
                    if kept.track.ended {
                        self.rest(kept, label, now, round);
                    }
                } else {
                    let storage_mib = self.storage(kept, now, kept.track.ended || !begun, round);
                    give(kept, &terms, taken, storage_mib, round);
                }
            }
            Err(error) => {
                unreadable(kept, &error, round);
                if kept.track.ended {
                    self.rest(kept, label, now, round);
                }
            }
        }
        round.changed |= (kept.track.begun, kept.track.ended) != (begun, ended);
    }

    /// The disk of a sandbox without a reading of its own.
    fn rest(&mut self, kept: &mut Kept, label: Timestamp, now: Instants, round: &mut Round) {
        if let Some(storage_mib) = self.storage(kept, now, false, round) {
            round.rows.push(Row {
                key: kept.sandbox.key.clone(),
                at: label,
                running: None,
                storage_mib: Some(storage_mib),
            });
        }
    }

    /// The disk of a sandbox, if it is time for a look at it.
    fn storage(&mut self, kept: &mut Kept, now: Instants, always: bool, round: &mut Round) -> Option<i64> {
        // Rounds are on a grid, but come some milliseconds late: half a second early is in time.
        let since_ms = kept.storage_boot_ms.map(|last| now.boot_ms.saturating_sub(last).saturating_add(500));
        let due = since_ms.is_none_or(|since| since >= self.storage_interval_ms);
        if kept.sandbox.files.is_empty() || !(due || always) {
            return None;
        }
        kept.storage_boot_ms = Some(now.boot_ms);
        match self.host.disk_mib(&kept.sandbox.files) {
            Ok(mib) => Some(mib),
            Err(error) => {
                kept.fault = Some(format!("its disk can't be measured: {error}"));
                round.unreadable = round.unreadable.saturating_add(1);
                None
            }
        }
    }
}

fn new(sandbox: &Sandbox) -> Kept {
    // Without the lease, so that it begins as a change does.
    let track = Track::default();
    Kept { sandbox: Sandbox { lease: None, ..sandbox.clone() }, track, storage_boot_ms: None, fault: None }
}

fn unreadable(kept: &mut Kept, error: &SourceError, round: &mut Round) {
    match error {
        // Before it runs there is nothing to be gone.
        SourceError::Gone(_) if !kept.track.begun || kept.track.ended => {}
        SourceError::Gone(_) => {
            kept.track.ended = true;
            kept.fault = Some("its group was gone before the last reading could be taken".to_owned());
            round.last_missed = round.last_missed.saturating_add(1);
        }
        SourceError::Unreadable { .. } | SourceError::Malformed { .. } => {
            kept.fault = Some(error.to_string());
            round.unreadable = round.unreadable.saturating_add(1);
        }
    }
}

/// Counts what was noticed.
fn note(noticed: Noticed, round: &mut Round) {
    match noticed {
        Noticed::Nothing | Noticed::Glitch => {}
        Noticed::NewEpoch => {
            round.new_epochs = round.new_epochs.saturating_add(1);
            round.changed = true;
        }
        Noticed::WentBack => round.went_back = round.went_back.saturating_add(1),
    }
}

/// Makes rows of readings; the disk goes with the last.
fn give(kept: &Kept, terms: &LeaseTerms, taken: Taken, storage_mib: Option<i64>, round: &mut Round) {
    let last = taken.given.last().map(|given| given.at);
    for given in taken.given {
        let running = Running {
            lease: terms.id.clone(),
            cpu_usage_us: given.cpu_usage_us,
            epoch: given.epoch,
            memory: terms.memory,
            baseline: given.at <= terms.starts_at,
        };
        let storage_mib = storage_mib.filter(|_| last == Some(given.at));
        round.rows.push(Row { key: kept.sandbox.key.clone(), at: given.at, running: Some(running), storage_mib });
    }
}
