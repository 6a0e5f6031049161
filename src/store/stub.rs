//! The port's signatures.

use std::collections::BTreeSet;

use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, ExtendId, KeyId, LeaseId, RateCardId, SandboxId, TokenId};
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::limits::DayTotals;
use crate::domain::rate_card::RateCardEntry;
use crate::domain::sandbox::Sandbox;
use crate::domain::time::{Day, Hour, Month, Timestamp};

use super::changes::{Changes, Extension};
use super::shapes::{
    Bearer, DrawRow, LeaseDay, LeaseHour, LeaseHours, LeaseQuery, OwnedPage, PageProbe, TokenRecord, UsageQuery,
    UsageRow,
};
use super::{Answer, Lane, Options, Store, StoreError, Tx};

fn later<T>() -> Answer<T> {
    Err(StoreError::corrupt("not yet"))
}

#[expect(missing_docs, clippy::unused_async, unused_variables, reason = "the shape only")]
impl Store {
    pub async fn open(url: &str, options: Options) -> Answer<Self> {
        later()
    }
    pub async fn migrate(&self) -> Answer<()> {
        later()
    }
    pub async fn ready(&self) -> Answer<()> {
        later()
    }
    pub async fn begin(&self, lane: Lane) -> Answer<Tx> {
        later()
    }
    /// A consistent snapshot.
    pub async fn read(&self) -> Answer<Tx> {
        later()
    }
    pub async fn close(&self) {}
}

#[expect(missing_docs, clippy::unused_async, unused_variables, clippy::too_many_arguments, reason = "the shape only")]
impl Tx {
    pub async fn commit(self) -> Answer<()> {
        later()
    }
    /// The database's clock; `None` on SQLite.
    pub async fn now(&mut self) -> Answer<Option<Timestamp>> {
        later()
    }
    /// The earliest open month.
    pub async fn open_month(&mut self, lock_share: bool) -> Answer<Month> {
        later()
    }
    pub async fn lock_accounts(&mut self, ids: &BTreeSet<AccountId>) -> Answer<Vec<Account>> {
        later()
    }
    pub async fn accounts(&mut self, ids: &BTreeSet<AccountId>) -> Answer<Vec<Account>> {
        later()
    }
    pub async fn keys(&mut self, ids: &BTreeSet<(AccountId, KeyId)>) -> Answer<Vec<Key>> {
        later()
    }
    /// All default entries and those accounts' own.
    pub async fn rate_card_entries(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<RateCardEntry>> {
        later()
    }
    pub async fn rate_cards_by_id(&mut self, ids: &BTreeSet<RateCardId>) -> Answer<Vec<RateCardEntry>> {
        later()
    }
    pub async fn grants(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<Grant>> {
        later()
    }
    pub async fn lock_leases(&mut self, ids: &BTreeSet<(AccountId, LeaseId)>) -> Answer<Vec<Lease>> {
        later()
    }
    pub async fn leases(&mut self, ids: &BTreeSet<(AccountId, LeaseId)>) -> Answer<Vec<Lease>> {
        later()
    }
    /// Leases of each sandbox that are open, or whose effective end is after the instant.
    pub async fn leases_meeting(&mut self, from: &[(AccountId, SandboxId, Timestamp)]) -> Answer<Vec<Lease>> {
        later()
    }
    /// Unsettled leases whose time to settle has come: locked (those that others hold are passed over), by account,
    /// then time; at most `limit`.
    pub async fn due_leases(
        &mut self,
        accounts: &BTreeSet<AccountId>,
        now: Timestamp,
        limit: i64,
    ) -> Answer<Vec<Lease>> {
        later()
    }
    pub async fn due_anywhere(&mut self, now: Timestamp, limit: i64) -> Answer<Vec<(AccountId, LeaseId)>> {
        later()
    }
    pub async fn unsettled_leases(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<Lease>> {
        later()
    }
    /// Locks and loads each sandbox's lives from the one in force at the instant (else the first) to the newest.
    pub async fn lock_sandboxes(&mut self, from: &[(AccountId, SandboxId, Timestamp)]) -> Answer<Vec<Sandbox>> {
        later()
    }
    pub async fn sandboxes(&mut self, from: &[(AccountId, SandboxId, Timestamp)]) -> Answer<Vec<Sandbox>> {
        later()
    }
    pub async fn key_days(
        &mut self,
        ids: &BTreeSet<(AccountId, KeyId, Day)>,
    ) -> Answer<Vec<((AccountId, KeyId, Day), DayTotals)>> {
        later()
    }
    pub async fn account_days(
        &mut self,
        ids: &BTreeSet<(AccountId, Day)>,
    ) -> Answer<Vec<((AccountId, Day), DayTotals)>> {
        later()
    }
    pub async fn extensions(&mut self, ids: &BTreeSet<(AccountId, LeaseId, ExtendId)>) -> Answer<Vec<Extension>> {
        later()
    }
    /// Hours of leases from the hours' table, summed over the billed months (the open hour is in the lease itself).
    pub async fn hours_of_leases(&mut self, leases: &[LeaseHours]) -> Answer<Vec<LeaseHour>> {
        later()
    }
    pub async fn draws(&mut self, ids: &BTreeSet<(AccountId, LeaseId, Hour)>) -> Answer<Vec<DrawRow>> {
        later()
    }
    /// For each: start and key of the last lease that started at or before the instant, and of all later ones,
    /// ascending; in the order asked.
    pub async fn lease_starts(
        &mut self,
        from: &[(AccountId, SandboxId, i64, Timestamp)],
    ) -> Answer<Vec<Vec<(Timestamp, KeyId)>>> {
        later()
    }
    /// The closed pages around late samples, each once.
    pub async fn pages_around(&mut self, probes: &[PageProbe]) -> Answer<Vec<OwnedPage>> {
        later()
    }
    pub async fn save(&mut self, changes: &Changes) -> Answer<()> {
        later()
    }

    // Tokens and secrets.
    pub async fn insert_token(&mut self, token: &TokenRecord, sha256: &[u8; 32]) -> Answer<()> {
        later()
    }
    /// Whether there was one.
    pub async fn delete_token(&mut self, id: &TokenId) -> Answer<bool> {
        later()
    }
    pub async fn list_tokens(&mut self, after: Option<&str>, limit: i64) -> Answer<Vec<TokenRecord>> {
        later()
    }
    /// Whose secret this is: a token's, or that of a key that is not revoked.
    pub async fn bearer(&mut self, sha256: &[u8; 32]) -> Answer<Option<Bearer>> {
        later()
    }

    // Lists: ids after `after`, ascending, at most `limit`.
    pub async fn list_accounts(&mut self, after: Option<&str>, limit: i64) -> Answer<Vec<Account>> {
        later()
    }
    pub async fn list_keys(&mut self, account: &AccountId, after: Option<&str>, limit: i64) -> Answer<Vec<Key>> {
        later()
    }
    pub async fn list_grants(&mut self, account: &AccountId, after: Option<&str>, limit: i64) -> Answer<Vec<Grant>> {
        later()
    }
    /// By scope (the default first), then day: `after` is the scope (empty: default) and day of the last one.
    pub async fn list_rate_cards(&mut self, after: Option<(&str, Day)>, limit: i64) -> Answer<Vec<RateCardEntry>> {
        later()
    }
    pub async fn list_leases(
        &mut self,
        account: &AccountId,
        query: &LeaseQuery,
        after: Option<&str>,
        limit: i64,
    ) -> Answer<Vec<Lease>> {
        later()
    }
    /// The newest life of each sandbox.
    pub async fn list_sandboxes(
        &mut self,
        account: &AccountId,
        after: Option<&str>,
        limit: i64,
    ) -> Answer<Vec<Sandbox>> {
        later()
    }

    // Sums for people.
    /// Per lease and day, from the hours' table (the open hour is in the lease itself).
    pub async fn usage_by_day_of_leases(&mut self, leases: &[LeaseHours]) -> Answer<Vec<LeaseDay>> {
        later()
    }
    /// Per day, compute and storage of one life of each sandbox in the hours `[from, to]`, open hours included; in
    /// the order asked.
    pub async fn usage_by_day_of_sandboxes(
        &mut self,
        sandboxes: &[(AccountId, SandboxId, i64, Hour, Hour)],
    ) -> Answer<Vec<Vec<(Day, HourTotals)>>> {
        later()
    }
    /// All usage, open hours included, by account, start, group.
    pub async fn usage_grouped(&mut self, query: &UsageQuery) -> Answer<Vec<UsageRow>> {
        later()
    }
    /// Of the leases that meet `[from, to)` and are not settled at `now`: the earliest last sample (start without
    /// one); of one account, or of all.
    pub async fn incomplete_since(
        &mut self,
        account: Option<&AccountId>,
        from: Timestamp,
        to: Timestamp,
        now: Timestamp,
    ) -> Answer<Option<Timestamp>> {
        later()
    }
    /// All keys' totals of a day.
    pub async fn key_days_of(&mut self, account: &AccountId, day: Day) -> Answer<Vec<(KeyId, DayTotals)>> {
        later()
    }
}
