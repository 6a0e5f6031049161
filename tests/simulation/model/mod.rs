//! The auditor's model: plain values, every figure asked anew from the events that were accepted.

pub(crate) mod days;
pub(crate) mod gate;
pub(crate) mod lives;
pub(crate) mod post;
pub(crate) mod samples;
pub(crate) mod usage;

use std::collections::BTreeMap;

use runtab::domain::usage::Usage;

pub(crate) const SECOND: i64 = 1_000;
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 86_400_000;
/// 15 minutes after its end a lease settles by the clock.
pub(crate) const SETTLE_AFTER: i64 = 15 * MINUTE;
/// What free time covers without a card: vCPUs, MiB of memory, MiB of disk.
pub(crate) const COVER: (i64, i64, i64) = (4, 4_096, 2_048);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Card {
    pub(crate) id: String,
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) storage: i64,
    pub(crate) floor: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) limit: Option<i64>,
    pub(crate) limit_was_changed: bool,
    pub(crate) read_only: bool,
    pub(crate) revoked: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) id: String,
    pub(crate) granted: i64,
    pub(crate) used: i64,
    pub(crate) starts: i64,
    pub(crate) expires: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) epoch: i64,
    pub(crate) cpu: i64,
    pub(crate) memory: Option<i64>,
    pub(crate) storage: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) at: i64,
    pub(crate) proven: Option<i64>,
}

/// What was posted in an hour of a lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Posted {
    pub(crate) usage: Usage,
    pub(crate) free_ms: i64,
    pub(crate) free: Usage,
    /// By grant, in the order of the first draw.
    pub(crate) draws: Vec<(String, i64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) sandbox: String,
    pub(crate) life: usize,
    pub(crate) vcpus: i64,
    pub(crate) memory: i64,
    pub(crate) start: i64,
    pub(crate) granted_end: i64,
    pub(crate) end: Option<End>,
    pub(crate) host: Option<String>,
    pub(crate) samples: BTreeMap<i64, Reading>,
    pub(crate) settled: bool,
    /// By hour.
    pub(crate) posted: BTreeMap<i64, Posted>,
    /// What the promise speaks of, by day: cost units of what came in order and before it settled.
    pub(crate) promised: BTreeMap<i64, i128>,
}

/// When, how many MiB, and the start and the id of the lease that reported; none at rest.
pub(crate) type Report = (i64, i64, Option<(i64, String)>);

#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) created_at: i64,
    pub(crate) deleted_at: Option<i64>,
    pub(crate) first_key: String,
    /// Starts of its leases in the order of admission: when, key, lease.
    pub(crate) starts: Vec<(i64, String, String)>,
    pub(crate) reports: Vec<Report>,
    /// By hour and key.
    pub(crate) stored: BTreeMap<(i64, String), i128>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// When the earliest month that is not closed begins.
    pub(crate) open_from: i64,
    pub(crate) card_on_file: bool,
    pub(crate) suspended: bool,
    pub(crate) limit: Option<i64>,
    pub(crate) limit_was_changed: bool,
    pub(crate) keys: BTreeMap<String, Key>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) leases: BTreeMap<String, Lease>,
    pub(crate) sandboxes: BTreeMap<String, Vec<Life>>,
    /// Default cards by day; the list's at the beginning of time.
    pub(crate) default_cards: BTreeMap<i64, Card>,
    pub(crate) own_cards: BTreeMap<i64, Option<Card>>,
    /// By lease and id: how much, and the most it may cost.
    pub(crate) extensions: BTreeMap<(String, String), (i64, Option<i64>)>,
    /// From this day on the cards are not those known at some admission.
    pub(crate) repriced_from: Option<i64>,
}

impl Lease {
    pub(crate) fn effective_end(&self) -> i64 {
        self.end.map_or(self.granted_end, |end| end.at)
    }

    /// The last sample that proves time.
    pub(crate) fn last_sample(&self) -> Option<i64> {
        self.samples.last_key_value().map(|(at, _)| *at).filter(|at| *at > self.start)
    }

    /// From its last sample on, from its start without one.
    pub(crate) fn unmetered(&self) -> (i64, i64) {
        let end = self.effective_end();
        (self.last_sample().unwrap_or(self.start).min(end), end)
    }

    pub(crate) fn settle_by_clock(&mut self, now: i64) {
        self.settled |= now >= self.effective_end() + SETTLE_AFTER;
    }
}

impl Life {
    /// The latest report that counts: when, MiB.
    pub(crate) fn disk(&self) -> i64 {
        let counts = self.reports.iter().filter(|(at, _, _)| self.deleted_at.is_none_or(|deleted| *at < deleted));
        counts.max_by_key(|(at, _, by)| (*at, by.clone())).map_or(0, |(_, mib, _)| *mib)
    }

    /// The lease that started last.
    pub(crate) fn latest(&self) -> Option<&(i64, String, String)> {
        self.starts.iter().max_by_key(|(start, _, _)| *start)
    }

    pub(crate) fn key(&self) -> &str {
        self.latest().map_or(&self.first_key, |(_, key, _)| key)
    }
}

impl Account {
    pub(crate) fn card(&self, day: i64) -> &Card {
        let own = self.own_cards.range(..=day).next_back().and_then(|(_, card)| card.as_ref());
        own.unwrap_or_else(|| self.default_cards.range(..=day).next_back().unwrap().1)
    }

    /// The exact cost, in 1/460,800,000,000 microdollar.
    pub(crate) fn price(&self, day: i64, usage: Usage) -> i128 {
        let card = self.card(day);
        128 * i128::from(card.cpu) * usage.cpu_us
            + 125 * (i128::from(card.memory) * usage.memory_mib_ms + i128::from(card.storage) * usage.storage_mib_ms)
    }

    pub(crate) fn newest_life(&self, sandbox: &str) -> Option<&Life> {
        self.sandboxes.get(sandbox).and_then(|lives| lives.last())
    }
}

/// Exact units in a microdollar.
pub(crate) const MICRO: i128 = 460_800_000_000;

pub(crate) fn floor(units: i128) -> i64 {
    i64::try_from(units.div_euclid(MICRO)).unwrap()
}

pub(crate) fn ceil(units: i128) -> i64 {
    i64::try_from((units + MICRO - 1).div_euclid(MICRO)).unwrap()
}

pub(crate) fn plus(left: Usage, right: Usage) -> Usage {
    left.plus(right).unwrap()
}

pub(crate) fn minus(left: Usage, right: Usage) -> Usage {
    left.minus(right).unwrap()
}
