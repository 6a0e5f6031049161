//! What a host saw at one instant, and the reasons to reject it.

use super::id::{AccountId, LeaseId, SandboxId};
use super::time::Timestamp;
use super::units::MebiBytes;

/// Largest CPU counter and epoch taken: 2^53 - 1, the wire's bound.
pub const COUNTER_MAX: i64 = 9_007_199_254_740_991;

/// One sample, parsed and within bounds; whom it is of, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// What was seen.
    pub seen: Seen,
}

/// What a host saw of a running sandbox or of one at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Of a lease.
    Running(LeaseId, Reading),
    /// Of a sandbox at rest: storage only.
    AtRest(StorageReport),
}

impl Seen {
    /// The instant of the sample.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Running(_, reading) => reading.at,
            Self::AtRest(report) => report.at,
        }
    }
}

/// A reading of a running sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub at: Timestamp,
    /// Which counter: grows when a counter starts again inside a lease; 0 to 2^53 - 1.
    pub epoch: i64,
    /// CPU since the counter began, in microseconds; 0 to 2^53 - 1.
    pub cpu_usage_us: i64,
    /// Memory reserved from this instant on; `None`: the lease's.
    pub memory: Option<MebiBytes>,
    /// Disk that the sandbox takes from this instant on; `None`: unchanged.
    pub storage: Option<MebiBytes>,
}

/// A report of a sandbox's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageReport {
    /// When.
    pub at: Timestamp,
    /// Disk that the sandbox takes from this instant on.
    pub storage: MebiBytes,
}

/// Why a sample is not used. In order of precedence: the first that holds is told (API.md, Samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectCode {
    /// A wrong type or range, an unknown field, a CPU reading at rest.
    InvalidSample,
    /// The account has no such lease.
    UnknownLease,
    /// The account has no such sandbox, or the lease is of another one.
    UnknownSandbox,
    /// Another host runs this lease.
    WrongHost,
    /// More than a minute ahead of the clock.
    Future,
    /// More than a minute outside the granted window.
    OutsideLease,
    /// The evidence of its month is no longer at hand.
    Archived,
    /// The same instant with other values.
    Conflict,
    /// An epoch lower than the one before it, or higher than the one after it.
    StaleEpoch,
    /// In one epoch a counter lower than the one before it, or higher than the one after it.
    CounterRegressed,
    /// A CPU step of more than twice what the shape could make plus one vCPU-second.
    CpuImplausible,
}

impl RejectCode {
    /// Every code, in order of precedence.
    pub const ALL: [Self; 11] = [
        Self::InvalidSample,
        Self::UnknownLease,
        Self::UnknownSandbox,
        Self::WrongHost,
        Self::Future,
        Self::OutsideLease,
        Self::Archived,
        Self::Conflict,
        Self::StaleEpoch,
        Self::CounterRegressed,
        Self::CpuImplausible,
    ];

    /// The code on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSample => "invalid_sample",
            Self::UnknownLease => "unknown_lease",
            Self::UnknownSandbox => "unknown_sandbox",
            Self::WrongHost => "wrong_host",
            Self::Future => "future",
            Self::OutsideLease => "outside_lease",
            Self::Archived => "archived",
            Self::Conflict => "conflict",
            Self::StaleEpoch => "stale_epoch",
            Self::CounterRegressed => "counter_regressed",
            Self::CpuImplausible => "cpu_implausible",
        }
    }

    /// What it means and what to do next, for people.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::InvalidSample => "the sample does not parse; see the field's bounds in the API document",
            Self::UnknownLease => "the account has no such lease; samples are taken after admission only",
            Self::UnknownSandbox => "the account has no such sandbox, or the lease belongs to another one",
            Self::WrongHost => "another host runs this lease; move the lease if this host took it over",
            Self::Future => "more than a minute ahead of the server's clock; set the host's clock",
            Self::OutsideLease => "more than a minute outside the window that the lease was granted",
            Self::Archived => "the evidence of this month has been archived; the sample can't be judged any more",
            Self::Conflict => "another sample of the same instant with other values was accepted before",
            Self::StaleEpoch => "the epoch is lower than that of an earlier sample, or higher than that of a later one",
            Self::CounterRegressed => {
                "the counter is lower than an earlier one, or higher than a later one; a counter that starts again needs a higher epoch"
            }
            Self::CpuImplausible => "the CPU grew by more than twice what the shape can make",
        }
    }
}
