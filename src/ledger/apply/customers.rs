//! Customers: accounts, keys, grants, rate cards. Making one is idempotent by its id.

use super::super::command::{
    AddRateCard, CommandError, CreateAccount, CreateCredit, CreateGrant, CreateKey, Made, RemoveRateCard,
    ReturnToDefault, SecretDigest, UpdateAccount, UpdateKey,
};
use super::super::working_set::WorkingSet;
use super::{Applied, id_conflict, invalid};
use crate::domain::credit::Credit;
use crate::domain::customer::{Account, AccountStatus, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, GrantId, KeyId};
use crate::domain::lease::START_BACK_MS_MAX;
use crate::domain::money::Micros;
use crate::domain::rate_card::RateCardEntry;

/// The id of the grant that a new account gets.
const WELCOME: &str = "welcome";

impl WorkingSet {
    /// Makes an account, with the welcome free hours.
    pub fn create_account(&mut self, command: &CreateAccount) -> Applied<Made<Account>> {
        if let Some(known) = self.accounts.get(&command.id) {
            let same =
                known.name == command.name && known.card_on_file == command.card_on_file && known.tax == command.tax;
            return repeated(known, same, format!("account {} exists with other content", known.id));
        }
        let account = Account {
            id: command.id.clone(),
            name: command.name.clone(),
            status: AccountStatus::Active,
            card_on_file: command.card_on_file,
            daily_limit: None,
            counted_from: None,
            tax: command.tax,
            created_at: self.now,
        };
        self.accounts.insert(account.id.clone(), account.clone());
        self.changes.accounts_added.insert(account.id.clone(), account.clone());
        if self.rules.welcome_ms > 0 {
            let id = GrantId::parse(WELCOME).map_err(|bad| invalid("", bad.to_string()))?;
            self.add_grant(Grant {
                account: account.id.clone(),
                id,
                granted_ms: self.rules.welcome_ms,
                used_ms: 0,
                starts_on: self.now.day(),
                expires_on: None,
                note: "Welcome free hours".to_owned(),
                created_at: self.now,
            });
        }
        Ok(Made { value: account, fresh: true })
    }

    /// Changes what is given of an account. Its first limit begins its day counters.
    pub fn update_account(&mut self, command: &UpdateAccount) -> Applied<Account> {
        let known = self.accounts.get(&command.id).ok_or(CommandError::NotFound("account"))?;
        let mut account = known.clone();
        account.name = command.name.clone().unwrap_or(account.name);
        account.card_on_file = command.card_on_file.unwrap_or(account.card_on_file);
        account.status = command.status.unwrap_or(account.status);
        account.daily_limit = command.daily_limit.unwrap_or(account.daily_limit);
        account.tax = command.tax.unwrap_or(account.tax);
        if account.daily_limit.is_some() && account.counted_from.is_none() {
            // A lease may still start a while back, so in the day before.
            let first = self.now.near(START_BACK_MS_MAX.saturating_neg()).day();
            account.counted_from = Some(first);
            self.changes.accounts_counted_from.insert(account.id.clone(), first);
        }
        self.accounts.insert(account.id.clone(), account.clone());
        self.changes.accounts.insert(account.id.clone(), account.clone());
        Ok(account)
    }

    /// Makes a key. Repeated, it answers the key; its secret was shown the first time.
    pub fn create_key(&mut self, command: &CreateKey) -> Applied<Made<Key>> {
        if !self.accounts.contains_key(&command.account) {
            return Err(CommandError::NotFound("account"));
        }
        if let Some(known) = self.keys.get(&(command.account.clone(), command.id.clone())) {
            let same = known.name == command.name
                && known.read_only == command.read_only
                && known.daily_limit == command.daily_limit;
            return repeated(known, same, format!("key {} exists with other content", known.id));
        }
        let key = Key {
            account: command.account.clone(),
            id: command.id.clone(),
            name: command.name.clone(),
            read_only: command.read_only,
            daily_limit: command.daily_limit,
            revoked_at: None,
            created_at: self.now,
        };
        self.put_key(&key);
        self.put_secret(&key, &command.secret);
        Ok(Made { value: key, fresh: true })
    }

    /// Changes what is given of a key.
    pub fn update_key(&mut self, command: &UpdateKey) -> Applied<Key> {
        let mut key = self.known_key(&command.account, &command.id)?;
        key.name = command.name.clone().unwrap_or(key.name);
        key.daily_limit = command.daily_limit.unwrap_or(key.daily_limit);
        self.put_key(&key);
        Ok(key)
    }

    /// Gives a key another secret; its usage and limit go on.
    pub fn rotate_key(&mut self, account: &AccountId, id: &KeyId, secret: &SecretDigest) -> Applied<Key> {
        let key = self.known_key(account, id)?;
        if key.revoked_at.is_some() {
            return Err(id_conflict(format!("key {id} is revoked; make a new one")));
        }
        self.put_key(&key);
        self.put_secret(&key, secret);
        Ok(key)
    }

    /// Revokes a key; its usage stays, its leases are metered on.
    pub fn revoke_key(&mut self, account: &AccountId, id: &KeyId) -> Applied<Key> {
        let mut key = self.known_key(account, id)?;
        if key.revoked_at.is_none() {
            key.revoked_at = Some(self.now);
            self.put_key(&key);
        }
        Ok(key)
    }

    /// Makes a grant of free time.
    pub fn create_grant(&mut self, command: &CreateGrant) -> Applied<Made<Grant>> {
        if !self.accounts.contains_key(&command.account) {
            return Err(CommandError::NotFound("account"));
        }
        let known = self.grants.get(&command.account).and_then(|all| all.iter().find(|one| one.id == command.id));
        if let Some(known) = known {
            let same = known.granted_ms == command.granted_ms
                && command.starts_on.is_none_or(|day| day == known.starts_on)
                && known.expires_on == command.expires_on
                && known.note == command.note;
            return repeated(known, same, format!("grant {} exists with other content", known.id));
        }
        if self.credit(&command.account, &command.id).is_some() {
            return Err(id_conflict(format!("grant {} exists, of credit", command.id)));
        }
        let starts_on = command.starts_on.unwrap_or(self.now.day());
        if command.expires_on.is_some_and(|end| end <= starts_on) {
            return Err(invalid("/expires_on", "a grant expires after the day on which it starts"));
        }
        let grant = Grant {
            account: command.account.clone(),
            id: command.id.clone(),
            granted_ms: command.granted_ms,
            used_ms: 0,
            starts_on,
            expires_on: command.expires_on,
            note: command.note.clone(),
            created_at: self.now,
        };
        self.add_grant(grant.clone());
        Ok(Made { value: grant, fresh: true })
    }

    /// Makes a grant of promotional credit. Answers what is drawn on it, too.
    pub fn create_credit(&mut self, command: &CreateCredit) -> Applied<Made<(Credit, Micros)>> {
        if !self.accounts.contains_key(&command.account) {
            return Err(CommandError::NotFound("account"));
        }
        if let Some((known, drawn)) = self.credit(&command.account, &command.id) {
            let same = known.granted == command.granted
                && command.starts_on.is_none_or(|day| day == known.starts_on)
                && known.expires_on == command.expires_on
                && known.note == command.note;
            let otherwise = format!("grant {} exists with other content", known.id);
            return repeated(&(known.clone(), drawn), same, otherwise);
        }
        let hours = self.grants.get(&command.account);
        if hours.is_some_and(|hours| hours.iter().any(|grant| grant.id == command.id)) {
            return Err(id_conflict(format!("grant {} exists, of free time", command.id)));
        }
        let starts_on = command.starts_on.unwrap_or(self.now.day());
        if command.expires_on.is_some_and(|end| end <= starts_on) {
            return Err(invalid("/expires_on", "a grant expires after the day on which it starts"));
        }
        let credit = Credit {
            account: command.account.clone(),
            id: command.id.clone(),
            granted: command.granted,
            starts_on,
            expires_on: command.expires_on,
            note: command.note.clone(),
            created_at: self.now,
        };
        self.changes.credits.insert((credit.account.clone(), credit.id.clone()), credit.clone());
        Ok(Made { value: (credit, Micros::ZERO), fresh: true })
    }

    /// A credit, and what is drawn on it.
    fn credit(&self, account: &AccountId, id: &GrantId) -> Option<(&Credit, Micros)> {
        let mut credits = self.credits.get(account)?.credits();
        credits.find(|(credit, _)| credit.id == *id)
    }

    /// Adds a rate card. `same_id`: the entry that has its id; `same_day`: that of its scope and day.
    pub fn add_rate_card(
        &mut self,
        command: &AddRateCard,
        same_id: Option<&RateCardEntry>,
        same_day: Option<&RateCardEntry>,
    ) -> Applied<Made<RateCardEntry>> {
        self.scope_exists(command.account.as_ref())?;
        let entry = RateCardEntry {
            account: command.account.clone(),
            effective_on: command.effective_on,
            card: Some(command.card.clone()),
            created_at: self.now,
        };
        if let Some(known) = same_id {
            let same = RateCardEntry { created_at: known.created_at, ..entry } == *known;
            return repeated(known, same, format!("rate card {} exists with other content", command.card.id));
        }
        if command.card.id == self.rules.list.id {
            return Err(id_conflict(format!("rate card {} is the first default card", command.card.id)));
        }
        self.add_entry(entry, same_day)
    }

    /// Returns an account to the default card from a day on.
    pub fn return_to_default(
        &mut self,
        command: &ReturnToDefault,
        same_day: Option<&RateCardEntry>,
    ) -> Applied<Made<RateCardEntry>> {
        self.scope_exists(Some(&command.account))?;
        let entry = RateCardEntry {
            account: Some(command.account.clone()),
            effective_on: command.effective_on,
            card: None,
            created_at: self.now,
        };
        match same_day {
            Some(known) if known.card.is_none() => Ok(Made { value: known.clone(), fresh: false }),
            Some(_) | None => self.add_entry(entry, same_day),
        }
    }

    fn add_entry(&mut self, entry: RateCardEntry, same_day: Option<&RateCardEntry>) -> Applied<Made<RateCardEntry>> {
        if same_day.is_some() {
            return Err(id_conflict("there is a card for this day already; every day has exactly one price"));
        }
        if !entry.can_change(self.now) {
            return Err(invalid("/effective_on", "a card is added at least an hour before its day begins (00:00 UTC)"));
        }
        self.changes.rate_cards_added.push(entry.clone());
        Ok(Made { value: entry, fresh: true })
    }

    /// Removes a rate card before its day.
    pub fn remove_rate_card(&mut self, command: &RemoveRateCard, known: Option<&RateCardEntry>) -> Applied<()> {
        let entry = known.ok_or(CommandError::NotFound("rate card"))?;
        if !entry.can_change(self.now) {
            return Err(id_conflict("a card can be removed up to an hour before its day; afterwards it stays"));
        }
        self.changes.rate_cards_removed.push(command.id.clone());
        Ok(())
    }

    fn scope_exists(&self, account: Option<&AccountId>) -> Applied<()> {
        match account {
            Some(account) if !self.accounts.contains_key(account) => Err(CommandError::NotFound("account")),
            Some(_) | None => Ok(()),
        }
    }

    fn known_key(&self, account: &AccountId, id: &KeyId) -> Applied<Key> {
        self.keys.get(&(account.clone(), id.clone())).cloned().ok_or(CommandError::NotFound("key"))
    }

    fn put_key(&mut self, key: &Key) {
        let id = (key.account.clone(), key.id.clone());
        self.keys.insert(id.clone(), key.clone());
        self.changes.keys.insert(id, key.clone());
    }

    fn put_secret(&mut self, key: &Key, secret: &SecretDigest) {
        self.changes.key_secrets.insert((key.account.clone(), key.id.clone()), secret.sha256);
    }

    fn add_grant(&mut self, grant: Grant) {
        self.changes.grants.insert((grant.account.clone(), grant.id.clone()), grant.clone());
        self.take_grants(vec![grant]);
    }
}

/// A thing that exists: the same again, or a conflict.
fn repeated<T: Clone>(known: &T, same: bool, otherwise: String) -> Applied<Made<T>> {
    if same { Ok(Made { value: known.clone(), fresh: false }) } else { Err(id_conflict(otherwise)) }
}
