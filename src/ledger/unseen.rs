//! Admissions that are taken for new, so that nobody looks for what is not there.
//!
//! Almost every lease that makes a sandbox is of one that was never heard of, and looking both up was a fifth of what
//! an admission takes. Nothing rests on it: a batch that takes requests for new inserts their rows, and an insert
//! breaks a key where a lease or a sandbox is there already. Then the batch is undone and decided again, with
//! everything looked up; likewise where one of them is answered anything but "made by this batch", for then no insert
//! proves what was assumed. So what is answered is always what it would be had everything been looked up.
//!
//! A caller that repeats itself, or names known sandboxes, or is refused again and again, would have each batch decided
//! twice: so the requests of such an account are looked up for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Answer;
use super::batch::{Gate, Passed};
use super::command::{AdmitRequest, LeaseRequest};
use super::working_set::WorkingSet;
use crate::domain::id::AccountId;
use crate::domain::lease::{Lease, LeaseKind};
use crate::store::changes::Changes;

/// Batches in which an account's requests are looked up after one that was taken for new and was not, or was refused.
const DOUBTED_BATCHES: u32 = 1_000;
/// How lives of a sandbox are counted.
const FIRST_LIFE: i64 = 1;
/// Most accounts that are doubted; beyond, all are trusted anew.
const DOUBTED_MAX: usize = 10_000;

/// Whose requests are looked up. Not saved, not shared with other engines.
#[derive(Debug, Default)]
pub struct Doubts {
    /// For how many batches yet.
    accounts: Mutex<BTreeMap<AccountId, u32>>,
}

impl Doubts {
    pub(super) fn accounts(&self) -> MutexGuard<'_, BTreeMap<AccountId, u32>> {
        // What is doubted decides nothing, whoever broke off while it was written.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which of a batch's commands are taken for new.
    pub(super) fn take_for_new<'a>(&self, commands: impl IntoIterator<Item = &'a Gate>) -> Vec<bool> {
        let mut accounts = self.accounts();
        let mut met: BTreeSet<&AccountId> = BTreeSet::new();
        let mut is_new = |command: &'a Gate| {
            let Gate::Admit(request) = command else { return false };
            if accounts.contains_key(&request.account) {
                met.insert(&request.account);
                return false;
            }
            makes_sandboxes(request)
        };
        let new = commands.into_iter().map(&mut is_new).collect();
        for account in met {
            let left = accounts.get(account).map_or(0, |left| left.saturating_sub(1));
            if left == 0 {
                accounts.remove(account);
            } else {
                accounts.insert(account.clone(), left);
            }
        }
        new
    }

    /// Doubts the accounts of requests that turned out not to be new, or were not admitted.
    pub(super) fn doubt<'a>(&self, requests: impl IntoIterator<Item = &'a AdmitRequest>) {
        let mut accounts = self.accounts();
        for request in requests {
            if accounts.len() >= DOUBTED_MAX {
                accounts.clear();
            }
            accounts.insert(request.account.clone(), DOUBTED_BATCHES);
        }
    }
}

/// Whether each lease is to make a sandbox.
fn makes_sandboxes(request: &AdmitRequest) -> bool {
    request.leases.iter().all(|asked| asked.kind != LeaseKind::Wake && asked.replaces.is_none())
}

/// Whether saving the batch proves that a request was new: its leases, and their sandboxes, are rows that the batch
/// inserts. A sandbox's first life is inserted only where no life of it was known.
pub(super) fn is_proved(set: &WorkingSet, request: &AdmitRequest, answer: &Answer<Passed>) -> bool {
    let Ok(Passed::Admitted(admitted)) = answer else { return false };
    let Changes { leases_added, sandboxes: changed, .. } = &set.changes;
    let is_added =
        |lease: &Lease| admitted.fresh || leases_added.contains_key(&(request.account.clone(), lease.id.clone()));
    let is_of_known = |asked: &LeaseRequest| {
        !changed.is_empty() && changed.contains_key(&(request.account.clone(), asked.sandbox.clone(), FIRST_LIFE))
    };
    admitted.leases.iter().all(|lease| lease.life == FIRST_LIFE && is_added(lease))
        && !request.leases.iter().any(is_of_known)
}
