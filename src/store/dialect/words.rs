//! The words of each back end: how the braces of a [`Statement`](super::super::statement::Statement) read in its SQL.

use super::super::rows::GROUP;
use super::super::statement::{Column, Kind, Lock, Matching, Slot, Words};

/// SQLite: rows come as one JSON text (many, and those that are written, as values: `values.rs`); one writer, so nothing
/// is locked.
#[derive(Debug)]
pub(in super::super) struct Sqlite;

/// PostgreSQL: rows come as one array a column.
#[derive(Debug)]
pub(in super::super) struct Postgres;

impl Words for Sqlite {
    const SLOT: Slot = Slot::Embedded;

    fn row_parameters(_: &[Column<'_>]) -> usize {
        1
    }

    fn given(columns: &[Column<'_>]) -> String {
        let values = columns.iter().enumerate().map(|(place, column)| {
            let (group, place) =
                (place.checked_div(GROUP).unwrap_or_default(), place.checked_rem(GROUP).unwrap_or_default());
            let value = format!("cells ->> '$[{group}][{place}]'");
            match column.kind {
                Kind::Text | Kind::Int | Kind::RowId | Kind::Xid => format!("{value} AS {}", column.name),
                Kind::Bytes => format!("unhex({value}) AS {}", column.name),
            }
        });
        let values = values.collect::<Vec<_>>().join(", ");
        // `value` is made anew each time it is named, once a column: so each row is taken out of the text once, as JSONB,
        // which no column has to parse again. SQLite keeps `given` by itself where it is named more than once.
        format!(
            "WITH one AS MATERIALIZED (SELECT key + 1 AS ord, value AS cells FROM jsonb_each(?)), \
             given AS (SELECT ord, {values} FROM one) "
        )
    }

    fn rows(_: &[Column<'_>], _: usize, _: bool) -> String {
        "given AS r".to_owned()
    }

    fn parameter(number: usize, _: Kind) -> String {
        format!("${number}")
    }

    fn each(_: Lock, matching: &Matching<'_>) -> String {
        let Matching { table, alias, index, condition } = matching;
        let index = index.map_or_else(String::new, |index| format!(" INDEXED BY {index}"));
        // CROSS JOIN is SQLite's word for: in this order.
        format!("CROSS JOIN {table} AS {alias}{index} ON {condition}")
    }

    fn maybe(matching: &Matching<'_>) -> String {
        let Matching { table, alias, condition, .. } = matching;
        format!("LEFT JOIN {table} AS {alias} ON {condition}")
    }

    fn found(matching: &Matching<'_>) -> String {
        format!("WHERE {}", matching.condition)
    }

    fn row_id(alias: &str) -> String {
        format!("{alias}.rowid")
    }

    fn at(matching: &Matching<'_>) -> String {
        format!("WHERE {}.rowid = r.row_id AND ({}) IS TRUE", matching.alias, matching.condition)
    }

    fn unchanged(matching: &Matching<'_>) -> String {
        Self::found(matching)
    }

    fn transaction() -> &'static str {
        "NULL"
    }

    fn server() -> &'static str {
        "0"
    }

    fn no_bytes() -> &'static str {
        "x''"
    }

    fn lock_share() -> &'static str {
        ""
    }

    fn now() -> &'static str {
        "NULL"
    }
}

impl Words for Postgres {
    const SLOT: Slot = Slot::Server;

    fn row_parameters(columns: &[Column<'_>]) -> usize {
        columns.len()
    }

    fn given(_: &[Column<'_>]) -> String {
        String::new()
    }

    fn rows(columns: &[Column<'_>], before: usize, placed: bool) -> String {
        let arrays = (before.saturating_add(1)..)
            .zip(columns)
            .map(|(number, column)| (format!("${number}::{}[]", type_of(column.kind)), column.name));
        if placed {
            let (arrays, names): (Vec<_>, Vec<_>) = arrays.unzip();
            return format!("UNNEST({}) WITH ORDINALITY AS r({}, ord)", arrays.join(", "), names.join(", "));
        }
        // A function in FROM writes each array into a store of its own and reads it from there. In the list of what is
        // selected the arrays are walked side by side, which takes a third of the time; but they have no ordinality there.
        let arrays = arrays.map(|(array, name)| format!("UNNEST({array}) AS {name}"));
        format!("(SELECT {}) AS r", arrays.collect::<Vec<_>>().join(", "))
    }

    fn parameter(number: usize, kind: Kind) -> String {
        format!("${number}::{}", type_of(kind))
    }

    fn each(lock: Lock, matching: &Matching<'_>) -> String {
        let Matching { table, alias, condition, .. } = matching;
        let lock = match lock {
            Lock::None => "",
            Lock::Wait => " FOR NO KEY UPDATE",
            Lock::Skip => " FOR NO KEY UPDATE SKIP LOCKED",
            Lock::Share => " FOR KEY SHARE",
            Lock::Alone => " FOR UPDATE",
        };
        // OFFSET 0 keeps the planner from merging the sub-select into the query and turning the join around.
        format!(
            "CROSS JOIN LATERAL (SELECT {alias}.ctid AS row_id, {alias}.* FROM {table} AS {alias} WHERE {condition} \
             OFFSET 0{lock}) AS {alias}"
        )
    }

    fn maybe(matching: &Matching<'_>) -> String {
        let Matching { table, alias, condition, .. } = matching;
        format!(
            "LEFT JOIN LATERAL (SELECT {alias}.* FROM {table} AS {alias} WHERE {condition} OFFSET 0) AS {alias} ON true"
        )
    }

    fn found(matching: &Matching<'_>) -> String {
        let Matching { table, alias, condition, .. } = matching;
        format!(
            "CROSS JOIN LATERAL (SELECT {alias}.ctid AS place FROM {table} AS {alias} WHERE {condition} OFFSET 0) \
             AS found WHERE {alias}.ctid = found.place"
        )
    }

    fn row_id(alias: &str) -> String {
        format!("{alias}.row_id")
    }

    fn at(matching: &Matching<'_>) -> String {
        // IS TRUE keeps the planner from going by an index of the condition.
        format!("WHERE {}.ctid = r.row_id AND ({}) IS TRUE", matching.alias, matching.condition)
    }

    fn unchanged(matching: &Matching<'_>) -> String {
        let Matching { table, alias, index, condition } = matching;
        // By the key, and not by where it was left: only who comes by an index clears a page of dead versions, and so keeps
        // room in it for the next. Asked twice: when a row is found, and when it is got from who wrote it meanwhile.
        let unchanged = format!("{alias}.xmin = r.written_by");
        let condition = format!("{condition} AND {unchanged}");
        format!("{} AND {unchanged}", Self::found(&Matching { table, alias, index: *index, condition }))
    }

    fn transaction() -> &'static str {
        // A row has the lower half of the number.
        "(PG_CURRENT_XACT_ID()::text::bigint & 4294967295)"
    }

    fn server() -> &'static str {
        // To the microsecond. A server that takes over from another was not started at the same one.
        "(EXTRACT(EPOCH FROM PG_POSTMASTER_START_TIME()) * 1000000)::bigint"
    }

    fn no_bytes() -> &'static str {
        "''::bytea"
    }

    fn lock_share() -> &'static str {
        "FOR SHARE"
    }

    fn now() -> &'static str {
        // EXTRACT would answer a numeric, which takes twice as long, once a row.
        "FLOOR(DATE_PART('epoch', CLOCK_TIMESTAMP()) * 1000)::bigint"
    }
}

impl Postgres {
    /// Statements that read as one: of each row the place of its statement, then the row as a record.
    pub(super) fn reads(parts: &[String]) -> String {
        let parts = parts.iter().enumerate();
        let parts = parts.map(|(place, sql)| format!("SELECT {place}::bigint, q FROM ({sql}) AS q"));
        parts.collect::<Vec<_>>().join(" UNION ALL ")
    }

    /// Statements that write as one: all but the last beside the last.
    pub(super) fn writes(mut parts: Vec<String>) -> String {
        let last = parts.pop().unwrap_or_default();
        let beside = parts.into_iter().enumerate().map(|(place, sql)| format!("beside_{place} AS ({sql})"));
        format!("WITH {} {last}", beside.collect::<Vec<_>>().join(", "))
    }
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Int => "bigint",
        Kind::Bytes => "bytea",
        Kind::RowId => "tid",
        Kind::Xid => "xid",
    }
}
