//! The closing job: closes a month by itself, some time after its end.
//!
//! Usage that comes after the closing is billed in the next month, so the wait is for hosts that were cut off. Several
//! engines may run this at once.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::domain::time::Month;
use crate::ledger::Ledger;

/// How often it looks.
const INTERVAL: Duration = Duration::from_mins(1);

/// Runs until `stop` is cancelled; closes a month `close_after_ms` after its end. Under a test clock it closes nothing:
/// there a month is closed when a test says so, and nothing changes by itself.
pub async fn run(ledger: Ledger, clock: Clock, close_after_ms: i64, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let Some(month) = due(&clock, close_after_ms).filter(|_| !clock.is_test()) else { continue };
        match ledger.last_closed_month().await {
            Ok(Some(last)) if last >= month => continue,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "whether a month is to be closed is not known; trying again");
                continue;
            }
        }
        // Stopped anywhere, it goes on from there the next time.
        let outcome = tokio::select! {
            () = stop.cancelled() => return,
            outcome = ledger.close_month(month, &|_| {}) => outcome,
        };
        match outcome {
            Ok(closed) => tracing::info!(month = month.index(), invoices = closed.invoices, "a month is closed"),
            Err(error) => tracing::warn!(%error, "a month could not be closed; trying again"),
        }
    }
}

/// The latest month that ended at least so long ago.
fn due(clock: &Clock, close_after_ms: i64) -> Option<Month> {
    let then = clock.now().near(close_after_ms.saturating_neg());
    Month::from_index(then.month().index().checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::due;
    use crate::clock::Clock;
    use crate::domain::time::{Day, Month};

    #[test]
    fn a_month_is_due_its_wait_after_its_end() {
        const DAY_MS: i64 = 86_400_000;
        let at = |month, day| Clock::test(Day::from_ymd(2026, month, day).unwrap().start());
        assert_eq!(due(&at(3, 4), 3 * DAY_MS), Month::from_ym(2026, 2));
        assert_eq!(due(&at(3, 3), 3 * DAY_MS), Month::from_ym(2026, 1));
        assert_eq!(due(&at(3, 1), 0), Month::from_ym(2026, 2));
    }
}
