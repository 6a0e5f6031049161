//! One sandbox's storage as a step function.

use std::collections::BTreeMap;

use super::checked::Overflow;
use super::id::{KeyId, LeaseId};
use super::time::{Hour, Span, Timestamp};
use super::units::MebiBytes;

/// Whose report wins at one instant: a lease's over one at rest; of two leases', that of the lease that started later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reporter {
    /// A sample at rest.
    AtRest,
    /// A sample of a lease: when the lease started, and its id (so that the order is total).
    Lease(Timestamp, LeaseId),
}

/// A report that counts: from `at` on the disk takes `storage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePoint {
    /// When.
    pub at: Timestamp,
    /// The disk from then on.
    pub storage: MebiBytes,
    /// Who reported it.
    pub by: Reporter,
}

/// Storage usage by hour and by the key that it is attributed to, in MiB-milliseconds; zeros are left out.
pub type StorageByHour = BTreeMap<(Hour, KeyId), i128>;

/// To which key each instant is attributed: to that of the lease that had started last by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Before the first change.
    pub first: KeyId,
    /// From each instant on; ascending.
    pub changes: Vec<(Timestamp, KeyId)>,
}

/// The state of a storage meter that a report in order needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageMeter {
    /// The latest report that counts.
    pub last: Option<StoragePoint>,
    /// The hour that storage was last posted in, by key: kept in the sandbox's row until it leaves the hour.
    pub open_hour: Option<StorageHour>,
}

/// Storage posted in one hour to one key, not yet written to the hours' table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageHour {
    /// Which hour.
    pub hour: Hour,
    /// The key.
    pub key: KeyId,
    /// How much, in MiB-milliseconds.
    pub mib_ms: i128,
}

impl StorageMeter {
    /// Takes a report that is not before the latest one. `deleted_at` clips. Answers the latest report after it
    /// and what it adds.
    pub fn take(
        &self,
        point: StoragePoint,
        deleted_at: Option<Timestamp>,
        holders: &Holders,
    ) -> Result<(Option<StoragePoint>, StorageByHour), Overflow> {
        let _ = (point, deleted_at, holders);
        Err(Overflow)
    }
}

/// What a disk of `storage` takes over a span, by hour and key.
pub fn held(span: Span, storage: MebiBytes, holders: &Holders) -> Result<StorageByHour, Overflow> {
    let _ = (span, storage, holders);
    Err(Overflow)
}

/// What a late report changes. `around`: all reports that count from the last one before it to the first one after
/// it, ascending, its own instant included; `end`: where the last report's time is known to end (a deletion).
pub fn take_late(
    around: &[StoragePoint],
    point: StoragePoint,
    end: Option<Timestamp>,
    holders: &Holders,
) -> Result<StorageByHour, Overflow> {
    let _ = (around, point, end, holders);
    Err(Overflow)
}
