//! Connections for short questions, which come one after another from one asker: the latest is kept for the next.
//!
//! A pool asks a connection that is given back twice whether it is well; that is most of what a short question costs. And
//! the pool is one of their own: whoever reads a long report takes none of it, so nobody's secret waits for a report.

use std::sync::{Mutex, PoisonError};

use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::{Database, Executor, IntoArguments, Pool};
use tokio::time::Instant;

use super::TRUSTED;
use super::pools::Tries;

/// A pool, and the connection of it that answered last.
#[derive(Debug)]
pub(in super::super) struct Asking<DB: Database> {
    pool: Pool<DB>,
    kept: Mutex<Option<(PoolConnection<DB>, Instant)>>,
    /// Not where a connection has to be asked before each use, nor where it is the only one.
    keeps: bool,
}

impl<DB: Database> Asking<DB> {
    /// Questions by the connections of a pool.
    pub(super) fn by(pool: Pool<DB>, keeps: bool) -> Self {
        Self { pool, kept: Mutex::new(None), keeps }
    }

    /// What a query answers. Where a connection turns out to be lost it is asked again by another: a question changes
    /// nothing.
    pub(super) async fn ask<'q>(
        &self,
        query: impl Fn() -> Query<'q, DB, DB::Arguments>,
    ) -> Result<Vec<DB::Row>, sqlx::Error>
    where
        DB::Arguments: IntoArguments<DB>,
        for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    {
        if let Some(mut connection) = self.take_fresh()
            && let Ok(rows) = query().fetch_all(&mut *connection).await
        {
            self.keep(connection);
            return Ok(rows);
        }
        let mut tries = Tries::by(&self.pool);
        loop {
            let mut connection = self.pool.acquire().await?;
            match query().fetch_all(&mut *connection).await {
                Err(error) if tries.again(&error) => {}
                answered => {
                    if self.keeps && answered.is_ok() {
                        self.keep(connection);
                    }
                    return answered;
                }
            }
        }
    }

    /// The pool, which a watcher points to another server.
    pub(super) fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        drop(self.take());
        self.pool.close().await;
    }

    /// The connection that is kept, while it is taken to be alive. An older one is given back.
    fn take_fresh(&self) -> Option<PoolConnection<DB>> {
        self.take().filter(|(_, used)| used.elapsed() < TRUSTED).map(|(connection, _)| connection)
    }

    fn take(&self) -> Option<(PoolConnection<DB>, Instant)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, connection: PoolConnection<DB>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((connection, Instant::now()));
    }
}
