//! Voids: accepted samples that count no more, because somebody found them wrong.
//!
//! A voided sample stays in the evidence, and in its place: the same sample again is a duplicate, another one of its
//! instant a conflict. What counts is the set of accepted samples without the voided ones.

use super::id::{AccountId, LeaseId, SandboxId, VoidId};
use super::time::{Month, Timestamp};

/// A voided sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Void {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: VoidId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Which life of it.
    pub life: i64,
    /// The lease that the sample is of; `None`: at rest.
    pub lease: Option<LeaseId>,
    /// The sample's instant.
    pub at: Timestamp,
    /// Why: free text of 1 to 2,000 characters.
    pub reason: String,
    /// When it was voided.
    pub voided_at: Timestamp,
    /// The earliest month that was not closed then: what it changes of earlier months is billed there.
    pub open_month: Month,
}
