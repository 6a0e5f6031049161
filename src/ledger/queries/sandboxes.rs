//! Sandboxes: the newest life of each, with its usage and cost in the current month.

use std::collections::BTreeMap;

use super::super::batch::told;
use super::super::command::Page;
use super::super::view::{Listed, SandboxState, SandboxView};
use super::super::{Answer, Ledger};
use super::{listed, one_more, priced};
use crate::domain::cost::Priced;
use crate::domain::id::{AccountId, LeaseId, SandboxId};
use crate::domain::lease::{Lease, LeaseState};
use crate::domain::sandbox::Sandbox;
use crate::store::{StoreError, Tx};

impl Ledger {
    /// Sandboxes of an account by id.
    pub async fn sandboxes(&self, account: &AccountId, page: Page) -> Answer<Listed<SandboxView>> {
        let mut tx = self.snapshot_of(account).await?;
        let found = tx.list_sandboxes(account, page.after.as_deref(), one_more(&page)).await.map_err(told)?;
        let page = listed(found, page.limit, |sandbox| sandbox.id.to_string());
        let items = self.sandbox_views(&mut tx, account, page.items).await.map_err(told)?;
        Ok(Listed { items, next: page.next })
    }

    /// One sandbox.
    pub async fn sandbox(&self, account: &AccountId, sandbox: &SandboxId) -> Answer<Option<SandboxView>> {
        let mut tx = self.snapshot().await?;
        let asked = [(account.clone(), sandbox.clone(), crate::domain::time::Timestamp::MAX)];
        let newest = tx.sandboxes(&asked).await.map_err(told)?.pop();
        let views = self.sandbox_views(&mut tx, account, newest.into_iter().collect()).await.map_err(told)?;
        Ok(views.into_iter().next())
    }

    async fn sandbox_views(
        &self,
        tx: &mut Tx,
        account: &AccountId,
        sandboxes: Vec<Sandbox>,
    ) -> Result<Vec<SandboxView>, StoreError> {
        let now = self.engine.clock.now();
        let (first, last) = (now.month().span().start.hour(), now.month().next().first_day().start().near(-1).hour());
        let asked: Vec<_> =
            sandboxes.iter().map(|one| (account.clone(), one.id.clone(), one.life, first, last)).collect();
        let usage = tx.usage_by_day_of_sandboxes(&asked).await?;
        let latest =
            sandboxes.iter().filter_map(|one| Some((account.clone(), one.latest.as_ref()?.id.clone()))).collect();
        let leases: BTreeMap<LeaseId, Lease> =
            tx.leases(&latest).await?.into_iter().map(|lease| (lease.id.clone(), lease)).collect();
        let book = self.book(tx, account).await?;
        let view = |(sandbox, days): (Sandbox, Vec<_>)| {
            let month = days.into_iter().try_fold(Priced::default(), |sum, (day, totals)| {
                Ok::<_, StoreError>(sum.plus(priced(&book, day, totals)?)?)
            })?;
            let lease = sandbox.latest.as_ref().and_then(|latest| leases.get(&latest.id));
            let state = if sandbox.deleted_at.is_some_and(|at| at <= now) {
                SandboxState::Deleted
            } else if lease.is_some_and(|lease| lease.state(now) == LeaseState::Running) {
                SandboxState::Running
            } else {
                SandboxState::Resting
            };
            Ok(SandboxView {
                state,
                key: sandbox.key().clone(),
                lease: sandbox.latest.as_ref().map(|latest| latest.id.clone()),
                storage_mib: sandbox.storage.last.as_ref().map_or(0, |report| report.storage.mib()),
                created_at: sandbox.created_at,
                deleted_at: sandbox.deleted_at,
                month_usage: month.usage,
                month_amounts: month.amounts()?,
                id: sandbox.id,
            })
        };
        sandboxes.into_iter().zip(usage).map(view).collect()
    }
}
