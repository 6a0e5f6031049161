//! Where an account and its keys stand today.

use std::collections::{BTreeMap, BTreeSet};

use super::super::batch::told;
use super::super::view::{Balance, DayBalance, FreeBalance};
use super::super::{Answer, Ledger};
use super::priced;
use crate::domain::checked::mul_div_floor;
use crate::domain::cost::Priced;
use crate::domain::credit::CreditBook;
use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::limits::DayTotals;
use crate::domain::money::{Cost, Micros};
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Day, Span, Timestamp};
use crate::domain::usage::Usage;
use crate::store::shapes::{Bucket, Group, UsageQuery};
use crate::store::{StoreError, Tx};

/// Keys that are read at once, and most due leases whose holds are subtracted.
const KEYS_READ: i64 = 1_000;
const DUE_MAX: i64 = 10_000;
const GRANTS_MAX: i64 = 10_000;

/// Every key of an account, by id.
async fn all_keys(tx: &mut Tx, account: &AccountId) -> Result<Vec<Key>, StoreError> {
    let mut keys: Vec<Key> = Vec::new();
    loop {
        let after = keys.last().map(|key| key.id.to_string());
        let page = tx.list_keys(account, after.as_deref(), KEYS_READ).await?;
        let full = i64::try_from(page.len()) == Ok(KEYS_READ);
        keys.extend(page);
        if !full {
            return Ok(keys);
        }
    }
}

impl Ledger {
    /// Where an account stands; `None` when there is none of that id.
    pub async fn balance(&self, account: &AccountId) -> Answer<Option<Balance>> {
        let mut tx = self.report().await?;
        let Some(owner) = tx.accounts(&[account.clone()].into()).await.map_err(told)?.pop() else { return Ok(None) };
        self.read_balance(&mut tx, &owner).await.map(Some).map_err(told)
    }

    async fn read_balance(&self, tx: &mut Tx, owner: &Account) -> Result<Balance, StoreError> {
        let now = self.engine.clock.now();
        let today = now.day();
        let book = self.book(tx, &owner.id).await?;
        let month = self.month_so_far(tx, &owner.id, &book, now).await?;
        let (month_credit, credits) = self.credit_so_far(tx, owner, now).await?;
        let days = self.key_days_settled(tx, &owner.id, &book, now).await?;
        let all = days.values().try_fold(DayTotals::default(), |sum, day| sum.plus(*day))?;
        let known = all_keys(tx, &owner.id).await?;
        let shown = known.iter().filter(|key| key.revoked_at.is_none() || days.contains_key(&key.id));
        let keys = shown
            .map(|key| {
                let day = days.get(&key.id).copied().unwrap_or_default();
                day_balance(&book, today, Some(&key.id), key.daily_limit, day)
            })
            .collect::<Result<_, _>>()?;
        Ok(Balance {
            account: owner.id.clone(),
            now,
            month: now.month(),
            amounts: month.amounts()?,
            forecast: forecast(month.net, now)?,
            month_credit,
            credit: credits.balance(today)?,
            free: free_balance(&tx.list_grants(&owner.id, None, GRANTS_MAX).await?, today),
            account_day: day_balance(&book, today, None, owner.daily_limit, all)?,
            keys,
        })
    }

    async fn month_so_far(
        &self,
        tx: &mut Tx,
        account: &AccountId,
        book: &PriceBook,
        now: Timestamp,
    ) -> Result<Priced, StoreError> {
        let month = now.month().span();
        let query = UsageQuery {
            account: Some(account.clone()),
            from: month.start.hour(),
            to: now.month().next().first_day().start().hour(),
            bucket: Bucket::Day,
            group: Group::None,
            rows_max: 32,
        };
        tx.usage_grouped(&query)
            .await?
            .into_iter()
            .try_fold(Priced::default(), |sum, row| Ok(sum.plus(priced(book, row.start.day(), row.totals)?)?))
    }

    /// What credit pays of the current month's draft, and the credits with what all drafts draw.
    async fn credit_so_far(
        &self,
        tx: &mut Tx,
        owner: &Account,
        now: Timestamp,
    ) -> Result<(Micros, CreditBook), StoreError> {
        if tx.credits(&[owner.id.clone()].into()).await?.is_empty() {
            return Ok((Micros::ZERO, CreditBook::default()));
        }
        let (drafts, credits) = self.drafts(tx, owner, now.month()).await?;
        let current = drafts.last().filter(|draft| draft.month == now.month());
        Ok((current.map_or(Micros::ZERO, |draft| draft.credit), credits))
    }

    /// Today's totals of all keys, holds of leases that are due to settle subtracted.
    async fn key_days_settled(
        &self,
        tx: &mut Tx,
        account: &AccountId,
        book: &PriceBook,
        now: Timestamp,
    ) -> Result<BTreeMap<KeyId, DayTotals>, StoreError> {
        let mut days: BTreeMap<KeyId, DayTotals> = tx.key_days_of(account, now.day()).await?.into_iter().collect();
        let accounts: BTreeSet<AccountId> = [account.clone()].into();
        for lease in tx.due_leases_seen(&accounts, now, DUE_MAX).await? {
            if let Some(held) = lease.hold(book)?.get(&now.day()) {
                let day = days.entry(lease.key.clone()).or_default();
                *day = DayTotals { reserved: day.reserved.minus(*held)?, ..*day };
            }
        }
        Ok(days)
    }
}

fn day_balance(
    book: &PriceBook,
    day: Day,
    key: Option<&KeyId>,
    daily_limit: Option<Micros>,
    totals: DayTotals,
) -> Result<DayBalance, StoreError> {
    let price = |usage: Usage| book.price(day, usage);
    Ok(DayBalance {
        key: key.cloned(),
        day,
        daily_limit,
        used: price(totals.used)?.floor()?,
        reserved: price(totals.reserved)?.ceil()?,
        available: daily_limit.map(|limit| totals.available(day, book, limit)).transpose()?,
        resets_at: day.end(),
    })
}

/// The month's net cost at the same pace to its end, rounded down.
fn forecast(net: Cost, now: Timestamp) -> Result<Micros, StoreError> {
    let month = now.month().span();
    let gone_ms = Span { start: month.start, end: now }.length_ms();
    if gone_ms == 0 {
        return Ok(net.floor()?);
    }
    let whole = mul_div_floor(net.units(), i128::from(month.length_ms()), i128::from(gone_ms))?;
    Ok(Cost::from_units(whole).floor()?)
}

fn free_balance(grants: &[Grant], today: Day) -> FreeBalance {
    grants.iter().fold(FreeBalance::default(), |sum, grant| {
        let lapsed = grant.expires_on.is_some_and(|end| end <= today);
        let (expired, remaining) = if lapsed { (grant.left_ms(), 0) } else { (0, grant.left_ms()) };
        FreeBalance {
            granted_ms: sum.granted_ms.saturating_add(grant.granted_ms),
            used_ms: sum.used_ms.saturating_add(grant.used_ms),
            expired_ms: sum.expired_ms.saturating_add(expired),
            remaining_ms: sum.remaining_ms.saturating_add(remaining),
        }
    })
}
