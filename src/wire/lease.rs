//! Leases: asking for them, extending, ending and moving them, and how they look.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::reader::{Invalid, Value};
use super::schema::{
    Id, LEASES_MAX, MemoryMibCount, MicrosCount, TIMEOUT_SECONDS_MAX, TIMEOUT_SECONDS_MIN, TimeText,
    TimeoutSecondsCount, VcpusCount,
};
use super::shown::Shown;
use super::time::ShownTime;
use super::usage::Priced;
use crate::domain::id::{AccountId, ExtendId, HostId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{EndReason, LeaseKind, LeaseState, Shape};
use crate::domain::money::Micros;
use crate::domain::time::Timestamp;
use crate::domain::units::{MEBIBYTES_MAX, MebiBytes, VCPUS_MAX, Vcpus};
use crate::ledger::command::{AdmitRequest, EndLease, ExtendLease, LeaseRequest, MoveLease, Quote};
use crate::ledger::view::LeaseView;

const KINDS: [(&str, LeaseKind); 3] =
    [("create", LeaseKind::Create), ("wake", LeaseKind::Wake), ("fork", LeaseKind::Fork)];
const REASONS: [(&str, EndReason); 5] = [
    ("stop", EndReason::Stop),
    ("pause", EndReason::Pause),
    ("delete", EndReason::Delete),
    ("host_lost", EndReason::HostLost),
    ("cancel", EndReason::Cancel),
];
/// The states of a lease, as words.
pub const STATES: [(&str, LeaseState); 3] =
    [("running", LeaseState::Running), ("ended", LeaseState::Ended), ("settled", LeaseState::Settled)];

/// Leases to admit: all or nothing.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// The key that asks and pays.
    #[schema(value_type = Id)]
    pub key: KeyId,
    /// 1 to 1,000 leases with different ids.
    #[schema(min_items = 1, max_items = 1_000)]
    pub leases: Vec<NewLease>,
}

impl Admission {
    /// Reads the request.
    pub fn read(account: AccountId, body: &Value<'_, '_>) -> Result<AdmitRequest, Invalid> {
        let object = body.object(["key", "leases"])?;
        let key = object.required("key")?.id(KeyId::parse)?;
        let leases = object.required("leases")?;
        let leases: Vec<LeaseRequest> =
            leases.items(LEASES_MAX)?.map(|lease| NewLease::read(&lease)).collect::<Result<_, _>>()?;
        let mut seen = BTreeMap::new();
        for (index, lease) in leases.iter().enumerate() {
            if let Some(first) = seen.insert(&lease.id, index) {
                let detail = format!("is also the id of /leases/{first}");
                return Err(Invalid { pointer: format!("/leases/{index}/id"), detail });
            }
        }
        Ok(AdmitRequest { account, key, leases })
    }
}

/// What a lease is for, to people; the rules are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseKindWord {
    /// A new sandbox.
    Create,
    /// A paused one goes on.
    Wake,
    /// A copy of another.
    Fork,
}

/// A lease to admit.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLease {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: LeaseId,
    /// The sandbox, new or known.
    #[schema(value_type = Id)]
    pub sandbox: SandboxId,
    /// What it is for.
    #[schema(value_type = LeaseKindWord)]
    pub kind: LeaseKind,
    /// vCPUs.
    #[schema(value_type = VcpusCount)]
    pub vcpus: Vcpus,
    /// Memory.
    #[schema(value_type = MemoryMibCount)]
    pub memory_mib: MebiBytes,
    /// For how long.
    #[schema(value_type = TimeoutSecondsCount)]
    pub timeout_seconds: i64,
    /// The most that its worst case may cost; absent or null: any.
    #[schema(value_type = Option<MicrosCount>)]
    pub max_cost_micros: Option<Micros>,
    /// The host that will report; absent or null: the first that does.
    #[schema(value_type = Option<Id>)]
    pub host: Option<HostId>,
    /// When it starts: from an hour ago to a minute ahead; absent or null: now.
    #[schema(value_type = Option<TimeText>)]
    pub starts_at: Option<Timestamp>,
    /// The lease of the same sandbox that it takes the place of.
    #[schema(value_type = Option<Id>)]
    pub replaces: Option<LeaseId>,
}

impl NewLease {
    fn read(lease: &Value<'_, '_>) -> Result<LeaseRequest, Invalid> {
        let object = lease.object([
            "id",
            "sandbox",
            "kind",
            "vcpus",
            "memory_mib",
            "timeout_seconds",
            "max_cost_micros",
            "host",
            "starts_at",
            "replaces",
        ])?;
        let vcpus = object.required("vcpus")?.integer(1, VCPUS_MAX)?;
        let memory = object.required("memory_mib")?.integer(1, MEBIBYTES_MAX)?;
        Ok(LeaseRequest {
            id: object.required("id")?.id(LeaseId::parse)?,
            sandbox: object.required("sandbox")?.id(SandboxId::parse)?,
            kind: object.required("kind")?.choice(&KINDS)?,
            shape: Shape {
                vcpus: Vcpus::new(vcpus).ok_or_else(|| object.invalid("vcpus", "is out of range"))?,
                memory: MebiBytes::new(memory).ok_or_else(|| object.invalid("memory_mib", "is out of range"))?,
            },
            timeout_ms: timeout_ms(&object.required("timeout_seconds")?)?,
            max_cost: object.optional("max_cost_micros").map(|cost| cost.micros()).transpose()?,
            host: object.optional("host").map(|host| host.id(HostId::parse)).transpose()?,
            starts_at: object.optional("starts_at").map(|at| at.time()).transpose()?,
            replaces: object.optional("replaces").map(|lease| lease.id(LeaseId::parse)).transpose()?,
        })
    }
}

fn timeout_ms(seconds: &Value<'_, '_>) -> Result<i64, Invalid> {
    Ok(seconds.integer(TIMEOUT_SECONDS_MIN, TIMEOUT_SECONDS_MAX)?.saturating_mul(1_000))
}

/// Adds time to a lease's end.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// How much.
    #[schema(value_type = TimeoutSecondsCount)]
    pub timeout_seconds: i64,
    /// The extension's own id; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: ExtendId,
    /// The most that the worst case of the added time may cost; absent or null: any.
    #[schema(value_type = Option<MicrosCount>)]
    pub max_cost_micros: Option<Micros>,
}

impl Extension {
    /// Reads the request.
    pub fn read(account: AccountId, lease: LeaseId, body: &Value<'_, '_>) -> Result<ExtendLease, Invalid> {
        let object = body.object(["timeout_seconds", "id", "max_cost_micros"])?;
        Ok(ExtendLease {
            account,
            lease,
            id: object.required("id")?.id(ExtendId::parse)?,
            timeout_ms: timeout_ms(&object.required("timeout_seconds")?)?,
            max_cost: object.optional("max_cost_micros").map(|cost| cost.micros()).transpose()?,
        })
    }
}

/// Why a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndReasonWord {
    /// Stopped.
    Stop,
    /// Paused: the sandbox rests.
    Pause,
    /// Stopped, and the sandbox deleted.
    Delete,
    /// The host died: it ends at its last sample.
    HostLost,
    /// It never ran: it ends where it started.
    Cancel,
}

/// Tells that a lease ended.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseEnd {
    /// When; absent or null: now.
    #[schema(value_type = Option<TimeText>)]
    pub ended_at: Option<Timestamp>,
    /// Why.
    #[schema(value_type = EndReasonWord)]
    pub reason: EndReason,
}

impl LeaseEnd {
    /// Reads the request.
    pub fn read(account: AccountId, lease: LeaseId, body: &Value<'_, '_>) -> Result<EndLease, Invalid> {
        let object = body.object(["ended_at", "reason"])?;
        Ok(EndLease {
            account,
            lease,
            ended_at: object.optional("ended_at").map(|at| at.time()).transpose()?,
            reason: object.required("reason")?.choice(&REASONS)?,
        })
    }
}

/// Tells that another host runs a lease from now on.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseMove {
    /// The host.
    #[schema(value_type = Id)]
    pub host: HostId,
}

impl LeaseMove {
    /// Reads the request.
    pub fn read(account: AccountId, lease: LeaseId, body: &Value<'_, '_>) -> Result<MoveLease, Invalid> {
        Ok(MoveLease { account, lease, host: body.object(["host"])?.required("host")?.id(HostId::parse)? })
    }
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseStateWord {
    /// Its window is on and no end was told.
    Running,
    /// It is over, but samples of it are still awaited.
    Ended,
    /// It is over, and what it held is given back.
    Settled,
}

/// A lease with its usage and cost so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lease {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: Shown<LeaseId>,
    /// The account.
    #[schema(value_type = Id)]
    pub account: Shown<AccountId>,
    /// The key that asked for it and pays.
    #[schema(value_type = Id)]
    pub key: Shown<KeyId>,
    /// The sandbox.
    #[schema(value_type = Id)]
    pub sandbox: Shown<SandboxId>,
    /// What it is for.
    pub kind: LeaseKindWord,
    /// Its state now.
    pub state: LeaseStateWord,
    /// vCPUs.
    #[schema(value_type = VcpusCount)]
    pub vcpus: i64,
    /// Memory.
    #[schema(value_type = MemoryMibCount)]
    pub memory_mib: i64,
    /// The start of the granted window.
    #[schema(value_type = TimeText)]
    pub starts_at: ShownTime,
    /// The end of the granted window.
    #[schema(value_type = TimeText)]
    pub ends_at: ShownTime,
    /// When it ended, where that was told.
    #[schema(value_type = Option<TimeText>, required = true)]
    pub ended_at: Option<ShownTime>,
    /// The host whose samples are taken.
    #[schema(value_type = Option<Id>, required = true)]
    pub host: Option<Shown<HostId>>,
    /// Worst-case list cost of the granted window, rounded up.
    #[schema(value_type = MicrosCount)]
    pub worst_case_micros: i64,
    /// Usage and cost; storage is always "0", for it belongs to the sandbox.
    #[serde(flatten)]
    pub priced: Priced,
    /// The instant of the last accepted sample.
    #[schema(value_type = Option<TimeText>, required = true)]
    pub last_sample_at: Option<ShownTime>,
    /// Whether it runs and its samples have stopped: none has come for longer than a setting says.
    pub stale: bool,
}

impl From<&LeaseView> for Lease {
    fn from(view: &LeaseView) -> Self {
        let lease = &view.lease;
        Self {
            id: Shown(lease.id.clone()),
            account: Shown(lease.account.clone()),
            key: Shown(lease.key.clone()),
            sandbox: Shown(lease.sandbox.clone()),
            kind: match lease.kind {
                LeaseKind::Create => LeaseKindWord::Create,
                LeaseKind::Wake => LeaseKindWord::Wake,
                LeaseKind::Fork => LeaseKindWord::Fork,
            },
            state: match view.state {
                LeaseState::Running => LeaseStateWord::Running,
                LeaseState::Ended => LeaseStateWord::Ended,
                LeaseState::Settled => LeaseStateWord::Settled,
            },
            vcpus: lease.shape.vcpus.count(),
            memory_mib: lease.shape.memory.mib(),
            starts_at: ShownTime(lease.window.start),
            ends_at: ShownTime(lease.window.end),
            ended_at: lease.end.map(|end| ShownTime(end.at)),
            host: lease.host.clone().map(Shown),
            worst_case_micros: view.worst_case.count(),
            priced: Priced::new(&view.usage, view.amounts),
            last_sample_at: lease.meter.last.map(|last| ShownTime(last.at)),
            stale: view.stale,
        }
    }
}

/// Leases of one request, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Leases {
    /// The leases.
    pub leases: Vec<Lease>,
}

/// The worst case of a lease that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QuotedLease {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// Worst-case list cost, rounded up.
    #[schema(value_type = MicrosCount)]
    pub worst_case_micros: i64,
}

/// Whether the gate would say yes now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Quoted {
    /// Whether it would.
    pub allowed: bool,
    /// The worst cases, where it would.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub leases: Option<Vec<QuotedLease>>,
    /// What it would answer otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Problem, required = false)]
    pub refusal: Option<Box<Problem>>,
}

impl Quoted {
    /// That the gate would say no.
    #[must_use]
    pub fn refused(problem: Box<Problem>) -> Self {
        Self { allowed: false, leases: None, refusal: Some(problem) }
    }
}

impl From<&Quote> for Quoted {
    fn from(quote: &Quote) -> Self {
        match quote {
            Ok(leases) => {
                let shown = |(id, worst): &(LeaseId, Micros)| QuotedLease {
                    id: id.to_string(),
                    worst_case_micros: worst.count(),
                };
                Self { allowed: true, leases: Some(leases.iter().map(shown).collect()), refusal: None }
            }
            Err(refusal) => Self::refused(Box::new(Problem::from(refusal))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, LeaseEnd};
    use crate::domain::id::{AccountId, LeaseId};
    use crate::wire::reader::document;

    fn ask(leases: &str) -> Result<i64, String> {
        let body = format!(r#"{{"key":"ci","leases":[{leases}]}}"#);
        let asked = Admission::read(AccountId::parse("a").unwrap(), &document(body.as_bytes()).unwrap());
        asked.map(|asked| asked.leases[0].timeout_ms).map_err(|invalid| invalid.pointer)
    }

    fn lease(id: &str, more: &str) -> String {
        format!(r#"{{"id":"{id}","sandbox":"s","kind":"create","memory_mib":1,{more}}}"#)
    }

    #[test]
    fn the_bounds_of_a_lease_hold_and_are_named() {
        let good = r#""vcpus":1,"timeout_seconds":2678400"#;
        assert_eq!(ask(&lease("l", good)), Ok(2_678_400_000));
        assert_eq!(ask(""), Err("/leases".to_owned()));
        for (more, pointer) in [
            (r#""vcpus":1025,"timeout_seconds":1"#, "/leases/0/vcpus"),
            (r#""vcpus":1.0,"timeout_seconds":1"#, "/leases/0/vcpus"),
            (r#""vcpus":1"#, "/leases/0/timeout_seconds"),
            (r#""vcpus":1,"timeout_seconds":2678401"#, "/leases/0/timeout_seconds"),
            (r#""vcpus":1,"timeout_seconds":1,"max_cost_micros":-7"#, "/leases/0/max_cost_micros"),
            (r#""vcpus":1,"timeout_seconds":1,"starts_at":"2026-11-01T10:00:00""#, "/leases/0/starts_at"),
            (r#""vcpus":1,"timeout_seconds":1,"host":"a b""#, "/leases/0/host"),
            (r#""vcpus":1,"timeout_seconds":1,"memory_gb":4"#, "/leases/0/memory_gb"),
        ] {
            assert_eq!(ask(&lease("l", more)), Err(pointer.to_owned()), "{more}");
        }
        let twice = [lease("l", good), lease("m", good), lease("l", good)].join(",");
        assert_eq!(ask(&twice), Err("/leases/2/id".to_owned()));
    }

    #[test]
    fn only_an_admission_replaces() {
        let read = |body: &[u8]| {
            let (account, lease) = (AccountId::parse("a").unwrap(), LeaseId::parse("l").unwrap());
            LeaseEnd::read(account, lease, &document(body).unwrap()).map_err(|invalid| invalid.pointer)
        };
        assert_eq!(read(br#"{"reason":"replaced"}"#), Err("/reason".to_owned()));
        assert!(read(br#"{"reason":"host_lost","ended_at":null}"#).is_ok());
    }
}
