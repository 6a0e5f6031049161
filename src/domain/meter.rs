//! One lease's meter.

use super::checked::Overflow;
use super::lease::Shape;
use super::rate_card::PriceBook;
use super::sample::{Reading, RejectCode};
use super::time::{Minute, Span, Timestamp};
use super::usage::UsageByHour;

/// What a meter needs to know of its lease.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The granted window: what is outside it by more than a minute is rejected.
    pub window: Span,
    /// The effective end: the curve is clipped to `[window.start, end)`.
    pub end: Timestamp,
    /// Up to when told ends prove that it ran; at most `end`.
    pub proven_until: Option<Timestamp>,
    /// What bounds a CPU step and the memory.
    pub shape: Shape,
    /// The CPU floor by day.
    pub prices: &'a PriceBook,
}

/// The clock minute that the last reading lies in: its floor is not final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMinute {
    /// Which minute.
    pub minute: Minute,
    /// CPU measured in it so far, in vCPU-microseconds.
    pub used_us: i64,
    /// Proven time in it so far, in milliseconds.
    pub run_ms: i64,
}

/// The state of a meter that a sample in order needs: what a lease's row keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// The latest accepted reading.
    pub last: Option<Reading>,
    /// The clock minute that it lies in, up to it (or to the end, if that is earlier).
    pub open: Option<OpenMinute>,
}

impl Meter {
    /// Usage that a told end proves beyond the last reading: CPU at the floor, memory as last reported.
    pub fn tail(&self, terms: &Terms<'_>) -> Result<UsageByHour, Overflow> {
        let _ = terms;
        Err(Overflow)
    }

    /// Takes a reading later than every accepted one. Answers the meter after it and what it adds: the tail of an end
    /// that was told is posted already, so the answer has its change in it.
    pub fn take(&self, terms: &Terms<'_>, reading: Reading) -> Result<(Self, UsageByHour), Overflow> {
        let _ = (terms, reading);
        Err(Overflow)
    }

    /// Takes a reading that is earlier than the last accepted one. `around`: accepted readings, ascending: at least
    /// all from the last one before the minute of the neighbour before it, to the first one after the minute of the
    /// neighbour after it (as far as there are such); see [`evidence_span`].
    pub fn take_late(
        &self,
        terms: &Terms<'_>,
        around: &[Reading],
        reading: Reading,
    ) -> Result<(Self, UsageByHour), Overflow> {
        let _ = (terms, around, reading);
        Err(Overflow)
    }

    /// Moves the effective end (and what ends prove) from `before` to `after`, which differ in nothing else. `around`
    /// is used only where an end lies before the last reading: then all accepted readings from the last one before
    /// the earlier end's minute on.
    pub fn move_end(
        &self,
        before: &Terms<'_>,
        after: &Terms<'_>,
        around: &[Reading],
    ) -> Result<(Self, UsageByHour), Overflow> {
        let _ = (before, after, around);
        Err(Overflow)
    }
}

/// Judges a reading against its neighbours on both sides (`None`: there is none; before the first reading the counter
/// began at 0 at the window's start): `stale_epoch`, `counter_regressed`, `cpu_implausible`, in this order.
pub fn judge(
    terms: &Terms<'_>,
    before: Option<&Reading>,
    after: Option<&Reading>,
    reading: &Reading,
) -> Result<(), RejectCode> {
    let _ = (terms, before, after, reading);
    Ok(())
}
