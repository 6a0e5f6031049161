//! The connection that the latest question went by, kept for the next.
//!
//! A pool asks a connection that is given back twice whether it is well; for one short question after another, by one
//! asker, that is most of what they cost.

use std::sync::{Mutex, PoisonError};

use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::{Database, Executor, IntoArguments, Pool};
use tokio::time::Instant;

use super::TRUSTED;

/// A connection of a pool, or none.
#[derive(Debug)]
pub(in super::super) struct Kept<DB: Database>(Mutex<Option<(PoolConnection<DB>, Instant)>>);

impl<DB: Database> Default for Kept<DB> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<DB: Database> Kept<DB> {
    /// The connection that was kept, while it is taken to be alive; else, and for a second asker, one of the pool's.
    pub(super) async fn or_of(&self, pool: &Pool<DB>) -> Result<PoolConnection<DB>, sqlx::Error> {
        match self.take() {
            Some((connection, used)) if used.elapsed() < TRUSTED => Ok(connection),
            _ => pool.acquire().await,
        }
    }

    /// Keeps a connection that has just answered.
    pub(super) fn keep(&self, connection: PoolConnection<DB>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((connection, Instant::now()));
    }

    /// Gives back what is kept.
    pub(super) fn take(&self) -> Option<(PoolConnection<DB>, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a query answers by the connection that is kept for it, or by one of a pool.
pub(super) async fn answered<'q, DB: Database>(
    query: Query<'q, DB, DB::Arguments>,
    pool: &Pool<DB>,
    kept: Option<&Kept<DB>>,
) -> Result<Vec<DB::Row>, sqlx::Error>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
{
    let Some(kept) = kept else { return query.fetch_all(pool).await };
    let mut connection = kept.or_of(pool).await?;
    let rows = query.fetch_all(&mut *connection).await?;
    kept.keep(connection);
    Ok(rows)
}
