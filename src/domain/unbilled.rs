//! Time that was granted and may have been used, but that nothing proves: it is billed to nobody, and shown by cause.
//!
//! Only leases that are settled count: of the others samples may still come.

use super::checked::Overflow;
use super::lease::{EndReason, Lease};
use super::money::Cost;
use super::rate_card::PriceBook;
use super::time::{Span, Timestamp};
use super::usage::Usage;

/// Why time is not billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The lease expired, and no sample of it ever came.
    NeverSampled,
    /// Samples came, then none up to where it expired.
    WentSilent,
    /// Its host was lost: from the last sample to the end of what was granted. It stopped somewhere within.
    HostLost,
    /// Its end was told after it had settled, which proves nothing.
    EndToldLate,
}

impl Cause {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::NeverSampled, Self::WentSilent, Self::HostLost, Self::EndToldLate];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverSampled => "never_sampled",
            Self::WentSilent => "went_silent",
            Self::HostLost => "host_lost",
            Self::EndToldLate => "end_told_late",
        }
    }
}

/// What of a lease is not billed, and why; `None` where all is, or where more may come.
#[must_use]
pub fn unbilled(lease: &Lease, now: Timestamp) -> Option<(Cause, Span)> {
    if !lease.is_settled(now) {
        return None;
    }
    let (cause, span) = match lease.end {
        Some(end) if end.reason == EndReason::HostLost => {
            (Cause::HostLost, Span { start: end.at, end: lease.window.end })
        }
        Some(_) => (Cause::EndToldLate, lease.unposted()),
        None if lease.sampled_until().is_none() => (Cause::NeverSampled, lease.unposted()),
        None => (Cause::WentSilent, lease.unposted()),
    };
    (!span.is_empty()).then_some((cause, span))
}

/// The exact cost of a span of a lease at the floor: the least that it would have cost.
pub fn at_floor(lease: &Lease, span: Span, book: &PriceBook) -> Result<Cost, Overflow> {
    span.by_day().try_fold(Cost::ZERO, |sum, (day, part)| {
        let run_ms = part.length_ms();
        let usage = Usage {
            run_ms: i128::from(run_ms),
            cpu_us: book.on(day).floor.made_us(run_ms)?,
            memory_mib_ms: lease.shape.memory.held_mib_ms(run_ms)?,
            ..Usage::ZERO
        };
        sum.plus(book.price(day, usage)?)
    })
}
