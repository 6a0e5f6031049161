//! A life of a sandbox: what outlives its leases, the disk above all.

use super::id::{AccountId, KeyId, LeaseId, SandboxId};
use super::sample_page::OpenPage;
use super::storage_meter::StorageMeter;
use super::time::{Month, Timestamp};

/// One life of a sandbox. An id that is used again after a deletion is a new life; the two never mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The account.
    pub account: AccountId,
    /// The id.
    pub id: SandboxId,
    /// Which life: 1, 2, ...
    pub life: i64,
    /// The key that registered it: its storage is that key's until a lease starts.
    pub first_key: KeyId,
    /// When this life began.
    pub created_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// The earliest open month when that was told; `None`: not deleted, or from before this was kept.
    pub deleted_in: Option<Month>,
    /// Of its leases, the one that started last.
    pub latest: Option<LatestLease>,
    /// The storage meter.
    pub storage: StorageMeter,
    /// The open page of samples at rest.
    pub page: OpenPage,
    /// The latest report of its disk that was voided; `None`: none was.
    pub voided_until: Option<Timestamp>,
}

/// The lease of a sandbox that started last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestLease {
    /// Its id.
    pub id: LeaseId,
    /// Its key: to whom storage is attributed from its start on.
    pub key: KeyId,
    /// When it started.
    pub starts_at: Timestamp,
}

impl Sandbox {
    /// The key that pays for storage now.
    #[must_use]
    pub fn key(&self) -> &KeyId {
        self.latest.as_ref().map_or(&self.first_key, |lease| &lease.key)
    }
}
