//! The drivers' queries: an expanded statement with its rows and values.

use sqlx::Database;
use sqlx::query::Query;

use super::super::bundle::Bundle;
use super::super::rows::{RowId, Rows, Value, Values, Xid};
use super::super::statement::{Column, Expanded, Kind};
use super::words::{Postgres, Sqlite};

pub(super) type SqliteQuery<'q> = Query<'q, sqlx::Sqlite, <sqlx::Sqlite as Database>::Arguments>;
type PostgresQuery<'q> = Query<'q, sqlx::Postgres, <sqlx::Postgres as Database>::Arguments>;

/// SQLite takes rows as one JSON text.
pub(super) fn sqlite_query<'q>(
    expanded: &'static Expanded,
    rows: Option<&Rows<'_>>,
    values: &[Value<'_>],
) -> SqliteQuery<'q> {
    let mut query = sqlx::query(expanded.sql.as_str());
    if let Some(rows) = rows {
        query = query.bind(rows.to_json());
    }
    for value in values {
        query = match value {
            Value::Text(text) => query.bind(text.map(str::to_owned)),
            Value::Int(int) => query.bind(*int),
        };
    }
    query
}

/// Statements that read, one after another, each with its rows; without any it is asked in vain.
pub(super) fn sqlite_bundle_query<'q, const N: usize>(
    bundle: &'static Bundle<N>,
    rows: [&Rows<'_>; N],
) -> SqliteQuery<'q> {
    let together = bundle.expanded::<Sqlite>(|_, parts| parts.join("; "));
    let mut query = sqlx::query(together.sql.as_str());
    for (part, rows) in bundle.parts.into_iter().zip(rows) {
        if !part.columns().is_empty() {
            query = query.bind(rows.to_json());
        }
    }
    query
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
    bundle.expanded::<Postgres>(|writes, parts| if writes { Postgres::writes(parts) } else { Postgres::reads(&parts) })
}

/// A bundle with its rows.
pub(super) fn bundle_query<'q, const N: usize>(bundle: &'static Bundle<N>, rows: [&Rows<'_>; N]) -> PostgresQuery<'q> {
    let mut query = sqlx::query(together(bundle).sql.as_str());
    for (part, rows) in bundle.parts.into_iter().zip(rows) {
        query = if rows.is_empty() { bind_none(query, &part.columns()) } else { bind_rows(query, rows) };
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
