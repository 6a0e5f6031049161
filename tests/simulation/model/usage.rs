//! What a lease used and what it holds: from its samples and its end, every time anew.

use std::collections::BTreeMap;

use runtab::domain::usage::Usage;

use super::{Account, DAY, HOUR, Lease, MINUTE, minus, plus};

/// The points of the CPU curve: instant and cumulative CPU; a step counts at most what the shape makes.
fn points(lease: &Lease) -> Vec<(i64, i128)> {
    let mut points: Vec<(i64, i128)> = Vec::new();
    let mut last: Option<(i64, Option<i64>, i64)> = None;
    if lease.samples.first_key_value().is_none_or(|(at, _)| *at > lease.start) {
        points.push((lease.start, 0));
        last = Some((lease.start, None, 0));
    }
    for (at, reading) in &lease.samples {
        let rise = last.map_or(0, |(from, epoch, counter)| {
            let begin = if epoch == Some(reading.epoch) { counter } else { 0 };
            i128::from(reading.cpu - begin).clamp(0, i128::from(lease.vcpus) * 1_000 * i128::from(at - from))
        });
        points.push((*at, points.last().map_or(0, |(_, sum)| *sum) + rise));
        last = Some((*at, Some(reading.epoch), reading.cpu));
    }
    points
}

fn curve_at(points: &[(i64, i128)], at: i64) -> i128 {
    let next = points.partition_point(|(point, _)| *point <= at);
    let (from, below) = points[next - 1];
    match points.get(next) {
        None => below,
        Some((to, above)) => below + ((above - below) * i128::from(at - from)).div_euclid(i128::from(to - from)),
    }
}

/// The memory held in a span, a step function: what a sample reported holds until the next.
fn memory(lease: &Lease, from: i64, to: i64) -> i128 {
    let in_force = |reported: Option<i64>| reported.map_or(lease.memory, |mib| mib.min(lease.memory));
    let before = lease.samples.range(..=from).next_back();
    let (mut at, mut mib) = (from, in_force(before.and_then(|(_, reading)| reading.memory)));
    let mut sum = 0;
    for (cut, reading) in lease.samples.range(from + 1..to) {
        sum += i128::from(mib) * i128::from(cut - at);
        (at, mib) = (*cut, in_force(reading.memory));
    }
    sum + i128::from(mib) * i128::from(to - at)
}

/// A lease's usage by hour, with or without what its end alone proves.
pub(crate) fn by_hour(lease: &Lease, account: &Account, with_tail: bool) -> BTreeMap<i64, Usage> {
    let end = lease.effective_end();
    let sampled = lease.last_sample().unwrap_or(lease.start).min(end);
    let proven = lease.end.and_then(|end| end.proven).filter(|_| with_tail).unwrap_or(lease.start).min(end);
    let until = sampled.max(proven);
    let points = points(lease);
    let mut hours: BTreeMap<i64, Usage> = BTreeMap::new();
    let mut from = lease.start;
    while from < until {
        let to = ((from / MINUTE + 1) * MINUTE).min(until);
        let run = i128::from(to - from);
        let used = curve_at(&points, to) - curve_at(&points, from);
        let floor = i128::from(account.card(from / DAY).floor) * run;
        let part = Usage {
            run_ms: run,
            cpu_used_us: used,
            cpu_us: used.max(floor),
            memory_mib_ms: memory(lease, from, to),
            storage_mib_ms: 0,
        };
        let sum = hours.entry(from / HOUR).or_default();
        *sum = plus(*sum, part);
        from = to;
    }
    hours.retain(|_, usage| !usage.is_zero());
    hours
}

/// The worst case of a window by day: all vCPUs busy, all memory.
pub(crate) fn worst_by_day(vcpus: i64, memory: i64, window: (i64, i64)) -> BTreeMap<i64, Usage> {
    let mut days = BTreeMap::new();
    let mut from = window.0;
    while from < window.1 {
        let to = ((from / DAY + 1) * DAY).min(window.1);
        let run = i128::from(to - from);
        let cpu = i128::from(vcpus) * 1_000 * run;
        let memory_mib_ms = i128::from(memory) * run;
        days.insert(from / DAY, Usage { run_ms: run, cpu_used_us: cpu, cpu_us: cpu, memory_mib_ms, storage_mib_ms: 0 });
        from = to;
    }
    days
}

/// What a lease holds by day: the worst case of its unmetered time less what is posted for that time, never below zero.
pub(crate) fn held_by_day(lease: &Lease, account: &Account) -> BTreeMap<i64, Usage> {
    if lease.settled {
        return BTreeMap::new();
    }
    let mut days = worst_by_day(lease.vcpus, lease.memory, lease.unmetered());
    if lease.end.is_some_and(|end| end.proven.is_some()) {
        let sampled = by_hour(lease, account, false);
        for (hour, usage) in by_hour(lease, account, true) {
            let tail = minus(usage, sampled.get(&hour).copied().unwrap_or_default());
            if let Some(held) = days.get_mut(&(hour * HOUR / DAY)) {
                *held = minus(*held, tail);
            }
        }
        for held in days.values_mut() {
            let Usage { run_ms, cpu_used_us, cpu_us, memory_mib_ms, .. } = *held;
            *held = Usage {
                run_ms: run_ms.max(0),
                cpu_used_us: cpu_used_us.max(0),
                cpu_us: cpu_us.max(0),
                memory_mib_ms: memory_mib_ms.max(0),
                storage_mib_ms: 0,
            };
        }
    }
    days
}
