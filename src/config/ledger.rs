//! `[ledger]`: what customers are given, and what bounds a batch.

use super::section::{OutOfBounds, bounded, section};
use crate::domain::free_hours::{GRANT_HOURS_MAX, WELCOME_HOURS};
use crate::domain::lease::Shape;
use crate::domain::units::{MEBIBYTES_MAX, MebiBytes, VCPUS_MAX, Vcpus};

/// Most samples of one request: those of a remote write, which may have more than any other.
const REQUEST_SAMPLES_MAX: i64 = 50_000;

section! {
    /// The ledger.
    Ledger = "ledger" {
        /// How long after its end a lease waits for its last sample before what it held is given back, in seconds.
        settle_after_seconds: i64 = 900, "RUNTAB_LEDGER_SETTLE_AFTER_SECONDS";
        /// Free hours of a new account, in hours of one running sandbox.
        welcome_hours: i64 = WELCOME_HOURS, "RUNTAB_LEDGER_WELCOME_HOURS";
        /// Most vCPUs of a sandbox that runs on free hours alone.
        free_vcpus: i64 = 8, "RUNTAB_LEDGER_FREE_VCPUS";
        /// Most memory of a sandbox that runs on free hours alone, in MiB.
        free_memory_mib: i64 = 16 * 1_024, "RUNTAB_LEDGER_FREE_MEMORY_MIB";
        /// Most disk of a sandbox that runs on free hours alone, in MiB.
        free_storage_mib: i64 = 20 * 1_024, "RUNTAB_LEDGER_FREE_STORAGE_MIB";
        /// How long after its end a month is closed by itself, in hours.
        close_after_hours: i64 = 72, "RUNTAB_LEDGER_CLOSE_AFTER_HOURS";
        /// How many accounts are verified each day, chosen at random; 0: none.
        verify_daily_accounts: i64 = 10, "RUNTAB_LEDGER_VERIFY_DAILY_ACCOUNTS";
        /// Most commands of one batch, which is one commit, and most leases of several.
        batch_commands_max: i64 = 1_024, "RUNTAB_LEDGER_BATCH_COMMANDS_MAX";
        /// Most samples of one batch, so that an admission never waits long behind samples.
        batch_samples_max: i64 = 200, "RUNTAB_LEDGER_BATCH_SAMPLES_MAX";
        /// Most commands that wait in a lane; more are answered 503 at once, so that memory is bounded.
        queue_commands_max: i64 = 20_000, "RUNTAB_LEDGER_QUEUE_COMMANDS_MAX";
        /// After how long without a sample a running lease is shown as stale, in seconds.
        stale_after_seconds: i64 = 300, "RUNTAB_LEDGER_STALE_AFTER_SECONDS";
        /// How many samples that are not used are kept for people, an account (and of no known account).
        rejected_kept: i64 = 1_000, "RUNTAB_LEDGER_REJECTED_KEPT";
    }
}

impl Ledger {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        bounded("settle_after_seconds", self.settle_after_seconds, 0, 86_400)?;
        bounded("welcome_hours", self.welcome_hours, 0, GRANT_HOURS_MAX)?;
        bounded("free_vcpus", self.free_vcpus, 1, VCPUS_MAX)?;
        bounded("free_memory_mib", self.free_memory_mib, 1, MEBIBYTES_MAX)?;
        bounded("free_storage_mib", self.free_storage_mib, 0, MEBIBYTES_MAX)?;
        bounded("close_after_hours", self.close_after_hours, 0, 87_600)?;
        bounded("verify_daily_accounts", self.verify_daily_accounts, 0, 1_000_000)?;
        bounded("batch_commands_max", self.batch_commands_max, 1, 65_536)?;
        bounded("batch_samples_max", self.batch_samples_max, 1, 10_000)?;
        // The batches of one request wait in one lane, and are refused together.
        let batches = REQUEST_SAMPLES_MAX.checked_div(self.batch_samples_max).unwrap_or_default().saturating_add(1);
        bounded("queue_commands_max", self.queue_commands_max, batches, 1_000_000)?;
        bounded("stale_after_seconds", self.stale_after_seconds, 1, 31 * 86_400)?;
        bounded("rejected_kept", self.rejected_kept, 1, 1_000_000)
    }

    /// [`Ledger::settle_after_seconds`] in milliseconds.
    #[must_use]
    pub fn settle_after_ms(&self) -> i64 {
        self.settle_after_seconds.saturating_mul(1_000)
    }

    /// [`Ledger::close_after_hours`] in milliseconds.
    #[must_use]
    pub fn close_after_ms(&self) -> i64 {
        self.close_after_hours.saturating_mul(3_600_000)
    }

    /// [`Ledger::stale_after_seconds`] in milliseconds.
    #[must_use]
    pub fn stale_after_ms(&self) -> i64 {
        self.stale_after_seconds.saturating_mul(1_000)
    }

    /// [`Ledger::verify_daily_accounts`] as a count.
    #[must_use]
    pub fn verify_daily(&self) -> u32 {
        u32::try_from(self.verify_daily_accounts).unwrap_or(0)
    }

    /// The largest shape that free hours cover. `None` only where [`super::Settings`] was not checked.
    #[must_use]
    pub fn free_shape(&self) -> Option<Shape> {
        Some(Shape { vcpus: Vcpus::new(self.free_vcpus)?, memory: MebiBytes::new(self.free_memory_mib)? })
    }

    /// The largest disk that free hours cover. `None` only where [`super::Settings`] was not checked.
    #[must_use]
    pub fn free_disk(&self) -> Option<MebiBytes> {
        MebiBytes::new(self.free_storage_mib)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, REQUEST_SAMPLES_MAX};

    #[test]
    fn a_queue_has_room_for_one_request() {
        let most = usize::try_from(REQUEST_SAMPLES_MAX).unwrap();
        assert_eq!(most, crate::ingest::remote_write::SAMPLES_MAX);
        assert!(most >= crate::wire::sample::SAMPLES_MAX);
        let small = Ledger { batch_samples_max: 100, queue_commands_max: 500, ..Ledger::default() };
        assert!(small.check().is_err());
        assert!(Ledger { queue_commands_max: 501, ..small }.check().is_ok());
    }
}
