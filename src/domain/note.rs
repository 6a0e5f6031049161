//! Credit notes and debit notes: the only way to correct the money of a final invoice.
//!
//! A note is final at once, has a number of its own kind's series, names its invoice and a reason, and is taxed at the
//! rate of its invoice, rounded once. Usage is never corrected by a note: a void or late usage is billed by the next
//! invoice. All credit notes of an invoice together give back at most what it and its debit notes come to.

use std::fmt;

use super::checked::Overflow;
use super::id::{AccountId, NoteId};
use super::invoice::{Invoice, InvoiceNumber};
use super::money::Micros;
use super::tax::Taxed;
use super::time::{Month, Timestamp};

/// Most lines of a note.
pub const NOTE_LINES_MAX: usize = 100;
/// Microdollars in a cent.
const MICROS_PER_CENT: i64 = 10_000;

/// Which way a note corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// The customer owes less.
    Credit,
    /// The customer owes more.
    Debit,
}

impl NoteKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Credit, Self::Debit];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Debit => "debit",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Credit => "CN",
            Self::Debit => "DN",
        }
    }
}

/// A number: 1, 2, 3, ... without a gap in each kind; shown as `CN-000001` or `DN-000001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteNumber {
    kind: NoteKind,
    count: i64,
}

impl NoteNumber {
    /// `None` below 1.
    #[must_use]
    pub fn new(kind: NoteKind, count: i64) -> Option<Self> {
        (count >= 1).then_some(Self { kind, count })
    }

    /// Reads a number as it is shown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, digits) = text.split_once('-')?;
        let kind = NoteKind::ALL.into_iter().find(|kind| kind.prefix() == prefix)?;
        Self::new(kind, digits.parse().ok()?).filter(|number| number.to_string() == text)
    }

    /// Which kind.
    #[must_use]
    pub fn kind(self) -> NoteKind {
        self.kind
    }

    /// The number within its kind.
    #[must_use]
    pub fn count(self) -> i64 {
        self.count
    }
}

impl fmt::Display for NoteNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{:06}", self.kind.prefix(), self.count)
    }
}

/// A line of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLine {
    /// What it corrects: 1 to 200 characters.
    pub description: String,
    /// How much, before tax: above zero, whichever way the note corrects.
    pub amount: Micros,
}

/// A credit note or debit note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whose.
    pub account: AccountId,
    /// The account's name when it was issued.
    pub name: String,
    /// The month of the invoice that it corrects.
    pub month: Month,
    /// That invoice's number.
    pub invoice: InvoiceNumber,
    /// Its own number, which says its kind.
    pub number: NoteNumber,
    /// Its id.
    pub id: NoteId,
    /// Why.
    pub reason: String,
    /// In order.
    pub lines: Vec<NoteLine>,
    /// The rate of its invoice and the sum of the lines; `None`: that had no tax line.
    pub taxed: Option<Taxed>,
    /// The sum of the lines.
    pub base: Micros,
    /// Tax on it.
    pub tax: Micros,
    /// When it was issued.
    pub issued_at: Timestamp,
}

impl Note {
    /// A note on an invoice of this number; the tax is that of the invoice's rate.
    #[must_use = "a note is only what was issued when it is saved"]
    pub fn on(
        invoice: &Invoice,
        of: InvoiceNumber,
        number: NoteNumber,
        id: NoteId,
        reason: String,
        lines: Vec<NoteLine>,
        issued_at: Timestamp,
    ) -> Result<Self, Overflow> {
        let base = lines.iter().try_fold(Micros::ZERO, |sum, line| sum.plus(line.amount))?;
        let rate = invoice.lines.iter().find_map(|line| line.taxed).map(|taxed| taxed.rate);
        Ok(Self {
            account: invoice.account.clone(),
            name: invoice.name.clone(),
            month: invoice.month,
            invoice: of,
            number,
            id,
            reason,
            lines,
            taxed: rate.map(|rate| Taxed { rate, base }),
            base,
            tax: rate.map_or(Ok(Micros::ZERO), |rate| rate.of(base))?,
            issued_at,
        })
    }

    /// Which way it corrects.
    #[must_use]
    pub fn kind(&self) -> NoteKind {
        self.number.kind()
    }

    /// The sum of its lines and the tax.
    pub fn total(&self) -> Result<Micros, Overflow> {
        self.base.plus(self.tax)
    }

    /// The total in cents: rounded half up, once.
    pub fn total_cents(&self) -> Result<i64, Overflow> {
        Ok(self.total()?.count().saturating_add(MICROS_PER_CENT / 2).div_euclid(MICROS_PER_CENT))
    }
}

/// What an invoice comes to after its notes.
pub fn after_notes<'n>(total: Micros, notes: impl IntoIterator<Item = &'n Note>) -> Result<Micros, Overflow> {
    notes.into_iter().try_fold(total, |sum, note| match note.kind() {
        NoteKind::Credit => sum.minus(note.total()?),
        NoteKind::Debit => sum.plus(note.total()?),
    })
}

/// The same in cents: as the documents say it, each rounded once.
pub fn cents_after_notes<'n>(cents: i64, notes: impl IntoIterator<Item = &'n Note>) -> Result<i64, Overflow> {
    notes.into_iter().try_fold(cents, |sum, note| {
        let change = note.total_cents()?;
        let after = match note.kind() {
            NoteKind::Credit => sum.checked_sub(change),
            NoteKind::Debit => sum.checked_add(change),
        };
        after.ok_or(Overflow)
    })
}

#[cfg(test)]
mod tests {
    use super::{NoteKind, NoteNumber};

    #[test]
    fn numbers_go_round() {
        for (kind, count, shown) in [(NoteKind::Credit, 1, "CN-000001"), (NoteKind::Debit, 12_345_678, "DN-12345678")] {
            let number = NoteNumber::new(kind, count).unwrap();
            assert_eq!((number.to_string().as_str(), NoteNumber::parse(shown)), (shown, Some(number)));
        }
        for bad in ["", "CN-1", "CN-000000", "RT-000001", "CN--00001", "CN-+00001", "cn-000001"] {
            assert_eq!(NoteNumber::parse(bad), None, "{bad}");
        }
        assert_eq!(NoteNumber::new(NoteKind::Credit, 0), None);
    }
}
