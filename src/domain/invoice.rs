//! Invoices: the usage that a month bills, as lines that add up.
//!
//! Every line but those that carry money over is a view of usage: a month of use, a span of days of one rate card, and
//! a resource. Lines are apportioned (largest remainder), so list lines sum to the list total, free lines to what is
//! free, and all lines to the total; each is within one microdollar of its exact cost. Quantities are shown to 12
//! digits: quantity times unit price is the amount, to the microdollar.
//!
//! A total below zero is brought to 0 by a line that is carried forward; the next invoice of the account begins with
//! it. Only the amount due is rounded to cents: half up, once.

use std::fmt;

use super::checked::{Overflow, add};
use super::cost::Priced;
use super::id::{AccountId, RateCardId};
use super::lease::HourTotals;
use super::money::{Cost, Micros, PriceMicros, apportion};
use super::rate_card::{PriceBook, RateCard};
use super::time::{Day, Month, Timestamp};
use super::usage::Usage;

/// Microdollars in a cent.
const MICROS_PER_CENT: i64 = 10_000;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// CPU as billed, in vCPU-microseconds.
    Cpu,
    /// Memory, in MiB-milliseconds.
    Memory,
    /// Storage, in MiB-milliseconds.
    Storage,
    /// Free time, in milliseconds of one running sandbox; its amount is below zero.
    FreeHours,
    /// What the invoice before carried forward; below zero.
    CarriedOver,
    /// What the next invoice begins with; brings the total to 0.
    CarriedForward,
}

impl Item {
    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Storage => "storage",
            Self::FreeHours => "free_hours",
            Self::CarriedOver => "carried_over",
            Self::CarriedForward => "carried_forward",
        }
    }

    /// The item of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let items = [Self::Cpu, Self::Memory, Self::Storage, Self::FreeHours, Self::CarriedOver, Self::CarriedForward];
        items.into_iter().find(|item| item.name() == name)
    }

    /// The unit of its quantity as people see it, and how many exact units are in one; `None` for money alone.
    #[must_use]
    pub fn unit(self) -> Option<(&'static str, i128)> {
        match self {
            Self::Cpu => Some(("vCPU-hour", 3_600_000_000)),
            Self::Memory | Self::Storage => Some(("GiB-hour", 3_686_400_000)),
            Self::FreeHours => Some(("sandbox-hour", 3_600_000)),
            Self::CarriedOver | Self::CarriedForward => None,
        }
    }
}

/// The usage behind a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// When it was used: the invoice's month, or an earlier one for usage that came late.
    pub month: Month,
    /// The first day of the span.
    pub from: Day,
    /// The first day after it.
    pub to: Day,
    /// The card that holds in the span.
    pub card: RateCardId,
    /// How much, in the item's exact units.
    pub quantity: i128,
    /// CPU only: what was measured, before the floor, in the same units.
    pub measured: Option<i128>,
    /// Per hour; `None` for free hours, which pay for whatever ran.
    pub price: Option<PriceMicros>,
}

/// A line of an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub item: Item,
    /// The usage behind it; `None` for money that is carried.
    pub used: Option<Used>,
    /// What it adds to the total.
    pub amount: Micros,
}

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
    /// In order: the month's own usage by span and resource, late usage by month of use, what is carried.
    pub lines: Vec<Line>,
    /// All usage at list price, rounded down.
    pub list: Micros,
    /// What free time paid of it.
    pub free: Micros,
    /// The sum of the lines; never below zero.
    pub total: Micros,
    /// What it was made from; `None` for a draft, and where it was made before this was kept.
    pub digests: Option<Digests>,
}

/// Whose invoice it is, and what it begins with.
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
                lines.push(Line { item, used: Some(used), amount: Micros::ZERO });
            }
        }
        let shown = sum.amounts()?;
        let listed = apportion(shown.list, &listed)?;
        let freed = apportion(shown.free, &freed)?;
        let (mut listed, mut freed) = (listed.into_iter(), freed.into_iter());
        for line in &mut lines {
            line.amount = match line.item {
                Item::FreeHours => Micros::ZERO.minus(freed.next().ok_or(Overflow)?)?,
                Item::Cpu | Item::Memory | Item::Storage | Item::CarriedOver | Item::CarriedForward => {
                    listed.next().ok_or(Overflow)?
                }
            };
        }
        let total = carry(&mut lines, shown.net, head.carried_over)?;
        let Head { account, name, month, .. } = head;
        let (list, free) = (shown.list, shown.free);
        Ok(Self { account, name, month, status: Status::Draft, lines, list, free, total, digests: None })
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

/// Adds the lines of what is carried from the invoice before and to the next one. Answers the total.
fn carry(lines: &mut Vec<Line>, net: Micros, carried_over: Micros) -> Result<Micros, Overflow> {
    if carried_over != Micros::ZERO {
        lines.push(Line { item: Item::CarriedOver, used: None, amount: carried_over });
    }
    let total = net.plus(carried_over)?;
    if total >= Micros::ZERO {
        return Ok(total);
    }
    lines.push(Line { item: Item::CarriedForward, used: None, amount: Micros::ZERO.minus(total)? });
    Ok(Micros::ZERO)
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
