//! Leases with their usage and cost so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::batch::told;
use super::super::command::{Admitted, Page};
use super::super::view::{LeaseFilter, LeaseView, Listed};
use super::super::{Answer, Ledger};
use super::{listed, priced};
use crate::domain::cost::Priced;
use crate::domain::id::{AccountId, LeaseId};
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Day, Timestamp};
use crate::store::shapes::{LeaseHours, LeaseQuery};
use crate::store::{StoreError, Tx};

/// Most pages of the store read for one page of a list that is filtered by state.
const FILTER_ROUNDS_MAX: usize = 20;

impl Ledger {
    /// Leases of an account by id.
    pub async fn leases(&self, account: &AccountId, filter: LeaseFilter, page: Page) -> Answer<Listed<LeaseView>> {
        let mut tx = self.snapshot_of(account).await?;
        let now = self.engine.clock.now();
        let query = LeaseQuery { sandbox: filter.sandbox, key: filter.key, host: filter.host };
        let (mut found, mut after) = (Vec::new(), page.after.clone());
        let wanted = page.limit.saturating_add(1);
        let mut next = None;
        for round in 0..FILTER_ROUNDS_MAX {
            let batch = tx.list_leases(account, &query, after.as_deref(), wanted).await.map_err(told)?;
            let is_last = i64::try_from(batch.len()).is_ok_and(|count| count < wanted);
            after = batch.last().map(|lease| lease.id.to_string());
            found.extend(batch.into_iter().filter(|lease| filter.state.is_none_or(|state| lease.state(now) == state)));
            if is_last || i64::try_from(found.len()).is_ok_and(|count| count >= wanted) {
                break;
            }
            // A rare state in a long list: the page may be short, and says where to go on.
            if round.saturating_add(1) == FILTER_ROUNDS_MAX {
                next.clone_from(&after);
            }
        }
        let page = listed(found, page.limit, |lease| lease.id.to_string());
        let items = self.lease_views(&mut tx, page.items).await.map_err(told)?;
        Ok(Listed { items, next: page.next.or(next) })
    }

    /// One lease.
    pub async fn lease(&self, account: &AccountId, lease: &LeaseId) -> Answer<Option<LeaseView>> {
        let mut tx = self.snapshot().await?;
        let found = tx.leases(&[(account.clone(), lease.clone())].into()).await.map_err(told)?;
        Ok(self.lease_views(&mut tx, found).await.map_err(told)?.pop())
    }

    /// Views of leases that a command just answered, in that order.
    pub async fn views_of(&self, leases: Vec<Lease>) -> Answer<Vec<LeaseView>> {
        let mut tx = self.snapshot().await?;
        self.lease_views(&mut tx, leases).await.map_err(told)
    }

    /// Views of leases that were just admitted. New ones have no usage yet, so the database is not asked again.
    pub async fn admitted_views(&self, admitted: Admitted) -> Answer<Vec<LeaseView>> {
        if admitted.leases.iter().any(|lease| may_have_usage(lease)) {
            // Boxed: a request that waits for the gate would carry room for its statements all the while.
            let leases = admitted.leases.into_iter().map(Arc::unwrap_or_clone).collect();
            return Box::pin(self.views_of(leases)).await;
        }
        let now = self.engine.clock.now();
        let stale_after_ms = self.engine.rules.stale_after_ms;
        let view = |lease| lease_view(lease, Priced::default(), &admitted.prices, now, stale_after_ms).map_err(told);
        admitted.leases.into_iter().map(view).collect()
    }

    async fn lease_views(&self, tx: &mut Tx, leases: Vec<Lease>) -> Result<Vec<LeaseView>, StoreError> {
        let accounts: BTreeSet<AccountId> = leases.iter().map(|lease| lease.account.clone()).collect();
        let books = self.books(tx, &accounts).await?;
        let asked: Vec<LeaseHours> = leases.iter().filter(|lease| may_have_usage(lease)).map(hours_of).collect();
        let mut days: BTreeMap<(AccountId, LeaseId), Vec<(Day, HourTotals)>> = BTreeMap::new();
        if !asked.is_empty() {
            for (key, day, totals) in tx.usage_by_day_of_leases(&asked).await? {
                days.entry(key).or_default().push((day, totals));
            }
        }
        let now = self.engine.clock.now();
        let view = |lease: Lease| {
            let book = books.get(&lease.account).ok_or(StoreError::Corrupt("a lease without prices".to_owned()))?;
            let closed = days.get(&(lease.account.clone(), lease.id.clone())).into_iter().flatten().copied();
            let open = lease.open_hour.map(|open| (open.hour.day(), open.totals));
            let sum = closed.chain(open).try_fold(Priced::default(), |sum, (day, totals)| {
                Ok::<_, StoreError>(sum.plus(priced(book, day, totals)?)?)
            })?;
            lease_view(Arc::new(lease), sum, book, now, self.engine.rules.stale_after_ms)
        };
        leases.into_iter().map(view).collect()
    }
}

fn lease_view(
    lease: Arc<Lease>,
    sum: Priced,
    prices: &PriceBook,
    now: Timestamp,
    stale_after_ms: i64,
) -> Result<LeaseView, StoreError> {
    Ok(LeaseView {
        state: lease.state(now),
        stale: lease.is_stale(now, stale_after_ms),
        worst_case: lease.worst_cost(prices)?.ceil()?,
        usage: sum.usage,
        amounts: sum.amounts()?,
        lease,
    })
}

/// A lease that nothing was ever posted to needs no look at the hours.
fn may_have_usage(lease: &Lease) -> bool {
    lease.meter.last.is_some() || lease.end.is_some()
}

fn hours_of(lease: &Lease) -> LeaseHours {
    LeaseHours {
        account: lease.account.clone(),
        sandbox: lease.sandbox.clone(),
        life: lease.life,
        lease: lease.id.clone(),
        from: lease.window.start.hour(),
        to: lease.window.end.hour(),
    }
}
