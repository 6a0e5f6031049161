//! What the ledger counts for operators, beside the rows: batches, refusals, and usage that came late.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::verify::Verified;
use super::working_set::WorkingSet;
use crate::domain::money::{Cost, Micros};
use crate::domain::time::Timestamp;
use crate::domain::unbilled::Cause;

/// Counters since the process began; read by the metrics page.
#[derive(Debug, Default)]
pub struct Tally {
    /// Batches committed.
    pub batches: AtomicU64,
    /// Leases admitted.
    pub admitted: AtomicU64,
    /// Batches of samples that assumed their leases to be as this engine left them, and were right.
    pub recalled: AtomicU64,
    /// Those that were not, and read them.
    pub recalled_in_vain: AtomicU64,
    /// Batches that took admissions for new, and were right.
    pub taken_for_new: AtomicU64,
    /// Those that were not, and looked everything up.
    pub taken_for_new_in_vain: AtomicU64,
    /// Requests that the gate refused.
    pub refused: AtomicU64,
    /// Net cost that corrections added: late samples are billed, and counted here.
    pub late: Sum,
    /// Net cost that rate cards added which were not known at admission.
    pub repriced: Sum,
    /// Time that nobody pays for, in milliseconds, by the place of its cause in [`Cause::ALL`].
    unbilled_ms: [AtomicU64; 4],
    /// Running leases without a sample for too long; of all engines, as last looked at.
    pub stale: AtomicI64,
    /// Accounts computed again from their evidence by the daily job.
    pub verified_accounts: AtomicU64,
    /// Figures that it found to differ.
    pub verified_differences: AtomicU64,
    /// When it last ended, in seconds since 1970; 0 when it has not.
    pub verified_at_seconds: AtomicI64,
}

/// An exact sum of costs.
#[derive(Debug, Default)]
pub struct Sum(Mutex<Cost>);

impl Sum {
    /// Adds to it; a sum beyond all bounds stays as it is.
    fn add(&self, cost: Cost) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.plus(cost).unwrap_or(*sum);
    }

    /// In microdollars, rounded down.
    #[must_use]
    pub fn micros(&self) -> i64 {
        let sum = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sum.floor().map_or(i64::MAX, Micros::count)
    }
}

impl Tally {
    /// Time that nobody pays for, by the name of its cause, in milliseconds; found when its leases were settled.
    #[must_use]
    pub fn unbilled_ms(&self) -> [(&'static str, u64); 4] {
        let mut found = Cause::ALL.map(|cause| (cause.name(), 0));
        for ((_, ms), counter) in found.iter_mut().zip(&self.unbilled_ms) {
            *ms = counter.load(Ordering::Relaxed);
        }
        found
    }

    /// Counts a run of the daily job that ended now.
    pub fn count_verified(&self, verified: &Verified, now: Timestamp) {
        self.verified_accounts.fetch_add(verified.accounts, Ordering::Relaxed);
        self.verified_differences.fetch_add(verified.differences, Ordering::Relaxed);
        self.verified_at_seconds.store(now.ms().div_euclid(1_000), Ordering::Relaxed);
    }

    /// Counts a batch of samples that assumed its leases.
    pub fn count_recall(&self, was_so: bool) {
        let counter = if was_so { &self.recalled } else { &self.recalled_in_vain };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a batch that took admissions for new.
    pub fn count_taken_for_new(&self, were_new: bool) {
        let counter = if were_new { &self.taken_for_new } else { &self.taken_for_new_in_vain };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a committed batch.
    pub fn count(&self, set: &WorkingSet) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let many = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.admitted.fetch_add(many(set.changes.leases_added.len()), Ordering::Relaxed);
        self.refused.fetch_add(many(set.changes.refusals.len()), Ordering::Relaxed);
        let priced = set
            .late
            .iter()
            .try_fold(Cost::ZERO, |sum, (account, day, usage)| sum.plus(set.prices(account).price(*day, *usage)?));
        if let Ok(late) = priced {
            self.late.add(late);
        }
        self.repriced.add(set.repriced);
        for (counter, cause) in self.unbilled_ms.iter().zip(Cause::ALL) {
            let found = set.unproven.iter().filter(|(of, _)| *of == cause).map(|(_, ms)| ms.unsigned_abs());
            counter.fetch_add(found.fold(0, u64::saturating_add), Ordering::Relaxed);
        }
    }
}
