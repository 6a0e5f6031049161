//! Loading: the rows that a batch touches, in a handful of statements, before its commands are applied.
//!
//! Order of locks: accounts, leases, sandboxes, counters; rows in the order of their keys. What is decided on is loaded
//! after the lock that keeps it as it is; what is read before only says what to lock, and the batch begins again
//! ([`StoreError::Again`]) where that turns out to be too little. The time of the batch is taken after its locks; what was
//! loaded by an earlier time is loaded again where the day has become another. Rare rows (evidence around a late sample, hours of a correction) are loaded only where a command of
//! the batch needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::{AdmitRequest, DeleteSandbox, EndLease, ExtendLease, PutSandbox};
use super::recall::Recalled;
use super::working_set::{KeyKey, LeaseKey, SandboxKey, WorkingSet};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, ExtendId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{EndReason, Lease};
use crate::domain::time::{Day, Month, Span, Timestamp};
use crate::domain::usage::Usage;
use crate::store::decision::Asked;
use crate::store::shapes::{BilledSpan, KeyDay, Terms};
use crate::store::{StoreError, Tx};

/// What loading answers.
pub type Loaded<T> = Result<T, StoreError>;

/// What a batch of gate commands names.
#[derive(Debug, Default)]
struct Named {
    accounts: BTreeSet<AccountId>,
    keys: BTreeSet<KeyKey>,
    leases: BTreeSet<LeaseKey>,
    extensions: BTreeSet<(AccountId, LeaseId, ExtendId)>,
    /// From when on leases of a sandbox matter.
    sandboxes: BTreeMap<SandboxKey, Timestamp>,
}

impl Named {
    fn admission(&mut self, request: &AdmitRequest, now: Timestamp) {
        let account = &request.account;
        self.accounts.insert(account.clone());
        for asked in &request.leases {
            self.leases.insert((account.clone(), asked.id.clone()));
            self.leases.extend(asked.replaces.clone().map(|old| (account.clone(), old)));
            self.sandbox(account, &asked.sandbox, asked.starts_at.unwrap_or(now));
        }
    }

    fn extension(&mut self, command: &ExtendLease) {
        self.accounts.insert(command.account.clone());
        self.leases.insert((command.account.clone(), command.lease.clone()));
        self.extensions.insert((command.account.clone(), command.lease.clone(), command.id.clone()));
    }

    fn sandbox(&mut self, account: &AccountId, sandbox: &SandboxId, from: Timestamp) {
        let at = self.sandboxes.entry((account.clone(), sandbox.clone())).or_insert(from);
        *at = from.min(*at);
    }
}

/// Loads what admissions and extensions read; their accounts are locked.
pub async fn gate(
    tx: &mut Tx,
    set: &mut WorkingSet,
    admissions: &[&AdmitRequest],
    extensions: &[&ExtendLease],
) -> Loaded<()> {
    tell_time(tx, set).await?;
    let mut named = Named::default();
    for request in admissions {
        named.admission(request, set.now);
    }
    for command in extensions {
        named.extension(command);
    }
    let mut extended = BTreeMap::new();
    if !extensions.is_empty() {
        let known = tx.leases(&named.leases).await?;
        for lease in &known {
            named.keys.insert((lease.account.clone(), lease.key.clone()));
            named.sandbox(&lease.account, &lease.sandbox, lease.effective_end());
        }
        extended.extend(known.into_iter().map(|lease| ((lease.account.clone(), lease.id.clone()), Arc::new(lease))));
        load_keys(tx, set, &named.keys).await?;
        let extensions = tx.extensions(&named.extensions).await?;
        set.extensions
            .extend(extensions.into_iter().map(|one| ((one.account.clone(), one.lease.clone(), one.id.clone()), one)));
    }
    let days = days_of(set.now, &extended, admissions, extensions);
    let (accounts, leases, sandboxes) = (&named.accounts, &named.leases, &named.sandboxes);
    let found = tx.load_decision(&Asked { accounts, leases, sandboxes, days: &days }).await?;
    // A replaced lease, or one that settles, posts time that may be free.
    take_terms(set, accounts, found.terms);
    set.take_locked(found.leases);
    set.take_sandboxes(found.sandboxes);
    take_days(set, found.days);
    tell_time(tx, set).await?;
    set.days = days_of(set.now, &set.leases, admissions, extensions);
    if !set.days.is_subset(&days) {
        // While a lock was awaited a lease became another, or the day did.
        count_days(tx, set).await?;
    }
    load_cover(tx, set, &named.accounts).await?;
    load_corrections(tx, set, admissions, extensions).await
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

/// Where no card is on file: credit, and all unsettled leases of the account.
async fn load_cover(tx: &mut Tx, set: &mut WorkingSet, accounts: &BTreeSet<AccountId>) -> Loaded<()> {
    let uncovered = |id: &&AccountId| set.accounts.get(*id).is_some_and(|account| !account.card_on_file);
    let cardless: BTreeSet<AccountId> = accounts.iter().filter(uncovered).cloned().collect();
    if !cardless.is_empty() {
        set.take_leases(tx.unsettled_leases(&cardless).await?);
    }
    set.credits = tx.credit_books(&cardless).await?;
    let credited: BTreeSet<AccountId> = set.credits.keys().cloned().collect();
    load_unbilled(tx, set, &credited).await
}

/// Net usage by day that no final invoice has billed, late usage included. Read after the leases: a sample that is
/// counted in between is counted twice, as held and as used, never not at all.
async fn load_unbilled(tx: &mut Tx, set: &mut WorkingSet, accounts: &BTreeSet<AccountId>) -> Loaded<()> {
    if accounts.is_empty() {
        return Ok(());
    }
    let closed = tx.last_closed_month().await?;
    let billed = tx.last_invoices(accounts).await?;
    for account in accounts {
        let billed = billed.get(account).copied().max(closed);
        let first = billed.map_or(Month::FIRST, Month::next);
        let mut days: BTreeMap<Day, Usage> = BTreeMap::new();
        let until = Timestamp::MAX.day().next();
        let mut found: Vec<(Day, Usage)> = Vec::new();
        for ((_, day), totals) in tx.all_key_days(account, first.first_day(), until).await? {
            found.push((day, totals.used));
        }
        let mut month = first;
        while billed.is_some() && month <= set.now.month() {
            let late = tx.late_months(&[account.clone()].into(), month).await?;
            let spans = late.into_iter().filter(|(_, used)| *used < first).map(|(account, used)| {
                let (from, to) = (used.first_day().start().hour(), used.next().first_day().start().hour());
                BilledSpan { account, from, to, billed_month: month }
            });
            let spans: Vec<BilledSpan> = spans.collect();
            for row in tx.billed_usage(&spans, false).await? {
                found.push((row.day, row.totals.net()?));
            }
            month = month.next();
        }
        for (day, used) in found {
            let sum = days.entry(day).or_default();
            *sum = sum.plus(used)?;
        }
        set.unbilled.insert(account.clone(), days);
    }
    Ok(())
}

/// The keys and days that admissions, and extensions of these leases, are decided on.
fn days_of(
    now: Timestamp,
    leases: &BTreeMap<LeaseKey, Arc<Lease>>,
    admissions: &[&AdmitRequest],
    extensions: &[&ExtendLease],
) -> BTreeSet<(AccountId, KeyId, Day)> {
    let mut days: BTreeSet<(AccountId, KeyId, Day)> = BTreeSet::new();
    for request in admissions {
        for asked in &request.leases {
            let start = asked.starts_at.unwrap_or(now);
            let window = Span { start, end: start.near(asked.timeout_ms) };
            days.extend(window.by_day().map(|(day, _)| (request.account.clone(), request.key.clone(), day)));
        }
    }
    for command in extensions {
        let Some(lease) = leases.get(&(command.account.clone(), command.lease.clone())) else { continue };
        // Several extensions of one lease may wait in one batch: each day up to the longest lease.
        let window = Span { start: lease.window.end, end: lease.window.start.near(crate::domain::lease::LEASE_MS_MAX) };
        days.extend(window.by_day().map(|(day, _)| (lease.account.clone(), lease.key.clone(), day)));
    }
    days
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

/// Evidence and hours for replaced leases, extensions past a reading, and leases that start in the past.
async fn load_corrections(
    tx: &mut Tx,
    set: &mut WorkingSet,
    admissions: &[&AdmitRequest],
    extensions: &[&ExtendLease],
) -> Loaded<()> {
    let mut cuts: BTreeMap<LeaseKey, Timestamp> = BTreeMap::new();
    let mut reports: BTreeMap<SandboxKey, Timestamp> = BTreeMap::new();
    for request in admissions {
        for asked in &request.leases {
            let start = asked.starts_at.unwrap_or(set.now);
            if let Some(old) = &asked.replaces {
                cuts.insert((request.account.clone(), old.clone()), start);
            }
            reports.insert((request.account.clone(), asked.sandbox.clone()), start);
        }
    }
    for command in extensions {
        let key = (command.account.clone(), command.lease.clone());
        if let Some(lease) = set.leases.get(&key) {
            let end = lease.window.end;
            cuts.insert(key, end);
        }
    }
    super::evidence::for_cuts(tx, set, &cuts).await?;
    super::evidence::for_reports(tx, set, &reports).await
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
    let mut named = Named { leases: leases.clone(), ..Named::default() };
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
