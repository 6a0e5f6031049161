//! SQLite: rows whose values are parameters, each of them.
//!
//! Rows of a row source come as one JSON text, of any number. Taking each value out of it is most of what writing a row
//! costs, and much of what finding one does; so statements that only write, and name their rows once, take them as
//! `VALUES (?, ...), ...` instead, and so do those that read, where there are enough. How many rows there are is a part of
//! such a text, and a text is prepared once: so there are few numbers (1, 2, 4, 8, then by steps), and what is left over is
//! filled up with rows of NULLs, which are passed over: the first column is one of the key.

use std::ops::Range;
use std::sync::Arc;

use sqlx::Arguments as _;
use sqlx::sqlite::SqliteArguments;

use super::super::error::StoreError;
use super::super::rows::{Rows, Values};
use super::super::statement::{Statement, Words as _};
use super::queries::{SqliteText, unsent};
use super::words::Sqlite;

/// How far apart the numbers of rows of larger texts are.
const STEP: usize = 16;
/// Most rows of one text.
const ROWS_MAX: usize = 256;
/// Fewer rows that are read come as JSON all the same: they cost little, and each number of rows is a text to keep.
const READS_MIN: usize = 8;

/// A statement around its rows.
#[derive(Debug)]
pub(in super::super) struct Around {
    /// Up to the first row.
    before: String,
    /// From after the last one.
    after: String,
    /// How many values a row has.
    columns: usize,
    /// Whether each row ends with its place.
    placed: bool,
    /// Whether the statement reads; else it writes.
    reads: bool,
}

impl Around {
    /// Writes the statement with so many rows.
    fn write_with(&self, rows: usize, sql: &mut String) {
        let values = vec!["?"; self.columns].join(", ");
        // Brackets, commas and a place.
        let row_bytes = values.len().saturating_add(8);
        let bytes = rows.saturating_mul(row_bytes).saturating_add(self.after.len());
        sql.reserve(self.before.len().saturating_add(bytes));
        sql.push_str(&self.before);
        for place in 0..rows {
            sql.push_str(if place == 0 { "(" } else { ", (" });
            sql.push_str(&values);
            if self.placed {
                sql.push_str(", ");
                sql.push_str(&place.saturating_add(1).to_string());
            }
            sql.push(')');
        }
        sql.push_str(&self.after);
    }

    /// Adds the parameters of such a statement.
    fn bind_to(&self, arguments: &mut SqliteArguments, rows: &Rows<'_>, range: Range<usize>) -> Result<(), StoreError> {
        if rows.columns().first().is_none_or(|key| range.clone().any(|row| key.is_null(row))) {
            return Err(StoreError::corrupt("a row without a key"));
        }
        arguments.reserve(given(range.len()).saturating_mul(self.columns), 0);
        let mut latest: Vec<Option<(&str, Arc<str>)>> = vec![None; self.columns];
        let left_over = given(range.len()).saturating_sub(range.len()).saturating_mul(self.columns);
        for row in range {
            for (column, latest) in rows.columns().iter().zip(&mut latest) {
                bind(arguments, column, row, latest).map_err(unsent)?;
            }
        }
        for _ in 0..left_over {
            arguments.add(None::<i64>).map_err(unsent)?;
        }
        Ok(())
    }
}

/// How many rows a text has for so many: each that is too many costs about a third of one that is not.
fn given(rows: usize) -> usize {
    if rows <= STEP { rows.next_power_of_two() } else { rows.next_multiple_of(STEP) }
}

/// A statement as it is run, with two rows where it takes them as values: each text that it may have.
pub(super) fn samples(statement: &'static Statement) -> Vec<String> {
    let as_json = statement.expanded::<Sqlite>().sql.clone();
    let Some(around) = around(statement) else { return vec![as_json] };
    let mut as_values = String::new();
    around.write_with(2, &mut as_values);
    if around.reads { vec![as_json, as_values] } else { vec![as_values] }
}

/// A statement around its rows; `None` for one that takes other values too, or writes and names its rows more than once.
fn around(statement: &'static Statement) -> Option<&'static Around> {
    let around = statement.around.get_or_init(|| {
        let columns = statement.columns();
        let expanded = statement.expanded::<Sqlite>();
        if expanded.parameters != 1 || !columns.first()?.key {
            return None;
        }
        let named = (1..).zip(columns).map(|(place, column): (usize, _)| format!("column{place} AS {}", column.name));
        let named = named.collect::<Vec<_>>().join(", ");
        let text = expanded.sql.strip_prefix(&Sqlite::given(columns))?;
        let rows = Sqlite::rows(columns, 0, false);
        let (columns, last) = (columns.len(), columns.len().saturating_add(1));
        let placed = text.contains("r.ord");
        if text.starts_with("SELECT ") {
            let ord = if placed { format!(", column{last} AS ord") } else { String::new() };
            let before = format!("WITH given AS (SELECT {named}{ord} FROM (VALUES ");
            let after = format!(") WHERE column1 IS NOT NULL) {text}");
            return Some(Around { before, after, columns, placed, reads: true });
        }
        let (before, after) = text.split_once(&rows)?;
        // Where a row breaks a rule the whole batch is undone: what to go back to within it need not be kept.
        let before = ["INSERT ", "UPDATE "]
            .iter()
            .find_map(|verb| before.strip_prefix(verb).map(|rest| format!("{verb}OR FAIL {rest}")))?;
        if placed || after.contains(&rows) {
            return None;
        }
        let before = format!("{before}(SELECT {named} FROM (VALUES ");
        Some(Around {
            before,
            after: format!(") WHERE column1 IS NOT NULL) AS r{after}"),
            columns,
            placed,
            reads: false,
        })
    });
    around.as_ref()
}

/// A statement that writes, around its rows; `None` where they come as JSON.
pub(super) fn around_write(statement: &'static Statement) -> Option<&'static Around> {
    around(statement).filter(|around| !around.reads)
}

/// Statements that read, one after another, each with its rows; without any it is asked in vain.
pub(super) fn reads<'r>(
    parts: impl IntoIterator<Item = (&'static Statement, Option<&'r Rows<'r>>)>,
) -> Result<SqliteText, StoreError> {
    let mut text = SqliteText::default();
    add_reads(&mut text, parts)?;
    Ok(text)
}

/// Adds such statements to a text.
pub(super) fn add_reads<'r>(
    text: &mut SqliteText,
    parts: impl IntoIterator<Item = (&'static Statement, Option<&'r Rows<'r>>)>,
) -> Result<(), StoreError> {
    for (statement, rows) in parts {
        let many = rows.filter(|rows| (READS_MIN..=ROWS_MAX).contains(&rows.count()));
        let as_values = around(statement).filter(|around| around.reads).zip(many);
        text.add(|sql, arguments| {
            if let Some((around, rows)) = as_values {
                around.write_with(given(rows.count()), sql);
                return around.bind_to(arguments, rows, 0..rows.count());
            }
            sql.push_str(&statement.expanded::<Sqlite>().sql);
            rows.map_or(Ok(()), |rows| arguments.add(rows.to_json()).map_err(unsent))
        })?;
    }
    Ok(())
}

/// The rows of statements, in their order: in one text where each fits into one.
pub(super) fn write_texts<'r>(
    parts: impl IntoIterator<Item = (&'static Statement, &'r Rows<'r>)>,
) -> Result<Vec<SqliteText>, StoreError> {
    let mut texts: Vec<Vec<_>> = Vec::new();
    for (statement, rows) in parts {
        let around =
            around_write(statement).ok_or_else(|| StoreError::corrupt("rows of a statement that does not write"))?;
        for from in (0..rows.count()).step_by(ROWS_MAX) {
            let part = (around, rows, from..rows.count().min(from.saturating_add(ROWS_MAX)));
            match texts.last_mut() {
                Some(text) if rows.count() <= ROWS_MAX => text.push(part),
                _ => texts.push(vec![part]),
            }
        }
    }
    texts.iter().map(|text| writes(text)).collect()
}

/// Statements that write, one after another, each with some of its rows: at most [`ROWS_MAX`].
fn writes(parts: &[(&'static Around, &Rows<'_>, Range<usize>)]) -> Result<SqliteText, StoreError> {
    let mut text = SqliteText::default();
    for (around, rows, range) in parts {
        text.add(|sql, arguments| {
            around.write_with(given(range.len()), sql);
            around.bind_to(arguments, rows, range.clone())
        })?;
    }
    Ok(text)
}

/// Adds a value. Text that is as in the row before is not copied again: accounts, keys and words mostly are.
fn bind<'a>(
    arguments: &mut SqliteArguments,
    column: &Values<'a>,
    row: usize,
    latest: &mut Option<(&'a str, Arc<str>)>,
) -> Result<(), sqlx::error::BoxDynError> {
    match column {
        Values::Text(values) => {
            let Some(text) = values.get(row).copied().flatten() else { return arguments.add(None::<i64>) };
            match latest {
                Some((known, shared)) if *known == text => arguments.add(Arc::clone(shared)),
                _ => {
                    let shared: Arc<str> = text.into();
                    *latest = Some((text, Arc::clone(&shared)));
                    arguments.add(shared)
                }
            }
        }
        Values::Int(values) => arguments.add(values.get(row).copied().flatten()),
        Values::Bytes(values) => arguments.add(values.get(row).copied().flatten()),
        Values::RowId(values) => arguments.add(values.get(row).map(|at| at.0)),
        Values::Xid(values) => arguments.add(values.get(row).map(|by| i64::from(by.0))),
    }
}
