//! Invoices: the final ones as they were frozen, and drafts of months that are not closed.
//!
//! A draft bills what the hours' table has for its month and what is still in the rows of leases and sandboxes; it
//! begins with what the month before carries forward, as that month stands now.

use std::collections::{BTreeMap, BTreeSet};

use super::super::batch::told;
use super::super::command::{CommandError, Page};
use super::super::view::Listed;
use super::super::{Answer, Ledger};
use super::{listed, one_more};
use crate::domain::breakdown::Breakdown;
use crate::domain::credit::CreditBook;
use crate::domain::customer::Account;
use crate::domain::id::{AccountId, SandboxId};
use crate::domain::invoice::{Head, Invoice, Status};
use crate::domain::lease::{HourTotals, START_BACK_MS_MAX};
use crate::domain::money::Micros;
use crate::domain::time::{Day, Hour, Month};
use crate::store::shapes::{BilledRow, BilledSpan};
use crate::store::{StoreError, Tx};

/// Where a month's usage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum BilledDays {
    /// All of it in the hours' table: the month is closed.
    Closed,
    /// Some of it in the rows of leases and sandboxes; with the earliest month that is not closed.
    Open(Month),
}

impl BilledDays {
    /// Where a month's is, by the earliest month that is not closed.
    pub(super) fn of(month: Month, open_month: Month) -> Self {
        if month < open_month { Self::Closed } else { Self::Open(open_month) }
    }
}

/// The hours of a month: the first, and the first after it.
pub(super) fn hours_of(month: Month) -> (Hour, Hour) {
    (month.first_day().start().hour(), month.next().first_day().start().hour())
}

/// The usage that a month bills, by account, day and (if asked for) sandbox.
pub(in crate::ledger) async fn billed_rows(
    tx: &mut Tx,
    accounts: &BTreeSet<AccountId>,
    month: Month,
    billed: BilledDays,
    by_sandbox: bool,
) -> Result<Vec<BilledRow>, StoreError> {
    let mut months: Vec<(AccountId, Month)> = accounts.iter().map(|account| (account.clone(), month)).collect();
    months.extend(tx.late_months(accounts, month).await?);
    let span = |(account, used): (AccountId, Month)| {
        let (from, to) = hours_of(used);
        BilledSpan { account, from, to, billed_month: month }
    };
    let spans: Vec<BilledSpan> = months.into_iter().map(span).collect();
    let mut rows = tx.billed_usage(&spans, by_sandbox).await?;
    if let BilledDays::Open(open_month) = billed {
        let (from, to) = hours_of(month);
        // Hours of closed months that are still open are billed in the earliest open month.
        let from = if month == open_month { Month::FIRST.first_day().start().hour() } else { from };
        let spans: Vec<_> = accounts.iter().map(|account| (account.clone(), from, to)).collect();
        rows.extend(tx.open_usage(&spans, by_sandbox).await?);
    }
    Ok(rows)
}

/// [`billed_rows`] summed by account and day.
pub(in crate::ledger) async fn billed_days(
    tx: &mut Tx,
    accounts: &BTreeSet<AccountId>,
    month: Month,
    billed: BilledDays,
) -> Result<BTreeMap<AccountId, Vec<(Day, HourTotals)>>, StoreError> {
    let mut sums: BTreeMap<AccountId, BTreeMap<Day, HourTotals>> = BTreeMap::new();
    for row in billed_rows(tx, accounts, month, billed, false).await? {
        let sum = sums.entry(row.account).or_default().entry(row.day).or_default();
        *sum = sum.plus(row.totals)?;
    }
    Ok(sums.into_iter().map(|(account, days)| (account, days.into_iter().collect())).collect())
}

impl Ledger {
    /// An account's invoice of a month: final, or a draft while the month is not closed. `None`: the month is yet to
    /// come, or there is no such account.
    pub async fn invoice(&self, account: &AccountId, month: Month) -> Answer<Option<Invoice>> {
        let mut tx = self.snapshot().await?;
        let Some(owner) = tx.accounts(&[account.clone()].into()).await.map_err(told)?.pop() else { return Ok(None) };
        if month > self.engine.clock.now().month() {
            return Ok(None);
        }
        self.read_invoice(&mut tx, &owner, month).await.map(Some).map_err(told)
    }

    pub(super) async fn read_invoice(&self, tx: &mut Tx, owner: &Account, month: Month) -> Result<Invoice, StoreError> {
        if let Some(invoice) = tx.invoice(&owner.id, month).await? {
            return Ok(invoice);
        }
        let book = self.book(tx, &owner.id).await?;
        let nothing = Invoice::draft(head_of(owner, month, Micros::ZERO, CreditBook::default()), &[], &book)?;
        if tx.last_closed_month().await?.is_some_and(|last| month <= last) {
            return Ok(Invoice { status: Status::Nothing, ..nothing });
        }
        Ok(self.drafts(tx, owner, month).await?.0.pop().filter(|draft| draft.month == month).unwrap_or(nothing))
    }

    /// Invoices of an account by month: the final ones, then drafts of months that are not closed (those with usage, and
    /// the current one).
    pub async fn invoices(&self, account: &AccountId, page: Page) -> Answer<Listed<Invoice>> {
        let mut tx = self.snapshot().await?;
        let owner = tx.accounts(&[account.clone()].into()).await.map_err(told)?.pop();
        let owner = owner.ok_or(CommandError::NotFound("account"))?;
        let after = page.after.as_deref().and_then(|text| Month::from_index(text.parse().ok()?));
        let found = self.list_invoices(&mut tx, &owner, after, one_more(&page)).await.map_err(told)?;
        Ok(listed(found, page.limit, |invoice| invoice.month.index().to_string()))
    }

    async fn list_invoices(
        &self,
        tx: &mut Tx,
        owner: &Account,
        after: Option<Month>,
        limit: i64,
    ) -> Result<Vec<Invoice>, StoreError> {
        let mut found = tx.list_invoices(&owner.id, after, limit).await?;
        if i64::try_from(found.len()).is_ok_and(|count| count >= limit) {
            return Ok(found);
        }
        let current = self.engine.clock.now().month();
        let seen: BTreeSet<Month> = found.iter().map(|invoice| invoice.month).collect();
        for draft in self.drafts(tx, owner, current).await?.0 {
            let is_new = after.is_none_or(|after| after < draft.month) && !seen.contains(&draft.month);
            if is_new && (draft.month == current || !draft.lines.is_empty()) {
                found.push(draft);
            }
        }
        Ok(found)
    }

    /// The invoices of an account from the first month that is not closed to `to`, as they stand now, and its credits
    /// with what they all draw.
    pub(super) async fn drafts(
        &self,
        tx: &mut Tx,
        owner: &Account,
        to: Month,
    ) -> Result<(Vec<Invoice>, CreditBook), StoreError> {
        let ids: BTreeSet<AccountId> = [owner.id.clone()].into();
        let book = self.book(tx, &owner.id).await?;
        let open_month = tx.open_month(false).await?;
        // A lease may have started up to an hour before its account was made.
        let begun = owner.created_at.near(START_BACK_MS_MAX.saturating_neg()).month();
        let mut month = tx.last_closed_month().await?.map_or(begun, |last| last.next().max(begun));
        let mut carried_over = tx.carried_over(&ids, month).await?.remove(&owner.id).unwrap_or_default();
        let mut credits = tx.credit_books(&ids).await?.remove(&owner.id).unwrap_or_default();
        let mut drafts = Vec::new();
        while month <= to {
            let invoice = if let Some(invoice) = tx.invoice(&owner.id, month).await? {
                invoice
            } else {
                let billed = BilledDays::of(month, open_month);
                let days = billed_days(tx, &ids, month, billed).await?.remove(&owner.id).unwrap_or_default();
                let draft = Invoice::draft(head_of(owner, month, carried_over, credits.clone()), &days, &book)?;
                credits.note(&draft.draws)?;
                draft
            };
            carried_over = invoice.carried_forward()?;
            drafts.push(invoice);
            month = month.next();
        }
        Ok((drafts, credits))
    }

    /// [`Ledger::invoice`] with what its usage came from, both of one instant.
    pub async fn invoice_with_breakdown(
        &self,
        account: &AccountId,
        month: Month,
    ) -> Answer<Option<(Invoice, Breakdown)>> {
        let mut tx = self.snapshot().await?;
        let Some(owner) = tx.accounts(&[account.clone()].into()).await.map_err(told)?.pop() else { return Ok(None) };
        if month > self.engine.clock.now().month() {
            return Ok(None);
        }
        let invoice = self.read_invoice(&mut tx, &owner, month).await.map_err(told)?;
        let breakdown = self.read_breakdown(&mut tx, account, month).await.map_err(told)?;
        Ok(Some((invoice, breakdown)))
    }

    async fn read_breakdown(&self, tx: &mut Tx, account: &AccountId, month: Month) -> Result<Breakdown, StoreError> {
        let open_month = tx.open_month(false).await?;
        let billed = BilledDays::of(month, open_month);
        let mut sums: BTreeMap<(Day, SandboxId), HourTotals> = BTreeMap::new();
        for row in billed_rows(tx, &[account.clone()].into(), month, billed, true).await? {
            let Some(sandbox) = row.sandbox else { continue };
            let sum = sums.entry((row.day, sandbox)).or_default();
            *sum = sum.plus(row.totals)?;
        }
        let rows: Vec<_> = sums.into_iter().map(|((day, sandbox), totals)| (day, sandbox, totals)).collect();
        let book = self.book(tx, account).await?;
        Ok(Breakdown::of(&rows, &book)?)
    }
}

/// What an account's invoice of a month begins with.
pub(in crate::ledger) fn head_of(owner: &Account, month: Month, carried_over: Micros, credits: CreditBook) -> Head {
    let (account, name) = (owner.id.clone(), owner.name.clone());
    Head { account, name, month, carried_over, credits, tax: owner.tax }
}
