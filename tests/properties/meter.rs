//! The meter of a lease: equal to the slow model, whatever the order; bounded by what was held.

use std::collections::BTreeMap;

use proptest::prelude::*;
use runtab::domain::curve::evaluate;
use runtab::domain::meter::judge;
use runtab::domain::sample::{Reading, RejectCode};
use runtab::domain::time::{Day, Span};
use runtab::domain::usage::Usage;

use crate::kept::Kept;
use crate::naive;
use crate::world::{Case, cases, prices};

/// Readings and ends of a case in a drawn order, some twice.
#[derive(Clone, Debug)]
enum Event {
    Read(Reading),
    End((i64, Option<i64>)),
}

fn events() -> impl Strategy<Value = (Case, Vec<Event>)> {
    cases().prop_flat_map(|case| {
        let reads = case.readings.iter().map(|reading| Event::Read(*reading));
        let twice = case.readings.iter().step_by(3).map(|reading| Event::Read(*reading));
        let ends = case.ends.iter().map(|end| Event::End(*end));
        let all: Vec<Event> = reads.chain(twice).chain(ends).collect();
        (Just(case), Just(all).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2, ..ProptestConfig::default() })]

    #[test]
    fn the_core_equals_the_slow_model(case in cases()) {
        let prices = prices(case.floor_then);
        for end in case.ends.iter().copied().chain([case.untold()]) {
            let terms = case.terms(&prices, end);
            let usage: BTreeMap<_, _> = evaluate(&terms, &case.readings).unwrap().iter().collect();
            prop_assert_eq!(usage, naive::lease(&terms, &case.readings));
        }
    }

    #[test]
    fn in_order_equals_hindsight_at_every_step(case in cases(), told in prop::option::of(0..4_usize)) {
        let prices = prices(case.floor_then);
        let mut kept = Kept::new(&prices, &case, false);
        if let Some(end) = told.and_then(|index| case.ends.get(index)) {
            kept.move_end(*end);
            kept.check();
        }
        for reading in &case.readings {
            kept.take(*reading);
            kept.check();
        }
    }

    #[test]
    fn any_order_of_readings_and_ends_equals_hindsight((case, events) in events(), all_evidence in any::<bool>()) {
        let prices = prices(case.floor_then);
        let mut kept = Kept::new(&prices, &case, all_evidence);
        for event in events {
            match event {
                Event::Read(reading) => kept.take(reading),
                Event::End(end) => kept.move_end(end),
            }
            kept.check();
        }
    }

    #[test]
    fn in_order_nothing_costs_more_than_was_held(case in cases(), told in prop::option::of(0..4_usize)) {
        let prices = prices(case.floor_then);
        let mut kept = Kept::new(&prices, &case, false);
        if let Some(end) = told.and_then(|index| case.ends.get(index)) {
            kept.move_end(*end);
        }
        let mut bound = used_and_held(&kept);
        for reading in &case.readings {
            let before = kept.posted.clone();
            let from = kept.terms().sampled_until(kept.meter.last.as_ref());
            kept.take(*reading);
            let now = used_and_held(&kept);
            for (day, usage) in &now {
                prop_assert!(fits(*usage, bound[day]), "{day:?}: {usage:?} is more than {:?}", bound[day]);
            }
            bound = now;
            if kept.end.1.is_none() {
                let span = Span { start: from, end: kept.terms().sampled_until(kept.meter.last.as_ref()) };
                let worst = case.shape.worst_case_by_day(span).unwrap();
                for (day, usage) in kept.posted.clone().minus(&before).unwrap().by_day().unwrap() {
                    prop_assert!(fits(usage, worst[&day]));
                }
            }
        }
    }

    /// Rounding moves at most a microsecond from one minute into the next, so a minute above its floor can lose one.
    #[test]
    fn more_cpu_never_costs_less((case, index, more) in (cases(), 0..14_usize, 0..50_000_000_i64)) {
        let prices = prices(case.floor_then);
        let terms = case.terms(&prices, case.untold());
        let mut busier = case.readings.clone();
        if let Some(changed) = case.readings.get(index) {
            for reading in busier.iter_mut().skip(index).filter(|reading| reading.epoch == changed.epoch) {
                reading.cpu_usage_us += more;
            }
        }
        let less = evaluate(&terms, &case.readings).unwrap().total().unwrap();
        let more = evaluate(&terms, &busier).unwrap().total().unwrap();
        if case.readings.first().is_some_and(|first| first.at > terms.window.start) || index > 0 {
            let minutes = less.run_ms / 60_000 + 2;
            prop_assert!(more.cpu_used_us + 1 >= less.cpu_used_us);
            prop_assert!(more.cpu_us + minutes >= less.cpu_us);
        }
    }

    #[test]
    fn a_late_reading_between_consistent_neighbours_is_judged_from_both_sides(case in cases(), index in 0..14_usize) {
        let prices = prices(case.floor_then);
        let terms = case.terms(&prices, case.untold());
        let Some(reading) = case.readings.get(index) else { return Ok(()) };
        let before = index.checked_sub(1).and_then(|before| case.readings.get(before));
        let after = case.readings.get(index + 1);
        prop_assert_eq!(judge(&terms, before, after, reading), Ok(()));
        if let Some(after) = after.filter(|after| after.epoch == reading.epoch) {
            let beyond = Reading { cpu_usage_us: after.cpu_usage_us + 1, ..*reading };
            prop_assert_eq!(judge(&terms, before, Some(after), &beyond), Err(RejectCode::CounterRegressed));
            let stale = Reading { epoch: after.epoch + 1, ..*reading };
            prop_assert_eq!(judge(&terms, before, Some(after), &stale), Err(RejectCode::StaleEpoch));
        }
    }
}

/// By day: what is posted and what the lease holds beyond it.
fn used_and_held(kept: &Kept<'_>) -> BTreeMap<Day, Usage> {
    let terms = kept.terms();
    let unmetered = Span { start: terms.sampled_until(kept.meter.last.as_ref()), end: terms.end };
    let tail = kept.meter.tail(&terms).unwrap().by_day().unwrap();
    let mut sum = kept.posted.by_day().unwrap();
    for (day, worst) in kept.case.shape.worst_case_by_day(unmetered).unwrap() {
        let posted = tail.get(&day).copied().unwrap_or_default();
        let held = worst.minus_at_least_zero(posted).unwrap();
        let entry = sum.entry(day).or_default();
        *entry = entry.plus(held).unwrap();
    }
    sum
}

fn fits(usage: Usage, bound: Usage) -> bool {
    usage.run_ms <= bound.run_ms
        && usage.cpu_used_us <= bound.cpu_used_us
        && usage.cpu_us <= bound.cpu_us
        && usage.memory_mib_ms <= bound.memory_mib_ms
}
