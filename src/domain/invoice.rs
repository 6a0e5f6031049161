//! Invoices: the usage that a month bills, as lines that add up.
//!
//! Every line but those that carry money over is a view of usage: a month of use, a span of days of one rate card, and
//! a resource. Lines are apportioned (largest remainder), so list lines sum to the list total, free lines to what is
//! free, and all lines to the total; each is within one microdollar of its exact cost. Quantities are shown to 12
//! digits: quantity times unit price is the amount, to the microdollar.
//!
//! After the usage comes what the invoice before carried over, then promotional credit (at most what is left to pay),
//! then tax on the sum so far, rounded once. A sum below zero is brought to 0 by a line that is carried forward; the
//! next invoice of the account begins with it. Only the amount due is rounded to cents: half up, once.

use std::fmt;

use super::checked::{Overflow, add};
use super::cost::Priced;
use super::credit::{CreditBook, CreditDraw};
use super::id::{AccountId, GrantId};
use super::lease::HourTotals;
use super::money::{Cost, Micros, apportion};
use super::rate_card::{PriceBook, RateCard};
use super::tax::{TaxRate, Taxed};
use super::time::{Day, Month, Timestamp};
use super::usage::Usage;

pub use super::invoice_line::{Item, Line, Used};

/// Microdollars in a cent.
const MICROS_PER_CENT: i64 = 10_000;

/// A number: 1, 2, 3, ... without a gap; shown as `RT-000001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InvoiceNumber(i64);

impl InvoiceNumber {
    /// `None` below 1.
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        (number >= 1).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn count(self) -> i64 {
        self.0
    }

    /// The one after it.
    pub fn next(self) -> Result<Self, Overflow> {
        self.0.checked_add(1).map(Self).ok_or(Overflow)
    }
}

impl fmt::Display for InvoiceNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RT-{:06}", self.0)
    }
}

/// Whether an invoice can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// What the month would bill if it were closed now.
    Draft,
    /// The month is closed and had nothing to bill: there is no invoice, and no number.
    Nothing,
    /// Frozen.
    Final {
        /// Its number.
        number: InvoiceNumber,
        /// When it was finalised.
        at: Timestamp,
    },
}

/// SHA-256 digests of what a final invoice was made from ([`super::proof`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Of all of it.
    pub evidence: [u8; 32],
    /// Of the rate cards and grants alone.
    pub terms: [u8; 32],
}

/// An invoice, or a draft of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// Whose.
    pub account: AccountId,
    /// The account's name when it was made.
    pub name: String,
    /// The month that bills.
    pub month: Month,
    /// Draft or final.
    pub status: Status,
    /// In order: the month's own usage by span and resource, late usage by month of use, what is carried over, credit,
    /// tax, what is carried forward.
    pub lines: Vec<Line>,
    /// What it draws on credits, by day of use: what its credit lines are the sums of.
    pub draws: Vec<CreditDraw>,
    /// All usage at list price, rounded down.
    pub list: Micros,
    /// What free time paid of it.
    pub free: Micros,
    /// What credit paid of it; below zero where more is given back than drawn.
    pub credit: Micros,
    /// Tax.
    pub tax: Micros,
    /// The sum of the lines; never below zero.
    pub total: Micros,
    /// What it was made from; `None` for a draft, and where it was made before this was kept.
    pub digests: Option<Digests>,
}

/// Whose invoice it is, what it begins with, and what pays and is added beside usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose.
    pub account: AccountId,
    /// The account's name.
    pub name: String,
    /// The month that bills.
    pub month: Month,
    /// What the invoice before carried forward: zero or below.
    pub carried_over: Micros,
    /// The account's credits, with what earlier invoices drew on them.
    pub credits: CreditBook,
    /// The account's tax rate; `None`: no tax line.
    pub tax: Option<TaxRate>,
}

/// Usage of the days of one span.
struct Part<'a> {
    month: Month,
    from: Day,
    to: Day,
    card: &'a RateCard,
    totals: HourTotals,
}

impl Invoice {
    /// The draft that bills the usage of `days` (each at most once, in any order).
    pub fn draft(head: Head, days: &[(Day, HourTotals)], book: &PriceBook) -> Result<Self, Overflow> {
        let mut lines = Vec::new();
        let (mut listed, mut freed) = (Vec::new(), Vec::new());
        let mut sum = Priced::default();
        for part in parts(head.month, days, book)? {
            let net = part.totals.net()?;
            let (list, net) = (part.card.price(part.totals.usage)?, part.card.price(net)?);
            sum = sum.plus(Priced { usage: part.totals.usage, list, net })?;
            for (item, used, cost) in part.lines()? {
                let free = item == Item::FreeHours;
                if free {
                    freed.push(cost);
                } else {
                    listed.push(cost);
                }
                lines.push(Line::of_usage(item, used, Micros::ZERO));
            }
        }
        let shown = sum.amounts()?;
        let listed = apportion(shown.list, &listed)?;
        let freed = apportion(shown.free, &freed)?;
        let (mut listed, mut freed) = (listed.into_iter(), freed.into_iter());
        for line in &mut lines {
            line.amount = if line.item == Item::FreeHours {
                Micros::ZERO.minus(freed.next().ok_or(Overflow)?)?
            } else {
                listed.next().ok_or(Overflow)?
            };
        }
        let mut credits = head.credits;
        let base = shown.net.plus(head.carried_over)?;
        let draws = credits.draw(&amounts_by_day(days, book, shown.net)?, base)?;
        let rest = add_money(&mut lines, shown.net, head.carried_over, &draws, head.tax)?;
        let Head { account, name, month, .. } = head;
        Ok(Self {
            account,
            name,
            month,
            status: Status::Draft,
            lines,
            draws,
            list: shown.list,
            free: shown.free,
            credit: rest.credit,
            tax: rest.tax,
            total: rest.total,
            digests: None,
        })
    }

    /// The amount due in cents: rounded half up, once.
    #[must_use]
    pub fn due_cents(&self) -> i64 {
        // A total is from 0 to 2^53 - 1, so half a cent more can't saturate.
        self.total.count().saturating_add(MICROS_PER_CENT / 2).div_euclid(MICROS_PER_CENT)
    }

    /// What the account's next invoice begins with: zero or below.
    pub fn carried_forward(&self) -> Result<Micros, Overflow> {
        let carried = self.lines.iter().filter(|line| line.item == Item::CarriedForward);
        carried.map(|line| line.amount).try_fold(Micros::ZERO, Micros::minus)
    }

    /// The number, when it is final.
    #[must_use]
    pub fn number(&self) -> Option<InvoiceNumber> {
        match self.status {
            Status::Draft | Status::Nothing => None,
            Status::Final { number, .. } => Some(number),
        }
    }
}

/// What the days add to a net total in whole microdollars: apportioned, ascending.
fn amounts_by_day(days: &[(Day, HourTotals)], book: &PriceBook, net: Micros) -> Result<Vec<(Day, Micros)>, Overflow> {
    let mut days = days.to_vec();
    days.sort_by_key(|(day, _)| *day);
    let costs = days.iter().map(|(day, totals)| book.price(*day, totals.net()?)).collect::<Result<Vec<_>, _>>()?;
    Ok(days.iter().map(|(day, _)| *day).zip(apportion(net, &costs)?).collect())
}

/// What the lines of money alone come to.
struct Rest {
    credit: Micros,
    tax: Micros,
    total: Micros,
}

/// Adds the lines of money alone, in order: carried over, credit by grant, tax, carried forward.
fn add_money(
    lines: &mut Vec<Line>,
    net: Micros,
    carried_over: Micros,
    draws: &[CreditDraw],
    tax: Option<TaxRate>,
) -> Result<Rest, Overflow> {
    if carried_over != Micros::ZERO {
        lines.push(Line::of_money(Item::CarriedOver, carried_over));
    }
    let mut credit = Micros::ZERO;
    for (grant, drawn) in by_grant(draws)? {
        let amount = Micros::ZERO.minus(drawn)?;
        lines.push(Line { credit: Some(grant), ..Line::of_money(Item::Credit, amount) });
        credit = credit.plus(drawn)?;
    }
    let base = net.plus(carried_over)?.minus(credit)?;
    let mut taxes = Micros::ZERO;
    if let Some(rate) = tax.filter(|_| !lines.is_empty()) {
        taxes = rate.of(base)?;
        let taxed = Some(Taxed { rate, base: base.max(Micros::ZERO) });
        lines.push(Line { taxed, ..Line::of_money(Item::Tax, taxes) });
    }
    if base >= Micros::ZERO {
        return Ok(Rest { credit, tax: taxes, total: base.plus(taxes)? });
    }
    lines.push(Line::of_money(Item::CarriedForward, Micros::ZERO.minus(base)?));
    Ok(Rest { credit, tax: taxes, total: Micros::ZERO })
}

/// Draws summed by grant, in the order in which they first occur; a grant that gets back what it gives has no line.
fn by_grant(draws: &[CreditDraw]) -> Result<Vec<(GrantId, Micros)>, Overflow> {
    let mut sums: Vec<(GrantId, Micros)> = Vec::new();
    for draw in draws {
        match sums.iter_mut().find(|(grant, _)| *grant == draw.credit) {
            Some((_, sum)) => *sum = sum.plus(draw.amount)?,
            None => sums.push((draw.credit.clone(), draw.amount)),
        }
    }
    sums.retain(|(_, sum)| *sum != Micros::ZERO);
    Ok(sums)
}

/// The days as spans of one card: those of the invoice's own month first, then late ones by month of use.
fn parts<'a>(own: Month, days: &[(Day, HourTotals)], book: &'a PriceBook) -> Result<Vec<Part<'a>>, Overflow> {
    let mut days = days.to_vec();
    days.sort_by_key(|(day, _)| (day.month() != own, *day));
    let mut parts: Vec<Part<'a>> = Vec::new();
    for (day, totals) in days {
        let open = parts.last_mut().filter(|part| part.from <= day && day < part.to);
        if let Some(part) = open {
            part.totals = part.totals.plus(totals)?;
        } else {
            let (from, to) = span_of(day, book);
            parts.push(Part { month: day.month(), from, to, card: book.on(day), totals });
        }
    }
    Ok(parts)
}

/// The longest span of days around a day, within its month, of one card.
fn span_of(day: Day, book: &PriceBook) -> (Day, Day) {
    let month = day.month();
    let (mut from, mut to) = (month.first_day(), month.next().first_day());
    let mut at = from;
    while at < month.next().first_day() {
        let same = book.on(at) == book.on(day);
        if !same && at < day {
            from = at.next();
        } else if !same && at > day {
            to = to.min(at);
        }
        at = at.next();
    }
    (from, to)
}

impl Part<'_> {
    /// The lines that have a quantity, with their exact cost; a free line's is what it takes off.
    fn lines(&self) -> Result<Vec<(Item, Used, Cost)>, Overflow> {
        let Usage { cpu_us, cpu_used_us, memory_mib_ms, storage_mib_ms, .. } = self.totals.usage;
        let card = self.card;
        let used = |quantity, measured, price| Used {
            month: self.month,
            from: self.from,
            to: self.to,
            card: card.id.clone(),
            quantity,
            measured,
            price,
        };
        let all = [
            (Item::Cpu, used(cpu_us, Some(cpu_used_us), Some(card.cpu)), card.cpu.of_cpu(cpu_us)?),
            (Item::Memory, used(memory_mib_ms, None, Some(card.memory)), card.memory.of_bytes(memory_mib_ms)?),
            (Item::Storage, used(storage_mib_ms, None, Some(card.storage)), card.storage.of_bytes(storage_mib_ms)?),
            (Item::FreeHours, used(self.totals.free_ms, None, None), card.price(self.totals.free)?),
        ];
        let shown =
            |used: &Used, cost: Cost| used.quantity != 0 || used.measured.unwrap_or(0) != 0 || cost != Cost::ZERO;
        Ok(all.into_iter().filter(|(_, used, cost)| shown(used, *cost)).collect())
    }
}

/// Digits after the point of a quantity.
const QUANTITY_DIGITS: usize = 12;
const QUANTITY_SCALE: i128 = 1_000_000_000_000;

/// `units` of `per_unit` exact units each, as a decimal number of 12 digits after the point, rounded half away from
/// zero: no price is so high that a digit beyond would be half a microdollar.
pub fn decimal(units: i128, per_unit: i128) -> Result<String, Overflow> {
    let size = units.checked_abs().ok_or(Overflow)?;
    let whole = size.checked_div(per_unit).ok_or(Overflow)?;
    let rest = size.checked_rem(per_unit).ok_or(Overflow)?;
    let scaled = rest.checked_mul(QUANTITY_SCALE).ok_or(Overflow)?;
    let digits = add(scaled, per_unit / 2)?.checked_div(per_unit).ok_or(Overflow)?;
    let (whole, digits) = if digits >= QUANTITY_SCALE { (add(whole, 1)?, 0) } else { (whole, digits) };
    let sign = if units < 0 && (whole, digits) != (0, 0) { "-" } else { "" };
    Ok(format!("{sign}{whole}.{digits:0QUANTITY_DIGITS$}"))
}

#[cfg(test)]
#[path = "invoice_tests.rs"]
mod tests;
