//! SQLite: writes the log back into the file, beside the batches.
//!
//! By itself SQLite does that within the commit that has made the log long enough ([SQLite, checkpointing]), and every
//! batch behind it waits for tens of megabytes, and for the disk to have them. Here another connection writes back most
//! of it while batches go on. What is added to the log meanwhile stays, so the log is begun anew only by a commit that
//! finds all of it written back: it then has the little that is left to do, and SQLite's own bound stays as it is.
//!
//! [SQLite, checkpointing]: https://www.sqlite.org/wal.html#ckpt

use std::sync::Weak;
use std::time::Duration;

use sqlx::{AssertSqlSafe, SqlitePool};
use tokio::sync::watch;

use super::Log;
use super::file::WAL_PAGES;

/// How often the length of the log is looked at, while there are commits.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// Pages that are written back at once, at least (32 MiB): a page that many commits change is written back once.
const PAGES_MIN: i64 = 8_192;
/// A log of so many pages is about to be written back by a commit: until it is, little is left to it.
const PAGES_SOON: i64 = 12_288;
const _: () = assert!(PAGES_MIN < PAGES_SOON && PAGES_SOON < WAL_PAGES);

/// Writes back what commits have added, by connections of a pool, until that is closed, or the log is lost.
pub(super) async fn keep_up(pool: SqlitePool, mut commits: watch::Receiver<u64>, log: Weak<Log>) {
    while commits.changed().await.is_ok() && !pool.is_closed() {
        tokio::time::sleep(LOOKS_EVERY).await;
        let Ok((pages, written)) = checkpoint(&pool, "NOOP").await else { continue };
        let Some(log) = log.upgrade().filter(|log| log.is_well().is_ok()) else { return };
        if pages.saturating_sub(written) < PAGES_MIN && pages < PAGES_SOON {
            continue;
        }
        if let Err(error) = checkpoint(&pool, "PASSIVE").await
            && is_of_the_disk(&error)
        {
            tracing::error!(%error, "the log of the database could not be written back: nothing more is taken, start runtab again");
            return log.lose();
        }
    }
}

/// Whether the disk failed (`SQLITE_IOERR`): before it writes back, SQLite syncs the log, and that may be what failed. A
/// disk that is full, or a lock, passes.
fn is_of_the_disk(error: &sqlx::Error) -> bool {
    const IOERR: u32 = 10;
    let code =
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == IOERR)
}

/// How many pages the log has, and how many of them are written back.
async fn checkpoint(pool: &SqlitePool, mode: &str) -> Result<(i64, i64), sqlx::Error> {
    let sql = AssertSqlSafe(format!("PRAGMA wal_checkpoint({mode})"));
    let (_, pages, written) = sqlx::query_as::<_, (i64, i64, i64)>(sql).fetch_one(pool).await?;
    Ok((pages, written))
}
