//! An invoice, or a note on one, as people read it, whatever it is drawn on: texts, in order. Pages and paper are laid out from this alone.

use super::annex::{self, Chart, Row};
use super::{Document, Seller, dollars_of_cents, grouped, month_words, show_day, shown, with_commas};
use crate::domain::Overflow;
use crate::domain::breakdown::Breakdown;
use crate::domain::id::AccountId;
use crate::domain::invoice::{Invoice, Status};
use crate::domain::time::{Month, Timestamp};

pub(crate) use super::Shown;

/// The parts of the annex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annex<'a> {
    /// Cost by day.
    pub(crate) days: Vec<Row>,
    /// Cost by sandbox.
    pub(crate) sandboxes: Vec<Row>,
    /// Their sum.
    pub(crate) total: Row,
    breakdown: &'a Breakdown,
    month: Month,
}

impl Annex<'_> {
    /// The chart of the month's own days, in the caller's units.
    pub(crate) fn chart(&self, width: i64, height: i64) -> Option<Chart> {
        annex::chart(self.breakdown, self.month, width, height)
    }

    /// The days that the chart names, and where.
    pub(crate) fn ticks(&self, width: i64) -> Vec<(i64, i64)> {
        annex::ticks(self.month, width)
    }
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sheet<'a> {
    /// What it is.
    pub(crate) heading: &'static str,
    /// A mark beside the heading.
    pub(crate) mark: Option<&'static str>,
    /// What it is called: its number, or its month.
    pub(crate) call: String,
    /// Which month, in words.
    pub(crate) month: String,
    /// When what it shows was fixed.
    pub(crate) at: Timestamp,
    /// Who sends it.
    pub(crate) seller: &'a Seller,
    /// Whose it is.
    pub(crate) account: &'a str,
    /// Who gets it; the account's id where it has no name.
    pub(crate) to: String,
    /// Number, date and the like.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The lines.
    pub(crate) lines: Vec<Shown>,
    /// What is said where there is no line.
    pub(crate) nothing: String,
    /// Sums under the lines, the total last.
    pub(crate) sums: Vec<(String, String)>,
    /// What the last figure is.
    pub(crate) due_name: &'static str,
    /// The last figure, with its currency.
    pub(crate) due: String,
    /// Texts under the sums: a heading and what it says.
    pub(crate) notes: Vec<(&'static str, String)>,
    /// What the usage came from; `None` where nothing was used.
    pub(crate) annex: Option<Annex<'a>>,
}

/// The name of who gets it: the account's id where it has none.
pub(crate) fn addressee(name: &str, account: &AccountId) -> String {
    if name.trim().is_empty() { account.to_string() } else { name.to_owned() }
}

/// An invoice as a sheet.
pub(crate) fn of<'a>(document: &Document<'a>) -> Result<Sheet<'a>, Overflow> {
    let Document { invoice, breakdown, seller } = *document;
    let month = month_words(invoice.month);
    let (heading, call, at) = match invoice.status {
        Status::Draft => ("Invoice", month.clone(), invoice.month.span().start),
        Status::Final { number, at } => ("Invoice", number.to_string(), at),
        Status::Nothing => ("Statement", month.clone(), invoice.month.span().start),
    };
    let annex = (!breakdown.days.is_empty()).then(|| {
        let (days, sandboxes) = (annex::days(breakdown)?, annex::sandboxes(breakdown)?);
        Ok(Annex { days, sandboxes, total: annex::total(breakdown)?, breakdown, month: invoice.month })
    });
    Ok(Sheet {
        heading,
        mark: (invoice.status == Status::Draft).then_some("Draft"),
        call,
        at,
        nothing: format!("Nothing was used in {month}."),
        seller,
        account: invoice.account.as_str(),
        to: addressee(&invoice.name, &invoice.account),
        facts: facts(document, &month),
        month,
        lines: shown(invoice)?,
        sums: sums(invoice),
        due_name: "Amount due",
        due: format!("USD {}", with_commas(&dollars_of_cents(invoice.due_cents()))),
        notes: notes(document),
        annex: annex.transpose()?,
    })
}

/// What the lines come to, where there is more to say than the total.
fn sums(invoice: &Invoice) -> Vec<(String, String)> {
    let (free, credit) = (invoice.free.count().saturating_neg(), invoice.credit.count().saturating_neg());
    let tax = invoice.tax.count();
    let parts = [("Paid by free hours", free), ("Paid by promotional credit", credit), ("Tax", tax)];
    let parts: Vec<_> = parts.into_iter().filter(|(_, micros)| *micros != 0).collect();
    let list = (!parts.is_empty()).then_some(("Usage at list price", invoice.list.count()));
    let total = ("Total", invoice.total.count());
    list.into_iter().chain(parts).chain([total]).map(|(name, micros)| (name.to_owned(), grouped(micros))).collect()
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
