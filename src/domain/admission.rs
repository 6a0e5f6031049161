//! The gate before a lease: one decision, its rules in order, and what a refusal says.

use super::id::{AccountId, HostId, KeyId, LeaseId, SandboxId};
use super::lease::{LeaseKind, Shape};
use super::money::Micros;
use super::time::{Day, Timestamp};

/// Most leases of one request.
pub const REQUEST_LEASES_MAX: usize = 1_000;

/// A request for one or more leases of one key: all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmitRequest {
    /// The account.
    pub account: AccountId,
    /// The key that asks and pays.
    pub key: KeyId,
    /// 1 to 1,000 leases with different ids.
    pub leases: Vec<LeaseRequest>,
}

/// One lease that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Its id.
    pub id: LeaseId,
    /// The sandbox, new or known.
    pub sandbox: SandboxId,
    /// What it is for.
    pub kind: LeaseKind,
    /// What it is given.
    pub shape: Shape,
    /// For how long, in milliseconds: whole seconds, 1 s to 31 days.
    pub timeout_ms: i64,
    /// The most that its worst case may cost.
    pub max_cost: Option<Micros>,
    /// The host that will report.
    pub host: Option<HostId>,
    /// When it starts; `None`: now.
    pub starts_at: Option<Timestamp>,
    /// The lease of the same sandbox that it takes the place of.
    pub replaces: Option<LeaseId>,
}

/// Whose limit binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The key's.
    Key,
    /// The account's.
    Account,
}

/// Why a lease may not start. A refusal changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The account is suspended.
    AccountSuspended,
    /// The account has no such key.
    UnknownKey,
    /// The key was revoked.
    KeyRevoked,
    /// The key may only read.
    ReadOnlyKey,
    /// Another lease of the sandbox is on in the asked window.
    LeaseRunning {
        /// The one that is on.
        lease: LeaseId,
    },
    /// The worst case costs more than `max_cost`.
    MaxCostExceeded {
        /// The lease asked for.
        lease: LeaseId,
        /// Its worst case, rounded up.
        worst_case: Micros,
        /// The most that it may cost.
        max_cost: Micros,
    },
    /// No card is on file, and the shape or the disk is beyond what free time covers.
    CardRequired {
        /// The lease asked for.
        lease: LeaseId,
    },
    /// No card is on file, and the free time does not cover everything unmetered.
    FreeHoursExhausted {
        /// Free time needed, in milliseconds.
        needed_ms: i64,
        /// Free time that is there for it, in milliseconds.
        available_ms: i64,
    },
    /// A daily limit would be passed.
    SpendingLimitReached(Box<LimitReached>),
}

/// The limit that binds, and what would fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Whose limit.
    pub scope: Scope,
    /// The key that asked.
    pub key: KeyId,
    /// The lease that does not fit.
    pub lease: LeaseId,
    /// The day on which it does not fit.
    pub day: Day,
    /// The limit.
    pub limit: Micros,
    /// Used on that day, rounded down.
    pub used: Micros,
    /// Held on that day, rounded up.
    pub reserved: Micros,
    /// What this request needs on that day, the leases before it included, rounded up.
    pub needed: Micros,
    /// What the limit leaves, rounded down, never below zero.
    pub available: Micros,
    /// When the day ends.
    pub resets_at: Timestamp,
    /// The longest timeout with which this lease would fit, in seconds; 0: none.
    pub longest_timeout_s: i64,
}
