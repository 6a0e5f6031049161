//! Samples: how one is read, fast when it is good and exactly when it is not, and what became of a batch.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::reader::{Invalid, Value};
use super::schema::{CounterCount, Id, MemoryMibCount, MibCount, TimeText};
use super::time::parse_time;
use crate::domain::id::{AccountId, LeaseId, SandboxId};
use crate::domain::sample::{COUNTER_MAX, Reading, RejectCode, Sample, Seen, StorageReport};
use crate::domain::time::Timestamp;
use crate::domain::units::{MEBIBYTES_MAX, MebiBytes};

/// Most samples of one request: bounds the time of a batch, and what a retry sends again.
pub const SAMPLES_MAX: usize = 10_000;

/// What a host saw at one instant: of a lease, or (without one) the storage of a sandbox at rest.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSample {
    /// The account.
    #[schema(value_type = Id)]
    pub account: AccountId,
    /// The sandbox.
    #[schema(value_type = Id)]
    pub sandbox: SandboxId,
    /// The lease; absent or null: the sandbox rests.
    #[schema(value_type = Option<Id>)]
    pub lease: Option<LeaseId>,
    /// When.
    #[schema(value_type = TimeText)]
    pub at: Timestamp,
    /// CPU since the counter began, in microseconds; required with a lease, not allowed without one.
    #[schema(value_type = Option<CounterCount>)]
    pub cpu_usage_usec: Option<i64>,
    /// Which counter: grows when a counter starts again inside a lease; absent: 0.
    #[schema(value_type = Option<CounterCount>)]
    pub epoch: Option<i64>,
    /// Memory reserved from this instant on; absent: the lease's.
    #[schema(value_type = Option<MemoryMibCount>)]
    pub memory_mib: Option<i64>,
    /// Disk that the sandbox takes from this instant on; absent: unchanged. Required without a lease.
    #[schema(value_type = Option<MibCount>)]
    pub storage_mib: Option<i64>,
}

/// Samples of one request: a row that is no sample is reported by its index and spoils nothing, so any value may stand
/// in the array.
#[derive(Debug)]
pub struct SampleBatch;

impl PartialSchema for SampleBatch {
    fn schema() -> RefOr<Schema> {
        let row = AnyOfBuilder::new()
            .item(Ref::from_schema_name(NewSample::name()))
            .item(ObjectBuilder::new().schema_type(SchemaType::AnyValue));
        // More than SAMPLES_MAX is a question of size (413), not of form.
        ArrayBuilder::new().items(row).description(Some(format!("At most {SAMPLES_MAX} samples."))).into()
    }
}

impl ToSchema for SampleBatch {}

/// The same, as the fast path sees it: texts are borrowed, and anything unusual is left to the exact one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row<'a> {
    account: &'a str,
    sandbox: &'a str,
    #[serde(default)]
    lease: Option<&'a str>,
    at: &'a str,
    #[serde(default)]
    cpu_usage_usec: Option<i64>,
    #[serde(default)]
    epoch: Option<i64>,
    #[serde(default)]
    memory_mib: Option<i64>,
    #[serde(default)]
    storage_mib: Option<i64>,
}

fn within(value: Option<i64>, min: i64, max: i64) -> bool {
    value.is_none_or(|value| (min..=max).contains(&value))
}

/// Reads a row that has nothing unusual; `None` says only that the exact reader must look.
#[must_use]
pub fn read_fast(text: &str) -> Option<Sample> {
    let row: Row<'_> = serde_json::from_str(text).ok()?;
    let sample = NewSample {
        account: AccountId::parse(row.account).ok()?,
        sandbox: SandboxId::parse(row.sandbox).ok()?,
        lease: row.lease.map(LeaseId::parse).transpose().ok()?,
        at: parse_time(row.at)?,
        cpu_usage_usec: row.cpu_usage_usec,
        epoch: row.epoch,
        memory_mib: row.memory_mib,
        storage_mib: row.storage_mib,
    };
    let counters = within(row.cpu_usage_usec, 0, COUNTER_MAX) && within(row.epoch, 0, COUNTER_MAX);
    let sizes = within(row.memory_mib, 1, MEBIBYTES_MAX) && within(row.storage_mib, 0, MEBIBYTES_MAX);
    if counters && sizes { sample.seen().ok() } else { None }
}

impl NewSample {
    /// Reads a row and names what is wrong with it.
    pub fn read(row: &Value<'_, '_>) -> Result<Sample, Invalid> {
        let object =
            row.object(["account", "sandbox", "lease", "at", "cpu_usage_usec", "epoch", "memory_mib", "storage_mib"])?;
        let number = |name, min, max| object.optional(name).map(|number| number.integer(min, max)).transpose();
        let sample = Self {
            account: object.required("account")?.id(AccountId::parse)?,
            sandbox: object.required("sandbox")?.id(SandboxId::parse)?,
            lease: object.optional("lease").map(|lease| lease.id(LeaseId::parse)).transpose()?,
            at: object.required("at")?.time()?,
            cpu_usage_usec: number("cpu_usage_usec", 0, COUNTER_MAX)?,
            epoch: number("epoch", 0, COUNTER_MAX)?,
            memory_mib: number("memory_mib", 1, MEBIBYTES_MAX)?,
            storage_mib: number("storage_mib", 0, MEBIBYTES_MAX)?,
        };
        sample.seen().map_err(|(name, detail)| object.invalid(name, detail))
    }

    /// The sample; or the field that does not go with the others, and why.
    fn seen(self) -> Result<Sample, (&'static str, &'static str)> {
        let memory = self.memory_mib.and_then(MebiBytes::new);
        let storage = self.storage_mib.and_then(MebiBytes::new);
        let seen = match self.lease {
            Some(lease) => {
                let cpu_usage_us = self.cpu_usage_usec.ok_or(("cpu_usage_usec", "is required with a lease"))?;
                let epoch = self.epoch.unwrap_or(0);
                Seen::Running(lease, Reading { at: self.at, epoch, cpu_usage_us, memory, storage })
            }
            None if self.cpu_usage_usec.is_some() => return Err(("cpu_usage_usec", "needs a lease")),
            None if self.epoch.is_some() => return Err(("epoch", "needs a lease")),
            None if self.memory_mib.is_some() => return Err(("memory_mib", "needs a lease")),
            None => {
                let storage = storage.ok_or(("storage_mib", "is required without a lease"))?;
                Seen::AtRest(StorageReport { at: self.at, storage })
            }
        };
        Ok(Sample { account: self.account, sandbox: self.sandbox, seen })
    }
}

/// Why a sample was not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RejectedSample {
    /// Its place in the request, from 0 (blank lines are not counted).
    pub index: usize,
    /// The stable code to branch on.
    pub code: &'static str,
    /// What is wrong with it, for people.
    pub detail: String,
}

impl RejectedSample {
    /// A sample that was rejected for a reason of the ledger's.
    #[must_use]
    pub fn new(index: usize, code: RejectCode) -> Self {
        Self { index, code: code.as_str(), detail: code.detail().to_owned() }
    }

    /// A sample that does not parse.
    #[must_use]
    pub fn unreadable(index: usize, detail: String) -> Self {
        Self { index, code: RejectCode::InvalidSample.as_str(), detail }
    }
}

/// What became of a batch: every sample is in one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Ingested {
    /// In the ledger now.
    pub accepted: usize,
    /// There already, with the same values.
    pub duplicates: usize,
    /// Not used, by index.
    pub rejected: Vec<RejectedSample>,
}

#[cfg(test)]
mod tests {
    use super::{NewSample, read_fast};
    use crate::wire::reader::document;

    const GOOD: &str = r#""account":"a","sandbox":"s","at":"2026-11-01T10:00:30Z""#;

    fn pointer(more: &str) -> Option<String> {
        let text = format!("{{{GOOD}{more}}}");
        let exact = NewSample::read(&document(text.as_bytes()).unwrap());
        let fast = read_fast(&text);
        assert_eq!(fast.is_some(), exact.is_ok(), "both ways agree on {text}");
        assert!(fast.is_none() || fast == exact.clone().ok());
        exact.err().map(|invalid| invalid.pointer)
    }

    #[test]
    fn both_readers_agree_and_the_exact_one_names_the_field() {
        for (more, bad) in [
            (r#","lease":"l","cpu_usage_usec":1"#, None),
            (
                r#","lease":"l","cpu_usage_usec":9007199254740991,"epoch":null,"memory_mib":1,"storage_mib":67108864"#,
                None,
            ),
            (r#","lease":null,"storage_mib":0"#, None),
            ("", Some("/storage_mib")),
            (r#","lease":"l""#, Some("/cpu_usage_usec")),
            (r#","cpu_usage_usec":1,"storage_mib":1"#, Some("/cpu_usage_usec")),
            (r#","memory_mib":1,"storage_mib":1"#, Some("/memory_mib")),
            (r#","epoch":1,"storage_mib":1"#, Some("/epoch")),
            (r#","lease":"l","cpu_usage_usec":9007199254740992"#, Some("/cpu_usage_usec")),
            (r#","lease":"l","cpu_usage_usec":18446744073709551616"#, Some("/cpu_usage_usec")),
            (r#","lease":"l","cpu_usage_usec":1.0"#, Some("/cpu_usage_usec")),
            (r#","lease":"l","cpu_usage_usec":"1""#, Some("/cpu_usage_usec")),
            (r#","lease":"l","cpu_usage_usec":1,"memory_gb":4"#, Some("/memory_gb")),
            (r#","lease":"l","cpu_usage_usec":1,"memory_mib":0"#, Some("/memory_mib")),
            (r#","lease":"l","cpu_usage_usec":1,"memory_mib":67108865"#, Some("/memory_mib")),
            (r#","lease":"l","cpu_usage_usec":1,"at":"2026-11-01T10:00:30Z""#, Some("/at")),
        ] {
            assert_eq!(pointer(more).as_deref(), bad, "{more}");
        }
    }

    #[test]
    fn escapes_are_left_to_the_exact_reader() {
        let text = r#"{"account":"\u0061","sandbox":"s","at":"2026-11-01T10:00:30Z","storage_mib":1}"#;
        assert!(read_fast(text).is_none());
        assert!(NewSample::read(&document(text.as_bytes()).unwrap()).is_ok());
    }
}
