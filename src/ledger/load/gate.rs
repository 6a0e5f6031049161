//! Loading what a batch at the gate is decided on.
//!
//! Where nobody else writes (SQLite) all that can be asked for at once is asked for along with the accounts; elsewhere
//! only after their locks were got. A request that is taken for new ([`super::super::unseen`]) is not looked up at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::batch::Gate;
use super::super::command::{AdmitRequest, ExtendLease};
use super::super::evidence;
use super::super::working_set::{LeaseKey, SandboxKey, WorkingSet};
use super::{Loaded, Named, count_days, load_keys, take_days, take_terms, tell_time};
use crate::domain::id::{AccountId, ExtendId, KeyId, LeaseId};
use crate::domain::lease::{LEASE_MS_MAX, Lease};
use crate::domain::time::{Day, Month, Span, Timestamp};
use crate::domain::usage::Usage;
use crate::store::Tx;
use crate::store::decision::{Asked, Found, Held};
use crate::store::shapes::BilledSpan;

/// Keys and their days.
pub(in super::super) type Days = BTreeSet<(AccountId, KeyId, Day)>;

/// A batch of gate commands.
#[derive(Debug, Default)]
pub(in super::super) struct Asks<'a> {
    admissions: Vec<&'a AdmitRequest>,
    extensions: Vec<&'a ExtendLease>,
    /// Those of the admissions that are looked up.
    looked_up: Vec<&'a AdmitRequest>,
}

/// What was found before the time of the batch was known, and for which days.
#[derive(Debug)]
pub(in super::super) struct Early {
    /// For these.
    pub(in super::super) days: Days,
    /// It.
    pub(in super::super) found: Found,
}

/// What a batch at the gate asks about, beside leases and sandboxes.
#[derive(Debug)]
pub(in super::super) struct About {
    /// Whose secrets.
    pub(in super::super) secrets: Vec<[u8; 32]>,
    /// Whose leases: a batch begins with these accounts locked.
    pub(in super::super) accounts: BTreeSet<AccountId>,
    /// Keys and days.
    pub(in super::super) days: Days,
}

impl About {
    /// Whether another asks for all of it too.
    pub(in super::super) fn is_within(&self, other: &Self) -> bool {
        self.secrets.iter().all(|secret| other.secrets.contains(secret))
            && self.accounts.is_subset(&other.accounts)
            && self.days.is_subset(&other.days)
    }

    /// Whether it has at most so many of each.
    pub(in super::super) fn is_small(&self, most: usize) -> bool {
        self.secrets.len().max(self.accounts.len()).max(self.days.len()) <= most
    }
}

impl<'a> Asks<'a> {
    /// What commands ask for, each with whether it is taken for new.
    pub(in super::super) fn of(commands: impl IntoIterator<Item = (&'a Gate, bool)>) -> Self {
        let mut asks = Self::default();
        for (command, unseen) in commands {
            match command {
                Gate::Admit(request) => {
                    asks.admissions.push(request);
                    if !unseen {
                        asks.looked_up.push(request);
                    }
                }
                Gate::Extend(extension) => asks.extensions.push(extension),
            }
        }
        asks
    }

    /// What they ask about. `now`: not later than the time of the batch.
    pub(in super::super) fn about(&self, secrets: Vec<[u8; 32]>, now: Timestamp) -> About {
        About { secrets, accounts: self.accounts(), days: self.days(now, &BTreeMap::new()) }
    }

    /// Whether no lease and no sandbox is looked up.
    pub(in super::super) fn needs_no_lease(&self) -> bool {
        self.looked_up.is_empty() && self.extensions.is_empty()
    }

    fn accounts(&self) -> BTreeSet<AccountId> {
        let mut accounts = BTreeSet::new();
        let of_extensions = self.extensions.iter().map(|command| &command.account);
        for account in self.admissions.iter().map(|request| &request.account).chain(of_extensions) {
            if !accounts.contains(account) {
                accounts.insert(account.clone());
            }
        }
        accounts
    }

    fn named(&self, now: Timestamp) -> Named {
        let mut named = Named::default();
        for request in &self.looked_up {
            let account = &request.account;
            for asked in &request.leases {
                named.leases.insert((account.clone(), asked.id.clone()));
                named.leases.extend(asked.replaces.clone().map(|old| (account.clone(), old)));
                named.sandbox(account, &asked.sandbox, asked.starts_at.unwrap_or(now));
            }
        }
        named.leases.extend(self.extensions.iter().map(|command| (command.account.clone(), command.lease.clone())));
        named
    }

    /// The keys and days that the admissions, and extensions of these leases, are decided on.
    fn days(&self, now: Timestamp, leases: &BTreeMap<LeaseKey, Arc<Lease>>) -> Days {
        let mut days = Days::new();
        let mut latest: Option<(&AccountId, &KeyId, Day)> = None;
        for request in &self.admissions {
            for asked in &request.leases {
                let start = asked.starts_at.unwrap_or(now);
                let window = Span { start, end: start.near(asked.timeout_ms) };
                for (day, _) in window.by_day() {
                    // Most are of the same key and day.
                    let this = (&request.account, &request.key, day);
                    if latest != Some(this) {
                        days.insert((request.account.clone(), request.key.clone(), day));
                        latest = Some(this);
                    }
                }
            }
        }
        for command in &self.extensions {
            let Some(lease) = leases.get(&(command.account.clone(), command.lease.clone())) else { continue };
            // Several extensions of one lease may wait in one batch: each day up to the longest lease.
            let window = Span { start: lease.window.end, end: lease.window.start.near(LEASE_MS_MAX) };
            days.extend(window.by_day().map(|(day, _)| (lease.account.clone(), lease.key.clone(), day)));
        }
        days
    }

    /// Holds whom they are about and who asks, and loads what can be asked for at once. `now`: not later than the time
    /// of the batch.
    pub(in super::super) async fn hold(
        &self,
        tx: &mut Tx,
        About { secrets, accounts, days }: &About,
        now: Timestamp,
    ) -> Loaded<(Held, Option<Early>)> {
        if tx.is_shared() || !self.extensions.is_empty() {
            // By the time of the database; and which leases are extended has to be known first.
            return Ok((tx.hold_for_decision(accounts, secrets).await?, None));
        }
        let Named { leases, sandboxes } = self.named(now);
        let asked = Asked { accounts, leases: &leases, sandboxes: &sandboxes, days };
        let (held, found) = tx.hold_and_load(secrets, &asked).await?;
        Ok((held, Some(Early { days: days.clone(), found })))
    }

    async fn found(&self, tx: &mut Tx, set: &mut WorkingSet, accounts: &BTreeSet<AccountId>) -> Loaded<Early> {
        let mut named = self.named(set.now);
        let mut extended = BTreeMap::new();
        if !self.extensions.is_empty() {
            let mut keys = BTreeSet::new();
            let known = tx.leases(&named.leases).await?;
            for lease in &known {
                keys.insert((lease.account.clone(), lease.key.clone()));
                named.sandbox(&lease.account, &lease.sandbox, lease.effective_end());
            }
            extended
                .extend(known.into_iter().map(|lease| ((lease.account.clone(), lease.id.clone()), Arc::new(lease))));
            load_keys(tx, set, &keys).await?;
            let ids: BTreeSet<(AccountId, LeaseId, ExtendId)> = self
                .extensions
                .iter()
                .map(|command| (command.account.clone(), command.lease.clone(), command.id.clone()))
                .collect();
            let extensions = tx.extensions(&ids).await?;
            set.extensions.extend(
                extensions.into_iter().map(|one| ((one.account.clone(), one.lease.clone(), one.id.clone()), one)),
            );
        }
        let days = self.days(set.now, &extended);
        let Named { leases, sandboxes } = &named;
        let found = tx.load_decision(&Asked { accounts, leases, sandboxes, days: &days }).await?;
        Ok(Early { days, found })
    }
}

/// Loads what gate commands read; their accounts are locked.
pub(in super::super) async fn gate(
    tx: &mut Tx,
    set: &mut WorkingSet,
    asks: &Asks<'_>,
    early: Option<Early>,
) -> Loaded<()> {
    tell_time(tx, set).await?;
    let accounts = asks.accounts();
    let Early { days, found } = match early {
        Some(early) => early,
        None => asks.found(tx, set, &accounts).await?,
    };
    // A replaced lease, or one that settles, posts time that may be free.
    take_terms(set, &accounts, found.terms);
    set.take_locked(found.leases);
    set.take_sandboxes(found.sandboxes);
    take_days(set, found.days);
    tell_time(tx, set).await?;
    set.days = asks.days(set.now, &set.leases);
    if !set.days.is_subset(&days) {
        // While a lock was awaited a lease became another, or the day did.
        count_days(tx, set).await?;
    }
    load_cover(tx, set, &accounts).await?;
    load_corrections(tx, set, asks).await
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

/// Evidence and hours for replaced leases, extensions past a reading, and leases that start in the past.
async fn load_corrections(tx: &mut Tx, set: &mut WorkingSet, asks: &Asks<'_>) -> Loaded<()> {
    let mut cuts: BTreeMap<LeaseKey, Timestamp> = BTreeMap::new();
    let mut reports: BTreeMap<SandboxKey, Timestamp> = BTreeMap::new();
    for request in &asks.looked_up {
        for asked in &request.leases {
            let start = asked.starts_at.unwrap_or(set.now);
            if let Some(old) = &asked.replaces {
                cuts.insert((request.account.clone(), old.clone()), start);
            }
            reports.insert((request.account.clone(), asked.sandbox.clone()), start);
        }
    }
    for command in &asks.extensions {
        let key = (command.account.clone(), command.lease.clone());
        if let Some(lease) = set.leases.get(&key) {
            let end = lease.window.end;
            cuts.insert(key, end);
        }
    }
    evidence::for_cuts(tx, set, &cuts).await?;
    evidence::for_reports(tx, set, &reports).await
}
