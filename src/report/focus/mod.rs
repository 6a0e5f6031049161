//! FOCUS, the `FinOps` Open Cost and Usage Specification: a month's bills as rows that cost tools read, CSV or Parquet.
//!
//! The columns are those of version 1.2 that apply here and those of 1.4 that can be filled (docs/FOCUS.md). Rows come
//! in pages, bytes are taken in pieces: a file of any size needs the memory of a page. In order: `rows`, `columns`, and the
//! [`FocusFile`] that they are written to.

mod columns;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;

use std::sync::Arc;

use ::csv::Writer;

use super::csv::{broken, harmless, writer};
use super::{ReportError, show_day};
use crate::domain::charge::{Atto, BilledHour, atto_of_cents, charges};
use crate::domain::checked::{add, sub};
use crate::domain::invoice::Invoice;
use crate::domain::rate_card::PriceBook;
use crate::domain::time::Timestamp;
use columns::{COLUMNS, Cell};
use rows::{Head, Row};

/// As what rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180.
    Csv,
    /// Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

enum Sink {
    Csv(Box<Writer<Vec<u8>>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Sheet>),
}

/// A file under way. Each bill is begun, given its hours page by page, and ended; the bytes so far can be taken at any
/// time.
pub struct FocusFile {
    sink: Sink,
    issuer: String,
    bill: Option<Bill>,
    rows: u64,
}

/// The bill under way.
struct Bill {
    head: Head,
    invoice: Invoice,
    book: Arc<PriceBook>,
    /// What its rows bill so far.
    billed: Atto,
}

impl FocusFile {
    /// A file of what `issuer` bills; its name may be empty.
    pub fn new(format: Format, issuer: &str) -> Result<Self, ReportError> {
        let issuer = if issuer.trim().is_empty() { "Unnamed seller" } else { issuer.trim() }.to_owned();
        let sink = match format {
            Format::Csv => {
                let mut out = writer(Vec::new());
                out.write_record(COLUMNS.iter().map(|column| column.name)).map_err(broken)?;
                Sink::Csv(Box::new(out))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => Sink::Parquet(Box::new(parquet::Sheet::new()?)),
        };
        Ok(Self { sink, issuer, bill: None, rows: 0 })
    }

    /// How many rows there are so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins a bill.
    pub fn begin(&mut self, invoice: Invoice, book: Arc<PriceBook>) {
        let head = Head::of(&invoice, &self.issuer);
        self.bill = Some(Bill { head, invoice, book, billed: 0 });
    }

    /// Hours of the bill that was begun.
    pub fn hours(&mut self, hours: &[BilledHour]) -> Result<(), ReportError> {
        let Some(mut bill) = self.bill.take() else { return Err(ReportError::Broken("no bill was begun".to_owned())) };
        for hour in hours {
            let card = bill.book.on(hour.hour.day());
            for charge in charges(&hour.totals, card)? {
                bill.billed = add(bill.billed, charge.billed()?)?;
                self.put(&Row::usage(&bill.head, hour, &charge, card)?)?;
            }
        }
        self.bill = Some(bill);
        Ok(())
    }

    /// Ends the bill: what it has beside usage, and what is left to its amount due in whole cents.
    pub fn end(&mut self) -> Result<(), ReportError> {
        let Some(mut bill) = self.bill.take() else { return Err(ReportError::Broken("no bill was begun".to_owned())) };
        for (place, line) in (1_usize..).zip(&bill.invoice.lines) {
            if line.used.is_none() {
                let row = Row::money(&bill.head, place, line)?;
                bill.billed = add(bill.billed, row.billed)?;
                self.put(&row)?;
            }
        }
        let rest = sub(atto_of_cents(bill.invoice.due_cents()), bill.billed)?;
        if rest != 0 {
            self.put(&Row::rounding(&bill.head, rest))?;
        }
        Ok(())
    }

    fn put(&mut self, row: &Row<'_>) -> Result<(), ReportError> {
        self.rows = self.rows.saturating_add(1);
        match &mut self.sink {
            Sink::Csv(out) => {
                for column in COLUMNS {
                    out.write_field(text(&(column.get)(row), column.digits_min)).map_err(broken)?;
                }
                out.write_record(None::<&[u8]>).map_err(broken)
            }
            #[cfg(feature = "parquet")]
            Sink::Parquet(sheet) => sheet.put(row),
        }
    }

    /// The bytes since they were taken last.
    pub fn take(&mut self) -> Result<Vec<u8>, ReportError> {
        match &mut self.sink {
            Sink::Csv(out) => {
                let whole = std::mem::replace(out.as_mut(), writer(Vec::new()));
                whole.into_inner().map_err(broken)
            }
            #[cfg(feature = "parquet")]
            Sink::Parquet(sheet) => Ok(sheet.take()),
        }
    }

    /// Ends the file; the last bytes.
    pub fn finish(mut self) -> Result<Vec<u8>, ReportError> {
        match &mut self.sink {
            Sink::Csv(_) => self.take(),
            #[cfg(feature = "parquet")]
            Sink::Parquet(sheet) => sheet.finish(),
        }
    }
}

/// A cell as text; null is empty.
fn text(cell: &Cell<'_>, digits_min: usize) -> String {
    match cell {
        Cell::Text(text) => text.map(harmless).unwrap_or_default(),
        Cell::Decimal(Some((value, digits))) => decimal(*value, *digits, digits_min),
        Cell::Decimal(None) => String::new(),
        Cell::Time(at) => time(*at),
    }
}

/// `value` of 10^-`digits`, without zeros at the end beyond `digits_min` digits.
fn decimal(value: i128, digits: usize, digits_min: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let text = format!("{:0>width$}", value.unsigned_abs(), width = digits.saturating_add(1));
    let (whole, rest) = text.split_at(text.len().saturating_sub(digits));
    let shown = rest.trim_end_matches('0').len().max(digits_min.min(digits));
    format!("{sign}{whole}.{}", rest.get(..shown).unwrap_or(rest))
}

/// `2026-11-01T00:00:00Z`.
fn time(at: Timestamp) -> String {
    let seconds = at.since(at.day().start()).div_euclid(1_000);
    let (hour, minute) = (seconds.div_euclid(3_600), seconds.div_euclid(60).rem_euclid(60));
    format!("{}T{hour:02}:{minute:02}:{:02}Z", show_day(at.day()), seconds.rem_euclid(60))
}

#[cfg(test)]
mod tests {
    use super::{decimal, time};
    use crate::domain::time::Timestamp;

    #[test]
    fn decimals_keep_their_digits() {
        assert_eq!(decimal(0, 18, 9), "0.000000000");
        assert_eq!(decimal(-25_000_000_000_000_000, 18, 9), "-0.025000000");
        assert_eq!(decimal(1_234_500_000_000, 12, 1), "1.2345");
        assert_eq!(decimal(3_600_000_000_000_000, 12, 1), "3600.0");
        assert_eq!(decimal(i128::from(i64::MAX), 6, 6), "9223372036854.775807");
    }

    #[test]
    fn times_say_that_they_are_universal() {
        assert_eq!(time(Timestamp::from_ms(1_761_955_200_000 + 3_723_000).unwrap()), "2025-11-01T01:02:03Z");
    }
}
