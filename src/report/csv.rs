//! An invoice as CSV (RFC 4180): a row a line, then the total and the amount due.
//!
//! Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers.

use ::csv::{Terminator, Writer, WriterBuilder};

use super::{ReportError, dollars, dollars_of_cents, show_day, show_month, status_word};
use crate::domain::invoice::{Invoice, Line, decimal};

const COLUMNS: [&str; 17] = [
    "number",
    "status",
    "account",
    "account_name",
    "month",
    "resource",
    "month_of_use",
    "from",
    "to",
    "rate_card",
    "quantity",
    "measured_quantity",
    "unit",
    "unit_price_micros",
    "grant",
    "tax_rate_bps",
    "amount_micros",
];

/// The file.
pub fn render(invoice: &Invoice) -> Result<Vec<u8>, ReportError> {
    let mut out = writer(Vec::new());
    out.write_record(COLUMNS.into_iter().chain(["amount"])).map_err(broken)?;
    for line in &invoice.lines {
        let cells = line_cells(line)?;
        let amount = [line.amount.count().to_string(), dollars(line.amount.count())];
        write(&mut out, invoice, line.item.name(), &cells, &amount)?;
    }
    let none: [String; 10] = Default::default();
    let total = invoice.total.count();
    write(&mut out, invoice, "total", &none, &[total.to_string(), dollars(total)])?;
    let due = invoice.due_cents();
    let due_micros = i64::checked_mul(due, 10_000).ok_or(crate::domain::Overflow)?;
    write(&mut out, invoice, "amount_due", &none, &[due_micros.to_string(), dollars_of_cents(due)])?;
    out.into_inner().map_err(broken)
}

/// Writes records that end with CRLF; what has to be quoted is.
pub(super) fn writer<W: std::io::Write>(out: W) -> Writer<W> {
    WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out)
}

pub(super) fn broken(error: impl std::fmt::Display) -> ReportError {
    ReportError::Broken(error.to_string())
}

/// Month of use, from, to, card, quantity, measured quantity, unit, unit price, grant of credit, tax rate.
fn line_cells(line: &Line) -> Result<[String; 10], ReportError> {
    let mut cells: [String; 10] = Default::default();
    let [month, from, to, card, quantity, measured, unit, price, grant, tax] = &mut cells;
    *grant = line.credit.as_ref().map(|grant| harmless(grant.as_str())).unwrap_or_default();
    *tax = line.taxed.map(|taxed| taxed.rate.bps().to_string()).unwrap_or_default();
    if let (Some(used), Some((name, size))) = (&line.used, line.item.unit()) {
        *month = show_month(used.month);
        *from = show_day(used.from);
        *to = show_day(used.to);
        *card = harmless(used.card.as_str());
        *quantity = decimal(used.quantity, size)?;
        *measured = used.measured.map(|measured| decimal(measured, size)).transpose()?.unwrap_or_default();
        name.clone_into(unit);
        *price = used.price.map(|price| price.micros_per_hour().to_string()).unwrap_or_default();
    }
    Ok(cells)
}

fn write(
    out: &mut Writer<Vec<u8>>,
    invoice: &Invoice,
    resource: &str,
    cells: &[String; 10],
    amount: &[String; 2],
) -> Result<(), ReportError> {
    let number = invoice.number().map(|number| number.to_string()).unwrap_or_default();
    let (account, name) = (harmless(invoice.account.as_str()), harmless(&invoice.name));
    let month = show_month(invoice.month);
    let head = [&number, status_word(invoice), &account, &name, &month, resource];
    out.write_record(head.into_iter().chain(cells.iter().chain(amount).map(String::as_str))).map_err(broken)
}

/// Text that no spreadsheet takes for a formula.
pub(super) fn harmless(text: &str) -> String {
    let starts = |text: &str| {
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'])
    };
    // Spreadsheets pass over white space and marks of direction before they look.
    let visible = text.trim_start_matches(|char: char| char.is_whitespace() || !char.is_ascii() && is_mark(char));
    if starts(text) || starts(visible) { format!("'{text}") } else { text.to_owned() }
}

/// Marks that are not seen: directions, joiners, byte order.
fn is_mark(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{harmless, writer};

    #[test]
    fn formulas_are_harmless_and_plain_text_is_as_it_is() {
        for formula in
            ["=HYPERLINK(\"http://x\";\"y\")", "+1", "-1", "@SUM(1)", "\t=1", "\u{200f}=1", " =1", "\u{ff1d}1"]
        {
            assert_eq!(harmless(formula), format!("'{formula}"));
        }
        for plain in ["Acme Inc", "1-2", "a=b", "", "שלום", "日本"] {
            assert_eq!(harmless(plain), plain);
        }
    }

    #[test]
    fn records_are_those_of_the_standard() {
        let mut out = writer(Vec::new());
        out.write_record(["a", "b,c", "say \"x\"", "two\r\nlines", ""]).unwrap();
        assert_eq!(out.into_inner().unwrap(), b"a,\"b,c\",\"say \"\"x\"\"\",\"two\r\nlines\",\r\n");
    }
}
