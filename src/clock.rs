//! The clock: the system's, or one for tests that stands still until it is moved. The only place that reads time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::time::Timestamp;

/// Milliseconds since the machine booted, its suspensions included (`CLOCK_BOOTTIME`): no step of the calendar's clock
/// moves it, so it is what lengths are measured by.
#[must_use]
pub fn boot_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec.div_euclid(1_000_000))
}

/// Tells what time it is; cheap to clone, clones of a test clock move together.
#[derive(Clone, Debug)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The system's clock, in UTC.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still at `start`.
    #[must_use]
    pub fn test(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.ms()))))
    }

    /// Whether it is a test clock.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.0.is_some()
    }

    /// Now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn now(&self) -> Timestamp {
        let ms = match &self.0 {
            Some(ms) => ms.load(Ordering::SeqCst),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0)),
        };
        Timestamp::from_ms(ms).unwrap_or(Timestamp::EPOCH)
    }

    /// Moves a test clock forward; `false` (and nothing moved) on a system clock or backwards.
    #[must_use]
    pub fn advance_to(&self, now: Timestamp) -> bool {
        self.0.as_ref().is_some_and(|ms| ms.fetch_max(now.ms(), Ordering::SeqCst) <= now.ms())
    }
}
