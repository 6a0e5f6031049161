//! Credit notes and debit notes as CSV and as one self-contained page.

use minijinja::{Environment, Value, context};

use super::csv::{harmless, row};
use super::{ReportError, Seller, dollars, dollars_of_cents, show_day, show_month};
use crate::domain::Overflow;
use crate::domain::note::{Note, NoteKind};

/// The name ends with `.html`, so that the template engine escapes.
const NAME: &str = "note.html";
const TEMPLATE: &str = include_str!("../../reports/note.html");
const COLUMNS: [&str; 10] = [
    "number",
    "kind",
    "invoice",
    "account",
    "account_name",
    "month",
    "reason",
    "description",
    "amount_micros",
    "amount",
];

/// The file (RFC 4180): a row a line, then the tax, the total and the total in cents.
pub fn csv(note: &Note) -> Result<Vec<u8>, ReportError> {
    let mut out = String::new();
    row(&mut out, COLUMNS.into_iter());
    let cents = note.total_cents()?;
    let total = note.total()?.count();
    let lines = note.lines.iter().map(|line| (harmless(&line.description), line.amount.count(), None));
    let sums = [
        ("tax".to_owned(), note.tax.count(), None),
        ("total".to_owned(), total, None),
        ("total_rounded".to_owned(), cents.checked_mul(10_000).ok_or(Overflow)?, Some(dollars_of_cents(cents))),
    ];
    for (description, micros, shown) in lines.chain(sums) {
        let cells = [
            note.number.to_string(),
            note.kind().name().to_owned(),
            note.invoice.to_string(),
            harmless(note.account.as_str()),
            harmless(&note.name),
            show_month(note.month),
            harmless(&note.reason),
            description,
            micros.to_string(),
            shown.unwrap_or_else(|| dollars(micros)),
        ];
        row(&mut out, cells.iter().map(String::as_str));
    }
    Ok(out.into_bytes())
}

/// The page.
pub fn html(note: &Note, seller: &Seller) -> Result<Vec<u8>, ReportError> {
    let mut environment = Environment::new();
    let broken = |error: minijinja::Error| ReportError::Broken(error.to_string());
    environment.add_template(NAME, TEMPLATE).map_err(broken)?;
    let template = environment.get_template(NAME).map_err(broken)?;
    let line = |line: &crate::domain::note::NoteLine| -> Value {
        context! { description => line.description.as_str(), amount => dollars(line.amount.count()) }
    };
    let values = context! {
        heading => match note.kind() {
            NoteKind::Credit => "Credit note",
            NoteKind::Debit => "Debit note",
        },
        number => note.number.to_string(),
        invoice => note.invoice.to_string(),
        month => show_month(note.month),
        date => show_day(note.issued_at.day()),
        name => note.name.as_str(),
        account => note.account.as_str(),
        reason => note.reason.as_str(),
        lines => note.lines.iter().map(line).collect::<Vec<_>>(),
        tax => note.taxed.map(|taxed| super::percent(taxed.rate)),
        tax_amount => dollars(note.tax.count()),
        total => dollars(note.total()?.count()),
        total_cents => dollars_of_cents(note.total_cents()?),
        seller => context! {
            name => seller.name.as_str(), address => seller.address.as_str(), tax_id => seller.tax_id.as_str(),
            footer => seller.footer.as_str(),
        },
    };
    Ok(template.render(values).map_err(broken)?.into_bytes())
}
