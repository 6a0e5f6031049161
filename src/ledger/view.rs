//! What reads answer: things of the ledger as people see them, priced and adding up.

use std::sync::Arc;

use crate::domain::cost::Amounts;
use crate::domain::credit::{Credit, CreditBalance};
use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, GrantId, HostId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{Lease, LeaseState};
use crate::domain::money::Micros;
use crate::domain::rate_card::{RateCard, RateCardEntry};
use crate::domain::time::{Day, Month, Timestamp};
use crate::domain::unbilled::Cause;
use crate::domain::usage::Usage;

/// A page of a list, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// The last key of this page when there is more.
    pub next: Option<String>,
}

/// A lease with its usage and cost so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The lease.
    pub lease: Arc<Lease>,
    /// Its state now.
    pub state: LeaseState,
    /// Whether it runs and its samples have stopped.
    pub stale: bool,
    /// Worst-case list cost of its granted window, rounded up.
    pub worst_case: Micros,
    /// Its usage; storage is always zero, for it belongs to the sandbox.
    pub usage: Usage,
    /// What it costs.
    pub amounts: Amounts,
}

/// Time that nobody pays for, of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbilledView {
    /// Why.
    pub cause: Cause,
    /// Of how many leases.
    pub leases: u64,
    /// How long, in milliseconds.
    pub run_ms: i128,
    /// What it would have cost at least, rounded down.
    pub least: Micros,
}

/// Which leases to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LeaseFilter {
    /// Of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Of this key.
    pub key: Option<KeyId>,
    /// In this state now.
    pub state: Option<LeaseState>,
    /// On this host.
    pub host: Option<HostId>,
}

/// What a sandbox is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// A lease of it is on.
    Running,
    /// None is.
    Resting,
    /// It is gone.
    Deleted,
}

/// The newest life of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxView {
    /// Its id.
    pub id: SandboxId,
    /// What it is doing now.
    pub state: SandboxState,
    /// The key that pays for its storage now.
    pub key: KeyId,
    /// Its newest lease.
    pub lease: Option<LeaseId>,
    /// Its disk as last reported, in MiB.
    pub storage_mib: i64,
    /// When this life began.
    pub created_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// Usage in the current month, compute and storage.
    pub month_usage: Usage,
    /// What that costs.
    pub month_amounts: Amounts,
}

/// How long a row of a cost table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A UTC hour.
    Hour,
    /// A UTC day.
    Day,
    /// A UTC month, cut to the range.
    Month,
    /// The whole range.
    Total,
}

/// What the rows of a cost table are split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// Nothing.
    None,
    /// Sandbox.
    Sandbox,
    /// Lease; storage has none.
    Lease,
    /// Key.
    Key,
    /// CPU, memory, storage.
    Resource,
    /// Account; only over all accounts.
    Account,
}

/// Which costs to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostQuery {
    /// One account; `None`: all (admin).
    pub account: Option<AccountId>,
    /// On an hour's boundary (day and month granularity: a day's).
    pub from: Timestamp,
    /// Likewise; after `from`.
    pub to: Timestamp,
    /// Rows by time.
    pub granularity: Granularity,
    /// Rows by what.
    pub group_by: GroupBy,
}

/// One row of a cost table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// From.
    pub start: Timestamp,
    /// To.
    pub end: Timestamp,
    /// The group's value: an id, or `cpu`, `memory`, `storage`; `None` without a group, and for storage by lease.
    pub group: Option<String>,
    /// Its usage.
    pub usage: Usage,
    /// Its cost: the rows sum to the total.
    pub amounts: Amounts,
}

/// A cost table that adds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostTable {
    /// The range's start.
    pub from: Timestamp,
    /// The range's end.
    pub to: Timestamp,
    /// Up to here nothing more is awaited.
    pub complete_before: Timestamp,
    /// In order of start, then group.
    pub rows: Vec<CostRow>,
    /// All usage in the range.
    pub usage: Usage,
    /// What it costs.
    pub amounts: Amounts,
}

/// Where a key (or an account) stands today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayBalance {
    /// The key; `None`: the account.
    pub key: Option<KeyId>,
    /// Today.
    pub day: Day,
    /// The limit.
    pub daily_limit: Option<Micros>,
    /// Used today, rounded down.
    pub used: Micros,
    /// Held today, rounded up.
    pub reserved: Micros,
    /// What the limit leaves; `None` without one.
    pub available: Option<Micros>,
    /// When the day ends.
    pub resets_at: Timestamp,
}

/// Free time of an account, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FreeBalance {
    /// Ever granted.
    pub granted_ms: i64,
    /// Drawn.
    pub used_ms: i64,
    /// Lapsed undrawn.
    pub expired_ms: i64,
    /// Left: granted less used less expired.
    pub remaining_ms: i64,
}

/// Where an account stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// The account.
    pub account: AccountId,
    /// Now.
    pub now: Timestamp,
    /// The current month.
    pub month: Month,
    /// Its cost so far.
    pub amounts: Amounts,
    /// Its net cost at the same pace to its end.
    pub forecast: Micros,
    /// What credit pays of the current month's invoice as it stands.
    pub month_credit: Micros,
    /// Free time.
    pub free: FreeBalance,
    /// Promotional credit.
    pub credit: CreditBalance,
    /// The account's own day.
    pub account_day: DayBalance,
    /// Its keys that are not revoked or have a day today; at most 1,000, by id.
    pub keys: Vec<DayBalance>,
}

/// The card in force for an account, and what comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardsInForce {
    /// Today's card.
    pub card: RateCard,
    /// Entries of the account and of the default that take effect after today, ascending.
    pub coming: Vec<RateCardEntry>,
}

/// Accounts, keys and grants are shown as they are.
pub type AccountView = Account;
/// See [`AccountView`].
pub type KeyView = Key;

/// A grant of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantView {
    /// Free time.
    Time(Grant),
    /// Promotional credit, and what final invoices drew on it.
    Credit(Credit, Micros),
}

impl GrantView {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &GrantId {
        match self {
            Self::Time(grant) => &grant.id,
            Self::Credit(credit, _) => &credit.id,
        }
    }
}
