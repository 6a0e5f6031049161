//! A slow model of storage, written from the specification: every instant at which anything changes is asked anew.

use std::collections::{BTreeMap, BTreeSet};

use runtab::domain::id::KeyId;
use runtab::domain::storage_meter::{Holders, StoragePoint};
use runtab::domain::time::{Hour, Timestamp};

/// A sandbox's storage by hour and key: every instant at which anything changes asks who holds and what is there.
pub(crate) fn storage(
    reports: &[StoragePoint],
    deleted_at: Option<i64>,
    holders: &Holders,
) -> BTreeMap<(Hour, KeyId), i128> {
    let mut sums = BTreeMap::new();
    let Some(end) = deleted_at.or(reports.iter().map(|report| report.at.ms()).max()) else {
        return sums;
    };
    let mut cuts: BTreeSet<i64> = reports.iter().map(|report| report.at.ms()).collect();
    cuts.extend(holders.changes.iter().map(|(at, _)| at.ms()));
    cuts.insert(end);
    let (first, last) = (*cuts.first().unwrap(), *cuts.last().unwrap());
    cuts.extend((first / 3_600_000..=last / 3_600_000).map(|hour| hour * 3_600_000));
    let cuts: Vec<i64> = cuts.into_iter().filter(|cut| *cut <= end).collect();
    for pair in cuts.windows(2) {
        let there = reports.iter().filter(|report| report.at.ms() <= pair[0]);
        let Some(report) = there.max_by_key(|report| (report.at, report.by.clone())) else {
            continue;
        };
        let holder = holders.changes.iter().rev().find(|(at, _)| at.ms() <= pair[0]);
        let key = holder.map_or(&holders.first, |(_, key)| key).clone();
        let hour = Timestamp::from_ms(pair[0]).unwrap().hour();
        *sums.entry((hour, key)).or_insert(0) += i128::from(report.storage.mib()) * i128::from(pair[1] - pair[0]);
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}
