//! What loads and reads are asked for and answer, beyond the core's own types.

use crate::domain::customer::Key;
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, GrantId, HostId, KeyId, LeaseId, SandboxId, TokenId};
use crate::domain::lease::HourTotals;
use crate::domain::limits::DayTotals;
use crate::domain::proof::LifeId;
use crate::domain::rate_card::RateCardEntry;
use crate::domain::sample_page::ClosedPage;
use crate::domain::set_aside::Door;
use crate::domain::time::{Day, Hour, Month, Span, Timestamp};

use super::changes::PageOwner;

/// A key with what it, and its account, use and hold on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDay {
    /// Whose it is, and on which day.
    pub of: (AccountId, KeyId, Day),
    /// The key; `None`: there is none.
    pub key: Option<Key>,
    /// Its day; `None`: nothing is counted yet.
    pub totals: Option<DayTotals>,
    /// The account's day; `None`: nothing is counted yet, or its days are not counted.
    pub of_account: Option<DayTotals>,
}

/// What accounts pay by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// All their grants of free time.
    pub grants: Vec<Grant>,
    /// All default rate cards, and theirs.
    pub cards: Vec<RateCardEntry>,
}

/// Hours of one lease, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHours {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its life.
    pub life: i64,
    /// The lease.
    pub lease: LeaseId,
    /// The first hour.
    pub from: Hour,
    /// The last hour.
    pub to: Hour,
}

/// Free time that one lease's hour has drawn from one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawRow {
    /// The account.
    pub account: AccountId,
    /// The lease.
    pub lease: LeaseId,
    /// The hour.
    pub hour: Hour,
    /// The grant.
    pub grant: GrantId,
    /// How much, in milliseconds.
    pub drawn_ms: i64,
    /// The order in which the lease's hour first drew on its grants: 0, 1, ...
    pub seq: i64,
}

/// Asks for the pages around late samples of one lease, or around late storage reports of one sandbox's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageProbe {
    /// Whose pages.
    pub owner: PageOwner,
    /// `false`: pages of this very lease, wide enough for its CPU curve. `true`: pages of the whole life that carry
    /// storage, whatever their lease (`owner.lease` is not looked at), wide enough for the storage meter.
    pub storage: bool,
    /// The earliest late sample.
    pub from: Timestamp,
    /// The latest late sample.
    pub to: Timestamp,
}

/// A page and whose it is.
pub type OwnedPage = (PageOwner, ClosedPage);

/// What usage is grouped by, beside the account and the bucket of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Nothing.
    None,
    /// The sandbox.
    Sandbox,
    /// The lease; storage has none.
    Lease,
    /// The key.
    Key,
}

/// The length of a bucket of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// A UTC hour.
    Hour,
    /// A UTC day.
    Day,
}

/// Usage of one account, one bucket and one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The account.
    pub account: AccountId,
    /// The bucket's start.
    pub start: Timestamp,
    /// The group's id; `None` with [`Group::None`], and for storage by lease.
    pub group: Option<String>,
    /// The sum.
    pub totals: HourTotals,
}

/// Which usage to sum: hours in `[from, to)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// One account; `None`: all.
    pub account: Option<AccountId>,
    /// The first hour.
    pub from: Hour,
    /// The first hour after the range.
    pub to: Hour,
    /// Rows by time.
    pub bucket: Bucket,
    /// Rows by what.
    pub group: Group,
    /// Most rows to answer.
    pub rows_max: i64,
}

/// Which leases of an account to list, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseQuery {
    /// Of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Of this key.
    pub key: Option<KeyId>,
    /// On this host.
    pub host: Option<HostId>,
}

/// What an operator token may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRole {
    /// Everything.
    Admin,
    /// Leases and sandboxes; reads everything.
    ControlPlane,
    /// Samples of one host.
    Host(HostId),
}

/// An operator token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its id.
    pub id: TokenId,
    /// What it may do.
    pub role: TokenRole,
    /// Free text of at most 200 characters.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Whose secret has a SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// An operator token's.
    Token(TokenRecord),
    /// That of a customer's key that is not revoked.
    Key {
        /// The account.
        account: AccountId,
        /// The key.
        key: KeyId,
        /// Whether it may only read.
        read_only: bool,
    },
}

/// What was received and is not used, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsideRow {
    /// Its number: the later, the larger.
    pub seq: i64,
    /// The account; `None`: of none that is known.
    pub account: Option<AccountId>,
    /// When it came.
    pub received_at: Timestamp,
    /// By which door.
    pub door: Door,
    /// Whose token sent it; `None`: an operator's.
    pub host: Option<HostId>,
    /// The sandbox that it names, as it was written.
    pub sandbox: Option<String>,
    /// The lease that it names, as it was written.
    pub lease: Option<String>,
    /// The instant that it names.
    pub at: Option<Timestamp>,
    /// The stable code of the reason.
    pub code: String,
    /// The reason, for people.
    pub detail: String,
}

/// A lease's usage on one day.
pub type LeaseDay = ((AccountId, LeaseId), Day, HourTotals);
/// A lease's usage in one hour.
pub type LeaseHour = ((AccountId, LeaseId), Hour, HourTotals);

/// Hours `[from, to)` of an account that a month bills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BilledSpan {
    /// The account.
    pub account: AccountId,
    /// The first hour.
    pub from: Hour,
    /// The first hour after the span.
    pub to: Hour,
    /// The month that bills.
    pub billed_month: Month,
}

/// Usage of one account and day, and of one sandbox where it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BilledRow {
    /// The account.
    pub account: AccountId,
    /// The day of use.
    pub day: Day,
    /// The sandbox.
    pub sandbox: Option<SandboxId>,
    /// The sum.
    pub totals: HourTotals,
}

/// What one month billed of a lease's usage (`lease: None`: a life's storage) of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BilledPart {
    /// The life of the sandbox.
    pub of: LifeId,
    /// The lease.
    pub lease: Option<LeaseId>,
    /// The day of use.
    pub day: Day,
    /// The month that billed it.
    pub billed: Month,
    /// How much.
    pub totals: HourTotals,
}

/// Asks for the pages of a lease (`None`: those of a life that carry storage) in a span, which is on UTC hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// The life.
    pub of: LifeId,
    /// The lease.
    pub lease: Option<LeaseId>,
    /// The span.
    pub span: Span,
}

/// A sample that was kept when the evidence that it is of was archived, as a page of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPage {
    /// Whose.
    pub owner: PageOwner,
    /// When.
    pub at: Timestamp,
    /// The earliest open month when it was accepted.
    pub accepted_in: Option<Month>,
    /// The page.
    pub bytes: Vec<u8>,
}

impl KeptPage {
    /// As any other page; numbers tell kept ones from none.
    #[must_use]
    pub fn into_page(self) -> OwnedPage {
        let Self { owner, at, accepted_in, bytes } = self;
        (owner, ClosedPage { number: -1, first_at: at, last_at: at, storage_span: None, bytes, accepted_in })
    }
}

/// Where a page of hours ended: the next one begins after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourCursor {
    /// The hour.
    pub hour: Hour,
    /// The sandbox; empty: before all.
    pub sandbox: String,
    /// Its life.
    pub life: i64,
    /// The key.
    pub key: String,
    /// The lease; empty: none, or before all.
    pub lease: String,
}

impl HourCursor {
    /// Before all of an hour.
    #[must_use]
    pub fn at(hour: Hour) -> Self {
        Self { hour, sandbox: String::new(), life: -1, key: String::new(), lease: String::new() }
    }

    /// After one row.
    #[must_use]
    pub fn after(hour: Hour, sandbox: &SandboxId, life: i64, key: &KeyId, lease: Option<&LeaseId>) -> Self {
        let lease = lease.map_or_else(String::new, LeaseId::to_string);
        Self { hour, sandbox: sandbox.to_string(), life, key: key.to_string(), lease }
    }
}
