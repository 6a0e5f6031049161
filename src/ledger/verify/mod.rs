//! Verifying: everything that can be computed again from the evidence is, and is compared with what is kept.
//!
//! The evidence is samples, leases, grants, draws and rate cards. Compared are the hours of usage, the days of keys and
//! accounts (used and reserved), free time and draws, and final invoices. One account is one snapshot: it runs on a
//! live database, waits for nobody, and nobody waits for it.
//!
//! What can't be told from the evidence: in which month late usage was billed (its sum over the months is compared),
//! and whether a grant that was made later should have paid.

mod account;
mod compare;

use super::batch::told;
use super::command::CommandError;
use super::{Answer, Ledger};
use crate::domain::customer::Account;
use crate::domain::id::AccountId;
use crate::domain::time::Month;
use crate::store::StoreError;
use account::Check;

/// Accounts read in one statement.
const ACCOUNTS_MAX: i64 = 100;

/// What to verify.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// One account; `None`: all.
    pub account: Option<AccountId>,
    /// Usage, days and the invoice of one month; `None`: of all, and the grants.
    pub month: Option<Month>,
}

/// A figure that is not what the evidence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whose.
    pub account: AccountId,
    /// Which table.
    pub table: &'static str,
    /// Which row, for people.
    pub row: String,
    /// Which column.
    pub column: &'static str,
    /// What is kept.
    pub kept: i128,
    /// What it should be.
    pub computed: i128,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Accounts.
    pub accounts: u64,
    /// Leases.
    pub leases: u64,
    /// Samples.
    pub samples: u64,
    /// Hours, days, grants and invoices compared.
    pub rows: u64,
    /// Figures that differ.
    pub differences: u64,
}

/// What is told on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A figure that differs.
    Difference(Difference),
    /// Another account is done; all so far.
    Account(Verified),
}

impl Ledger {
    /// Verifies; `tell` hears of every difference. Changes nothing.
    pub async fn verify(&self, scope: &Scope, tell: &(dyn Fn(Told) + Send + Sync)) -> Answer<Verified> {
        let mut sum = Verified::default();
        if let Some(id) = &scope.account {
            let mut tx = self.engine.store.read().await.map_err(told)?;
            let found = tx.accounts(&[id.clone()].into()).await.map_err(told)?.pop();
            drop(tx);
            let account = found.ok_or(CommandError::NotFound("account"))?;
            self.verify_account(&account, scope.month, tell, &mut sum).await.map_err(told)?;
            return Ok(sum);
        }
        let mut after: Option<AccountId> = None;
        loop {
            let mut tx = self.engine.store.read().await.map_err(told)?;
            let found = tx.list_accounts(after.as_ref().map(AccountId::as_str), ACCOUNTS_MAX).await.map_err(told)?;
            drop(tx);
            let Some(last) = found.last() else { return Ok(sum) };
            after = Some(last.id.clone());
            for account in &found {
                self.verify_account(account, scope.month, tell, &mut sum).await.map_err(told)?;
            }
        }
    }

    async fn verify_account(
        &self,
        account: &Account,
        month: Option<Month>,
        tell: &(dyn Fn(Told) + Send + Sync),
        sum: &mut Verified,
    ) -> Result<(), StoreError> {
        let mut tx = self.engine.store.read().await?;
        // As it is in this snapshot: a limit that was set since has begun counters of its own.
        let account = tx.accounts(&[account.id.clone()].into()).await?.pop().unwrap_or_else(|| account.clone());
        let entries = tx.rate_card_entries(&[account.id.clone()].into()).await?;
        let book = crate::domain::rate_card::PriceBook::new(self.engine.rules.list.clone(), &account.id, &entries);
        let mut check = Check::new(&account, &book, month, sum);
        check.run(&mut tx).await?;
        for difference in check.into_differences() {
            tell(Told::Difference(difference));
        }
        sum.accounts = sum.accounts.saturating_add(1);
        tell(Told::Account(*sum));
        Ok(())
    }
}
