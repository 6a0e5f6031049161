//! Answers that wait for the disk, while their worker is at its next batch.
//!
//! Where a commit is on disk when it is done (PostgreSQL), there is nothing to wait for. SQLite's is not: see
//! [`Store::keep`]. A batch that only looked waits too: it may have seen what is not on disk yet.

use std::collections::VecDeque;

use tokio::task::JoinHandle;

use crate::store::{Store, StoreError};

/// Batches that are committed and wait at most, before the next begins: those that a sync under way is for, and those
/// that are synced together after it.
const AHEAD_MAX: usize = 4;

/// Answers of one worker, in the order of its batches.
#[derive(Debug)]
pub(super) struct Outbox {
    store: Store,
    waiting: VecDeque<JoinHandle<()>>,
}

impl Outbox {
    /// An empty one.
    pub(super) fn new(store: &Store) -> Self {
        Self { store: store.clone(), waiting: VecDeque::new() }
    }

    /// Answers a batch once it is known whether all that it saw and did is kept; returns when the next may begin.
    pub(super) async fn tell(&mut self, answer: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        if !self.store.keeps_later() {
            return answer(Ok(()));
        }
        let kept = self.store.keep();
        self.waiting.push_back(tokio::spawn(async move { answer(kept.await) }));
        self.empty(AHEAD_MAX).await;
    }

    /// Waits until all but so many batches are answered.
    pub(super) async fn empty(&mut self, but: usize) {
        while self.waiting.len() > but
            && let Some(oldest) = self.waiting.pop_front()
        {
            // One that panics drops its replies, and so tells its callers.
            drop(oldest.await);
        }
    }
}
