//! Customers: accounts and their API keys.

use super::id::{AccountId, KeyId};
use super::money::Micros;
use super::tax::TaxRate;
use super::time::{Day, Timestamp};

/// Whether an account may start leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountStatus {
    /// It may.
    Active,
    /// It may not; what runs is metered on.
    Suspended,
}

/// A customer: who is billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Free text of at most 200 characters.
    pub name: String,
    /// Whether it may start leases.
    pub status: AccountStatus,
    /// Whether it can pay beyond its free time.
    pub card_on_file: bool,
    /// Most that all its keys together may spend in a UTC day; `None`: no limit, 0: nothing.
    pub daily_limit: Option<Micros>,
    /// The first day on which its own day counters are kept: that on which it got its first limit (the day before,
    /// while a lease may still start in it). From then on they are kept for good, so that a limit that is removed and
    /// set again still knows what was used.
    pub counted_from: Option<Day>,
    /// What is added to its invoices; `None`: no tax line.
    pub tax: Option<TaxRate>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// An API key of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The account it belongs to.
    pub account: AccountId,
    /// Its id.
    pub id: KeyId,
    /// Free text of at most 200 characters.
    pub name: String,
    /// It may read costs but start nothing.
    pub read_only: bool,
    /// Most that it may spend in a UTC day; `None`: no limit, 0: nothing.
    pub daily_limit: Option<Micros>,
    /// When it was revoked; its usage stays.
    pub revoked_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}
