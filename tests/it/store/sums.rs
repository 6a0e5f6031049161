//! Sums for people.

use runtab::domain::lease::{HourTotals, Lease, OpenHour};
use runtab::domain::sample::Reading;
use runtab::domain::sandbox::Sandbox;
use runtab::domain::storage_meter::StorageHour;
use runtab::domain::time::Span;
use runtab::domain::usage::Usage;
use runtab::store::changes::Changes;
use runtab::store::shapes::{Bucket, Group, UsageQuery};

use super::Database;
use super::counters::hour_key;
use super::customers::save;
use super::fixtures::{account, account_id, at, day, hour, key_id, lease, sandbox, sandbox_id, totals};

fn storage(mib_ms: i128) -> HourTotals {
    HourTotals { usage: Usage { storage_mib_ms: mib_ms, ..Usage::ZERO }, ..HourTotals::default() }
}

/// Two hours in the table, one of them billed in two months; an open hour of a lease, and one of storage.
async fn fill(database: &Database) {
    let mut changes = Changes::default();
    for id in ["a", "b"] {
        changes.accounts.insert(account_id(id), account(id));
    }
    for (at, lease, billed, unit) in [(24, Some("l"), 0, 1), (24, Some("l"), 1, 10), (25, None, 0, 100)] {
        changes.hours.insert(hour_key(at, lease, billed), totals(unit));
    }
    let open_hour = OpenHour { hour: hour(26), totals: totals(1_000) };
    let open = Lease { open_hour: Some(open_hour), key: key_id("k"), ..lease("a", "l", "s") };
    let other = Lease { account: account_id("b"), ..open.clone() };
    for lease in [open, other] {
        changes.leases_added.insert((lease.account.clone(), lease.id.clone()), lease.into());
    }
    let mut resting = sandbox("a", "s", 1, 0);
    resting.storage.open_hour = Some(StorageHour { hour: hour(48), key: key_id("k2"), mib_ms: 10_000 });
    changes.sandboxes.insert((account_id("a"), sandbox_id("s"), 1), resting.clone());
    let second = Sandbox { life: 2, ..resting };
    changes.sandboxes.insert((account_id("a"), sandbox_id("s"), 2), second);
    save(database, &changes).await.unwrap();
}

async fn rows(
    database: &Database,
    of: Option<&str>,
    bucket: Bucket,
    group: Group,
) -> Vec<(String, i64, String, HourTotals)> {
    let query = UsageQuery { account: of.map(account_id), from: hour(24), to: hour(72), bucket, group, rows_max: 100 };
    let mut tx = database.store.read().await.unwrap();
    let one = tx.usage_grouped(&UsageQuery { rows_max: 1, ..query.clone() }).await.unwrap();
    assert_eq!(one.len(), 1);
    let rows = tx.usage_grouped(&query).await.unwrap();
    assert_eq!(one[0], rows[0]);
    let show = |row: &runtab::store::shapes::UsageRow| {
        let group = row.group.clone().unwrap_or_default();
        (row.account.to_string(), row.start.ms() / 3_600_000, group, row.totals)
    };
    rows.iter().map(show).collect()
}

fn row(account: &str, start: i64, group: &str, totals: HourTotals) -> (String, i64, String, HourTotals) {
    (account.to_owned(), start, group.to_owned(), totals)
}

pub(crate) async fn usage_is_summed_with_open_hours(database: Database) {
    fill(&database).await;
    let a = Some("a");
    assert_eq!(
        rows(&database, a, Bucket::Hour, Group::None).await,
        [
            row("a", 24, "", totals(11)),
            row("a", 25, "", totals(100)),
            row("a", 26, "", totals(1_000)),
            row("a", 48, "", storage(20_000)),
        ]
    );
    assert_eq!(
        rows(&database, a, Bucket::Day, Group::Lease).await,
        [row("a", 24, "", totals(100)), row("a", 24, "l", totals(1_011)), row("a", 48, "", storage(20_000))]
    );
    assert_eq!(
        rows(&database, a, Bucket::Day, Group::Key).await,
        [row("a", 24, "k", totals(1_111)), row("a", 48, "k2", storage(20_000))]
    );
    assert_eq!(
        rows(&database, None, Bucket::Day, Group::Sandbox).await,
        [row("a", 24, "s", totals(1_111)), row("a", 48, "s", storage(20_000)), row("b", 24, "s", totals(1_000))]
    );
    let mut tx = database.store.read().await.unwrap();
    let asked = [
        (account_id("a"), sandbox_id("none"), 1, hour(0), hour(99)),
        (account_id("a"), sandbox_id("s"), 1, hour(25), hour(48)),
    ];
    let days = tx.usage_by_day_of_sandboxes(&asked).await.unwrap();
    assert_eq!(days, [vec![], vec![(day(1), totals(1_100)), (day(2), storage(10_000))]]);
}

pub(crate) async fn what_is_not_settled_is_incomplete(database: Database) {
    let sampled = |id: &str, last: i64| {
        let reading = Reading { at: at(last), epoch: 0, cpu_usage_us: 0, memory: None, storage: None };
        let window = Span { start: at(1_000), end: at(9_000) };
        let mut lease = Lease { window, settles_at: at(20_000), ..lease("a", id, id) };
        lease.meter.last = Some(reading);
        lease
    };
    // A baseline before the start proves nothing.
    let leases = [sampled("l-1", 5_000), sampled("l-2", 900), Lease { settled_at: Some(at(1)), ..sampled("l-3", 1) }];
    let mut changes = Changes::default();
    for lease in &leases[..1] {
        changes.leases_added.insert((lease.account.clone(), lease.id.clone()), lease.clone().into());
    }
    save(&database, &changes).await.unwrap();
    let a = account_id("a");
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.incomplete_since(Some(&a), at(0), at(9_000), at(0)).await.unwrap(), Some(at(5_000)));
    assert_eq!(tx.incomplete_since(None, at(8_999), at(9_000), at(19_999)).await.unwrap(), Some(at(5_000)));
    assert_eq!(tx.incomplete_since(Some(&a), at(9_000), at(99_000), at(0)).await.unwrap(), None);
    assert_eq!(tx.incomplete_since(Some(&a), at(0), at(1_000), at(0)).await.unwrap(), None);
    assert_eq!(tx.incomplete_since(Some(&a), at(0), at(9_000), at(20_000)).await.unwrap(), None);
    assert_eq!(tx.incomplete_since(Some(&account_id("b")), at(0), at(9_000), at(0)).await.unwrap(), None);
    drop(tx);
    let mut changes = Changes::default();
    for lease in &leases[1..] {
        changes.leases_added.insert((lease.account.clone(), lease.id.clone()), lease.clone().into());
    }
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.incomplete_since(Some(&a), at(0), at(9_000), at(0)).await.unwrap(), Some(at(1_000)));
}
