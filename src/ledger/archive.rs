//! Archiving evidence: says that the samples of closed months are no longer at hand, so that they can be dropped.
//!
//! Steps, each safe to repeat:
//!
//! 1. the watermark of evidence moves (a batch holds it shared until it commits): from here on samples of those months
//!    are rejected as `archived`, for they could not be judged;
//! 2. what later months go on from is kept: of each lease that runs over the boundary its last sample before it, and of
//!    each sandbox that is not deleted its last report of the disk; for every month that was or is still to be closed,
//!    as it was known then.
//!
//! After that the months' tables may go (docs/OPERATIONS.md), unless late usage of them is still to be billed: its
//! invoice is made from their samples.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::told;
use super::command::{CommandError, ConflictCode};
use super::{Answer, Ledger};
use crate::domain::customer::Account;
use crate::domain::id::{AccountId, LeaseId, SandboxId};
use crate::domain::lease::{LEASE_MS_MAX, Lease};
use crate::domain::proof::LifeId;
use crate::domain::sample_page::{self, PageSample};
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{Reporter, StoragePoint, counting};
use crate::domain::time::{Month, Span, Timestamp};
use crate::domain::void::Void;
use crate::store::changes::PageOwner;
use crate::store::shapes::{KeptPage, PageSpan};
use crate::store::{Lane, StoreError, Tx};

/// Accounts, and lives of sandboxes, read in one statement.
const ROWS_MAX: i64 = 100;

/// What archiving came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The first month whose evidence is still at hand.
    pub evidence_from: Month,
    /// Samples that were kept.
    pub kept: usize,
    /// A month that is not closed yet and will bill late usage of archived months: until then they must stay.
    pub needed_by: Option<Month>,
}

impl Ledger {
    /// Archives the evidence of all months up to `month`, which is closed. The same again keeps nothing new.
    pub async fn archive(&self, month: Month, progress: &(dyn Fn(usize) + Send + Sync)) -> Answer<Archived> {
        let mut tx = self.engine.store.read().await.map_err(told)?;
        if tx.last_closed_month().await.map_err(told)?.is_none_or(|last| last < month) {
            let detail = "a month can be archived once it is closed".to_owned();
            return Err(CommandError::Conflict { code: ConflictCode::MonthOpen, detail, lease: None });
        }
        drop(tx);
        self.move_evidence_from(month.next()).await.map_err(told)?;
        let mut archived = Archived { evidence_from: month.next(), kept: 0, needed_by: None };
        let mut after: Option<AccountId> = None;
        let mut accounts: usize = 0;
        loop {
            let (kept, found) = self.keep_some(after.as_ref(), month).await.map_err(told)?;
            let Some(last) = found.last() else { break };
            after = Some(last.id.clone());
            archived.kept = archived.kept.saturating_add(kept);
            accounts = accounts.saturating_add(found.len());
            progress(accounts);
        }
        let mut tx = self.engine.store.read().await.map_err(told)?;
        let open_month = tx.open_month(false).await.map_err(told)?;
        let waits = tx.late_usage_waits(open_month, month).await.map_err(told)?;
        archived.needed_by = waits.then_some(open_month);
        Ok(archived)
    }

    async fn move_evidence_from(&self, to: Month) -> Result<(), StoreError> {
        let mut tx = self.engine.store.begin(Lane::Decision).await?;
        tx.move_evidence_from(to).await?;
        tx.commit().await
    }

    /// Keeps samples of a few accounts.
    async fn keep_some(&self, after: Option<&AccountId>, month: Month) -> Result<(usize, Vec<Account>), StoreError> {
        let mut tx = self.engine.store.read().await?;
        let accounts = tx.list_accounts(after.map(AccountId::as_str), ROWS_MAX).await?;
        let open_month = tx.open_month(false).await?;
        let mut pages = Vec::new();
        for account in &accounts {
            boundary_of_account(&mut tx, &account.id, month, open_month, &mut pages).await?;
        }
        drop(tx);
        if !pages.is_empty() {
            let mut tx = self.engine.store.begin(Lane::Meter).await?;
            tx.keep_pages(&pages).await?;
            tx.commit().await?;
        }
        Ok((pages.len(), accounts))
    }
}

/// The samples of an account that months after `month` go on from.
async fn boundary_of_account(
    tx: &mut Tx,
    account: &AccountId,
    month: Month,
    open_month: Month,
    pages: &mut Vec<KeptPage>,
) -> Result<(), StoreError> {
    let boundary = month.span().end;
    let mut after = None;
    loop {
        let of = after.as_ref().map(|(id, life)| (id, *life));
        let lives = tx.lives_of(account, of, ROWS_MAX).await?;
        let Some(last) = lives.last() else { return Ok(()) };
        after = Some((last.id.clone(), last.life));
        let goes_on = |life: &&Sandbox| life.deleted_at.is_none_or(|at| at > boundary);
        let ids: Vec<LifeId> =
            lives.iter().filter(goes_on).map(|life| LifeId { sandbox: life.id.clone(), life: life.life }).collect();
        let from = boundary.near(LEASE_MS_MAX.saturating_neg());
        let leases = tx.leases_started(account, &ids, from, boundary).await?;
        let leases: BTreeMap<LeaseId, Lease> = leases.into_iter().map(|lease| (lease.id.clone(), lease)).collect();
        // Each month that goes on from here knew what had been accepted when it was closed.
        let mut at = month;
        while at <= open_month {
            pages.extend(boundary_of_lives(tx, account, &ids, &leases, boundary, at).await?);
            at = at.next();
        }
    }
}

async fn boundary_of_lives(
    tx: &mut Tx,
    account: &AccountId,
    ids: &[LifeId],
    leases: &BTreeMap<LeaseId, Lease>,
    boundary: Timestamp,
    at: Month,
) -> Result<Vec<KeptPage>, StoreError> {
    let span = Span { start: boundary, end: boundary };
    let storage = ids.iter().map(|of| PageSpan { of: of.clone(), lease: None, span });
    let running = leases.values().filter(|lease| lease.window.end > boundary).map(|lease| PageSpan {
        of: LifeId { sandbox: lease.sandbox.clone(), life: lease.life },
        lease: Some(lease.id.clone()),
        span,
    });
    let spans: Vec<PageSpan> = storage.chain(running.clone()).collect();
    let mut found = tx.pages_in(account, &spans, at, boundary).await?;
    let keys = ids.iter().map(|of| (account.clone(), of.sandbox.clone(), of.life)).collect();
    let mut voids = tx.voids_of_lives(&keys).await?;
    voids.retain(|void| void.open_month <= at);
    let lives: BTreeSet<(&SandboxId, i64)> = voids.iter().map(|void| (&void.sandbox, void.life)).collect();
    for (sandbox, life) in lives {
        // The nearest page may have voided samples only.
        let all = tx.pages_of_life((account, sandbox, life)).await?;
        found.extend(all.into_iter().filter(|(_, page)| page.accepted_in.is_none_or(|accepted| accepted <= at)));
    }
    let is_voided = |owner: &PageOwner, sample: &PageSample| {
        let of = |void: &&Void| void.sandbox == owner.sandbox && void.life == owner.life && void.lease == owner.lease;
        voids.iter().filter(of).any(|void| void.at == sample.at)
    };
    let mut samples: BTreeMap<PageOwner, Vec<(PageSample, Option<Month>)>> = BTreeMap::new();
    for (owner, page) in found {
        let read = sample_page::decode(&page.bytes).map_err(|corrupt| StoreError::Corrupt(corrupt.to_string()))?;
        let counts = |sample: &PageSample| sample.at < boundary && !is_voided(&owner, sample);
        let before: Vec<_> = read.into_iter().filter(counts).map(|sample| (sample, page.accepted_in)).collect();
        samples.entry(owner).or_default().extend(before);
    }
    let mut kept = Vec::new();
    for asked in running {
        let (of, lease) = (asked.of, asked.lease);
        let owner = PageOwner { account: account.clone(), sandbox: of.sandbox, life: of.life, lease };
        let last = samples.get(&owner).into_iter().flatten().max_by_key(|(sample, _)| sample.at);
        kept.extend(last.map(|(sample, accepted_in)| keep(&owner, sample, *accepted_in)));
    }
    for of in ids {
        let of_life = samples.iter().filter(|(owner, _)| owner.sandbox == of.sandbox && owner.life == of.life);
        let mut points: Vec<(StoragePoint, KeptPage)> = Vec::new();
        for (owner, samples) in of_life {
            let by = owner.lease.as_ref().map_or(Reporter::AtRest, |id| {
                Reporter::Lease(leases.get(id).map_or(Timestamp::EPOCH, |lease| lease.window.start), id.clone())
            });
            for (sample, accepted_in) in samples {
                let Some(report) = sample.storage_report() else { continue };
                let point = StoragePoint { at: report.at, storage: report.storage, by: by.clone() };
                points.push((point, keep(owner, sample, *accepted_in)));
            }
        }
        let last = counting(points.iter().map(|(point, _)| point.clone()).collect()).pop();
        kept.extend(last.and_then(|last| points.into_iter().find(|(point, _)| *point == last)).map(|(_, page)| page));
    }
    Ok(kept)
}

fn keep(owner: &PageOwner, sample: &PageSample, accepted_in: Option<Month>) -> KeptPage {
    KeptPage { owner: owner.clone(), at: sample.at, accepted_in, bytes: sample_page::encode(&[*sample]) }
}
