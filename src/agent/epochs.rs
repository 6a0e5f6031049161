//! One sandbox's counter: where it began for a lease, which readings may be sent, and when it is another one. Pure.
//!
//! - **Baseline.** The first reading of a lease is one at its start (or up to a minute before): what the counter said then. A
//!   counter that was there before is known from the look before the start, or taken to have stood as it stands now; a new
//!   one began at 0.
//! - **Epoch.** The first counter of a lease has the lease's start (ms) as its epoch, so an agent that has lost its state
//!   says the same again. Another counter (the group was made again, the host booted) has the time of its first reading.
//!   An agent's restart changes nothing, since this is kept on disk.
//! - **A counter that goes back** under the same name is either a glitch or a restored one. The lower reading is held until
//!   the next: is that lower too, both are sent, as a new epoch; is it not, the lower one was a glitch and is dropped.
//! - **The last reading** is the one that finds nothing running any more; after it nothing is sent until something runs again.

use super::sandbox::LeaseTerms;
use super::source::Look;
use crate::domain::id::LeaseId;
use crate::domain::time::Timestamp;

/// How long before a lease's start its baseline may be: the ledger's own rule.
const BASELINE_MS_MAX: i64 = 60_000;
/// What a counter may say more than the time since its lease's start could make, in microseconds, and still be new: the
/// kernel accounts in steps.
const NEW_SLACK_US: i64 = 1_000_000;

/// Which counter was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The one of this number.
    Known(u64),
    /// The one that is there, whatever its number: it was read, but its number was not kept.
    Adopt,
    /// None that can be there still: the host has booted since.
    Gone,
}

/// A counter as it was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Which one.
    pub name: Name,
    /// Its epoch in the lease.
    pub epoch: i64,
    /// What it said, in microseconds.
    pub cpu_usage_us: i64,
    /// The label of that reading.
    pub at: Timestamp,
}

/// A reading to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its label.
    pub at: Timestamp,
    /// Its epoch.
    pub epoch: i64,
    /// What the counter says, in microseconds.
    pub cpu_usage_us: i64,
}

/// What was noticed about a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// Nothing out of the ordinary.
    Nothing,
    /// It is another counter: a new epoch.
    NewEpoch,
    /// It says less than before; held until the next reading.
    WentBack,
    /// What it said before this reading was a glitch.
    Glitch,
}

/// What may be sent after a look: at most two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In the order of their labels.
    pub given: Vec<Given>,
    /// What was noticed.
    pub noticed: Noticed,
}

impl Taken {
    fn nothing() -> Self {
        Self { given: Vec::new(), noticed: Noticed::Nothing }
    }
}

/// A sandbox's counter over its leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The lease that runs it.
    pub lease: Option<LeaseId>,
    /// Whether the lease's baseline was given.
    pub begun: bool,
    /// Whether the lease's last reading was taken.
    pub ended: bool,
    /// The counter.
    pub counter: Option<Counter>,
    /// A lower reading that waits for the next.
    held: Option<(Timestamp, i64)>,
}

impl Track {
    /// Another lease runs the sandbox from now on, or none; its counter may go on.
    pub fn begin(&mut self, lease: Option<&LeaseId>) {
        self.lease = lease.cloned();
        self.begun = false;
        self.ended = false;
        self.held = None;
    }

    /// A look at a sandbox at rest: what a lease that begins later takes its baseline from.
    pub fn rest(&mut self, look: Look, label: Timestamp) {
        let reading = look.reading;
        let name = Name::Known(reading.counter);
        self.counter = Some(Counter { name, epoch: 0, cpu_usage_us: reading.cpu_usage_us, at: label });
    }

    /// A look at a running sandbox. `cpus`: what the host has, which bounds what a new counter can say.
    pub fn take(&mut self, terms: &LeaseTerms, look: Look, label: Timestamp, cpus: i64) -> Taken {
        if !self.begun {
            return self.first(terms, look, label, cpus);
        }
        let reading = look.reading;
        let Some(last) = self.counter else { return self.first(terms, look, label, cpus) };
        let same = match last.name {
            Name::Known(number) => number == reading.counter,
            Name::Adopt => true,
            Name::Gone => false,
        };
        if !look.alive && (if same { self.ended } else { reading.cpu_usage_us == 0 }) {
            // Nothing has run since the last reading, or nothing has run yet in a group made again.
            return Taken::nothing();
        }
        let cpu_usage_us =
            if look.summed && same { reading.cpu_usage_us.max(last.cpu_usage_us) } else { reading.cpu_usage_us };
        let name = Name::Known(reading.counter);
        let mut noticed = Noticed::Nothing;
        let mut given = Vec::with_capacity(2);
        let mut epoch = last.epoch;
        if !same {
            epoch = label.ms().max(last.epoch.saturating_add(1));
            noticed = Noticed::NewEpoch;
            self.held = None;
        } else if cpu_usage_us < last.cpu_usage_us {
            match self.held {
                Some((at, lower)) if lower <= cpu_usage_us => {
                    epoch = at.ms().max(last.epoch.saturating_add(1));
                    given.push(Given { at, epoch, cpu_usage_us: lower });
                    noticed = Noticed::NewEpoch;
                    self.held = None;
                }
                Some(_) | None => {
                    self.held = Some((label, cpu_usage_us));
                    self.counter = Some(Counter { name, ..last });
                    self.ended = !look.alive;
                    return Taken { given, noticed: Noticed::WentBack };
                }
            }
        } else if self.held.take().is_some() {
            noticed = Noticed::Glitch;
        }
        given.push(Given { at: label, epoch, cpu_usage_us });
        self.counter = Some(Counter { name, epoch, cpu_usage_us, at: label });
        self.ended = !look.alive;
        Taken { given, noticed }
    }

    /// The first look at a lease: its baseline, and the reading itself.
    fn first(&mut self, terms: &LeaseTerms, look: Look, label: Timestamp, cpus: i64) -> Taken {
        let reading = look.reading;
        let starts = terms.starts_at;
        let early_ms = starts.since(label);
        if early_ms > BASELINE_MS_MAX {
            self.rest(look, label);
            return Taken::nothing();
        }
        let base = if early_ms >= 0 { (label, reading.cpu_usage_us) } else { self.baseline(starts, look, label, cpus) };
        if !look.alive && reading.cpu_usage_us == base.1 {
            // Nothing has run yet: the group was made before its first process.
            return Taken::nothing();
        }
        let epoch = starts.ms();
        let mut given = vec![Given { at: base.0, epoch, cpu_usage_us: base.1 }];
        if label > base.0 {
            given.push(Given { at: label, epoch, cpu_usage_us: reading.cpu_usage_us });
        }
        let name = Name::Known(reading.counter);
        self.counter = Some(Counter { name, epoch, cpu_usage_us: reading.cpu_usage_us, at: label });
        self.begun = true;
        self.ended = !look.alive;
        self.held = None;
        Taken { given, noticed: Noticed::Nothing }
    }

    /// What the counter said at the start, and the label under which that is told.
    fn baseline(&self, starts: Timestamp, look: Look, label: Timestamp, cpus: i64) -> (Timestamp, i64) {
        let now_us = look.reading.cpu_usage_us;
        let same =
            |counter: &Counter| counter.name == Name::Known(look.reading.counter) && counter.cpu_usage_us <= now_us;
        if let Some(known) = self.counter.filter(same) {
            let before_ms = starts.since(known.at);
            return match before_ms {
                0..=BASELINE_MS_MAX => (known.at, known.cpu_usage_us),
                // It was read after the start already (by the lease before).
                ..0 => (starts, known.cpu_usage_us),
                // Too long ago: what it has counted since may be from before the start.
                _ => (starts, now_us),
            };
        }
        let most_us = label.since(starts).saturating_mul(1_000).saturating_mul(cpus).saturating_add(NEW_SLACK_US);
        (starts, if now_us <= most_us { 0 } else { now_us })
    }
}

#[cfg(test)]
mod tests {
    use super::{Given, Name, Noticed, Track};
    use crate::agent::sandbox::LeaseTerms;
    use crate::agent::source::{Look, Reading};
    use crate::domain::id::LeaseId;
    use crate::domain::time::Timestamp;

    const START_S: i64 = 1_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ms((START_S + seconds) * 1_000).unwrap()
    }

    fn lease() -> LeaseTerms {
        LeaseTerms { id: LeaseId::parse("l").unwrap(), starts_at: at(0), memory: None }
    }

    fn look(counter: u64, cpu_s: i64, alive: bool) -> Look {
        Look { reading: Reading { cpu_usage_us: cpu_s * 1_000_000, counter }, alive, summed: false }
    }

    /// (seconds after the start, epoch less the start's, CPU seconds) of what is given.
    fn take(track: &mut Track, seconds: i64, look: Look) -> (Vec<(i64, i64, i64)>, Noticed) {
        let taken = track.take(&lease(), look, at(seconds), 2);
        let short = |given: &Given| {
            (given.at.since(at(0)) / 1_000, (given.epoch - at(0).ms()) / 1_000, given.cpu_usage_us / 1_000_000)
        };
        (taken.given.iter().map(short).collect(), taken.noticed)
    }

    fn begun() -> Track {
        let mut track = Track::default();
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, 10, look(7, 5, true)), (vec![(0, 0, 0), (10, 0, 5)], Noticed::Nothing));
        track
    }

    #[test]
    fn a_new_counter_began_at_nothing_when_the_lease_did() {
        begun();
    }

    #[test]
    fn a_counter_that_goes_on_begins_where_it_stood() {
        // Looked at while it rested, half a minute before.
        let mut track = Track::default();
        track.rest(look(7, 1_800, true), at(-30));
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, 2, look(7, 1_801, true)).0, [(-30, 0, 1_800), (2, 0, 1_801)]);
        // Long ago: it is taken to have stood as it stands.
        let mut track = Track::default();
        track.rest(look(7, 1_800, true), at(-300));
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, 2, look(7, 1_900, true)).0, [(0, 0, 1_900), (2, 0, 1_900)]);
        // Never: it says more than anything could have made since.
        let mut track = Track::default();
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, 2, look(7, 1_800, true)).0, [(0, 0, 1_800), (2, 0, 1_800)]);
        // Read by the lease before, after this one's start.
        let mut track = Track::default();
        track.rest(look(7, 1_800, true), at(1));
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, 2, look(7, 1_801, true)).0, [(0, 0, 1_800), (2, 0, 1_801)]);
    }

    #[test]
    fn a_look_before_the_start_is_the_baseline_itself() {
        let mut track = Track::default();
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, -61, look(7, 4, true)).0, []);
        assert_eq!(take(&mut track, -60, look(7, 5, true)).0, [(-60, 0, 5)]);
        assert_eq!(take(&mut track, 0, look(7, 6, true)).0, [(0, 0, 6)]);
    }

    #[test]
    fn a_group_made_again_is_a_new_epoch_and_an_agents_restart_is_none() {
        let mut track = begun();
        let mut kept = track.clone();
        assert_eq!(take(&mut kept, 20, look(7, 9, true)), (vec![(20, 0, 9)], Noticed::Nothing));
        assert_eq!(take(&mut track, 20, look(8, 0, false)).0, [], "made, but nothing runs in it yet");
        assert_eq!(take(&mut track, 30, look(8, 3, true)), (vec![(30, 30, 3)], Noticed::NewEpoch));
        assert_eq!(take(&mut track, 40, look(8, 4, true)), (vec![(40, 30, 4)], Noticed::Nothing));
        // Another one although the clock stands behind the epoch.
        assert_eq!(take(&mut track, 29, look(9, 1, true)).0, [(29, 30, 1)]);
        assert_eq!(track.counter.unwrap().epoch, at(30).ms() + 1);
    }

    #[test]
    fn a_boot_ends_a_counter_whatever_its_number() {
        let mut track = begun();
        track.counter = track.counter.map(|counter| super::Counter { name: Name::Gone, ..counter });
        assert_eq!(take(&mut track, 50, look(7, 6, true)), (vec![(50, 50, 6)], Noticed::NewEpoch));
        let mut track = begun();
        track.counter = track.counter.map(|counter| super::Counter { name: Name::Adopt, ..counter });
        assert_eq!(take(&mut track, 50, look(9, 6, true)), (vec![(50, 0, 6)], Noticed::Nothing));
    }

    #[test]
    fn a_glitch_is_dropped_and_a_restored_counter_is_a_new_epoch() {
        let mut track = begun();
        assert_eq!(take(&mut track, 20, look(7, 0, true)), (vec![], Noticed::WentBack));
        assert_eq!(take(&mut track, 30, look(7, 8, true)), (vec![(30, 0, 8)], Noticed::Glitch));
        assert_eq!(take(&mut track, 40, look(7, 2, true)).1, Noticed::WentBack);
        assert_eq!(take(&mut track, 50, look(7, 3, true)), (vec![(40, 40, 2), (50, 40, 3)], Noticed::NewEpoch));
        // It goes back each time: only what goes on from a reading shows that the reading was right.
        assert_eq!(take(&mut track, 60, look(7, 2, true)).1, Noticed::WentBack);
        assert_eq!(take(&mut track, 70, look(7, 1, true)).1, Noticed::WentBack);
        assert_eq!(take(&mut track, 80, look(7, 1, true)).0, [(70, 70, 1), (80, 70, 1)]);
    }

    #[test]
    fn a_sum_that_falls_is_held_at_its_most() {
        let mut track = begun();
        let fallen = Look { summed: true, ..look(7, 1, true) };
        assert_eq!(take(&mut track, 20, fallen), (vec![(20, 0, 5)], Noticed::Nothing));
    }

    #[test]
    fn after_the_last_reading_nothing_is_given_until_something_runs_again() {
        let mut track = begun();
        assert_eq!(take(&mut track, 20, look(7, 6, false)).0, [(20, 0, 6)]);
        assert!(track.ended);
        assert_eq!(take(&mut track, 30, look(7, 6, false)).0, []);
        assert_eq!(take(&mut track, 40, look(7, 7, true)).0, [(40, 0, 7)]);
        assert!(!track.ended);
    }

    #[test]
    fn a_life_that_no_look_saw_running_is_given_whole() {
        let mut track = Track::default();
        track.begin(Some(&lease().id));
        assert_eq!(take(&mut track, 1, look(7, 0, false)).0, [], "made before its first process");
        assert_eq!(take(&mut track, 3, look(7, 2, false)).0, [(0, 0, 0), (3, 0, 2)]);
        assert!(track.ended);
    }
}
