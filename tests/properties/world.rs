//! Values that the tests are made of, and how they are drawn.

use proptest::prelude::*;
use runtab::domain::id::{AccountId, RateCardId};
use runtab::domain::lease::Shape;
use runtab::domain::meter::Terms;
use runtab::domain::money::PriceMicros;
use runtab::domain::rate_card::{PriceBook, RateCard, RateCardEntry};
use runtab::domain::sample::Reading;
use runtab::domain::time::{Day, Span, Timestamp};
use runtab::domain::units::{MebiBytes, Millicores, Vcpus};
use runtab::domain::usage::Usage;

/// 2026-11-02T00:00:00Z: the day on which the second card of [`prices`] takes effect.
pub(crate) fn midnight() -> i64 {
    Day::from_ymd(2026, 11, 2).unwrap().start().ms()
}

pub(crate) fn ts(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

pub(crate) fn shape(vcpus: i64, memory_mib: i64) -> Shape {
    Shape { vcpus: Vcpus::new(vcpus).unwrap(), memory: MebiBytes::new(memory_mib).unwrap() }
}

pub(crate) fn card(id: &str, floor: i64) -> RateCard {
    let price = |micros| PriceMicros::new(micros).unwrap();
    RateCard {
        id: RateCardId::parse(id).unwrap(),
        cpu: price(25_000),
        memory: price(7_500),
        storage: price(108),
        floor: Millicores::new(floor).unwrap(),
    }
}

/// The list prices, and from [`midnight`] on a card with another floor.
pub(crate) fn prices(floor_then: i64) -> PriceBook {
    let entry = RateCardEntry {
        account: None,
        effective_on: ts(midnight()).day(),
        card: Some(card("next", floor_then)),
        created_at: ts(0),
    };
    PriceBook::new(card("list", 50), &AccountId::parse("acme").unwrap(), &[entry])
}

pub(crate) fn list_micros(prices: &PriceBook, usage: Usage) -> i64 {
    prices.price(ts(0).day(), usage).unwrap().floor().unwrap().count()
}

pub(crate) fn reading(at: i64, epoch: i64, cpu_usage_us: i64) -> Reading {
    Reading { at: ts(at), epoch, cpu_usage_us, memory: None, storage: None }
}

/// A lease whose readings are a consistent set (but for steps that are merely too large, which are capped).
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) start: i64,
    pub(crate) granted: i64,
    pub(crate) shape: Shape,
    pub(crate) floor_then: i64,
    pub(crate) readings: Vec<Reading>,
    /// Ends as they are told: the effective end and what is proven.
    pub(crate) ends: Vec<(i64, Option<i64>)>,
}

impl Case {
    pub(crate) fn terms<'a>(&self, prices: &'a PriceBook, end: (i64, Option<i64>)) -> Terms<'a> {
        Terms {
            window: Span { start: ts(self.start), end: ts(self.granted.max(end.0)) },
            end: ts(end.0),
            proven_until: end.1.map(ts),
            shape: self.shape,
            prices,
        }
    }

    /// Without a baseline that changes what the first reading is measured from, and as no drawn step takes up the
    /// slack of a whole vCPU-second, each reading is plausible whichever others are there.
    pub(crate) fn is_acceptable_in_any_order(&self) -> bool {
        self.readings.first().is_none_or(|first| first.at.ms() >= self.start)
    }

    pub(crate) fn untold(&self) -> (i64, Option<i64>) {
        (self.granted, None)
    }
}

/// How a reading differs from the one before it: time on, how busy (per mille of what the shape makes), new epoch,
/// memory, and whether it lies on a minute's boundary.
type Move = (i64, i64, u8, Option<i64>, u8);

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let gap = prop_oneof![6 => 1..20_000_i64, 3 => 20_000..150_000_i64, 1 => 150_000..20_000_000_i64];
    let busy = prop_oneof![2 => Just(0_i64), 3 => 0..80_i64, 3 => 0..=1_000_i64, 1 => 1_000..=2_000_i64];
    let memory = prop_oneof![3 => Just(None), 2 => (0..2_000_i64).prop_map(Some)];
    prop::collection::vec((gap, busy, 0..8_u8, memory, 0..4_u8), 0..14)
}

/// Leases around [`midnight`], from a second to some hours long.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let length = prop_oneof![1_000..400_000_i64, 1_000..20_000_000_i64];
    let ends = prop::collection::vec((0..=1_000_i64, prop::option::of(0..=1_000_i64)), 0..4);
    let base = (-900_000..120_000_i64, length, 1..5_i64, 1..2_048_i64, prop_oneof![Just(0), 0..=1_000_i64]);
    (base, moves(), -61_000..90_000_i64, 0..500_000_i64, ends).prop_map(|(base, moves, first, counter, ends)| {
        let (offset, length, vcpus, memory, floor_then) = base;
        let start = midnight() + offset;
        let granted = start + length;
        let readings = readings(start, granted, vcpus, first, counter, &moves);
        // An end lies anywhere in the window or a little beyond it (an extension); it proves up to anywhere before it.
        let told = |(end, proven): (i64, Option<i64>)| {
            let end = start + length * end / 900;
            (end, proven.map(|proven| start + (end - start) * proven / 800))
        };
        let ends = ends.into_iter().map(told).collect();
        Case { start, granted, shape: shape(vcpus, memory), floor_then, readings, ends }
    })
}

fn readings(start: i64, granted: i64, vcpus: i64, first: i64, counter: i64, moves: &[Move]) -> Vec<Reading> {
    let (mut at, mut epoch, mut counter) = ((start + first).max(start - 60_000), 0, counter);
    let mut all: Vec<Reading> = Vec::new();
    for (index, (gap, busy, renew, memory, snap)) in moves.iter().enumerate() {
        if index > 0 {
            let before = at;
            at += gap;
            if *snap == 0 && at / 60_000 * 60_000 > before {
                at = at / 60_000 * 60_000;
            }
            let made = i64::try_from(i128::from(vcpus) * i128::from(*busy) * i128::from(at - before)).unwrap();
            if *renew == 0 {
                (epoch, counter) = (epoch + 1 + gap % 3, 0);
            }
            counter += made;
        }
        if at > granted + 60_000 {
            break;
        }
        let memory = memory.map(|mib| MebiBytes::new(mib).unwrap());
        all.push(Reading { at: ts(at), epoch, cpu_usage_us: counter, memory, storage: None });
    }
    all
}
