//! Counters: hours, days, draws.

use runtab::domain::limits::DayTotals;
use runtab::domain::time::Month;
use runtab::domain::usage::Usage;
use runtab::store::StoreError;
use runtab::store::changes::{Changes, DrawChange, DrawKey, HourKey};
use runtab::store::shapes::{KeyDay, LeaseHours};

use super::Database;
use super::customers::save;
use super::fixtures::{account_id, day, grant_id, hour, key_id, lease_id, sandbox_id, totals, usage};

pub(crate) fn hour_key(at: i64, lease: Option<&str>, billed: i64) -> HourKey {
    HourKey {
        account: account_id("a"),
        hour: hour(at),
        sandbox: sandbox_id("s"),
        life: 1,
        key: key_id("k"),
        lease: lease.map(lease_id),
        billed_month: Month::from_index(billed).unwrap(),
    }
}

pub(crate) fn day_totals(used: i128, reserved: i128) -> DayTotals {
    DayTotals { used: usage(used), reserved: usage(reserved) }
}

pub(crate) async fn counters_are_added_to(database: Database) {
    let mut changes = Changes::default();
    for (at, billed) in [(1, 0), (1, 1), (25, 0), (26, 0)] {
        changes.hours.insert(hour_key(at, Some("l"), billed), totals(10));
    }
    changes.hours.insert(hour_key(1, None, 0), totals(1_000));
    changes.key_days.insert((account_id("a"), key_id("k"), day(1)), day_totals(5, 7));
    changes.key_days.insert((account_id("a"), key_id("k2"), day(1)), day_totals(1, 0));
    changes.account_days.insert((account_id("a"), day(1)), day_totals(6, -7));
    save(&database, &changes).await.unwrap();
    changes.key_days.insert((account_id("a"), key_id("k"), day(1)), day_totals(-6, -7));
    save(&database, &changes).await.unwrap();

    let mut tx = database.store.read().await.unwrap();
    let asked = |from, to| LeaseHours {
        account: account_id("a"),
        sandbox: sandbox_id("s"),
        life: 1,
        lease: lease_id("l"),
        from: hour(from),
        to: hour(to),
    };
    let of = (account_id("a"), lease_id("l"));
    let hours = tx.hours_of_leases(&[asked(1, 25)]).await.unwrap();
    assert_eq!(hours, [(of.clone(), hour(1), totals(40)), (of.clone(), hour(25), totals(20))]);
    let days = tx.usage_by_day_of_leases(&[asked(0, 100)]).await.unwrap();
    assert_eq!(days, [(of.clone(), day(0), totals(40)), (of, day(1), totals(40))]);
    let k = (account_id("a"), key_id("k"), day(1));
    let none = (account_id("a"), key_id("none"), day(2));
    let days = tx.key_days(&[k.clone(), none.clone()].into()).await.unwrap();
    let counted = Some(day_totals(12, -14));
    let first = KeyDay { of: k, key: None, totals: Some(day_totals(-1, 0)), of_account: counted };
    assert_eq!(days, [first, KeyDay { of: none, key: None, totals: None, of_account: None }]);
    let days = tx.key_days_of(&account_id("a"), day(1)).await.unwrap();
    assert_eq!(days, [(key_id("k"), day_totals(-1, 0)), (key_id("k2"), day_totals(2, 0))]);
}

pub(crate) async fn a_sum_that_does_not_fit_is_refused_whole(database: Database) {
    let k = (account_id("a"), key_id("k"), day(1));
    let most = Usage { cpu_us: i128::from(i64::MAX), ..Usage::ZERO };
    let full = DayTotals { used: most, reserved: Usage::ZERO };
    let mut changes = Changes::default();
    changes.key_days.insert(k.clone(), full);
    save(&database, &changes).await.unwrap();
    // In the database.
    assert_eq!(save(&database, &changes).await, Err(StoreError::Overflow));
    // On the way there.
    let beyond = Usage { cpu_us: i128::from(i64::MAX) + 1, ..Usage::ZERO };
    changes.key_days.insert(k.clone(), DayTotals { used: beyond, reserved: Usage::ZERO });
    assert_eq!(save(&database, &changes).await, Err(StoreError::Overflow));
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.key_days(&[k].into()).await.unwrap()[0].totals, Some(full));
    drop(tx);

    let mut changes = Changes::default();
    let mut most = totals(0);
    most.usage.run_ms = i128::from(i64::MAX);
    changes.hours.insert(hour_key(1, Some("l"), 0), most);
    changes.hours.insert(hour_key(1, Some("l"), 1), most);
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    let asked = LeaseHours {
        account: account_id("a"),
        sandbox: sandbox_id("s"),
        life: 1,
        lease: lease_id("l"),
        from: hour(0),
        to: hour(2),
    };
    assert_eq!(tx.hours_of_leases(&[asked]).await, Err(StoreError::Overflow));
}

pub(crate) async fn an_account_begins_with_the_sums_of_its_keys(database: Database) {
    let mut changes = Changes::default();
    for (key, on, used) in [("k", 4, 1), ("k", 5, 10), ("k2", 5, 100), ("k", 6, 1_000)] {
        changes.key_days.insert((account_id("a"), key_id(key), day(on)), day_totals(used, 2 * used));
    }
    changes.key_days.insert((account_id("b"), key_id("k"), day(5)), day_totals(7, 7));
    save(&database, &changes).await.unwrap();
    let mut changes = Changes::default();
    changes.accounts_counted_from.insert(account_id("a"), day(5));
    changes.account_days.insert((account_id("a"), day(5)), day_totals(1, 0));
    changes.key_days.insert((account_id("a"), key_id("k"), day(5)), day_totals(1, 0));
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    let asked = [4, 5, 6, 7].map(|on| (account_id("a"), key_id("k"), day(on)));
    let days = tx.key_days(&asked.into()).await.unwrap();
    let found: Vec<_> = days.iter().map(|day| day.of_account).collect();
    assert_eq!(found, [None, Some(day_totals(111, 220)), Some(day_totals(1_000, 2_000)), None]);
}

pub(crate) async fn draws_keep_their_place(database: Database) {
    let draw =
        |grant| DrawKey { account: account_id("a"), lease: lease_id("l"), hour: hour(3), grant: grant_id(grant) };
    let mut changes = Changes::default();
    changes.draws.insert(draw("late"), DrawChange { added_ms: 10, seq: 0 });
    changes.draws.insert(draw("early"), DrawChange { added_ms: 20, seq: 1 });
    save(&database, &changes).await.unwrap();
    let mut changes = Changes::default();
    changes.draws.insert(draw("early"), DrawChange { added_ms: -5, seq: 0 });
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    let draws = tx.draws(&[(account_id("a"), lease_id("l"), hour(3))].into()).await.unwrap();
    let found: Vec<_> = draws.iter().map(|draw| (draw.grant.as_str(), draw.drawn_ms, draw.seq)).collect();
    assert_eq!(found, [("late", 10, 0), ("early", 15, 1)]);
}
