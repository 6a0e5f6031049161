//! SQLite: transactions that begin and end along with their statements.
//!
//! Each text that is sent to a connection wakes the driver's thread, and its answer wakes a task; where all processors are
//! busy either waits for one, and that waiting is a good part of what a batch takes. So a transaction begins in one text
//! with its first statement that reads, and what it writes last goes in one text with its commit. And the one connection
//! that writes is kept from one turn to the next: a pool asks each that is given back whether it is well.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteRow;
use sqlx::{Either, Executor, Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::super::error::StoreError;
use super::queries::SqliteText;
use super::{failed, failed_in, poll_fn};

/// Connections, each for one transaction at a time.
#[derive(Clone, Debug)]
pub(in super::super) struct Turns {
    pool: SqlitePool,
    /// How a transaction begins.
    begin: &'static str,
    /// Of a pool of one: where its connection is kept. Who holds the place has the turn.
    place: Option<Arc<Mutex<Option<PoolConnection<Sqlite>>>>>,
}

/// A transaction. Dropped without a commit, it is undone before its connection is used again.
#[derive(Debug)]
pub(in super::super) struct Turn {
    /// `None`: given back.
    connection: Option<PoolConnection<Sqlite>>,
    place: Option<OwnedMutexGuard<Option<PoolConnection<Sqlite>>>>,
    waiting: Waiting,
    /// Whether the database may be in a transaction.
    begun: bool,
}

/// How a transaction begins along with the commit of the one before. It waits for no lock, for those who are answered by
/// that commit would wait too; and takes none, so that other programs have their turn while it is decided what to write.
/// Where one of them wrote meanwhile nothing is written, and it begins again.
const GO_ON: &str = "BEGIN";

/// What goes along with the next text.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// The beginning.
    Begin(&'static str),
    /// Rows that are written, and what they are.
    Write(SqliteText, &'static str),
}

impl Turns {
    /// By any connection of a pool.
    pub(super) fn of(pool: SqlitePool, begin: &'static str) -> Self {
        Self { pool, begin, place: None }
    }

    /// By the one connection of a pool, kept from turn to turn.
    pub(super) fn of_one(pool: SqlitePool, begin: &'static str) -> Self {
        Self { pool, begin, place: Some(Arc::default()) }
    }

    /// Waits for a turn. Nothing is read or locked before its first statement.
    pub(super) async fn begin(&self) -> Result<Turn, StoreError> {
        let mut place = match &self.place {
            Some(place) => Some(Arc::clone(place).lock_owned().await),
            None => None,
        };
        let connection = match place.as_mut().and_then(|place| place.take()) {
            Some(kept) => kept,
            // It may have to be opened, which is a large future, and this one is moved about.
            None => Box::pin(self.pool.acquire()).await.map_err(|error| failed(&error))?,
        };
        Ok(Turn { connection: Some(connection), place, waiting: Waiting::Begin(self.begin), begun: false })
    }

    /// Closes all connections, after those that are in use are given back.
    pub(super) async fn close(&self) {
        // Closed from here on, so that a turn that comes later finds none to keep.
        let closing = self.pool.close();
        if let Some(place) = &self.place {
            drop(place.lock().await.take());
        }
        closing.await;
    }
}

impl Turn {
    fn connection(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        self.connection.as_deref_mut().ok_or_else(|| StoreError::corrupt("a transaction that has ended"))
    }

    /// The connection, once nothing waits any more.
    pub(super) async fn settled(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => {}
            Waiting::Begin(begin) => {
                self.begun = true;
                self.connection()?.execute(begin).await.map_err(|error| failed(&error))?;
            }
            Waiting::Write(text, name) => {
                text.query().execute(self.connection()?).await.map_err(|error| failed_in(name, &error))?;
            }
        }
        self.connection()
    }

    /// The rows that each statement of a text answers, with its place. The transaction begins in the same text.
    pub(super) async fn fetch(
        &mut self,
        mut text: SqliteText,
        name: &str,
        mut take: impl FnMut(usize, SqliteRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut before = 0;
        if let Waiting::Begin(begin) = self.waiting {
            self.waiting = Waiting::Nothing;
            self.begun = true;
            text = text.after(begin);
            before = 1;
        }
        let mut answers = Executor::fetch_many(self.settled().await?, text.query());
        let mut ended = 0_usize;
        while let Some(answer) = poll_fn(|context| answers.as_mut().poll_next(context)).await {
            match answer.map_err(|error| failed_in(name, &error))? {
                Either::Left(_) => ended = ended.saturating_add(1),
                Either::Right(row) => take(ended.saturating_sub(before), row)?,
            }
        }
        Ok(())
    }

    /// Writes rows along with what comes next; they may be refused then.
    pub(super) async fn write_along(&mut self, text: SqliteText, name: &'static str) -> Result<(), StoreError> {
        self.settled().await?;
        self.waiting = Waiting::Write(text, name);
        Ok(())
    }

    /// Makes it so.
    pub(super) async fn commit(mut self) -> Result<(), StoreError> {
        let Some((text, name)) = self.ending() else { return Ok(()) };
        text.query().execute(self.connection()?).await.map_err(|error| failed_in(name, &error))?;
        self.begun = false;
        Ok(())
    }

    /// Makes it so, and begins the next transaction with what is added to the text, all in one: nobody else has a turn
    /// between. `committed` is told as soon as it is so; what fails afterwards fails the next transaction only, which
    /// is `None` then.
    pub(super) async fn commit_and_begin(
        mut self,
        add: impl FnOnce(&mut SqliteText) -> Result<(), StoreError>,
        committed: impl FnOnce(),
        mut take: impl FnMut(usize, SqliteRow) -> Result<(), StoreError>,
    ) -> Result<Option<Self>, StoreError> {
        let Some((text, name)) = self.ending() else {
            committed();
            return Ok(None);
        };
        let last = text.statements();
        let mut text = text.before(GO_ON);
        let first = text.statements();
        add(&mut text)?;
        let mut committed = Some(committed);
        let mut answers = Executor::fetch_many(self.connection()?, text.query());
        let mut ended = 0_usize;
        while let Some(answer) = poll_fn(|context| answers.as_mut().poll_next(context)).await {
            let taken = match answer {
                Ok(Either::Left(_)) => {
                    ended = ended.saturating_add(1);
                    if ended == last
                        && let Some(committed) = committed.take()
                    {
                        committed();
                    }
                    Ok(())
                }
                Ok(Either::Right(row)) => take(ended.saturating_sub(first), row),
                Err(error) => Err(failed_in(name, &error)),
            };
            match taken {
                Ok(()) => {}
                Err(error) if committed.is_some() => return Err(error),
                Err(_) => return Ok(None),
            }
        }
        drop(answers);
        Ok(Some(self))
    }

    /// The text that ends it, along with what waits to be written; `None` where it has not begun.
    fn ending(&mut self) -> Option<(SqliteText, &'static str)> {
        const COMMIT: &str = "COMMIT";
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Write(text, name) => Some((text.before(COMMIT), name)),
            Waiting::Begin(_) => None,
            Waiting::Nothing => Some((SqliteText::of(COMMIT), "commit")),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let place = self.place.take();
        if !self.begun {
            return give_back(connection, place);
        }
        // The next turn waits for it, for it has the place.
        let undo = async move {
            match connection.execute("ROLLBACK").await {
                Err(error) if !is_over(&error) => drop(connection.close().await),
                _ => give_back(connection, place),
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Ends with the driver's thread, at the latest.
            drop(runtime.spawn(undo));
        }
    }
}

/// Whether there was nothing to undo (`SQLITE_ERROR`): it never began, was committed after all, or was undone by the database
/// itself because its disk failed.
fn is_over(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "1")
}

fn give_back(connection: PoolConnection<Sqlite>, place: Option<OwnedMutexGuard<Option<PoolConnection<Sqlite>>>>) {
    match place {
        Some(mut place) => *place = Some(connection),
        None => drop(connection),
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{Connection as _, Executor, SqliteConnection};

    use super::super::super::error::StoreError;
    use super::super::queries::SqliteText;
    use super::{Turn, Turns};

    const COUNT: &str = "SELECT COUNT(*) FROM kept";

    /// Turns by one connection to a file with one table, and how to open another.
    async fn turns(folder: &tempfile::TempDir) -> (Turns, SqliteConnectOptions) {
        let file = SqliteConnectOptions::new().filename(folder.path().join("turns.db")).create_if_missing(true);
        let file = file.busy_timeout(Duration::ZERO).pragma("journal_mode", "wal");
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect_with(file.clone()).await.unwrap();
        pool.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY)").await.unwrap();
        (Turns::of_one(pool, "BEGIN IMMEDIATE"), file)
    }

    async fn count(turn: &mut Turn) -> i64 {
        let mut counts = Vec::new();
        let row = |place, row| {
            counts.push((place, sqlx::Row::get::<i64, _>(&row, 0)));
            Ok(())
        };
        turn.fetch(SqliteText::of("SELECT 1 WHERE false; SELECT COUNT(*) FROM kept"), "count", row).await.unwrap();
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[0].0, 1, "the second statement answered, whether or not the transaction began with it");
        counts[0].1
    }

    async fn counted(turns: &Turns) -> i64 {
        count(&mut turns.begin().await.unwrap()).await
    }

    async fn write(turn: &mut Turn, sql: &'static str) {
        turn.settled().await.unwrap().execute(sql).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_committed_is_kept_and_all_else_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let (turns, _) = turns(&folder).await;

        let mut turn = turns.begin().await.unwrap();
        assert_eq!(count(&mut turn).await, 0);
        write(&mut turn, "INSERT INTO kept VALUES (1)").await;
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (2); INSERT INTO kept VALUES (3)"), "two")
            .await
            .unwrap();
        assert_eq!(count(&mut turn).await, 3, "what waits is written before what is read next");
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (4)"), "one").await.unwrap();
        turn.commit().await.unwrap();
        assert_eq!(counted(&turns).await, 4);

        let mut turn = turns.begin().await.unwrap();
        write(&mut turn, "DELETE FROM kept").await;
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (5)"), "one").await.unwrap();
        drop(turn);
        assert_eq!(counted(&turns).await, 4);

        // One that asked for nothing has nothing to end.
        turns.begin().await.unwrap().commit().await.unwrap();
        assert_eq!(counted(&turns).await, 4);
    }

    /// Commits, and begins the next turn with a count; answers it, and whether the commit was told of.
    async fn go_on(turn: Turn, sql: &'static str) -> (Result<Option<(Turn, Vec<i64>)>, StoreError>, bool) {
        let (mut counts, mut told) = (Vec::new(), false);
        let add = |text: &mut SqliteText| {
            text.add(|text, _| text.push_str("SELECT 1 WHERE false"));
            text.add(|text, _| text.push_str(sql));
            Ok(())
        };
        let take = |place, row| {
            assert_eq!(place, 1);
            counts.push(sqlx::Row::get::<i64, _>(&row, 0));
            Ok(())
        };
        let next = turn.commit_and_begin(add, || told = true, take).await;
        (next.map(|next| next.map(|turn| (turn, counts))), told)
    }

    #[tokio::test]
    async fn the_next_turn_begins_with_the_commit_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let (turns, file) = turns(&folder).await;
        let mut turn = turns.begin().await.unwrap();
        assert_eq!(count(&mut turn).await, 0);
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (1)").before("INSERT INTO kept VALUES (2)"), "two")
            .await
            .unwrap();
        let (next, told) = go_on(turn, COUNT).await;
        let (mut turn, counts) = next.unwrap().unwrap();
        assert_eq!((counts, told), (vec![2], true));
        write(&mut turn, "INSERT INTO kept VALUES (4)").await;
        // One that is not needed is undone.
        drop(turn);
        assert_eq!(counted(&turns).await, 2);

        // Another program may write until it does, and then it does not.
        let mut turn = turns.begin().await.unwrap();
        assert_eq!(count(&mut turn).await, 2);
        let (next, told) = go_on(turn, COUNT).await;
        let (mut turn, counts) = next.unwrap().unwrap();
        assert_eq!((counts, told), (vec![2], true));
        let mut other = SqliteConnection::connect_with(&file).await.unwrap();
        other.execute("INSERT INTO kept VALUES (3)").await.unwrap();
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (5)"), "late").await.unwrap();
        let (next, told) = go_on(turn, COUNT).await;
        assert!(matches!(next, Err(StoreError::Again(_))) && !told);
        assert_eq!(counted(&turns).await, 3);

        // Its lock keeps nobody waiting who is answered by a commit.
        let mut turn = turns.begin().await.unwrap();
        assert_eq!(count(&mut turn).await, 3);
        let (next, _) = go_on(turn, COUNT).await;
        let (turn, _) = next.unwrap().unwrap();
        other.execute("BEGIN IMMEDIATE").await.unwrap();
        let (next, told) = go_on(turn, COUNT).await;
        assert_eq!((next.unwrap().unwrap().1, told), (vec![3], true));
        other.execute("ROLLBACK").await.unwrap();

        // One that has not begun.
        let (next, told) = go_on(turns.begin().await.unwrap(), COUNT).await;
        assert!(next.unwrap().is_none() && told);
    }

    #[tokio::test]
    async fn a_commit_and_the_next_turn_fail_apart() {
        let folder = tempfile::tempdir().unwrap();
        let (turns, _) = turns(&folder).await;
        let mut turn = turns.begin().await.unwrap();
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (1)").before("INSERT INTO kept VALUES (1)"), "twice")
            .await
            .unwrap();
        let (next, told) = go_on(turn, COUNT).await;
        assert!(matches!(next, Err(StoreError::Constraint(detail)) if detail.starts_with("twice: ")) && !told);
        assert_eq!(counted(&turns).await, 0);

        let mut turn = turns.begin().await.unwrap();
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (1)"), "one").await.unwrap();
        let (next, told) = go_on(turn, "SELECT json('no JSON')").await;
        assert!(next.unwrap().is_none() && told, "what was committed is not told by what comes next");
        assert_eq!(counted(&turns).await, 1);
    }

    #[tokio::test]
    async fn rows_that_are_refused_at_the_commit_take_everything_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let (turns, _) = turns(&folder).await;
        let mut turn = turns.begin().await.unwrap();
        write(&mut turn, "INSERT INTO kept VALUES (1)").await;
        turn.write_along(SqliteText::of("INSERT INTO kept VALUES (2); INSERT INTO kept VALUES (1)"), "twice")
            .await
            .unwrap();
        assert!(matches!(turn.commit().await, Err(StoreError::Constraint(detail)) if detail.starts_with("twice: ")));
        assert_eq!(counted(&turns).await, 0);
    }

    #[tokio::test]
    async fn who_could_not_begin_takes_no_turn_from_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (turns, file) = turns(&folder).await;
        let mut other = SqliteConnection::connect_with(&file).await.unwrap();
        other.execute("BEGIN IMMEDIATE; INSERT INTO kept VALUES (1)").await.unwrap();

        let mut turn = turns.begin().await.unwrap();
        let refused = turn.fetch(SqliteText::of(COUNT), "count", |_, _| Ok(())).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        drop(turn);
        other.execute("COMMIT").await.unwrap();

        let mut turn = turns.begin().await.unwrap();
        write(&mut turn, "INSERT INTO kept VALUES (2)").await;
        turn.commit().await.unwrap();
        assert_eq!(counted(&turns).await, 2);
    }

    #[tokio::test]
    async fn a_commit_that_nobody_awaits_is_over_before_the_next_turn() {
        let folder = tempfile::tempdir().unwrap();
        give_up_commits(turns(&folder).await.0).await;
    }

    #[tokio::test]
    async fn a_database_in_memory_outlives_a_commit_that_nobody_awaits() {
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
        pool.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY)").await.unwrap();
        give_up_commits(Turns::of(pool, "BEGIN IMMEDIATE")).await;
    }

    async fn give_up_commits(turns: Turns) {
        let mut before = 0;
        for number in 0..50 {
            let mut turn = turns.begin().await.unwrap();
            assert_eq!(count(&mut turn).await, before);
            turn.write_along(
                SqliteText::with(format!("INSERT INTO kept VALUES ({number})").into(), <_>::default()),
                "one",
            )
            .await
            .unwrap();
            // Polled a number of times, and dropped.
            let mut commit = Box::pin(turn.commit());
            for _ in 0..number % 5 {
                tokio::select! {
                    biased;
                    done = &mut commit => { done.unwrap(); break }
                    () = tokio::task::yield_now() => {}
                }
            }
            drop(commit);
            let after = counted(&turns).await;
            assert!(after == before || after == before + 1, "{after} of {before}");
            assert_eq!(counted(&turns).await, after, "nothing comes later");
            before = after;
        }
    }

    #[tokio::test]
    async fn closing_waits_for_the_turn_under_way_and_lets_nobody_in_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let (turns, file) = turns(&folder).await;
        let mut turn = turns.begin().await.unwrap();
        let mut closing = Box::pin(turns.close());
        assert!(closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        write(&mut turn, "INSERT INTO kept VALUES (1)").await;
        turn.commit().await.unwrap();
        closing.await;
        assert!(turns.begin().await.is_err());
        let mut other = SqliteConnection::connect_with(&file).await.unwrap();
        assert_eq!(sqlx::query_scalar::<_, i64>(COUNT).fetch_one(&mut other).await.unwrap(), 1);
    }
}
