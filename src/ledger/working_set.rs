//! The rows of one batch: what was loaded, as the commands of the batch have changed it, and what is to be saved.
//!
//! Commands are applied to it one after another; each sees what the ones before it did. Counters are read as the loaded
//! value plus the batch's additions, and saved as additions only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::Overflow;
use crate::domain::admission::FreeCover;
use crate::domain::credit::CreditBook;
use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::{Draws, Grant, sort_for_drawing};
use crate::domain::id::{AccountId, ExtendId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::limits::DayTotals;
use crate::domain::money::Cost;
use crate::domain::rate_card::{PriceBook, RateCard, RateCardEntry};
use crate::domain::sample::{Reading, StorageReport};
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{Holders, StoragePoint};
use crate::domain::time::{Day, Hour, Month, Timestamp};
use crate::domain::unbilled::{Cause, unbilled};
use crate::domain::usage::Usage;
use crate::store::changes::{Changes, Extension};

/// Operators' settings that decisions read.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How long after its end a lease settles without a sample that reaches the end, in milliseconds.
    pub settle_after_ms: i64,
    /// What free time covers where no card is on file.
    pub cover: FreeCover,
    /// Free time of a new account, in milliseconds.
    pub welcome_ms: i64,
    /// The first default rate card.
    pub list: RateCard,
    /// After how long without a sample a running lease is stale, in milliseconds.
    pub stale_after_ms: i64,
    /// How many samples that are not used are kept for people, an account.
    pub rejected_kept: i64,
}

/// An account and a lease.
pub type LeaseKey = (AccountId, LeaseId);
/// An account and a sandbox.
pub type SandboxKey = (AccountId, SandboxId);
/// An account and a key.
pub type KeyKey = (AccountId, KeyId);

/// What is known of a sandbox.
#[derive(Debug, Default)]
pub struct Known {
    /// Its lives, ascending: from the one in force at the time asked for to the newest.
    pub lives: Vec<Sandbox>,
    /// Those of its leases that are loaded, or added.
    pub leases: BTreeSet<LeaseId>,
}

/// The rows of one batch.
#[derive(Debug)]
pub struct WorkingSet {
    /// The time of the batch: taken anew after its locks are got, where the store has a clock that all engines share.
    pub now: Timestamp,
    /// Whether the store's clock is asked; not where a test's clock stands still.
    pub asks_store: bool,
    /// Settings.
    pub rules: Arc<Rules>,
    /// The earliest month that is not closed.
    pub open_month: Month,
    /// The first month whose evidence is at hand: what is of an earlier one can't be judged any more.
    pub evidence_from: Month,
    /// Accounts.
    pub accounts: BTreeMap<AccountId, Account>,
    /// Accounts that are only known to be there.
    pub known_accounts: BTreeSet<AccountId>,
    /// Keys.
    pub keys: BTreeMap<KeyKey, Key>,
    /// Prices of the accounts.
    pub books: BTreeMap<AccountId, Arc<PriceBook>>,
    /// Grants, sorted for drawing.
    pub grants: BTreeMap<AccountId, Vec<Grant>>,
    /// Credits of accounts that have any, with what final invoices drew on them.
    pub credits: BTreeMap<AccountId, CreditBook>,
    /// Of accounts without a card that have credit: net usage by day that no final invoice has billed.
    pub unbilled: BTreeMap<AccountId, BTreeMap<Day, Usage>>,
    /// Leases, some of them only to look at.
    pub leases: BTreeMap<LeaseKey, Arc<Lease>>,
    /// Leases that this batch has locked (or assumed): only these, and those that it adds, may it change.
    pub locked: BTreeSet<LeaseKey>,
    /// What is known of sandboxes.
    pub sandboxes: BTreeMap<SandboxKey, Known>,
    /// Keys' days that were asked for.
    pub days: BTreeSet<(AccountId, KeyId, Day)>,
    /// Keys' days as loaded; a missing one is zero.
    pub key_days: BTreeMap<(AccountId, KeyId, Day), DayTotals>,
    /// Accounts' days as loaded.
    pub account_days: BTreeMap<(AccountId, Day), DayTotals>,
    /// Extensions that were asked for before.
    pub extensions: BTreeMap<(AccountId, LeaseId, ExtendId), Extension>,
    /// Hours of leases that are not open hours; a missing one is zero.
    pub hours: BTreeMap<(LeaseKey, Hour), HourTotals>,
    /// Draws of leases' hours; a missing one is empty.
    pub draws: BTreeMap<(LeaseKey, Hour), Draws>,
    /// Readings around late samples and early ends, ascending.
    pub readings: BTreeMap<LeaseKey, Vec<Reading>>,
    /// Voided readings around late samples: they count no more, but stand in their place.
    pub voided: BTreeMap<LeaseKey, Vec<Reading>>,
    /// Voided samples at rest, likewise.
    pub voided_at_rest: BTreeMap<(SandboxKey, i64), Vec<StorageReport>>,
    /// Samples at rest around late ones, ascending.
    pub at_rest: BTreeMap<(SandboxKey, i64), Vec<StoragePoint>>,
    /// Reports of storage around late ones, ascending; only those that count.
    pub storage: BTreeMap<(SandboxKey, i64), Vec<StoragePoint>>,
    /// To which key storage is attributed, where more than the latest lease matters.
    pub holders: BTreeMap<(SandboxKey, i64), Holders>,
    /// Usage that corrections added, by account and day of use: late samples.
    pub late: Vec<(AccountId, Day, Usage)>,
    /// What cards that were not known when leases were admitted add to what they cost.
    pub repriced: Cost,
    /// Time that nobody pays for, found when its lease was settled: cause and milliseconds.
    pub unproven: Vec<(Cause, i64)>,
    /// What is to be saved.
    pub changes: Changes,
}

impl WorkingSet {
    /// An empty one.
    #[must_use]
    pub fn new(now: Timestamp, rules: Arc<Rules>, open_month: Month) -> Self {
        Self {
            now,
            asks_store: false,
            rules,
            open_month,
            evidence_from: Month::FIRST,
            accounts: BTreeMap::new(),
            known_accounts: BTreeSet::new(),
            keys: BTreeMap::new(),
            books: BTreeMap::new(),
            grants: BTreeMap::new(),
            credits: BTreeMap::new(),
            unbilled: BTreeMap::new(),
            leases: BTreeMap::new(),
            locked: BTreeSet::new(),
            sandboxes: BTreeMap::new(),
            days: BTreeSet::new(),
            key_days: BTreeMap::new(),
            account_days: BTreeMap::new(),
            extensions: BTreeMap::new(),
            hours: BTreeMap::new(),
            draws: BTreeMap::new(),
            readings: BTreeMap::new(),
            voided: BTreeMap::new(),
            voided_at_rest: BTreeMap::new(),
            at_rest: BTreeMap::new(),
            storage: BTreeMap::new(),
            holders: BTreeMap::new(),
            late: Vec::new(),
            repriced: Cost::ZERO,
            unproven: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// Counts what of a lease that is now settled in its row nobody pays for.
    pub(super) fn count_unproven(&mut self, settled: &Lease) {
        let found = unbilled(settled, self.now).map(|(cause, span)| (cause, span.length_ms()));
        self.unproven.extend(found);
    }

    /// Takes in leases that were locked and then loaded: they replace what was only looked at. One that was locked
    /// before stays as this batch has it.
    pub fn take_locked(&mut self, leases: Vec<Lease>) {
        for lease in leases {
            let key = (lease.account.clone(), lease.id.clone());
            self.sandbox_of(&lease).leases.insert(key.1.clone());
            if self.locked.insert(key.clone()) {
                self.leases.insert(key, Arc::new(lease));
            }
        }
    }

    /// Takes in leases that are not locked but assumed, to be metered like those that are. Whose they are besides matters
    /// to nothing that may be done to them.
    pub(super) fn take_assumed(&mut self, leases: BTreeMap<LeaseKey, Arc<Lease>>) {
        self.locked.extend(leases.keys().cloned());
        self.leases.extend(leases);
    }

    /// Whether an account of the batch has free time left to draw on.
    pub(super) fn has_free_time(&self) -> bool {
        self.grants.values().flatten().any(|grant| grant.left_ms() > 0)
    }

    /// Takes in leases to look at; one that is there already stays as this batch has it.
    pub fn take_leases(&mut self, leases: Vec<Lease>) {
        for lease in leases {
            self.sandbox_of(&lease).leases.insert(lease.id.clone());
            self.leases.entry((lease.account.clone(), lease.id.clone())).or_insert_with(|| Arc::new(lease));
        }
    }

    /// Takes in loaded sandbox lives.
    pub fn take_sandboxes(&mut self, sandboxes: Vec<Sandbox>) {
        for sandbox in sandboxes {
            let lives = &mut self.sandboxes.entry((sandbox.account.clone(), sandbox.id.clone())).or_default().lives;
            if lives.iter().all(|life| life.life != sandbox.life) {
                lives.push(sandbox);
            }
            lives.sort_by_key(|life| life.life);
        }
    }

    /// Takes in loaded accounts.
    pub fn take_accounts(&mut self, accounts: Vec<Account>) {
        self.accounts.extend(accounts.into_iter().map(|account| (account.id.clone(), account)));
    }

    /// Takes in loaded grants.
    pub fn take_grants(&mut self, grants: Vec<Grant>) {
        for grant in grants {
            self.grants.entry(grant.account.clone()).or_default().push(grant);
        }
        for grants in self.grants.values_mut() {
            sort_for_drawing(grants);
        }
    }

    /// Makes the price books of the accounts from loaded entries.
    pub fn take_rate_cards(&mut self, accounts: &BTreeSet<AccountId>, entries: &[RateCardEntry]) {
        for account in accounts {
            let book = PriceBook::new(self.rules.list.clone(), account, entries);
            self.books.insert(account.clone(), Arc::new(book));
        }
    }

    /// The prices of an account (the list's, where none were loaded: then nothing of the account is in this batch).
    #[must_use]
    pub fn prices(&self, account: &AccountId) -> Arc<PriceBook> {
        self.books
            .get(account)
            .cloned()
            .unwrap_or_else(|| Arc::new(PriceBook::new(self.rules.list.clone(), account, &[])))
    }

    /// A key's day, this batch's additions in it.
    pub fn key_day(&self, account: &AccountId, key: &KeyId, day: Day) -> Result<DayTotals, Overflow> {
        let at = (account.clone(), key.clone(), day);
        let loaded = self.key_days.get(&at).copied().unwrap_or_default();
        loaded.plus(self.changes.key_days.get(&at).copied().unwrap_or_default())
    }

    /// An account's day, this batch's additions in it.
    pub fn account_day(&self, account: &AccountId, day: Day) -> Result<DayTotals, Overflow> {
        let at = (account.clone(), day);
        let loaded = self.account_days.get(&at).copied().unwrap_or_default();
        loaded.plus(self.changes.account_days.get(&at).copied().unwrap_or_default())
    }

    /// Adds to a key's day, and to its account's where that is counted.
    pub fn count(&mut self, account: &AccountId, key: &KeyId, day: Day, add: DayTotals) -> Result<(), Overflow> {
        if add.is_zero() {
            return Ok(());
        }
        let days = self.changes.key_days.entry((account.clone(), key.clone(), day)).or_default();
        *days = days.plus(add)?;
        let counted_from = self.accounts.get(account).and_then(|account| account.counted_from);
        if counted_from.is_some_and(|first| first <= day) {
            let days = self.changes.account_days.entry((account.clone(), day)).or_default();
            *days = days.plus(add)?;
        }
        Ok(())
    }

    /// Notes a lease as changed, so that it is saved.
    pub fn put_lease(&mut self, lease: impl Into<Arc<Lease>>) {
        let lease = lease.into();
        let key = (lease.account.clone(), lease.id.clone());
        let before = self.leases.insert(key.clone(), Arc::clone(&lease));
        let changes = &mut self.changes;
        if let Some(added) = changes.leases_added.get_mut(&key) {
            *added = lease;
        } else if changes.leases_changed.contains_key(&key)
            || !before.is_some_and(|before| lease.is_only_metered(&before))
        {
            changes.leases_metered.remove(&key);
            changes.leases_changed.insert(key, lease);
        } else {
            changes.leases_metered.insert(key, lease);
        }
    }

    /// Adds a lease that was admitted.
    pub fn add_lease(&mut self, lease: impl Into<Arc<Lease>>) {
        let lease = lease.into();
        let key = (lease.account.clone(), lease.id.clone());
        self.sandbox_of(&lease).leases.insert(key.1.clone());
        self.changes.leases_added.insert(key.clone(), Arc::clone(&lease));
        self.leases.insert(key, lease);
    }

    fn sandbox_of(&mut self, lease: &Lease) -> &mut Known {
        self.sandboxes.entry((lease.account.clone(), lease.sandbox.clone())).or_default()
    }

    /// Whether the batch may change a lease.
    #[must_use]
    pub fn may_change(&self, key: &LeaseKey) -> bool {
        self.locked.contains(key) || self.changes.leases_added.contains_key(key)
    }

    /// The newest life of a sandbox.
    #[must_use]
    pub fn newest_life(&self, account: &AccountId, sandbox: &SandboxId) -> Option<&Sandbox> {
        self.sandboxes.get(&(account.clone(), sandbox.clone())).and_then(|known| known.lives.last())
    }

    /// A life of a sandbox.
    #[must_use]
    pub fn life(&self, account: &AccountId, sandbox: &SandboxId, life: i64) -> Option<&Sandbox> {
        self.sandboxes.get(&(account.clone(), sandbox.clone()))?.lives.iter().find(|known| known.life == life)
    }

    /// Notes a life of a sandbox as made or changed, so that it is saved.
    pub fn put_sandbox(&mut self, sandbox: Sandbox) {
        let key = (sandbox.account.clone(), sandbox.id.clone(), sandbox.life);
        let lives = &mut self.sandboxes.entry((key.0.clone(), key.1.clone())).or_default().lives;
        let known = lives.iter_mut().find(|known| known.life == sandbox.life);
        let is_new = known.is_none() || self.changes.sandboxes_added.contains_key(&key);
        if let Some(known) = known {
            *known = sandbox.clone();
        } else {
            // Most have one life.
            lives.reserve_exact(1);
            lives.push(sandbox.clone());
        }
        let changes = &mut self.changes;
        let place = if is_new { &mut changes.sandboxes_added } else { &mut changes.sandboxes };
        place.insert(key, sandbox);
    }

    /// Loaded leases of a sandbox, by id.
    pub fn leases_of(&self, account: &AccountId, sandbox: &SandboxId) -> impl Iterator<Item = &Lease> {
        let known = self.sandboxes.get(&(account.clone(), sandbox.clone()));
        let account = account.clone();
        known
            .into_iter()
            .flat_map(|known| &known.leases)
            .filter_map(move |id| self.leases.get(&(account.clone(), id.clone())).map(AsRef::as_ref))
    }
}
