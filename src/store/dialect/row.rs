//! A row that a statement answered, read value by value in the order of its columns.

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row as _, Sqlite, Type, ValueRef as _};

use super::super::error::StoreError;
use super::super::rows::RowId;
use super::failed;

/// A row of either back end.
pub(in super::super) struct Row {
    values: Values,
    place: usize,
}

enum Values {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    Record(Record),
}

/// A row within a row, as PostgreSQL sends it (`record_send`): how many columns, and of each its type, its length (-1:
/// NULL) and its bytes.
struct Record {
    bytes: Vec<u8>,
    /// Where each column's bytes are; none: NULL.
    cells: Vec<Option<std::ops::Range<usize>>>,
}

/// A value as PostgreSQL sends it: text as it is, integers of eight bytes, the highest first. The driver would ask of each
/// what type it is; all are of statements that one test runs, and what is not so long is told.
trait Cell<'r>: Sized {
    /// `None` when it is none of these: the wrong type, or NULL where nothing is said of it.
    fn read(bytes: Option<&'r [u8]>) -> Option<Self>;
}

impl<'r> Cell<'r> for &'r str {
    fn read(bytes: Option<&'r [u8]>) -> Option<Self> {
        std::str::from_utf8(bytes?).ok()
    }
}

impl Cell<'_> for i64 {
    fn read(bytes: Option<&[u8]>) -> Option<Self> {
        bytes?.try_into().ok().map(Self::from_be_bytes)
    }
}

impl Cell<'_> for Vec<u8> {
    fn read(bytes: Option<&[u8]>) -> Option<Self> {
        bytes.map(<[u8]>::to_vec)
    }
}

impl<'r, T: Cell<'r>> Cell<'r> for Option<T> {
    fn read(bytes: Option<&'r [u8]>) -> Option<Self> {
        match bytes {
            None => Some(None),
            some => T::read(some).map(Some),
        }
    }
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

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &'_ [u8]| -> Option<i32> { bytes.first_chunk::<4>().copied().map(i32::from_be_bytes) };
        let mut cells = Vec::with_capacity(usize::try_from(number(bytes)?).ok()?);
        let mut at = 4_usize;
        while at < bytes.len() {
            let begin = at.checked_add(8)?;
            let length = number(bytes.get(at.checked_add(4)?..)?)?;
            let end = begin.checked_add(usize::try_from(length).unwrap_or_default())?;
            cells.push((length >= 0).then_some(begin..end));
            at = end;
        }
        Some(Self { bytes: bytes.to_vec(), cells })
    }

    /// A column's bytes; `None`: NULL.
    fn get(&self, place: usize) -> Result<Option<&[u8]>, StoreError> {
        let cell = self.cells.get(place).ok_or_else(|| wrong(place))?;
        cell.clone().map(|cell| self.bytes.get(cell).ok_or_else(|| wrong(place))).transpose()
    }
}

impl Row {
    /// The row within a row of a bundle, and the place of its statement.
    pub(super) fn of_bundle(row: &PgRow) -> Result<(usize, Self), StoreError> {
        let bytes = |place| row.try_get_raw(place).map_err(|error| failed(&error));
        let part = bytes(0)?.as_bytes().ok().and_then(|bytes| i64::read(Some(bytes)));
        let record = bytes(1)?.as_bytes().ok().and_then(Record::parse);
        match (part.and_then(|part| usize::try_from(part).ok()), record) {
            (Some(part), Some(record)) => Ok((part, Self { values: Values::Record(record), place: 0 })),
            _ => Err(StoreError::corrupt("a row of a bundle")),
        }
    }

    fn next<'r, T>(&'r mut self) -> Result<T, StoreError>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite> + Cell<'r>,
    {
        let place = self.place;
        self.place = place.saturating_add(1);
        match &self.values {
            Values::Sqlite(row) => row.try_get(place).map_err(|error| failed(&error)),
            Values::Postgres(row) => T::read(sent(row, place)?).ok_or_else(|| wrong(place)),
            Values::Record(record) => T::read(record.get(place)?).ok_or_else(|| wrong(place)),
        }
    }

    /// Whether the next value is NULL. Then so are all of its table, for there was no row to join: `columns` in all, which
    /// are passed over.
    pub(in super::super) fn gap(&mut self, columns: usize) -> Result<bool, StoreError> {
        let place = self.place;
        let is_null = match &self.values {
            Values::Sqlite(row) => {
                row.try_get_raw(place).map(|value| value.is_null()).map_err(|error| failed(&error))?
            }
            Values::Postgres(row) => {
                row.try_get_raw(place).map(|value| value.is_null()).map_err(|error| failed(&error))?
            }
            Values::Record(record) => record.get(place)?.is_none(),
        };
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

    /// The next value, where a row lies.
    pub(in super::super) fn row_id(&mut self) -> Result<RowId, StoreError> {
        let place = self.place;
        let bytes = match &self.values {
            Values::Sqlite(_) => return self.int().map(RowId),
            Values::Postgres(row) => sent(row, place)?,
            Values::Record(record) => record.get(place)?,
        };
        self.place = place.saturating_add(1);
        bytes.and_then(RowId::of_tid).ok_or_else(|| wrong(place))
    }

    /// The next value, bytes.
    pub(in super::super) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.next()
    }
}

/// A column's bytes as PostgreSQL sent them; `None`: NULL.
fn sent(row: &PgRow, place: usize) -> Result<Option<&[u8]>, StoreError> {
    let value = row.try_get_raw(place).map_err(|error| failed(&error))?;
    if value.is_null() { Ok(None) } else { value.as_bytes().map(Some).map_err(|_| wrong(place)) }
}

fn wrong(place: usize) -> StoreError {
    StoreError::Corrupt(format!("column {place} of a row is not what it is read as"))
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn a_record_has_its_columns_and_no_more() {
        let whole = [
            &[0, 0, 0, 3][..],
            &[0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 1, 2],
            &[0, 0, 0, 25, 255, 255, 255, 255],
            &[0, 0, 0, 25, 0, 0, 0, 2, b'h', b'i'],
        ]
        .concat();
        let record = Record::parse(&whole).unwrap();
        assert_eq!(record.get(0).unwrap(), Some(&[0, 0, 0, 0, 0, 0, 1, 2][..]));
        assert_eq!((record.get(1).unwrap(), record.get(2).unwrap()), (None, Some(&b"hi"[..])));
        assert!(record.get(3).is_err());
        for short in 0..whole.len() {
            let cut = Record::parse(&whole[..short]);
            assert!(cut.is_none_or(|cut| cut.get(2).is_err()), "{short} bytes");
        }
    }
}
