//! Accounts, keys, grants, rate cards and tokens.

use std::collections::BTreeSet;

use runtab::domain::customer::{Account, Key};
use runtab::domain::free_hours::Grant;
use runtab::domain::id::{HostId, RateCardId, TokenId};
use runtab::domain::money::{Micros, PriceMicros};
use runtab::domain::rate_card::{RateCard, RateCardEntry};
use runtab::domain::time::Timestamp;
use runtab::domain::units::Millicores;
use runtab::store::changes::Changes;
use runtab::store::shapes::{Bearer, Terms, TokenRecord, TokenRole};
use runtab::store::{Lane, StoreError};

use super::Database;
use super::fixtures::{ODD_TEXT, account, account_id, at, day, full_account, grant, grant_id, key, key_id};

pub(crate) async fn save(database: &Database, changes: &Changes) -> Result<(), StoreError> {
    let mut tx = database.store.begin(Lane::Decision).await?;
    tx.save(changes).await?;
    tx.commit().await
}

pub(crate) async fn customers_come_back_as_saved(database: Database) {
    let mut changes = Changes::default();
    let accounts = [account("a"), full_account("B"), full_account("a-b")];
    changes.accounts = accounts.iter().map(|account| (account.id.clone(), account.clone())).collect();
    let keys = [
        Key { read_only: true, daily_limit: Micros::new(0), revoked_at: Some(Timestamp::MAX), ..key("B", "k") },
        key("a", "k"),
    ];
    changes.keys = keys.iter().map(|key| ((key.account.clone(), key.id.clone()), key.clone())).collect();
    let grants = [Grant { expires_on: None, granted_ms: 0, note: String::new(), ..grant("a", "g0") }, grant("a", "g1")];
    changes.grants = grants.iter().map(|grant| ((grant.account.clone(), grant.id.clone()), grant.clone())).collect();
    changes.grant_used_ms.insert((account_id("a"), grant_id("g1")), 5);
    save(&database, &changes).await.unwrap();

    let mut again = Changes::default();
    again.grant_used_ms.insert((account_id("a"), grant_id("g1")), -2);
    again.accounts.insert(account_id("a"), full_account("a"));
    save(&database, &again).await.unwrap();

    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    let ids: BTreeSet<_> = ["B", "a", "a-b", "missing"].map(account_id).into();
    // Byte order, as the engine's: capitals first, and the hyphen counts.
    let expected = vec![full_account("B"), full_account("a"), full_account("a-b")];
    assert_eq!(tx.lock_accounts(&ids).await.unwrap(), expected);
    assert_eq!(tx.accounts(&ids).await.unwrap(), expected);
    let ids = [("B", "k"), ("a", "k"), ("a", "missing")].map(|(account, key)| (account_id(account), key_id(key)));
    assert_eq!(tx.keys(&ids.clone().into()).await.unwrap(), keys);
    let days = tx.key_days(&ids.map(|(account, key)| (account, key, day(1))).into()).await.unwrap();
    let found: Vec<_> = days.into_iter().map(|day| day.key).collect();
    assert_eq!(found, [Some(keys[0].clone()), Some(keys[1].clone()), None]);
    let expected = [grants[0].clone(), Grant { used_ms: 3, ..grants[1].clone() }];
    assert_eq!(tx.grants(&[account_id("a")].into()).await.unwrap(), expected);
    let mut terms = tx.terms(&[account_id("a"), account_id("B")].into()).await.unwrap();
    terms.grants.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    assert_eq!(terms, Terms { grants: expected.to_vec(), cards: vec![] });
    assert_eq!(tx.accounts(&BTreeSet::new()).await.unwrap(), []);
    assert_eq!(tx.now().await.unwrap().is_some(), database.is_postgres());
}

pub(crate) async fn a_key_keeps_its_secret_until_it_is_rotated(database: Database) {
    let id = (account_id("a"), key_id("k"));
    let mut changes = Changes::default();
    changes.keys.insert(id.clone(), key("a", "k"));
    changes.key_secrets.insert(id.clone(), [1; 32]);
    save(&database, &changes).await.unwrap();
    let renamed = Key { name: "other".to_owned(), read_only: true, ..key("a", "k") };
    let mut changes = Changes::default();
    changes.keys.insert(id.clone(), renamed.clone());
    save(&database, &changes).await.unwrap();
    let found = Bearer::Key { account: id.0.clone(), key: id.1.clone(), read_only: true };
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.bearers(&[[1; 32]]).await.unwrap(), [Some(found.clone())]);
    drop(tx);

    let mut changes = Changes::default();
    changes.key_secrets.insert(id.clone(), [2; 32]);
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.bearers(&[[1; 32]]).await.unwrap(), [None]);
    assert_eq!(tx.bearers(&[[2; 32]]).await.unwrap(), [Some(found)]);
    drop(tx);

    let mut changes = Changes::default();
    changes.keys.insert(id.clone(), Key { revoked_at: Some(at(9)), ..renamed });
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.bearers(&[[2; 32]]).await.unwrap(), [None]);
    drop(tx);

    let mut changes = Changes::default();
    changes.key_secrets.insert((account_id("a"), key_id("missing")), [3; 32]);
    assert!(matches!(save(&database, &changes).await, Err(StoreError::Constraint(_))));
}

fn card(id: &str) -> RateCard {
    RateCard {
        id: RateCardId::parse(id).unwrap(),
        cpu: PriceMicros::new(1_000_000_000).unwrap(),
        memory: PriceMicros::new(0).unwrap(),
        storage: PriceMicros::new(108).unwrap(),
        floor: Millicores::new(1_000).unwrap(),
    }
}

/// Whose secret it is, is answered while every connection that reads is at a report.
pub(crate) async fn secrets_wait_for_no_report(database: Database) {
    let mut reports = Vec::new();
    for _ in 0..2 {
        reports.push(database.store.read().await.unwrap());
    }
    let asked = tokio::time::timeout(std::time::Duration::from_secs(5), database.store.bearers(&[[1; 32]]));
    assert_eq!(asked.await.unwrap().unwrap(), [None]);
    let more = tokio::time::timeout(std::time::Duration::from_millis(1), database.store.read());
    assert!(more.await.is_err(), "there are more connections than this test holds");
}

pub(crate) async fn rate_cards_come_and_go(database: Database) {
    let entry = |account: Option<&str>, on: i64, id: Option<&str>| RateCardEntry {
        account: account.map(account_id),
        effective_on: day(on),
        card: id.map(card),
        created_at: at(7),
    };
    let entries = vec![
        entry(None, 1, Some("first")),
        entry(None, 9, Some("second")),
        entry(Some("a"), 1, Some("own")),
        entry(Some("a"), 2, None),
        entry(Some("b"), 1, None),
    ];
    save(&database, &Changes { rate_cards_added: entries.clone(), ..Changes::default() }).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.rate_card_entries(&BTreeSet::new()).await.unwrap(), entries[..2]);
    assert_eq!(tx.rate_card_entries(&[account_id("a")].into()).await.unwrap(), entries[..4]);
    let mut terms = tx.terms(&[account_id("a")].into()).await.unwrap();
    terms.cards.sort_by_key(|entry| (entry.account.clone(), entry.effective_on));
    assert_eq!(terms, Terms { grants: vec![], cards: entries[..4].to_vec() });
    let own = RateCardId::parse("own").unwrap();
    assert_eq!(tx.rate_cards_by_id(&[own.clone()].into()).await.unwrap(), entries[2..3]);
    let first = tx.list_rate_cards(None, 3).await.unwrap();
    assert_eq!(first, entries[..3]);
    let after = Some((first[2].account.as_ref(), first[2].effective_on));
    assert_eq!(tx.list_rate_cards(after, 3).await.unwrap(), entries[3..]);
    drop(tx);

    let same_day = Changes { rate_cards_added: vec![entry(None, 1, Some("third"))], ..Changes::default() };
    assert!(matches!(save(&database, &same_day).await, Err(StoreError::Constraint(_))));
    let same_id = Changes { rate_cards_added: vec![entry(None, 3, Some("own"))], ..Changes::default() };
    assert!(matches!(save(&database, &same_id).await, Err(StoreError::Constraint(_))));
    // One batch may take a card away and put another in its place.
    let replaced = entry(Some("a"), 1, Some("own"));
    let changes = Changes {
        rate_cards_removed: vec![own, RateCardId::parse("second").unwrap()],
        rate_cards_added: vec![replaced],
        ..Changes::default()
    };
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.list_rate_cards(None, 10).await.unwrap().len(), 4);
}

pub(crate) async fn tokens_are_found_by_secret(database: Database) {
    let token = |id: &str, role| TokenRecord {
        id: TokenId::parse(id).unwrap(),
        role,
        name: ODD_TEXT.to_owned(),
        created_at: at(3),
    };
    let tokens = [
        token("t1", TokenRole::Admin),
        token("t2", TokenRole::ControlPlane),
        token("t3", TokenRole::Host(HostId::parse("h-7").unwrap())),
    ];
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    for (token, secret) in tokens.iter().zip(1..) {
        tx.insert_token(token, &[secret; 32]).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    assert!(matches!(tx.insert_token(&token("t4", TokenRole::Admin), &[1; 32]).await, Err(StoreError::Constraint(_))));
    drop(tx);
    let mut tx = database.store.begin(Lane::Decision).await.unwrap();
    assert_eq!(tx.list_tokens(None, 2).await.unwrap(), tokens[..2]);
    assert_eq!(tx.list_tokens(Some("t2"), 2).await.unwrap(), tokens[2..]);
    assert_eq!(tx.bearers(&[[3; 32]]).await.unwrap(), [Some(Bearer::Token(tokens[2].clone()))]);
    assert_eq!(tx.bearers(&[[9; 32]]).await.unwrap(), [None]);
    assert!(tx.delete_token(&tokens[2].id).await.unwrap());
    assert!(!tx.delete_token(&tokens[2].id).await.unwrap());
    assert_eq!(tx.bearers(&[[3; 32]]).await.unwrap(), [None]);
}

pub(crate) async fn lists_go_on_after_the_last_one_seen(database: Database) {
    let mut changes = Changes::default();
    for id in ["Z", "a", "a.b", "b"] {
        changes.accounts.insert(account_id(id), account(id));
        changes.keys.insert((account_id("a"), key_id(id)), key("a", id));
        changes.grants.insert((account_id("a"), grant_id(id)), grant("a", id));
    }
    changes.keys.insert((account_id("b"), key_id("Z")), key("b", "Z"));
    save(&database, &changes).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    let accounts = tx.list_accounts(None, 3).await.unwrap();
    assert_eq!(accounts, ["Z", "a", "a.b"].map(account));
    assert_eq!(tx.list_accounts(Some("a.b"), 3).await.unwrap(), [account("b")]);
    let of = account_id("a");
    assert_eq!(tx.list_keys(&of, Some("Z"), 2).await.unwrap(), ["a", "a.b"].map(|id| key("a", id)));
    assert_eq!(tx.list_grants(&of, Some("a"), 9).await.unwrap(), ["a.b", "b"].map(|id| grant("a", id)));
    assert_eq!(tx.list_keys(&account_id("none"), None, 9).await.unwrap(), []);
}

/// Rows are bound in groups of a few sizes: what is left over of a group is not written.
pub(crate) async fn any_number_of_rows_is_written(database: Database) {
    let mut all = 0;
    for count in [1, 2, 3, 64, 65, 255, 256, 257, 600] {
        let mut changes = Changes::default();
        for number in 0..count {
            let id = format!("a-{count:03}-{number:03}");
            let daily_limit = Some(number).filter(|number| number % 2 == 0).and_then(Micros::new);
            changes.accounts.insert(account_id(&id), Account { daily_limit, ..account(&id) });
        }
        save(&database, &changes).await.unwrap();
        all += changes.accounts.len();
        let mut tx = database.store.read().await.unwrap();
        let found = tx.accounts(&changes.accounts.keys().cloned().collect()).await.unwrap();
        assert!(found.iter().eq(changes.accounts.values()), "{count}");
        assert_eq!(tx.list_accounts(None, 10_000).await.unwrap().len(), all);
    }
}
