//! Money, rate cards and free hours against exact rationals and slow models.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use runtab::domain::cost::{Priced, tabulate};
use runtab::domain::free_hours::{Draws, Grant, post, sort_for_drawing};
use runtab::domain::id::{AccountId, GrantId, RateCardId};
use runtab::domain::lease::HourTotals;
use runtab::domain::money::{Cost, PriceMicros, UNITS_PER_MICRO, apportion};
use runtab::domain::rate_card::{PriceBook, RateCard, RateCardEntry};
use runtab::domain::time::{Day, Timestamp};
use runtab::domain::units::Millicores;
use runtab::domain::usage::Usage;

use crate::world::card;

fn ratio(numerator: i128, denominator: i128) -> BigRational {
    BigRational::new(BigInt::from(numerator), BigInt::from(denominator))
}

fn usages() -> impl Strategy<Value = Usage> {
    let part = || prop_oneof![-1_000..1_000_i128, -1_000_000_000_000_000_000..1_000_000_000_000_000_000_i128];
    (part(), part(), part()).prop_map(|(cpu_us, memory_mib_ms, storage_mib_ms)| Usage {
        cpu_us,
        memory_mib_ms,
        storage_mib_ms,
        ..Usage::ZERO
    })
}

fn cards() -> impl Strategy<Value = RateCard> {
    let price =
        || prop_oneof![Just(0), 0..100_000_i64, Just(1_000_000_000)].prop_map(|it| PriceMicros::new(it).unwrap());
    (price(), price(), price()).prop_map(|(cpu, memory, storage)| RateCard {
        id: RateCardId::parse("c").unwrap(),
        cpu,
        memory,
        storage,
        floor: Millicores::new(50).unwrap(),
    })
}

/// Microdollars by the definition of a price: per vCPU-hour and per GiB-hour.
fn exact(card: &RateCard, usage: Usage) -> BigRational {
    let price = |price: PriceMicros| i128::from(price.micros_per_hour());
    let gib_hour = 1_024 * 3_600_000;
    ratio(price(card.cpu), 1) * ratio(usage.cpu_us, 3_600_000_000)
        + ratio(price(card.memory), 1) * ratio(usage.memory_mib_ms, gib_hour)
        + ratio(price(card.storage), 1) * ratio(usage.storage_mib_ms, gib_hour)
}

fn day(index: i64) -> Day {
    Day::from_index(index).unwrap()
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let one = (0..5_000_000_i64, 0..4_i64, prop::option::of(1..4_i64));
    prop::collection::vec(one, 0..5).prop_map(|all| {
        let grant = |(index, (granted_ms, starts, lasts)): (usize, (i64, i64, Option<i64>))| Grant {
            account: AccountId::parse("acme").unwrap(),
            id: GrantId::parse(&format!("g{index}")).unwrap(),
            granted_ms,
            used_ms: 0,
            starts_on: day(starts),
            expires_on: lasts.map(|lasts| day(starts + lasts)),
            note: String::new(),
            created_at: Timestamp::EPOCH,
        };
        let mut all: Vec<Grant> = all.into_iter().enumerate().map(grant).collect();
        sort_for_drawing(&mut all);
        all
    })
}

proptest! {
    #[test]
    fn a_price_is_the_exact_rational(card in cards(), usage in usages()) {
        let cost = card.price(usage).unwrap();
        prop_assert_eq!(ratio(cost.units(), UNITS_PER_MICRO), exact(&card, usage));
        if let (Ok(down), Ok(up)) = (cost.floor(), cost.ceil()) {
            let (down, up) = (ratio(down.count().into(), 1), ratio(up.count().into(), 1));
            prop_assert_eq!((down, up), (exact(&card, usage).floor(), exact(&card, usage).ceil()));
        }
    }

    #[test]
    fn a_price_is_linear(card in cards(), left in usages(), right in usages()) {
        let sum = card.price(left.plus(right).unwrap()).unwrap();
        prop_assert_eq!(card.price(left).unwrap().plus(card.price(right).unwrap()).unwrap(), sum);
    }

    /// Whatever the rows: the parts sum to the total, each within a microdollar of its exact cost, and no row with a
    /// larger remainder is rounded down while one with a smaller is rounded up.
    #[test]
    fn apportioned_parts_sum_to_the_total(units in prop::collection::vec(-5_000_000_000_000..5_000_000_000_000_i128, 1..30)) {
        let rows: Vec<Cost> = units.iter().map(|units| Cost::from_units(*units)).collect();
        let total = Cost::from_units(units.iter().sum()).floor().unwrap();
        let parts = apportion(total, &rows).unwrap();
        prop_assert_eq!(parts.iter().map(|part| part.count()).sum::<i64>(), total.count());
        let mut up_at_least = UNITS_PER_MICRO;
        let mut down_at_most = 0;
        for (part, exact) in parts.iter().zip(&units) {
            let rest = exact.rem_euclid(UNITS_PER_MICRO);
            let rounded = i128::from(part.count()) - exact.div_euclid(UNITS_PER_MICRO);
            prop_assert!(rounded == 0 || rounded == 1);
            if rounded == 1 { up_at_least = up_at_least.min(rest) } else { down_at_most = down_at_most.max(rest) }
        }
        prop_assert!(up_at_least >= down_at_most || up_at_least == UNITS_PER_MICRO);
    }

    #[test]
    fn a_table_adds_up(rows in prop::collection::vec((0..5_000_000_000_000_i128, 0..=1_000_i128, any::<bool>()), 0..30)) {
        let rows: Vec<Priced> = rows
            .into_iter()
            .map(|(units, free_part, corrects)| {
                let list = if corrects { -units } else { units };
                let net = list - list * free_part / 1_000;
                Priced { usage: Usage::ZERO, list: Cost::from_units(list), net: Cost::from_units(net) }
            })
            .collect();
        let (total, shown, parts) = tabulate(&rows).unwrap();
        prop_assert_eq!(shown, total.amounts().unwrap());
        let sum = |of: fn(&runtab::domain::cost::Amounts) -> i64| parts.iter().map(of).sum::<i64>();
        prop_assert_eq!(sum(|part| part.net.count()), shown.net.count());
        prop_assert_eq!(sum(|part| part.free.count()), shown.free.count());
        prop_assert_eq!(sum(|part| part.list.count()), shown.list.count());
        for (part, row) in parts.iter().zip(&rows) {
            let near = |shown: i64, exact: i128| (i128::from(shown) * UNITS_PER_MICRO - exact).abs() < UNITS_PER_MICRO;
            prop_assert!(near(part.net.count(), row.net.units()));
            prop_assert!(near(part.free.count(), row.list.units() - row.net.units()));
            prop_assert_eq!(part.list.count(), part.net.count() + part.free.count());
        }
    }

    /// On every day the latest entry of the account at or before it, unless that returns to the default: then the
    /// latest default one, else the list.
    #[test]
    fn every_day_has_exactly_one_card(entries in prop::collection::btree_map((0..3_u8, 0..20_i64), any::<bool>(), 0..12), on in 0..22_i64) {
        let account = |index: u8| (index > 0).then(|| AccountId::parse(&format!("a{index}")).unwrap());
        let entry = |((scope, from), has_card): (&(u8, i64), &bool)| RateCardEntry {
            account: account(*scope),
            effective_on: day(*from),
            card: (*has_card || *scope == 0).then(|| card(&format!("c{scope}-{from}"), 50)),
            created_at: Timestamp::EPOCH,
        };
        let all: Vec<RateCardEntry> = entries.iter().map(entry).collect();
        let book = PriceBook::new(card("list", 50), &account(1).unwrap(), &all);
        let latest = |scope: u8| (0..=on).rev().find_map(|from| entries.get(&(scope, from)).map(|has| (from, *has)));
        let default = latest(0).map_or("list".to_owned(), |(from, _)| format!("c0-{from}"));
        let expected = match latest(1) {
            Some((from, true)) => format!("c1-{from}"),
            Some((_, false)) | None => default,
        };
        prop_assert_eq!(book.on(day(on)).id.as_str(), expected);
    }

    /// Never more drawn than granted, only on days that a grant pays on, none withheld, and the free part is in
    /// proportion, rounded down.
    #[test]
    fn free_time_is_drawn_as_far_as_there_is(mut all in grants(), posts in prop::collection::vec((0..96_i64, 0..3_600_000_i64, 0..9_000_i64), 0..20)) {
        let mut hours: std::collections::BTreeMap<i64, (HourTotals, Draws)> = std::collections::BTreeMap::new();
        for (hour, run_ms, rate) in posts {
            let at = runtab::domain::time::Hour::from_index(hour).unwrap();
            let (before, mut draws) = hours.remove(&hour).unwrap_or_default();
            let now = Usage { run_ms: run_ms.into(), cpu_us: i128::from(rate * run_ms), memory_mib_ms: i128::from(run_ms), ..Usage::ZERO };
            let after = post(at, before, now.minus(before.usage).unwrap(), &mut all, &mut draws).unwrap();
            prop_assert_eq!(after.usage, now);
            let pays = |grant: &&Grant| grant.pays_on(at.day());
            let left: i64 = all.iter().filter(pays).map(Grant::left_ms).sum();
            prop_assert!(after.free_ms == after.usage.run_ms || left == 0, "withheld");
            prop_assert!(after.free_ms <= after.usage.run_ms);
            if run_ms > 0 {
                prop_assert_eq!(after.free.cpu_us, (now.cpu_us * after.free_ms).div_euclid(now.run_ms));
                prop_assert_eq!(after.free.memory_mib_ms, (now.memory_mib_ms * after.free_ms).div_euclid(now.run_ms));
            }
            prop_assert_eq!(draws.iter().map(|(_, ms)| i128::from(*ms)).sum::<i128>(), after.free_ms);
            hours.insert(hour, (after, draws));
            for grant in &all {
                prop_assert!((0..=grant.granted_ms).contains(&grant.used_ms));
                let mut drawn = 0;
                for (hour, (_, draws)) in &hours {
                    for (_, ms) in draws.iter().filter(|(id, ms)| *id == grant.id && *ms > 0) {
                        prop_assert!(grant.pays_on(day(hour / 24)));
                        drawn += ms;
                    }
                }
                prop_assert_eq!(drawn, grant.used_ms);
            }
        }
    }
}
