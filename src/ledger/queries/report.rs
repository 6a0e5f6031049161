//! The operator's report of a month, account by account: each few accounts from one snapshot.

use std::collections::BTreeMap;

use super::super::batch::told;
use super::super::command::{CommandError, Page};
use super::super::view::{Listed, UnbilledView};
use super::super::{Answer, Ledger};
use super::invoices::hours_of;
use super::{listed, one_more, priced};
use crate::domain::cost::Priced;
use crate::domain::customer::Account;
use crate::domain::id::{AccountId, KeyId, LeaseId};
use crate::domain::money::{Cost, Micros};
use crate::domain::month_report::{AccountFacts, MonthReport, MonthTally};
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Month, Timestamp};
use crate::domain::unbilled::{Cause, at_floor, unbilled};
use crate::store::shapes::{AsideRow, Bucket, Group, UsageQuery};
use crate::store::{StoreError, Tx};

/// Accounts of one snapshot: few enough that it is not held for long.
const ACCOUNTS_MAX: i64 = 100;
/// Leases that are read at once.
const LEASES_MAX: i64 = 500;
/// Days of keys that are summed for one account.
const KEY_DAYS_MAX: i64 = 1_000_000;

impl Ledger {
    /// The report of a month; of one that is not closed, as it stands. `progress` is told how many accounts are done.
    pub async fn month_report(&self, month: Month, progress: &(dyn Fn(u64) + Send + Sync)) -> Answer<MonthReport> {
        let now = self.engine.clock.now();
        let mut tx = self.report().await?;
        let last = tx.last_closed_month().await.map_err(told)?;
        drop(tx);
        let closed = last.is_some_and(|last| month <= last);
        if month > now.month() && !closed {
            let detail = "this month is yet to come".to_owned();
            return Err(CommandError::Invalid { pointer: "month".to_owned(), detail });
        }
        let mut tally = MonthTally::new(month, closed);
        let (mut after, mut done): (Option<AccountId>, u64) = (None, 0);
        loop {
            let mut tx = self.report().await?;
            let accounts = tx.list_accounts(after.as_ref().map(AccountId::as_str), ACCOUNTS_MAX).await.map_err(told)?;
            let Some(last) = accounts.last() else { break };
            after = Some(last.id.clone());
            for account in &accounts {
                let facts = self.account_facts(&mut tx, account, month, now).await.map_err(told)?;
                tally.add(facts).map_err(|error| told(error.into()))?;
                done = done.saturating_add(1);
                progress(done);
            }
        }
        tally.finish().map_err(|error| told(error.into()))
    }

    /// Time of a month that nobody pays for, over all accounts: by cause how many leases, how long, and what it would
    /// have cost at least, rounded down. Every cause is there.
    pub async fn unbilled(&self, month: Month) -> Answer<Vec<UnbilledView>> {
        let now = self.engine.clock.now();
        let mut sums: BTreeMap<Cause, (u64, i128, Cost)> =
            Cause::ALL.into_iter().map(|cause| (cause, (0, 0, Cost::ZERO))).collect();
        let mut after: Option<AccountId> = None;
        loop {
            let mut tx = self.report().await?;
            let accounts = tx.list_accounts(after.as_ref().map(AccountId::as_str), ACCOUNTS_MAX).await.map_err(told)?;
            let Some(last) = accounts.last() else { break };
            after = Some(last.id.clone());
            for account in &accounts {
                let book = self.book(&mut tx, &account.id).await.map_err(told)?;
                for (cause, run_ms, cost) in
                    unbilled_time(&mut tx, &account.id, &book, month, now).await.map_err(told)?
                {
                    let (leases, time, sum) = sums.entry(cause).or_insert((0, 0, Cost::ZERO));
                    *leases = leases.saturating_add(1);
                    *time = time.saturating_add(run_ms);
                    *sum = sum.plus(cost).map_err(|error| told(error.into()))?;
                }
            }
        }
        let view = |(cause, (leases, run_ms, cost)): (Cause, (u64, i128, Cost))| {
            Ok(UnbilledView { cause, leases, run_ms, least: cost.floor().map_err(|error| told(error.into()))? })
        };
        sums.into_iter().map(view).collect()
    }

    /// Counts leases that run and whose samples have stopped, for operators.
    pub async fn look_for_stale(&self) -> Answer<()> {
        let now = self.engine.clock.now();
        let since = now.near(self.engine.rules.stale_after_ms.saturating_neg());
        let count = self.report().await?.stale_leases(now, since).await.map_err(told)?;
        self.engine.tally.stale.store(count, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// What was received and is not used, of one account or of all, the latest first.
    pub async fn rejected(&self, of: Option<&AccountId>, page: &Page) -> Answer<Listed<AsideRow>> {
        let before = page.after.as_deref().and_then(|key| key.parse().ok());
        let mut tx = self.report().await?;
        let found = tx.list_rejected(of, before, one_more(page)).await.map_err(told)?;
        Ok(listed(found, page.limit, |row| row.seq.to_string()))
    }

    async fn account_facts(
        &self,
        tx: &mut Tx,
        owner: &Account,
        month: Month,
        now: Timestamp,
    ) -> Result<AccountFacts, StoreError> {
        let book = self.book(tx, &owner.id).await?;
        let invoice = self.read_invoice(tx, owner, month).await?;
        let notes = tx.notes_of_invoices(&owner.id, &[month].into()).await?;
        let before = match month.index().checked_sub(1).and_then(Month::from_index) {
            Some(before) => Some(self.read_invoice(tx, owner, before).await?),
            None => None,
        };
        let ids = [owner.id.clone()].into();
        let made = |at: Timestamp| at.month() == month;
        let mut free_ms = 0_i128;
        for grant in tx.grants(&ids).await?.iter().filter(|grant| made(grant.created_at)) {
            free_ms = free_ms.saturating_add(i128::from(grant.granted_ms));
        }
        let mut credit = Micros::ZERO;
        for granted in tx.credits(&ids).await?.iter().filter(|credit| made(credit.created_at)) {
            credit = credit.plus(granted.granted)?;
        }
        let keys = keys(tx, &owner.id, &book, month).await?;
        let unbilled = unbilled_time(tx, &owner.id, &book, month, now).await?;
        let refusals = tx.refusals(&owner.id, month.span()).await?;
        Ok(AccountFacts { invoice, notes, before, free_ms, credit, keys, unbilled, refusals })
    }
}

/// What each key used in a month.
async fn keys(
    tx: &mut Tx,
    account: &AccountId,
    book: &PriceBook,
    month: Month,
) -> Result<Vec<(KeyId, Priced)>, StoreError> {
    let (from, to) = hours_of(month);
    let query = UsageQuery {
        account: Some(account.clone()),
        from,
        to,
        bucket: Bucket::Day,
        group: Group::Key,
        rows_max: KEY_DAYS_MAX,
    };
    let mut sums: BTreeMap<KeyId, Priced> = BTreeMap::new();
    for row in tx.usage_grouped(&query).await? {
        let Some(key) = row.group.as_deref().and_then(|key| KeyId::parse(key).ok()) else { continue };
        let sum = sums.entry(key).or_default();
        *sum = sum.plus(priced(book, row.start.day(), row.totals)?)?;
    }
    Ok(sums.into_iter().collect())
}

/// Time of a month that nobody pays for: cause, milliseconds and least cost, one a lease.
async fn unbilled_time(
    tx: &mut Tx,
    account: &AccountId,
    book: &PriceBook,
    month: Month,
    now: Timestamp,
) -> Result<Vec<(Cause, i128, Cost)>, StoreError> {
    let mut found = Vec::new();
    let mut after: Option<LeaseId> = None;
    loop {
        let leases = tx.unproven_leases(account, after.as_ref(), month.span(), LEASES_MAX).await?;
        let Some(last) = leases.last() else { return Ok(found) };
        after = Some(last.id.clone());
        for lease in &leases {
            let Some((cause, span)) = unbilled(lease, now) else { continue };
            let span = span.meet(month.span());
            if !span.is_empty() {
                found.push((cause, i128::from(span.length_ms()), at_floor(lease, span, book)?));
            }
        }
    }
}
