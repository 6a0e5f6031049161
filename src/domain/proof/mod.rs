//! The proof of a final invoice: the evidence that it was made from, as records in canonical order.
//!
//! An invoice bills what was accepted before its month was closed: the usage of its month, and late usage of months
//! closed before. Its evidence is exactly what that usage follows from ([`bill`]): samples in those months and their
//! neighbours outside, leases and sandboxes as they were known at the closing, free time drawn, what earlier invoices
//! had billed of late usage, the rate cards of the days, and the grants and credits drawn on.
//!
//! Ordering: cards by day, grants by id, credits by id, what was drawn on credits by day; then life by life, by sandbox and number: the sandbox, its samples at rest by
//! hour, which of them are voided, its late storage by month; then its leases by id, each with its samples by hour, its draws by hour, and its
//! late usage by month. Who reads it can go record by record ([`bill::Bill`]), one life at a time.

pub mod bill;
pub mod credits;
pub mod select;

use self::credits::CreditTerms;
use super::free_hours::Grant;
use super::id::{AccountId, GrantId, KeyId, LeaseId, SandboxId};
use super::invoice::InvoiceNumber;
use super::lease::{HourTotals, Lease, Shape};
use super::money::Micros;
use super::rate_card::{PriceBook, RateCard};
use super::sample::{Reading, StorageReport};
use super::sandbox::Sandbox;
use super::tax::TaxRate;
use super::time::{Day, Hour, Month, Timestamp};

/// Which invoice the evidence is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofHead {
    /// Whose.
    pub account: AccountId,
    /// The account's name on the invoice.
    pub name: String,
    /// The month that bills.
    pub month: Month,
    /// The invoice's number.
    pub number: InvoiceNumber,
    /// When it was made final.
    pub at: Timestamp,
    /// What the invoice before carried forward: zero or below.
    pub carried_over: Micros,
    /// The account's tax rate; `None`: no tax line.
    pub tax: Option<TaxRate>,
}

/// A rate card and the days `[from, to)`, of one month, on which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSpan {
    /// The first day.
    pub from: Day,
    /// The first day after.
    pub to: Day,
    /// The card.
    pub card: RateCard,
}

/// A grant that was drawn on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantTerms {
    /// Its id.
    pub id: GrantId,
    /// How much, in milliseconds of one running sandbox.
    pub granted_ms: i64,
    /// The first day on which it pays.
    pub starts_on: Day,
    /// The first day on which it pays no more; `None`: never.
    pub expires_on: Option<Day>,
    /// What hours that are not in this evidence had drawn of it, in milliseconds.
    pub drawn_before_ms: i64,
}

impl GrantTerms {
    /// Whether it pays for usage on a day.
    #[must_use]
    pub fn pays_on(&self, day: Day) -> bool {
        self.starts_on <= day && self.expires_on.is_none_or(|end| day < end)
    }

    /// The terms of a grant.
    #[must_use]
    pub fn of(grant: &Grant, drawn_before_ms: i64) -> Self {
        let Grant { id, granted_ms, starts_on, expires_on, .. } = grant;
        Self {
            id: id.clone(),
            granted_ms: *granted_ms,
            starts_on: *starts_on,
            expires_on: *expires_on,
            drawn_before_ms,
        }
    }
}

/// A life of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LifeId {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Which life: 1, 2, ...
    pub life: i64,
}

/// A lease as it was known when the month was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Its id.
    pub id: LeaseId,
    /// The life of the sandbox that it ran.
    pub of: LifeId,
    /// The key that paid.
    pub key: KeyId,
    /// What it was given.
    pub shape: Shape,
    /// When it started.
    pub starts_at: Timestamp,
    /// Its effective end; at most the end of the invoice's month.
    pub ends_at: Timestamp,
    /// Up to when told ends proved that it ran; at most the end of the invoice's month.
    pub proven_until: Option<Timestamp>,
}

impl LeaseTerms {
    /// A lease as it was known when `month` was closed.
    #[must_use]
    pub fn of(lease: &Lease, month: Month) -> Self {
        let last = month.span().end;
        let end = lease.end.filter(|end| end.told_in.is_none_or(|told| told <= month));
        Self {
            id: lease.id.clone(),
            of: LifeId { sandbox: lease.sandbox.clone(), life: lease.life },
            key: lease.key.clone(),
            shape: lease.shape,
            starts_at: lease.window.start,
            ends_at: end.map_or(lease.window.end, |end| end.at).min(last),
            proven_until: end.and_then(|end| end.proven_until).map(|until| until.min(last)),
        }
    }
}

/// When a life ended, as it was known when `month` was closed; at most the end of that month.
#[must_use]
pub fn deleted_at(sandbox: &Sandbox, month: Month) -> Option<Timestamp> {
    let told = sandbox.deleted_in.is_none_or(|told| told <= month);
    sandbox.deleted_at.filter(|_| told).map(|at| at.min(month.span().end))
}

/// Of what something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Of a life: its storage, its samples at rest.
    Life(LifeId),
    /// Of a lease.
    Lease(LeaseId),
}

/// A record of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A rate card.
    Card(CardSpan),
    /// A grant.
    Grant(GrantTerms),
    /// A promotional credit.
    Credit(CreditTerms),
    /// What earlier invoices had drawn on credits for usage of a day, in the order of drawing.
    CreditDrawn(Day, Vec<(GrantId, Micros)>),
    /// A life begins here; when it ended.
    Sandbox(LifeId, Option<Timestamp>),
    /// A life's samples at rest of one UTC hour, ascending.
    Reports(LifeId, Hour, Vec<StorageReport>),
    /// A lease of the life begins here.
    Lease(LeaseTerms),
    /// A lease's samples of one UTC hour, ascending.
    Readings(LeaseId, Hour, Vec<Reading>),
    /// Free time that a lease's hour drew, by grant, in milliseconds.
    Drawn(LeaseId, Hour, Vec<(GrantId, i64)>),
    /// The instants of those of the samples before that were voided by then: they are there, but do not count.
    Voided(Owner, Vec<Timestamp>),
    /// Usage of an earlier month is billed here, and what earlier invoices had billed of it, by day.
    Late(Owner, Month, Vec<(Day, HourTotals)>),
}

impl Record {
    /// Whether it is of the terms, rate cards, grants and credits, rather than of what happened.
    #[must_use]
    pub fn is_term(&self) -> bool {
        matches!(self, Self::Card(_) | Self::Grant(_) | Self::Credit(_) | Self::CreditDrawn(..))
    }
}

/// The rate cards of a month, each with its days, ascending.
#[must_use]
pub fn cards_of(month: Month, book: &PriceBook) -> Vec<CardSpan> {
    let mut spans: Vec<CardSpan> = Vec::new();
    let mut day = month.first_day();
    let end = month.next().first_day();
    while day < end {
        let card = book.on(day);
        match spans.last_mut().filter(|last| last.card == *card) {
            Some(last) => last.to = day.next(),
            None => spans.push(CardSpan { from: day, to: day.next(), card: card.clone() }),
        }
        day = day.next();
    }
    spans
}
