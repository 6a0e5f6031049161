//! What an invoice bills, worked out from the records of its evidence alone.
//!
//! Records are taken one by one, in their order, and checked on the way: what is out of order, twice, of another life,
//! or drawn from a grant that did not pay is [`Wrong::Record`]. One life is held at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::credits::{self, CreditTerms};
use super::{CardSpan, GrantTerms, LeaseTerms, LifeId, Owner, Record};
use crate::domain::checked::Overflow;
use crate::domain::credit::CreditBook;
use crate::domain::curve;
use crate::domain::id::{AccountId, GrantId, LeaseId};
use crate::domain::lease::HourTotals;
use crate::domain::meter::Terms;
use crate::domain::money::Micros;
use crate::domain::rate_card::{PriceBook, RateCardEntry};
use crate::domain::sample::{Reading, StorageReport};
use crate::domain::storage_meter::{self, Reporter, StoragePoint};
use crate::domain::time::{Day, Hour, Month, Span, Timestamp};
use crate::domain::usage::Usage;

/// Why records are no evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A quantity does not fit.
    Overflow,
    /// A record can't be; for people.
    Record(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow => Overflow.fmt(out),
            Self::Record(detail) => out.write_str(detail),
        }
    }
}

impl std::error::Error for Wrong {}

impl From<Overflow> for Wrong {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

fn wrong<T>(detail: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Record(detail.into()))
}

/// What was billed before, by month of use and day.
type Late = BTreeMap<Month, Vec<(Day, HourTotals)>>;

/// The life that is being read.
#[derive(Debug)]
struct Life {
    id: LifeId,
    deleted_at: Option<Timestamp>,
    reports: Vec<StoragePoint>,
    late: Late,
    last_hour: Option<Hour>,
    voided: bool,
    lease: Option<OneLease>,
    leases_seen: Option<LeaseId>,
}

/// The lease that is being read.
#[derive(Debug)]
struct OneLease {
    terms: LeaseTerms,
    readings: Vec<Reading>,
    voided: bool,
    drawn: BTreeMap<Hour, i64>,
    late: Late,
}

/// The bill that is being worked out.
#[derive(Debug)]
pub struct Bill {
    account: AccountId,
    month: Month,
    cards: Vec<CardSpan>,
    book: Option<PriceBook>,
    grants: BTreeMap<GrantId, GrantTerms>,
    drawn_ms: BTreeMap<GrantId, i64>,
    credits: Vec<CreditTerms>,
    credit_drawn: Vec<(Day, Vec<(GrantId, Micros)>)>,
    life: Option<Life>,
    days: BTreeMap<Day, HourTotals>,
}

/// What an invoice bills: by day, at which prices, and what credit there is.
#[derive(Debug)]
pub struct Billed {
    /// Usage by day of use.
    pub days: Vec<(Day, HourTotals)>,
    /// The prices of those days.
    pub book: PriceBook,
    /// The credits that it drew on, as they were before it.
    pub credits: CreditBook,
}

impl Bill {
    /// Of a month of an account.
    #[must_use]
    pub fn new(account: AccountId, month: Month) -> Self {
        Self {
            account,
            month,
            cards: Vec::new(),
            book: None,
            grants: BTreeMap::new(),
            drawn_ms: BTreeMap::new(),
            credits: Vec::new(),
            credit_drawn: Vec::new(),
            life: None,
            days: BTreeMap::new(),
        }
    }

    /// Takes the next record.
    pub fn take(&mut self, record: Record) -> Result<(), Wrong> {
        match record {
            Record::Card(span) => self.card(span),
            Record::Grant(grant) => self.grant(grant),
            Record::Credit(credit) => self.credit(credit),
            Record::CreditDrawn(day, drawn) => self.credit_drawn(day, drawn),
            Record::Sandbox(id, deleted_at) => self.sandbox(id, deleted_at),
            Record::Reports(id, hour, reports) => self.reports(&id, hour, &reports),
            Record::Lease(terms) => self.lease(terms),
            Record::Readings(id, hour, readings) => self.readings(&id, hour, &readings),
            Record::Drawn(id, hour, drawn) => self.drawn(&id, hour, &drawn),
            Record::Voided(of, instants) => self.voided(&of, &instants),
            Record::Late(of, month, billed) => self.late(&of, month, billed),
        }
    }

    /// All records are taken: what they bill.
    pub fn finish(mut self) -> Result<Billed, Wrong> {
        self.close_life()?;
        for grant in self.grants.values() {
            let drawn = self.drawn_ms.get(&grant.id).copied().unwrap_or(0);
            let all = grant.drawn_before_ms.checked_add(drawn).ok_or(Wrong::Overflow)?;
            if drawn == 0 {
                return wrong(format!("grant {} is not drawn on", grant.id));
            }
            if grant.drawn_before_ms < 0 || all > grant.granted_ms {
                return wrong(format!("grant {}: {all} ms drawn of {} ms", grant.id, grant.granted_ms));
            }
        }
        let book = self.prices()?;
        let credits = credits::book(&self.account, &self.credits, &self.credit_drawn)?;
        if let Some((credit, drawn)) =
            credits.credits().find(|(credit, drawn)| *drawn < Micros::ZERO || *drawn > credit.granted)
        {
            return wrong(format!("credit {}: {} microdollars are drawn", credit.id, drawn.count()));
        }
        Ok(Billed { days: self.days.into_iter().collect(), book, credits })
    }

    fn card(&mut self, span: CardSpan) -> Result<(), Wrong> {
        let follows = self.cards.last().is_none_or(|last| last.to <= span.from);
        let of_one_month = span.from < span.to && span.to <= span.from.month().next().first_day();
        let first = self.grants.is_empty() && self.credits.is_empty() && self.life.is_none();
        if !first || !follows || !of_one_month {
            return wrong(format!("the rate card {} is out of order", span.card.id));
        }
        self.cards.push(span);
        Ok(())
    }

    fn grant(&mut self, grant: GrantTerms) -> Result<(), Wrong> {
        let follows = self.grants.last_key_value().is_none_or(|(last, _)| *last < grant.id);
        if self.life.is_some() || !self.credits.is_empty() || !follows {
            return wrong(format!("the grant {} is out of order", grant.id));
        }
        self.grants.insert(grant.id.clone(), grant);
        Ok(())
    }

    fn credit(&mut self, credit: CreditTerms) -> Result<(), Wrong> {
        let follows = self.credits.last().is_none_or(|last| last.id < credit.id);
        if self.life.is_some() || !self.credit_drawn.is_empty() || !follows {
            return wrong(format!("the credit {} is out of order", credit.id));
        }
        self.credits.push(credit);
        Ok(())
    }

    fn credit_drawn(&mut self, day: Day, drawn: Vec<(GrantId, Micros)>) -> Result<(), Wrong> {
        let follows = self.credit_drawn.last().is_none_or(|(last, _)| *last < day);
        let known = drawn.iter().all(|(id, _)| self.credits.iter().any(|credit| credit.id == *id));
        if self.life.is_some() || drawn.is_empty() || !follows || !known {
            return wrong(format!("what was drawn on credits for day {} is out of order", day.index()));
        }
        self.credit_drawn.push((day, drawn));
        Ok(())
    }

    /// The prices, from the first time they are asked for: then all cards are there.
    fn prices(&mut self) -> Result<PriceBook, Wrong> {
        if let Some(book) = &self.book {
            return Ok(book.clone());
        }
        let Some(first) = self.cards.first() else { return wrong("there is no rate card") };
        let entry = |span: &CardSpan| RateCardEntry {
            account: None,
            effective_on: span.from,
            card: Some(span.card.clone()),
            created_at: Timestamp::EPOCH,
        };
        let entries: Vec<RateCardEntry> = self.cards.iter().map(entry).collect();
        let book = PriceBook::new(first.card.clone(), &self.account, &entries);
        self.book = Some(book.clone());
        Ok(book)
    }

    fn sandbox(&mut self, id: LifeId, deleted_at: Option<Timestamp>) -> Result<(), Wrong> {
        if self.life.as_ref().is_some_and(|life| life.id >= id) {
            return wrong(format!("sandbox {} life {} is out of order", id.sandbox, id.life));
        }
        self.close_life()?;
        let (reports, late) = (Vec::new(), BTreeMap::new());
        self.life = Some(Life {
            id,
            deleted_at,
            reports,
            late,
            last_hour: None,
            voided: false,
            lease: None,
            leases_seen: None,
        });
        Ok(())
    }

    /// The life that is open, which must be this one.
    fn open(&mut self, id: &LifeId) -> Result<&mut Life, Wrong> {
        match &mut self.life {
            Some(life) if life.id == *id => Ok(life),
            Some(_) | None => wrong(format!("what is of sandbox {} life {} is out of order", id.sandbox, id.life)),
        }
    }

    fn open_lease(&mut self, id: &LeaseId) -> Result<&mut OneLease, Wrong> {
        match self.life.as_mut().and_then(|life| life.lease.as_mut()) {
            Some(lease) if lease.terms.id == *id => Ok(lease),
            Some(_) | None => wrong(format!("what is of lease {id} is out of order")),
        }
    }

    fn reports(&mut self, id: &LifeId, hour: Hour, reports: &[StorageReport]) -> Result<(), Wrong> {
        let life = self.open(id)?;
        let first = life.late.is_empty() && life.leases_seen.is_none() && !life.voided;
        let follows = life.last_hour.is_none_or(|last| last < hour) && first;
        if !follows || !rises_in(hour, reports.iter().map(|report| report.at)) {
            return wrong(format!("samples of sandbox {} at rest are out of order", id.sandbox));
        }
        life.last_hour = Some(hour);
        let point =
            |report: &StorageReport| StoragePoint { at: report.at, storage: report.storage, by: Reporter::AtRest };
        life.reports.extend(reports.iter().map(point));
        Ok(())
    }

    fn lease(&mut self, terms: LeaseTerms) -> Result<(), Wrong> {
        self.close_lease()?;
        let life = self.open(&terms.of)?;
        if life.leases_seen.as_ref().is_some_and(|last| *last >= terms.id) {
            return wrong(format!("lease {} is out of order", terms.id));
        }
        life.leases_seen = Some(terms.id.clone());
        life.lease = Some(OneLease {
            terms,
            readings: Vec::new(),
            voided: false,
            drawn: BTreeMap::new(),
            late: BTreeMap::new(),
        });
        Ok(())
    }

    fn readings(&mut self, id: &LeaseId, hour: Hour, readings: &[Reading]) -> Result<(), Wrong> {
        let lease = self.open_lease(id)?;
        let follows = lease.readings.last().is_none_or(|last| last.at.hour() < hour);
        let first = lease.drawn.is_empty() && lease.late.is_empty() && !lease.voided;
        if !follows || !first || !rises_in(hour, readings.iter().map(|reading| reading.at)) {
            return wrong(format!("samples of lease {id} are out of order"));
        }
        lease.readings.extend(readings);
        let by = Reporter::Lease(lease.terms.starts_at, lease.terms.id.clone());
        let point =
            |reading: &Reading| reading.storage.map(|storage| StoragePoint { at: reading.at, storage, by: by.clone() });
        let points: Vec<StoragePoint> = readings.iter().filter_map(point).collect();
        if let Some(life) = &mut self.life {
            life.reports.extend(points);
        }
        Ok(())
    }

    /// Leaves out samples, which must be there.
    fn voided(&mut self, of: &Owner, instants: &[Timestamp]) -> Result<(), Wrong> {
        let known = |at: &Timestamp, found: &[Timestamp]| found.contains(at);
        let by = match of {
            Owner::Life(id) => {
                let life = self.open(id)?;
                let found: Vec<Timestamp> = life.reports.iter().map(|point| point.at).collect();
                let first = !life.voided && life.late.is_empty() && life.leases_seen.is_none();
                if !first || instants.is_empty() || !instants.iter().all(|at| known(at, &found)) {
                    return wrong("voided samples are out of order");
                }
                life.voided = true;
                Reporter::AtRest
            }
            Owner::Lease(id) => {
                let lease = self.open_lease(id)?;
                let found: Vec<Timestamp> = lease.readings.iter().map(|reading| reading.at).collect();
                let first = !lease.voided && lease.drawn.is_empty() && lease.late.is_empty();
                if !first || instants.is_empty() || !instants.iter().all(|at| known(at, &found)) {
                    return wrong("voided samples are out of order");
                }
                lease.voided = true;
                lease.readings.retain(|reading| !instants.contains(&reading.at));
                Reporter::Lease(lease.terms.starts_at, lease.terms.id.clone())
            }
        };
        if !instants.is_sorted_by(|left, right| left < right) {
            return wrong("voided samples are out of order");
        }
        if let Some(life) = &mut self.life {
            life.reports.retain(|point| point.by != by || !instants.contains(&point.at));
        }
        Ok(())
    }

    fn drawn(&mut self, id: &LeaseId, hour: Hour, drawn: &[(GrantId, i64)]) -> Result<(), Wrong> {
        let mut sum: i64 = 0;
        let mut last: Option<&GrantId> = None;
        for (grant, ms) in drawn {
            let pays = self.grants.get(grant).is_some_and(|terms| terms.pays_on(hour.day()));
            if !pays || *ms <= 0 || last.is_some_and(|last| last >= grant) {
                return wrong(format!("lease {id}: {ms} ms can't be drawn from grant {grant} in that hour"));
            }
            last = Some(grant);
            sum = sum.checked_add(*ms).ok_or(Wrong::Overflow)?;
            let all = self.drawn_ms.entry(grant.clone()).or_default();
            *all = all.checked_add(*ms).ok_or(Wrong::Overflow)?;
        }
        let lease = self.open_lease(id)?;
        let follows = lease.drawn.last_key_value().is_none_or(|(last, _)| *last < hour) && lease.late.is_empty();
        if !follows || drawn.is_empty() {
            return wrong(format!("draws of lease {id} are out of order"));
        }
        lease.drawn.insert(hour, sum);
        Ok(())
    }

    fn late(&mut self, of: &Owner, month: Month, billed: Vec<(Day, HourTotals)>) -> Result<(), Wrong> {
        let own = self.month;
        let late = match of {
            Owner::Life(id) => {
                let life = self.open(id)?;
                if life.leases_seen.is_some() {
                    return wrong("late storage is out of order");
                }
                &mut life.late
            }
            Owner::Lease(id) => &mut self.open_lease(id)?.late,
        };
        let follows = late.last_key_value().is_none_or(|(last, _)| *last < month);
        let days: BTreeSet<Day> = billed.iter().map(|(day, _)| *day).collect();
        let of_month = days.iter().all(|day| day.month() == month);
        let rises = billed.is_sorted_by(|left, right| left.0 < right.0);
        if month >= own || !follows || !of_month || !rises {
            return wrong("late usage is out of order");
        }
        late.insert(month, billed);
        Ok(())
    }

    fn close_life(&mut self) -> Result<(), Wrong> {
        self.close_lease()?;
        let Some(life) = self.life.take() else { return Ok(()) };
        let months = std::iter::once((self.month, Vec::new())).chain(life.late);
        let points = storage_meter::counting(life.reports);
        for (month, billed) in months {
            let mut usage = BTreeMap::new();
            for (day, storage_mib_ms) in storage_meter::within(&points, life.deleted_at, month.span())? {
                let usage_of_day = Usage { storage_mib_ms, ..Usage::ZERO };
                usage.insert(day, HourTotals { usage: usage_of_day, ..HourTotals::default() });
            }
            self.add(usage, &billed)?;
        }
        Ok(())
    }

    fn close_lease(&mut self) -> Result<(), Wrong> {
        let Some(mut lease) = self.life.as_mut().and_then(|life| life.lease.take()) else { return Ok(()) };
        let prices = self.prices()?;
        let months = std::iter::once((self.month, Vec::new())).chain(std::mem::take(&mut lease.late));
        for (month, billed) in months {
            let usage = lease.usage(month, &prices)?;
            self.add(usage, &billed)?;
        }
        match lease.drawn.first_key_value() {
            Some((_, ms)) => {
                wrong(format!("lease {}: {ms} ms are drawn in an hour that is not billed", lease.terms.id))
            }
            None => Ok(()),
        }
    }

    fn has_price(&self, day: Day) -> bool {
        self.cards.iter().any(|span| span.from <= day && day < span.to)
    }

    fn add(&mut self, usage: BTreeMap<Day, HourTotals>, billed: &[(Day, HourTotals)]) -> Result<(), Wrong> {
        for (day, totals) in usage {
            if !self.has_price(day) {
                return wrong(format!("there is no rate card for day {}", day.index()));
            }
            let sum = self.days.entry(day).or_default();
            *sum = sum.plus(totals)?;
        }
        for (day, totals) in billed {
            let sum = self.days.entry(*day).or_default();
            *sum = sum.minus(*totals)?;
        }
        Ok(())
    }
}

impl OneLease {
    /// Its usage of a month by day, with the part that free time paid for; draws that are used are taken out.
    fn usage(&mut self, month: Month, prices: &PriceBook) -> Result<BTreeMap<Day, HourTotals>, Wrong> {
        let terms = Terms {
            window: Span { start: self.terms.starts_at, end: self.terms.ends_at },
            end: self.terms.ends_at,
            proven_until: self.terms.proven_until,
            shape: self.terms.shape,
            prices,
        };
        let mut days: BTreeMap<Day, HourTotals> = BTreeMap::new();
        for (hour, usage) in curve::evaluate_within(&terms, &self.readings, month.span())?.iter() {
            let free_ms = i128::from(self.drawn.remove(&hour).unwrap_or(0));
            if free_ms > usage.run_ms {
                return wrong(format!("lease {}: more free time is drawn in an hour than it ran", self.terms.id));
            }
            let free = if free_ms > 0 { usage.compute_part(free_ms, usage.run_ms)? } else { Usage::ZERO };
            let sum = days.entry(hour.day()).or_default();
            *sum = sum.plus(HourTotals { usage, free_ms, free })?;
        }
        Ok(days)
    }
}

/// Whether instants rise and are all in an hour; there is at least one.
fn rises_in(hour: Hour, instants: impl Iterator<Item = Timestamp>) -> bool {
    let mut last: Option<Timestamp> = None;
    for at in instants {
        if at.hour() != hour || last.is_some_and(|last| last >= at) {
            return false;
        }
        last = Some(at);
    }
    last.is_some()
}
