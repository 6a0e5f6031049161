//! Voiding a sample: what it added is taken back, as the evidence without it says; late where its month is closed.

use super::super::command::{CommandError, ConflictCode, Made, Target, VoidSample};
use super::super::working_set::WorkingSet;
use super::{Applied, id_conflict};
use crate::domain::id::LeaseId;
use crate::domain::meter;
use crate::domain::sample::Reading;
use crate::domain::sample_page::PageSample;
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{self, Holders, Reporter, StoragePoint};
use crate::domain::time::Timestamp;
use crate::domain::void::Void;

/// All samples of a sandbox's life.
#[derive(Debug)]
pub struct Evidence {
    /// The life.
    pub sandbox: Sandbox,
    /// In any order, voided ones too; who reported each.
    pub samples: Vec<(Reporter, PageSample)>,
    /// Those that are voided already.
    pub voids: Vec<Void>,
}

impl Evidence {
    /// Takes in samples of one reporter.
    pub fn take(&mut self, by: &Reporter, samples: &[PageSample]) {
        self.samples.extend(samples.iter().map(|sample| (by.clone(), *sample)));
    }

    fn is_voided(&self, by: &Reporter, at: Timestamp) -> bool {
        self.voids.iter().any(|void| void.at == at && void.lease.as_ref() == lease_of(by))
    }

    /// The samples that count.
    fn counting(&self) -> impl Iterator<Item = (&Reporter, &PageSample)> {
        let counts = |(by, sample): &&(Reporter, PageSample)| !self.is_voided(by, sample.at);
        self.samples.iter().filter(counts).map(|(by, sample)| (by, sample))
    }

    /// Readings of a lease that count, ascending; without the one at an instant.
    fn readings(&self, lease: &LeaseId, without: Option<Timestamp>) -> Vec<Reading> {
        let own = self.counting().filter(|(by, sample)| lease_of(by) == Some(lease) && Some(sample.at) != without);
        let mut readings: Vec<Reading> = own.filter_map(|(_, sample)| sample.reading()).collect();
        readings.sort_by_key(|reading| reading.at);
        readings.dedup_by_key(|reading| reading.at);
        readings
    }

    /// Reports of the disk that count, ascending; without one.
    fn reports(&self, without: Option<(&Reporter, Timestamp)>) -> Vec<StoragePoint> {
        let kept = self.counting().filter(|(by, sample)| without != Some((*by, sample.at)));
        let report = |(by, sample): (&Reporter, &PageSample)| {
            sample.storage.map(|storage| StoragePoint { at: sample.at, storage, by: by.clone() })
        };
        storage_meter::counting(kept.filter_map(report).collect())
    }
}

fn lease_of(by: &Reporter) -> Option<&LeaseId> {
    match by {
        Reporter::AtRest => None,
        Reporter::Lease(_, lease) => Some(lease),
    }
}

impl WorkingSet {
    /// Voids a sample. `known`: the void that has its id.
    pub fn void_sample(
        &mut self,
        command: &VoidSample,
        known: Option<&Void>,
        evidence: Option<&Evidence>,
    ) -> Applied<Made<Void>> {
        if !self.accounts.contains_key(&command.account) {
            return Err(CommandError::NotFound("account"));
        }
        if let Some(known) = known {
            let of = match &command.of {
                Target::Lease(lease) => known.lease.as_ref() == Some(lease),
                Target::AtRest(sandbox) => known.lease.is_none() && known.sandbox == *sandbox,
            };
            if of && known.at == command.at && known.reason == command.reason {
                return Ok(Made { value: known.clone(), fresh: false });
            }
            return Err(id_conflict(format!("void {} exists with other content", known.id)));
        }
        let evidence = evidence.ok_or(CommandError::NotFound("sample"))?;
        let lease = match &command.of {
            Target::Lease(lease) => Some(lease.clone()),
            Target::AtRest(_) => None,
        };
        let is_it = |(by, sample): &&(Reporter, PageSample)| sample.at == command.at && lease_of(by) == lease.as_ref();
        let (by, sample) = evidence.samples.iter().find(is_it).ok_or(CommandError::NotFound("sample"))?;
        if evidence.is_voided(by, command.at) {
            return Err(id_conflict("this sample is voided already"));
        }
        if self.is_archived(command.at) {
            return Err(CommandError::Conflict {
                code: ConflictCode::MonthClosed,
                detail: "the evidence of this month is archived".to_owned(),
                lease,
            });
        }
        if let Some(lease) = &lease {
            self.void_reading(evidence, lease, command.at)?;
        }
        if sample.storage.is_some() {
            self.void_report(evidence, by, command.at)?;
        }
        let void = Void {
            account: command.account.clone(),
            id: command.id.clone(),
            sandbox: evidence.sandbox.id.clone(),
            life: evidence.sandbox.life,
            lease,
            at: command.at,
            reason: command.reason.clone(),
            voided_at: self.now,
            open_month: self.open_month,
        };
        self.changes.voids.push(void.clone());
        Ok(Made { value: void, fresh: true })
    }

    /// Takes a reading out of a lease's meter; what it proved is held again while the lease is not settled.
    fn void_reading(&mut self, evidence: &Evidence, id: &LeaseId, at: Timestamp) -> Applied<()> {
        let key = (evidence.sandbox.account.clone(), id.clone());
        let before = self.lease_for_change(&key)?.ok_or(CommandError::NotFound("lease"))?;
        let prices = self.prices(&key.0);
        let terms = before.terms(&prices);
        let (_, posted) = meter::replay(&terms, &evidence.readings(id, None))?;
        let (meter, right) = meter::replay(&terms, &evidence.readings(id, Some(at)))?;
        let mut after = crate::domain::lease::Lease::clone(&before);
        after.meter = meter;
        after.voided_until = after.voided_until.max(Some(at));
        self.post_compute(&mut after, &right.minus(&posted)?, true)?;
        self.post_hold(Some(&before), &after)?;
        self.put_lease(after);
        Ok(())
    }

    /// Takes a report out of a life's storage.
    fn void_report(&mut self, evidence: &Evidence, by: &Reporter, at: Timestamp) -> Applied<()> {
        let mut sandbox = evidence.sandbox.clone();
        let key = ((sandbox.account.clone(), sandbox.id.clone()), sandbox.life);
        let nobody = || Holders { first: sandbox.first_key.clone(), changes: Vec::new() };
        let holders = self.holders.get(&key).cloned().unwrap_or_else(nobody);
        let deleted_at = sandbox.deleted_at;
        let without = evidence.reports(Some((by, at)));
        let posted = storage_meter::evaluate(&evidence.reports(None), deleted_at, &holders)?;
        let right = storage_meter::evaluate(&without, deleted_at, &holders)?;
        let counts = |point: &&StoragePoint| deleted_at.is_none_or(|deleted| point.at < deleted);
        sandbox.storage.last = without.iter().rev().find(counts).cloned();
        sandbox.voided_until = sandbox.voided_until.max(Some(at));
        self.post_storage(&mut sandbox, &storage_meter::difference(right, &posted)?)?;
        self.put_sandbox(sandbox);
        Ok(())
    }
}
