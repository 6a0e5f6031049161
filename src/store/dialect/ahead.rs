//! A transaction that was begun before it is asked for: beginning costs a round trip, which the next batch need not wait
//! for.
//!
//! Until its first statement it sees nothing and holds nothing, so begun early it is as good as begun late. Where the
//! next batch is not at once there, it is undone: a transaction that idles is an operator's alarm.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{Database, Pool, Transaction};
use tokio::time::Instant;

/// How long one waits to be taken.
const WAITS: Duration = Duration::from_millis(100);

/// A transaction that waits to be taken, or none.
#[derive(Debug)]
pub(in super::super) struct Ahead<DB: Database>(Mutex<Option<(Transaction<'static, DB>, Instant)>>);

impl<DB: Database> Default for Ahead<DB> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<DB: Database> Ahead<DB> {
    /// The one that waits. A pool that closes waits for it to be given back.
    pub(super) fn take(&self) -> Option<Transaction<'static, DB>> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.map(|(transaction, _)| transaction)
    }

    fn put(&self, transaction: Transaction<'static, DB>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((transaction, Instant::now()));
    }

    /// The one that has waited its time.
    fn take_old(&self) -> Option<Transaction<'static, DB>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.take_if(|(_, begun)| begun.elapsed() >= WAITS).map(|(transaction, _)| transaction)
    }
}

/// Begins one that will wait, within `patience`. What fails here will fail, and be told, when it is asked for.
pub(super) fn begin<DB: Database>(ahead: Arc<Ahead<DB>>, pool: Pool<DB>, how: &'static str, patience: Duration) {
    // Ends when what it has begun has waited, or with its patience.
    drop(tokio::spawn(async move {
        let Ok(Ok(transaction)) = tokio::time::timeout(patience, pool.begin_with(how)).await else { return };
        ahead.put(transaction);
        if pool.is_closed() {
            drop(ahead.take());
        }
        tokio::time::sleep(WAITS).await;
        drop(ahead.take_old());
    }));
}
