//! One lease's meter.
//!
//! Invariant: after any calls, what was posted in sum is [`evaluate`](super::curve::evaluate) of the accepted readings
//! under the terms as they are now, and the meter is [`replay`]'s: nothing depends on the order of arrival.
//!
//! A reading in order needs nothing but the meter itself. A late one, and an end before the last reading, need
//! evidence: [`evidence_span`] and [`Meter::end_evidence_span`] say which. More evidence than that changes nothing.

use super::checked::{Overflow, add, mul};
use super::curve::{Origin, Walk, memory_in_force, minute_start};
use super::lease::Shape;
use super::rate_card::PriceBook;
use super::sample::{Reading, RejectCode};
use super::time::{Minute, Span, Timestamp};
use super::units::MebiBytes;
use super::usage::UsageByHour;

/// What a CPU step may exceed twice the shape's most by, in vCPU-microseconds: one vCPU-second, for bursts that a
/// host's accounting delivers late.
const IMPLAUSIBLE_SLACK_US: i128 = 1_000_000;

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

impl Terms<'_> {
    /// Up to where readings prove time, `last` being the latest: within the effective window.
    #[must_use]
    pub fn sampled_until(&self, last: Option<&Reading>) -> Timestamp {
        last.map_or(self.window.start, |reading| reading.at.min(self.end).max(self.window.start))
    }

    /// Up to where told ends prove time: within the effective window; its start when they prove nothing.
    #[must_use]
    pub fn proven_end(&self) -> Timestamp {
        self.proven_until.map_or(self.window.start, |until| until.min(self.end).max(self.window.start))
    }
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
    /// The clock minute that it lies in, up to it (or to the end, if that is earlier); `None` where nothing of that
    /// minute is proven by readings, so always at a minute's boundary and before the first reading in the window.
    pub open: Option<OpenMinute>,
}

impl Meter {
    /// Usage that a told end proves beyond the last reading: CPU at the floor, memory as last reported. In the open
    /// minute it is what the time adds to the cost of the minute.
    pub fn tail(&self, terms: &Terms<'_>) -> Result<UsageByHour, Overflow> {
        self.tail_before(terms, Timestamp::MAX)
    }

    /// Takes a reading later than every accepted one. Answers the meter after it and what it adds: the tail of an end
    /// that was told is posted already, so the answer has its change in it.
    pub fn take(&self, terms: &Terms<'_>, reading: Reading) -> Result<(Self, UsageByHour), Overflow> {
        let clip = Span { start: terms.sampled_until(self.last.as_ref()), end: terms.end };
        let mut walk = Walk::resume(terms, clip, self.open);
        walk.step(self.last.as_ref().map_or(Origin::start(terms.window), Origin::from), &reading)?;
        let (open, posted) = walk.finish()?;
        let next = Self { last: Some(reading), open };
        // With the same memory in force the tails are the same from the next minute on.
        let same_memory = self.memory(terms) == next.memory(terms);
        let sampled = terms.sampled_until(next.last.as_ref());
        let limit = if same_memory { sampled.minute().end() } else { Timestamp::MAX };
        Ok((next, next.with_tail_change(self, terms, limit, posted)?))
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
        let sampled = terms.sampled_until(self.last.as_ref());
        let before = around.iter().rev().find(|other| other.at < reading.at);
        let after = around.iter().chain(&self.last).find(|other| other.at > reading.at);
        let changed_from = before.map_or(terms.window.start, |other| other.at.max(terms.window.start));
        let changed_to = after.map_or(sampled, |other| other.at.min(sampled));
        if changed_to <= changed_from {
            return Ok((*self, UsageByHour::default()));
        }
        let clip = Span {
            start: minute_start(changed_from.minute(), terms.window),
            end: changed_to.minute().end().min(sampled),
        };
        let latest = around.last().map_or(reading.at, |other| other.at);
        let earlier = around.iter().filter(|other| other.at < reading.at);
        let later = around.iter().chain(self.last.iter().filter(|last| last.at > latest));
        let later = later.filter(|other| other.at > reading.at);

        let mut without = Walk::resume(terms, clip, None);
        without.readings(earlier.clone().chain(later.clone()))?;
        let (_, posted) = without.finish()?;
        let mut with = Walk::resume(terms, clip, None);
        with.readings(earlier.chain(std::iter::once(&reading)).chain(later))?;
        let (open, corrected) = with.finish()?;

        let open = if clip.end == sampled { open } else { self.open };
        let next = Self { last: self.last, open };
        let change = corrected.minus(&posted)?;
        Ok((next, next.with_tail_change(self, terms, sampled.minute().end(), change)?))
    }

    /// Moves the effective end (and what ends prove) from `before` to `after`, which differ in nothing else (but the
    /// end of the granted window, when it is extended). `around` is used only where readings reach beyond the earlier
    /// of the two ends: then all accepted readings from the last one before that end's minute on; see
    /// [`Meter::end_evidence_span`].
    pub fn move_end(
        &self,
        before: &Terms<'_>,
        after: &Terms<'_>,
        around: &[Reading],
    ) -> Result<(Self, UsageByHour), Overflow> {
        let old_tail = self.tail(before)?;
        let Some(needed) = self.end_evidence_span(before, after) else {
            let change = self.tail(after)?.minus(&old_tail)?;
            return Ok((*self, change));
        };
        let start = needed.start.max(after.window.start);
        let latest = around.last().map_or(Timestamp::EPOCH, |other| other.at);
        let last = || self.last.iter().filter(|last| last.at > latest);
        let mut old = Walk::resume(before, Span { start, end: before.sampled_until(self.last.as_ref()) }, None);
        old.readings(around.iter().chain(last()))?;
        let mut new = Walk::resume(after, Span { start, end: after.sampled_until(self.last.as_ref()) }, None);
        new.readings(around.iter().chain(last()))?;
        let (_, posted) = old.finish()?;
        let (open, corrected) = new.finish()?;
        let next = Self { last: self.last, open };
        let change = corrected.minus(&posted)?.plus(&next.tail(after)?)?.minus(&old_tail)?;
        Ok((next, change))
    }

    /// The evidence that [`Meter::move_end`] needs: all readings in this span, the last one before it and the first
    /// one at or after its end. `None`: none, for no reading lies beyond the earlier of the two ends.
    #[must_use]
    pub fn end_evidence_span(&self, before: &Terms<'_>, after: &Terms<'_>) -> Option<Span> {
        let old = before.sampled_until(self.last.as_ref());
        let new = after.sampled_until(self.last.as_ref());
        (old != new).then(|| Span { start: old.min(new).minute().start(), end: old.max(new) })
    }

    fn memory(&self, terms: &Terms<'_>) -> MebiBytes {
        memory_in_force(terms.shape, self.last.and_then(|last| last.memory))
    }

    /// The part of the tail before `limit`.
    fn tail_before(&self, terms: &Terms<'_>, limit: Timestamp) -> Result<UsageByHour, Overflow> {
        let tail = Span { start: terms.sampled_until(self.last.as_ref()), end: terms.proven_end().min(limit) };
        if tail.is_empty() {
            return Ok(UsageByHour::default());
        }
        let mut walk = Walk::resume(terms, tail, self.open);
        walk.flat(tail, self.memory(terms))?;
        walk.finish().map(|(_, usage)| usage)
    }

    /// `posted`, and what this meter's tail differs by from that of the meter before it; from `limit` on they are equal.
    fn with_tail_change(
        &self,
        before: &Self,
        terms: &Terms<'_>,
        limit: Timestamp,
        posted: UsageByHour,
    ) -> Result<UsageByHour, Overflow> {
        if terms.proven_until.is_none() {
            return Ok(posted);
        }
        posted.plus(&self.tail_before(terms, limit)?)?.minus(&before.tail_before(terms, limit)?)
    }
}

/// The evidence that [`Meter::take_late`] needs for a reading between these neighbours (the accepted readings next to
/// it in time): all readings in this span, the last one before it and the first one at or after its end.
#[must_use]
pub fn evidence_span(before: Option<&Reading>, after: Option<&Reading>) -> Span {
    Span {
        start: before.map_or(Timestamp::EPOCH, |reading| reading.at.minute().start()),
        end: after.map_or(Timestamp::MAX, |reading| reading.at.minute().end()),
    }
}

/// The meter and the usage that a set of readings (ascending) leads to, however it arrived: for a lease whose evidence
/// is all at hand.
pub fn replay(terms: &Terms<'_>, readings: &[Reading]) -> Result<(Meter, UsageByHour), Overflow> {
    let last = readings.last();
    let clip = Span { start: terms.window.start, end: terms.sampled_until(last) };
    let mut walk = Walk::resume(terms, clip, None);
    walk.readings(readings.iter())?;
    let (open, posted) = walk.finish()?;
    let meter = Meter { last: last.copied(), open };
    let usage = posted.plus(&meter.tail(terms)?)?;
    Ok((meter, usage))
}

/// Judges a reading against its neighbours on both sides (`None`: there is none; before the first reading the counter
/// began at 0 at the window's start): `stale_epoch`, `counter_regressed`, `cpu_implausible`, in this order.
///
/// A reading that comes to be the first, late, is judged against the one after it as everywhere; one at or before the
/// window's start begins the counter, whatever it says.
pub fn judge(
    terms: &Terms<'_>,
    before: Option<&Reading>,
    after: Option<&Reading>,
    reading: &Reading,
) -> Result<(), RejectCode> {
    let pairs = [before.map(|other| (other, reading)), after.map(|other| (reading, other))];
    let mut pairs_there = pairs.iter().flatten();
    if pairs_there.any(|(earlier, later)| earlier.epoch > later.epoch) {
        return Err(RejectCode::StaleEpoch);
    }
    let regressed =
        |earlier: &Reading, later: &Reading| earlier.epoch == later.epoch && earlier.cpu_usage_us > later.cpu_usage_us;
    if pairs.iter().flatten().any(|(earlier, later)| regressed(earlier, later)) {
        return Err(RejectCode::CounterRegressed);
    }
    let begins = before.is_none() && reading.at <= terms.window.start;
    let from = before.map_or(Origin::start(terms.window), Origin::from);
    let spike_before = !begins && !is_plausible(terms.shape, from, reading);
    let spike_after = after.is_some_and(|later| !is_plausible(terms.shape, reading.into(), later));
    if spike_before || spike_after { Err(RejectCode::CpuImplausible) } else { Ok(()) }
}

/// Whether a step is at most twice what the shape can make, and the slack.
fn is_plausible(shape: Shape, from: Origin, to: &Reading) -> bool {
    let most = shape.vcpus.busy_us(to.at.since(from.at())).and_then(|busy| add(mul(2, busy)?, IMPLAUSIBLE_SLACK_US));
    // A bound that can't be counted bounds nothing; instants are bounded, so there is none such.
    most.is_ok_and(|most| i128::from(from.counted_us(to)) <= most)
}
