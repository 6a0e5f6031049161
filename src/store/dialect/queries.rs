//! The drivers' queries: an expanded statement with its rows and values.

use std::borrow::Cow;

use sqlx::error::BoxDynError;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments as _, AssertSqlSafe, Database};

use super::super::bundle::Bundle;
use super::super::error::StoreError;
use super::super::rows::{RowId, Rows, Value, Values, Xid};
use super::super::statement::{Column, Expanded, Kind};
use super::failed;
use super::words::Postgres;

type SqliteQuery = Query<'static, sqlx::Sqlite, SqliteArguments>;
type PostgresQuery<'q> = Query<'q, sqlx::Postgres, <sqlx::Postgres as Database>::Arguments>;

/// One statement for SQLite or several, one after another, and their parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct SqliteText {
    sql: Cow<'static, str>,
    arguments: SqliteArguments,
    /// How many statements it has.
    statements: usize,
}

impl SqliteText {
    /// One statement without parameters.
    pub(super) fn of(sql: &'static str) -> Self {
        Self::with(sql.into(), SqliteArguments::default())
    }

    /// One statement with its parameters.
    pub(super) fn with(sql: Cow<'static, str>, arguments: SqliteArguments) -> Self {
        Self { sql, arguments, statements: 1 }
    }

    /// How many statements it has.
    pub(super) fn statements(&self) -> usize {
        self.statements
    }

    /// The same after a statement without parameters.
    pub(super) fn after(self, first: &str) -> Self {
        let statements = self.statements.saturating_add(1);
        Self { sql: format!("{first}; {}", self.sql).into(), statements, ..self }
    }

    /// The same before a statement without parameters.
    pub(super) fn before(mut self, last: &str) -> Self {
        self.add(|sql, _| sql.push_str(last));
        self
    }

    /// Adds a statement, by what writes it and adds its parameters.
    pub(super) fn add<T>(&mut self, write: impl FnOnce(&mut String, &mut SqliteArguments) -> T) -> T {
        let sql = self.sql.to_mut();
        if !sql.is_empty() {
            sql.push_str("; ");
        }
        self.statements = self.statements.saturating_add(1);
        write(sql, &mut self.arguments)
    }

    /// As the driver takes it.
    pub(super) fn query(self) -> SqliteQuery {
        match self.sql {
            Cow::Borrowed(sql) => sqlx::query_with(sql, self.arguments),
            Cow::Owned(sql) => sqlx::query_with(AssertSqlSafe(sql), self.arguments),
        }
    }
}

/// SQLite takes rows as one JSON text, where it does not as values (`values.rs`).
pub(super) fn sqlite_text(
    expanded: &'static Expanded,
    rows: Option<&Rows<'_>>,
    values: &[Value<'_>],
) -> Result<SqliteText, StoreError> {
    let mut arguments = SqliteArguments::default();
    if let Some(rows) = rows {
        arguments.add(rows.to_json()).map_err(unsent)?;
    }
    for value in values {
        match value {
            Value::Text(text) => arguments.add(text.map(str::to_owned)),
            Value::Int(int) => arguments.add(*int),
        }
        .map_err(unsent)?;
    }
    Ok(SqliteText::with(expanded.sql.as_str().into(), arguments))
}

/// What the driver does not take as a parameter.
pub(super) fn unsent(error: BoxDynError) -> StoreError {
    failed(&sqlx::Error::Encode(error))
}

/// PostgreSQL takes them as arrays, one a column.
pub(super) fn postgres_query<'q>(
    expanded: &'static Expanded,
    rows: Option<&Rows<'_>>,
    values: &[Value<'_>],
) -> PostgresQuery<'q> {
    let mut query = sqlx::query(expanded.sql.as_str());
    if let Some(rows) = rows {
        query = bind_rows(query, rows);
    }
    for value in values {
        query = match value {
            Value::Text(text) => query.bind(*text),
            Value::Int(int) => query.bind(*int),
        };
    }
    query
}

/// A bundle as the one statement as which PostgreSQL takes it.
pub(super) fn together<const N: usize>(bundle: &'static Bundle<N>) -> &'static Expanded {
    bundle.on_server::<Postgres>(|writes, parts| if writes { Postgres::writes(parts) } else { Postgres::reads(&parts) })
}

/// A bundle with its rows.
pub(super) fn bundle_query<'q, const N: usize>(bundle: &'static Bundle<N>, rows: [&Rows<'_>; N]) -> PostgresQuery<'q> {
    let mut query = sqlx::query(together(bundle).sql.as_str());
    for (part, rows) in bundle.parts.into_iter().zip(rows) {
        query = if rows.is_empty() { bind_none(query, part.columns()) } else { bind_rows(query, rows) };
    }
    query
}

/// Adds a row source.
fn bind_rows<'q>(mut query: PostgresQuery<'q>, rows: &Rows<'_>) -> PostgresQuery<'q> {
    for column in rows.columns() {
        query = match column {
            Values::Text(values) => query.bind(values.as_slice()),
            Values::Int(values) => query.bind(values.as_slice()),
            Values::Bytes(values) => query.bind(values.as_slice()),
            Values::RowId(values) => query.bind(values.as_slice()),
            Values::Xid(values) => query.bind(values.as_slice()),
        };
    }
    query
}

/// Adds a row source without rows.
fn bind_none<'q>(mut query: PostgresQuery<'q>, columns: &[Column<'_>]) -> PostgresQuery<'q> {
    for column in columns {
        query = match column.kind {
            Kind::Text => query.bind(Vec::<&str>::new()),
            Kind::Int => query.bind(Vec::<i64>::new()),
            Kind::Bytes => query.bind(Vec::<&[u8]>::new()),
            Kind::RowId => query.bind(Vec::<RowId>::new()),
            Kind::Xid => query.bind(Vec::<Xid>::new()),
        };
    }
    query
}
