//! SQLite: rows that are written, each value of them a parameter.
//!
//! Rows of a row source come as one JSON text, of any number. Taking each value out of it is most of what writing a row
//! costs; so statements that only write, and name their rows once, take them as `VALUES (?, ...), ...` instead. How many
//! rows there are is a part of such a text, and a text is prepared once: so there are few numbers, each a power of two, and
//! what is left over is filled up with rows of NULLs, which are passed over: the first column is one of the key.

use std::ops::Range;
use std::sync::Arc;

use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments as _, AssertSqlSafe};

use super::super::error::StoreError;
use super::super::rows::{Rows, Values};
use super::super::statement::{Statement, Words as _};
use super::queries::SqliteQuery;
use super::words::Sqlite;
use super::{failed, failed_in};

/// Most rows of one text.
const ROWS_MAX: usize = 256;

/// A statement around its rows.
#[derive(Debug)]
pub(in super::super) struct Around {
    /// Up to the first row.
    before: String,
    /// From after the last one.
    after: String,
    /// The parameters of a row.
    row: String,
    /// How many they are.
    columns: usize,
}

impl Around {
    /// Writes the statement with so many rows.
    fn write_with(&self, rows: usize, sql: &mut String) {
        sql.push_str(&self.before);
        for place in 0..rows {
            sql.push_str(if place == 0 { "" } else { ", " });
            sql.push_str(&self.row);
        }
        sql.push_str(&self.after);
    }
}

/// A statement as it is run, with two rows where it takes them as values.
pub(super) fn sample(statement: &'static Statement) -> String {
    let mut sql = String::new();
    match around(statement) {
        Some(around) => around.write_with(2, &mut sql),
        None => sql.push_str(&statement.expanded::<Sqlite>().sql),
    }
    sql
}

/// A statement around its rows; `None` for one that reads, takes other values too, or names its rows more than once.
pub(super) fn around(statement: &'static Statement) -> Option<&'static Around> {
    let around = statement.around.get_or_init(|| {
        let columns = statement.columns();
        let expanded = statement.expanded::<Sqlite>();
        let given = Sqlite::rows(&columns, 0, false);
        let (before, after) = expanded.sql.strip_prefix(&Sqlite::given(&columns, 0))?.split_once(&given)?;
        // Where a row breaks a rule the whole batch is undone: what to go back to within it need not be kept.
        let before = ["INSERT ", "UPDATE "]
            .iter()
            .find_map(|verb| before.strip_prefix(verb).map(|rest| format!("{verb}OR FAIL {rest}")))?;
        if expanded.parameters != 1 || after.contains(&given) || expanded.sql.contains("r.ord") {
            return None;
        }
        if !columns.first()?.key {
            return None;
        }
        let named = columns.iter().enumerate();
        let named = named.map(|(place, column)| format!("column{} AS {}", place.saturating_add(1), column.name));
        let named = named.collect::<Vec<_>>().join(", ");
        Some(Around {
            before: format!("{before}(SELECT {named} FROM (VALUES "),
            after: format!(") WHERE column1 IS NOT NULL) AS r{after}"),
            row: format!("({})", vec!["?"; columns.len()].join(", ")),
            columns: columns.len(),
        })
    });
    around.as_ref()
}

/// Writes the rows of statements, in their order: together where each fits into one text. Answers how many were written.
pub(super) async fn write<'r>(
    connection: &mut SqliteConnection,
    parts: impl IntoIterator<Item = (&'static Statement, &'r Rows<'r>)>,
    name: &str,
) -> Result<u64, StoreError> {
    let mut texts: Vec<Vec<_>> = Vec::new();
    for (statement, rows) in parts {
        let around = around(statement).ok_or_else(|| StoreError::corrupt("rows of a statement that does not write"))?;
        for from in (0..rows.count()).step_by(ROWS_MAX) {
            let part = (around, rows, from..rows.count().min(from.saturating_add(ROWS_MAX)));
            match texts.last_mut() {
                Some(text) if rows.count() <= ROWS_MAX => text.push(part),
                _ => texts.push(vec![part]),
            }
        }
    }
    let mut written = 0_u64;
    for text in texts {
        let done = query(&text)?.execute(&mut *connection).await.map_err(|error| failed_in(name, &error))?;
        written = written.saturating_add(done.rows_affected());
    }
    Ok(written)
}

/// Statements that write, one after another, each with some of its rows: at most [`ROWS_MAX`].
fn query(parts: &[(&'static Around, &Rows<'_>, Range<usize>)]) -> Result<SqliteQuery<'static>, StoreError> {
    let mut sql = String::new();
    let mut arguments = SqliteArguments::default();
    for (around, rows, range) in parts {
        let given = range.len().next_power_of_two();
        sql.push_str(if sql.is_empty() { "" } else { "; " });
        around.write_with(given, &mut sql);
        if rows.columns().first().is_none_or(|key| range.clone().any(|row| key.is_null(row))) {
            return Err(StoreError::corrupt("a row without a key"));
        }
        let mut latest: Vec<Option<(&str, Arc<str>)>> = vec![None; around.columns];
        for row in range.clone() {
            for (column, latest) in rows.columns().iter().zip(&mut latest) {
                bind(&mut arguments, column, row, latest).map_err(|error| failed(&sqlx::Error::Encode(error)))?;
            }
        }
        for _ in 0..given.saturating_sub(range.len()).saturating_mul(around.columns) {
            arguments.add(None::<i64>).map_err(|error| failed(&sqlx::Error::Encode(error)))?;
        }
    }
    Ok(sqlx::query_with(AssertSqlSafe(sql), arguments))
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
