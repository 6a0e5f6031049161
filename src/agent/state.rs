//! What the agent remembers of counters over a restart: `state.json`, written as a whole in place of the one before.
//!
//! It is written after the rows that it speaks of are in the spool: at every change of a lease or an epoch, and once a
//! minute. What the spool has beyond it is read from there at the start, so a kill between the two loses nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::clock::Labels;
use super::epochs::{Counter, Name, Track};
use super::registry::write_durably;
use super::row::read_running;
use super::sampler::Kept;
use super::sandbox::{Key, Sandbox};
use super::spool::Spool;
use crate::domain::id::LeaseId;
use crate::domain::time::Timestamp;

const FILE: &str = "state.json";
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    boot_id: String,
    label_ms: i64,
    boot_ms: i64,
    sandboxes: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    document: serde_json::Value,
    lease: Option<String>,
    begun: bool,
    ended: bool,
    counter: Option<CounterEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CounterEntry {
    /// Null: the one that is there.
    number: Option<u64>,
    epoch: i64,
    cpu_usage_usec: i64,
    at_ms: i64,
}

/// What was remembered.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Counters, with the documents as they were.
    pub tracks: BTreeMap<Key, (Sandbox, Track)>,
    /// Labels that go on after those that were given.
    pub labels: Labels,
    /// What could not be used of the file.
    pub fault: Option<String>,
}

/// Writes what is to be remembered.
pub fn save(directory: &Path, boot_id: &str, labels: Labels, kept: &BTreeMap<Key, Kept>) -> io::Result<()> {
    let entry = |kept: &Kept| Entry {
        document: kept.sandbox.to_json(),
        lease: kept.track.lease.as_ref().map(ToString::to_string),
        begun: kept.track.begun,
        ended: kept.track.ended,
        counter: kept.track.counter.filter(|counter| counter.name != Name::Gone).map(|counter| CounterEntry {
            number: if let Name::Known(number) = counter.name { Some(number) } else { None },
            epoch: counter.epoch,
            cpu_usage_usec: counter.cpu_usage_us,
            at_ms: counter.at.ms(),
        }),
    };
    let document = Document {
        version: VERSION,
        boot_id: boot_id.to_owned(),
        label_ms: labels.last().map_or(0, Timestamp::ms),
        boot_ms: labels.last_boot_ms().unwrap_or(0),
        sandboxes: kept.values().map(entry).collect(),
    };
    write_durably(directory, FILE, &serde_json::to_vec(&document)?)
}

/// Reads what was remembered, and what the spool has beyond it. `wanted`: the documents as they are now.
pub fn load(directory: &Path, boot_id: &str, spool: &Spool, wanted: &BTreeMap<Key, Sandbox>) -> io::Result<Remembered> {
    let text = match std::fs::read(directory.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Remembered::default()),
        Err(error) => return Err(error),
    };
    let document: Document = match serde_json::from_slice(&text) {
        Ok(document) => document,
        Err(error) => {
            let fault = Some(format!("{FILE} can't be read, epochs are the leases' own again: {error}"));
            return Ok(Remembered { fault, ..Remembered::default() });
        }
    };
    let same_boot = document.boot_id == boot_id;
    let mut tracks = BTreeMap::new();
    for entry in document.sandboxes {
        if let Some((sandbox, track)) = entry.read(same_boot) {
            tracks.insert(sandbox.key.clone(), (sandbox, track));
        }
    }
    let mut newest_ms = document.label_ms;
    spool.rows_after(document.label_ms, &mut |row| {
        let Some((key, lease, reading)) = read_running(row) else { return };
        newest_ms = newest_ms.max(reading.at.ms());
        let (cpu_usage_us, epoch, at) = (reading.cpu_usage_us, reading.epoch, reading.at);
        let entry = match tracks.get_mut(&key) {
            Some((_, track)) if track.lease.as_ref() == Some(&lease) => Some(track),
            _ => adopt(&mut tracks, wanted, &key, &lease),
        };
        if let Some(track) = entry {
            let before = track.counter.filter(|before| before.epoch == epoch && track.begun);
            let adopted = if same_boot { Name::Adopt } else { Name::Gone };
            let name = before.map_or(adopted, |before| before.name);
            if before.is_none_or(|before| before.at <= at) {
                track.counter = Some(Counter { name, epoch, cpu_usage_us, at });
            }
            track.begun = true;
        }
    })?;
    let newest = Timestamp::EPOCH.near(newest_ms);
    let boot_ms = document.boot_ms.saturating_add(newest_ms.saturating_sub(document.label_ms));
    let labels = if newest_ms > 0 { Labels::after(newest, same_boot.then_some(boot_ms)) } else { Labels::default() };
    Ok(Remembered { tracks, labels, fault: None })
}

/// A lease that began after the last time that the file was written.
fn adopt<'a>(
    tracks: &'a mut BTreeMap<Key, (Sandbox, Track)>,
    wanted: &BTreeMap<Key, Sandbox>,
    key: &Key,
    lease: &LeaseId,
) -> Option<&'a mut Track> {
    let sandbox = wanted.get(key).filter(|sandbox| sandbox.lease.as_ref().is_some_and(|terms| terms.id == *lease))?;
    let mut track = Track::default();
    track.begin(Some(lease));
    tracks.insert(key.clone(), (sandbox.clone(), track));
    tracks.get_mut(key).map(|(_, track)| track)
}

impl Entry {
    /// `None` where it is not what this program has written.
    fn read(self, same_boot: bool) -> Option<(Sandbox, Track)> {
        let sandbox = Sandbox::read(self.document.to_string().as_bytes()).ok()?;
        let mut track = Track::default();
        let lease = self.lease.map(|lease| LeaseId::parse(&lease)).transpose().ok()?;
        track.begin(lease.as_ref());
        track.begun = self.begun;
        track.ended = self.ended;
        track.counter = self.counter.and_then(|counter| {
            let name = match (same_boot, counter.number) {
                (false, _) => Name::Gone,
                (true, Some(number)) => Name::Known(number),
                (true, None) => Name::Adopt,
            };
            let at = Timestamp::from_ms(counter.at_ms)?;
            Some(Counter { name, epoch: counter.epoch, cpu_usage_us: counter.cpu_usage_usec, at })
        });
        Some((sandbox, track))
    }
}
