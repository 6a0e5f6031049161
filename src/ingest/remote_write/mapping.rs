//! What a series is, by the settings.

use sha2::{Digest as _, Sha256};

use super::message::{Point, Series};
use super::number::{BadNumber, Scale, counter, whole};
use crate::config::remote_write::{CpuUnit, RemoteWrite};
use crate::domain::id::{AccountId, LeaseId, SandboxId};
use crate::domain::part::{self, JoinRules, Part, PartKind};
use crate::domain::sample::COUNTER_MAX;
use crate::domain::time::Timestamp;
use crate::ledger::parts::PartRules;
use crate::secret::hex;

/// The label that holds a metric's name.
const NAME_LABEL: &str = "__name__";
/// The value of the CPU label that stands for all CPUs.
const TOTAL: &str = "total";

/// What series are, and how their numbers are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    settings: RemoteWrite,
}

/// What a series is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// None of ours.
    Nothing,
    /// One of ours, but its sandbox can't be told.
    Bad {
        /// Why.
        detail: &'static str,
        /// What it names as the sandbox.
        sandbox: Option<String>,
        /// What it names as the lease.
        lease: Option<String>,
    },
    /// A number of a sandbox.
    Number(Number),
}

/// A number of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Which one.
    pub kind: PartKind,
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The lease; none for the disk.
    pub lease: Option<LeaseId>,
    series: String,
    scale: Scale,
    /// The epoch that the labels say.
    epoch: Option<i64>,
}

impl Mapping {
    /// By the settings.
    #[must_use]
    pub fn new(settings: RemoteWrite) -> Self {
        Self { settings }
    }

    /// How parts are joined.
    #[must_use]
    pub fn rules(&self) -> PartRules {
        let settings = &self.settings;
        PartRules {
            join: JoinRules {
                start: settings.epoch_metric.get().is_some(),
                memory: settings.memory_metric.get().is_some(),
                cpu: if settings.cpu_sum { part::Series::Sum } else { part::Series::One },
                storage: if settings.storage_sum { part::Series::Sum } else { part::Series::One },
                wait_ms: settings.wait_seconds.saturating_mul(1_000),
            },
            replica_silent_ms: settings.replica_silent_seconds.saturating_mul(1_000),
        }
    }

    /// Which replica sent a series.
    #[must_use]
    pub fn replica<'s>(&self, series: &'s Series) -> Option<&'s str> {
        series.label(self.settings.replica_label.get()?)
    }

    /// What a series is. A series that names no sandbox is none of ours: parents are exported beside the leaves.
    #[must_use]
    pub fn meaning(&self, series: &Series) -> Meaning {
        let settings = &self.settings;
        let Some(kind) = series.label(NAME_LABEL).and_then(|name| self.kind(name)) else { return Meaning::Nothing };
        let label = |name: &str| series.label(name);
        if !settings.only.hold(label) || !self.is_counted(kind, series) {
            return Meaning::Nothing;
        }
        let (account, sandbox) = (settings.account.expand(label), settings.sandbox.expand(label));
        let (Some(account), Some(sandbox)) = (account, sandbox) else { return Meaning::Nothing };
        let lease = settings.lease.expand(label);
        let bad = |detail| Meaning::Bad { detail, sandbox: Some(sandbox.clone()), lease: lease.clone() };
        let (Ok(account), Ok(id)) = (AccountId::parse(&account), SandboxId::parse(&sandbox)) else {
            return bad("its account or its sandbox is no id");
        };
        let of = match (kind, &lease) {
            (PartKind::Storage, _) => None,
            // Nothing runs: what a container at rest says of its CPU is nobody's.
            (_, None) => return Meaning::Nothing,
            (_, Some(lease)) => match LeaseId::parse(lease) {
                Ok(lease) => Some(lease),
                Err(_) => return bad("its lease is no id"),
            },
        };
        let mut epoch = None;
        if kind == PartKind::Cpu && settings.epoch_metric.get().is_none() && !settings.epoch.is_empty() {
            let told = settings.epoch.expand(label).and_then(|text| text.parse::<i64>().ok());
            epoch = told.filter(|epoch| (0..=COUNTER_MAX).contains(epoch));
            if epoch.is_none() {
                return bad("its epoch is no whole number");
            }
        }
        let scale = match kind {
            PartKind::Cpu => match settings.cpu_unit {
                CpuUnit::Seconds => Scale::MILLION,
                CpuUnit::Milliseconds => Scale::THOUSAND,
                CpuUnit::Microseconds => Scale::ONE,
                CpuUnit::Nanoseconds => Scale::THOUSANDTH,
            },
            PartKind::Start => Scale::THOUSAND,
            PartKind::Memory | PartKind::Storage => Scale::ONE,
        };
        Meaning::Number(Number {
            kind,
            account,
            sandbox: id,
            lease: of,
            series: self.fingerprint(kind, series),
            scale,
            epoch,
        })
    }

    fn kind(&self, name: &str) -> Option<PartKind> {
        let settings = &self.settings;
        [
            (&settings.cpu_metric, PartKind::Cpu),
            (&settings.epoch_metric, PartKind::Start),
            (&settings.memory_metric, PartKind::Memory),
            (&settings.storage_metric, PartKind::Storage),
        ]
        .into_iter()
        .find_map(|(metric, kind)| (metric.get() == Some(name)).then_some(kind))
    }

    /// Whether a series of CPU is the whole, or of one CPU, whichever is wanted.
    fn is_counted(&self, kind: PartKind, series: &Series) -> bool {
        let Some(label) = self.settings.cpu_label.get().filter(|_| kind == PartKind::Cpu) else { return true };
        let is_total = series.label(label).is_none_or(|cpu| cpu == TOTAL);
        is_total != self.settings.cpu_sum
    }

    /// Tells series of one number apart, whichever replica sends them. Of the start and the memory there is one.
    fn fingerprint(&self, kind: PartKind, series: &Series) -> String {
        if matches!(kind, PartKind::Start | PartKind::Memory) {
            return String::new();
        }
        let replica = self.settings.replica_label.get().unwrap_or_default();
        let labels = series.labels.iter().flatten().filter(|(name, _)| name != replica.as_bytes());
        let mut labels: Vec<_> = labels.collect();
        labels.sort();
        let mut hash = Sha256::new();
        for (name, value) in labels {
            // Lengths keep what is put together apart.
            for text in [name, value] {
                hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
                hash.update(text);
            }
        }
        let digest: [u8; 32] = hash.finalize().into();
        digest.first_chunk::<8>().map(|head| hex(head)).unwrap_or_default()
    }
}

impl Number {
    /// The part of one sample. An error without a name is a time that can't be one.
    pub fn part(&self, point: &Point) -> Result<Part, Option<BadNumber>> {
        let at = Timestamp::from_ms(point.at_ms).ok_or(None)?;
        let value = match self.kind {
            PartKind::Cpu | PartKind::Start => counter(point.bits, self.scale),
            PartKind::Memory | PartKind::Storage => whole(point.bits, self.scale, i64::MAX),
        };
        Ok(Part {
            account: self.account.clone(),
            sandbox: self.sandbox.clone(),
            lease: self.lease.clone(),
            kind: self.kind,
            at,
            series: self.series.clone(),
            value: value.map_err(Some)?,
            epoch: self.epoch,
            // Both are known to who takes it.
            received_at: at,
            host: None,
        })
    }
}
