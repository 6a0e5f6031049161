//! Credit on its own: order, days, what is given back, and that never more is drawn than was granted.

use super::{Credit, CreditBook, Uncredited};
use crate::domain::id::{AccountId, GrantId};
use crate::domain::money::{Cost, Micros};
use crate::domain::time::{Day, Timestamp};

fn micros(count: i64) -> Micros {
    Micros::new(count).unwrap()
}

fn day(index: i64) -> Day {
    Day::from_index(index).unwrap()
}

fn credit(id: &str, granted: i64, starts: i64, expires: Option<i64>) -> Credit {
    Credit {
        account: AccountId::parse("a").unwrap(),
        id: GrantId::parse(id).unwrap(),
        granted: micros(granted),
        starts_on: day(starts),
        expires_on: expires.map(day),
        note: String::new(),
        created_at: Timestamp::EPOCH,
    }
}

/// Draws of an invoice of these days, which begins with `carried`, as (day, credit, amount).
fn draw(book: &mut CreditBook, days: &[(i64, i64)], carried: i64) -> Vec<(i64, String, i64)> {
    let days: Vec<_> = days.iter().map(|(index, amount)| (day(*index), micros(*amount))).collect();
    let base = days.iter().map(|(_, amount)| amount.count()).sum::<i64>() + carried;
    let draws = book.draw(&days, micros(base)).unwrap();
    draws.into_iter().map(|draw| (draw.day.index(), draw.credit.to_string(), draw.amount.count())).collect()
}

fn named(draws: &[(i64, &str, i64)]) -> Vec<(i64, String, i64)> {
    draws.iter().map(|(day, credit, amount)| (*day, (*credit).to_owned(), *amount)).collect()
}

#[test]
fn the_credit_that_expires_first_is_drawn_first_and_given_back_last() {
    let mut book = CreditBook::new(vec![credit("never", 5, 0, None), credit("soon", 5, 0, Some(5))]);
    assert_eq!(draw(&mut book, &[(4, 7)], 0), named(&[(4, "soon", 5), (4, "never", 2)]));
    assert_eq!(draw(&mut book, &[(4, -3)], 0), named(&[(4, "never", -2), (4, "soon", -1)]));
    assert_eq!(book.balance(day(5)).unwrap().expired, micros(1));
    // What was given back is drawn again, but only for the days of the credit.
    assert_eq!(draw(&mut book, &[(4, 1), (9, 9)], 0), named(&[(4, "soon", 1), (9, "never", 5)]));
}

#[test]
fn only_usage_of_its_days_is_paid_and_at_most_what_the_invoice_comes_to() {
    let mut book = CreditBook::new(vec![credit("g", 100, 2, Some(4))]);
    assert_eq!(draw(&mut book, &[(1, 10), (2, 10), (3, 10), (4, 10)], 0), named(&[(2, "g", 10), (3, "g", 10)]));
    // 7 are carried over: of 10 only 3 are left to pay. A correction of a day that credit did not pay counts too.
    assert_eq!(draw(&mut book, &[(3, 10)], -7), named(&[(3, "g", 3)]));
    assert_eq!(draw(&mut book, &[(1, -4), (3, 10)], 0), named(&[(3, "g", 6)]));
    assert_eq!(draw(&mut book, &[(3, 10)], -11), []);
}

#[test]
fn what_is_given_back_pays_for_other_days_of_the_same_invoice() {
    let mut book = CreditBook::new(vec![credit("g", 10, 0, None)]);
    assert_eq!(draw(&mut book, &[(1, 10)], 0), named(&[(1, "g", 10)]));
    assert_eq!(draw(&mut book, &[(1, -10), (2, 10)], 0), named(&[(1, "g", -10), (2, "g", 10)]));
    assert_eq!(book.balance(day(9)).unwrap().remaining, Micros::ZERO);
}

#[test]
fn covers_takes_what_is_pending_first_and_rounds_up() {
    let book = CreditBook::new(vec![credit("g", 10, 0, Some(3))]);
    let cost = |count: i64| Cost::from_micros(micros(count));
    let covers = |pending: &[(i64, Cost)], needed: &[(i64, Cost)]| {
        let by_day = |costs: &[(i64, Cost)]| costs.iter().map(|(index, cost)| (day(*index), *cost)).collect();
        book.covers(&by_day(pending), &by_day(needed)).unwrap()
    };
    assert_eq!(covers(&[(0, cost(4))], &[(1, cost(6))]), Ok(()));
    let lacks = |needed, available| Err(Uncredited { needed: micros(needed), available: micros(available) });
    assert_eq!(covers(&[(0, cost(4))], &[(1, cost(7))]), lacks(7, 6));
    assert_eq!(covers(&[(0, Cost::from_units(1))], &[(1, cost(10))]), lacks(10, 9));
    // Usage that is owed already does not take what can't pay for it.
    assert_eq!(covers(&[(3, cost(99))], &[(2, cost(10))]), Ok(()));
    assert_eq!(covers(&[], &[(2, cost(5)), (3, cost(1))]), lacks(6, 5));
}
