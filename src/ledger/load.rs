//! Loading: the rows that a batch touches, in a handful of statements, before its commands are applied.
//!
//! Order of locks: accounts, leases, sandboxes, counters; rows in the order of their keys. What is decided on is loaded
//! after the lock that keeps it as it is; what is read before only says what to lock, and the batch begins again
//! ([`StoreError::Again`]) where that turns out to be too little. The time of the batch is taken after its locks; what was
//! loaded by an earlier time is loaded again where the day has become another. Rare rows (evidence around a late sample,
//! hours of a correction) are loaded only where a command of the batch needs them. What a batch at the gate reads is in
//! `load/gate.rs`.

mod gate;

pub(super) use gate::{About, Asks, Early, gate};

use std::collections::{BTreeMap, BTreeSet};

use super::command::{DeleteSandbox, EndLease, PutSandbox};
use super::recall::Recalled;
use super::working_set::{KeyKey, LeaseKey, SandboxKey, WorkingSet};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, SandboxId};
use crate::domain::lease::EndReason;
use crate::domain::time::Timestamp;
use crate::store::shapes::{KeyDay, Terms};
use crate::store::{StoreError, Tx};

/// What loading answers.
pub type Loaded<T> = Result<T, StoreError>;

/// Leases and sandboxes that a batch names.
#[derive(Debug, Default)]
struct Named {
    leases: BTreeSet<LeaseKey>,
    /// From when on leases of a sandbox matter.
    sandboxes: BTreeMap<SandboxKey, Timestamp>,
}

impl Named {
    fn sandbox(&mut self, account: &AccountId, sandbox: &SandboxId, from: Timestamp) {
        let at = self.sandboxes.entry((account.clone(), sandbox.clone())).or_insert(from);
        *at = from.min(*at);
    }
}

/// Takes the time from the store's clock, as it was when the last lock was got: all engines agree on it.
pub(super) async fn tell_time(tx: &mut Tx, set: &mut WorkingSet) -> Loaded<()> {
    if set.asks_store
        && let Some(now) = tx.now().await?
    {
        set.now = now;
    }
    Ok(())
}

/// Locks and loads named leases, those that meet the windows asked for, and the sandboxes.
async fn load_leases_and_sandboxes(tx: &mut Tx, set: &mut WorkingSet, named: &Named) -> Loaded<()> {
    set.take_locked(tx.lock_leases_meeting(&named.leases, &named.sandboxes).await?);
    let from: Vec<_> = named.sandboxes.iter().map(|((account, id), at)| (account.clone(), id.clone(), *at)).collect();
    set.take_sandboxes(tx.lock_sandboxes(&from).await?);
    Ok(())
}

async fn load_keys(tx: &mut Tx, set: &mut WorkingSet, ids: &BTreeSet<KeyKey>) -> Loaded<()> {
    set.keys.extend(tx.keys(ids).await?.into_iter().map(|key| ((key.account.clone(), key.id.clone()), key)));
    Ok(())
}

/// Grants and prices.
async fn load_terms(tx: &mut Tx, set: &mut WorkingSet, accounts: &BTreeSet<AccountId>) -> Loaded<()> {
    let terms = tx.terms(accounts).await?;
    take_terms(set, accounts, terms);
    Ok(())
}

fn take_terms(set: &mut WorkingSet, accounts: &BTreeSet<AccountId>, terms: Terms) {
    set.take_grants(terms.grants);
    set.take_rate_cards(accounts, &terms.cards);
}

/// Loads the keys and counters of the days that this batch decides on, as they are now.
pub(super) async fn count_days(tx: &mut Tx, set: &mut WorkingSet) -> Loaded<()> {
    let days = tx.key_days(&set.days).await?;
    take_days(set, days);
    Ok(())
}

fn take_days(set: &mut WorkingSet, days: Vec<KeyDay>) {
    for KeyDay { of, key, totals, of_account } in days {
        let (account, key_id, day) = &of;
        let is_counted = set.accounts.get(account).is_some_and(|account| account.counted_from.is_some());
        if is_counted {
            set.account_days.insert((account.clone(), *day), of_account.unwrap_or_default());
        }
        set.keys.extend(key.map(|key| ((account.clone(), key_id.clone()), key)));
        set.key_days.insert(of, totals.unwrap_or_default());
    }
}

/// Loads what ends, deletions and registrations read. What makes or deletes a sandbox locks its account: an admission
/// may be making the same one, and a row that is not there can't be locked.
pub async fn lives(
    tx: &mut Tx,
    set: &mut WorkingSet,
    leases: &BTreeSet<LeaseKey>,
    ends: &[&EndLease],
    puts: &[&PutSandbox],
    deletes: &[&DeleteSandbox],
) -> Loaded<()> {
    let mut accounts: BTreeSet<AccountId> = leases.iter().map(|(account, _)| account.clone()).collect();
    accounts.extend(puts.iter().map(|put| put.account.clone()));
    accounts.extend(deletes.iter().map(|delete| delete.account.clone()));
    let deleting = ends.iter().filter(|end| end.reason == EndReason::Delete).map(|end| &end.account);
    let mut locked: BTreeSet<AccountId> = deleting.cloned().collect();
    locked.extend(puts.iter().map(|put| put.account.clone()));
    locked.extend(deletes.iter().map(|delete| delete.account.clone()));
    let ending = ends.iter().map(|end| end.account.clone()).collect();
    hold_accounts(tx, set, &accounts, &mut locked, &ending, may_pay).await?;
    tell_time(tx, set).await?;
    let mut named = Named { leases: leases.clone(), sandboxes: BTreeMap::new() };
    for (account, sandbox) in puts.iter().map(|put| (&put.account, &put.sandbox)) {
        named.sandbox(account, sandbox, set.now);
    }
    for (account, sandbox) in deletes.iter().map(|delete| (&delete.account, &delete.sandbox)) {
        named.sandbox(account, sandbox, set.now);
    }
    let known = tx.leases(leases).await?;
    let deleted: BTreeMap<LeaseKey, Timestamp> = ends
        .iter()
        .filter(|end| end.reason == EndReason::Delete)
        .map(|end| ((end.account.clone(), end.lease.clone()), end.ended_at.unwrap_or(set.now)))
        .collect();
    let mut reports: BTreeMap<SandboxKey, Timestamp> = BTreeMap::new();
    for lease in &known {
        if let Some(at) = deleted.get(&(lease.account.clone(), lease.id.clone())) {
            let at = (*at).min(lease.effective_end());
            // A lease that starts in a minute may follow one that is still on.
            named.sandbox(&lease.account, &lease.sandbox, lease.window.start.min(set.now));
            reports.insert((lease.account.clone(), lease.sandbox.clone()), at);
        }
    }
    reports.extend(deletes.iter().map(|delete| ((delete.account.clone(), delete.sandbox.clone()), set.now)));
    load_leases_and_sandboxes(tx, set, &named).await?;
    tell_time(tx, set).await?;
    load_terms(tx, set, &accounts).await?;
    check_held(tx, set, &locked, &ending, may_pay)?;
    load_keys(tx, set, &puts.iter().map(|put| (put.account.clone(), put.key.clone())).collect()).await?;
    super::evidence::for_cuts(tx, set, &cuts_of(set, ends)).await?;
    super::evidence::for_reports(tx, set, &reports).await
}

/// Where ends cut leases: the earliest, where several wait.
fn cuts_of(set: &WorkingSet, ends: &[&EndLease]) -> BTreeMap<LeaseKey, Timestamp> {
    let mut cuts: BTreeMap<LeaseKey, Timestamp> = BTreeMap::new();
    for end in ends {
        let key = (end.account.clone(), end.lease.clone());
        let Some(lease) = set.leases.get(&key) else { continue };
        let at = match end.reason {
            EndReason::Cancel => lease.window.start,
            EndReason::HostLost => lease.metered_until(),
            EndReason::Stop | EndReason::Pause | EndReason::Delete | EndReason::Replaced => {
                end.ended_at.unwrap_or(set.now).min(lease.window.end)
            }
        };
        let cut = cuts.entry(key).or_insert(at);
        *cut = at.min(*cut);
    }
    cuts
}

/// Holds and loads the accounts whose usage a batch posts: locked are those in `locked`, and those of `drawing` that have
/// a grant which `pays` (they join `locked`); the others are shared, so that no account begins its day counters meanwhile.
///
/// Grants are read here only to learn what to lock: see [`check_held`].
pub(super) async fn hold_accounts(
    tx: &mut Tx,
    set: &mut WorkingSet,
    accounts: &BTreeSet<AccountId>,
    locked: &mut BTreeSet<AccountId>,
    drawing: &BTreeSet<AccountId>,
    pays: fn(&Grant) -> bool,
) -> Loaded<()> {
    if !tx.is_shared() {
        set.take_accounts(tx.accounts(accounts).await?);
        return Ok(());
    }
    let unlocked: BTreeSet<AccountId> = drawing.difference(locked).cloned().collect();
    locked.extend(tx.grants(&unlocked).await?.into_iter().filter(pays).map(|grant| grant.account));
    set.take_accounts(tx.lock_accounts(locked).await?);
    set.take_accounts(tx.share_accounts(&accounts.difference(locked).cloned().collect()).await?);
    Ok(())
}

/// Whether every account of `drawing` that turned out to have a grant which `pays` is locked. One may have been granted
/// free time after [`hold_accounts`] looked.
pub(super) fn check_held(
    tx: &Tx,
    set: &WorkingSet,
    locked: &BTreeSet<AccountId>,
    drawing: &BTreeSet<AccountId>,
    pays: fn(&Grant) -> bool,
) -> Loaded<()> {
    let mut unlocked = drawing.difference(locked).filter_map(|account| set.grants.get(account));
    if tx.is_shared() && unlocked.any(|grants| grants.iter().any(pays)) {
        return Err(StoreError::Again("an account was granted free time meanwhile".to_owned()));
    }
    Ok(())
}

/// Locks and holds what a batch of samples posts to, and loads it: accounts with free time left are locked, for their
/// usage draws on it. A sample never gives free time back, so one that is used up is left alone. Leases that are recalled
/// are not locked but assumed.
pub(super) async fn samples(
    tx: &mut Tx,
    set: &mut WorkingSet,
    accounts: &BTreeSet<AccountId>,
    running: &BTreeSet<LeaseKey>,
    recalled: Option<BTreeMap<LeaseKey, Recalled>>,
) -> Loaded<()> {
    let has_left = |grant: &Grant| grant.left_ms() > 0;
    let mut locked = BTreeSet::new();
    hold_accounts(tx, set, accounts, &mut locked, accounts, has_left).await?;
    let mut assumes = false;
    match recalled {
        Some(recalled) => {
            tx.assume(recalled.iter().map(|(key, (_, written_by))| (key.clone(), *written_by)).collect());
            set.take_assumed(recalled.into_iter().map(|(key, (lease, _))| (key, lease)).collect());
            assumes = true;
        }
        None => set.take_locked(tx.lock_leases(running).await?),
    }
    tell_time(tx, set).await?;
    load_terms(tx, set, accounts).await?;
    if assumes && set.has_free_time() {
        return Err(StoreError::Again("free time has come, which is drawn in one order".to_owned()));
    }
    check_held(tx, set, &locked, accounts, has_left)
}

/// Whether usage may still draw on a grant, or give back to it. A grant that lapsed pays for usage of its own days yet.
fn may_pay(grant: &Grant) -> bool {
    grant.left_ms() > 0 || grant.used_ms > 0
}

/// Locks and loads leases of accounts that are due to settle; answers how many others hold, which are not loaded.
pub async fn due(tx: &mut Tx, set: &mut WorkingSet, accounts: &BTreeSet<AccountId>, limit: i64) -> Loaded<usize> {
    let (leases, passed_over) = tx.due_leases(accounts, set.now, limit).await?;
    set.take_locked(leases);
    if tx.is_shared() {
        // Others may have settled some since the counters were loaded.
        count_days(tx, set).await?;
    }
    Ok(passed_over)
}
