//! Figures for people's eyes: money, times, quantities, bars and tables. Pure; integers all the way.

use crate::domain::time::Timestamp;

/// Whole microdollars as dollars with six decimals: `$0.031250`, `-$1.000000`.
#[must_use]
pub fn dollars(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let amount = micros.unsigned_abs();
    format!("{sign}${}.{:06}", grouped(amount / 1_000_000), amount % 1_000_000)
}

/// An integer with commas: `1,562,500`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len().saturating_mul(2));
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && digits.len().saturating_sub(index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Thousandths with a unit: `12.345 s`.
#[must_use]
pub fn thousandths(number: i128, unit: &str) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let amount = number.unsigned_abs();
    let whole = u64::try_from(amount / 1_000).unwrap_or(u64::MAX);
    format!("{sign}{}.{:03} {unit}", grouped(whole), amount % 1_000)
}

/// `numerator / denominator` with six decimals, rounded down; `denominator` above zero.
#[must_use]
pub fn ratio6(numerator: i128, denominator: i128) -> String {
    let scaled = numerator.checked_mul(1_000_000).and_then(|scaled| scaled.checked_div_euclid(denominator));
    let Some(scaled) = scaled else { return "?".to_owned() };
    let sign = if scaled < 0 { "-" } else { "" };
    let amount = scaled.unsigned_abs();
    let whole = u64::try_from(amount / 1_000_000).unwrap_or(u64::MAX);
    format!("{sign}{}.{:06}", grouped(whole), amount % 1_000_000)
}

/// `2026-11-01T00:00:30.000Z`.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let (year, month, day) = at.day().ymd();
    let ms = at.since(at.day().start());
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Reads an RFC 3339 time with an offset; one without an offset is refused.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let parsed = chrono::DateTime::parse_from_rfc3339(text)
        .map_err(|_| format!("{text:?} is not a time such as 2026-11-01T00:00:00Z"))?;
    Timestamp::from_ms(parsed.timestamp_millis()).ok_or_else(|| format!("{text:?} is not within 1970 to 9999"))
}

/// A bar of `width` cells of which `part / whole` is filled; eighths of a cell show the rest.
#[must_use]
pub fn bar(part: i128, whole: i128, width: u16) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let cells = i128::from(width).saturating_mul(8);
    let filled = part.checked_mul(cells).and_then(|scaled| scaled.checked_div(whole)).unwrap_or(0).clamp(0, cells);
    let mut out: String = (0..filled / 8).map(|_| '█').collect();
    let eighth = usize::try_from(filled % 8).ok().and_then(|index| EIGHTHS.get(index)).copied();
    if filled < cells {
        out.push(eighth.unwrap_or(' '));
    }
    pad(&out, usize::from(width))
}

/// A text padded with spaces on its right to a width in characters.
#[must_use]
pub fn pad(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table in a box: a heading, rows, and a footing that is set off.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    footing: Vec<String>,
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new(), footing: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Sets the last row, which is set off by a line.
    pub fn footing(&mut self, cells: Vec<String>) {
        self.footing = cells;
    }

    /// The lines of the table.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let heading: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let all = || std::iter::once(&heading).chain(&self.rows).chain(std::iter::once(&self.footing));
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        let rule = |left: &str, middle: &str, right: &str| {
            let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width.saturating_add(2))).collect();
            format!("{left}{}{right}", parts.join(middle))
        };
        let line = |cells: &Vec<String>| {
            let empty = String::new();
            let parts = self.columns.iter().zip(&widths).enumerate().map(|(index, ((_, align), width))| {
                let cell = cells.get(index).unwrap_or(&empty);
                match align {
                    Align::Right => format!(" {cell:>width$} "),
                    Align::Left => format!(" {cell:<width$} "),
                }
            });
            format!("│{}│", parts.collect::<Vec<_>>().join("│"))
        };
        let mut lines = vec![rule("┌", "┬", "┐"), line(&heading), rule("├", "┼", "┤")];
        lines.extend(self.rows.iter().map(line));
        if !self.footing.is_empty() {
            lines.extend([rule("├", "┼", "┤"), line(&self.footing)]);
        }
        lines.push(rule("└", "┴", "┘"));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Table, bar, dollars, parse_time, ratio6, rfc3339, thousandths};

    #[test]
    fn money_has_six_decimals_and_its_sign_before_the_dollar() {
        assert_eq!(dollars(31_250), "$0.031250");
        assert_eq!(dollars(17_856_000_000_000), "$17,856,000.000000");
        assert_eq!(dollars(-1), "-$0.000001");
        assert_eq!(dollars(i64::MIN), "-$9,223,372,036,854.775808");
    }

    #[test]
    fn quantities_keep_their_digits() {
        assert_eq!(thousandths(1_234_567, "s"), "1,234.567 s");
        assert_eq!(thousandths(-5, "s"), "-0.005 s");
        assert_eq!(ratio6(1, 3), "0.333333");
        assert_eq!(ratio6(1, 0), "?");
    }

    #[test]
    fn times_go_round_and_need_an_offset() {
        let at = parse_time("2026-03-01T00:30:00.123+09:00").unwrap();
        assert_eq!(rfc3339(at), "2026-02-28T15:30:00.123Z");
        assert!(parse_time("2026-03-01T00:30:00").is_err());
        assert!(parse_time("1969-12-31T00:00:00Z").is_err());
    }

    #[test]
    fn a_bar_is_always_as_wide_as_asked() {
        assert_eq!(bar(0, 10, 4), "    ");
        assert_eq!(bar(5, 10, 4), "██  ");
        assert_eq!(bar(1, 16, 4), "▎   ");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(99, 10, 4), "████");
        assert_eq!(bar(1, 0, 4), "    ");
    }

    #[test]
    fn a_table_lines_up() {
        let mut table = Table::new(&[("sandbox", Align::Left), ("net", Align::Right)]);
        table.row(vec!["a".into(), "$0.000001".into()]);
        table.row(vec!["büsy".into(), "$10.000001".into()]);
        table.footing(vec!["total".into(), "$10.000002".into()]);
        insta::assert_snapshot!(table.lines().join("\n"), @r"
        ┌─────────┬────────────┐
        │ sandbox │        net │
        ├─────────┼────────────┤
        │ a       │  $0.000001 │
        │ büsy    │ $10.000001 │
        ├─────────┼────────────┤
        │ total   │ $10.000002 │
        └─────────┴────────────┘
        ");
    }
}
