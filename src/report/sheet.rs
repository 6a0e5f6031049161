//! An invoice as people read it, whatever it is drawn on: texts, in order. Pages and paper are laid out from this alone.

use super::annex::{self, Chart, Row};
use super::{Document, Seller, dollars_of_cents, grouped, month_words, show_day, shown};
use crate::domain::Overflow;
use crate::domain::invoice::{Invoice, Status};
use crate::domain::time::Month;

pub(crate) use super::Shown;

/// The parts of the annex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annex {
    /// Cost by day.
    pub(crate) days: Vec<Row>,
    /// Cost by sandbox.
    pub(crate) sandboxes: Vec<Row>,
    /// Their sum.
    pub(crate) total: Row,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sheet<'a> {
    /// What it is.
    pub(crate) heading: &'static str,
    /// A mark beside the heading.
    pub(crate) mark: Option<&'static str>,
    /// Which month, in words.
    pub(crate) month: String,
    /// Who sends it.
    pub(crate) seller: &'a Seller,
    /// Who gets it; the account's id where it has no name.
    pub(crate) to: String,
    /// Number, date and the like.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The lines.
    pub(crate) lines: Vec<Shown>,
    /// What is said where there is no line.
    pub(crate) nothing: String,
    /// Sums under the lines, the total last.
    pub(crate) sums: Vec<(&'static str, String)>,
    /// The amount due, with its currency.
    pub(crate) due: String,
    /// Texts under the sums: a heading and what it says.
    pub(crate) notes: Vec<(&'static str, String)>,
    /// What the usage came from; `None` where nothing was used.
    pub(crate) annex: Option<Annex>,
}

/// An invoice as a sheet.
pub(crate) fn of<'a>(document: &Document<'a>) -> Result<Sheet<'a>, Overflow> {
    let Document { invoice, breakdown, seller } = document;
    let month = month_words(invoice.month);
    let heading = match invoice.status {
        Status::Draft | Status::Final { .. } => "Invoice",
        Status::Nothing => "Statement",
    };
    let annex = (!breakdown.days.is_empty()).then(|| {
        let (days, sandboxes) = (annex::days(breakdown)?, annex::sandboxes(breakdown)?);
        Ok(Annex { days, sandboxes, total: annex::total(breakdown)? })
    });
    let name = if invoice.name.trim().is_empty() { invoice.account.to_string() } else { invoice.name.clone() };
    Ok(Sheet {
        heading,
        mark: (invoice.status == Status::Draft).then_some("Draft"),
        nothing: format!("Nothing was used in {month}."),
        seller,
        to: name,
        facts: facts(document, &month),
        month,
        lines: shown(invoice)?,
        sums: sums(invoice),
        due: format!("USD {}", dollars_of_cents(invoice.due_cents())),
        notes: notes(document),
        annex: annex.transpose()?,
    })
}

/// What the lines come to, where there is more to say than the total.
fn sums(invoice: &Invoice) -> Vec<(&'static str, String)> {
    let (free, credit) = (invoice.free.count().saturating_neg(), invoice.credit.count().saturating_neg());
    let tax = invoice.tax.count();
    let parts = [("Paid by free hours", free), ("Paid by promotional credit", credit), ("Tax", tax)];
    let parts: Vec<_> = parts.into_iter().filter(|(_, micros)| *micros != 0).collect();
    let list = (!parts.is_empty()).then_some(("Usage at list price", invoice.list.count()));
    let total = ("Total", invoice.total.count());
    list.into_iter().chain(parts).chain([total]).map(|(name, micros)| (name, grouped(micros))).collect()
}

fn facts(document: &Document<'_>, month: &str) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Status::Final { number, at } = document.invoice.status {
        facts.push(("Number", number.to_string()));
        facts.push(("Date", show_day(at.day())));
    }
    facts.push(("Period", format!("{month}, UTC")));
    facts.push(("Account", document.invoice.account.to_string()));
    facts
}

fn notes(document: &Document<'_>) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    if document.invoice.status == Status::Draft {
        let text = "This is what the month would bill if it were closed now. Nothing is due yet.";
        notes.push(("Draft", text.to_owned()));
    }
    if !document.seller.payment_terms.trim().is_empty() {
        notes.push(("Payment", document.seller.payment_terms.clone()));
    }
    notes
}

/// The chart of an invoice's own month, in the caller's units.
pub(crate) fn chart(document: &Document<'_>, width: i64, height: i64) -> Option<Chart> {
    annex::chart(document.breakdown, document.invoice.month, width, height)
}

/// The days that the chart names.
pub(crate) fn ticks(month: Month, width: i64) -> Vec<(i64, i64)> {
    annex::ticks(month, width)
}
