//! What a decision reads in two round trips is what its statements answer one by one.

use std::collections::{BTreeMap, BTreeSet};

use runtab::domain::id::{HostId, TokenId};
use runtab::domain::storage_meter::Reporter;
use runtab::domain::time::Timestamp;
use runtab::store::Lane;
use runtab::store::changes::Changes;
use runtab::store::decision::{Asked, Held};
use runtab::store::shapes::{TokenRecord, TokenRole};

use super::Database;
use super::counters::day_totals;
use super::customers::save;
use super::fixtures::{
    account, account_id, at, day, full_account, full_lease, full_sandbox, grant, key, key_id, lease, lease_id, sandbox,
    sandbox_id,
};

/// Two accounts with something of everything, in rows that have every value and in rows that have none.
fn furnished() -> Changes {
    let mut changes = Changes::default();
    for account in [account("a"), full_account("b")] {
        changes.accounts.insert(account.id.clone(), account);
    }
    for (owner, id) in [("a", "k"), ("b", "k")] {
        changes.keys.insert((account_id(owner), key_id(id)), key(owner, id));
    }
    changes.key_secrets.insert((account_id("b"), key_id("k")), [2; 32]);
    let granted = grant("a", "g");
    changes.grants.insert((granted.account.clone(), granted.id.clone()), granted);
    for lease in [lease("a", "l-1", "s-1"), full_lease("a", "l-2", "s-2"), full_lease("b", "l-1", "s-1")] {
        changes.leases_added.insert((lease.account.clone(), lease.id.clone()), lease.into());
    }
    for sandbox in [sandbox("a", "s-1", 1, 0), full_sandbox("b", "s-1", Reporter::AtRest)] {
        changes.sandboxes_added.insert((sandbox.account.clone(), sandbox.id.clone(), sandbox.life), sandbox);
    }
    changes.key_days.insert((account_id("a"), key_id("k"), day(3)), day_totals(1, 2));
    changes.account_days.insert((account_id("b"), day(3)), day_totals(3, 4));
    changes
}

pub(crate) async fn a_decision_reads_what_its_statements_answer(database: Database) {
    save(&database, &furnished()).await.unwrap();
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    let role = TokenRole::Host(HostId::parse("h").unwrap());
    let token = TokenRecord { id: TokenId::parse("t").unwrap(), role, name: "n".to_owned(), created_at: at(7) };
    tx.insert_token(&token, &[1; 32]).await.unwrap();
    tx.commit().await.unwrap();
    let accounts: BTreeSet<_> = ["a", "b", "none"].map(account_id).into();
    let leases: BTreeSet<_> =
        [("a", "l-2"), ("a", "none"), ("b", "l-1")].map(|(owner, id)| (account_id(owner), lease_id(id))).into();
    let sandboxes: BTreeMap<_, _> = [("a", "s-1", 0), ("b", "none", 5), ("b", "s-1", Timestamp::MAX.ms())]
        .map(|(owner, id, from)| ((account_id(owner), sandbox_id(id)), at(from)))
        .into();
    let days: BTreeSet<_> = [("a", "k", 3), ("a", "k", 4), ("b", "k", 3), ("b", "none", 3)]
        .map(|(owner, id, on)| (account_id(owner), key_id(id), day(on)))
        .into();

    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    let secrets = [[3; 32], [1; 32], [2; 32]];
    let Held { watermarks, accounts: held, bearers } = tx.hold_for_decision(&accounts, &secrets).await.unwrap();
    let asked = Asked { accounts: &accounts, leases: &leases, sandboxes: &sandboxes, days: &days };
    let found = tx.load_decision(&asked).await.unwrap();
    assert_eq!(tx.now().await.unwrap().is_some(), database.is_postgres());
    drop(tx);
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    let (both_held, both_found) = tx.hold_and_load(&secrets, &asked).await.unwrap();
    assert_eq!((&both_held.watermarks, &both_held.accounts), (&watermarks, &held));
    assert_eq!(both_held.bearers, bearers);
    assert_eq!(format!("{both_found:?}"), format!("{found:?}"));
    assert_eq!(tx.now().await.unwrap().is_some(), database.is_postgres());
    drop(tx);

    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    assert_eq!(watermarks, tx.hold_watermarks().await.unwrap());
    assert_eq!(bearers, tx.bearers(&secrets).await.unwrap());
    assert!(bearers[0].is_none() && bearers[1].is_some() && bearers[2].is_some());
    assert_eq!(held, tx.lock_accounts(&accounts).await.unwrap());
    assert_eq!(found.terms, tx.terms(&accounts).await.unwrap());
    let lives: Vec<_> = sandboxes.iter().map(|((owner, id), from)| (owner.clone(), id.clone(), *from)).collect();
    assert_eq!(found.leases, tx.lock_leases_meeting(&leases, &sandboxes).await.unwrap());
    assert_eq!(found.sandboxes, tx.lock_sandboxes(&lives).await.unwrap());
    assert_eq!(found.days, tx.key_days(&days).await.unwrap());
    assert_eq!((held.len(), found.leases.len(), found.sandboxes.len(), found.days.len()), (2, 3, 2, 4));
}

pub(crate) async fn a_decision_may_ask_for_little(database: Database) {
    save(&database, &furnished()).await.unwrap();
    let (accounts, leases, sandboxes) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    let days: BTreeSet<_> = [(account_id("a"), key_id("k"), day(3))].into();
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    let held = tx.hold_for_decision(&accounts, &[]).await.unwrap();
    assert!(held.accounts.is_empty() && held.bearers.is_empty());
    let asked = Asked { accounts: &accounts, leases: &leases, sandboxes: &sandboxes, days: &days };
    let found = tx.load_decision(&asked).await.unwrap();
    assert_eq!(found.days, tx.key_days(&days).await.unwrap());
    assert!(found.terms.grants.is_empty() && found.leases.is_empty() && found.sandboxes.is_empty());
    drop(tx);
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    let (held, both_found) = tx.hold_and_load(&[], &asked).await.unwrap();
    assert!(held.accounts.is_empty() && held.bearers.is_empty());
    assert_eq!(format!("{both_found:?}"), format!("{found:?}"));
}

/// Where there is one writer the next batch begins with the commit; it reads what the commit made.
pub(crate) async fn a_batch_may_begin_with_a_commit(database: Database) {
    save(&database, &furnished()).await.unwrap();
    let accounts: BTreeSet<_> = [account_id("a"), account_id("b")].into();
    let days: BTreeSet<_> = [(account_id("a"), key_id("k"), day(3))].into();
    let (leases, sandboxes, secrets) = (BTreeSet::new(), BTreeMap::new(), [[2; 32], [3; 32]]);
    let asked = Asked { accounts: &accounts, leases: &leases, sandboxes: &sandboxes, days: &days };
    let add = |number: i64| {
        let (mut changes, added) = (Changes::default(), lease("a", &format!("l-{number}0"), &format!("s-{number}0")));
        changes.leases_added.insert((added.account.clone(), added.id.clone()), added.into());
        changes.key_days.insert((account_id("a"), key_id("k"), day(3)), day_totals(1, 2));
        changes
    };
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    tx.hold_and_load(&secrets, &asked).await.unwrap();
    for number in 1..4 {
        tx.save(&add(number)).await.unwrap();
        let next = tx.commit_and_hold(&secrets, &asked).await.unwrap();
        database.store.keep().await.unwrap();
        assert_eq!(next.is_none(), database.is_postgres());
        let Some((next, held, found)) = next else {
            let count = database.store.read().await.unwrap().key_days(&days).await.unwrap();
            return assert_eq!(count[0].totals, Some(day_totals(2, 4)));
        };
        assert_eq!((held.accounts.len(), held.bearers.len(), found.days.len()), (2, 2, 1));
        assert_eq!(found.days[0].totals, Some(day_totals(i128::from(1 + number), i128::from(2 + 2 * number))));
        tx = next;
    }
    // Its own rows again: the last commit stays, and what was begun after it is undone.
    tx.save(&add(1)).await.unwrap();
    assert!(tx.commit_and_hold(&secrets, &asked).await.is_err());
    let count = database.store.read().await.unwrap().key_days(&days).await.unwrap();
    assert_eq!(count[0].totals, Some(day_totals(4, 8)));
}

/// What is added as new breaks a constraint where it is there already, and all else of the batch is undone.
pub(crate) async fn what_is_new_is_not_there_already(database: Database) {
    save(&database, &furnished()).await.unwrap();
    let days: BTreeSet<_> = [(account_id("a"), key_id("k"), day(3))].into();
    let counted = async || database.store.read().await.unwrap().key_days(&days).await.unwrap();
    let before = counted().await;
    let sandboxes = [sandbox("a", "s-1", 1, 0), full_sandbox("b", "s-1", Reporter::AtRest)];
    let leases = [lease("a", "l-1", "s-9"), full_lease("b", "l-1", "s-9")];
    let added = sandboxes.into_iter().map(|sandbox| (None, Some(sandbox)));
    for (lease, sandbox) in added.chain(leases.into_iter().map(|lease| (Some(lease), None))) {
        let mut changes = Changes::default();
        changes.key_days.insert((account_id("a"), key_id("k"), day(3)), day_totals(1, 2));
        changes
            .leases_added
            .extend(lease.into_iter().map(|lease| ((lease.account.clone(), lease.id.clone()), lease.into())));
        changes.sandboxes_added.extend(
            sandbox.into_iter().map(|sandbox| ((sandbox.account.clone(), sandbox.id.clone(), sandbox.life), sandbox)),
        );
        let refused = save(&database, &changes).await;
        assert!(matches!(refused, Err(runtab::store::StoreError::Constraint(_))), "{refused:?}");
        assert_eq!(counted().await, before);
    }
}

pub(crate) async fn what_begins_together_is_saved_together(database: Database) {
    // One of each alone, then both: a bundle, where there are bundles.
    for (place, leases, sandboxes) in [(1, 1, 0), (2, 0, 1), (3, 2, 2)] {
        let (mut changes, mut ids, mut lives) = (Changes::default(), BTreeSet::new(), Vec::new());
        for number in 0..leases {
            let lease = lease("a", &format!("l-{place}-{number}"), &format!("s-{place}-{number}"));
            ids.insert((lease.account.clone(), lease.id.clone()));
            changes.leases_added.insert((lease.account.clone(), lease.id.clone()), lease.into());
        }
        for number in 0..sandboxes {
            let sandbox = sandbox("a", &format!("s-{place}-{number}"), 1, 0);
            lives.push((sandbox.account.clone(), sandbox.id.clone(), Timestamp::MAX));
            changes.sandboxes_added.insert((sandbox.account.clone(), sandbox.id.clone(), sandbox.life), sandbox);
        }
        save(&database, &changes).await.unwrap();
        let mut tx = database.store.read().await.unwrap();
        let saved: Vec<_> = changes.leases_added.values().map(|lease| (**lease).clone()).collect();
        assert_eq!(tx.leases(&ids).await.unwrap(), saved);
        let saved: Vec<_> = changes.sandboxes_added.values().cloned().collect();
        assert_eq!(tx.sandboxes(&lives).await.unwrap(), saved);
    }
}
