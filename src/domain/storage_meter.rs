//! One sandbox's storage as a step function.
//!
//! A report takes its MiB from its instant to the next report that counts, or to the deletion; it is posted when that
//! is known, so the last report of a sandbox that goes on has posted nothing. Of two reports at one instant the higher
//! [`Reporter`] counts; the other is evidence only. Before the first report the disk takes nothing.
//!
//! Invariant: after any calls, what was posted in sum is [`evaluate`] of the set of reports, the deletion and the
//! holders as they are now.

use std::collections::BTreeMap;

use super::checked::{Overflow, add, sub};
use super::id::{KeyId, LeaseId};
use super::time::{Day, Hour, Span, Timestamp};
use super::units::MebiBytes;

/// Whose report wins at one instant: a lease's over one at rest; of two leases', that of the lease that started later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reporter {
    /// A sample at rest.
    AtRest,
    /// A sample of a lease: when the lease started, and its id (so that the order is total).
    Lease(Timestamp, LeaseId),
}

/// A report that counts: from `at` on the disk takes `storage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePoint {
    /// When.
    pub at: Timestamp,
    /// The disk from then on.
    pub storage: MebiBytes,
    /// Who reported it.
    pub by: Reporter,
}

/// Storage usage by hour and by the key that it is attributed to, in MiB-milliseconds; zeros are left out.
pub type StorageByHour = BTreeMap<(Hour, KeyId), i128>;

/// To which key each instant is attributed: to that of the lease that had started last by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Before the first change.
    pub first: KeyId,
    /// From each instant on; ascending.
    pub changes: Vec<(Timestamp, KeyId)>,
}

impl Holders {
    /// The parts of a span by the key that holds them, ascending; none when it is empty.
    fn split(&self, span: Span) -> impl Iterator<Item = (Span, &KeyId)> {
        let starts = std::iter::once((Timestamp::EPOCH, &self.first));
        let starts = starts.chain(self.changes.iter().map(|(at, key)| (*at, key)));
        let ends = self.changes.iter().map(|(at, _)| *at).chain(std::iter::once(Timestamp::MAX));
        let parts = starts.zip(ends).map(move |((start, key), end)| (Span { start, end }.meet(span), key));
        parts.filter(|(part, _)| !part.is_empty())
    }
}

/// The state of a storage meter that a report in order needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageMeter {
    /// The latest report that counts.
    pub last: Option<StoragePoint>,
    /// The hour that storage was last posted in, by key: kept in the sandbox's row until it leaves the hour.
    pub open_hour: Option<StorageHour>,
}

/// Storage posted in one hour to one key, not yet written to the hours' table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageHour {
    /// Which hour.
    pub hour: Hour,
    /// The key.
    pub key: KeyId,
    /// How much, in MiB-milliseconds.
    pub mib_ms: i128,
}

impl StorageMeter {
    /// Takes a report that is not before the latest one. `deleted_at`: a deletion that was told, so that the latest
    /// report's time up to it is posted ([`StorageMeter::delete`]); a report at or after it does not count. Answers the
    /// latest report after it and what it adds, which may be negative after a deletion.
    pub fn take(
        &self,
        point: StoragePoint,
        deleted_at: Option<Timestamp>,
        holders: &Holders,
    ) -> Result<(Option<StoragePoint>, StorageByHour), Overflow> {
        let too_late = deleted_at.is_some_and(|deleted| point.at >= deleted);
        let outranked = self.last.as_ref().is_some_and(|last| last.at == point.at && last.by >= point.by);
        if too_late || outranked {
            return Ok((self.last.clone(), StorageByHour::new()));
        }
        let mut posted = StorageByHour::new();
        if let Some(deleted) = deleted_at {
            let rest = Span { start: point.at, end: deleted };
            posted = held(rest, point.storage, holders)?;
            if let Some(last) = &self.last {
                merge(&mut posted, &held(rest, last.storage, holders)?, sub)?;
            }
        } else if let Some(last) = &self.last {
            posted = held(Span { start: last.at, end: point.at }, last.storage, holders)?;
        }
        Ok((Some(point), posted))
    }

    /// What a deletion at `at` adds: the latest report's time up to it. Where reports reach beyond it, what they took
    /// after it is given back: then `around` has all reports that count from the last one at or before `at` on,
    /// ascending (it is not used otherwise).
    pub fn delete(&self, at: Timestamp, around: &[StoragePoint], holders: &Holders) -> Result<StorageByHour, Overflow> {
        let Some(last) = &self.last else {
            return Ok(StorageByHour::new());
        };
        if last.at <= at {
            return held(Span { start: last.at, end: at }, last.storage, holders);
        }
        let beyond = over(around.iter().chain([last]), Span { start: at, end: last.at }, holders)?;
        let mut given_back = StorageByHour::new();
        merge(&mut given_back, &beyond, sub)?;
        Ok(given_back)
    }
}

/// What a disk of `storage` takes over a span, by hour and key.
pub fn held(span: Span, storage: MebiBytes, holders: &Holders) -> Result<StorageByHour, Overflow> {
    let mut taken = StorageByHour::new();
    if storage == MebiBytes::ZERO {
        return Ok(taken);
    }
    for (part, key) in holders.split(span) {
        for (hour, piece) in part.by_hour() {
            change(&mut taken, (hour, key.clone()), storage.held_mib_ms(piece.length_ms())?, add)?;
        }
    }
    Ok(taken)
}

/// What a late report changes. `around`: all reports that count from the last one before it to the first one after
/// it, ascending, its own instant included; `end`: where the last report's time is known to end (a deletion). More
/// reports than these change nothing.
#[expect(clippy::needless_pass_by_value, reason = "a report is taken, late or in order")]
pub fn take_late(
    around: &[StoragePoint],
    point: StoragePoint,
    end: Option<Timestamp>,
    holders: &Holders,
) -> Result<StorageByHour, Overflow> {
    let before = around.iter().rev().find(|other| other.at < point.at);
    let after = around.iter().find(|other| other.at > point.at);
    let at_once = around.iter().filter(|other| other.at == point.at).max_by(|left, right| left.by.cmp(&right.by));
    if at_once.is_some_and(|other| other.by >= point.by) {
        return Ok(StorageByHour::new());
    }
    // From its instant to the next one it stands in the place of the one that held there.
    let next = after.map(|other| other.at);
    let until = next.or(end).unwrap_or(point.at).min(end.unwrap_or(Timestamp::MAX));
    let span = Span { start: point.at, end: until };
    let mut changed = held(span, point.storage, holders)?;
    if let Some(stood) = at_once.or(before) {
        merge(&mut changed, &held(span, stood.storage, holders)?, sub)?;
    }
    Ok(changed)
}

/// Of reports in any order, those that count: ascending, at each instant the highest reporter's.
#[must_use]
pub fn counting(mut reports: Vec<StoragePoint>) -> Vec<StoragePoint> {
    reports.sort_by(|left, right| (left.at, &right.by).cmp(&(right.at, &left.by)));
    reports.dedup_by_key(|report| report.at);
    reports
}

/// What changes when time that is posted already is attributed anew, for a lease that is admitted with a start in the
/// past. `around`: all reports that count from the last one at or before the span's start on, ascending; `span`: from
/// the new lease's start to where storage has been posted (the latest report, or the deletion).
pub fn reattribute(
    around: &[StoragePoint],
    span: Span,
    before: &Holders,
    after: &Holders,
) -> Result<StorageByHour, Overflow> {
    let mut changed = over(around.iter(), span, after)?;
    merge(&mut changed, &over(around.iter(), span, before)?, sub)?;
    Ok(changed)
}

/// The storage of a whole life: a pure function of the set of its reports (ascending; several at one instant are in
/// any order), its deletion and its holders. Without a deletion the last report's time is not known yet.
pub fn evaluate(
    reports: &[StoragePoint],
    deleted_at: Option<Timestamp>,
    holders: &Holders,
) -> Result<StorageByHour, Overflow> {
    let end = deleted_at.or(reports.last().map(|last| last.at)).unwrap_or(Timestamp::EPOCH);
    over(reports.iter(), Span { start: Timestamp::EPOCH, end }, holders)
}

/// What a life's disk takes within a span, by day, whoever holds it. `reports`: those that count ([`counting`]), at
/// least all in the span, the last one before it, and the first one at or after its end. Zeros are left out.
pub fn within(
    reports: &[StoragePoint],
    deleted_at: Option<Timestamp>,
    span: Span,
) -> Result<BTreeMap<Day, i128>, Overflow> {
    let end = deleted_at.or(reports.last().map(|last| last.at)).unwrap_or(Timestamp::EPOCH);
    let span = Span { start: Timestamp::EPOCH, end }.meet(span);
    let nexts = reports.iter().skip(1).map(|next| next.at).chain([end]);
    let mut days: BTreeMap<Day, i128> = BTreeMap::new();
    for (report, next) in reports.iter().zip(nexts) {
        let held = Span { start: report.at, end: next }.meet(span);
        for (day, part) in held.by_day().filter(|(_, part)| !part.is_empty()) {
            let taken = report.storage.held_mib_ms(part.length_ms())?;
            let sum = days.entry(day).or_default();
            *sum = add(*sum, taken)?;
        }
    }
    days.retain(|_, taken| *taken != 0);
    Ok(days)
}

/// What reports (ascending) take within a span; the last one holds to its end.
fn over<'p>(
    reports: impl Iterator<Item = &'p StoragePoint>,
    span: Span,
    holders: &Holders,
) -> Result<StorageByHour, Overflow> {
    let mut taken = StorageByHour::new();
    let mut latest: Option<&StoragePoint> = None;
    for point in reports {
        if let Some(last) = latest {
            if last.at == point.at && last.by >= point.by {
                continue;
            }
            let part = Span { start: last.at, end: point.at }.meet(span);
            merge(&mut taken, &held(part, last.storage, holders)?, add)?;
        }
        latest = Some(point);
    }
    if let Some(last) = latest {
        merge(&mut taken, &held(Span { start: last.at, end: span.end }.meet(span), last.storage, holders)?, add)?;
    }
    Ok(taken)
}

/// What `left` has more than `right`, hour by hour and key by key; may be negative.
pub fn difference(mut left: StorageByHour, right: &StorageByHour) -> Result<StorageByHour, Overflow> {
    merge(&mut left, right, sub)?;
    Ok(left)
}

type Operation = fn(i128, i128) -> Result<i128, Overflow>;

/// Adds or subtracts one entry; zeros are left out.
fn change(sum: &mut StorageByHour, at: (Hour, KeyId), mib_ms: i128, operation: Operation) -> Result<(), Overflow> {
    let changed = operation(sum.get(&at).copied().unwrap_or(0), mib_ms)?;
    if changed == 0 {
        sum.remove(&at);
    } else {
        sum.insert(at, changed);
    }
    Ok(())
}

/// Adds or subtracts, hour by hour and key by key.
fn merge(sum: &mut StorageByHour, other: &StorageByHour, operation: Operation) -> Result<(), Overflow> {
    for (at, mib_ms) in other {
        change(sum, at.clone(), *mib_ms, operation)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Holders, Reporter, StorageMeter, StoragePoint, counting, held};
    use crate::domain::id::{KeyId, LeaseId};
    use crate::domain::time::{Span, Timestamp};
    use crate::domain::units::MebiBytes;

    fn ts(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms).unwrap()
    }

    fn key(id: &str) -> KeyId {
        KeyId::parse(id).unwrap()
    }

    fn point(at: i64, mib: i64, lease: Option<(i64, &str)>) -> StoragePoint {
        let by =
            lease.map_or(Reporter::AtRest, |(started, id)| Reporter::Lease(ts(started), LeaseId::parse(id).unwrap()));
        StoragePoint { at: ts(at), storage: MebiBytes::new(mib).unwrap(), by }
    }

    #[test]
    fn each_instant_is_attributed_to_the_holder_of_that_instant() {
        let holders = Holders { first: key("a"), changes: vec![(ts(3_599_000), key("b")), (ts(3_601_000), key("a"))] };
        let taken = held(Span { start: ts(3_598_000), end: ts(3_603_000) }, MebiBytes::new(2).unwrap(), &holders);
        let taken: Vec<_> = taken.unwrap().into_iter().map(|((hour, key), sum)| (hour.index(), key, sum)).collect();
        let expected = [(0, key("a"), 2_000), (0, key("b"), 2_000), (1, key("a"), 4_000), (1, key("b"), 2_000)];
        assert_eq!(taken, expected);
    }

    #[test]
    fn at_one_instant_a_lease_wins_over_rest_and_the_later_lease_over_the_earlier() {
        let (rest, old, new) = (point(5, 1, None), point(5, 2, Some((1, "z"))), point(5, 3, Some((2, "a"))));
        let reports = vec![new.clone(), rest.clone(), point(4, 9, None), old.clone()];
        assert_eq!(counting(reports), [point(4, 9, None), new.clone()]);
        let holders = Holders { first: key("a"), changes: Vec::new() };
        let meter = StorageMeter { last: Some(old.clone()), open_hour: None };
        assert_eq!(meter.take(rest, None, &holders).unwrap().0, Some(old));
        assert_eq!(meter.take(new.clone(), None, &holders).unwrap().0, Some(new));
    }
}
