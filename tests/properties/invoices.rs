//! Invoices: lines that add up whatever is on them, and credit that is never drawn beyond what was granted.

use std::collections::BTreeMap;

use proptest::prelude::*;
use runtab::domain::credit::{Credit, CreditBook};
use runtab::domain::id::{AccountId, GrantId};
use runtab::domain::invoice::{Head, Invoice, Item};
use runtab::domain::lease::HourTotals;
use runtab::domain::money::{Cost, Micros, UNITS_PER_MICRO, apportion};
use runtab::domain::rate_card::PriceBook;
use runtab::domain::tax::TaxRate;
use runtab::domain::time::{Day, Month, Timestamp};
use runtab::domain::usage::Usage;

use crate::world::card;

const DAYS: i64 = 8;
const COUNT: usize = 8;

fn day(index: i64) -> Day {
    Day::from_index(index).unwrap()
}

fn at(place: usize) -> Day {
    day(i64::try_from(place).unwrap())
}

fn micros(count: i64) -> Micros {
    Micros::new(count).unwrap()
}

fn account() -> AccountId {
    AccountId::parse("acme").unwrap()
}

fn credits() -> impl Strategy<Value = Vec<Credit>> {
    let one = (1..60_i64, 0..DAYS, prop::option::of(1..DAYS));
    prop::collection::vec(one, 0..5).prop_map(|all| {
        let credit = |(index, (granted, starts, lasts)): (usize, (i64, i64, Option<i64>))| Credit {
            account: account(),
            id: GrantId::parse(&format!("c{index}")).unwrap(),
            granted: micros(granted),
            starts_on: day(starts),
            expires_on: lasts.map(|lasts| day(starts + lasts)),
            note: String::new(),
            created_at: Timestamp::EPOCH,
        };
        all.into_iter().enumerate().map(credit).collect()
    })
}

/// The most that credits could pay for days, in any order: the smallest cut.
fn most(credits: &[Credit], wanted: &[i64]) -> i64 {
    let cut = |chosen: u32| {
        let is_chosen = |place: usize| chosen & (1 << place) != 0;
        let others: i64 =
            wanted.iter().enumerate().filter(|(place, _)| !is_chosen(*place)).map(|(_, wanted)| wanted).sum();
        let pays = |credit: &&Credit| (0..wanted.len()).any(|place| is_chosen(place) && credit.pays_on(at(place)));
        others + credits.iter().filter(pays).map(|credit| credit.granted.count()).sum::<i64>()
    };
    (0..1_u32 << wanted.len()).map(cut).min().unwrap()
}

fn by_day(amounts: &[i64]) -> Vec<(Day, Micros)> {
    amounts.iter().enumerate().map(|(place, amount)| (at(place), micros(*amount))).collect()
}

fn costs(units: &[i128]) -> BTreeMap<Day, Cost> {
    units.iter().enumerate().map(|(place, units)| (at(place), Cost::from_units(*units))).collect()
}

proptest! {
    /// Over any invoices, with corrections and with what is carried over: never more than granted, only for the days of
    /// a credit, never more given back than drawn, and no invoice is paid below zero.
    #[test]
    fn credit_is_drawn_within_its_grants_and_days(
        all in credits(),
        invoices in prop::collection::vec((prop::collection::vec(-40..60_i64, COUNT), -30..=0_i64), 0..6),
    ) {
        let mut book = CreditBook::new(all.clone());
        let mut drawn: BTreeMap<(Day, GrantId), i64> = BTreeMap::new();
        for (amounts, carried) in invoices {
            let base = amounts.iter().sum::<i64>() + carried;
            let draws = book.draw(&by_day(&amounts), micros(base)).unwrap();
            let (mut paid, mut back) = (0, 0);
            for draw in draws {
                let amount = draw.amount.count();
                let sum = drawn.entry((draw.day, draw.credit.clone())).or_default();
                *sum += amount;
                prop_assert!(*sum >= 0 && amount != 0);
                let credit = all.iter().find(|credit| credit.id == draw.credit).unwrap();
                prop_assert!(credit.pays_on(draw.day));
                if amount > 0 { paid += amount } else { back -= amount }
            }
            prop_assert!(paid <= (base + back).max(0), "paid {} of {} and {} back", paid, base, back);
        }
        for (credit, used) in book.credits() {
            let sum: i64 = drawn.iter().filter(|((_, id), _)| *id == credit.id).map(|(_, amount)| amount).sum();
            prop_assert_eq!(sum, used.count());
            prop_assert!((0..=credit.granted.count()).contains(&sum));
        }
        let balance = book.balance(day(3)).unwrap();
        let left = balance.granted.count() - balance.used.count() - balance.expired.count();
        prop_assert_eq!(left, balance.remaining.count());
    }

    /// Days ascending, the soonest expiry first, pays as much as any order could.
    #[test]
    fn no_order_of_drawing_pays_more(all in credits(), wanted in prop::collection::vec(0..60_i64, COUNT)) {
        let sum = micros(wanted.iter().sum());
        let draws = CreditBook::new(all.clone()).draw(&by_day(&wanted), sum).unwrap();
        prop_assert_eq!(draws.iter().map(|draw| draw.amount.count()).sum::<i64>(), most(&all, &wanted));
    }

    /// What the gate says yes to is paid, whatever part of it is used in the end: no more is left to pay than was before.
    #[test]
    fn what_the_gate_covers_the_invoice_pays(
        all in credits(),
        pending in prop::collection::vec(0..30 * UNITS_PER_MICRO, COUNT),
        needed in prop::collection::vec((0..20 * UNITS_PER_MICRO, 0..=100_i128), COUNT),
    ) {
        let book = CreditBook::new(all);
        let mut needed = needed;
        let worst = |needed: &[(i128, i128)]| costs(&needed.iter().map(|(units, _)| *units).collect::<Vec<_>>());
        // Less is asked for until the gate says yes.
        while book.covers(&costs(&pending), &worst(&needed)).unwrap().is_err() {
            needed.iter_mut().rev().find(|(units, _)| *units > 0).unwrap().0 = 0;
        }
        let ceil = |units: &i128| Cost::from_units(*units).ceil().unwrap().count();
        let owed: Vec<i64> = pending.iter().map(ceil).collect();
        let unpaid = |amounts: &[i64]| {
            let sum: i64 = amounts.iter().sum();
            let draws = book.clone().draw(&by_day(amounts), micros(sum)).unwrap();
            sum - draws.iter().map(|draw| draw.amount.count()).sum::<i64>()
        };
        let used = pending.iter().zip(&needed).map(|(pending, (units, percent))| pending + units * percent / 100);
        let used: Vec<Cost> = used.map(Cost::from_units).collect();
        let sum = used.iter().try_fold(Cost::ZERO, |sum, cost| sum.plus(*cost)).unwrap().floor().unwrap();
        let amounts: Vec<i64> = apportion(sum, &used).unwrap().into_iter().map(Micros::count).collect();
        prop_assert!(unpaid(&amounts) <= unpaid(&owed));
    }

    /// Whatever is on an invoice: its lines sum to the total, which is never below zero; tax is rounded once, on the sum
    /// of all other lines; and what is carried forward is what is left of a sum below zero.
    #[test]
    fn lines_sum_to_the_total(
        all in credits(),
        days in prop::collection::vec((-900_000..900_000_i128, 0..900_000_000_i128, 0..100_i128), COUNT),
        carried in -50..=0_i64,
        bps in prop::option::of(0..=10_000_i64),
    ) {
        let totals = |(cpu_us, memory_mib_ms, free): (i128, i128, i128)| {
            let usage = Usage { run_ms: 100, cpu_used_us: cpu_us / 2, cpu_us, memory_mib_ms, storage_mib_ms: 777_777 };
            HourTotals { usage, free_ms: free, free: usage.compute_part(free, 100).unwrap() }
        };
        let days: Vec<_> = days.into_iter().enumerate().map(|(place, one)| (at(place), totals(one))).collect();
        let tax = bps.and_then(TaxRate::from_bps);
        let book = PriceBook::new(card("list", 50), &account(), &[]);
        let (month, credits) = (Month::FIRST, CreditBook::new(all));
        let head = Head { account: account(), name: String::new(), month, carried_over: micros(carried), credits, tax };
        let invoice = Invoice::draft(head, &days, &book).unwrap();
        let of = |wanted: &dyn Fn(Item) -> bool| -> i64 {
            invoice.lines.iter().filter(|line| wanted(line.item)).map(|line| line.amount.count()).sum()
        };
        prop_assert_eq!(of(&|_| true), invoice.total.count());
        prop_assert!(invoice.total >= Micros::ZERO);
        let base = of(&|item| !matches!(item, Item::Tax | Item::CarriedForward));
        prop_assert_eq!(base, invoice.list.count() - invoice.free.count() - invoice.credit.count() + carried);
        let exact = i128::from(base.max(0)) * i128::from(bps.unwrap_or(0));
        prop_assert_eq!(i128::from(invoice.tax.count()), (exact + 5_000) / 10_000);
        prop_assert_eq!(of(&|item| item == Item::CarriedForward), (-base).max(0));
        prop_assert_eq!(of(&|item| item == Item::Credit), -invoice.credit.count());
        prop_assert_eq!(invoice.draws.iter().map(|draw| draw.amount.count()).sum::<i64>(), invoice.credit.count());
    }
}
