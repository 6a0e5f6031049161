//! SQLite: writes the log back into the file, beside the batches.
//!
//! By itself SQLite does that within the commit that has made the log long enough ([SQLite, checkpointing]), and every
//! batch behind it waits for tens of megabytes, and for the disk to have them. Here another connection writes back most
//! of it while batches go on. What is added to the log meanwhile stays, so the log is begun anew only by a commit that
//! finds all of it written back: it then has the little that is left to do, and SQLite's own bound stays as it is.
//!
//! [SQLite, checkpointing]: https://www.sqlite.org/wal.html#ckpt

use std::time::Duration;

use sqlx::{AssertSqlSafe, SqlitePool};
use tokio::sync::watch;

use super::WAL_PAGES;

/// How often the length of the log is looked at, while there are commits.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// Pages that are written back at once, at least (32 MiB): a page that many commits change is written back once.
const PAGES_MIN: i64 = 8_192;
/// A log of so many pages is about to be written back by a commit: until it is, little is left to it.
const PAGES_SOON: i64 = 12_288;
const _: () = assert!(PAGES_MIN < PAGES_SOON && PAGES_SOON < WAL_PAGES);

/// Writes back what commits have added, by connections of a pool, until that is closed.
pub(super) async fn keep_up(pool: SqlitePool, mut commits: watch::Receiver<u64>) {
    while commits.changed().await.is_ok() && !pool.is_closed() {
        tokio::time::sleep(LOOKS_EVERY).await;
        let Ok((pages, written)) = checkpoint(&pool, "NOOP").await else { continue };
        if pages.saturating_sub(written) >= PAGES_MIN || pages >= PAGES_SOON {
            // What fails here is left to the next commit, which tells.
            drop(checkpoint(&pool, "PASSIVE").await);
        }
    }
}

/// How many pages the log has, and how many of them are written back.
async fn checkpoint(pool: &SqlitePool, mode: &str) -> Result<(i64, i64), sqlx::Error> {
    let sql = AssertSqlSafe(format!("PRAGMA wal_checkpoint({mode})"));
    let (_, pages, written) = sqlx::query_as::<_, (i64, i64, i64)>(sql).fetch_one(pool).await?;
    Ok((pages, written))
}
