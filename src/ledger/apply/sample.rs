//! Samples: judged, counted, and kept as evidence; each by itself, so that one bad row never spoils its batch.

use super::super::command::SampleOutcome;
use super::super::working_set::WorkingSet;
use super::Fault;
use super::settle::page_owner;
use crate::domain::id::{HostId, LeaseId};
use crate::domain::lease::{CLOCK_TOLERANCE_MS, Lease};
use crate::domain::meter::judge;
use crate::domain::sample::{Reading, RejectCode, Sample, Seen, StorageReport};
use crate::domain::sample_page::PageSample;
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{Reporter, StoragePoint};
use crate::domain::time::Timestamp;
use crate::store::changes::PageOwner;

type Judged = Result<SampleOutcome, Fault>;

impl WorkingSet {
    /// Takes one sample, of the host whose token sent it (`None`: an operator's, who may send for any).
    pub fn sample(&mut self, host: Option<&HostId>, sample: &Sample) -> Judged {
        match &sample.seen {
            Seen::Running(lease, reading) => self.running(host, sample, lease, *reading),
            Seen::AtRest(report) => self.at_rest(host, sample, *report),
        }
    }

    fn running(&mut self, host: Option<&HostId>, sample: &Sample, id: &LeaseId, reading: Reading) -> Judged {
        let key = (sample.account.clone(), id.clone());
        let Some(known) = self.leases.get(&key) else { return Ok(SampleOutcome::Rejected(RejectCode::UnknownLease)) };
        if known.sandbox != sample.sandbox {
            return Ok(SampleOutcome::Rejected(RejectCode::UnknownSandbox));
        }
        let (before, after, same) = self.neighbours(known, &reading)?;
        if same == Some(reading) {
            return Ok(SampleOutcome::Duplicate);
        }
        if let Some(code) = self.refused_outright(known, host, &reading) {
            return Ok(SampleOutcome::Rejected(code));
        }
        if same.is_some() {
            return Ok(SampleOutcome::Rejected(RejectCode::Conflict));
        }
        let prices = self.prices(&sample.account);
        if let Err(code) = judge(&known.terms(&prices), before.as_ref(), after.as_ref(), &reading) {
            return Ok(SampleOutcome::Rejected(code));
        }
        let Some(lease) = self.lease_for_change(&key)? else {
            return Ok(SampleOutcome::Rejected(RejectCode::UnknownLease));
        };
        self.take_reading(&lease, host, reading)?;
        Ok(SampleOutcome::Accepted)
    }

    /// The accepted readings next to an instant, and the one at it.
    fn neighbours(&self, lease: &Lease, reading: &Reading) -> Result<Neighbours, Fault> {
        let last = lease.meter.last;
        if last.is_none_or(|last| last.at < reading.at) && is_after_voids(lease, reading) {
            return Ok((last, None, None));
        }
        if let Some(last) = last.filter(|last| last.at == reading.at) {
            return Ok((None, None, Some(last)));
        }
        let key = (lease.account.clone(), lease.id.clone());
        let around = match self.readings.get(&key) {
            Some(loaded) => loaded.clone(),
            // Not loaded because the open page has a sample of this very instant.
            None => lease.page.samples()?.iter().filter_map(PageSample::reading).collect(),
        };
        let voided = self.voided.get(&key).into_iter().flatten();
        let before = around.iter().rev().find(|other| other.at < reading.at).copied();
        let after = around.iter().find(|other| other.at > reading.at).copied();
        let after = after.or(last.filter(|last| last.at > reading.at));
        let same = around.iter().chain(voided).find(|other| other.at == reading.at).copied();
        Ok((before, after, same))
    }

    /// `wrong_host`, `future`, `outside_lease`, `archived`.
    fn refused_outright(&self, lease: &Lease, host: Option<&HostId>, reading: &Reading) -> Option<RejectCode> {
        let wrong_host = host.is_some_and(|host| lease.host.as_ref().is_some_and(|other| other != host));
        let early = reading.at < lease.window.start.near(CLOCK_TOLERANCE_MS.saturating_neg());
        let late = reading.at > lease.window.end.near(CLOCK_TOLERANCE_MS);
        if wrong_host {
            Some(RejectCode::WrongHost)
        } else if reading.at > self.now.near(CLOCK_TOLERANCE_MS) {
            Some(RejectCode::Future)
        } else if early || late {
            Some(RejectCode::OutsideLease)
        } else if self.is_archived(reading.at) {
            Some(RejectCode::Archived)
        } else {
            None
        }
    }

    /// Whether the evidence around an instant is no longer at hand.
    pub(super) fn is_archived(&self, at: Timestamp) -> bool {
        at.month() < self.evidence_from
    }

    /// Counts an accepted reading and keeps it as evidence.
    fn take_reading(&mut self, before: &Lease, host: Option<&HostId>, reading: Reading) -> Result<(), Fault> {
        let prices = self.prices(&before.account);
        let mut lease = before.clone();
        let in_order = before.meter.last.is_none_or(|last| last.at < reading.at);
        let around = if in_order { Vec::new() } else { self.readings_of(before) };
        let terms = before.terms(&prices);
        let (meter, change) = if in_order {
            before.meter.take(&terms, reading)?
        } else {
            before.meter.take_late(&terms, &around, reading)?
        };
        lease.meter = meter;
        lease.host = lease.host.or_else(|| host.cloned());
        self.keep_evidence(&mut lease, reading, in_order)?;
        self.post_compute(&mut lease, &change, !in_order || before.settled_at.is_some())?;
        // A sample that reaches the end settles the lease at once; one ahead of the clock does not end a running lease.
        let over = lease.end.is_some() || self.now >= lease.window.end;
        let settles = lease.settled_at.is_none() && over && lease.unmetered().is_empty();
        if settles {
            lease.settled_at = Some(self.now);
            self.close(&mut lease)?;
        }
        self.post_hold(Some(before), &lease)?;
        if let Some(storage) = reading.storage {
            let by = Reporter::Lease(lease.window.start, lease.id.clone());
            let point = StoragePoint { at: reading.at, storage, by };
            self.report_storage(&lease.account, &lease.sandbox, lease.life, point)?;
        }
        self.put_lease(lease);
        Ok(())
    }

    /// In order and while the lease is its sandbox's running one: into the open page; else into a page of its own.
    fn keep_evidence(&mut self, lease: &mut Lease, reading: Reading, in_order: bool) -> Result<(), Fault> {
        let sample = PageSample::from(reading);
        let owner = page_owner(lease);
        let month = self.open_month;
        // What was voided stays in its place: the open page may have it.
        let fits = in_order && lease.open && is_after_voids(lease, &reading);
        let page = if fits { lease.page.push(sample, month)? } else { Some(lease.page.late(sample, month)) };
        self.changes.pages.extend(page.map(|page| (owner, page)));
        if let Some(readings) = self.readings.get_mut(&(lease.account.clone(), lease.id.clone())) {
            let place = readings.partition_point(|other| other.at < reading.at);
            readings.insert(place, reading);
        }
        Ok(())
    }

    fn at_rest(&mut self, host: Option<&HostId>, sample: &Sample, report: StorageReport) -> Judged {
        let Some(known) = self.life_at(sample, report) else {
            return Ok(SampleOutcome::Rejected(RejectCode::UnknownSandbox));
        };
        let mut sandbox = known.clone();
        let same = self.same_at_rest(&sandbox, report)?;
        if same == Some(report) {
            return Ok(SampleOutcome::Duplicate);
        }
        let latest = sandbox.latest.as_ref().and_then(|latest| {
            self.leases.get(&(sandbox.account.clone(), latest.id.clone())).and_then(|lease| lease.host.as_ref())
        });
        let early = report.at < sandbox.created_at.near(CLOCK_TOLERANCE_MS.saturating_neg());
        let late = sandbox.deleted_at.is_some_and(|at| report.at > at.near(CLOCK_TOLERANCE_MS));
        if host.is_some_and(|host| latest.is_some_and(|other| other != host)) {
            return Ok(SampleOutcome::Rejected(RejectCode::WrongHost));
        } else if report.at > self.now.near(CLOCK_TOLERANCE_MS) {
            return Ok(SampleOutcome::Rejected(RejectCode::Future));
        } else if early || late {
            return Ok(SampleOutcome::Rejected(RejectCode::OutsideLease));
        } else if self.is_archived(report.at) {
            return Ok(SampleOutcome::Rejected(RejectCode::Archived));
        } else if same.is_some() {
            return Ok(SampleOutcome::Rejected(RejectCode::Conflict));
        }
        self.keep_rest_evidence(&mut sandbox, report)?;
        let (account, id, life) = (sandbox.account.clone(), sandbox.id.clone(), sandbox.life);
        self.put_sandbox(sandbox);
        let point = StoragePoint { at: report.at, storage: report.storage, by: Reporter::AtRest };
        self.report_storage(&account, &id, life, point)?;
        Ok(SampleOutcome::Accepted)
    }

    /// The life that a report at rest is of: the newest one that had begun by then, else the first that is known.
    fn life_at(&self, sample: &Sample, report: StorageReport) -> Option<&Sandbox> {
        let lives = &self.sandboxes.get(&(sample.account.clone(), sample.sandbox.clone()))?.lives;
        lives.iter().rev().find(|life| life.created_at <= report.at).or_else(|| lives.first())
    }

    /// An accepted report at rest of the same instant.
    fn same_at_rest(&self, sandbox: &Sandbox, report: StorageReport) -> Result<Option<StorageReport>, Fault> {
        let key = ((sandbox.account.clone(), sandbox.id.clone()), sandbox.life);
        let loaded = self.at_rest.get(&key).and_then(|points| points.iter().find(|point| point.at == report.at));
        if let Some(point) = loaded {
            return Ok(Some(StorageReport { at: point.at, storage: point.storage }));
        }
        let mut voided = self.voided_at_rest.get(&key).into_iter().flatten();
        if let Some(report) = voided.find(|other| other.at == report.at) {
            return Ok(Some(*report));
        }
        let open = sandbox.page.samples()?;
        Ok(open.iter().filter_map(PageSample::storage_report).find(|other| other.at == report.at))
    }

    fn keep_rest_evidence(&mut self, sandbox: &mut Sandbox, report: StorageReport) -> Result<(), Fault> {
        let owner = PageOwner {
            account: sandbox.account.clone(),
            sandbox: sandbox.id.clone(),
            life: sandbox.life,
            lease: None,
        };
        let last = sandbox.page.samples()?.last().map(|last| last.at);
        let sample = PageSample::from(report);
        let in_order = last.is_none_or(|last| last < report.at);
        let month = self.open_month;
        let page = if in_order { sandbox.page.push(sample, month)? } else { Some(sandbox.page.late(sample, month)) };
        self.changes.pages.extend(page.map(|page| (owner, page)));
        let key = ((sandbox.account.clone(), sandbox.id.clone()), sandbox.life);
        let point = StoragePoint { at: report.at, storage: report.storage, by: Reporter::AtRest };
        self.at_rest.entry(key).or_default().push(point);
        Ok(())
    }
}

/// Whether a reading is later than every voided one of its lease.
fn is_after_voids(lease: &Lease, reading: &Reading) -> bool {
    lease.voided_until.is_none_or(|until| until < reading.at)
}

/// The accepted readings before and after an instant, and the one at it.
type Neighbours = (Option<Reading>, Option<Reading>, Option<Reading>);
