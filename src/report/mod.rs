//! Invoices as files for people and programs. Pure: an invoice and its breakdown in, bytes out; the same in, the same
//! bytes.

mod annex;
pub mod csv;
pub mod evidence;
pub mod focus;
pub mod html;
pub mod month;
pub mod note;
#[cfg(feature = "pdf")]
pub mod pdf;
mod sheet;

use std::sync::Arc;

use crate::domain::Overflow;
use crate::domain::breakdown::Breakdown;
use crate::domain::invoice::{Invoice, Item, Line, Status, decimal};
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Month};

/// Microdollars in a dollar.
const MICROS_PER_DOLLAR: u64 = 1_000_000;

/// Who sends invoices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seller {
    /// What stands for a logo; empty: the name.
    pub logo_text: String,
    /// The name.
    pub name: String,
    /// The address, line by line.
    pub address: String,
    /// A tax number.
    pub tax_id: String,
    /// When and how to pay.
    pub payment_terms: String,
    /// The last lines.
    pub footer: String,
    /// Fonts beside the built-in ones, for scripts that those lack.
    pub fonts: Vec<FontFile>,
}

impl Seller {
    /// What stands for a logo.
    #[must_use]
    pub fn logo(&self) -> &str {
        if self.logo_text.is_empty() { &self.name } else { &self.logo_text }
    }
}

/// The bytes of a font file.
#[derive(Clone, PartialEq, Eq)]
pub struct FontFile(pub Arc<Vec<u8>>);

impl std::fmt::Debug for FontFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "FontFile({} bytes)", self.0.len())
    }
}

/// An invoice with what it needs to be shown to people.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// The invoice.
    pub invoice: &'a Invoice,
    /// What its usage came from.
    pub breakdown: &'a Breakdown,
    /// Who sends it.
    pub seller: &'a Seller,
}

/// Why a document can't be made: a quantity is too large, or a template is broken.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A quantity does not fit.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// The bytes could not be made.
    #[error("{0}")]
    Broken(String),
}

/// Dollars with all six digits of a microdollar: `-1.562500`.
pub(crate) fn dollars(micros: i64) -> String {
    let size = micros.unsigned_abs();
    let sign = if micros < 0 { "-" } else { "" };
    let whole = size.div_euclid(MICROS_PER_DOLLAR);
    format!("{sign}{whole}.{:06}", size.rem_euclid(MICROS_PER_DOLLAR))
}

/// Dollars of cents: `0.31`.
pub(crate) fn dollars_of_cents(cents: i64) -> String {
    let size = cents.unsigned_abs();
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", size.div_euclid(100), size.rem_euclid(100))
}

/// `2026-11-01`.
pub(crate) fn show_day(day: Day) -> String {
    let (year, month, date) = day.ymd();
    format!("{year:04}-{month:02}-{date:02}")
}

/// `2026-11`.
pub(crate) fn show_month(month: Month) -> String {
    let (year, month) = month.ym();
    format!("{year:04}-{month:02}")
}

/// Dollars for people, with commas: `1,562.500000`.
pub(crate) fn grouped(micros: i64) -> String {
    with_commas(&dollars(micros))
}

/// A decimal number with commas between its thousands.
pub(crate) fn with_commas(number: &str) -> String {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, rest) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let mut out = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && whole.len().saturating_sub(place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// `November 2026`.
pub(crate) fn month_words(month: Month) -> String {
    const NAMES: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (year, month) = month.ym();
    let place = usize::try_from(month.saturating_sub(1)).unwrap_or(0);
    format!("{} {year:04}", NAMES.get(place).copied().unwrap_or_default())
}

/// `draft` or `final`.
pub(crate) fn status_word(invoice: &Invoice) -> &'static str {
    match invoice.status {
        Status::Draft => "draft",
        Status::Nothing | Status::Final { .. } => "final",
    }
}

/// A line as people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// What it is.
    pub(crate) title: String,
    /// Its span, its card, and what was measured.
    pub(crate) detail: String,
    /// How much, with its unit; empty for money alone.
    pub(crate) quantity: String,
    /// Dollars a unit; empty without a price.
    pub(crate) price: String,
    /// Dollars.
    pub(crate) amount: String,
}

fn title(item: Item) -> &'static str {
    match item {
        Item::Cpu => "CPU",
        Item::Memory => "Memory",
        Item::Storage => "Storage",
        Item::FreeHours => "Free hours",
        Item::CarriedOver => "Carried over from the invoice before",
        Item::Credit => "Promotional credit",
        Item::Tax => "Tax",
        Item::CarriedForward => "Carried forward to the next invoice",
    }
}

/// How FOCUS calls a line that has no usage behind it: its category, and a description.
pub(crate) fn money_words(item: Item) -> Result<(&'static str, &'static str), Overflow> {
    match item {
        Item::CarriedOver | Item::CarriedForward => Ok(("Adjustment", title(item))),
        Item::Credit => Ok(("Credit", title(item))),
        Item::Tax => Ok(("Tax", title(item))),
        // These are charged hour by hour.
        Item::Cpu | Item::Memory | Item::Storage | Item::FreeHours => Err(Overflow),
    }
}

/// The lines as people read them.
pub(crate) fn shown(invoice: &Invoice) -> Result<Vec<Shown>, Overflow> {
    invoice.lines.iter().map(|line| shown_line(invoice, line)).collect()
}

fn shown_line(invoice: &Invoice, line: &Line) -> Result<Shown, Overflow> {
    let amount = grouped(line.amount.count());
    let title = title(line.item).to_owned();
    let (Some(used), Some((unit, size))) = (&line.used, line.item.unit()) else {
        let empty = String::new();
        return Ok(Shown { title, detail: money_detail(line), quantity: empty.clone(), price: empty, amount });
    };
    let late = used.month != invoice.month;
    let title = if late { format!("{title}, used in {}", month_words(used.month)) } else { title };
    // People read both ends as included.
    let last = Day::from_index(used.to.index().saturating_sub(1)).unwrap_or(used.to);
    let mut detail = format!("{} to {} · rate card {}", show_day(used.from), show_day(last), used.card);
    if let Some(measured) = used.measured {
        detail.push_str(" · measured\u{a0}");
        detail.push_str(short(&decimal(measured, size)?));
    }
    let price = used.price.map_or_else(String::new, |price| dollars(price.micros_per_hour()));
    let quantity = format!("{} {unit}", with_commas(short(&decimal(used.quantity, size)?)));
    Ok(Shown { title, detail, quantity, price, amount })
}

/// A tax rate in percent: `19.00`.
pub(crate) fn percent(rate: TaxRate) -> String {
    let bps = rate.bps().unsigned_abs();
    format!("{}.{:02}", bps.div_euclid(100), bps.rem_euclid(100))
}

/// What is behind a line of money alone: the grant, or the rate of a tax and what it is of.
fn money_detail(line: &Line) -> String {
    if let Some(taxed) = line.taxed {
        return format!("{} % of {}", percent(taxed.rate), grouped(taxed.base.count()));
    }
    line.credit.as_ref().map(|grant| format!("grant {grant}")).unwrap_or_default()
}

/// A quantity with six digits: more are in the machine-readable formats.
pub(crate) fn short(decimal: &str) -> &str {
    let end = decimal.find('.').map_or(decimal.len(), |point| point.saturating_add(7));
    decimal.get(..end).unwrap_or(decimal)
}

#[cfg(test)]
mod tests {
    use super::{dollars, dollars_of_cents, grouped, short};

    #[test]
    fn money_is_written_whole() {
        assert_eq!(
            [0, 1, -1, 1_562_500, -1_562_500].map(dollars),
            ["0.000000", "0.000001", "-0.000001", "1.562500", "-1.562500"]
        );
        assert_eq!([0, 5, 31, 100, 123_456].map(dollars_of_cents), ["0.00", "0.05", "0.31", "1.00", "1234.56"]);
        assert_eq!(
            [999, 1_234_567_890_123, -1_000_000_000].map(grouped),
            ["0.000999", "1,234,567.890123", "-1,000.000000"]
        );
        assert_eq!((short("12.345678901234"), short("7")), ("12.345678", "7"));
    }
}
