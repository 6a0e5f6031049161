//! Bills hour by hour: an account's invoice of a month and all usage behind it, in pages from one snapshot.

use std::sync::Arc;

use super::super::batch::told;
use super::super::{Answer, Ledger};
use super::invoices::{BilledDays, hours_of};
use crate::domain::charge::BilledHour;
use crate::domain::customer::Account;
use crate::domain::id::AccountId;
use crate::domain::invoice::Invoice;
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Hour, Month};
use crate::store::shapes::HourCursor;
use crate::store::{StoreError, Tx};

/// Hours of a page: a few hundred kilobytes.
const PAGE_HOURS: i64 = 2_000;
/// Accounts that are looked up at once.
const ACCOUNTS_MAX: i64 = 100;

/// Where the hours of a bill are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the hours' table.
    Hours,
    /// Still in the rows of leases.
    Leases,
    /// Still in the rows of sandboxes.
    Sandboxes,
}

/// A bill under way: it holds its snapshot until it is dropped.
#[derive(Debug)]
pub struct Bill {
    tx: Tx,
    invoice: Invoice,
    book: Arc<PriceBook>,
    /// Stretches that are not read yet, the next one last.
    left: Vec<(Place, HourCursor, Hour)>,
}

impl Bill {
    /// The invoice, or the draft.
    #[must_use]
    pub fn invoice(&self) -> &Invoice {
        &self.invoice
    }

    /// The prices of its usage.
    #[must_use]
    pub fn book(&self) -> Arc<PriceBook> {
        Arc::clone(&self.book)
    }

    /// The next page of its hours, late ones included; empty: there are no more.
    pub async fn next(&mut self) -> Answer<Vec<BilledHour>> {
        while let Some((place, after, until)) = self.left.pop() {
            let found = self.read(place, &after, until).await.map_err(told)?;
            let full = i64::try_from(found.len()).is_ok_and(|count| count >= PAGE_HOURS);
            if let Some((last, _)) = found.last().filter(|_| full) {
                self.left.push((place, last.clone(), until));
            }
            if !found.is_empty() {
                return Ok(found.into_iter().map(|(_, hour)| hour).collect());
            }
        }
        Ok(Vec::new())
    }

    async fn read(
        &mut self,
        place: Place,
        after: &HourCursor,
        until: Hour,
    ) -> Result<Vec<(HourCursor, BilledHour)>, StoreError> {
        let (account, month) = (&self.invoice.account, self.invoice.month);
        match place {
            Place::Hours => self.tx.billed_hours(account, month, after, until, PAGE_HOURS).await,
            Place::Leases => self.tx.billed_hours_in_leases(account, after, until, PAGE_HOURS).await,
            Place::Sandboxes => self.tx.billed_hours_in_sandboxes(account, after, until, PAGE_HOURS).await,
        }
    }
}

impl Ledger {
    /// Begins an account's bill of a month: final, or a draft while the month is not closed. `None`: the month is yet to
    /// come, or there is no such account.
    pub async fn bill(&self, account: &AccountId, month: Month) -> Answer<Option<Bill>> {
        let mut tx = self.snapshot().await?;
        let Some(owner) = tx.accounts(&[account.clone()].into()).await.map_err(told)?.pop() else { return Ok(None) };
        // A month that is closed is there whatever this engine's clock says.
        let last = tx.last_closed_month().await.map_err(told)?;
        if month > self.engine.clock.now().month() && last.is_none_or(|last| last < month) {
            return Ok(None);
        }
        self.begin_bill(tx, &owner, month).await.map(Some).map_err(told)
    }

    /// The accounts after one, by id; empty: there are no more.
    pub async fn accounts_after(&self, after: Option<&AccountId>) -> Answer<Vec<AccountId>> {
        let mut tx = self.report().await?;
        let found = tx.list_accounts(after.map(AccountId::as_str), ACCOUNTS_MAX).await.map_err(told)?;
        Ok(found.into_iter().map(|account| account.id).collect())
    }

    async fn begin_bill(&self, mut tx: Tx, owner: &Account, month: Month) -> Result<Bill, StoreError> {
        let invoice = self.read_invoice(&mut tx, owner, month).await?;
        let book = self.book(&mut tx, &owner.id).await?;
        let (from, to) = hours_of(month);
        let mut left = Vec::new();
        let open_month = tx.open_month(false).await?;
        if let BilledDays::Open(_) = BilledDays::of(month, open_month) {
            // Hours of closed months that are still open are billed in the earliest open month.
            let from = if month == open_month { Month::FIRST.first_day().start().hour() } else { from };
            left.push((Place::Sandboxes, HourCursor::at(from), to));
            left.push((Place::Leases, HourCursor::at(from), to));
        }
        for (_, used) in tx.late_months(&[owner.id.clone()].into(), month).await?.into_iter().rev() {
            let (from, to) = hours_of(used);
            left.push((Place::Hours, HourCursor::at(from), to));
        }
        left.push((Place::Hours, HourCursor::at(from), to));
        Ok(Bill { tx, invoice, book, left })
    }
}
