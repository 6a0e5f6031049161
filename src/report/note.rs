//! Credit notes and debit notes: as CSV, and as sheets for page and paper.

use super::csv::{broken, harmless, writer};
use super::sheet::{Sheet, Shown, addressee};
use super::{
    ReportError, Seller, dollars, dollars_of_cents, grouped, html, month_words, show_day, show_month, with_commas,
};
use crate::domain::Overflow;
use crate::domain::note::{Note, NoteKind, NoteLine};

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
    let mut out = writer(Vec::new());
    out.write_record(COLUMNS).map_err(broken)?;
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
        out.write_record(cells).map_err(broken)?;
    }
    out.into_inner().map_err(broken)
}

/// The page.
pub fn page(note: &Note, seller: &Seller) -> Result<Vec<u8>, ReportError> {
    html::draw(&sheet(note, seller)?)
}

/// The paper.
#[cfg(feature = "pdf")]
pub fn paper(note: &Note, seller: &Seller) -> Result<Vec<u8>, ReportError> {
    super::pdf::draw(&sheet(note, seller)?)
}

fn sheet<'a>(note: &'a Note, seller: &'a Seller) -> Result<Sheet<'a>, Overflow> {
    let (heading, due_name) = match note.kind() {
        NoteKind::Credit => ("Credit note", "Credited"),
        NoteKind::Debit => ("Debit note", "Charged in addition"),
    };
    let month = month_words(note.month);
    let line = |line: &NoteLine| Shown {
        title: line.description.clone(),
        amount: grouped(line.amount.count()),
        ..Shown::default()
    };
    let mut sums = Vec::new();
    if let Some(taxed) = note.taxed {
        sums.push(("Before tax".to_owned(), grouped(note.base.count())));
        sums.push((format!("Tax, {} %", super::percent(taxed.rate)), grouped(note.tax.count())));
    }
    sums.push(("Total".to_owned(), grouped(note.total()?.count())));
    Ok(Sheet {
        heading,
        mark: None,
        call: note.number.to_string(),
        at: note.issued_at,
        seller,
        account: note.account.as_str(),
        to: addressee(&note.name, &note.account),
        facts: vec![
            ("Number", note.number.to_string()),
            ("Date", show_day(note.issued_at.day())),
            ("Corrects", format!("invoice {} of {month}", note.invoice)),
            ("Account", note.account.to_string()),
        ],
        month,
        lines: note.lines.iter().map(line).collect(),
        nothing: String::new(),
        sums,
        due_name,
        due: format!("USD {}", with_commas(&dollars_of_cents(note.total_cents()?))),
        notes: vec![("Reason", note.reason.clone())],
        annex: None,
    })
}
