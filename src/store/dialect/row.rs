//! A row that a statement answered, read value by value in the order of its columns.

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row as _, Sqlite, Type, ValueRef as _};

use super::super::error::StoreError;
use super::failed;

/// A row of either back end.
pub(in super::super) struct Row {
    values: Values,
    place: usize,
}

enum Values {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl From<SqliteRow> for Row {
    fn from(row: SqliteRow) -> Self {
        Self { values: Values::Sqlite(row), place: 0 }
    }
}

impl From<PgRow> for Row {
    fn from(row: PgRow) -> Self {
        Self { values: Values::Postgres(row), place: 0 }
    }
}

impl Row {
    fn next<'r, T>(&'r mut self) -> Result<T, StoreError>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        let place = self.place;
        self.place = place.saturating_add(1);
        match &self.values {
            Values::Sqlite(row) => row.try_get(place),
            Values::Postgres(row) => row.try_get(place),
        }
        .map_err(|error| failed(&error))
    }

    /// Whether the next value is NULL. Then so are all of its table, for there was no row to join: `columns` in all, which
    /// are passed over.
    pub(in super::super) fn gap(&mut self, columns: usize) -> Result<bool, StoreError> {
        let place = self.place;
        let is_null = match &self.values {
            Values::Sqlite(row) => row.try_get_raw(place).map(|value| value.is_null()),
            Values::Postgres(row) => row.try_get_raw(place).map(|value| value.is_null()),
        }
        .map_err(|error| failed(&error))?;
        if is_null {
            self.place = place.saturating_add(columns);
        }
        Ok(is_null)
    }

    /// The next value, text.
    pub(in super::super) fn text(&mut self) -> Result<&str, StoreError> {
        self.next()
    }

    /// The next value, text or NULL.
    pub(in super::super) fn opt_text(&mut self) -> Result<Option<&str>, StoreError> {
        self.next()
    }

    /// The next value, an integer.
    pub(in super::super) fn int(&mut self) -> Result<i64, StoreError> {
        self.next()
    }

    /// The next value, an integer or NULL.
    pub(in super::super) fn opt_int(&mut self) -> Result<Option<i64>, StoreError> {
        self.next()
    }

    /// The next value, bytes or NULL.
    pub(in super::super) fn opt_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        self.next()
    }

    /// The next value, bytes.
    pub(in super::super) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.next()
    }
}
