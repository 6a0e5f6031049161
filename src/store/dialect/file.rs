//! SQLite: how a file is opened, and by which connections.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::super::Options;
use super::super::error::StoreError;
use super::asking::Asking;
use super::log::Log;
use super::pools::pool;
use super::turns::Turns;
use super::{ASKING, Backend, PREPARED_MAX, failed, priority, write_back};

/// rows that its thread reads ahead of their reader: a batch's, so that neither waits for the other by turns.
const ROWS_AHEAD: usize = 2_048;
/// the log is written back into the file when it has so many pages (64 MiB). A page that many commits change is
/// then written back once, and not once a commit.
pub(super) const WAL_PAGES: i64 = 16_384;
/// a log that has grown beyond this while somebody read (128 MiB) is cut when it is begun anew.
const LOG_BYTES_MAX: &str = "134217728";
/// what the writer keeps of the file in memory, in KiB (negative: the unit): the pages that commits come back to.
const CACHE: &str = "-16384";

/// Opens `sqlite:PATH` or `sqlite::memory:`; a file that is not there is made.
pub(super) async fn open(url: &str, options: Options) -> Result<Backend, StoreError> {
    let memory = url.contains(":memory:") || url.contains("mode=memory");
    let mut connect = SqliteConnectOptions::from_str(url)
        .map_err(|error| failed(&error))?
        .create_if_missing(true)
        .foreign_keys(false)
        .busy_timeout(Duration::from_millis(options.wait_ms_max))
        .statement_cache_capacity(PREPARED_MAX)
        .row_buffer_size(ROWS_AHEAD)
        .disable_statement_logging();
    if !memory {
        // A commit that was answered outlives a loss of power: the log is synced beside the next batch.
        connect = connect
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .pragma("wal_autocheckpoint", WAL_PAGES.to_string())
            .pragma("journal_size_limit", LOG_BYTES_MAX)
            .pragma("temp_store", "memory");
    }
    let file = connect.get_filename().to_owned();
    let one = pool(1, options).test_before_acquire(false).after_connect(|_, _| {
        Box::pin(async {
            if let Err(error) = priority::raise(priority::WRITER) {
                tracing::debug!(%error, "the thread that writes does not go before others");
            }
            Ok(())
        })
    });
    let writer = connect.clone().pragma("cache_size", CACHE).thread_name(|_| priority::WRITER.to_owned());
    let one = one.connect_with(writer).await.map_err(|error| failed(&error))?;
    let readers = if memory {
        one.clone()
    } else {
        let few = pool(options.readers_max, options).test_before_acquire(false);
        few.connect_with(connect.clone().pragma("query_only", "on")).await.map_err(|error| failed(&error))?
    };
    let write_back = if memory {
        None
    } else {
        let one = pool(1, options).test_before_acquire(false).connect_with(connect.clone()).await;
        Some(one.map_err(|error| failed(&error))?)
    };
    let asking = if memory {
        Asking::by(one.clone(), false)
    } else {
        let few = pool(ASKING, options).test_before_acquire(false);
        let few = few.connect_with(connect.pragma("query_only", "on")).await.map_err(|error| failed(&error))?;
        Asking::by(few, true)
    };
    let log = match write_back {
        Some(pool) => {
            let log = Log::of(&file).map_err(|error| StoreError::Unavailable(error.to_string()))?;
            // Ends with the log, or when the pool is closed.
            drop(tokio::spawn(write_back::keep_up(pool.clone(), log.commits(), Arc::downgrade(&log))));
            Some((log, pool))
        }
        None => None,
    };
    let begin = "BEGIN IMMEDIATE";
    let writer = if memory { Turns::of(one, begin) } else { Turns::of_one(one, begin) };
    Ok(Backend::Sqlite { writer, readers: Turns::of(readers, "BEGIN"), asking: Arc::new(asking), log })
}
