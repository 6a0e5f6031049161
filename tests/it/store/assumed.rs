//! Leases that are saved by where they lie, and leases that are assumed to be as a transaction left them.

use std::collections::BTreeSet;

use runtab::domain::id::HostId;
use runtab::domain::lease::Lease;
use runtab::domain::sample_page::OpenPage;
use runtab::store::changes::Changes;
use runtab::store::{Answer, Lane, StoreError, WrittenBy};

use super::Database;
use super::customers::save;
use super::fixtures::{account_id, lease, lease_id};

/// Two leases, and what samples make of them.
fn leases() -> [Lease; 2] {
    [lease("a", "l-1", "s-1"), lease("a", "l-2", "s-2")]
}

fn added() -> Changes {
    let leases_added = leases().map(|lease| ((lease.account.clone(), lease.id.clone()), lease.into()));
    Changes { leases_added: leases_added.into(), ..Changes::default() }
}

fn metered(number: i64) -> Changes {
    let metered = leases().map(|lease| {
        let page = OpenPage { bytes: vec![1, 2], next_number: number, accepted_in: None };
        ((lease.account.clone(), lease.id.clone()), Lease { page, ..lease }.into())
    });
    Changes { leases_metered: metered.into(), ..Changes::default() }
}

fn both() -> BTreeSet<(runtab::domain::id::AccountId, runtab::domain::id::LeaseId)> {
    ["l-1", "l-2"].map(|id| (account_id("a"), lease_id(id))).into()
}

/// Locks both and saves them; answers who wrote them then.
async fn write(database: &Database, number: i64) -> Option<WrittenBy> {
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    assert_eq!(tx.lock_leases(&both()).await.unwrap().len(), 2);
    tx.save(&metered(number)).await.unwrap();
    let written_by = tx.writes_as().await.unwrap();
    tx.commit().await.unwrap();
    written_by
}

/// Saves both without a look at them.
async fn assume(database: &Database, written_by: WrittenBy, changes: &Changes) -> Answer<WrittenBy> {
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    tx.assume(both().into_iter().map(|key| (key, written_by)).collect());
    tx.save(changes).await?;
    let written_by = tx.writes_as().await.unwrap().unwrap();
    tx.commit().await.unwrap();
    Ok(written_by)
}

async fn numbers(database: &Database) -> Vec<i64> {
    let mut tx = database.store.read().await.unwrap();
    tx.leases(&both()).await.unwrap().iter().map(|lease| lease.page.next_number).collect()
}

fn is_again<T>(outcome: &Answer<T>) -> bool {
    matches!(outcome, Err(StoreError::Again(_) | StoreError::Stale(_)))
}

pub(crate) async fn what_is_assumed_is_saved_where_it_is_so(database: Database) {
    save(&database, &added()).await.unwrap();
    let first = write(&database, 1).await;
    assert_eq!(first.is_some(), database.is_postgres());
    let Some(first) = first else { return };
    let second = assume(&database, first, &metered(2)).await.unwrap();
    assert_eq!(numbers(&database).await, [2, 2]);
    assert!(is_again(&assume(&database, first, &metered(3)).await));
    // One of them is changed behind the back of who assumes both: neither is saved.
    database.run("UPDATE leases SET page_next_number = 7 WHERE lease_id = 'l-2'").await.unwrap();
    assert!(is_again(&assume(&database, second, &metered(4)).await));
    assert_eq!(numbers(&database).await, [2, 7]);
    let third = write(&database, 5).await.unwrap();
    // Only what samples change.
    let [one, _] = leases();
    let moved = Lease { host: Some(HostId::parse("h").unwrap()), ..one };
    let leases_changed = [((moved.account.clone(), moved.id.clone()), moved.into())].into();
    assert!(is_again(&assume(&database, third, &Changes { leases_changed, ..Changes::default() }).await));
    let other = lease("a", "l-3", "s-3");
    let leases_metered = [((other.account.clone(), other.id.clone()), other.into())].into();
    assert!(is_again(&assume(&database, third, &Changes { leases_metered, ..Changes::default() }).await));
    assert!(assume(&database, third, &metered(6)).await.is_ok());
    assert_eq!(numbers(&database).await, [6, 6]);
}

/// What another server, or the same before it was started again, has written is not known here.
pub(crate) async fn what_another_server_wrote_is_not_assumed(database: &Database, other: &Database) {
    for database in [database, other] {
        save(database, &added()).await.unwrap();
    }
    let (mut here, mut there) = (write(database, 1).await.unwrap(), write(other, 1).await.unwrap());
    // Until both servers have given the same number.
    for number in 2..2_000 {
        if number_of(here) == number_of(there) {
            assert!(is_again(&assume(database, there, &metered(9)).await));
            assert!(assume(database, here, &metered(9)).await.is_ok());
            return;
        }
        if number_of(here) < number_of(there) {
            here = write(database, number).await.unwrap();
        } else {
            there = write(other, number).await.unwrap();
        }
    }
    panic!("they never meet");
}

/// The digits of a transaction's number.
fn number_of(written_by: WrittenBy) -> u32 {
    let text = format!("{written_by:?}");
    let digits = text.split("Xid(").nth(1).unwrap().split(')').next().unwrap();
    digits.parse().unwrap()
}

/// Who assumes waits for who writes, and sees it.
pub(crate) async fn who_assumes_waits_for_who_writes(database: &Database) {
    save(database, &added()).await.unwrap();
    for round in 0..20 {
        let left = write(database, round).await.unwrap();
        let mut writer = database.store.begin(Lane::Decision).await.unwrap();
        assert_eq!(writer.lock_leases(&both()).await.unwrap().len(), 2);
        let writes = round % 2 == 0;
        if writes {
            writer.save(&metered(100 + round)).await.unwrap();
        }
        let changes = metered(200 + round);
        let (assumed, committed) = tokio::join!(assume(database, left, &changes), writer.commit());
        committed.unwrap();
        assert_eq!(is_again(&assumed), writes);
        let expected = if writes { 100 + round } else { 200 + round };
        assert_eq!(numbers(database).await, [expected, expected]);
    }
}

/// A lease that was written while its lock was awaited lies elsewhere then, and is found there.
pub(crate) async fn a_lease_is_written_where_it_lies(database: &Database) {
    save(database, &added()).await.unwrap();
    for round in 0..20 {
        let mut first = database.store.begin(Lane::Decision).await.unwrap();
        assert_eq!(first.lock_leases(&both()).await.unwrap().len(), 2);
        first.save(&metered(2 * round)).await.unwrap();
        let (_, committed) = tokio::join!(write(database, 2 * round + 1), first.commit());
        committed.unwrap();
        assert_eq!(numbers(database).await, [2 * round + 1, 2 * round + 1]);
    }
}
