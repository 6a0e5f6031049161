//! Pools of connections: their bounds, and in which state a connection goes in and comes out.

use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Database, Pool};

use super::super::Options;
use super::super::error::StoreError;
use super::{TRUSTED, failed, hosts};

/// A connection pool's bounds; connections stay open.
pub(super) fn pool<DB: Database>(connections_max: u32, options: Options) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(connections_max.max(1))
        .acquire_timeout(Duration::from_millis(options.wait_ms_max))
        .idle_timeout(None)
        .max_lifetime(None)
}

/// Tries at something that reads, by one connection of a pool after another. One that was just given back is not asked
/// whether it is well; so what is lost is found where it is used, and another takes its place: as often as there are any.
pub(super) struct Tries(u32);

impl Tries {
    /// None yet, by the connections of a pool.
    pub(super) fn by<DB: Database>(pool: &Pool<DB>) -> Self {
        Self(pool.options().get_max_connections())
    }

    /// Whether this failed for the sake of its connection alone, and another may do.
    pub(super) fn again(&mut self, error: &sqlx::Error) -> bool {
        let left = self.0.checked_sub(1).filter(|_| matches!(failed(error), StoreError::Again(_)));
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// The same for PostgreSQL. Where connections have to take writes, that is asked before each use, which also tells
/// whether they are alive.
pub(super) fn postgres_pool(connections_max: u32, options: Options, read_write: bool) -> PoolOptions<sqlx::Postgres> {
    let wait = Duration::from_millis(options.wait_ms_max);
    // The pool itself would wait for ever for a connection that hangs when it is given back.
    let pool = pool(connections_max, options)
        .after_release(move |connection: &mut PgConnection, _| Box::pin(left_clean(wait, connection)));
    if !read_write {
        // One that was just given back has just answered.
        return pool.test_before_acquire(false).before_acquire(|connection: &mut PgConnection, of| {
            Box::pin(
                async move { if of.idle_for < TRUSTED { Ok(true) } else { connection.ping().await.map(|()| true) } },
            )
        });
    }
    pool.test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(hosts::takes_writes(connection)))
        .after_connect(|connection, _| {
            Box::pin(async {
                let refused = || sqlx::Error::Protocol("the server takes no writes".to_owned());
                if hosts::takes_writes(connection).await? { Ok(()) } else { Err(refused()) }
            })
        })
}

/// Leaves nothing open on a connection that is given back, and says whether it answers; else it is closed.
///
/// The driver undoes what was begun and dropped, but not what was dropped while it began: that would stay open, and
/// whoever reads next would go on seeing what was there before. In the first command of a transaction, and outside of
/// any, `now()` is the time of the statement ([PostgreSQL, 9.9.5](https://www.postgresql.org/docs/15/functions-datetime.html)):
/// of a simple query's, for one with parameters sets the statement's time more than once.
async fn left_clean(wait: Duration, connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let clean = async {
        let asked = sqlx::raw_sql("SELECT now() <> statement_timestamp()").fetch_one(&mut *connection).await?;
        if sqlx::Row::try_get(&asked, 0)? {
            sqlx::raw_sql("ROLLBACK").execute(connection).await?;
        }
        Ok(true)
    };
    tokio::time::timeout(wait, clean).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
