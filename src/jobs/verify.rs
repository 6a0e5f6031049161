//! The verifying job: once a day, some accounts chosen at random are computed again from their evidence.
//!
//! It reads beside all else and changes nothing. What it finds is in the log, figure by figure, and in the metrics:
//! whoever runs the engine is told before a customer finds out.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;
use crate::ledger::verify::{Difference, Sampled, Scope, Told};
use crate::secret;

/// How often it runs. The first time is a whole interval after the start, so that engines that start again and again
/// don't verify again and again.
const INTERVAL: Duration = Duration::from_hours(24);

/// Runs until `stop` is cancelled; verifies `accounts` a time, none where that is 0.
pub async fn run(ledger: Ledger, accounts: u32, stop: CancellationToken) {
    if accounts == 0 {
        return;
    }
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        // Stopped anywhere, it has changed nothing.
        tokio::select! {
            () = stop.cancelled() => return,
            () = once(&ledger, accounts) => {}
        }
    }
}

/// Verifies some accounts now.
pub async fn once(ledger: &Ledger, accounts: u32) {
    let seed = match secret::random_seed() {
        Ok(seed) => seed,
        Err(error) => {
            tracing::warn!(%error, "no accounts could be chosen to be verified; trying again tomorrow");
            return;
        }
    };
    let scope = Scope { sample: Some(Sampled { accounts, seed }), ..Scope::default() };
    match ledger.verify_and_count(&scope, &tell).await {
        Ok(verified) if verified.differences == 0 => {
            tracing::info!(
                accounts = verified.accounts,
                samples = verified.samples,
                "accounts agree with their evidence"
            );
        }
        Ok(verified) => {
            let (accounts, differences) = (verified.accounts, verified.differences);
            tracing::error!(accounts, differences, "figures differ from the evidence");
        }
        Err(error) => tracing::warn!(%error, "accounts could not be verified; trying again tomorrow"),
    }
}

fn tell(told: Told) {
    if let Told::Difference(Difference { account, table, row, column, kept, computed }) = told {
        tracing::error!(%account, table, row, column, kept, computed, "a figure differs from the evidence");
    }
}
