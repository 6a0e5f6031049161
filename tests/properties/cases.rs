//! Golden figures of the design, and faults of real systems as cases with their right value.

use runtab::domain::curve::evaluate;
use runtab::domain::meter::{Meter, Terms, judge, replay};
use runtab::domain::rate_card::PriceBook;
use runtab::domain::sample::{Reading, RejectCode};
use runtab::domain::time::Span;
use runtab::domain::units::MebiBytes;
use runtab::domain::usage::{Usage, UsageByHour};

use crate::kept::Kept;
use crate::world::{Case, list_micros, midnight, prices, reading, shape, ts};

const START: i64 = 1_793_534_400_000 + 7 * 3_600_000;
const SECOND: i64 = 1_000;

/// A lease from [`START`] on for `seconds`, and readings as (seconds after the start, counter in microseconds).
fn plain(vcpus: i64, memory_mib: i64, seconds: i64, readings: &[(i64, i64)]) -> Case {
    Case {
        start: START,
        granted: START + seconds * SECOND,
        shape: shape(vcpus, memory_mib),
        floor_then: 50,
        readings: readings.iter().map(|(at, cpu)| reading(START + at * SECOND, 0, *cpu)).collect(),
        ends: Vec::new(),
    }
}

fn metered<'a>(prices: &'a PriceBook, case: &Case) -> Kept<'a> {
    let mut kept = Kept::new(prices, case, false);
    for reading in &case.readings {
        kept.take(*reading);
    }
    kept.check();
    kept
}

/// A reading each `every` seconds from 0 to `seconds`, at a constant rate.
fn steady(every: i64, seconds: i64, millicores: i64) -> Vec<(i64, i64)> {
    (0..=seconds / every).map(|index| (index * every, index * every * millicores * 1_000)).collect()
}

#[test]
fn golden_figures_at_list_prices() {
    let list = prices(50);
    let micros = |case: &Case| metered(&list, case).micros();
    assert_eq!(micros(&plain(2, 4_096, 3_600, &steady(60, 3_600, 0))), 31_250);
    assert_eq!(micros(&plain(2, 4_096, 3_600, &steady(10, 3_600, 2_000))), 80_000);
    assert_eq!(micros(&plain(1, 512, 600, &steady(10, 600, 300))), 1_875);
    assert_eq!(micros(&plain(2, 4_096, 1, &[(1, 0)])), 8);
    assert_eq!(micros(&plain(1, 128, 86_400, &steady(1, 86_400, 0))), 52_500);
    assert_eq!(micros(&plain(2, 4_096, 216_000, &steady(600, 216_000, 0))), 312_500 + 1_562_500);
}

#[test]
fn golden_figures_of_the_floor() {
    let list = prices(50);
    let alternating = |every: i64| {
        let cpu = |at: i64| 6_000_000 * (at / 120) + 100_000 * (at % 120 - 60).max(0);
        (0..=3_600 / every).map(|index| (index * every, cpu(index * every))).collect::<Vec<_>>()
    };
    for every in [60, 20, 1] {
        assert_eq!(metered(&list, &plain(1, 512, 3_600, &alternating(every))).cpu_micros(), 1_875);
    }
    let burst: Vec<_> = (0..=60).map(|minute| (minute * 60, if minute < 31 { 0 } else { 120_000_000 })).collect();
    assert_eq!(metered(&list, &plain(2, 512, 3_600, &burst)).cpu_micros(), 2_062);
}

#[test]
fn s4_order_does_not_matter() {
    let list = prices(50);
    let minutes = [(0, 0), (60, 60_000_000), (120, 120_000_000), (180, 180_000_000)];
    let mut orders = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            (0..4).filter(|next| !order.contains(next)).map(|next| [&order[..], &[next]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    assert_eq!(orders.len(), 24);
    for order in orders {
        let readings: Vec<_> = order.iter().map(|index| minutes[*index]).collect();
        assert_eq!(metered(&list, &plain(1, 1_024, 3_600, &readings)).cpu_micros(), 1_250);
    }
}

#[test]
fn s5_a_new_epoch_counts_from_zero_and_a_counter_that_goes_back_is_rejected() {
    let list = prices(50);
    let mut case = plain(2, 1_024, 3_600, &[]);
    let seen = [(300, 0, 100), (600, 0, 350), (900, 1, 50), (1_200, 1, 90)];
    case.readings = seen.iter().map(|(at, epoch, cpu)| reading(START + at * SECOND, *epoch, cpu * 1_000_000)).collect();
    assert_eq!(metered(&list, &case).posted.total().unwrap().cpu_used_us, 440_000_000);

    let case = plain(2, 1_024, 3_600, &[(0, 100_000_000), (120, 103_000_000)]);
    let kept = metered(&list, &case);
    let zero = reading(START + 60 * SECOND, 0, 0);
    let (before, after) = (&case.readings[0], &case.readings[1]);
    assert_eq!(judge(&kept.terms(), Some(before), None, &zero), Err(RejectCode::CounterRegressed));
    assert_eq!(judge(&kept.terms(), Some(before), Some(after), &zero), Err(RejectCode::CounterRegressed));
    assert_eq!(kept.posted.total().unwrap().cpu_us, 6_000_000);
}

#[test]
fn s6_short_lives_are_billed() {
    let list = prices(50);
    let case = plain(1, 1_024, 3_600, &[(10, 8_000_000), (12, 9_500_000)]);
    let mut kept = metered(&list, &case);
    kept.move_end((START + 12 * SECOND, Some(START + 12 * SECOND)));
    kept.check();
    assert_eq!(kept.micros(), 90);
    let mut kept = Kept::new(&list, &plain(1, 1_024, 3_600, &[]), false);
    kept.move_end((START + 3 * SECOND, Some(START + 3 * SECOND)));
    kept.check();
    assert_eq!(kept.micros(), 7);
}

#[test]
fn s7_lost_samples_lose_nothing() {
    let list = prices(50);
    let all = steady(60, 3_600, 700);
    let some: Vec<_> = all.iter().copied().filter(|(at, _)| !(1_200..1_800).contains(at)).collect();
    assert_eq!(some.len(), all.len() - 10);
    let (all, some) = (metered(&list, &plain(2, 4_096, 3_600, &all)), metered(&list, &plain(2, 4_096, 3_600, &some)));
    assert_eq!(all.posted, some.posted);
    let memory_mib_ms = some.posted.total().unwrap().memory_mib_ms;
    assert_eq!(list_micros(&list, Usage { memory_mib_ms, ..Usage::ZERO }), 30_000);
}

#[test]
fn s12_suspended_time_is_not_running_time() {
    let list = prices(50);
    let mut case = plain(1, 4_096, 600, &steady(60, 600, 0));
    let first = metered(&list, &case).posted;
    case.start += 3_600_000;
    case.granted += 3_600_000;
    case.readings =
        case.readings.iter().map(|seen| Reading { at: seen.at.plus_ms(3_600_000).unwrap(), ..*seen }).collect();
    let both = first.plus(&metered(&list, &case).posted).unwrap();
    assert_eq!(list_micros(&list, both.total().unwrap()), 10_416);
}

#[test]
fn s13_an_orphan_is_billed_to_its_last_sample() {
    let list = prices(50);
    let case = plain(1, 4_096, 86_400, &steady(60, 600, 1_000));
    let kept = metered(&list, &case);
    assert_eq!(kept.posted.total().unwrap().run_ms, 600_000);
    assert!(kept.meter.tail(&kept.terms()).unwrap().is_empty());
}

#[test]
fn s14_readings_after_the_end_are_not_billed() {
    let list = prices(50);
    let case = plain(2, 4_096, 3_600, &steady(60, 1_200, 1_500));
    let end = (START + 600 * SECOND, Some(START + 600 * SECOND));
    let mut told_after = metered(&list, &case);
    told_after.move_end(end);
    let mut told_before = Kept::new(&list, &case, false);
    told_before.move_end(end);
    case.readings.iter().for_each(|reading| told_before.take(*reading));
    let to_end = metered(&list, &plain(2, 4_096, 3_600, &steady(60, 600, 1_500)));
    assert_eq!((&told_after.posted, &told_before.posted), (&to_end.posted, &to_end.posted));
}

#[test]
fn s16_a_counter_that_goes_on_is_no_harm() {
    let list = prices(50);
    let idle: Vec<_> = (0..=60).map(|minute| (minute * 60, 1_800_000_000)).collect();
    let case = plain(1, 1_024, 3_600, &idle);
    let kept = metered(&list, &case);
    assert_eq!(kept.cpu_micros(), 1_250);
    assert_eq!(judge(&kept.terms(), None, None, &case.readings[0]), Ok(()));
    assert_eq!(judge(&kept.terms(), None, Some(&case.readings[1]), &case.readings[0]), Ok(()));
    assert_eq!(judge(&kept.terms(), None, None, &case.readings[1]), Err(RejectCode::CpuImplausible));
}

#[test]
fn s17_the_end_and_the_last_sample_race() {
    let list = prices(50);
    let case = plain(2, 4_096, 3_600, &steady(300, 900, 1_234));
    let end = (START + 500 * SECOND, Some(START + 500 * SECOND));
    let bills = (0..=case.readings.len()).map(|told_after| {
        let mut kept = Kept::new(&list, &case, false);
        for (index, reading) in case.readings.iter().enumerate() {
            if index == told_after {
                kept.move_end(end);
            }
            kept.take(*reading);
            kept.check();
        }
        if told_after == case.readings.len() {
            kept.move_end(end);
        }
        kept.check();
        kept.posted
    });
    let bills: Vec<_> = bills.collect();
    assert!(bills.iter().all(|bill| *bill == bills[0]));
    assert_eq!(bills[0].total().unwrap().run_ms, 500_000);
}

#[test]
fn m2_a_sample_each_millisecond_counts_exactly() {
    let list = prices(50);
    let case = plain(1, 1_024, 3_600, &[]);
    let terms = case.terms(&list, case.untold());
    let readings: Vec<_> = (0..=3_600_000).map(|ms| reading(START + ms, 0, ms * 1_000)).collect();
    let whole = evaluate(&terms, &readings).unwrap();
    let mut meter = Meter::default();
    let mut posted = UsageByHour::default();
    for reading in &readings {
        let (next, delta) = meter.take(&terms, *reading).unwrap();
        (meter, posted) = (next, posted.plus(&delta).unwrap());
    }
    assert_eq!(whole, posted);
    let cpu_us = whole.total().unwrap().cpu_us;
    assert_eq!(list_micros(&list, Usage { cpu_us, ..Usage::ZERO }), 25_000);
}

#[test]
fn m2_a_random_order_counts_the_same() {
    let list = prices(50);
    let count = 1_009;
    let shuffled: Vec<_> = (1..=count).map(|index| index * 619 % (count + 1)).collect();
    let mut case = plain(1, 1_024, 3_600, &[]);
    case.readings = shuffled.iter().map(|ms| reading(START + 59_500 + ms, 0, (59_500 + ms) * 1_000)).collect();
    let final_one = case.readings.iter().max_by_key(|reading| reading.at).copied().unwrap();
    assert_eq!(
        metered(&list, &case).posted.total(),
        metered(&list, &Case { readings: vec![final_one], ..case }).posted.total()
    );
}

#[test]
fn a_step_of_31_days_is_split_by_minute_and_by_price() {
    let prices = prices(1_000);
    let days = 31 * 86_400;
    let start = midnight() - 86_400_000 + 30_500;
    let mut case = plain(2, 1_024, days, &[]);
    (case.start, case.granted) = (start, start + days * SECOND);
    let terms = case.terms(&prices, case.untold());
    let last = reading(start + days * SECOND, 0, days * 500_000);
    let (meter, posted) = Meter::default().take(&terms, last).unwrap();
    assert_eq!(meter, replay(&terms, &[last]).unwrap().0);
    let total = posted.total().unwrap();
    assert_eq!(total.cpu_used_us, i128::from(days) * 500_000);
    // At 500 millicores until midnight, and at the next card's floor of 1,000 after it.
    let first_day = i128::from(86_400_000 - 30_500);
    assert_eq!(total.cpu_us, first_day * 500 + (i128::from(days) * 1_000 - first_day) * 1_000);
}

#[test]
fn a_late_baseline_takes_the_place_of_the_implicit_start() {
    let list = prices(50);
    let case = plain(2, 1_024, 3_600, &[(30, 20_000_000), (90, 80_000_000), (-20, 0)]);
    let kept = metered(&list, &case);
    // 20 s over the 50 s from the baseline on: 8 of them before the start.
    assert_eq!(kept.posted.total().unwrap().cpu_used_us, 72_000_000);
    let memory = Reading { memory: MebiBytes::new(512), ..reading(START - 5 * SECOND, 0, 6_000_000) };
    let mut kept = kept;
    kept.take(memory);
    kept.check();
    assert_eq!(kept.posted.total().unwrap().memory_mib_ms, 30_000 * 512 + 60_000 * 1_024);
}

#[test]
fn a_reading_past_the_granted_end_counts_when_the_lease_is_extended() {
    let list = prices(50);
    let case = plain(1, 1_024, 600, &[(550, 300_000_000), (640, 390_000_000)]);
    let mut kept = metered(&list, &case);
    assert_eq!(kept.posted.total().unwrap().run_ms, 600_000);
    kept.case.granted += 3_600_000;
    let granted = kept.case.granted;
    // The terms before the extension are those of the old window.
    let before = Terms { window: Span { start: ts(START), end: ts(case.granted) }, ..case.terms(&list, case.untold()) };
    let after = kept.case.terms(&list, (granted, None));
    let around = kept.evidence(kept.meter.end_evidence_span(&before, &after).unwrap());
    let (meter, delta) = kept.meter.move_end(&before, &after, &around).unwrap();
    kept.end = (granted, None);
    kept.moved(meter, &delta);
    kept.check();
    assert_eq!(kept.posted.total().unwrap().run_ms, 640_000);
}

#[test]
fn implausible_steps_are_rejected_from_both_sides() {
    let list = prices(50);
    let case = plain(1, 1_024, 3_600, &[]);
    let terms = case.terms(&list, case.untold());
    let at = |second: i64, cpu: i64| reading(START + second * SECOND, 0, cpu);
    let code = Err(RejectCode::CpuImplausible);
    assert_eq!(judge(&terms, None, None, &at(10, 21_000_000)), Ok(()));
    assert_eq!(judge(&terms, None, None, &at(10, 21_000_001)), code);
    assert_eq!(judge(&terms, Some(&at(10, 5)), None, &at(20, 21_000_005)), Ok(()));
    assert_eq!(judge(&terms, Some(&at(10, 5)), None, &at(20, 21_000_006)), code);
    assert_eq!(judge(&terms, Some(&at(10, 0)), Some(&at(30, 40_000_000)), &at(29, 0)), code);
    assert_eq!(judge(&terms, None, Some(&at(1, 4_000_000)), &at(-30, 0)), Ok(()));
    assert_eq!(judge(&terms, None, Some(&at(1, 64_000_000)), &at(-30, 0)), code);
    let restarted = Reading { epoch: 7, ..at(20, 21_000_001) };
    assert_eq!(judge(&terms, Some(&at(10, 900_000_000)), None, &restarted), code);
}
