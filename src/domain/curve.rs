//! The CPU curve: readings to used and billable CPU per clock minute, summed per hour.
//!
//! The curve is cumulative and straight between neighbours, each value rounded down, so that the parts of a step sum
//! to the step exactly. It is clipped to the effective window. The floor is taken minute by minute, and what a minute
//! costs is posted as the *change* of its cost: so a curve that is walked in two runs posts the same as in one
//! (DESIGN.md section 3).
//!
//! Limits: a step is at most the granted window and a minute either way long, about 31 days; walking it takes an
//! integer division a minute. A flat step is walked by the hour.

use super::checked::{Overflow, add, mul_div_floor};
use super::lease::Shape;
use super::meter::{OpenMinute, Terms};
use super::sample::Reading;
use super::time::{Day, Hour, Minute, Span, Timestamp};
use super::units::{MebiBytes, Millicores};
use super::usage::{Usage, UsageByHour};

/// Lower than any epoch on the wire: that of the counter which begins with the lease.
const EPOCH_OF_START: i64 = -1;

/// Where a step begins: a reading, or the lease's start where no reading is at or before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    at: Timestamp,
    epoch: i64,
    cpu_usage_us: i64,
    memory: Option<MebiBytes>,
}

impl Origin {
    /// The implicit beginning of a curve without a baseline: at the lease's start, the counter at 0, in an epoch below
    /// any other.
    #[must_use]
    pub fn start(window: Span) -> Self {
        Self { at: window.start, epoch: EPOCH_OF_START, cpu_usage_us: 0, memory: None }
    }

    /// When the step begins.
    #[must_use]
    pub fn at(self) -> Timestamp {
        self.at
    }

    /// What the counter counted from here to a later reading, in microseconds, uncapped: the difference in one epoch,
    /// the whole counter in a new one. Never below zero (a consistent set has no such step).
    #[must_use]
    pub fn counted_us(self, to: &Reading) -> i64 {
        let from = if to.epoch == self.epoch { self.cpu_usage_us } else { 0 };
        to.cpu_usage_us.saturating_sub(from).max(0)
    }
}

impl From<&Reading> for Origin {
    fn from(reading: &Reading) -> Self {
        let Reading { at, epoch, cpu_usage_us, memory, storage: _ } = *reading;
        Self { at, epoch, cpu_usage_us, memory }
    }
}

/// The memory that is billed while `reported` holds: the lease's when absent, and at most the lease's.
#[must_use]
pub fn memory_in_force(shape: Shape, reported: Option<MebiBytes>) -> MebiBytes {
    reported.map_or(shape.memory, |memory| memory.min(shape.memory))
}

/// A straight piece of the curve.
#[derive(Clone, Copy, Debug)]
struct Step {
    start: Timestamp,
    length_ms: i64,
    rise_us: i64,
}

impl Step {
    /// Between two neighbours; at most what the shape can make.
    fn between(shape: Shape, from: Origin, to: &Reading) -> Result<Self, Overflow> {
        let length_ms = to.at.since(from.at);
        let most = shape.vcpus.busy_us(length_ms)?;
        let rise_us = i128::from(from.counted_us(to)).min(most);
        Ok(Self { start: from.at, length_ms, rise_us: i64::try_from(rise_us).map_err(|_| Overflow)? })
    }

    /// Its rise up to an instant in it, rounded down.
    fn risen_us(&self, at: Timestamp) -> Result<i64, Overflow> {
        let past_ms = at.since(self.start);
        // Nearly every step fits 64 bits; a wide division takes several times as long.
        let short = self.rise_us.checked_mul(past_ms).and_then(|product| product.checked_div_euclid(self.length_ms));
        if let Some(risen) = short {
            return Ok(risen);
        }
        let risen = mul_div_floor(self.rise_us.into(), past_ms.into(), self.length_ms.into())?;
        i64::try_from(risen).map_err(|_| Overflow)
    }
}

/// A curve that is being walked, ascending: what it posted by hour, and the minute it stands in.
#[derive(Debug)]
pub struct Walk<'a> {
    terms: &'a Terms<'a>,
    clip: Span,
    floor: (Day, Millicores),
    open: Option<OpenMinute>,
    hour: Hour,
    usage: Usage,
    posted: UsageByHour,
}

impl<'a> Walk<'a> {
    /// Begins at the start of `clip` (what lies outside it is passed over), with the minute that it lies in as it was
    /// left, or `None` when nothing of that minute has been walked.
    #[must_use]
    pub fn resume(terms: &'a Terms<'a>, clip: Span, open: Option<OpenMinute>) -> Self {
        let day = clip.start.day();
        let floor = (day, terms.prices.on(day).floor);
        let hour = clip.start.hour();
        Self { terms, clip, floor, open, hour, usage: Usage::ZERO, posted: UsageByHour::default() }
    }

    /// Walks all steps between readings, which ascend; the first step begins at the lease's start when the first
    /// reading is after it. Where only a part of a lease's readings is given, the first one must not be after the
    /// start of the clip, unless it is the lease's first.
    pub fn readings<'r>(&mut self, readings: impl Iterator<Item = &'r Reading>) -> Result<(), Overflow> {
        let mut from = Origin::start(self.terms.window);
        for to in readings {
            self.step(from, to)?;
            from = Origin::from(to);
        }
        Ok(())
    }

    /// Walks the step from one neighbour to the next.
    pub fn step(&mut self, from: Origin, to: &Reading) -> Result<(), Overflow> {
        let span = Span { start: from.at, end: to.at }.meet(self.clip);
        if span.is_empty() {
            return Ok(());
        }
        let step = Step::between(self.terms.shape, from, to)?;
        let memory = memory_in_force(self.terms.shape, from.memory);
        if step.rise_us == 0 {
            return self.flat(span, memory);
        }
        let mut at = span.start;
        let mut risen_us = step.risen_us(at)?;
        while at < span.end {
            let until = at.minute().end().min(span.end);
            let next_us = step.risen_us(until)?;
            self.piece(Span { start: at, end: until }, next_us.saturating_sub(risen_us), memory)?;
            (at, risen_us) = (until, next_us);
        }
        Ok(())
    }

    /// Walks a span in which the CPU stands still.
    pub fn flat(&mut self, span: Span, memory: MebiBytes) -> Result<(), Overflow> {
        let span = span.meet(self.clip);
        if span.is_empty() {
            return Ok(());
        }
        // CPU of the minute that it begins in may be above the floor; in every minute after it the floor is all.
        let fresh = span.start.minute().end().min(span.end);
        self.piece(Span { start: span.start, end: fresh }, 0, memory)?;
        let rest = Span { start: fresh, end: span.end };
        for (hour, part) in rest.by_hour() {
            let run_ms = part.length_ms();
            let cpu_us = self.floor_on(hour.day()).made_us(run_ms)?;
            self.post(hour, run_ms, 0, cpu_us, memory)?;
        }
        if !rest.is_empty() {
            let minute = rest.end.minute();
            self.leave_open(rest.end, OpenMinute { minute, used_us: 0, run_ms: rest.end.since(minute.start()) });
        }
        Ok(())
    }

    /// Where it stands: the minute that is open there, and all it posted.
    pub fn finish(mut self) -> Result<(Option<OpenMinute>, UsageByHour), Overflow> {
        self.posted.add(self.hour, self.usage)?;
        Ok((self.open, self.posted))
    }

    /// Walks a span within one minute.
    fn piece(&mut self, span: Span, used_us: i64, memory: MebiBytes) -> Result<(), Overflow> {
        let minute = span.start.minute();
        let floor = self.floor_on(minute.start().day());
        let run_ms = span.length_ms();
        let before = self.open.filter(|open| open.minute == minute);
        let before = before.unwrap_or(OpenMinute { minute, used_us: 0, run_ms: 0 });
        let after = OpenMinute {
            minute,
            used_us: before.used_us.checked_add(used_us).ok_or(Overflow)?,
            run_ms: before.run_ms.checked_add(run_ms).ok_or(Overflow)?,
        };
        let cpu_us = billed_us(after, floor)?.checked_sub(billed_us(before, floor)?).ok_or(Overflow)?;
        self.post(span.start.hour(), run_ms, used_us, cpu_us, memory)?;
        self.leave_open(span.end, after);
        Ok(())
    }

    /// A minute is open while some of it was walked and some was not: so a meter has one state for one curve.
    fn leave_open(&mut self, at: Timestamp, minute: OpenMinute) {
        self.open = (at < minute.minute.end() && minute.run_ms > 0).then_some(minute);
    }

    fn floor_on(&mut self, day: Day) -> Millicores {
        if self.floor.0 != day {
            self.floor = (day, self.terms.prices.on(day).floor);
        }
        self.floor.1
    }

    fn post(&mut self, hour: Hour, run_ms: i64, used_us: i64, cpu_us: i128, memory: MebiBytes) -> Result<(), Overflow> {
        if hour != self.hour {
            self.posted.add(self.hour, self.usage)?;
            (self.hour, self.usage) = (hour, Usage::ZERO);
        }
        self.usage = Usage {
            run_ms: add(self.usage.run_ms, run_ms.into())?,
            cpu_used_us: add(self.usage.cpu_used_us, used_us.into())?,
            cpu_us: add(self.usage.cpu_us, cpu_us)?,
            memory_mib_ms: add(self.usage.memory_mib_ms, memory.held_mib_ms(run_ms)?)?,
            storage_mib_ms: 0,
        };
        Ok(())
    }
}

/// What a minute costs, in vCPU-microseconds: what was used in it, or the floor for the time that it ran.
fn billed_us(minute: OpenMinute, floor: Millicores) -> Result<i128, Overflow> {
    Ok(i128::from(minute.used_us).max(floor.made_us(minute.run_ms)?))
}

/// The first instant of a minute, or the window's start where that is later.
#[must_use]
pub fn minute_start(minute: Minute, window: Span) -> Timestamp {
    minute.start().max(window.start)
}

/// The usage of a whole lease: a pure function of its terms and of the set of its accepted readings, which ascend.
pub fn evaluate(terms: &Terms<'_>, readings: &[Reading]) -> Result<UsageByHour, Overflow> {
    let last = readings.last();
    let sampled = terms.sampled_until(last);
    let proven = terms.proven_end().max(sampled);
    let mut walk = Walk::resume(terms, Span { start: terms.window.start, end: proven }, None);
    walk.readings(readings.iter())?;
    let memory = memory_in_force(terms.shape, last.and_then(|reading| reading.memory));
    walk.flat(Span { start: sampled, end: proven }, memory)?;
    walk.finish().map(|(_, usage)| usage)
}

/// [`evaluate`] within a span that begins and ends with a minute. `readings` (ascending): at least all in the span, the
/// last one before it, and the first one at or after its end, as far as there are such.
pub fn evaluate_within(terms: &Terms<'_>, readings: &[Reading], span: Span) -> Result<UsageByHour, Overflow> {
    let last = readings.last();
    let sampled = terms.sampled_until(last);
    let proven = terms.proven_end().max(sampled);
    let clip = Span { start: terms.window.start, end: proven }.meet(span);
    if clip.is_empty() {
        return Ok(UsageByHour::default());
    }
    let mut walk = Walk::resume(terms, clip, None);
    walk.readings(readings.iter())?;
    let memory = memory_in_force(terms.shape, last.and_then(|reading| reading.memory));
    walk.flat(Span { start: sampled, end: proven }, memory)?;
    walk.finish().map(|(_, usage)| usage)
}

#[cfg(test)]
mod tests {
    use super::{Origin, Step, Walk, memory_in_force};
    use crate::domain::id::{AccountId, RateCardId};
    use crate::domain::lease::{LEASE_MS_MAX, Shape};
    use crate::domain::meter::Terms;
    use crate::domain::money::PriceMicros;
    use crate::domain::rate_card::{PriceBook, RateCard};
    use crate::domain::sample::{COUNTER_MAX, Reading};
    use crate::domain::time::{Span, Timestamp};
    use crate::domain::units::{MebiBytes, Millicores, Vcpus};

    const SHAPE_MIB: i64 = 1_024;

    fn shape(vcpus: i64) -> Shape {
        Shape { vcpus: Vcpus::new(vcpus).unwrap(), memory: MebiBytes::new(SHAPE_MIB).unwrap() }
    }

    fn reading(at: i64, epoch: i64, cpu_usage_us: i64) -> Reading {
        Reading { at: Timestamp::from_ms(at).unwrap(), epoch, cpu_usage_us, memory: None, storage: None }
    }

    fn prices() -> PriceBook {
        let price = PriceMicros::new(1).unwrap();
        let floor = Millicores::new(50).unwrap();
        let card =
            RateCard { id: RateCardId::parse("list").unwrap(), cpu: price, memory: price, storage: price, floor };
        PriceBook::new(card, &AccountId::parse("acme").unwrap(), &[])
    }

    #[test]
    fn a_new_epoch_counts_from_zero() {
        let from = Origin::from(&reading(0, 1, 100));
        assert_eq!(from.counted_us(&reading(1, 1, 130)), 30);
        assert_eq!(from.counted_us(&reading(1, 2, 130)), 130);
        assert_eq!(from.counted_us(&reading(1, 1, 70)), 0);
    }

    #[test]
    fn the_parts_of_the_widest_step_sum_to_it() {
        let to = reading(LEASE_MS_MAX, 0, COUNTER_MAX);
        let step = Step::between(shape(1_024), Origin::from(&reading(0, 0, 0)), &to).unwrap();
        assert_eq!(step.rise_us, 1_024 * 1_000 * LEASE_MS_MAX);
        assert_eq!(step.risen_us(to.at).unwrap(), step.rise_us);
        assert_eq!(step.risen_us(Timestamp::from_ms(1).unwrap()).unwrap(), 1_024_000);
    }

    #[test]
    fn memory_is_at_most_the_leases_and_absent_means_it() {
        let force = |mib: Option<i64>| memory_in_force(shape(1), mib.and_then(MebiBytes::new)).mib();
        assert_eq!([force(None), force(Some(0)), force(Some(5)), force(Some(9_999))], [SHAPE_MIB, 0, 5, SHAPE_MIB]);
    }

    #[test]
    fn a_minute_is_open_only_while_it_is_walked_in_part() {
        let prices = prices();
        let window = Span { start: Timestamp::EPOCH, end: Timestamp::from_ms(3_600_000).unwrap() };
        let terms = Terms { window, end: window.end, proven_until: None, shape: shape(1), prices: &prices };
        let mut first = Walk::resume(&terms, window, None);
        first.step(Origin::start(window), &reading(59_999, 0, 7_000)).unwrap();
        let (open, mut posted) = first.finish().unwrap();
        assert_eq!(open.map(|open| (open.used_us, open.run_ms)), Some((7_000, 59_999)));
        let clip = Span { start: Timestamp::from_ms(59_999).unwrap(), end: window.end };
        let mut second = Walk::resume(&terms, clip, open);
        second.step(Origin::from(&reading(59_999, 0, 7_000)), &reading(60_000, 0, 7_001)).unwrap();
        let (open, more) = second.finish().unwrap();
        assert_eq!(open, None);
        posted = posted.plus(&more).unwrap();
        assert_eq!(posted.total().unwrap().cpu_us, 50 * 60_000);
        let mut idle = Walk::resume(&terms, window, None);
        idle.flat(Span { start: window.start, end: Timestamp::from_ms(120_000).unwrap() }, MebiBytes::ZERO).unwrap();
        assert_eq!(idle.finish().unwrap().0, None);
    }
}
