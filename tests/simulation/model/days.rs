//! Days of keys and accounts: what was used, what is held.

use std::collections::BTreeMap;

use runtab::domain::usage::Usage;

use super::{Account, DAY, HOUR, minus, plus, usage};

/// Used and held.
pub(crate) type Day = (Usage, Usage);

impl Account {
    /// All days of all keys.
    pub(crate) fn key_days(&self) -> BTreeMap<(String, i64), Day> {
        let mut days: BTreeMap<(String, i64), Day> = BTreeMap::new();
        for lease in self.leases.values() {
            for (hour, posted) in &lease.posted {
                let day = days.entry((lease.key.clone(), hour * HOUR / DAY)).or_default();
                day.0 = plus(day.0, minus(posted.usage, posted.free));
            }
            for (at, held) in usage::held_by_day(lease, self) {
                let day = days.entry((lease.key.clone(), at)).or_default();
                day.1 = plus(day.1, held);
            }
        }
        for life in self.sandboxes.values().flatten() {
            for ((hour, key), mib_ms) in &life.stored {
                let day = days.entry((key.clone(), hour * HOUR / DAY)).or_default();
                day.0.storage_mib_ms += mib_ms;
            }
        }
        days
    }

    /// The sum over all keys.
    pub(crate) fn account_days(days: &BTreeMap<(String, i64), Day>) -> BTreeMap<i64, Day> {
        let mut sums: BTreeMap<i64, Day> = BTreeMap::new();
        for ((_, day), (used, held)) in days {
            let sum = sums.entry(*day).or_default();
            *sum = (plus(sum.0, *used), plus(sum.1, *held));
        }
        sums
    }

    /// What the promise bounds, by key and day, in cost units.
    pub(crate) fn promised(&self) -> BTreeMap<(String, i64), i128> {
        let mut sums = BTreeMap::new();
        for lease in self.leases.values() {
            for (day, cost) in &lease.promised {
                *sums.entry((lease.key.clone(), *day)).or_default() += cost;
            }
        }
        sums
    }

    /// Free time that unmetered time may still draw, by day: all of it of leases that are not over, and of those that
    /// are what their end has not proved (the rest has drawn already).
    pub(crate) fn unmetered_ms(&self) -> BTreeMap<i64, i64> {
        let mut days = BTreeMap::new();
        for lease in self.leases.values().filter(|lease| !lease.settled) {
            let (from, to) = lease.unmetered();
            let from = lease.end.and_then(|end| end.proven).map_or(from, |proven| from.max(proven));
            for (day, usage) in usage::worst_by_day(1, 1, (from, to)) {
                *days.entry(day).or_default() += i64::try_from(usage.run_ms).unwrap();
            }
        }
        days
    }
}
