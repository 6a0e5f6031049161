//! Pools of connections: their bounds, and in which state a connection goes in and comes out.

use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Database};

use super::super::Options;
use super::{TRUSTED, hosts};

/// A connection pool's bounds; connections stay open.
pub(super) fn pool<DB: Database>(connections_max: u32, options: Options) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(connections_max.max(1))
        .acquire_timeout(Duration::from_millis(options.wait_ms_max))
        .idle_timeout(None)
        .max_lifetime(None)
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
