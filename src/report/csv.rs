//! An invoice as CSV (RFC 4180): a row a line, then the total and the amount due.
//!
//! Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers.

use super::{ReportError, dollars, dollars_of_cents, show_day, show_month, status_word};
use crate::domain::invoice::{Invoice, Line, decimal};

const COLUMNS: [&str; 15] = [
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
    "amount_micros",
];

/// The file.
pub fn render(invoice: &Invoice) -> Result<Vec<u8>, ReportError> {
    let mut out = String::new();
    row(&mut out, COLUMNS.into_iter().chain(["amount"]));
    for line in &invoice.lines {
        let cells = line_cells(line)?;
        let amount = [line.amount.count().to_string(), dollars(line.amount.count())];
        write(&mut out, invoice, line.item.name(), &cells, &amount);
    }
    let none: [String; 8] = Default::default();
    let total = invoice.total.count();
    write(&mut out, invoice, "total", &none, &[total.to_string(), dollars(total)]);
    let due = invoice.due_cents();
    let due_micros = i64::checked_mul(due, 10_000).ok_or(crate::domain::Overflow)?;
    write(&mut out, invoice, "amount_due", &none, &[due_micros.to_string(), dollars_of_cents(due)]);
    Ok(out.into_bytes())
}

/// Month of use, from, to, card, quantity, measured quantity, unit, unit price.
fn line_cells(line: &Line) -> Result<[String; 8], ReportError> {
    let (Some(used), Some((unit, size))) = (&line.used, line.item.unit()) else { return Ok(Default::default()) };
    Ok([
        show_month(used.month),
        show_day(used.from),
        show_day(used.to),
        harmless(used.card.as_str()),
        decimal(used.quantity, size)?,
        used.measured.map(|measured| decimal(measured, size)).transpose()?.unwrap_or_default(),
        unit.to_owned(),
        used.price.map(|price| price.micros_per_hour().to_string()).unwrap_or_default(),
    ])
}

fn write(out: &mut String, invoice: &Invoice, resource: &str, cells: &[String; 8], amount: &[String; 2]) {
    let number = invoice.number().map(|number| number.to_string()).unwrap_or_default();
    let (account, name) = (harmless(invoice.account.as_str()), harmless(&invoice.name));
    let month = show_month(invoice.month);
    let head = [&number, status_word(invoice), &account, &name, &month, resource];
    row(out, head.into_iter().chain(cells.iter().chain(amount).map(String::as_str)));
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

/// A record: cells with a comma, a quote or a line break are quoted, quotes doubled; lines end with CRLF.
pub(super) fn row<'c>(out: &mut String, cells: impl Iterator<Item = &'c str>) {
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            out.push(',');
        }
        if cell.contains([',', '"', '\r', '\n', '\'']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::{harmless, row};

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
        let mut out = String::new();
        row(&mut out, ["a", "b,c", "say \"x\"", "two\r\nlines", ""].into_iter());
        assert_eq!(out, "a,\"b,c\",\"say \"\"x\"\"\",\"two\r\nlines\",\r\n");
    }
}
