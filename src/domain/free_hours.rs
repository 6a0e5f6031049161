//! Free time: dated grants, and how usage draws on them.

use super::id::{AccountId, GrantId};
use super::time::{Day, Timestamp};

/// Free hours of a new account.
pub const WELCOME_HOURS: i64 = 50;
/// Most hours of one grant: a hundred years of one sandbox.
pub const GRANT_HOURS_MAX: i64 = 876_000;

/// A grant of free sandbox time, valid on the days `[starts_on, expires_on)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: GrantId,
    /// How much, in milliseconds of one running sandbox.
    pub granted_ms: i64,
    /// How much of it is drawn, in milliseconds.
    pub used_ms: i64,
    /// The first day on which it pays.
    pub starts_on: Day,
    /// The first day on which it pays no more; `None`: never.
    pub expires_on: Option<Day>,
    /// Free text of at most 2,000 characters.
    pub note: String,
    /// When it was made.
    pub created_at: Timestamp,
}
