//! The records of one life: which of its samples an invoice's usage follows from.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bills, DrawsByHour, LifeBills, Wanted};
use crate::domain::id::LeaseId;
use crate::domain::lease::Lease;
use crate::domain::proof::select::{of_lease, of_storage, reading_records, report_records};
use crate::domain::proof::{LeaseTerms, LifeId, Owner, Record, deleted_at};
use crate::domain::sample::{Reading, StorageReport};
use crate::domain::sample_page::{self, PageSample};
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{Reporter, StoragePoint};
use crate::domain::time::{Hour, Month, Span, Timestamp};
use crate::domain::void::Void;
use crate::store::StoreError;
use crate::store::shapes::{KeptPage, OwnedPage};

/// What was read of one life.
pub(super) struct LifeEvidence {
    sandbox: Sandbox,
    leases: BTreeMap<LeaseId, Lease>,
    at_rest: Vec<PageSample>,
    of_leases: BTreeMap<LeaseId, Vec<PageSample>>,
    /// What counts no more, by lease (none: at rest) and instant.
    voided: BTreeSet<(Option<LeaseId>, Timestamp)>,
}

fn decode(bytes: &[u8]) -> Result<Vec<PageSample>, StoreError> {
    sample_page::decode(bytes).map_err(|corrupt| StoreError::Corrupt(corrupt.to_string()))
}

impl LifeEvidence {
    /// Sorts what was read by life. Open pages are in the rows; what was accepted after the month's closing is left out.
    pub(super) fn by_life(
        wanted: Wanted<'_>,
        sandboxes: Vec<Sandbox>,
        leases: Vec<Lease>,
        pages: Vec<OwnedPage>,
        kept: Vec<KeptPage>,
        voids: Vec<Void>,
    ) -> Result<BTreeMap<LifeId, Self>, StoreError> {
        let in_time = |accepted: Option<Month>| accepted.is_none_or(|month| month <= wanted.month);
        let mut found: BTreeMap<LifeId, Self> = BTreeMap::new();
        for sandbox in sandboxes {
            let of = LifeId { sandbox: sandbox.id.clone(), life: sandbox.life };
            let at_rest = if in_time(sandbox.page.accepted_in) { decode(&sandbox.page.bytes)? } else { Vec::new() };
            found.insert(
                of,
                Self { sandbox, leases: BTreeMap::new(), at_rest, of_leases: BTreeMap::new(), voided: BTreeSet::new() },
            );
        }
        for lease in leases {
            let of = LifeId { sandbox: lease.sandbox.clone(), life: lease.life };
            let Some(life) = found.get_mut(&of) else { continue };
            if in_time(lease.page.accepted_in) {
                life.of_leases.entry(lease.id.clone()).or_default().extend(decode(&lease.page.bytes)?);
            }
            life.leases.insert(lease.id.clone(), lease);
        }
        let pages = pages.into_iter().map(|(owner, page)| (owner, page.bytes, page.accepted_in));
        let kept = kept.into_iter().map(|page| (page.owner, page.bytes, page.accepted_in));
        for (owner, bytes, _) in pages.chain(kept).filter(|(_, _, accepted)| in_time(*accepted)) {
            let Some(life) = found.get_mut(&LifeId { sandbox: owner.sandbox, life: owner.life }) else { continue };
            let samples = match owner.lease {
                Some(lease) => life.of_leases.entry(lease).or_default(),
                None => &mut life.at_rest,
            };
            samples.extend(decode(&bytes)?);
        }
        for void in voids {
            if let Some(life) = found.get_mut(&LifeId { sandbox: void.sandbox, life: void.life }) {
                life.voided.insert((void.lease, void.at));
            }
        }
        for life in found.values_mut() {
            for samples in life.of_leases.values_mut().chain([&mut life.at_rest]) {
                samples.sort_by_key(|sample| sample.at);
                samples.dedup_by_key(|sample| sample.at);
            }
        }
        Ok(found)
    }

    /// The life's records, in their order.
    pub(super) fn records(
        &self,
        month: Month,
        bills: &LifeBills,
        draws: &DrawsByHour,
    ) -> Result<Vec<Record>, StoreError> {
        let of = LifeId { sandbox: self.sandbox.id.clone(), life: self.sandbox.life };
        let storage = spans(&bills.storage, month);
        let reports = of_storage(&self.points(), &storage);
        let mut records = vec![Record::Sandbox(of.clone(), deleted_at(&self.sandbox, month))];
        let voided = self.voided_in(None, &storage);
        let at_rest = self.at_rest.iter().filter_map(PageSample::storage_report);
        let chosen =
            |report: &StorageReport| reports.contains(&(Reporter::AtRest, report.at)) || voided.contains(&report.at);
        records.extend(report_records(&of, &at_rest.filter(chosen).collect::<Vec<_>>()));
        let owner = Owner::Life(of);
        records.extend(left_out(&owner, &voided));
        records.extend(late(&owner, &bills.storage));
        let mut by_lease: BTreeMap<&LeaseId, BTreeSet<Timestamp>> = BTreeMap::new();
        for (by, at) in &reports {
            if let Reporter::Lease(_, lease) = by {
                by_lease.entry(lease).or_default().insert(*at);
            }
        }
        let none = Bills::default();
        let ids: BTreeSet<&LeaseId> = bills.leases.keys().chain(by_lease.keys().copied()).collect();
        for id in ids {
            let Some(lease) = self.leases.get(id) else {
                return Err(StoreError::Corrupt("a lease is not there".to_owned()));
            };
            let bills = bills.leases.get(id).unwrap_or(&none);
            let readings: Vec<Reading> =
                self.of_leases.get(id).into_iter().flatten().filter_map(PageSample::reading).collect();
            let counts = |reading: &&Reading| !self.voided.contains(&(Some(id.clone()), reading.at));
            let counting: Vec<Reading> = readings.iter().filter(counts).copied().collect();
            let voided = self.voided_in(Some(id), &spans(bills, month));
            let mut chosen = of_lease(&counting, &spans(bills, month));
            chosen.extend(by_lease.remove(id).unwrap_or_default());
            chosen.extend(&voided);
            let readings: Vec<Reading> = readings.into_iter().filter(|one| chosen.contains(&one.at)).collect();
            let owner = Owner::Lease(id.clone());
            records.push(Record::Lease(LeaseTerms::of(lease, month)));
            records.extend(reading_records(id, &readings));
            records.extend(left_out(&owner, &voided));
            let first = (id.clone(), Month::FIRST.first_day().start().hour());
            let drawn = draws.range(first..).take_while(|((lease, _), _)| lease == id);
            for ((_, hour), by_grant) in drawn {
                let by_grant = by_grant.iter().map(|(grant, ms)| (grant.clone(), *ms)).collect();
                records.push(Record::Drawn(id.clone(), Hour::clone(hour), by_grant));
            }
            records.extend(late(&owner, bills));
        }
        Ok(records)
    }

    /// Voided samples of a lease (`None`: at rest) in spans, ascending.
    fn voided_in(&self, lease: Option<&LeaseId>, spans: &[Span]) -> Vec<Timestamp> {
        let inside = |at: &Timestamp| spans.iter().any(|span| span.start <= *at && *at < span.end);
        let of = self.voided.iter().filter(|(of, _)| of.as_ref() == lease);
        of.map(|(_, at)| *at).filter(inside).collect()
    }

    /// All reports of the disk that count.
    fn points(&self) -> Vec<StoragePoint> {
        let at_rest = self.at_rest.iter().map(|sample| (Reporter::AtRest, sample));
        let of_leases = self.of_leases.iter().flat_map(|(id, samples)| {
            let started = self.leases.get(id).map_or(Timestamp::EPOCH, |lease| lease.window.start);
            samples.iter().map(move |sample| (Reporter::Lease(started, id.clone()), sample))
        });
        let point = |(by, sample): (Reporter, &PageSample)| {
            let lease = match &by {
                Reporter::AtRest => None,
                Reporter::Lease(_, lease) => Some(lease.clone()),
            };
            sample
                .storage_report()
                .filter(|report| !self.voided.contains(&(lease, report.at)))
                .map(|report| StoragePoint { at: report.at, storage: report.storage, by })
        };
        at_rest.chain(of_leases).filter_map(point).collect()
    }
}

fn spans(bills: &Bills, month: Month) -> Vec<Span> {
    bills.months(month).into_iter().map(Month::span).collect()
}

fn left_out(of: &Owner, voided: &[Timestamp]) -> Option<Record> {
    (!voided.is_empty()).then(|| Record::Voided(of.clone(), voided.to_vec()))
}

fn late(of: &Owner, bills: &Bills) -> Vec<Record> {
    bills.late.iter().map(|(month, billed)| Record::Late(of.clone(), *month, billed.clone())).collect()
}
