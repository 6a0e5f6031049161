//! The store: the only SQL. A narrow port: load rows by key, save rows, a few reads; no business rule.
//!
//! A caller begins a [`Tx`] in a [`Lane`], locks and loads what a batch touches, and saves one
//! [`changes::Changes`]; or reads from a snapshot ([`Store::read`]). Loads answer the core's own types; a row that is
//! not there is simply absent from the answer.
//!
//! Ordering: locks are taken in statements of their own, in the order of keys; what is decided on is loaded in later
//! statements, so that it is what was committed when the lock was got. The caller keeps the order watermark,
//! accounts, leases, sandboxes, counters (DESIGN.md section 6).
//!
//! Limits: a SQLite database in memory has one connection in all, so a snapshot waits for the batch that is under
//! way; don't hold both at once.

use crate::domain::time::{Month, Timestamp};

mod audit;
mod customers;
mod days;
mod dialect;
mod draws;
mod error;
mod hours;
mod invoices;
mod leases;
mod lists;
mod migrate;
mod months;
mod pages;
mod rate_cards;
mod read;
mod rows;
mod sandboxes;
mod save;
mod statement;
mod sums;
mod tokens;

pub mod changes;
pub mod shapes;

pub use error::StoreError;

use dialect::{Backend, Connection, Row};
use rows::{Rows, Value};
use statement::Statement;

/// What the store answers.
pub type Answer<T> = Result<T, StoreError>;

/// Which writers share connections: a lane has its own, so that neither starves the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Admissions, limits, grants: what can raise what is committed.
    Decision,
    /// Samples, ends, settling.
    Meter,
}

/// Bounds of the connections to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most connections that write, a lane (PostgreSQL; SQLite has one writer in all).
    pub writers_max: u32,
    /// Most connections that read.
    pub readers_max: u32,
    /// Longest wait for a connection, a lock or a statement, in milliseconds; afterwards: unavailable.
    pub wait_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { writers_max: 2, readers_max: 4, wait_ms_max: 5_000 }
    }
}

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
}

impl Store {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://...`; [`StoreError::Unavailable`] when it can't. The
    /// schema is [`Store::migrate`]'s.
    pub async fn open(url: &str, options: Options) -> Answer<Self> {
        Ok(Self { backend: Backend::open(url, options).await? })
    }

    /// Whether the database answers and has its schema.
    pub async fn ready(&self) -> Answer<()> {
        self.read().await?.open_month(false).await.map(drop)
    }

    /// Begins a batch that writes.
    pub async fn begin(&self, lane: Lane) -> Answer<Tx> {
        Ok(Tx { connection: self.backend.begin(lane).await? })
    }

    /// Begins a consistent snapshot to read from; it never waits for a lock.
    pub async fn read(&self) -> Answer<Tx> {
        Ok(Tx { connection: self.backend.read().await? })
    }

    /// Closes all connections, after those that are in use are given back.
    pub async fn close(&self) {
        self.backend.close().await;
    }

    /// How the database would run every statement: name and plan, a line a step. Every statement is prepared by it.
    pub async fn plans(&self) -> Answer<Vec<(&'static str, Vec<String>)>> {
        let lists = [
            STATEMENTS,
            audit::STATEMENTS,
            customers::STATEMENTS,
            days::STATEMENTS,
            draws::STATEMENTS,
            hours::STATEMENTS,
            invoices::STATEMENTS,
            leases::STATEMENTS,
            lists::STATEMENTS,
            migrate::STATEMENTS,
            months::STATEMENTS,
            pages::STATEMENTS,
            rate_cards::STATEMENTS,
            sandboxes::STATEMENTS,
            save::STATEMENTS,
            sums::STATEMENTS,
            tokens::STATEMENTS,
        ];
        let mut tx = self.begin(Lane::Decision).await?;
        let mut plans = Vec::new();
        for statement in lists.into_iter().flatten() {
            plans.push((statement.name, tx.connection.plan(statement).await?));
        }
        Ok(plans)
    }
}

/// A transaction: a batch that writes, or a snapshot to read. Dropped without a commit, it is rolled back.
#[derive(Debug)]
pub struct Tx {
    connection: Connection,
}

static OPEN_MONTH: Statement = Statement::new("open month", "SELECT open_month FROM watermark WHERE id = 1");
static OPEN_MONTH_SHARED: Statement =
    Statement::new("open month, held", "SELECT open_month FROM watermark WHERE id = 1 {lock_share}");
static STATEMENTS: &[&Statement] = &[&OPEN_MONTH, &OPEN_MONTH_SHARED];

impl Tx {
    /// Makes it so; only then may anybody be answered.
    pub async fn commit(self) -> Answer<()> {
        self.connection.commit().await
    }

    /// The database's clock, when it has one that all engines share: PostgreSQL's, at this very instant (so ask after
    /// the locks are got). `None` on SQLite.
    pub async fn now(&mut self) -> Answer<Option<Timestamp>> {
        let now = self.connection.now_ms().await?;
        now.map(|ms| Timestamp::from_ms(ms).ok_or_else(|| StoreError::corrupt("the database's clock"))).transpose()
    }

    /// The earliest open month; held against being closed until the commit if `lock_share`.
    pub async fn open_month(&mut self, lock_share: bool) -> Answer<Month> {
        let statement = if lock_share { &OPEN_MONTH_SHARED } else { &OPEN_MONTH };
        let rows = self.fetch(statement, &[]).await?;
        let first = rows.into_iter().next().ok_or_else(|| StoreError::corrupt("no watermark"))?;
        let mut row = first;
        row.month()
    }

    /// All rows of a statement without a row source.
    async fn fetch(&mut self, statement: &'static Statement, values: &[Value<'_>]) -> Answer<Vec<Row>> {
        self.connection.fetch(statement, None, values).await
    }

    /// All rows of a statement with a row source; nothing is asked when it is empty.
    async fn fetch_rows(
        &mut self,
        statement: &'static Statement,
        rows: &Rows<'_>,
        values: &[Value<'_>],
    ) -> Answer<Vec<Row>> {
        if rows.is_empty() { Ok(Vec::new()) } else { self.connection.fetch(statement, Some(rows), values).await }
    }

    /// Locks what a statement finds; nothing is asked where there is only one writer.
    async fn lock(&mut self, statement: &'static Statement, rows: &Rows<'_>) -> Answer<()> {
        if self.connection.is_shared() { self.fetch_rows(statement, rows, &[]).await.map(drop) } else { Ok(()) }
    }

    /// Writes with a row source; nothing is asked when it is empty. Answers how many rows were written.
    async fn write(&mut self, statement: &'static Statement, rows: &Rows<'_>) -> Answer<u64> {
        if rows.is_empty() { Ok(0) } else { self.connection.execute(statement, Some(rows), &[]).await }
    }
}

/// Reads every row with the same reader.
fn all<T>(rows: Vec<Row>, read: impl Fn(&mut Row) -> Answer<T>) -> Answer<Vec<T>> {
    rows.into_iter().map(|mut row| read(&mut row)).collect()
}
