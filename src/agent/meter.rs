//! The half of the agent that reads: documents, counters, spool and memory put together, without time or tasks of its own.
//!
//! Order: rows are in the spool before the state that speaks of them is written. While the spool does not take rows, the
//! latest of each lease waits in memory (counters are cumulative, so that loses no use, only its distribution over time),
//! and the state is not written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::clock::Instants;
use super::host::Host;
use super::registry::Registry;
use super::row::Row;
use super::sampler::{Kept, Round, Sampler, State};
use super::sandbox::{Key, Place, Sandbox};
use super::schedule::{Pace, until_reading};
use super::spool::{self, Spool, parts};
use super::state;
use crate::telemetry::agent::{AgentMetrics, raise, whole};
use crate::wire::time::show_time;

/// How often the state is written when nothing has changed, in milliseconds.
const SAVE_MS: i64 = 60_000;

/// What a meter needs to know.
#[derive(Clone, Debug)]
pub struct MeterSettings {
    /// The watched directory.
    pub sandboxes_dir: PathBuf,
    /// Where spool and state are.
    pub state_dir: PathBuf,
    /// Time between two readings, in milliseconds.
    pub interval_ms: i64,
    /// Time between two looks at a disk, in milliseconds.
    pub storage_interval_ms: i64,
    /// Most sandboxes.
    pub sandboxes_max: usize,
    /// The spool's bounds.
    pub spool: spool::Limits,
}

/// A spool that both halves of the agent use.
pub type SharedSpool = Arc<Mutex<Spool>>;

/// The spool, for a moment.
pub fn locked(spool: &SharedSpool) -> MutexGuard<'_, Spool> {
    spool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The half that reads.
#[derive(Debug)]
pub struct Meter<H> {
    settings: MeterSettings,
    boot_id: String,
    registry: Registry,
    sampler: Sampler<H>,
    spool: SharedSpool,
    /// Rows that the spool did not take yet: of each lease the latest.
    unwritten: Vec<Row>,
    metrics: AgentMetrics,
    /// Something has changed that is not written yet.
    changed: bool,
    saved_boot_ms: i64,
    /// What is wrong, for people.
    trouble: Option<String>,
}

impl<H: Host> Meter<H> {
    /// Opens everything and goes on where the last process stopped. An error when a directory can't be used, or another
    /// agent has the spool.
    pub fn open(
        settings: MeterSettings,
        host: H,
        boot_id: &str,
        metrics: AgentMetrics,
        now: Instants,
    ) -> io::Result<Self> {
        let mut registry = Registry::open(&settings.sandboxes_dir, settings.sandboxes_max)?;
        std::fs::create_dir_all(&settings.state_dir)?;
        let spool = Spool::open(&spool::directory(&settings.state_dir), settings.spool)?;
        let counts = spool.counts();
        if counts.torn_bytes > 0 || counts.damaged_bytes > 0 {
            tracing::warn!(counts.torn_bytes, counts.damaged_bytes, "the spool was mended");
        }
        let wanted = registry.refresh();
        let remembered = state::load(&settings.state_dir, boot_id, &spool, &wanted)?;
        if let Some(fault) = remembered.fault {
            tracing::warn!(fault, "what was remembered of counters is lost");
        }
        let sampler = Sampler::new(host, remembered.labels, remembered.tracks, settings.storage_interval_ms);
        let mut meter = Self {
            settings,
            boot_id: boot_id.to_owned(),
            registry,
            sampler,
            spool: Arc::new(Mutex::new(spool)),
            unwritten: Vec::new(),
            metrics,
            changed: true,
            saved_boot_ms: now.boot_ms,
            trouble: None,
        };
        // So that rows that come after it are known to be of this boot.
        meter.save(now);
        meter.show();
        Ok(meter)
    }

    /// The spool, for the half that sends.
    #[must_use]
    pub fn spool(&self) -> SharedSpool {
        Arc::clone(&self.spool)
    }

    /// The watched directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.registry.directory()
    }

    /// Milliseconds until the next round is due.
    #[must_use]
    pub fn until_round(&self, now: Instants) -> i64 {
        let filled = locked(&self.spool).filled_permille();
        let held = if self.unwritten.is_empty() { filled } else { 1_000 };
        until_reading(now.real, self.settings.interval_ms, Pace::of(held))
    }

    /// Reads changed documents and looks at all sandboxes, or only at some; the rows are on disk when it returns, or wait
    /// in memory. Answers where the counters are of those that are there now.
    pub fn round(&mut self, only: Option<&BTreeSet<Key>>, now: Instants) -> BTreeMap<Key, Place> {
        let wanted = self.registry.refresh();
        let round = self.sampler.round(&wanted, only, now);
        if only.is_none() {
            self.metrics.rounds.inc();
            self.look_for_strangers(&wanted);
        }
        self.note(&round);
        self.changed |= round.changed;
        self.write(round.rows);
        if self.changed || now.boot_ms.saturating_sub(self.saved_boot_ms) >= SAVE_MS {
            self.save(now);
        }
        if let Err(error) = locked(&self.spool).tidy(now.real.ms()) {
            self.trouble = Some(format!("the spool can't be tidied: {error}"));
        }
        self.show();
        wanted.into_iter().map(|(key, sandbox)| (key, sandbox.place)).collect()
    }

    /// Looks at the sandboxes whose documents have changed.
    pub fn follow(&mut self, now: Instants) -> BTreeMap<Key, Place> {
        let wanted = self.registry.refresh();
        let kept = self.sampler.kept();
        let new = wanted.iter().filter(|(key, sandbox)| kept.get(*key).is_none_or(|kept| kept.sandbox != **sandbox));
        let gone = kept.keys().filter(|key| !wanted.contains_key(*key));
        let changed: BTreeSet<Key> = new.map(|(key, _)| key).chain(gone).cloned().collect();
        self.round(Some(&changed), now)
    }

    /// Takes a sandbox's document; its baseline is on disk when it returns.
    pub fn put(&mut self, sandbox: &Sandbox, now: Instants) -> io::Result<()> {
        self.registry.put(sandbox)?;
        self.round(Some(&BTreeSet::from([sandbox.key.clone()])), now);
        self.written()
    }

    /// Finishes a sandbox and removes its document; its last reading is on disk when it returns. `false`: there is none.
    pub fn remove(&mut self, key: &Key, now: Instants) -> io::Result<bool> {
        let there = self.registry.remove(key)?;
        self.round(Some(&BTreeSet::from([key.clone()])), now);
        self.written().map(|()| there)
    }

    fn written(&self) -> io::Result<()> {
        if self.unwritten.is_empty() { Ok(()) } else { Err(io::Error::other("the spool does not take samples")) }
    }

    /// Every sandbox as it is seen, for people.
    #[must_use]
    pub fn list(&self) -> Value {
        let item = |kept: &Kept| {
            let mut item = kept.sandbox.to_json();
            if let Some(object) = item.as_object_mut() {
                let counter = kept.track.counter.filter(|_| kept.track.begun);
                object.insert("state".to_owned(), kept.state().name().into());
                object.insert("cpu_usage_usec".to_owned(), counter.map(|counter| counter.cpu_usage_us).into());
                object.insert("epoch".to_owned(), counter.map(|counter| counter.epoch).into());
                object.insert("read_at".to_owned(), counter.map(|counter| show_time(counter.at)).into());
                object.insert("fault".to_owned(), kept.fault.clone().into());
            }
            item
        };
        let items: Vec<Value> = self.sampler.kept().values().map(item).collect();
        json!({"items": items, "faults": self.faults()})
    }

    /// What is wrong now, for people.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let of_one = |(key, kept): (&Key, &Kept)| Some(format!("{}: {}", key.sandbox, kept.fault.as_ref()?));
        let sandboxes = self.sampler.kept().iter().filter_map(of_one);
        self.trouble.iter().cloned().chain(self.registry.faults()).chain(sandboxes).collect()
    }

    /// The server has refused labels as being of the future.
    pub fn release_labels(&mut self) {
        self.sampler.release_labels();
    }

    /// The host.
    pub fn host(&mut self) -> &mut H {
        self.sampler.host()
    }

    /// The sandboxes as they were seen last.
    #[must_use]
    pub fn kept(&self) -> &BTreeMap<Key, Kept> {
        self.sampler.kept()
    }

    /// Writes the rows of a round, and those that wait.
    fn write(&mut self, rows: Vec<Row>) {
        self.unwritten.extend(rows);
        if self.unwritten.is_empty() {
            return;
        }
        let mut all: Vec<&Row> = self.unwritten.iter().collect();
        all.sort_by_key(|row| row.at);
        let at_ms = all.last().map_or(0, |row| row.at.ms());
        let lines: Vec<String> = all.into_iter().map(ToString::to_string).collect();
        let count = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let appended = parts(&lines, at_ms).map_err(Into::into).and_then(|parts| locked(&self.spool).append(&parts));
        match appended {
            Ok(()) => {
                self.metrics.spooled.inc_by(count);
                self.unwritten.clear();
                if self.trouble.take().is_some() {
                    tracing::info!(samples = count, "the spool takes samples again");
                }
            }
            Err(error) => {
                self.metrics.spool_refused.inc();
                self.thin();
                tracing::error!(%error, waiting = self.unwritten.len(), "samples wait in memory");
                self.trouble = Some(error.to_string());
            }
        }
    }

    /// Of the rows that wait, keeps those that no later one makes needless.
    fn thin(&mut self) {
        let before = self.unwritten.len();
        let mut latest = BTreeSet::new();
        let mut kept: Vec<Row> = Vec::with_capacity(before);
        for row in std::mem::take(&mut self.unwritten).into_iter().rev() {
            if latest.insert(row.thinned_by()) {
                kept.push(row);
            }
        }
        kept.reverse();
        let thinned = before.saturating_sub(kept.len());
        self.metrics.thinned.inc_by(u64::try_from(thinned).unwrap_or(u64::MAX));
        self.unwritten = kept;
    }

    /// Writes what is to be remembered, unless rows that it speaks of are not on disk.
    pub fn save(&mut self, now: Instants) {
        if !self.unwritten.is_empty() {
            return;
        }
        match state::save(&self.settings.state_dir, &self.boot_id, self.sampler.labels(), self.sampler.kept()) {
            Ok(()) => {
                self.changed = false;
                self.saved_boot_ms = now.boot_ms;
            }
            Err(error) => {
                tracing::error!(%error, "the counters' state can't be written");
                self.trouble = Some(format!("the counters' state can't be written: {error}"));
            }
        }
    }

    fn note(&self, round: &Round) {
        if let Some(step_ms) = round.clock_step_ms {
            tracing::warn!(step_ms, "the calendar's clock has stepped; labels stay in order");
            self.metrics.clock_steps.inc();
            self.metrics.clock_step_ms.set(step_ms);
        }
        self.metrics.epochs.inc_by(round.new_epochs);
        self.metrics.went_back.inc_by(round.went_back);
        self.metrics.last_missed.inc_by(round.last_missed);
        if round.went_back > 0 {
            tracing::warn!(sandboxes = round.went_back, "counters say less than before; held until the next reading");
        }
    }

    /// Groups that no document names: somebody runs what nobody pays.
    fn look_for_strangers(&mut self, wanted: &BTreeMap<Key, Sandbox>) {
        let named: BTreeSet<&str> = wanted
            .values()
            .filter_map(|sandbox| match &sandbox.place {
                Place::Group(name) => Some(name.as_str()),
                Place::Directory(path) => path.file_name().and_then(|name| name.to_str()),
                Place::Process(_) => None,
            })
            .collect();
        // A root that is not there yet has no groups: the jailer makes it with the first.
        let groups = self.sampler.host().groups().unwrap_or_default();
        let strangers = groups.iter().filter(|name| !named.contains(name.as_str())).count();
        self.metrics.groups_unknown.set(i64::try_from(strangers).unwrap_or(i64::MAX));
    }

    fn show(&self) {
        let states = [State::Waiting, State::Running, State::Ended, State::Resting];
        for state in states {
            let count = self.sampler.kept().values().filter(|kept| kept.state() == state).count();
            self.metrics.sandboxes.with_label_values(&[state.name()]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.metrics.faults.set(i64::try_from(self.faults().len()).unwrap_or(i64::MAX));
        self.metrics.unwritten.set(i64::try_from(self.unwritten.len()).unwrap_or(i64::MAX));
        let spool = locked(&self.spool);
        let counts = spool.counts();
        raise(&self.metrics.given_up, counts.given_up_rows);
        raise(&self.metrics.torn_bytes, counts.torn_bytes);
        raise(&self.metrics.damaged_bytes, counts.damaged_bytes);
        self.metrics.spool_bytes.set(whole(spool.bytes()));
        self.metrics.unanswered.set(whole(spool.unanswered_rows()));
        let filled = if self.unwritten.is_empty() { spool.filled_permille() } else { 1_000 };
        self.metrics.slowed.set(Pace::of(filled).level());
    }
}
