//! What is kept beside samples: parts that wait for others, replicas that were heard, and what is not used.
//!
//! Nothing that is billed depends on it but through samples: a part counts when it has become one.

use std::collections::BTreeSet;

use super::lives::Life;
use super::working_set::WorkingSet;
use super::{Answer, Ledger, ask};
use crate::domain::id::AccountId;
use crate::domain::part::Part;
use crate::domain::replica::Chosen;
use crate::domain::set_aside::SetAside;
use crate::store::{StoreError, Tx};

/// What came with samples and is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Parts that wait for others.
    pub parts: Vec<Part>,
    /// Kept parts that are no longer needed, by their number.
    pub spent: Vec<i64>,
    /// Replicas that were heard.
    pub replicas: Vec<Chosen>,
    /// After how long another replica may take the place of one, in milliseconds.
    pub replica_silent_ms: i64,
    /// What is not used.
    pub aside: Vec<SetAside>,
}

impl Keep {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.spent.is_empty() && self.replicas.is_empty() && self.aside.is_empty()
    }
}

impl Ledger {
    /// Keeps it; answers after the commit.
    pub async fn keep(&self, keep: Keep) -> Answer<()> {
        if keep.is_empty() {
            return Ok(());
        }
        ask(&self.lanes.lives, Life::Keep(Box::new(keep))).await.map(drop)
    }
}

/// Which of the accounts that are named are there: anybody's samples can name any.
pub(super) async fn load(tx: &mut Tx, set: &mut WorkingSet, commands: &[Life]) -> Result<(), StoreError> {
    let kept = commands.iter().filter_map(|command| match command {
        Life::Keep(keep) => Some(keep),
        Life::End(_) | Life::Move(_) | Life::Put(_) | Life::Delete(_) | Life::Settle(_) => None,
    });
    let named = kept.flat_map(|keep| keep.aside.iter().filter_map(|aside| aside.account.clone()));
    let unknown: BTreeSet<AccountId> = named.filter(|account| !set.accounts.contains_key(account)).collect();
    if !unknown.is_empty() {
        set.known_accounts = tx.accounts(&unknown).await?.into_iter().map(|account| account.id).collect();
    }
    Ok(())
}

impl WorkingSet {
    /// Adds it to what is saved. What names an account that is not there is of none: so the number of accounts bounds
    /// what is kept.
    pub(super) fn keep(&mut self, keep: &Keep) {
        self.changes.parts.extend(keep.parts.iter().cloned());
        self.changes.parts_spent.extend(keep.spent.iter().copied());
        self.changes.parts_spent.sort_unstable();
        for chosen in &keep.replicas {
            let key = (chosen.account.clone(), chosen.sandbox.clone());
            self.changes.replicas.insert(key, chosen.clone());
            self.changes.replica_silent_ms = keep.replica_silent_ms;
        }
        for aside in &keep.aside {
            let mut aside = aside.clone();
            let known =
                |account: &AccountId| self.accounts.contains_key(account) || self.known_accounts.contains(account);
            if let Some(named) = aside.account.take_if(|account| !known(account)) {
                aside.detail = format!("{} (it names the account {named}, which is not there)", aside.detail);
            }
            self.changes.rejected.push((self.now, aside));
            self.changes.rejected_kept = self.rules.rejected_kept;
        }
    }
}
