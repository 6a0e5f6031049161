//! The storage of a sandbox: equal to the slow model, whatever the order of reports, the deletion and late leases.

use std::collections::BTreeMap;

use proptest::prelude::*;
use runtab::domain::checked::add;
use runtab::domain::id::{KeyId, LeaseId};
use runtab::domain::storage_meter::{
    Holders, Reporter, StorageByHour, StorageMeter, StoragePoint, counting, evaluate, reattribute, take_late,
};
use runtab::domain::time::{Span, Timestamp};
use runtab::domain::units::MebiBytes;
use runtab::domain::usage::Usage;

use crate::naive_storage;
use crate::world::{list_micros, midnight, prices, ts};

fn key(index: u8) -> KeyId {
    KeyId::parse(&format!("key-{index}")).unwrap()
}

fn point(at: i64, mib: i64, by: u8) -> StoragePoint {
    let lease = |name: u8| Reporter::Lease(ts(i64::from(name)), LeaseId::parse(&format!("l-{name}")).unwrap());
    let by = if by == 0 { Reporter::AtRest } else { lease(by) };
    StoragePoint { at: ts(at), storage: MebiBytes::new(mib).unwrap(), by }
}

/// A life as a caller keeps it.
struct Kept {
    meter: StorageMeter,
    holders: Holders,
    deleted_at: Option<Timestamp>,
    reports: Vec<StoragePoint>,
    posted: StorageByHour,
    all_evidence: bool,
}

impl Kept {
    /// All that count, or only those from the last one at or before `from` to the first one after `to`.
    fn around(&self, from: Timestamp, to: Timestamp) -> Vec<StoragePoint> {
        let counting = counting(self.reports.clone());
        if self.all_evidence {
            return counting;
        }
        let first = counting.iter().rposition(|other| other.at <= from).unwrap_or(0);
        let last = counting.iter().position(|other| other.at > to).map_or(counting.len(), |after| after + 1);
        counting[first..last].to_vec()
    }

    fn take(&mut self, point: StoragePoint) {
        if self.reports.iter().any(|other| other.at == point.at && other.by == point.by) {
            return;
        }
        let in_order = self.meter.last.as_ref().is_none_or(|last| point.at >= last.at);
        let delta = if in_order {
            let (last, delta) = self.meter.take(point.clone(), self.deleted_at, &self.holders).unwrap();
            self.meter.last = last;
            delta
        } else {
            let around = self.around(point.at.near(-1), point.at);
            take_late(&around, point.clone(), self.deleted_at, &self.holders).unwrap()
        };
        self.reports.push(point);
        self.post(&delta);
    }

    fn delete(&mut self, at: Timestamp) {
        if self.deleted_at.is_none() {
            let around = self.around(at, Timestamp::MAX);
            let delta = self.meter.delete(at, &around, &self.holders).unwrap();
            self.deleted_at = Some(at);
            self.post(&delta);
        }
    }

    fn lease_from(&mut self, at: Timestamp, key: KeyId) {
        let mut after = self.holders.clone();
        after.changes.retain(|(other, _)| *other != at);
        after.changes.push((at, key));
        after.changes.sort_by_key(|(other, _)| *other);
        let posted_to = self.deleted_at.or(self.meter.last.as_ref().map(|last| last.at)).unwrap_or(at);
        let around = self.around(at, Timestamp::MAX);
        let delta = reattribute(&around, Span { start: at, end: posted_to }, &self.holders, &after).unwrap();
        self.holders = after;
        self.post(&delta);
    }

    fn post(&mut self, delta: &StorageByHour) {
        for (at, mib_ms) in delta {
            let sum = self.posted.entry(at.clone()).or_insert(0);
            *sum = add(*sum, *mib_ms).unwrap();
        }
        self.posted.retain(|_, sum| *sum != 0);
    }

    fn check(&self) {
        let deleted_at = self.deleted_at.map(Timestamp::ms);
        assert_eq!(self.posted, naive_storage::storage(&self.reports, deleted_at, &self.holders));
        let mut sorted = self.reports.clone();
        sorted.sort_by_key(|report| report.at);
        assert_eq!(self.posted, evaluate(&sorted, self.deleted_at, &self.holders).unwrap());
    }
}

#[derive(Clone, Debug)]
enum Event {
    Report(i64, i64, u8),
    Delete(i64),
    Lease(i64, u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    // Coarse instants, so that several reports fall on one.
    let at = || (-300..300_i64).prop_map(|step| midnight() + step * 61_000);
    let event = prop_oneof![
        12 => (at(), 0..5_000_i64, 0..3_u8).prop_map(|(at, mib, by)| Event::Report(at, mib, by)),
        1 => at().prop_map(Event::Delete),
        3 => (at(), 0..3_u8).prop_map(|(at, name)| Event::Lease(at, name)),
    ];
    prop::collection::vec(event, 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2, ..ProptestConfig::default() })]

    #[test]
    fn any_order_equals_the_slow_model_at_every_step(events in events(), all_evidence in any::<bool>()) {
        let mut kept = Kept {
            meter: StorageMeter::default(),
            holders: Holders { first: key(9), changes: Vec::new() },
            deleted_at: None,
            reports: Vec::new(),
            posted: BTreeMap::new(),
            all_evidence,
        };
        for event in events {
            match event {
                Event::Report(at, mib, by) => kept.take(point(at, mib, by)),
                Event::Delete(at) => kept.delete(ts(at)),
                Event::Lease(at, name) => kept.lease_from(ts(at), key(name)),
            }
            kept.check();
        }
    }
}

#[test]
fn ten_gib_at_rest_for_a_day() {
    let list = prices(50);
    let holders = Holders { first: key(0), changes: Vec::new() };
    let meter = StorageMeter { last: Some(point(midnight(), 10_240, 0)), open_hour: None };
    let (_, taken) = meter.take(point(midnight() + 86_400_000, 10_240, 0), None, &holders).unwrap();
    assert_eq!(taken.len(), 24);
    let usage = Usage { storage_mib_ms: taken.values().sum(), ..Usage::ZERO };
    assert_eq!(list_micros(&list, usage), 25_920);
}
