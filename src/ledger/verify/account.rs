//! One account, sandbox life by sandbox life, then its counters, grants and invoices.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Differences, lease_hour};
use super::{Difference, Verified};
use crate::domain::credit::{Credit, CreditBook};
use crate::domain::curve;
use crate::domain::customer::Account;
use crate::domain::free_hours::Grant;
use crate::domain::id::{GrantId, KeyId, LeaseId, SandboxId};
use crate::domain::invoice::{Head, Invoice, Status};
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::limits::DayTotals;
use crate::domain::meter;
use crate::domain::money::Micros;
use crate::domain::proof::LifeId;
use crate::domain::rate_card::PriceBook;
use crate::domain::sample::Reading;
use crate::domain::sample_page::{self, PageSample};
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{self, Holders, Reporter, StoragePoint};
use crate::domain::time::{Day, Hour, Month, Span, Timestamp};
use crate::domain::usage::Usage;
use crate::ledger::queries::invoices::{BilledDays, billed_days};
use crate::store::shapes::{Bucket, DrawRow, Group, KeptPage, UsageQuery};
use crate::store::{StoreError, Tx};

/// Lives of sandboxes read in one statement.
const LIVES_MAX: i64 = 100;
/// Grants, and invoices, of one account.
const ROWS_MAX: i64 = 100_000;

/// The check of one account.
pub(super) struct Check<'a> {
    account: &'a Account,
    pub(super) book: &'a PriceBook,
    month: Option<Month>,
    /// The first month whose evidence is at hand.
    evidence_from: Month,
    pub(super) sum: &'a mut Verified,
    pub(super) differences: Differences,
    grants: BTreeMap<GrantId, Grant>,
    /// Samples that count no more: by sandbox, life, lease and instant.
    voids: BTreeSet<(SandboxId, i64, Option<LeaseId>, Timestamp)>,
    drawn_ms: BTreeMap<GrantId, i64>,
    /// By day, the start of the latest hour that free time did not pay for in full.
    lacking: BTreeMap<Day, Timestamp>,
    days: BTreeMap<(KeyId, Day), DayTotals>,
    /// What the hours' table and the open hours have, by day.
    kept: BTreeMap<Day, HourTotals>,
}

/// What a life's evidence says.
#[derive(Default)]
struct Evidence {
    readings: BTreeMap<LeaseId, Vec<Reading>>,
    reports: Vec<StoragePoint>,
}

impl Evidence {
    fn take(&mut self, bytes: &[u8], of: Option<&Lease>) -> Result<u64, StoreError> {
        let samples = sample_page::decode(bytes).map_err(|corrupt| StoreError::Corrupt(corrupt.to_string()))?;
        let by = of.map_or(Reporter::AtRest, |lease| Reporter::Lease(lease.window.start, lease.id.clone()));
        let point = |report: crate::domain::sample::StorageReport| StoragePoint {
            at: report.at,
            storage: report.storage,
            by: by.clone(),
        };
        self.reports.extend(samples.iter().filter_map(PageSample::storage_report).map(point));
        if let Some(lease) = of {
            let readings = self.readings.entry(lease.id.clone()).or_default();
            readings.extend(samples.iter().filter_map(PageSample::reading));
        }
        Ok(u64::try_from(samples.len()).unwrap_or(u64::MAX))
    }
}

impl<'a> Check<'a> {
    pub(super) fn new(
        account: &'a Account,
        book: &'a PriceBook,
        month: Option<Month>,
        evidence_from: Month,
        sum: &'a mut Verified,
    ) -> Self {
        Self {
            account,
            book,
            month,
            evidence_from,
            sum,
            differences: Differences::new(account.id.clone()),
            grants: BTreeMap::new(),
            voids: BTreeSet::new(),
            drawn_ms: BTreeMap::new(),
            lacking: BTreeMap::new(),
            days: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    pub(super) fn into_differences(self) -> Vec<Difference> {
        let found = self.differences.into_found();
        self.sum.differences = self.sum.differences.saturating_add(u64::try_from(found.len()).unwrap_or(u64::MAX));
        found
    }

    fn covers(&self, month: Month) -> bool {
        self.month.is_none_or(|only| only == month)
    }

    /// Whether an hour is to be compared: it is asked for, and its evidence is at hand. Counts those whose is not.
    fn compares(&mut self, hour: Hour) -> bool {
        let month = hour.start().month();
        if !self.covers(month) {
            return false;
        }
        if month < self.evidence_from {
            self.sum.unchecked = self.sum.unchecked.saturating_add(1);
            return false;
        }
        self.sum.rows = self.sum.rows.saturating_add(1);
        true
    }

    fn span(&self) -> (Day, Day) {
        match self.month {
            Some(month) => (month.first_day(), month.next().first_day()),
            None => (Month::FIRST.first_day(), Timestamp::MAX.day().next()),
        }
    }

    pub(super) async fn run(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        let grants = tx.list_grants(&self.account.id, None, ROWS_MAX).await?;
        let voids = tx.voids_of(&self.account.id).await?;
        self.voids = voids.into_iter().map(|void| (void.sandbox, void.life, void.lease, void.at)).collect();
        self.grants = grants.into_iter().map(|grant| (grant.id.clone(), grant)).collect();
        let mut after = None;
        loop {
            let of = after.as_ref().map(|(id, life)| (id, *life));
            let lives = tx.lives_of(&self.account.id, of, LIVES_MAX).await?;
            let Some(last) = lives.last() else { break };
            after = Some((last.id.clone(), last.life));
            for life in &lives {
                self.life(tx, life).await?;
            }
        }
        self.foreign_hours(tx).await?;
        self.counters(tx).await?;
        if self.month.is_none() {
            self.check_grants();
        }
        self.invoices(tx).await
    }

    async fn life(&mut self, tx: &mut Tx, sandbox: &Sandbox) -> Result<(), StoreError> {
        let life = (&sandbox.account, &sandbox.id, sandbox.life);
        let leases = tx.leases_of_life(life).await?;
        let mut pages = tx.pages_of_life(life).await?;
        if self.evidence_from > Month::FIRST {
            let of = LifeId { sandbox: sandbox.id.clone(), life: sandbox.life };
            pages.extend(tx.kept_pages(&sandbox.account, &[of]).await?.into_iter().map(KeptPage::into_page));
        }
        let hours = tx.hours_of_life(life).await?;
        let ids: Vec<LeaseId> = leases.iter().map(|lease| lease.id.clone()).collect();
        let draws = tx.draws_of_leases(&sandbox.account, &ids).await?;
        let evidence = self.evidence(sandbox, &leases, pages)?;
        let mut kept: BTreeMap<(Option<LeaseId>, Hour, KeyId), HourTotals> = BTreeMap::new();
        for (hour, key, lease, totals) in hours {
            kept.insert((lease, hour, key), totals);
        }
        for lease in &leases {
            if let Some(open) = lease.open_hour {
                let sum = kept.entry((Some(lease.id.clone()), open.hour, lease.key.clone())).or_default();
                *sum = sum.plus(open.totals)?;
            }
        }
        if let Some(open) = &sandbox.storage.open_hour {
            let sum = kept.entry((None, open.hour, open.key.clone())).or_default();
            sum.usage.storage_mib_ms = crate::domain::checked::add(sum.usage.storage_mib_ms, open.mib_ms)?;
        }
        for ((_, hour, _), totals) in &kept {
            let day = self.kept.entry(hour.day()).or_default();
            *day = day.plus(*totals)?;
        }
        for lease in &leases {
            self.sum.leases = self.sum.leases.saturating_add(1);
            let readings = evidence.readings.get(&lease.id).map(Vec::as_slice).unwrap_or_default();
            let drawn = draws.iter().filter(|draw| draw.lease == lease.id).collect::<Vec<_>>();
            self.lease(lease, readings, &mut kept, &drawn)?;
        }
        self.storage(sandbox, &leases, evidence.reports, &mut kept)?;
        for ((lease, hour, key), totals) in kept {
            if self.compares(hour) {
                let row = lease_hour(&sandbox.id, lease.as_ref(), &key, hour);
                self.differences.totals(&row, totals, HourTotals::default());
            }
        }
        Ok(())
    }

    fn evidence(
        &mut self,
        sandbox: &Sandbox,
        leases: &[Lease],
        pages: Vec<crate::store::shapes::OwnedPage>,
    ) -> Result<Evidence, StoreError> {
        let by_id: BTreeMap<&LeaseId, &Lease> = leases.iter().map(|lease| (&lease.id, lease)).collect();
        let mut evidence = Evidence::default();
        let mut samples = evidence.take(&sandbox.page.bytes, None)?;
        for (owner, page) in pages {
            let of = owner.lease.as_ref().and_then(|id| by_id.get(id).copied());
            samples = samples.saturating_add(evidence.take(&page.bytes, of)?);
        }
        for lease in leases {
            samples = samples.saturating_add(evidence.take(&lease.page.bytes, Some(lease))?);
        }
        self.leave_out_voids(sandbox, &mut evidence);
        for readings in evidence.readings.values_mut() {
            readings.sort_by_key(|reading| reading.at);
            readings.dedup_by_key(|reading| reading.at);
        }
        self.sum.samples = self.sum.samples.saturating_add(samples);
        Ok(evidence)
    }

    fn leave_out_voids(&self, sandbox: &Sandbox, evidence: &mut Evidence) {
        if self.voids.is_empty() {
            return;
        }
        let counts = |lease: Option<&LeaseId>, at: Timestamp| {
            !self.voids.contains(&(sandbox.id.clone(), sandbox.life, lease.cloned(), at))
        };
        for (lease, readings) in &mut evidence.readings {
            readings.retain(|reading| counts(Some(lease), reading.at));
        }
        evidence.reports.retain(|point| match &point.by {
            Reporter::AtRest => counts(None, point.at),
            Reporter::Lease(_, lease) => counts(Some(lease), point.at),
        });
    }

    /// A lease's hours, its draws, and what it holds.
    fn lease(
        &mut self,
        lease: &Lease,
        readings: &[Reading],
        kept: &mut BTreeMap<(Option<LeaseId>, Hour, KeyId), HourTotals>,
        drawn: &[&DrawRow],
    ) -> Result<(), StoreError> {
        let terms = lease.terms(self.book);
        let usage = if self.evidence_from == Month::FIRST {
            meter::replay(&terms, readings)?.1
        } else {
            let at_hand = Span { start: self.evidence_from.span().start, end: Timestamp::MAX };
            curve::evaluate_within(&terms, readings, at_hand)?
        };
        let usage: BTreeMap<Hour, Usage> = usage.iter().collect();
        let mut drawn_ms: BTreeMap<Hour, i64> = BTreeMap::new();
        for draw in drawn {
            self.draw(draw);
            let sum = drawn_ms.entry(draw.hour).or_default();
            *sum = sum.saturating_add(draw.drawn_ms);
        }
        let hours: BTreeSet<Hour> = usage.keys().chain(drawn_ms.keys()).copied().collect();
        for hour in hours {
            let usage = usage.get(&hour).copied().unwrap_or_default();
            let free_ms = i128::from(drawn_ms.get(&hour).copied().unwrap_or(0));
            let free =
                if free_ms > 0 && usage.run_ms > 0 { usage.compute_part(free_ms, usage.run_ms)? } else { Usage::ZERO };
            let totals = HourTotals { usage, free_ms, free };
            if hour.start().month() < self.evidence_from {
                continue;
            }
            if free_ms < usage.run_ms {
                let start = self.lacking.entry(hour.day()).or_insert(hour.start());
                *start = (*start).max(hour.start());
            }
            self.count(&lease.key, hour.day(), totals.net()?, Usage::ZERO)?;
            let found = kept.remove(&(Some(lease.id.clone()), hour, lease.key.clone())).unwrap_or_default();
            if self.compares(hour) {
                self.differences.totals(&lease_hour(&lease.sandbox, Some(&lease.id), &lease.key, hour), found, totals);
            }
        }
        for (day, held) in lease.hold(self.book)? {
            self.count(&lease.key, day, Usage::ZERO, held)?;
        }
        Ok(())
    }

    fn draw(&mut self, draw: &DrawRow) {
        let sum = self.drawn_ms.entry(draw.grant.clone()).or_default();
        *sum = sum.saturating_add(draw.drawn_ms);
        let pays = self.grants.get(&draw.grant).is_some_and(|grant| grant.pays_on(draw.hour.day()));
        // What was given back stays, with 0.
        if draw.drawn_ms < 0 || (draw.drawn_ms > 0 && !pays) {
            let row = format!("lease {} hour {} grant {}", draw.lease, draw.hour.index(), draw.grant);
            self.differences.figure("draws", &row, "drawn_ms", i128::from(draw.drawn_ms), 0);
        }
    }

    fn storage(
        &mut self,
        sandbox: &Sandbox,
        leases: &[Lease],
        reports: Vec<StoragePoint>,
        kept: &mut BTreeMap<(Option<LeaseId>, Hour, KeyId), HourTotals>,
    ) -> Result<(), StoreError> {
        let mut changes: Vec<(Timestamp, KeyId)> =
            leases.iter().map(|lease| (lease.window.start, lease.key.clone())).collect();
        changes.sort_by_key(|(at, _)| *at);
        let holders = Holders { first: sandbox.first_key.clone(), changes };
        let points = storage_meter::counting(reports);
        for ((hour, key), mib_ms) in storage_meter::evaluate(&points, sandbox.deleted_at, &holders)? {
            if hour.start().month() < self.evidence_from {
                continue;
            }
            let usage = Usage { storage_mib_ms: mib_ms, ..Usage::ZERO };
            self.count(&key, hour.day(), usage, Usage::ZERO)?;
            let found = kept.remove(&(None, hour, key.clone())).unwrap_or_default();
            if self.compares(hour) {
                let row = lease_hour(&sandbox.id, None, &key, hour);
                self.differences.totals(&row, found, HourTotals { usage, ..HourTotals::default() });
            }
        }
        Ok(())
    }

    fn count(&mut self, key: &KeyId, day: Day, used: Usage, reserved: Usage) -> Result<(), StoreError> {
        let sum = self.days.entry((key.clone(), day)).or_default();
        *sum = sum.plus(DayTotals { used, reserved })?;
        Ok(())
    }

    /// Hours of sandboxes that there are not: the sum of all by day must be that of the known lives.
    async fn foreign_hours(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        let (from, to) = self.span();
        let query = UsageQuery {
            account: Some(self.account.id.clone()),
            from: from.start().hour(),
            to: to.start().hour(),
            bucket: Bucket::Day,
            group: Group::None,
            rows_max: i64::MAX,
        };
        for row in tx.usage_grouped(&query).await? {
            let known = self.kept.get(&row.start.day()).copied().unwrap_or_default();
            self.differences.totals(&format!("day {} in all", row.start.day().index()), row.totals, known);
        }
        Ok(())
    }

    async fn counters(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        let (from, to) = self.span();
        let from = from.max(self.evidence_from.first_day());
        let mut kept: BTreeMap<(KeyId, Day), DayTotals> =
            tx.all_key_days(&self.account.id, from, to).await?.into_iter().collect();
        let mut all: BTreeMap<Day, DayTotals> = BTreeMap::new();
        for ((key, day), computed) in std::mem::take(&mut self.days) {
            let sum = all.entry(day).or_default();
            *sum = sum.plus(computed)?;
            let found = kept.remove(&(key.clone(), day)).unwrap_or_default();
            if from <= day && day < to {
                self.sum.rows = self.sum.rows.saturating_add(1);
                self.differences.day("key_days", &format!("key {key} day {}", day.index()), found, computed);
            }
        }
        for ((key, day), found) in kept {
            let row = format!("key {key} day {}", day.index());
            self.differences.day("key_days", &row, found, DayTotals::default());
        }
        let Some(counted_from) = self.account.counted_from else { return Ok(()) };
        let mut kept: BTreeMap<Day, DayTotals> =
            tx.all_account_days(&self.account.id, from, to).await?.into_iter().collect();
        let days: BTreeSet<Day> = all.keys().chain(kept.keys()).copied().collect();
        for day in days.into_iter().filter(|day| counted_from <= *day && from <= *day && *day < to) {
            let (found, computed) = (kept.remove(&day).unwrap_or_default(), all.get(&day).copied().unwrap_or_default());
            self.sum.rows = self.sum.rows.saturating_add(1);
            self.differences.day("account_days", &format!("day {}", day.index()), found, computed);
        }
        Ok(())
    }

    /// Never more than granted, all that was drawn is noted, and a grant that nothing ever drew on was not withheld
    /// from an hour that began after it was made.
    fn check_grants(&mut self) {
        for grant in self.grants.values() {
            self.sum.rows = self.sum.rows.saturating_add(1);
            let drawn = self.drawn_ms.get(&grant.id).copied();
            let row = format!("grant {}", grant.id);
            let drawn_ms = i128::from(drawn.unwrap_or(0));
            self.differences.figure("grants", &row, "used_ms", i128::from(grant.used_ms), drawn_ms);
            if grant.used_ms > grant.granted_ms {
                let (used, granted) = (i128::from(grant.used_ms), i128::from(grant.granted_ms));
                self.differences.figure("grants", &row, "granted_ms", used, granted);
            }
            let lacked = self.lacking.iter().any(|(day, start)| grant.pays_on(*day) && grant.created_at <= *start);
            if drawn.is_none() && grant.granted_ms > 0 && lacked {
                self.differences.figure("draws", &row, "withheld_ms", 0, i128::from(grant.granted_ms));
            }
        }
        let unknown: Vec<_> = self.drawn_ms.iter().filter(|(id, _)| !self.grants.contains_key(*id)).collect();
        for (id, drawn) in unknown {
            self.differences.figure("draws", &format!("grant {id}"), "drawn_ms", i128::from(*drawn), 0);
        }
    }

    /// Final invoices are what the hours that they bill, the cards and the credits make of them, and each begins with
    /// what the one before carried forward. A credit that was made after an invoice, and did not pay for it, did not have
    /// to.
    async fn invoices(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: BTreeSet<_> = [self.account.id.clone()].into();
        let mut carried_over = Micros::ZERO;
        let mut credits = CreditBook::new(tx.credits(&ids).await?);
        for kept in tx.list_invoices(&self.account.id, None, ROWS_MAX).await? {
            if self.covers(kept.month) {
                let days = billed_days(tx, &ids, kept.month, BilledDays::Closed).await?.remove(&self.account.id);
                let (account, name) = (self.account.id.clone(), kept.name.clone());
                let pays = |credit: &Credit| is_older(credit, &kept) || draws_on(&kept, credit);
                let tax = kept.lines.iter().find_map(|line| line.taxed).map(|taxed| taxed.rate);
                let credits = credits.filtered(pays);
                let head = Head { account, name, month: kept.month, carried_over, credits, tax };
                let computed = Invoice::draft(head, &days.unwrap_or_default(), self.book)?;
                self.sum.rows = self.sum.rows.saturating_add(1);
                if !self.differences.invoice(&kept, &computed) {
                    self.proof(tx, &kept, carried_over).await?;
                }
            }
            credits.note(&kept.draws)?;
            carried_over = kept.carried_forward()?;
        }
        // All draws that there are, those of no invoice too.
        let kept = tx.credit_books(&ids).await?.remove(&self.account.id).unwrap_or_default();
        for ((credit, drawn), (_, kept)) in credits.credits().zip(kept.credits()) {
            self.sum.rows = self.sum.rows.saturating_add(1);
            let (row, kept) = (format!("credit {}", credit.id), i128::from(kept.count()));
            self.differences.figure("credit_draws", &row, "drawn_micros", kept, i128::from(drawn.count()));
            if drawn < Micros::ZERO || drawn > credit.granted {
                let (drawn, granted) = (i128::from(drawn.count()), i128::from(credit.granted.count()));
                self.differences.figure("credits", &row, "drawn_micros", drawn, granted);
            }
        }
        Ok(())
    }
}

/// Whether a credit was there when an invoice became final.
fn is_older(credit: &Credit, invoice: &Invoice) -> bool {
    matches!(invoice.status, Status::Final { at, .. } if credit.created_at < at)
}

fn draws_on(invoice: &Invoice, credit: &Credit) -> bool {
    invoice.draws.iter().any(|draw| draw.credit == credit.id)
}
