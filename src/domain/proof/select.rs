//! Which samples a month's usage follows from: those in the month, and their neighbours just outside.

use std::collections::BTreeSet;

use super::{LifeId, Record};
use crate::domain::id::LeaseId;
use crate::domain::sample::{Reading, StorageReport};
use crate::domain::storage_meter::{Reporter, StoragePoint, counting};
use crate::domain::time::{Hour, Span, Timestamp};

/// Of instants (ascending), those in a span, the last one before it, and the first one at or after its end.
fn around(instants: impl Iterator<Item = Timestamp> + Clone, span: Span) -> BTreeSet<Timestamp> {
    let before = instants.clone().take_while(|at| *at < span.start).last();
    let after = instants.clone().find(|at| *at >= span.end);
    let inside = instants.filter(|at| span.start <= *at && *at < span.end);
    inside.chain(before).chain(after).collect()
}

/// Of a lease's readings (ascending, all that were accepted by then), those that its CPU and memory in the spans follow
/// from.
#[must_use]
pub fn of_lease(readings: &[Reading], spans: &[Span]) -> BTreeSet<Timestamp> {
    spans.iter().flat_map(|span| around(readings.iter().map(|reading| reading.at), *span)).collect()
}

/// Of a life's reports (in any order, all that were accepted by then), those that its storage in the spans follows
/// from: all in the spans, and of those outside the neighbours that count.
#[must_use]
pub fn of_storage(reports: &[StoragePoint], spans: &[Span]) -> BTreeSet<(Reporter, Timestamp)> {
    let count = counting(reports.to_vec());
    let mut chosen = BTreeSet::new();
    for span in spans {
        let instants = around(count.iter().map(|point| point.at), *span);
        let counts = count.iter().filter(|point| instants.contains(&point.at));
        let inside = reports.iter().filter(|point| span.start <= point.at && point.at < span.end);
        chosen.extend(counts.chain(inside).map(|point| (point.by.clone(), point.at)));
    }
    chosen
}

/// The records of a life's samples at rest, hour by hour.
pub fn report_records(of: &LifeId, reports: &[StorageReport]) -> Vec<Record> {
    by_hour(reports, |report| report.at, |hour, reports| Record::Reports(of.clone(), hour, reports))
}

/// The records of a lease's samples, hour by hour.
pub fn reading_records(of: &LeaseId, readings: &[Reading]) -> Vec<Record> {
    by_hour(readings, |reading| reading.at, |hour, readings| Record::Readings(of.clone(), hour, readings))
}

fn by_hour<T: Copy>(items: &[T], at: impl Fn(&T) -> Timestamp, record: impl Fn(Hour, Vec<T>) -> Record) -> Vec<Record> {
    let hours = items.chunk_by(|left, right| at(left).hour() == at(right).hour());
    hours.filter_map(|items| items.first().map(|first| record(at(first).hour(), items.to_vec()))).collect()
}
