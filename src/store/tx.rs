//! A transaction: what all loads and saves go through, how it ends, and what it remembers of its locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::bundle::Bundle;
use super::dialect::{Connection, Log, Row};
use super::rows::{RowId, Rows, Value, WrittenBy, Xid};
use super::statement::Statement;
use super::{Answer, StoreError};
use crate::domain::id::{AccountId, LeaseId};
use crate::domain::time::{Month, Timestamp};

/// A transaction: a batch that writes, or a snapshot to read. Dropped without a commit, it is rolled back.
#[derive(Debug)]
pub struct Tx {
    pub(super) connection: Connection,
    /// What a commit leaves to be synced.
    log: Option<Arc<Log>>,
    /// Of a snapshot: what may not be on disk of what it sees. It is awaited once, for it sees no more later.
    unkept: Option<Arc<Log>>,
    /// Longest wait for one answer.
    pub(super) wait: Duration,
    /// The server's clock when the last lock was got.
    locked_at: Option<Timestamp>,
    /// Where leases lie that are locked and not yet written.
    pub(super) row_ids: BTreeMap<(AccountId, LeaseId), RowId>,
    /// Leases that are not locked but assumed to be as these transactions left them.
    pub(super) assumed: BTreeMap<(AccountId, LeaseId), WrittenBy>,
}

/// What the database answers in time.
pub(super) async fn within<T>(wait: Duration, answer: impl Future<Output = Answer<T>>) -> Answer<T> {
    let late = |_| Err(StoreError::Unavailable("the database does not answer in time".to_owned()));
    tokio::time::timeout(wait, answer).await.unwrap_or_else(late)
}

static OPEN_MONTH: Statement = Statement::new("open month", "SELECT open_month FROM watermark WHERE id = 1");
/// Both watermarks: a batch holds them until it commits.
pub(super) static OPEN_MONTH_SHARED: Statement = Statement::new(
    "open month, held",
    "SELECT w.open_month, e.from_month FROM watermark w CROSS JOIN evidence_watermark e
    WHERE w.id = 1 AND e.id = 1 {lock_share}",
);
static TRANSACTION: Statement = Statement::new("transaction", "SELECT {transaction}, {server}");
pub(super) static STATEMENTS: &[&Statement] = &[&OPEN_MONTH, &OPEN_MONTH_SHARED, &TRANSACTION];

impl Tx {
    fn by(connection: Connection, wait: Duration) -> Self {
        Self {
            connection,
            log: None,
            unkept: None,
            wait,
            locked_at: None,
            row_ids: BTreeMap::new(),
            assumed: BTreeMap::new(),
        }
    }

    /// One that writes.
    pub(super) fn of_batch(connection: Connection, wait: Duration, log: Option<Arc<Log>>) -> Self {
        if let Some(log) = &log {
            log.begin();
        }
        Self { log, ..Self::by(connection, wait) }
    }

    /// One that only reads.
    pub(super) fn of_snapshot(connection: Connection, wait: Duration, log: Option<Arc<Log>>) -> Self {
        Self { unkept: log, ..Self::by(connection, wait) }
    }

    /// Takes leases to be as these transactions left them, without a lock. They are locked when they are saved; where one
    /// is not so any more, or the server is another, [`Tx::save`] answers [`StoreError::Stale`]. Only what samples change of them can be saved.
    pub fn assume(&mut self, leases: BTreeMap<(AccountId, LeaseId), WrittenBy>) {
        self.assumed = leases;
    }

    /// By whom, once it is committed, the rows that this batch saves will have been written. `None` on SQLite.
    pub async fn writes_as(&mut self) -> Answer<Option<WrittenBy>> {
        let mut row = known_row(self.fetch(&TRANSACTION, &[]).await?)?;
        let (number, server) = (row.opt_int()?, row.int()?);
        let written_by = |number| Ok(WrittenBy { transaction: Xid(u32::try_from(number)?), server });
        let written_by: Result<_, std::num::TryFromIntError> = number.map(written_by).transpose();
        written_by.map_err(|_| StoreError::corrupt("the number of a transaction"))
    }

    /// Makes it so; only then may anybody be answered.
    pub async fn commit(self) -> Answer<()> {
        let (log, wait) = (self.log.clone(), self.wait);
        self.commit_early().await?;
        match log {
            Some(log) => within(wait, log.keep()).await.map_err(|error| StoreError::Unknown(error.to_string())),
            None => Ok(()),
        }
    }

    /// Makes it so for whoever comes next. Nobody may be answered before [`Store::keep`](super::Store::keep).
    pub async fn commit_early(self) -> Answer<()> {
        let late = |_| Err(StoreError::Unknown("the database does not answer a commit in time".to_owned()));
        let commit = self.log.as_ref().map(|log| log.commit());
        tokio::time::timeout(self.wait, self.connection.commit()).await.unwrap_or_else(late)?;
        if let Some(commit) = commit {
            commit.end();
        }
        Ok(())
    }

    /// [`Tx::commit_early`], and begins the next batch with a bundle that reads, in one round trip; `None` where that
    /// failed, which the commit is not told by, or where several can write.
    pub(super) async fn commit_and_begin<const N: usize>(
        self,
        bundle: &'static Bundle<N>,
        rows: [&Rows<'_>; N],
    ) -> Answer<Option<(Self, [Vec<Row>; N])>> {
        let Self { connection, log, wait, .. } = self;
        let mut commit = log.as_ref().map(|log| log.commit());
        let mut is_committed = false;
        let committed = || {
            is_committed = true;
            if let Some(commit) = commit.take() {
                commit.end();
            }
        };
        let next = tokio::time::timeout(wait, connection.commit_and_begin(bundle, rows, committed)).await;
        match next {
            Ok(next) => Ok(next?.map(|(next, found)| (Self::of_batch(next, wait, log.clone()), found))),
            Err(_) if is_committed => Ok(None),
            Err(_) => Err(StoreError::Unknown("the database does not answer a commit in time".to_owned())),
        }
    }

    /// Waits until all that a snapshot has seen is on disk.
    async fn see_kept(&mut self) -> Answer<()> {
        match self.unkept.take() {
            Some(log) => within(self.wait, log.keep()).await,
            None => Ok(()),
        }
    }

    /// Whether others can write at the same time, so that what was read before a lock may have changed since.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.connection.is_shared()
    }

    /// The database's clock, when it has one that all engines share: PostgreSQL's, as it was when the last lock was got
    /// (without any: at this instant). `None` on SQLite.
    pub async fn now(&mut self) -> Answer<Option<Timestamp>> {
        if self.locked_at.is_some() {
            return Ok(self.locked_at);
        }
        let now = within(self.wait, self.connection.now_ms()).await?;
        now.map(|ms| Timestamp::from_ms(ms).ok_or_else(|| StoreError::corrupt("the database's clock"))).transpose()
    }

    /// The earliest open month; held against being closed until the commit if `lock_share`.
    pub async fn open_month(&mut self, lock_share: bool) -> Answer<Month> {
        if lock_share {
            return self.hold_watermarks().await.map(|(open_month, _)| open_month);
        }
        let mut row = known_row(self.fetch(&OPEN_MONTH, &[]).await?)?;
        row.month()
    }

    /// The earliest open month and the first month whose evidence is at hand, both held against being moved until the
    /// commit.
    pub async fn hold_watermarks(&mut self) -> Answer<(Month, Month)> {
        let mut row = known_row(self.fetch(&OPEN_MONTH_SHARED, &[]).await?)?;
        Ok((row.month()?, row.month()?))
    }

    /// All rows of a statement without a row source.
    pub(super) async fn fetch(&mut self, statement: &'static Statement, values: &[Value<'_>]) -> Answer<Vec<Row>> {
        let rows = within(self.wait, self.connection.fetch(statement, None, values)).await?;
        self.see_kept().await?;
        Ok(rows)
    }

    /// All rows of a statement with a row source; nothing is asked when it is empty.
    pub(super) async fn fetch_rows(
        &mut self,
        statement: &'static Statement,
        rows: &Rows<'_>,
        values: &[Value<'_>],
    ) -> Answer<Vec<Row>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let rows = within(self.wait, self.connection.fetch(statement, Some(rows), values)).await?;
        self.see_kept().await?;
        Ok(rows)
    }

    /// Locks the rows that a statement finds and answers them as they are when they are locked.
    pub(super) async fn lock<T>(
        &mut self,
        statement: &'static Statement,
        rows: &Rows<'_>,
        read: impl Fn(&mut Row) -> Answer<T>,
    ) -> Answer<Vec<T>> {
        let rows = self.fetch_rows(statement, rows, &[]).await?;
        self.locked(rows, read)
    }

    /// Reads rows that a statement locked: each begins with the server's time at which it was got.
    pub(super) fn locked<T>(&mut self, rows: Vec<Row>, read: impl Fn(&mut Row) -> Answer<T>) -> Answer<Vec<T>> {
        let mut locked_at = self.locked_at;
        let mut found = Vec::with_capacity(rows.len());
        for mut row in rows {
            locked_at = row.opt_time()?.max(locked_at);
            found.push(read(&mut row)?);
        }
        self.locked_at = locked_at;
        Ok(found)
    }

    /// Runs a statement without a row source; answers how many rows were written.
    pub(super) async fn execute(&mut self, statement: &'static Statement, values: &[Value<'_>]) -> Answer<u64> {
        within(self.wait, self.connection.execute(statement, None, values)).await
    }

    /// Writes with a row source; nothing is asked when it is empty. Answers how many rows were written.
    pub(super) async fn write(&mut self, statement: &'static Statement, rows: &Rows<'_>) -> Answer<u64> {
        self.write_with(statement, rows, &[]).await
    }

    /// The same with values beside the rows.
    pub(super) async fn write_with(
        &mut self,
        statement: &'static Statement,
        rows: &Rows<'_>,
        values: &[Value<'_>],
    ) -> Answer<u64> {
        if rows.is_empty() {
            return Ok(0);
        }
        within(self.wait, self.connection.execute(statement, Some(rows), values)).await
    }
}

/// The one row that has to be there.
pub(super) fn known_row(rows: Vec<Row>) -> Answer<Row> {
    rows.into_iter().next().ok_or_else(|| StoreError::corrupt("a row is not there"))
}

/// Reads every row with the same reader.
pub(super) fn all<T>(rows: Vec<Row>, read: impl Fn(&mut Row) -> Answer<T>) -> Answer<Vec<T>> {
    rows.into_iter().map(|mut row| read(&mut row)).collect()
}
