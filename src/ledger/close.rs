//! Closing months: moves the watermark, and makes the invoices of every month before it final.
//!
//! Steps, each safe to repeat, by several engines at once:
//!
//! 1. what is due is settled, and storage that nobody has reported since is written out of its sandboxes' rows, so that
//!    little is left to do under the lock;
//! 2. the watermark is locked alone (a batch holds it shared until it commits), hours that are still open in the rows
//!    of leases are posted to the month that closes and taken out of the next one, and the watermark moves: from here
//!    on nothing more is billed in the closed months. The rows of leases stay as they are; when such an hour is written
//!    out later, the two cancel and what came since is late usage of the next month;
//! 3. month by month, a few accounts at a time: what the month bills is read from a snapshot (closed months stand
//!    still), and the evidence that it follows from is digested. Then the accounts are locked, so that no credit is
//!    granted and none is relied on meanwhile (an admission sees usage that is not billed yet, or what the invoice drew
//!    for it), and after them the numbers; the invoices are worked out and added with the next ones, so that numbers
//!    have no gap and no engine makes an invoice twice;
//! 4. the month is noted as closed.
//!
//! Killed at any point, a repetition goes on where it was.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::told;
use super::command::{CommandError, ConflictCode};
use super::proof::{self, Wanted};
use super::queries::invoices::{BilledDays, billed_days, head_of};
use super::{Answer, Ledger};
use crate::domain::customer::Account;
use crate::domain::id::AccountId;
use crate::domain::invoice::{Invoice, Status};
use crate::domain::lease::HourTotals;
use crate::domain::money::Micros;
use crate::domain::proof::credits;
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Day, Hour, Month, Timestamp};
use crate::report::evidence::Body;
use crate::store::{Lane, StoreError, Tx};

/// Accounts whose invoices are made in one transaction: few enough that nobody waits long for the numbers.
const ACCOUNTS_MAX: i64 = 100;
/// Leases, or sandboxes, of one batch of the first step.
const BATCH_ROWS_MAX: i64 = 500;
/// How often a step is tried, each time as long as the store waits for anything.
const TRIES: u32 = 12;

/// A closed month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedMonth {
    /// Which.
    pub month: Month,
    /// How many invoices it has.
    pub invoices: i64,
}

/// What a month bills of one account, read while it is closed: it does not change any more.
#[derive(Clone, Debug)]
struct Bill {
    account: AccountId,
    days: Vec<(Day, HourTotals)>,
    book: PriceBook,
    carried_over: Micros,
    /// `None`: usage of a month whose evidence is archived came all the same; that can't be proved.
    evidence: Option<Body>,
}

/// How far closing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The month whose invoices are being made.
    pub month: Month,
    /// Accounts looked at in this month.
    pub accounts: usize,
    /// Invoices made in this month by this call.
    pub invoices: usize,
}

/// Tries of one step: batches that follow each other closely can hold a lock between them for a while, and every step
/// finds what was done of it before.
#[derive(Debug, Default)]
struct Tries(u32);

impl Tries {
    /// The outcome, unless the step is worth another try.
    fn ended<T>(&mut self, outcome: Result<T, StoreError>) -> Option<Result<T, StoreError>> {
        self.0 = self.0.saturating_add(1);
        match outcome {
            Err(StoreError::Unavailable(_) | StoreError::Again(_) | StoreError::Unknown(_)) if self.0 < TRIES => None,
            outcome => Some(outcome),
        }
    }
}

impl Ledger {
    /// Closes a month and all before it: their invoices are final when it returns. The same again answers the same;
    /// [`ConflictCode::MonthOpen`] before its end. `progress` is told after every few accounts.
    pub async fn close_month(&self, month: Month, progress: &(dyn Fn(Progress) + Send + Sync)) -> Answer<ClosedMonth> {
        let now = self.engine.clock.now();
        if now < month.span().end {
            let detail = "a month can be closed once it has ended".to_owned();
            return Err(CommandError::Conflict { code: ConflictCode::MonthOpen, detail, lease: None });
        }
        if let Some(invoices) = self.closed(month).await.map_err(told)? {
            return Ok(ClosedMonth { month, invoices });
        }
        self.settle_all().await?;
        let next = month.next().first_day().start().hour();
        let mut tries = Tries::default();
        loop {
            if let Some(outcome) = tries.ended(self.write_out_storage(next).await) {
                break outcome.map_err(told)?;
            }
        }
        let mut tries = Tries::default();
        loop {
            if let Some(outcome) = tries.ended(self.move_watermark(month).await) {
                break outcome.map_err(told)?;
            }
        }
        let invoices = self.make_final(month, now, progress).await.map_err(told)?;
        Ok(ClosedMonth { month, invoices })
    }

    /// The latest month whose invoices are all final.
    pub async fn last_closed_month(&self) -> Answer<Option<Month>> {
        let mut tx = self.engine.store.read().await.map_err(told)?;
        tx.last_closed_month().await.map_err(told)
    }

    /// How many invoices a month has that is closed already.
    async fn closed(&self, month: Month) -> Result<Option<i64>, StoreError> {
        let mut tx = self.engine.store.read().await?;
        if tx.last_closed_month().await?.is_none_or(|last| last < month) {
            return Ok(None);
        }
        Ok(Some(tx.closed_month(month).await?.unwrap_or(0)))
    }

    async fn settle_all(&self) -> Answer<()> {
        while self.settle_due(BATCH_ROWS_MAX).await? > 0 {}
        Ok(())
    }

    /// Writes out storage hours before `first` that are still in their sandboxes' rows. It adds up wherever it is kept.
    async fn write_out_storage(&self, first: Hour) -> Result<(), StoreError> {
        loop {
            let mut tx = self.engine.store.read().await?;
            let found = tx.open_storage_before(first, BATCH_ROWS_MAX).await?;
            drop(tx);
            let (mut tx, mut set) = self.engine.begin(Lane::Meter).await?;
            let ids: BTreeSet<_> = found.iter().map(|(key, _)| (key.account.clone(), key.sandbox.clone())).collect();
            let ids: Vec<_> = ids.into_iter().map(|(account, id)| (account, id, Timestamp::EPOCH)).collect();
            set.take_sandboxes(tx.lock_sandboxes(&ids).await?);
            let mut written = false;
            for (key, _) in &found {
                let Some(known) = set.life(&key.account, &key.sandbox, key.life) else { continue };
                let mut sandbox = known.clone();
                if sandbox.storage.open_hour.as_ref().is_some_and(|open| open.hour < first) {
                    set.close_storage_hour(&mut sandbox)?;
                    set.put_sandbox(sandbox);
                    written = true;
                }
            }
            if !written {
                return Ok(());
            }
            tx.save(&set.changes).await?;
            tx.commit().await?;
        }
    }

    async fn move_watermark(&self, month: Month) -> Result<(), StoreError> {
        let mut tx = self.engine.store.begin(Lane::Decision).await?;
        let open_month = tx.lock_watermark().await?;
        if open_month > month {
            return Ok(());
        }
        let next = month.next();
        let mut hours = Vec::new();
        for (mut key, totals) in tx.open_hours_before(next.first_day().start().hour()).await? {
            key.billed_month = key.billed_month.max(open_month);
            hours.push((key.clone(), totals));
            key.billed_month = next;
            hours.push((key, HourTotals::default().minus(totals)?));
        }
        tx.add_hours(hours).await?;
        tx.move_watermark(next).await?;
        tx.commit().await?;
        tracing::info!(month = month.index(), "the watermark has moved");
        Ok(())
    }

    /// Makes the invoices of all months up to `month` final. Answers how many `month` has.
    async fn make_final(
        &self,
        month: Month,
        now: Timestamp,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<i64, StoreError> {
        let mut tx = self.engine.store.read().await?;
        let last = tx.last_closed_month().await?;
        let first = match last {
            Some(last) => last.next(),
            None => tx.first_hour().await?.map_or(month, |hour| hour.start().month()),
        };
        drop(tx);
        let mut at = first.min(month);
        loop {
            let invoices = self.make_month_final(at, now, progress).await?;
            if at >= month {
                return Ok(invoices);
            }
            at = at.next();
        }
    }

    async fn make_month_final(
        &self,
        month: Month,
        now: Timestamp,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<i64, StoreError> {
        let mut so_far = Progress { month, accounts: 0, invoices: 0 };
        let mut after: Option<AccountId> = None;
        loop {
            let mut tx = self.engine.store.read().await?;
            let (accounts, bills) = self.bills_to_make_final(&mut tx, after.as_ref(), month, now).await?;
            drop(tx);
            so_far.accounts = so_far.accounts.saturating_add(accounts.len());
            let mut tries = Tries::default();
            let made = loop {
                if let Some(outcome) = tries.ended(self.number(month, &bills, now).await) {
                    break outcome?;
                }
            };
            so_far.invoices = so_far.invoices.saturating_add(made);
            progress(so_far);
            match accounts.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        let mut tx = self.engine.store.begin(Lane::Decision).await?;
        let invoices = tx.count_invoices(month).await?;
        tx.add_closed_month(month, invoices).await?;
        tx.commit().await?;
        Ok(invoices)
    }

    /// The next few accounts, and what the month bills of those that lack an invoice.
    async fn bills_to_make_final(
        &self,
        tx: &mut Tx,
        after: Option<&AccountId>,
        month: Month,
        now: Timestamp,
    ) -> Result<(BTreeSet<AccountId>, Vec<Bill>), StoreError> {
        let accounts = tx.list_accounts(after.map(AccountId::as_str), ACCOUNTS_MAX).await?;
        let ids: BTreeSet<AccountId> = accounts.into_iter().map(|account| account.id).collect();
        let known = tx.invoiced(&ids, month).await?;
        let lacking: BTreeSet<AccountId> = ids.difference(&known).cloned().collect();
        let carried = tx.carried_over(&lacking, month).await?;
        let entries = tx.rate_card_entries(&lacking).await?;
        let mut bills = Vec::new();
        for (account, days) in billed_days(tx, &lacking, month, BilledDays::Closed).await? {
            let book = PriceBook::new(self.engine.rules.list.clone(), &account, &entries);
            let carried_over = carried.get(&account).copied().unwrap_or_default();
            let wanted = Wanted { account: &account, month, book: &book, at: now, credits: &[] };
            let at_hand = proof::at_hand(tx, &account, month).await?;
            let evidence = if at_hand { Some(proof::digest(tx, wanted).await?) } else { None };
            bills.push(Bill { account, days, book, carried_over, evidence });
        }
        Ok((ids, bills))
    }

    /// Makes invoices final with the next numbers, but for those that another engine has made final meanwhile, and
    /// those without usage: what is carried over waits for the next one. Answers how many.
    async fn number(&self, month: Month, bills: &[Bill], now: Timestamp) -> Result<usize, StoreError> {
        if bills.is_empty() {
            return Ok(0);
        }
        let mut tx = self.engine.store.begin(Lane::Decision).await?;
        let ids = bills.iter().map(|bill| bill.account.clone()).collect();
        let accounts = tx.lock_accounts(&ids).await?;
        let accounts: BTreeMap<&AccountId, &Account> = accounts.iter().map(|account| (&account.id, account)).collect();
        let mut next = tx.lock_invoice_numbers().await?;
        let known = tx.invoiced(&ids, month).await?;
        let mut credits = tx.credit_books(&ids).await?;
        let mut made = Vec::new();
        for bill in bills.iter().filter(|bill| !known.contains(&bill.account)) {
            let Some(owner) = accounts.get(&bill.account) else { continue };
            let credits = credits.remove(&bill.account).unwrap_or_default();
            let head = head_of(owner, month, bill.carried_over, credits.clone());
            let Ok(draft) = Invoice::draft(head, &bill.days, &bill.book) else {
                // What no amount can say stays a draft; it must not hold up everybody else's.
                tracing::error!(account = %bill.account, month = month.index(), "an invoice is beyond all amounts");
                continue;
            };
            if draft.lines.iter().any(|line| line.used.is_some()) {
                let invoice = Invoice { status: Status::Final { number: next, at: now }, ..draft };
                let terms = credits::records(&credits, &invoice);
                let head = proof::head_of(&invoice, bill.carried_over);
                let proved = bill.evidence.as_ref().zip(head.as_ref());
                let digests = proved.map(|(evidence, head)| evidence.with_head(head, &terms));
                made.push(Invoice { digests, ..invoice });
                next = next.next()?;
            }
        }
        if made.is_empty() {
            return Ok(0);
        }
        tx.add_invoices(&made, next).await?;
        tx.commit().await?;
        Ok(made.len())
    }
}
