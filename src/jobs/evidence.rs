//! The evidence job: makes the tables of the next months' evidence before they are needed.
//!
//! An engine does so when it starts; this is for those that run for months. Should it fail, evidence is kept with that
//! of all other months, and nothing else changes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// How often it looks: three months are made ahead, so a day is often.
const INTERVAL: Duration = Duration::from_hours(24);

/// Runs until `stop` is cancelled.
pub async fn run(store: Store, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        if let Err(error) = store.make_months().await {
            tracing::warn!(%error, "months of evidence could not be made ahead; trying again tomorrow");
        }
    }
}
