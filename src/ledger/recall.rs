//! Leases as this engine last wrote them, so that their next samples need not read them again.
//!
//! Nothing is decided by it: what is recalled is only assumed, and the batch that does so is saved only where each lease is
//! still as this engine left it (`store/mod.rs`, "Assumed"); else it begins again, and reads. So another engine, or
//! another batch of this one, may write a lease at any time; an engine that forgets all only reads more.
//!
//! Recalled are leases whose samples are plain: in order, of a running lease, with nothing to correct; of accounts without
//! free time left, which is drawn in one order over all samples of a batch. Where samples of a lease come to several
//! engines by turns, each finds what the other left: so after a batch that assumed in vain the next ones read, the more
//! often it happens the longer.
//!
//! Only where several can write at once: elsewhere reading a lease is no wait.
#![expect(
    clippy::disallowed_types,
    reason = "what is remembered is looked up by key and never walked, so no order shows"
)]

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ingest::{Sent, lease_of};
use super::working_set::LeaseKey;
use crate::domain::id::HostId;
use crate::domain::lease::{CLOCK_TOLERANCE_MS, Lease};
use crate::domain::sample::{Sample, Seen};
use crate::domain::time::Timestamp;
use crate::store::WrittenBy;

/// Leases of a generation; there are two. About a kilobyte each.
const GENERATION: usize = 65_536;
/// Batches that read after one that assumed in vain; twice as many after the next, down again with each that was right.
const DOUBTS: u32 = 8;
const DOUBTS_MAX: u32 = 1_024;

/// A lease, and the transaction that left it so.
pub(super) type Recalled = (Arc<Lease>, WrittenBy);

/// What this engine remembers. Not saved; not shared with other engines.
#[derive(Debug, Default)]
pub struct Recall {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    young: HashMap<LeaseKey, Recalled>,
    old: HashMap<LeaseKey, Recalled>,
    /// Of whose transactions they all are.
    server: Option<WrittenBy>,
    /// Batches that still read.
    doubts: u32,
    /// How many will, after the next that assumes in vain.
    doubts_next: u32,
}

/// Samples of a batch that are taken together, and where they stood in it.
#[derive(Debug)]
pub(super) struct Part {
    /// Their places.
    pub(super) places: Vec<usize>,
    /// The samples.
    pub(super) sent: Vec<Sent>,
    /// Their leases, where all are recalled.
    pub(super) recalled: Option<BTreeMap<LeaseKey, Recalled>>,
}

impl Recall {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // What is remembered is checked before it counts, whoever broke off while it was written.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parts the samples of a batch: those of leases that are recalled, and all others. Samples of one lease stay together.
    /// What is recalled is forgotten until it is kept again.
    pub(super) fn part(&self, sent: Vec<Sent>, now: Timestamp) -> Vec<Part> {
        let mut memory = self.memory();
        if memory.doubts > 0 {
            memory.doubts = memory.doubts.saturating_sub(1);
            return vec![Part::whole(sent, None)];
        }
        let mut recalled: BTreeMap<LeaseKey, Recalled> = BTreeMap::new();
        let mut others: BTreeSet<LeaseKey> = BTreeSet::new();
        let mut all = true;
        for (host, sample) in &sent {
            let Some(key) = lease_of(sample).filter(|key| !others.contains(key)) else {
                all = false;
                continue;
            };
            let is_plain = |known: &Recalled| is_plain(&known.0, host.as_ref(), sample, now);
            let other = match recalled.entry(key) {
                Entry::Occupied(known) if is_plain(known.get()) => continue,
                Entry::Occupied(known) => known.remove_entry().0,
                Entry::Vacant(place) => match memory.take(place.key()) {
                    Some(known) if is_plain(&known) => {
                        place.insert(known);
                        continue;
                    }
                    Some(_) | None => place.into_key(),
                },
            };
            others.insert(other);
            all = false;
        }
        drop(memory);
        if all || recalled.is_empty() {
            return vec![Part::whole(sent, Some(recalled).filter(|_| all))];
        }
        let mut plain = Part { places: Vec::new(), sent: Vec::new(), recalled: None };
        let mut rest = Part { places: Vec::new(), sent: Vec::new(), recalled: None };
        for (place, one) in sent.into_iter().enumerate() {
            let is_recalled = lease_of(&one.1).is_some_and(|key| recalled.contains_key(&key));
            let part = if is_recalled { &mut plain } else { &mut rest };
            part.places.push(place);
            part.sent.push(one);
        }
        plain.recalled = Some(recalled);
        [plain, rest].into_iter().filter(|part| !part.sent.is_empty()).collect()
    }

    /// Keeps leases as they were committed.
    pub(super) fn keep(&self, written: impl IntoIterator<Item = (LeaseKey, Recalled)>) {
        let mut memory = self.memory();
        for (key, lease) in written {
            memory.keep(key, lease);
        }
    }

    /// Forgets leases that were written otherwise.
    pub(super) fn forget<'a>(&self, written: impl IntoIterator<Item = &'a LeaseKey>) {
        let mut memory = self.memory();
        if !memory.is_empty() {
            for key in written {
                drop(memory.take(key));
            }
        }
    }

    /// Notes whether a batch assumed what was so.
    pub(super) fn learn(&self, was_so: bool) {
        let mut memory = self.memory();
        let next = memory.doubts_next.max(DOUBTS);
        if was_so {
            memory.doubts_next = next / 2;
        } else {
            memory.doubts = next;
            memory.doubts_next = next.saturating_mul(2).min(DOUBTS_MAX);
        }
    }
}

impl Memory {
    fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    fn take(&mut self, key: &LeaseKey) -> Option<Recalled> {
        // Both: one that was kept again without being recalled has an older self.
        let (young, old) = (self.young.remove(key), self.old.remove(key));
        young.or(old)
    }

    fn keep(&mut self, key: LeaseKey, lease: Recalled) {
        // Another server has other transactions: nothing of what is remembered is so there.
        if self.server.is_none_or(|server| !server.is_of_the_server_of(lease.1)) {
            (self.young, self.old, self.server) = (HashMap::new(), HashMap::new(), Some(lease.1));
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, lease);
    }
}

impl Part {
    /// Parts of one batch as it was.
    pub(super) fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let all = parts.into_iter().flat_map(|part| part.places.into_iter().zip(part.sent));
        let all: BTreeMap<usize, Sent> = all.collect();
        let (places, sent) = all.into_iter().unzip();
        Self { places, sent, recalled: None }
    }

    /// All samples of a batch.
    pub(super) fn whole(sent: Vec<Sent>, recalled: Option<BTreeMap<LeaseKey, Recalled>>) -> Self {
        Self { places: (0..sent.len()).collect(), sent, recalled }
    }
}

/// Whether a sample only meters its lease further, as far as the lease is known. More than one of it may come: whoever
/// takes them looks at each again.
fn is_plain(lease: &Lease, host: Option<&HostId>, sample: &Sample, now: Timestamp) -> bool {
    let Seen::Running(_, reading) = &sample.seen else { return false };
    let runs = lease.open && lease.end.is_none() && lease.settled_at.is_none() && now < lease.window.end;
    let corrects = lease.voided_until.is_some() || lease.open_hour.is_some_and(|open| open.totals.free_ms > 0);
    let is_its_own = sample.sandbox == lease.sandbox && host.is_none_or(|host| lease.host.as_ref() == Some(host));
    let follows = lease.meter.last.is_some_and(|last| {
        last.at < reading.at && last.epoch == reading.epoch && last.cpu_usage_us <= reading.cpu_usage_us
    });
    let in_time = reading.at <= now.near(CLOCK_TOLERANCE_MS) && reading.at < lease.window.end;
    runs && !corrects && is_its_own && follows && in_time && reading.storage.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
    use crate::domain::lease::{Asked, LeaseKind, Shape};
    use crate::domain::meter::Meter;
    use crate::domain::sample::Reading;
    use crate::domain::sample_page::OpenPage;
    use crate::domain::time::Span;
    use crate::domain::units::{MebiBytes, Vcpus};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms).unwrap()
    }

    fn reading(ms: i64) -> Reading {
        Reading { at: at(ms), epoch: 0, cpu_usage_us: ms, memory: None, storage: None }
    }

    /// A lease that was sampled at 10 ms and ends at 1,000.
    fn lease(number: usize) -> Lease {
        Lease {
            account: AccountId::parse("a").unwrap(),
            id: LeaseId::parse(&format!("l-{number}")).unwrap(),
            key: KeyId::parse("k").unwrap(),
            sandbox: SandboxId::parse(&format!("s-{number}")).unwrap(),
            life: 1,
            kind: LeaseKind::Create,
            shape: Shape { vcpus: Vcpus::new(1).unwrap(), memory: MebiBytes::new(1).unwrap() },
            window: Span { start: at(0), end: at(1_000) },
            asked: Asked { starts_at: None, timeout_ms: 1_000, max_cost: None, host: None, replaces: None },
            end: None,
            host: HostId::parse("h").ok(),
            created_at: at(0),
            open: true,
            settles_at: at(901_000),
            settled_at: None,
            meter: Meter { last: Some(reading(10)), open: None },
            open_hour: None,
            page: OpenPage::default(),
            voided_until: None,
        }
    }

    fn key(number: usize) -> LeaseKey {
        let lease = lease(number);
        (lease.account, lease.id)
    }

    fn sent(number: usize, ms: i64) -> Sent {
        let lease = lease(number);
        let seen = Seen::Running(lease.id, reading(ms));
        (Some(HostId::parse("h").unwrap()), Sample { account: lease.account, sandbox: lease.sandbox, seen })
    }

    fn keeping(leases: impl IntoIterator<Item = Lease>) -> Recall {
        let recall = Recall::default();
        recall.keep(
            leases
                .into_iter()
                .map(|lease| ((lease.account.clone(), lease.id.clone()), (Arc::new(lease), WrittenBy::of_test(1, 7)))),
        );
        recall
    }

    /// Places of the parts; of those whose leases are recalled first.
    fn parts(recall: &Recall, sent: Vec<Sent>) -> Vec<(bool, Vec<usize>)> {
        let parts = recall.part(sent, at(500));
        parts.into_iter().map(|part| (part.recalled.is_some(), part.places)).collect()
    }

    #[test]
    fn what_is_recalled_goes_apart_and_is_forgotten() {
        let recall = keeping([lease(0), lease(1)]);
        let all = || vec![sent(2, 20), sent(0, 20), sent(1, 20), sent(0, 30)];
        assert_eq!(parts(&recall, all()), [(true, vec![1, 2, 3]), (false, vec![0])]);
        assert_eq!(parts(&recall, all()), [(false, vec![0, 1, 2, 3])]);
        let recall = keeping([lease(0)]);
        assert_eq!(parts(&recall, vec![sent(0, 20)]), [(true, vec![0])]);
    }

    #[test]
    fn samples_of_one_lease_stay_together() {
        let recall = keeping([lease(0), lease(1)]);
        assert_eq!(parts(&recall, vec![sent(0, 20), sent(1, 20), sent(0, 5)]), [(true, vec![1]), (false, vec![0, 2])]);
    }

    #[test]
    fn only_plain_samples_are_taken_without_a_look() {
        let one = || lease(0);
        let ended = Lease { window: Span { start: at(0), end: at(500) }, ..one() };
        let free = crate::domain::lease::HourTotals { free_ms: 1, ..Default::default() };
        let drawing = Some(crate::domain::lease::OpenHour { hour: at(0).hour(), totals: free });
        for lease in [
            ended,
            Lease { open: false, ..one() },
            Lease { settled_at: Some(at(1)), ..one() },
            Lease { voided_until: Some(at(1)), ..one() },
            Lease { meter: Meter::default(), ..one() },
            Lease { open_hour: drawing, ..one() },
        ] {
            let recall = keeping([lease.clone()]);
            assert_eq!(parts(&recall, vec![sent(0, 20)]), [(false, vec![0])], "{lease:?}");
        }
        for ms in [9, 10, 1_000] {
            assert_eq!(parts(&keeping([one()]), vec![sent(0, ms)]), [(false, vec![0])], "{ms}");
        }
        let refused = |change: fn(&mut Sent)| {
            let mut sent = sent(0, 20);
            change(&mut sent);
            assert_eq!(parts(&keeping([one()]), vec![sent.clone()]), [(false, vec![0])], "{sent:?}");
        };
        refused(|(host, _)| *host = HostId::parse("another").ok());
        refused(|(_, sample)| sample.sandbox = SandboxId::parse("another").unwrap());
        for change in [|reading: &mut Reading| reading.epoch = 1, |reading: &mut Reading| reading.cpu_usage_us = 9] {
            let mut sent = sent(0, 20);
            if let Seen::Running(_, reading) = &mut sent.1.seen {
                change(reading);
            }
            assert_eq!(parts(&keeping([one()]), vec![sent]), [(false, vec![0])]);
        }
        let mut stores = sent(0, 20);
        if let Seen::Running(_, reading) = &mut stores.1.seen {
            reading.storage = Some(MebiBytes::ZERO);
        }
        assert_eq!(parts(&keeping([one()]), vec![stores]), [(false, vec![0])]);
    }

    #[test]
    fn parts_are_joined_as_they_were() {
        let all = vec![sent(2, 20), sent(0, 20), sent(1, 20), sent(0, 30)];
        let whole = Part::joined(keeping([lease(0), lease(1)]).part(all.clone(), at(500)));
        assert_eq!((whole.places, whole.sent, whole.recalled.is_some()), (vec![0, 1, 2, 3], all, false));
    }

    #[test]
    fn what_was_written_otherwise_is_forgotten() {
        let recall = keeping([lease(0), lease(1)]);
        recall.forget([&key(1), &key(2)]);
        assert_eq!(parts(&recall, vec![sent(0, 20), sent(1, 20)]), [(true, vec![0]), (false, vec![1])]);
    }

    #[test]
    fn who_assumed_in_vain_reads_for_a_while() {
        let recall = Recall::default();
        let reads = || {
            let mut count = 0;
            loop {
                recall.keep([(key(0), (Arc::new(lease(0)), WrittenBy::of_test(1, 7)))]);
                if parts(&recall, vec![sent(0, 20)]) == [(true, vec![0])] {
                    return count;
                }
                count += 1;
            }
        };
        let after = |was_so| {
            recall.learn(was_so);
            reads()
        };
        assert_eq!([after(false), after(false), after(false)], [8, 16, 32]);
        assert_eq!([after(true), after(true), after(false), after(false)], [0, 0, 16, 32]);
        assert_eq!((0..10).map(|_| after(false)).max(), Some(1_024));
    }

    #[test]
    fn another_server_is_another_past() {
        let recall = keeping([lease(0), lease(1)]);
        recall.keep([(key(1), (Arc::new(lease(1)), WrittenBy::of_test(1, 8)))]);
        assert_eq!(parts(&recall, vec![sent(0, 20), sent(1, 20)]), [(true, vec![1]), (false, vec![0])]);
    }

    #[test]
    fn what_is_forgotten_has_no_older_self() {
        let recall = keeping([lease(0)]);
        {
            let mut memory = recall.memory();
            memory.old = std::mem::take(&mut memory.young);
        }
        recall.keep([(key(0), (Arc::new(lease(0)), WrittenBy::of_test(2, 7)))]);
        recall.forget([&key(0)]);
        assert_eq!(parts(&recall, vec![sent(0, 20)]), [(false, vec![0])]);
    }

    #[test]
    fn memory_is_bounded() {
        let recall = Recall::default();
        for number in 0..3 * GENERATION {
            recall.keep([(key(number), (Arc::new(lease(0)), WrittenBy::of_test(1, 7)))]);
        }
        let memory = recall.memory();
        assert!(memory.young.len() + memory.old.len() <= 2 * GENERATION);
        assert!(memory.young.contains_key(&key(3 * GENERATION - 1)));
    }
}
