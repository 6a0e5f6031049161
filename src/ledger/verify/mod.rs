//! Verifying: everything that can be computed again from the evidence is, and is compared with what is kept.
//!
//! The evidence is samples, leases, grants, draws and rate cards. Compared are the hours of usage, the days of keys and
//! accounts (used and reserved), free time and draws, and final invoices. One account is one snapshot: it runs on a
//! live database, waits for nobody, and nobody waits for it.
//!
//! A final invoice that has a digest is made again from its evidence alone, and so is its digest: so the month in which
//! late usage was billed is checked too. (Of invoices made before there were digests, only its sum over the months.)
//!
//! Evidence that is archived is not at hand: hours and days before the first month that is are counted as unchecked,
//! never as different. What can't be told at all: whether a grant that was made later should have paid.

mod account;
mod compare;
mod proof;
mod sample;

pub use sample::Sampled;

use std::collections::BTreeSet;

use super::batch::told;
use super::command::CommandError;
use super::{Answer, Ledger};
use crate::domain::customer::Account;
use crate::domain::id::AccountId;
use crate::domain::time::Month;
use crate::store::StoreError;
use account::Check;
use sample::Reservoir;

/// Accounts read in one statement.
const ACCOUNTS_MAX: i64 = 100;

/// What to verify.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// One account; `None`: all.
    pub account: Option<AccountId>,
    /// Usage, days and the invoice of one month; `None`: of all, and the grants.
    pub month: Option<Month>,
    /// Not all accounts but some, chosen at random.
    pub sample: Option<Sampled>,
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
    /// Hours and invoices that could not be computed again: their evidence is archived, or they are from before there
    /// were digests.
    pub unchecked: u64,
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
        let chosen = match scope.sample {
            Some(sampled) => Some(self.choose(sampled).await.map_err(told)?),
            None => None,
        };
        let mut after: Option<AccountId> = None;
        loop {
            let mut tx = self.engine.store.read().await.map_err(told)?;
            let found = tx.list_accounts(after.as_ref().map(AccountId::as_str), ACCOUNTS_MAX).await.map_err(told)?;
            drop(tx);
            let Some(last) = found.last() else { return Ok(sum) };
            after = Some(last.id.clone());
            let wanted = |account: &&Account| chosen.as_ref().is_none_or(|chosen| chosen.contains(&account.id));
            for account in found.iter().filter(wanted) {
                self.verify_account(account, scope.month, tell, &mut sum).await.map_err(told)?;
            }
        }
    }

    /// [`Ledger::verify`], counted in the tally.
    pub async fn verify_and_count(&self, scope: &Scope, tell: &(dyn Fn(Told) + Send + Sync)) -> Answer<Verified> {
        let verified = self.verify(scope, tell).await?;
        self.engine.tally.count_verified(&verified, self.engine.clock.now());
        Ok(verified)
    }

    async fn choose(&self, sampled: Sampled) -> Result<BTreeSet<AccountId>, StoreError> {
        let mut reservoir = Reservoir::new(sampled);
        let mut after: Option<AccountId> = None;
        loop {
            let mut tx = self.engine.store.read().await?;
            let found = tx.list_accounts(after.as_ref().map(AccountId::as_str), ACCOUNTS_MAX).await?;
            let Some(last) = found.last() else { return Ok(reservoir.into_chosen()) };
            after = Some(last.id.clone());
            for account in found {
                reservoir.take(account.id);
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
        let evidence_from = tx.evidence_from().await?;
        let mut check = Check::new(&account, &book, month, evidence_from, sum);
        check.run(&mut tx).await?;
        for difference in check.into_differences() {
            tell(Told::Difference(difference));
        }
        sum.accounts = sum.accounts.saturating_add(1);
        tell(Told::Account(*sum));
        Ok(())
    }
}
