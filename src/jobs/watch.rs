//! The watching job: counts leases whose samples have stopped, and releases parts of samples that have waited too long.
//!
//! What is billed does not depend on when it looks: a part that is released late is a late sample.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;
use crate::ledger::parts::PartRules;
use crate::telemetry::metrics::Metrics;

/// Runs until `stop` is cancelled; looks every `interval`, the first time at once.
pub async fn run(ledger: Ledger, rules: PartRules, metrics: Metrics, interval: Duration, stop: CancellationToken) {
    loop {
        if let Err(error) = ledger.look_for_stale().await {
            tracing::warn!(%error, "leases without samples could not be counted; trying again");
        }
        match ledger.release_parts(&rules).await {
            Ok(taken) => {
                let many = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
                metrics.samples("accepted", many(taken.accepted));
                metrics.samples("duplicate", many(taken.duplicates));
                for (code, count) in taken.rejected {
                    metrics.samples(code, many(count));
                }
            }
            Err(error) => tracing::warn!(%error, "waiting parts of samples could not be released; trying again"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}
