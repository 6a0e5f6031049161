//! Instants as tests write them.

use std::fmt;

use chrono::{DateTime, Utc};

/// Seconds of an hour.
pub(crate) const HOUR_S: i64 = 3_600;

/// An instant, in milliseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) i64);

/// Reads an RFC 3339 time.
pub(crate) fn time(text: &str) -> Time {
    Time(DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis())
}

impl Time {
    /// So many seconds later.
    pub(crate) fn plus_s(self, seconds: i64) -> Self {
        self.plus_ms(seconds * 1_000)
    }

    /// So many milliseconds later.
    pub(crate) fn plus_ms(self, ms: i64) -> Self {
        Self(self.0 + ms)
    }

    /// So many hours later.
    pub(crate) fn plus_h(self, hours: i64) -> Self {
        self.plus_s(hours * HOUR_S)
    }

    /// The UTC day, as `YYYY-MM-DD`.
    pub(crate) fn day(self) -> String {
        self.utc().format("%Y-%m-%d").to_string()
    }

    fn utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).expect("a time within chrono's range")
    }
}

impl fmt::Display for Time {
    /// As the wire writes it: UTC with milliseconds.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.utc().format("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
