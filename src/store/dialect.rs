//! What differs between SQLite and PostgreSQL: connecting, locking, sending rows, and what an error means.
//!
//! The only file (with its parts) that asks which back end it is. SQLite has one writer connection and a few that
//! read; PostgreSQL has connections for each lane of writers and for readers. Both have some for questions.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgPool};
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, Transaction};

use super::bundle::Bundle;
use super::error::StoreError;
use super::rows::{Rows, Value};
use super::statement::{Statement, Words as _};
use super::{Lane, Options};

mod ahead;
mod asking;
mod errors;
mod file;
mod hosts;
mod log;
mod plans;
mod pools;
mod priority;
mod queries;
mod row;
mod system_columns;
mod turns;
mod values;
mod words;
mod write_back;

pub(super) use log::Log;
pub(super) use row::Row;
pub(super) use values::Around;

use ahead::Ahead;
use asking::Asking;
use errors::{failed, failed_in, uncommitted};
use hosts::Hosts;
use pools::{Tries, postgres_pool};
use queries::{bundle_query, postgres_query, sqlite_text};
use turns::{Turn, Turns};

/// Statements that a connection keeps prepared: more than there are. On SQLite those that write rows are several each, by
/// how many rows (`values.rs`): what is used least gives way.
const PREPARED_MAX: usize = 256;
/// How long a connection that answered is taken to be alive.
const TRUSTED: Duration = Duration::from_secs(1);
/// Who decides at once: the gate, and what is carried out alone.
const DECIDERS: u32 = 2;
/// How a batch begins on PostgreSQL.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Connections for questions: one that is kept, and another while that one is given back.
const ASKING: u32 = 2;
/// A lock is awaited for this part of the longest wait.
const LOCK_WAITS: u64 = 4;

/// The connections to a database.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    /// One file, or memory.
    Sqlite {
        /// One connection.
        writer: Turns,
        /// Connections that can't write; in memory, the writer.
        readers: Turns,
        /// For [`Backend::ask`]; in memory, the writer.
        asking: Arc<Asking<sqlx::Sqlite>>,
        /// What commits leave to be synced, and who writes it back; in memory there is nothing.
        log: Option<(Arc<Log>, SqlitePool)>,
    },
    /// A server.
    Postgres {
        /// For [`Lane::Decision`].
        decision: PgPool,
        /// One of theirs that has begun; none where each has to be asked before each use.
        begun: Option<Arc<Ahead<sqlx::Postgres>>>,
        /// For [`Lane::Meter`].
        meter: PgPool,
        /// For snapshots.
        readers: PgPool,
        /// For [`Backend::ask`].
        asking: Arc<Asking<sqlx::Postgres>>,
    },
}

/// A transaction of either back end.
#[derive(Debug)]
pub(super) enum Connection {
    /// SQLite's.
    Sqlite(Turn),
    /// PostgreSQL's.
    Postgres(Transaction<'static, sqlx::Postgres>),
}

impl Backend {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://...`; a file that is not there is made.
    pub(super) async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            Self::open_postgres(url, options).await
        } else if url.starts_with("sqlite:") {
            file::open(url, options).await
        } else {
            // The address may hold a password: it is not repeated.
            Err(StoreError::Unavailable("a database is sqlite:PATH or postgres://...".to_owned()))
        }
        .map_err(|error| match error {
            StoreError::Corrupt(detail) | StoreError::Again(detail) => StoreError::Unavailable(detail),
            other => other,
        })
    }

    async fn open_postgres(url: &str, options: Options) -> Result<Self, StoreError> {
        let wait = options.wait_ms_max.to_string();
        // A batch that waits long for a lock lets go of its own and begins again.
        let lock_wait = (options.wait_ms_max / LOCK_WAITS).max(1).to_string();
        let hosts = Hosts::parse(url, |connect| {
            connect
                .application_name("runtab")
                .statement_cache_capacity(PREPARED_MAX)
                .options([
                    // A plan is made once, maybe while a table is empty: it has to be the one by key from the start.
                    ("plan_cache_mode", "force_generic_plan"),
                    ("enable_seqscan", "off"),
                    ("enable_hashjoin", "off"),
                    ("enable_mergejoin", "off"),
                    ("enable_memoize", "off"),
                    ("jit", "off"),
                    ("statement_timeout", wait.as_str()),
                    ("lock_timeout", lock_wait.as_str()),
                    ("idle_in_transaction_session_timeout", wait.as_str()),
                ])
                .disable_statement_logging()
        })?;
        let connect = if hosts.several() { hosts.begin().await? } else { hosts.first()? };
        let open = async |connections_max| {
            let pool = postgres_pool(connections_max, options, hosts.read_write());
            match pool.connect_with(connect.clone()).await {
                // The pool tries until its time is up, and does not say why in vain.
                Err(sqlx::Error::PoolTimedOut) => {
                    let why = PgConnection::connect_with(&connect).await.err().unwrap_or(sqlx::Error::PoolTimedOut);
                    Err(failed(&why))
                }
                opened => opened.map_err(|error| failed(&error)),
            }
        };
        // A connection that was given back answers first, before it is taken again: meanwhile there is another.
        let decision = open(DECIDERS.saturating_mul(2)).await?;
        let meter = open(options.meters_max.saturating_add(1).saturating_mul(2)).await?;
        let readers = open(options.readers_max).await?;
        let asking = Asking::by(open(ASKING).await?, !hosts.read_write());
        let begun = (!hosts.read_write()).then(Arc::default);
        if hosts.several() {
            tokio::spawn(hosts.watch(vec![decision.clone(), meter.clone(), readers.clone(), asking.pool().clone()]));
        }
        Ok(Self::Postgres { decision, begun, meter, readers, asking: Arc::new(asking) })
    }

    /// Whether several can write at once.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite { .. } => false,
            Self::Postgres { .. } => true,
        }
    }

    /// What commits leave to be synced, where that is not the database's own.
    pub(super) fn log(&self) -> Option<&Arc<Log>> {
        match self {
            Self::Sqlite { log, .. } => log.as_ref().map(|(log, _)| log),
            Self::Postgres { .. } => None,
        }
    }

    /// Begins a batch that writes.
    pub(super) async fn begin(&self, lane: Lane) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite { writer, .. } => return writer.begin().await.map(Connection::Sqlite),
            Self::Postgres { decision, begun, meter, .. } => match lane {
                Lane::Decision => match begun.as_ref().and_then(|begun| begun.take()) {
                    Some(begun) => Ok(Connection::Postgres(begun)),
                    // A connection may have to be opened, which is a large future, and this one is moved about.
                    None => Box::pin(decision.begin_with(BEGIN)).await.map(Connection::Postgres),
                },
                Lane::Meter => Box::pin(meter.begin_with(BEGIN)).await.map(Connection::Postgres),
            },
        }
        .map_err(|error| failed(&error))
    }

    /// Begins a decision that will be asked for at once.
    pub(super) fn begin_ahead(&self, patience: Duration) {
        if let Self::Postgres { decision, begun: Some(begun), .. } = self {
            ahead::begin(Arc::clone(begun), decision.clone(), BEGIN, patience);
        }
    }

    /// Begins a snapshot.
    pub(super) async fn read(&self) -> Result<Connection, StoreError> {
        match self {
            Self::Sqlite { readers, .. } => return readers.begin().await.map(Connection::Sqlite),
            Self::Postgres { readers, .. } => {
                let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                let mut tries = Tries::by(readers);
                loop {
                    match Box::pin(readers.begin_with(begin)).await {
                        Err(error) if tries.again(&error) => {}
                        begun => break begun.map(Connection::Postgres),
                    }
                }
            }
        }
        .map_err(|error| failed(&error))
    }

    /// All rows of one statement that reads, without a transaction.
    pub(super) async fn ask(&self, statement: &'static Statement, rows: &Rows<'_>) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite { asking, .. } => {
                let text = values::reads([(statement, Some(rows))])?;
                asking.ask(|| text.clone().query()).await.map(|rows| rows.into_iter().map(Row::from).collect())
            }
            Self::Postgres { asking, .. } => {
                let query = || postgres_query(statement.expanded::<words::Postgres>(), Some(rows), &[]);
                asking.ask(query).await.map(|rows| rows.into_iter().map(Row::from).collect())
            }
        }
        .map_err(|error| failed_in(statement.name, &error))
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite { writer, readers, asking, log } => {
                if let Some((log, write_back)) = log {
                    if log.is_well().is_err() {
                        // The last to be closed would write back a log that may be read otherwise than it was written.
                        return std::mem::forget((
                            writer.clone(),
                            readers.clone(),
                            Arc::clone(asking),
                            write_back.clone(),
                        ));
                    }
                    write_back.close().await;
                }
                asking.close().await;
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres { decision, begun, meter, readers, asking } => {
                asking.close().await;
                // Closed from here on, so that what is begun later is not kept.
                let closing = decision.close();
                drop(begun.as_ref().map(|begun| begun.take()));
                closing.await;
                meter.close().await;
                readers.close().await;
            }
        }
    }
}

impl Connection {
    /// All rows that a statement answers.
    pub(super) async fn fetch(
        &mut self,
        statement: &'static Statement,
        rows: Option<&Rows<'_>>,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(inside) => {
                let text = match values {
                    [] => values::reads([(statement, rows)])?,
                    _ => sqlite_text(statement.expanded::<words::Sqlite>(), rows, values)?,
                };
                let mut found = Vec::new();
                let take = |_, row| {
                    found.push(Row::from(row));
                    Ok(())
                };
                inside.fetch(text, statement.name, take).await?;
                return Ok(found);
            }
            Self::Postgres(inside) => {
                let query = postgres_query(statement.expanded::<words::Postgres>(), rows, values);
                query.fetch_all(&mut **inside).await.map(|rows| rows.into_iter().map(Row::from).collect())
            }
        }
        .map_err(|error| failed_in(statement.name, &error))
    }

    /// The rows that each statement of a bundle answers.
    pub(super) async fn fetch_bundle<const N: usize>(
        &mut self,
        bundle: &'static Bundle<N>,
        rows: [&Rows<'_>; N],
    ) -> Result<[Vec<Row>; N], StoreError> {
        let mut found = [const { Vec::new() }; N];
        match self {
            Self::Sqlite(inside) => {
                let (parts, mut places) = asked_of(bundle, rows, &mut found);
                let text = values::reads(parts)?;
                let take = |part: usize, row| {
                    places.get_mut(part).ok_or_else(|| StoreError::corrupt(bundle.name))?.push(Row::from(row));
                    Ok(())
                };
                inside.fetch(text, bundle.name, take).await?;
            }
            Self::Postgres(inside) => {
                let rows = bundle_query(bundle, rows).fetch_all(&mut **inside).await;
                let rows = rows.map_err(|error| failed_in(bundle.name, &error))?;
                for row in &rows {
                    let (part, row) = Row::of_bundle(row)?;
                    found.get_mut(part).ok_or_else(|| StoreError::corrupt(bundle.name))?.push(row);
                }
            }
        }
        Ok(found)
    }

    /// Runs a bundle that writes, as one.
    pub(super) async fn write_bundle<const N: usize>(
        &mut self,
        bundle: &'static Bundle<N>,
        rows: [&Rows<'_>; N],
    ) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(inside) => {
                for text in values::write_texts(bundle.parts.into_iter().zip(rows))? {
                    inside.write_along(text, bundle.name).await?;
                }
                Ok(())
            }
            Self::Postgres(inside) => {
                let done = bundle_query(bundle, rows).execute(&mut **inside).await;
                done.map(drop).map_err(|error| failed_in(bundle.name, &error))
            }
        }
    }

    /// Runs a statement; answers how many rows it changed.
    pub(super) async fn execute(
        &mut self,
        statement: &'static Statement,
        rows: Option<&Rows<'_>>,
        values: &[Value<'_>],
    ) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(inside) => {
                let texts = match rows.filter(|_| values::around_write(statement).is_some()) {
                    Some(rows) => values::write_texts([(statement, rows)])?,
                    None => vec![sqlite_text(statement.expanded::<words::Sqlite>(), rows, values)?],
                };
                let mut written = 0_u64;
                for text in texts {
                    let done = text.query().execute(inside.settled().await?).await;
                    written = written
                        .saturating_add(done.map_err(|error| failed_in(statement.name, &error))?.rows_affected());
                }
                return Ok(written);
            }
            Self::Postgres(inside) => {
                let query = postgres_query(statement.expanded::<words::Postgres>(), rows, values);
                query.execute(&mut **inside).await.map(|done| done.rows_affected())
            }
        }
        .map_err(|error| failed_in(statement.name, &error))
    }

    /// Whether other writers can be in the database at the same time, so that rows have to be locked.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(_) => true,
        }
    }

    /// The server's clock in milliseconds, now and not at the transaction's begin; `None` when there is no server.
    pub(super) async fn now_ms(&mut self) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(inside) => {
                let clock = AssertSqlSafe(format!("SELECT {}", words::Postgres::now()));
                let now = sqlx::query_scalar(clock).fetch_one(&mut **inside).await;
                now.map(Some).map_err(|error| failed(&error))
            }
        }
    }

    /// Runs a script of several statements.
    pub(super) async fn script(&mut self, script: &Script) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(inside) => sqlx::raw_sql(script.sqlite).execute(inside.settled().await?).await.map(drop),
            Self::Postgres(inside) => sqlx::raw_sql(script.postgres).execute(&mut **inside).await.map(drop),
        }
        .map_err(|error| failed_in(script.name, &error))
    }

    /// The text of a script for this back end.
    pub(super) fn text_of(&self, script: &Script) -> &'static str {
        match self {
            Self::Sqlite(_) => script.sqlite,
            Self::Postgres(_) => script.postgres,
        }
    }

    /// Makes it so, and begins the next batch along with what its bundle answers; `None` where that failed, or several can
    /// write. `committed` is told as soon as it is so.
    pub(super) async fn commit_and_begin<const N: usize>(
        self,
        bundle: &'static Bundle<N>,
        rows: [&Rows<'_>; N],
        committed: impl FnOnce(),
    ) -> Result<Option<(Self, [Vec<Row>; N])>, StoreError> {
        let Self::Sqlite(inside) = self else {
            self.commit().await?;
            committed();
            return Ok(None);
        };
        let mut found = [const { Vec::new() }; N];
        let (parts, mut places) = asked_of(bundle, rows, &mut found);
        let take = |part: usize, row| {
            places.get_mut(part).ok_or_else(|| StoreError::corrupt(bundle.name))?.push(Row::from(row));
            Ok(())
        };
        let next = inside.commit_and_begin(|text| values::add_reads(text, parts), committed, take);
        Ok(next.await?.map(|next| (Self::Sqlite(next), found)))
    }

    /// Makes it so.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(inside) => inside.commit().await,
            Self::Postgres(inside) => inside.commit().await.map_err(|error| uncommitted(&error)),
        }
    }
}

/// The statements of a bundle that have something to ask, and where the rows of each go.
#[expect(clippy::type_complexity, reason = "two lists of the same length")]
fn asked_of<'r, 'f, const N: usize>(
    bundle: &'static Bundle<N>,
    rows: [&'r Rows<'r>; N],
    found: &'f mut [Vec<Row>; N],
) -> (Vec<(&'static Statement, Option<&'r Rows<'r>>)>, Vec<&'f mut Vec<Row>>) {
    let parts = bundle.parts.into_iter().zip(rows).zip(found);
    let parts = parts.filter(|((part, rows), _)| part.columns().is_empty() || !rows.is_empty());
    parts.map(|((part, rows), place)| ((part, Some(rows).filter(|_| !part.columns().is_empty())), place)).unzip()
}

/// A script with a text for each back end.
#[derive(Debug)]
pub(super) struct Script {
    /// Its file's name.
    pub(super) name: &'static str,
    /// SQLite's text.
    pub(super) sqlite: &'static str,
    /// PostgreSQL's text.
    pub(super) postgres: &'static str,
}
