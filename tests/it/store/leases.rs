//! Leases, extensions and sandboxes.

use std::collections::BTreeSet;

use runtab::domain::id::{ExtendId, HostId};
use runtab::domain::lease::{End, EndReason, Lease};
use runtab::domain::money::{MICROS_MAX, Micros};
use runtab::domain::sandbox::Sandbox;
use runtab::domain::storage_meter::Reporter;
use runtab::domain::time::{Span, Timestamp};
use runtab::store::changes::{Changes, Extension, RefusalNote};
use runtab::store::shapes::LeaseQuery;
use runtab::store::{Lane, StoreError};

use super::Database;
use super::customers::save;
use super::fixtures::{account_id, at, full_lease, full_sandbox, key_id, lease, lease_id, sandbox, sandbox_id};

fn added(leases: &[Lease]) -> Changes {
    let leases_added =
        leases.iter().map(|lease| ((lease.account.clone(), lease.id.clone()), lease.clone().into())).collect();
    Changes { leases_added, ..Changes::default() }
}

fn changed(leases: &[Lease]) -> Changes {
    Changes { leases_changed: added(leases).leases_added, ..Changes::default() }
}

fn ids(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.id.as_str()).collect()
}

pub(crate) async fn leases_come_back_as_saved(database: Database) {
    let (small, full) = (lease("a", "l-1", "s-1"), full_lease("a", "l-2", "s-1"));
    let mut changes = added(&[small.clone(), full.clone()]);
    let extension = Extension {
        account: account_id("a"),
        lease: lease_id("l-1"),
        id: ExtendId::parse("x").unwrap(),
        timeout_ms: i64::MAX,
        max_cost: Micros::new(MICROS_MAX),
        at: Timestamp::MAX,
    };
    let other = Extension { id: ExtendId::parse("y").unwrap(), max_cost: None, ..extension.clone() };
    changes.extensions = vec![extension.clone(), other.clone()];
    let note = RefusalNote {
        account: account_id("a"),
        at: at(1),
        key: key_id("k"),
        lease: lease_id("l"),
        code: "card_required",
    };
    changes.refusals = vec![note.clone(), note];
    save(&database, &changes).await.unwrap();

    let both: BTreeSet<_> = ["l-1", "l-2", "none"].map(|id| (account_id("a"), lease_id(id))).into();
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    assert_eq!(tx.lock_leases(&both).await.unwrap(), [small.clone(), full.clone()]);
    let asked = ["x", "y", "z"].map(|id| (account_id("a"), lease_id("l-1"), ExtendId::parse(id).unwrap()));
    assert_eq!(tx.extensions(&asked.into()).await.unwrap(), [extension, other]);
    drop(tx);

    // What was granted stays, what changes is written, each to the other's extreme.
    let grown = Lease {
        window: Span { start: small.window.start, end: Timestamp::MAX },
        end: full.end,
        host: full.host.clone(),
        open: false,
        settles_at: full.settles_at,
        settled_at: full.settled_at,
        meter: full.meter,
        open_hour: full.open_hour,
        page: full.page.clone(),
        ..small.clone()
    };
    let shrunk = Lease {
        end: None,
        host: None,
        settles_at: at(0),
        settled_at: None,
        meter: small.meter,
        open_hour: None,
        page: small.page.clone(),
        ..full.clone()
    };
    save(&database, &changed(&[grown.clone(), shrunk.clone()])).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.leases(&both).await.unwrap(), [grown, shrunk]);
    drop(tx);
    let unknown = save(&database, &changed(&[lease("a", "unknown", "s")])).await;
    assert!(matches!(unknown, Err(StoreError::Constraint(_))));
}

pub(crate) async fn what_samples_change_is_saved_by_itself(database: Database) {
    let (small, full) = (lease("a", "l", "s"), full_lease("a", "l", "s"));
    let metered = [
        Lease { meter: full.meter, ..small.clone() },
        Lease { open_hour: full.open_hour, ..small.clone() },
        Lease { page: full.page.clone(), ..small.clone() },
        Lease { meter: full.meter, open_hour: full.open_hour, page: full.page.clone(), ..small.clone() },
    ];
    let lived = [
        Lease { end: full.end, ..small.clone() },
        Lease { host: full.host.clone(), ..small.clone() },
        Lease { open: !small.open, ..small.clone() },
        Lease { settles_at: at(7), ..small.clone() },
        Lease { settled_at: Some(at(7)), ..small.clone() },
        Lease { voided_until: Some(at(7)), ..small.clone() },
        Lease { window: Span { end: Timestamp::MAX, ..small.window }, ..small.clone() },
        Lease { meter: full.meter, host: full.host.clone(), ..small.clone() },
    ];
    save(&database, &added(std::slice::from_ref(&small))).await.unwrap();
    let key: BTreeSet<_> = [(account_id("a"), lease_id("l"))].into();
    for (after, only_metered) in metered.iter().map(|one| (one, true)).chain(lived.iter().map(|one| (one, false))) {
        assert_eq!(after.is_only_metered(&small), only_metered, "{after:?}");
        let leases = added(std::slice::from_ref(after)).leases_added;
        let changes = if only_metered {
            Changes { leases_metered: leases, ..Changes::default() }
        } else {
            Changes { leases_changed: leases, ..Changes::default() }
        };
        save(&database, &changes).await.unwrap();
        let mut tx = database.store.read().await.unwrap();
        assert_eq!(tx.leases(&key).await.unwrap(), std::slice::from_ref(after));
        drop(tx);
        save(&database, &changed(std::slice::from_ref(&small))).await.unwrap();
    }
    let unknown = added(&[lease("a", "unknown", "s")]).leases_added;
    let unknown = save(&database, &Changes { leases_metered: unknown, ..Changes::default() }).await;
    assert!(matches!(unknown, Err(StoreError::Constraint(_))));
}

pub(crate) async fn one_lease_of_a_sandbox_is_open(database: Database) {
    let (old, new) = (lease("a", "old", "s"), lease("a", "new", "s"));
    save(&database, &added(&[old.clone(), lease("a", "other", "s2"), lease("b", "old", "s")])).await.unwrap();
    assert!(matches!(save(&database, &added(std::slice::from_ref(&new))).await, Err(StoreError::Constraint(_))));
    assert!(matches!(save(&database, &added(&[lease("a", "old", "s3")])).await, Err(StoreError::Constraint(_))));
    let end = End { at: at(1_500), reason: EndReason::Replaced, proven_until: None, told_in: None };
    let closed = Lease { open: false, end: Some(end), ..old };
    let batch = Changes {
        leases_added: added(&[new]).leases_added,
        leases_changed: changed(&[closed]).leases_changed,
        ..Changes::default()
    };
    save(&database, &batch).await.unwrap();
}

fn ending(id: &str, sandbox: &str, end: i64, settles_at: i64) -> Lease {
    Lease {
        window: Span { start: at(end - 500), end: at(end) },
        settles_at: at(settles_at),
        open: false,
        ..lease("a", id, sandbox)
    }
}

pub(crate) async fn leases_are_found_by_what_is_asked(database: Database) {
    let leases = [
        ending("l-1", "s", 1_000, 5_000),
        ending("l-2", "s", 2_000, 4_000),
        Lease { settled_at: Some(at(1)), ..ending("l-3", "s", 3_000, 3_000) },
        Lease { open: true, key: key_id("other"), host: HostId::parse("h").ok(), ..ending("l-4", "s", 1_500, 9_000) },
        ending("l-5", "s2", 9_000, 4_500),
        Lease { account: account_id("b"), ..ending("l-6", "s", 9_000, 4_600) },
    ];
    save(&database, &added(&leases)).await.unwrap();
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    let of = |account, sandbox, instant| ((account_id(account), sandbox_id(sandbox)), at(instant));
    let named = |ids: &[&str]| ids.iter().map(|id| (account_id("a"), lease_id(id))).collect::<BTreeSet<_>>();
    for (named, from, expected) in [
        (named(&[]), vec![of("a", "s", 2_000)], &["l-3", "l-4"][..]),
        (named(&[]), vec![of("a", "s", 1_999)], &["l-2", "l-3", "l-4"]),
        // By id and by sandbox, each once; in the order of the keys.
        (named(&["l-1", "l-3", "none"]), vec![of("a", "s", 2_000), of("b", "s", 0)], &["l-1", "l-3", "l-4", "l-6"]),
        (named(&["l-2", "l-5"]), vec![], &["l-2", "l-5"]),
        (named(&[]), vec![], &[]),
    ] {
        let found = tx.lock_leases_meeting(&named, &from.into_iter().collect()).await.unwrap();
        assert_eq!(ids(&found), expected);
    }
    let a: BTreeSet<_> = [account_id("a")].into();
    assert_eq!(ids(&tx.due_leases(&a, at(5_000), 10).await.unwrap().0), ["l-2", "l-5", "l-1"]);
    assert_eq!(ids(&tx.due_leases(&a, at(4_999), 1).await.unwrap().0), ["l-2"]);
    let anywhere = tx.due_anywhere(at(4_600), 10).await.unwrap();
    assert_eq!(anywhere.iter().map(|(_, lease)| lease.as_str()).collect::<Vec<_>>(), ["l-2", "l-5", "l-6"]);
    assert_eq!(ids(&tx.unsettled_leases(&a).await.unwrap()), ["l-2", "l-5", "l-1", "l-4"]);
    let starts = tx
        .lease_starts(&[
            (account_id("a"), sandbox_id("s"), 1, at(1_200)),
            (account_id("a"), sandbox_id("none"), 1, at(0)),
            (account_id("a"), sandbox_id("s"), 1, at(499)),
        ])
        .await
        .unwrap();
    let (ci, other) = (key_id("ci"), key_id("other"));
    let late = [(at(1_000), other), (at(1_500), ci.clone()), (at(2_500), ci.clone())];
    assert_eq!(starts[0], late);
    assert_eq!(starts[1], []);
    assert_eq!(starts[2], [&[(at(500), ci)][..], &late].concat());

    let mut list = async |query: LeaseQuery, after: Option<&'static str>, limit| {
        let found = tx.list_leases(&account_id("a"), &query, after, limit).await.unwrap();
        found.iter().map(|lease| lease.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(LeaseQuery::default(), Some("l-1"), 2).await, ["l-2", "l-3"]);
    let s = LeaseQuery { sandbox: Some(sandbox_id("s")), ..LeaseQuery::default() };
    assert_eq!(list(s.clone(), Some("l-2"), 9).await, ["l-3", "l-4"]);
    assert_eq!(list(LeaseQuery { key: Some(key_id("other")), ..s.clone() }, None, 9).await, ["l-4"]);
    assert_eq!(list(LeaseQuery { key: Some(key_id("none")), ..s }, None, 9).await, Vec::<String>::new());
    let host = LeaseQuery { host: HostId::parse("h").ok(), ..LeaseQuery::default() };
    assert_eq!(list(host, None, 9).await, ["l-4"]);
}

pub(crate) async fn due_leases_that_others_hold_are_passed_over(database: &Database) {
    save(database, &added(&[ending("l-1", "s", 1_000, 1), ending("l-2", "s", 2_000, 2)])).await.unwrap();
    let a: BTreeSet<_> = [account_id("a")].into();
    let found = |(leases, passed_over): (Vec<Lease>, usize)| (ids(&leases).join(" "), passed_over);
    let mut first = database.store.begin(Lane::Meter).await.unwrap();
    assert_eq!(found(first.due_leases(&a, at(1), 10).await.unwrap()), ("l-1".to_owned(), 0));
    let mut second = database.store.begin(Lane::Decision).await.unwrap();
    assert_eq!(found(second.due_leases(&a, at(9), 10).await.unwrap()), ("l-2".to_owned(), 1));
    first.commit().await.unwrap();
    assert_eq!(found(second.due_leases(&a, at(9), 10).await.unwrap()), ("l-1 l-2".to_owned(), 0));
}

pub(crate) async fn sandboxes_come_back_as_saved(database: Database) {
    let by_lease = full_sandbox("a", "s-1", Reporter::Lease(Timestamp::MAX, lease_id("l-9")));
    let at_rest = full_sandbox("a", "s-2", Reporter::AtRest);
    let small = sandbox("a", "s-3", 1, 5);
    let woken = Sandbox { latest: by_lease.latest.clone(), ..sandbox("a", "s-4", 7, 5) };
    assert!(woken.latest.is_some());
    let all = [by_lease, at_rest, small, woken];
    let key_of = |sandbox: &Sandbox| (sandbox.account.clone(), sandbox.id.clone(), sandbox.life);
    let sandboxes = all.iter().map(|sandbox| (key_of(sandbox), sandbox.clone())).collect();
    let changes = Changes { sandboxes_added: sandboxes, ..Changes::default() };
    save(&database, &changes).await.unwrap();
    assert!(matches!(save(&database, &changes).await, Err(StoreError::Constraint(_))), "new ones are new");
    let asked = ["s-1", "s-2", "s-3", "s-4", "none"].map(|id| (account_id("a"), sandbox_id(id), Timestamp::MAX));
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    assert_eq!(tx.lock_sandboxes(&asked).await.unwrap(), all);
    drop(tx);

    let filled = full_sandbox("a", "s-3", Reporter::AtRest);
    let filled = Sandbox { life: 1, created_at: at(6), ..filled };
    let emptied = Sandbox { life: i64::MAX, ..sandbox("a", "s-1", 1, 5) };
    let sandboxes = [filled.clone(), emptied.clone()].map(|sandbox| (key_of(&sandbox), sandbox)).into();
    let changes = Changes { sandboxes, ..Changes::default() };
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.sandboxes(&asked).await.unwrap(), [emptied, all[1].clone(), filled, all[3].clone()]);
}

pub(crate) async fn lives_from_the_one_in_force(database: Database) {
    let mut changes = Changes::default();
    for (life, created_at) in [(1, 100), (2, 200), (3, 300)] {
        changes.sandboxes.insert((account_id("a"), sandbox_id("s"), life), sandbox("a", "s", life, created_at));
    }
    changes.sandboxes.insert((account_id("a"), sandbox_id("t"), 1), sandbox("a", "t", 1, 9));
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    for (instant, lives) in [(0, &[1, 2, 3][..]), (199, &[1, 2, 3]), (200, &[2, 3]), (299, &[2, 3]), (999, &[3])] {
        let found = tx.lock_sandboxes(&[(account_id("a"), sandbox_id("s"), at(instant))]).await.unwrap();
        assert_eq!(found.iter().map(|sandbox| sandbox.life).collect::<Vec<_>>(), lives, "at {instant}");
    }
    let newest = tx.list_sandboxes(&account_id("a"), None, 9).await.unwrap();
    assert_eq!(newest, [sandbox("a", "s", 3, 300), sandbox("a", "t", 1, 9)]);
    assert_eq!(tx.list_sandboxes(&account_id("a"), Some("s"), 9).await.unwrap(), newest[1..]);
}
