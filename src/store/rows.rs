//! Rows that a caller gives to a statement, and values beside them.

use std::fmt::Write as _;

/// A value beside the rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Text, or NULL.
    Text(Option<&'a str>),
    /// An integer, or NULL.
    Int(Option<i64>),
}

impl<'a> Value<'a> {
    /// Text.
    pub(super) fn text(text: &'a str) -> Self {
        Self::Text(Some(text))
    }

    /// An integer.
    pub(super) fn int(int: i64) -> Self {
        Self::Int(Some(int))
    }
}

/// Where the database has a row: as good as its key while the row is locked, and found without a search. SQLite's `rowid`;
/// PostgreSQL's `ctid`, the block before the lower 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowId(pub(super) i64);

/// The number of a transaction that wrote a row: PostgreSQL's `xmin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Xid(pub(super) u32);

/// Who wrote a row: a row that has this is as that transaction left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenBy {
    /// The transaction.
    pub(super) transaction: Xid,
    /// The life of the server that counted it: another gives its numbers again.
    pub(super) server: i64,
}

impl WrittenBy {
    /// Whether both were written in one life of one server.
    #[must_use]
    pub fn is_of_the_server_of(self, other: Self) -> bool {
        self.server == other.server
    }
}

#[cfg(test)]
impl WrittenBy {
    /// A transaction that never was.
    pub(crate) fn of_test(number: u32, server: i64) -> Self {
        Self { transaction: Xid(number), server }
    }
}

/// One column of the rows.
#[derive(Clone, Debug)]
pub(super) enum Values<'a> {
    /// Text.
    Text(Vec<Option<&'a str>>),
    /// Integers.
    Int(Vec<Option<i64>>),
    /// Bytes.
    Bytes(Vec<Option<&'a [u8]>>),
    /// Where rows lie.
    RowId(Vec<RowId>),
    /// Who wrote them.
    Xid(Vec<Xid>),
}

/// Values of one group in [`Rows::to_json`]. SQLite walks to a value past all that stand before it in its array: in a row
/// of 46, past 22 in the middle; in groups, past 6.
pub(super) const GROUP: usize = 8;

/// The rows of a row source, kept by column; each row is pushed value by value, in the order of the statement's
/// columns, and closed by [`Rows::end`].
#[derive(Clone, Debug, Default)]
pub(super) struct Rows<'a> {
    columns: Vec<Values<'a>>,
    place: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// The rows that `push` writes, one for each item.
    pub(super) fn of<T>(items: impl IntoIterator<Item = T>, mut push: impl FnMut(&mut Self, T)) -> Self {
        let mut rows = Self::default();
        for item in items {
            push(&mut rows, item);
            rows.end();
        }
        rows
    }

    /// [`Rows::of`] for rows that may not fit.
    pub(super) fn try_of<T, E>(
        items: impl IntoIterator<Item = T>,
        mut push: impl FnMut(&mut Self, T) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut rows = Self::default();
        for item in items {
            push(&mut rows, item)?;
            rows.end();
        }
        Ok(rows)
    }

    /// Ends a row.
    pub(super) fn end(&mut self) {
        self.place = 0;
        self.count = self.count.saturating_add(1);
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The columns.
    pub(super) fn columns(&self) -> &[Values<'a>] {
        &self.columns
    }

    /// The column at the place of writing, made by `new` in the first row.
    fn column(&mut self, new: impl FnOnce() -> Values<'a>) -> Option<&mut Values<'a>> {
        if self.place == self.columns.len() {
            self.columns.push(new());
        }
        let place = self.place;
        self.place = place.saturating_add(1);
        self.columns.get_mut(place)
    }

    /// Writes text.
    pub(super) fn text(&mut self, text: &'a str) -> &mut Self {
        self.opt_text(Some(text))
    }

    /// Writes text or NULL.
    pub(super) fn opt_text(&mut self, text: Option<&'a str>) -> &mut Self {
        if let Some(Values::Text(values)) = self.column(|| Values::Text(Vec::new())) {
            values.push(text);
        }
        self
    }

    /// Writes an integer.
    pub(super) fn int(&mut self, int: i64) -> &mut Self {
        self.opt_int(Some(int))
    }

    /// Writes an integer or NULL.
    pub(super) fn opt_int(&mut self, int: Option<i64>) -> &mut Self {
        if let Some(Values::Int(values)) = self.column(|| Values::Int(Vec::new())) {
            values.push(int);
        }
        self
    }

    /// Writes a truth value as 1 or 0.
    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.int(i64::from(flag))
    }

    /// Writes bytes or NULL.
    pub(super) fn opt_bytes(&mut self, bytes: Option<&'a [u8]>) -> &mut Self {
        if let Some(Values::Bytes(values)) = self.column(|| Values::Bytes(Vec::new())) {
            values.push(bytes);
        }
        self
    }

    /// Writes bytes.
    pub(super) fn bytes(&mut self, bytes: &'a [u8]) -> &mut Self {
        self.opt_bytes(Some(bytes))
    }

    /// Writes where a row lies.
    pub(super) fn row_id(&mut self, row_id: RowId) -> &mut Self {
        if let Some(Values::RowId(values)) = self.column(|| Values::RowId(Vec::new())) {
            values.push(row_id);
        }
        self
    }

    /// Writes which transaction wrote a row.
    pub(super) fn xid(&mut self, xid: Xid) -> &mut Self {
        if let Some(Values::Xid(values)) = self.column(|| Values::Xid(Vec::new())) {
            values.push(xid);
        }
        self
    }

    /// The rows as JSON: an array of rows, each an array of groups of [`GROUP`] values; bytes as hexadecimal text.
    pub(super) fn to_json(&self) -> String {
        // About ten characters a value.
        let values = self.count.saturating_mul(self.columns.len());
        let mut json = String::with_capacity(values.saturating_mul(10));
        json.push('[');
        for row in 0..self.count {
            json.push_str(if row == 0 { "[[" } else { ",[[" });
            for (place, column) in self.columns.iter().enumerate() {
                match place.checked_rem(GROUP) {
                    _ if place == 0 => {}
                    Some(0) => json.push_str("],["),
                    _ => json.push(','),
                }
                column.write_json(row, &mut json);
            }
            json.push_str("]]");
        }
        json.push(']');
        json
    }
}

impl Values<'_> {
    /// Whether there is no value in a row.
    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Text(values) => values.get(row).copied().flatten().is_none(),
            Self::Int(values) => values.get(row).copied().flatten().is_none(),
            Self::Bytes(values) => values.get(row).copied().flatten().is_none(),
            Self::RowId(values) => values.get(row).is_none(),
            Self::Xid(values) => values.get(row).is_none(),
        }
    }

    fn write_json(&self, row: usize, json: &mut String) {
        match self {
            Self::Text(values) => match values.get(row).copied().flatten() {
                Some(text) => push_text(json, text),
                None => json.push_str("null"),
            },
            Self::Int(values) => match values.get(row).copied().flatten() {
                Some(int) => drop(write!(json, "{int}")), // A string takes all that is written to it.
                None => json.push_str("null"),
            },
            Self::RowId(values) => match values.get(row) {
                Some(RowId(at)) => drop(write!(json, "{at}")),
                None => json.push_str("null"),
            },
            Self::Xid(values) => match values.get(row) {
                Some(Xid(by)) => drop(write!(json, "{by}")),
                None => json.push_str("null"),
            },
            Self::Bytes(values) => match values.get(row).copied().flatten() {
                Some(bytes) => {
                    json.push('"');
                    json.extend(bytes.iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 15)]));
                    json.push('"');
                }
                None => json.push_str("null"),
            },
        }
    }
}

/// Writes text as JSON. Almost all of it is ids, in which nothing is escaped.
fn push_text(json: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else {
        json.push_str(&serde_json::Value::from(text).to_string());
    }
}

fn hex(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn json_is_json() {
        let texts = ["plain", "quo\"te", "back\\slash", "new\nline", "ünïcode", ""];
        let rows = Rows::of(texts, |rows, text| {
            rows.text(text).opt_text(None).int(i64::MIN).bytes(&[0x0a, 0xff]);
        });
        let read: Vec<serde_json::Value> = serde_json::from_str(&rows.to_json()).unwrap();
        for (row, text) in read.into_iter().zip(texts) {
            assert_eq!(row, serde_json::json!([[text, null, i64::MIN, "0aff"]]));
        }
    }

    #[test]
    fn json_groups_columns() {
        let rows = Rows::of([0, 100], |rows, first| {
            for value in first..first + 17 {
                rows.int(value);
            }
        });
        let read: Vec<Vec<Vec<i64>>> = serde_json::from_str(&rows.to_json()).unwrap();
        assert_eq!(read[1], [(100..108).collect::<Vec<_>>(), (108..116).collect(), vec![116]]);
    }
}
