//! Slow models, written from the specification and not from the core: exact rationals, no state, every instant asked
//! anew.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;
use num_rational::BigRational;
use runtab::domain::meter::Terms;
use runtab::domain::sample::Reading;
use runtab::domain::time::{Hour, Timestamp};
use runtab::domain::usage::Usage;

fn ratio(number: i64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

fn whole(number: &BigRational) -> i128 {
    i128::try_from(number.to_integer()).unwrap()
}

/// The points of the curve: instant and cumulative CPU, steps capped.
fn points(terms: &Terms<'_>, readings: &[Reading]) -> Vec<(i64, BigRational)> {
    let start = terms.window.start.ms();
    let mut points = Vec::new();
    let mut last: Option<(i64, i64, i64)> = None;
    if readings.first().is_none_or(|first| first.at.ms() > start) {
        points.push((start, ratio(0)));
        last = Some((start, i64::MIN, 0));
    }
    for reading in readings {
        let at = reading.at.ms();
        let rise = match last {
            None => ratio(0),
            Some((from, epoch, counter)) => {
                let begin = if epoch == reading.epoch { counter } else { 0 };
                let gained = ratio(reading.cpu_usage_us) - ratio(begin);
                let most = ratio(terms.shape.vcpus.count()) * ratio(1_000) * ratio(at - from);
                if gained < most { gained } else { most }
            }
        };
        let sum = points.last().map_or(ratio(0), |(_, sum)| sum.clone()) + rise;
        points.push((at, sum));
        last = Some((at, reading.epoch, reading.cpu_usage_us));
    }
    points
}

/// The curve at an instant: straight between points, rounded down from the point before; flat beyond the last.
fn curve_at(points: &[(i64, BigRational)], at: i64) -> BigRational {
    let (from, below) = points.iter().rev().find(|(point, _)| *point <= at).unwrap();
    match points.iter().find(|(point, _)| *point > at) {
        None => below.clone(),
        Some((to, above)) => below + ((above - below) * ratio(at - from) / ratio(to - from)).floor(),
    }
}

fn memory_at(terms: &Terms<'_>, readings: &[Reading], at: i64) -> i64 {
    let latest = readings.iter().rev().find(|reading| reading.at.ms() <= at);
    let most = terms.shape.memory.mib();
    latest.and_then(|reading| reading.memory).map_or(most, |memory| memory.mib().min(most))
}

/// A lease's usage by hour.
pub(crate) fn lease(terms: &Terms<'_>, readings: &[Reading]) -> BTreeMap<Hour, Usage> {
    let (start, end) = (terms.window.start.ms(), terms.end.ms());
    let sampled = readings.last().map_or(start, |last| last.at.ms().min(end));
    let proven = terms.proven_until.map_or(start, |until| until.ms().min(end));
    let until = start.max(sampled).max(proven);
    let points = points(terms, readings);
    let mut hours: BTreeMap<Hour, Usage> = BTreeMap::new();
    let mut minute = start / 60_000 * 60_000;
    while minute < until {
        let (from, to) = (minute.max(start), (minute + 60_000).min(until));
        let used = whole(&(curve_at(&points, to) - curve_at(&points, from)));
        let day = Timestamp::from_ms(minute).unwrap().day();
        let floor = i128::from(terms.prices.on(day).floor.count() * (to - from));
        let mut cuts: BTreeSet<i64> = readings.iter().map(|reading| reading.at.ms()).collect();
        cuts.extend([from, to]);
        let cuts: Vec<i64> = cuts.into_iter().filter(|cut| (from..=to).contains(cut)).collect();
        let memory: i128 = cuts
            .windows(2)
            .map(|pair| i128::from(memory_at(terms, readings, pair[0])) * i128::from(pair[1] - pair[0]))
            .sum();
        let hour = hours.entry(Timestamp::from_ms(minute).unwrap().hour()).or_default();
        hour.run_ms += i128::from(to - from);
        hour.cpu_used_us += used;
        hour.cpu_us += used.max(floor);
        hour.memory_mib_ms += memory;
        minute += 60_000;
    }
    hours.retain(|_, usage| !usage.is_zero());
    hours
}
