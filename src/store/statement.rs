//! A statement: one SQL text for every back end, and its expansion into a back end's own words.
//!
//! What is in braces differs between back ends; all else is common SQL:
//!
//! | text | meaning |
//! |---|---|
//! | `{rows account_id text, key_id text \| name text}` | the row source `r`: rows given by the caller, in their order, with their place `r.ord` for a statement that names it; what is before the bar is the key. Once with its columns, then `{rows}` again |
//! | `{columns}`, `{r.columns}` | the row source's columns, plain and as `r.column` |
//! | `{set}`, `{set_r}` | `column = excluded.column` (`= r.column`) for those after the bar |
//! | `{add key_days}` | `column = key_days.column + excluded.column` for those after the bar |
//! | `{each leases l: condition}` | joins to every row of `r`, in its order, the rows of a table that match; `{each leases l by leases_unsettled: ...}` names the index, where a planner without statistics takes another |
//! | `{each_lock ...}`, `{each_skip ...}` | the same, locking each row against other writers; skipping those that others hold |
//! | `{each_share ...}`, `{each_alone ...}` | the same, holding each row against `each_alone` only; against all of these |
//! | `{maybe keys k: condition}` | joins to every row of `r` the one row of a table that matches, or NULLs |
//! | `{now}` | the server's clock in milliseconds, read after the row was locked; NULL where there is none |
//! | `{found leases t: condition}` | the end of an `UPDATE leases AS t ... FROM {rows ...}` |
//! | `{row_id l}` | where the database has the row that `each` found; it stays there while the row is locked |
//! | `{at leases t: condition}` | as `found`, by where the row lies: the row source's column `row_id` |
//! | `{unchanged leases t: condition}` | as `found`, of rows that still are as the transaction in the row source's column `written_by` left them; elsewhere than on a server that is all |
//! | `{transaction}` | who writes now: what others find as `written_by` of what this transaction writes; NULL where there is none |
//! | `{server}` | which server it is, and which of its lives: another after a restart, a failover, a restore |
//! | `{no_bytes}` | bytes, none |
//! | `{lock_share}` | holds the row against change, shared with others |
//! | `{int 1}`, `{text 2}`, `{bytes 3}` | values given beside the rows, by their place |
//!
//! `each` is a fence: a planner that knows nothing of the tables yet can't turn the nested loop around.

use std::sync::OnceLock;

use super::dialect::Around;

/// In whose words a statement is expanded.
pub(super) trait Words: Sync {
    /// Where this dialect's expansion is kept in a [`Statement`].
    const SLOT: Slot;
    /// How many parameters a row source takes.
    fn row_parameters(columns: &[Column<'_>]) -> usize;
    /// What stands before a statement with a row source.
    fn given(columns: &[Column<'_>]) -> String;
    /// The row source `r`, in the order given; its parameters are numbered from after `before` on. `placed`: it has `r.ord`.
    fn rows(columns: &[Column<'_>], before: usize, placed: bool) -> String;
    /// A parameter.
    fn parameter(number: usize, kind: Kind) -> String;
    /// The join of `r` with the matching rows of a table.
    fn each(lock: Lock, matching: &Matching<'_>) -> String;
    /// The same, where a row of `r` stays without a match.
    fn maybe(matching: &Matching<'_>) -> String;
    /// The end of an update from `r`.
    fn found(matching: &Matching<'_>) -> String;
    /// Where a row that `each` joined lies.
    fn row_id(alias: &str) -> String;
    /// The end of an update from `r`, by where the rows lie.
    fn at(matching: &Matching<'_>) -> String;
    /// The end of an update from `r`, of rows that are as they were left.
    fn unchanged(matching: &Matching<'_>) -> String;
    /// The transaction that is under way.
    fn transaction() -> &'static str;
    /// A life of a server.
    fn server() -> &'static str;
    /// Bytes, none of them.
    fn no_bytes() -> &'static str;
    /// A shared lock at the end of a query.
    fn lock_share() -> &'static str;
    /// The server's clock in milliseconds.
    fn now() -> &'static str;
}

/// The place of a dialect's expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The embedded back end's.
    Embedded,
    /// The server's.
    Server,
}

/// How rows found by `each` are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Not at all.
    None,
    /// Each, waiting for others.
    Wait,
    /// Each that nobody else holds.
    Skip,
    /// Each, beside all but [`Lock::Alone`].
    Share,
    /// Each, with nobody beside.
    Alone,
}

/// Which rows of a table match a row of the row source.
#[derive(Debug)]
pub(super) struct Matching<'a> {
    /// The table.
    pub(super) table: &'a str,
    /// Its alias.
    pub(super) alias: &'a str,
    /// The index to go by, if it has to be named.
    pub(super) index: Option<&'a str>,
    /// When a row matches.
    pub(super) condition: String,
}

/// The type of a column or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text.
    Text,
    /// A 64-bit integer.
    Int,
    /// Bytes.
    Bytes,
    /// Where a row lies.
    RowId,
    /// The transaction that wrote it.
    Xid,
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "text" => Some(Self::Text),
            "int" => Some(Self::Int),
            "bytes" => Some(Self::Bytes),
            "row_id" => Some(Self::RowId),
            "xid" => Some(Self::Xid),
            _ => None,
        }
    }
}

/// A column of a row source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its type.
    pub(super) kind: Kind,
    /// Whether it is part of the key: before the bar.
    pub(super) key: bool,
}

/// A statement; see the module.
#[derive(Debug)]
pub(super) struct Statement {
    /// What it does, for plans and errors.
    pub(super) name: &'static str,
    text: &'static str,
    columns: OnceLock<Vec<Column<'static>>>,
    embedded: OnceLock<Expanded>,
    server: OnceLock<Expanded>,
    /// As the embedded back end takes rows as values, where it can.
    pub(super) around: OnceLock<Option<Around>>,
}

/// A statement in a back end's words.
#[derive(Debug)]
pub(super) struct Expanded {
    /// The SQL.
    pub(super) sql: String,
    /// How many parameters it takes in all.
    pub(super) parameters: usize,
}

impl Statement {
    /// A statement by name and text.
    pub(super) const fn new(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            text,
            columns: OnceLock::new(),
            embedded: OnceLock::new(),
            server: OnceLock::new(),
            around: OnceLock::new(),
        }
    }

    /// The text, before words are put in.
    pub(super) const fn text(&self) -> &'static str {
        self.text
    }

    /// The statement in a dialect's words; expanded once.
    pub(super) fn expanded<W: Words>(&'static self) -> &'static Expanded {
        let slot = match W::SLOT {
            Slot::Embedded => &self.embedded,
            Slot::Server => &self.server,
        };
        slot.get_or_init(|| self.expand_after::<W>(0))
    }

    /// The statement in a dialect's words, its parameters numbered from after `before` on; `parameters` counts those too.
    pub(super) fn expand_after<W: Words>(&self, before: usize) -> Expanded {
        let columns = columns_of(self.text);
        let taken = before.saturating_add(if columns.is_empty() { 0 } else { W::row_parameters(&columns) });
        let mut expansion = Expansion { columns, before, taken, highest: 0, placed: self.text.contains("r.ord") };
        let mut sql = if expansion.columns.is_empty() { String::new() } else { W::given(&expansion.columns) };
        sql.push_str(&expansion.text::<W>(self.text));
        Expanded { sql, parameters: taken.saturating_add(expansion.highest) }
    }

    /// The columns of its row source; read once.
    pub(super) fn columns(&'static self) -> &'static [Column<'static>] {
        self.columns.get_or_init(|| columns_of(self.text))
    }
}

/// The text between the brace before `text` and the one that closes it, and what follows.
fn braced(text: &str) -> (&str, &str) {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let (inside, rest) = text.split_at(at);
            return (inside, rest.get(1..).unwrap_or_default());
        }
    }
    (text, "")
}

fn columns_of(text: &str) -> Vec<Column<'_>> {
    let spec = text.split_once("{rows ").map_or("", |(_, rest)| braced(rest).0);
    let (key, rest) = spec.split_once('|').unwrap_or((spec, ""));
    columns_in(key, true).chain(columns_in(rest, false)).collect()
}

fn columns_in(list: &str, key: bool) -> impl Iterator<Item = Column<'_>> {
    list.split(',').filter_map(move |column| {
        let (name, kind) = column.trim().split_once(' ')?;
        Some(Column { name, kind: Kind::parse(kind.trim())?, key })
    })
}

struct Expansion<'a> {
    columns: Vec<Column<'a>>,
    /// Parameters of what stands before the statement.
    before: usize,
    /// Those, and the ones that the row source takes.
    taken: usize,
    /// The highest place of a value beside it.
    highest: usize,
    /// Whether the statement asks for the place of a row.
    placed: bool,
}

impl Expansion<'_> {
    fn text<W: Words>(&mut self, mut text: &str) -> String {
        let mut sql = String::with_capacity(text.len().saturating_mul(2));
        while let Some((before, rest)) = text.split_once('{') {
            sql.push_str(before);
            let (inside, after) = braced(rest);
            sql.push_str(&self.directive::<W>(inside));
            text = after;
        }
        sql.push_str(text);
        sql
    }

    fn directive<W: Words>(&mut self, inside: &str) -> String {
        let (word, rest) = inside.split_once(' ').unwrap_or((inside, ""));
        match word {
            "rows" => W::rows(&self.columns, self.before, self.placed),
            "columns" => self.list(|column| column.name.to_owned()),
            "r.columns" => self.list(|column| format!("r.{}", column.name)),
            "set" => self.list_values(|name| format!("{name} = excluded.{name}")),
            "set_r" => self.list_values(|name| format!("{name} = r.{name}")),
            "add" => self.list_values(|name| format!("{name} = {rest}.{name} + excluded.{name}")),
            "each" => self.each::<W>(Lock::None, rest),
            "each_lock" => self.each::<W>(Lock::Wait, rest),
            "each_skip" => self.each::<W>(Lock::Skip, rest),
            "each_share" => self.each::<W>(Lock::Share, rest),
            "each_alone" => self.each::<W>(Lock::Alone, rest),
            "maybe" => W::maybe(&self.matching::<W>(rest)),
            "now" => W::now().to_owned(),
            "found" => W::found(&self.matching::<W>(rest)),
            "row_id" => W::row_id(rest),
            "at" => W::at(&self.matching::<W>(rest)),
            "transaction" => W::transaction().to_owned(),
            "server" => W::server().to_owned(),
            "unchanged" => W::unchanged(&self.matching::<W>(rest)),
            "no_bytes" => W::no_bytes().to_owned(),
            "lock_share" => W::lock_share().to_owned(),
            // A word that is not known stays as it is, and the test that prepares every statement finds it.
            _ => self.parameter::<W>(word, rest).unwrap_or_else(|| format!("{{{inside}}}")),
        }
    }

    fn parameter<W: Words>(&mut self, word: &str, place: &str) -> Option<String> {
        let (kind, place) = (Kind::parse(word)?, place.parse::<usize>().ok()?);
        self.highest = self.highest.max(place);
        Some(W::parameter(self.taken.saturating_add(place), kind))
    }

    fn each<W: Words>(&mut self, lock: Lock, rest: &str) -> String {
        W::each(lock, &self.matching::<W>(rest))
    }

    /// `table alias [by index]: condition`, with what is in braces in the condition expanded.
    fn matching<'b, W: Words>(&mut self, rest: &'b str) -> Matching<'b> {
        let (head, condition) = rest.split_once(':').unwrap_or((rest, ""));
        let (head, index) = head.split_once(" by ").map_or((head, None), |(head, index)| (head, Some(index.trim())));
        let (table, alias) = head.trim().split_once(' ').unwrap_or((head, head));
        Matching { table, alias, index, condition: self.text::<W>(condition.trim()) }
    }

    fn list(&self, show: impl Fn(&Column<'_>) -> String) -> String {
        self.columns.iter().map(show).collect::<Vec<_>>().join(", ")
    }

    fn list_values(&self, show: impl Fn(&str) -> String) -> String {
        let values = self.columns.iter().filter(|column| !column.key);
        values.map(|column| show(column.name)).collect::<Vec<_>>().join(", ")
    }
}
