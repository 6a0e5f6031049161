//! What operators do in a history: customers, limits, grants, rate cards.

use runtab::domain::customer::AccountStatus;
use runtab::domain::id::{GrantId, RateCardId};
use runtab::domain::time::Day;
use runtab::ledger::command::{
    AddRateCard, CreateAccount, CreateGrant, CreateKey, RemoveRateCard, ReturnToDefault, SecretDigest, UpdateAccount,
    UpdateKey,
};

use crate::driver::{Driver, Kind, list, rate_card};
use crate::model::{Account, Card, DAY, Grant, HOUR, Key, MINUTE};
use crate::send;

/// What a command changes a value to, if it does.
#[derive(Clone, Copy, Debug)]
enum Change<T> {
    Nothing,
    To(T),
}

/// An entry of the rate cards.
#[derive(Clone, Debug)]
enum Entry {
    Gone,
    Default,
    Card(Card),
}

impl Driver {
    fn limit(&mut self) -> Option<i64> {
        if self.kind == Kind::Replayed {
            return None;
        }
        match self.rng.within(0, 9) {
            0..4 => None,
            4 if self.kind.is_any() && self.rng.chance(20) => Some(0),
            5 | 6 => Some(self.rng.within(1_000, 200_000)),
            _ => Some(self.rng.within(100_000, 3_000_000)),
        }
    }

    pub(crate) async fn make_customers(&mut self, welcome: i64) {
        for name in ["a0", "a1", "a2"] {
            let card_on_file = name == "a0" || self.kind == Kind::Replayed || self.rng.chance(50);
            let (id, tax) = (send::account(name), None);
            let command = CreateAccount { id, name: name.to_owned(), card_on_file, tax };
            for fresh in [true, false] {
                assert_eq!(self.ledger.create_account(command.clone()).await.unwrap().fresh, fresh);
            }
            let mut account = Account { card_on_file, ..Account::default() };
            account.default_cards.insert(0, list());
            if welcome > 0 {
                account.grants.push(Grant {
                    id: "welcome".to_owned(),
                    granted: welcome,
                    used: 0,
                    starts: self.now / DAY,
                    expires: None,
                });
            }
            account.limit = self.limit();
            self.accounts.insert(name.to_owned(), account);
            let limit = self.accounts[name].limit;
            self.update_account(name, None, None, Change::To(limit)).await;
            self.accounts.get_mut(name).unwrap().limit_was_changed = false;
            for index in 0..self.rng.within(1, 3) {
                self.make_key(name, &format!("k{index}"), false).await;
            }
            if self.rng.chance(20) {
                self.make_key(name, "reader", true).await;
            }
        }
    }

    async fn make_key(&mut self, owner: &str, id: &str, read_only: bool) {
        let limit = self.limit();
        let mut sha256 = [0; 32];
        sha256[..id.len()].copy_from_slice(id.as_bytes());
        sha256[16..16 + owner.len()].copy_from_slice(owner.as_bytes());
        let command = CreateKey {
            account: send::account(owner),
            id: send::key(id),
            name: id.to_owned(),
            read_only,
            daily_limit: limit.map(send::micros),
            secret: SecretDigest { sha256 },
        };
        assert!(self.ledger.create_key(command.clone()).await.unwrap().fresh);
        // A repeated request brings a secret of its own, which is not taken.
        sha256[31] = 1;
        let repeated = CreateKey { secret: SecretDigest { sha256 }, ..command };
        assert!(!self.ledger.create_key(repeated).await.unwrap().fresh);
        let key = Key { limit, limit_was_changed: false, read_only, revoked: false };
        self.accounts.get_mut(owner).unwrap().keys.insert(id.to_owned(), key);
    }

    async fn update_account(
        &mut self,
        owner: &str,
        card_on_file: Option<bool>,
        suspended: Option<bool>,
        limit: Change<Option<i64>>,
    ) {
        self.say(|| format!("account {owner} {card_on_file:?} {suspended:?} {limit:?}"));
        let status = |is| if is { AccountStatus::Suspended } else { AccountStatus::Active };
        let command = UpdateAccount {
            id: send::account(owner),
            name: None,
            card_on_file,
            status: suspended.map(status),
            daily_limit: match limit {
                Change::To(limit) => Some(limit.map(send::micros)),
                Change::Nothing => None,
            },
            tax: None,
        };
        for _ in 0..2 {
            self.ledger.update_account(command.clone()).await.unwrap();
        }
        let account = self.accounts.get_mut(owner).unwrap();
        account.card_on_file = card_on_file.unwrap_or(account.card_on_file);
        account.suspended = suspended.unwrap_or(account.suspended);
        if let Change::To(limit) = limit {
            (account.limit, account.limit_was_changed) = (limit, true);
        }
    }

    pub(crate) async fn change_customer(&mut self) {
        let owner = self.any_account();
        match self.rng.within(0, 9) {
            0 => {
                let card = self.rng.chance(50);
                self.update_account(&owner, Some(card), None, Change::Nothing).await;
            }
            1 => {
                let suspended = self.rng.chance(25);
                self.update_account(&owner, None, Some(suspended), Change::Nothing).await;
            }
            2..5 => {
                let limit = self.limit();
                self.update_account(&owner, None, None, Change::To(limit)).await;
            }
            5 if self.rng.chance(30) => {
                let key = self.any_key(&owner);
                self.say(|| format!("revoke {owner} {key}"));
                for _ in 0..2 {
                    self.ledger.revoke_key(send::account(&owner), send::key(&key)).await.unwrap();
                }
                self.accounts.get_mut(&owner).unwrap().keys.get_mut(&key).unwrap().revoked = true;
                let id = self.id("k");
                self.make_key(&owner, &id, false).await;
            }
            _ => {
                let (key, limit) = (self.any_key(&owner), self.limit());
                self.say(|| format!("limit {owner} {key} {limit:?}"));
                let command = UpdateKey {
                    account: send::account(&owner),
                    id: send::key(&key),
                    name: None,
                    daily_limit: Some(limit.map(send::micros)),
                };
                for _ in 0..2 {
                    self.ledger.update_key(command.clone()).await.unwrap();
                }
                let key = self.accounts.get_mut(&owner).unwrap().keys.get_mut(&key).unwrap();
                (key.limit, key.limit_was_changed) = (limit, true);
            }
        }
    }

    pub(crate) async fn grant(&mut self) {
        let owner = self.any_account();
        let (id, today) = (self.id("g"), self.now / DAY);
        let starts = today + self.rng.within(-1, 2);
        let granted = self.rng.within(MINUTE, 5 * HOUR);
        let expires = self.rng.chance(70).then(|| starts + self.rng.within(1, 3));
        self.say(|| format!("grant {owner} {id} {granted} [{starts}, {expires:?})"));
        let day = |index| Day::from_index(index).unwrap();
        let command = CreateGrant {
            account: send::account(&owner),
            id: GrantId::parse(&id).unwrap(),
            granted_ms: granted,
            starts_on: (starts != today).then(|| day(starts)),
            expires_on: expires.map(day),
            note: String::new(),
        };
        for fresh in [true, false] {
            assert_eq!(self.ledger.create_grant(command.clone()).await.unwrap().fresh, fresh);
        }
        self.accounts.get_mut(&owner).unwrap().grants.push(Grant { id, granted, used: 0, starts, expires });
    }

    /// Adds a card, takes one away, or returns an account to the default.
    pub(crate) async fn card(&mut self) {
        let owner = self.rng.chance(50).then(|| self.any_account());
        let day = self.now / DAY + self.rng.within(0, 2);
        let in_time = day * DAY - self.now >= HOUR;
        let first = &self.accounts["a0"];
        let taken = match &owner {
            Some(owner) => self.accounts[owner].own_cards.contains_key(&day),
            None => first.default_cards.contains_key(&day),
        };
        let day_of = Day::from_index(day).unwrap();
        if taken {
            let own = owner.as_ref().map(|owner| self.accounts[owner].own_cards[&day].clone());
            let Some(card) = own.unwrap_or_else(|| first.default_cards.get(&day).cloned()) else { return };
            let answer =
                self.ledger.remove_rate_card(RemoveRateCard { id: RateCardId::parse(&card.id).unwrap() }).await;
            self.say(|| format!("remove {} of {owner:?}: {answer:?}", card.id));
            assert_eq!(answer.is_ok(), in_time, "{answer:?}");
            if in_time {
                self.set_card(owner.as_deref(), day, &Entry::Gone);
            }
            return;
        }
        let back = owner.clone().filter(|_| self.rng.chance(30));
        if let Some(owner) = back {
            let command = ReturnToDefault { account: send::account(&owner), effective_on: day_of };
            let answer = self.ledger.return_to_default(command).await;
            self.say(|| format!("default {owner} {day}: {answer:?}"));
            assert_eq!(answer.is_ok(), in_time, "{answer:?}");
            if in_time {
                self.set_card(Some(&owner), day, &Entry::Default);
            }
            return;
        }
        let card = Card {
            id: self.id("card"),
            cpu: self.rng.within(0, 60_000),
            memory: self.rng.within(0, 20_000),
            storage: self.rng.within(0, 500),
            floor: *self.rng.pick(&[0, 50, 200, 1_000]).unwrap(),
        };
        let command =
            AddRateCard { account: owner.as_deref().map(send::account), effective_on: day_of, card: rate_card(&card) };
        let answer = self.ledger.add_rate_card(command).await;
        self.say(|| format!("card {card:?} of {owner:?} {day}: {}", answer.is_ok()));
        assert_eq!(answer.is_ok(), in_time, "{answer:?}");
        if in_time {
            self.set_card(owner.as_deref(), day, &Entry::Card(card));
        }
    }

    fn set_card(&mut self, owner: Option<&str>, day: i64, entry: &Entry) {
        for (name, account) in &mut self.accounts {
            if owner.is_some_and(|owner| owner != name) {
                continue;
            }
            let touches = account.leases.values().any(|lease| lease.granted_end > day * DAY);
            if touches {
                account.repriced_from = Some(account.repriced_from.map_or(day, |from| from.min(day)));
            }
            match (owner, entry) {
                (Some(_), Entry::Card(card)) => drop(account.own_cards.insert(day, Some(card.clone()))),
                (Some(_), Entry::Default) => drop(account.own_cards.insert(day, None)),
                (Some(_), Entry::Gone) => drop(account.own_cards.remove(&day)),
                (None, Entry::Card(card)) => drop(account.default_cards.insert(day, card.clone())),
                (None, Entry::Default | Entry::Gone) => drop(account.default_cards.remove(&day)),
            }
        }
    }
}
