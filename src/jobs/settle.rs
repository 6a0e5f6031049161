//! The settling job: settles leases whose time has come, so that rows are small and reads cheap.
//!
//! A lease counts as settled by the clock whether or not this job runs; a request that needs the money settles first.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(10);
/// Most leases of one batch, so that an admission never waits long behind it.
const BATCH_LEASES_MAX: i64 = 200;

/// Runs until `stop` is cancelled.
pub async fn run(ledger: Ledger, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        loop {
            match ledger.settle_due(BATCH_LEASES_MAX).await {
                // A full batch: there is more.
                Ok(count) if i64::try_from(count).is_ok_and(|count| count >= BATCH_LEASES_MAX) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "leases could not be settled; trying again");
                    break;
                }
            }
        }
    }
}
