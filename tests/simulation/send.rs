//! Commands to the ledger, and its answers as the auditor would say them.

use runtab::domain::admission::{Refusal, Scope};
use runtab::domain::id::{AccountId, HostId, KeyId, LeaseId, SandboxId};
use runtab::domain::lease::{LeaseKind, Shape};
use runtab::domain::money::Micros;
use runtab::domain::sample::{Reading, Sample, Seen, StorageReport};
use runtab::domain::time::Timestamp;
use runtab::domain::units::{MebiBytes, Vcpus};
use runtab::ledger::command::{AdmitRequest, CommandError, ConflictCode, LeaseRequest, SampleOutcome};

use crate::model::gate::{Asked, Limit, Verdict};
use crate::model::samples::Outcome;
use crate::model::{self};

pub(crate) fn ts(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

pub(crate) fn account(id: &str) -> AccountId {
    AccountId::parse(id).unwrap()
}

pub(crate) fn key(id: &str) -> KeyId {
    KeyId::parse(id).unwrap()
}

pub(crate) fn sandbox(id: &str) -> SandboxId {
    SandboxId::parse(id).unwrap()
}

pub(crate) fn lease(id: &str) -> LeaseId {
    LeaseId::parse(id).unwrap()
}

pub(crate) fn host(id: &str) -> HostId {
    HostId::parse(id).unwrap()
}

pub(crate) fn micros(count: i64) -> Micros {
    Micros::new(count).unwrap()
}

pub(crate) fn request(owner: &str, of: &str, asked: &[Asked]) -> AdmitRequest {
    let one = |one: &Asked| LeaseRequest {
        id: lease(&one.id),
        sandbox: sandbox(&one.sandbox),
        kind: LeaseKind::Create,
        shape: Shape { vcpus: Vcpus::new(one.vcpus).unwrap(), memory: MebiBytes::new(one.memory).unwrap() },
        timeout_ms: one.timeout,
        max_cost: one.max_cost.map(micros),
        host: one.host.as_deref().map(host),
        starts_at: one.starts_at.map(ts),
        replaces: one.replaces.as_deref().map(lease),
    };
    AdmitRequest { account: account(owner), key: key(of), leases: asked.iter().map(one).collect() }
}

/// A sample as a host sends it: of a lease, or at rest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) account: String,
    pub(crate) sandbox: String,
    pub(crate) lease: Option<String>,
    pub(crate) at: i64,
    pub(crate) reading: model::Reading,
}

impl Sent {
    pub(crate) fn sample(&self) -> Sample {
        let mib = |mib: i64| MebiBytes::new(mib).unwrap();
        let model::Reading { epoch, cpu, memory, storage } = self.reading;
        let seen = match &self.lease {
            Some(id) => Seen::Running(
                lease(id),
                Reading {
                    at: ts(self.at),
                    epoch,
                    cpu_usage_us: cpu,
                    memory: memory.map(mib),
                    storage: storage.map(mib),
                },
            ),
            None => Seen::AtRest(StorageReport { at: ts(self.at), storage: mib(storage.unwrap()) }),
        };
        Sample { account: account(&self.account), sandbox: sandbox(&self.sandbox), seen }
    }
}

pub(crate) fn outcome(of: SampleOutcome) -> Outcome {
    match of {
        SampleOutcome::Accepted => Outcome::Accepted,
        SampleOutcome::Duplicate => Outcome::Duplicate,
        SampleOutcome::Rejected(code) => Outcome::Rejected(code.as_str()),
    }
}

fn refused(refusal: &Refusal) -> Verdict {
    match refusal {
        Refusal::AccountSuspended => Verdict::No("account_suspended"),
        Refusal::UnknownKey => Verdict::No("not_found"),
        Refusal::KeyRevoked => Verdict::No("key_revoked"),
        Refusal::ReadOnlyKey => Verdict::No("read_only_key"),
        Refusal::LeaseRunning { .. } => Verdict::No("lease_running"),
        Refusal::MaxCostExceeded { lease, worst_case, .. } => {
            Verdict::MaxCost { lease: lease.to_string(), worst: worst_case.count() }
        }
        Refusal::CardRequired { lease } => Verdict::CardRequired { lease: lease.to_string() },
        Refusal::CreditExhausted { .. } => panic!("nobody grants credit here"),
        Refusal::FreeHoursExhausted { needed_ms, available_ms } => {
            Verdict::FreeHours { needed: *needed_ms, available: *available_ms }
        }
        Refusal::SpendingLimitReached(reached) => Verdict::Limit(Box::new(Limit {
            of_key: reached.scope == Scope::Key,
            lease: reached.lease.to_string(),
            day: reached.day.index(),
            most: reached.limit.count(),
            used: reached.used.count(),
            reserved: reached.reserved.count(),
            needed: reached.needed.count(),
            available: reached.available.count(),
            longest_s: reached.longest_timeout_s,
        })),
    }
}

/// The code of an answer that is no.
pub(crate) fn code(error: &CommandError) -> &'static str {
    match error {
        CommandError::NotFound(_) => "not_found",
        CommandError::Conflict { code, .. } => match code {
            ConflictCode::LeaseRunning => "lease_running",
            ConflictCode::LeaseConflict => "lease_conflict",
            ConflictCode::Conflict => "conflict",
            ConflictCode::MonthOpen => "month_open",
            ConflictCode::MonthClosed => "month_closed",
        },
        CommandError::Invalid { .. } => "invalid",
        CommandError::Unauthorized => panic!("nobody presents a secret"),
        CommandError::Unavailable(detail) => panic!("unavailable: {detail}"),
        CommandError::Refused(Refusal::KeyRevoked) => "key_revoked",
        CommandError::Refused(_) => "refused",
    }
}

pub(crate) fn verdict(error: &CommandError) -> Verdict {
    match error {
        CommandError::Refused(refusal) => refused(refusal),
        other => Verdict::No(code(other)),
    }
}
