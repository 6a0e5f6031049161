//! What a batch saves: rows to insert, rows to write again, and additions to counters.
//!
//! Counters are deltas, never absolute values: two engines that add to one row both count. Everything is ordered by
//! key, so that two batches write shared rows in one order and can't deadlock.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::credit::Credit;
use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, ExtendId, GrantId, KeyId, LeaseId, RateCardId, SandboxId};
use crate::domain::invoice_life::InvoiceEvent;
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::limits::DayTotals;
use crate::domain::money::Micros;
use crate::domain::note::Note;
use crate::domain::part::Part;
use crate::domain::rate_card::RateCardEntry;
use crate::domain::replica::Chosen;
use crate::domain::sample_page::ClosedPage;
use crate::domain::sandbox::Sandbox;
use crate::domain::set_aside::SetAside;
use crate::domain::time::{Day, Hour, Month, Timestamp};
use crate::domain::void::Void;

/// Where usage of an hour is kept. Ordered by account, then sandbox: an hour's rows of one sandbox lie together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HourKey {
    /// The account.
    pub account: AccountId,
    /// The hour of use.
    pub hour: Hour,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its life.
    pub life: i64,
    /// The key that pays.
    pub key: KeyId,
    /// The lease; `None` for storage.
    pub lease: Option<LeaseId>,
    /// The month whose invoice has it: that of the hour, or a later one for late usage.
    pub billed_month: Month,
}

/// Whose evidence a page is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageOwner {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its life.
    pub life: i64,
    /// The lease; `None`: at rest.
    pub lease: Option<LeaseId>,
}

/// A recorded extension of a lease: makes extending idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The account.
    pub account: AccountId,
    /// The lease.
    pub lease: LeaseId,
    /// The extension's id.
    pub id: ExtendId,
    /// By how much, in milliseconds.
    pub timeout_ms: i64,
    /// The most that its worst case could cost.
    pub max_cost: Option<Micros>,
    /// When.
    pub at: Timestamp,
}

/// A refused admission, kept for people; no decision reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalNote {
    /// The account.
    pub account: AccountId,
    /// When.
    pub at: Timestamp,
    /// The key that asked.
    pub key: KeyId,
    /// The lease that did not fit, or the first asked for.
    pub lease: LeaseId,
    /// The problem code.
    pub code: &'static str,
}

/// Free time drawn by one lease's hour from one grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrawKey {
    /// The account.
    pub account: AccountId,
    /// The lease.
    pub lease: LeaseId,
    /// The hour.
    pub hour: Hour,
    /// The grant.
    pub grant: GrantId,
}

/// What a batch adds to one draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawChange {
    /// How much more is drawn, in milliseconds; negative when given back.
    pub added_ms: i64,
    /// The place of the grant in the order in which the lease's hour first drew on its grants: 0, 1, ... Kept from the
    /// first save on.
    pub seq: i64,
}

/// Everything that one batch changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Accounts made: [`StoreError::Constraint`](super::StoreError::Constraint) when one is there already.
    pub accounts_added: BTreeMap<AccountId, Account>,
    /// Accounts changed (or made), as whole rows.
    pub accounts: BTreeMap<AccountId, Account>,
    /// Accounts whose day counters begin with this day: to be filled from their keys' days, before any addition.
    pub accounts_counted_from: BTreeMap<AccountId, Day>,
    /// Keys made or changed, as whole rows.
    pub keys: BTreeMap<(AccountId, KeyId), Key>,
    /// SHA-256 of the secret of keys made or rotated.
    pub key_secrets: BTreeMap<(AccountId, KeyId), [u8; 32]>,
    /// New grants.
    pub grants: BTreeMap<(AccountId, GrantId), Grant>,
    /// New credits.
    pub credits: BTreeMap<(AccountId, GrantId), Credit>,
    /// Drawn from grants: additions to `used_ms`, negative when given back.
    pub grant_used_ms: BTreeMap<(AccountId, GrantId), i64>,
    /// New rate card entries.
    pub rate_cards_added: Vec<RateCardEntry>,
    /// Rate cards removed before their day.
    pub rate_cards_removed: Vec<RateCardId>,
    /// New leases, likewise.
    pub leases_added: BTreeMap<(AccountId, LeaseId), Arc<Lease>>,
    /// Known leases of which only what samples change has changed ([`Lease::is_only_metered`]), as they are now.
    pub leases_metered: BTreeMap<(AccountId, LeaseId), Arc<Lease>>,
    /// Other known leases, as they are now. Written before `leases_added`, so that an old lease is closed before its
    /// successor is open.
    pub leases_changed: BTreeMap<(AccountId, LeaseId), Arc<Lease>>,
    /// Recorded extensions.
    pub extensions: Vec<Extension>,
    /// New sandbox lives: [`StoreError::Constraint`](super::StoreError::Constraint) when one is there already.
    pub sandboxes_added: BTreeMap<(AccountId, SandboxId, i64), Sandbox>,
    /// Sandbox lives changed (or made), as whole rows.
    pub sandboxes: BTreeMap<(AccountId, SandboxId, i64), Sandbox>,
    /// Pages of evidence, never changed afterwards.
    pub pages: Vec<(PageOwner, ClosedPage)>,
    /// Samples voided.
    pub voids: Vec<Void>,
    /// Additions to hours.
    pub hours: BTreeMap<HourKey, HourTotals>,
    /// Additions to draws.
    pub draws: BTreeMap<DrawKey, DrawChange>,
    /// Of the additions to draws, those of hours of closed months, by the month that bills them.
    pub late_draws: BTreeMap<(DrawKey, Month), i64>,
    /// Additions to keys' days.
    pub key_days: BTreeMap<(AccountId, KeyId, Day), DayTotals>,
    /// Additions to accounts' days.
    pub account_days: BTreeMap<(AccountId, Day), DayTotals>,
    /// Events of invoices.
    pub invoice_events: Vec<InvoiceEvent>,
    /// Notes on invoices; whoever adds them holds the numbers.
    pub notes: Vec<Note>,
    /// Refusals, for people.
    pub refusals: Vec<RefusalNote>,
    /// Parts of samples that wait for others.
    pub parts: Vec<Part>,
    /// Kept parts that are no longer needed, by their number.
    pub parts_spent: Vec<i64>,
    /// Replicas that were heard.
    pub replicas: BTreeMap<(AccountId, SandboxId), Chosen>,
    /// After how long another replica may take the place of one, in milliseconds.
    pub replica_silent_ms: i64,
    /// What was received and is not used, and when; for people.
    pub rejected: Vec<(Timestamp, SetAside)>,
    /// How many of them are kept, an account.
    pub rejected_kept: i64,
}

impl Changes {
    /// Whether all it does is add leases and sandboxes, with what they count, and note refusals.
    pub(super) fn only_admits(&self) -> bool {
        // Without `..`, so that a field that is added has to be placed.
        let Self {
            leases_added: _,
            sandboxes_added: _,
            key_days: _,
            account_days: _,
            refusals: _,
            accounts_added,
            accounts,
            accounts_counted_from,
            keys,
            key_secrets,
            grants,
            credits,
            grant_used_ms,
            rate_cards_added,
            rate_cards_removed,
            leases_metered,
            leases_changed,
            extensions,
            sandboxes,
            pages,
            voids,
            hours,
            draws,
            late_draws,
            invoice_events,
            notes,
            parts,
            parts_spent,
            replicas,
            replica_silent_ms: _,
            rejected,
            rejected_kept: _,
        } = self;
        (accounts_added.is_empty() && accounts.is_empty() && accounts_counted_from.is_empty())
            && (keys.is_empty() && key_secrets.is_empty() && grants.is_empty() && credits.is_empty())
            && (grant_used_ms.is_empty() && rate_cards_added.is_empty() && rate_cards_removed.is_empty())
            && (leases_metered.is_empty() && leases_changed.is_empty() && extensions.is_empty() && sandboxes.is_empty())
            && (pages.is_empty() && voids.is_empty() && hours.is_empty() && draws.is_empty() && late_draws.is_empty())
            && (invoice_events.is_empty() && notes.is_empty() && parts.is_empty() && parts_spent.is_empty())
            && (replicas.is_empty() && rejected.is_empty())
    }

    /// Leases that were there before, as they are now.
    pub fn known_leases(&self) -> impl Iterator<Item = (&(AccountId, LeaseId), &Arc<Lease>)> {
        self.leases_metered.iter().chain(&self.leases_changed)
    }
}
