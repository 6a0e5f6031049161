//! runtab's own samples, a JSON object a line, as hosts send them to `POST /v1/samples`.
//!
//! A sample does not say the size of its lease: `--vcpus` and `--memory-mib` do. A lease begins at its earliest sample
//! and ends at its latest; samples are sent in order of time, those of one instant in the order of the file. The
//! account of the file is replaced by that of the replay.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

use super::Defaults;
use super::steps::{Action, Step, Tally, Vm, whole_seconds};
use crate::cli::format::parse_time;
use crate::domain::id::{LeaseId, SandboxId};
use crate::domain::lease::{EndReason, LEASE_MS_MAX, LeaseKind, Shape};
use crate::domain::sample::{COUNTER_MAX, Reading, Seen, StorageReport};
use crate::domain::time::{Span, Timestamp};
use crate::domain::units::{MebiBytes, Vcpus};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "account")]
    _account: String,
    sandbox: String,
    lease: Option<String>,
    at: String,
    cpu_usage_usec: Option<i64>,
    epoch: Option<i64>,
    memory_mib: Option<i64>,
    storage_mib: Option<i64>,
}

/// The sandboxes of a file, in order of their ids.
pub(super) fn vms(text: &str, defaults: &Defaults) -> anyhow::Result<Vec<Vm>> {
    let shape = Vcpus::new(defaults.vcpus).zip(MebiBytes::new(defaults.memory_mib));
    let shape = shape.map(|(vcpus, memory)| Shape { vcpus, memory }).context("--vcpus or --memory-mib is too large")?;
    let mut sandboxes: BTreeMap<SandboxId, (Vec<(usize, Seen)>, Tally)> = BTreeMap::new();
    let mut homeless = Tally::default();
    for (content, line) in text.lines().zip(1_usize..).filter(|(content, _)| !content.trim().is_empty()) {
        let parsed: Result<Line, _> = serde_json::from_str(content);
        match parsed.map_err(|error| error.to_string()).and_then(sample) {
            Ok((sandbox, seen)) => {
                let (samples, tally) = sandboxes.entry(sandbox).or_default();
                samples.push((line, seen));
                tally.rows = tally.rows.saturating_add(1);
            }
            Err(detail) => {
                homeless.rows = homeless.rows.saturating_add(1);
                homeless.refuse("invalid_sample", line, &detail);
            }
        }
    }
    // A line that does not parse belongs to no sandbox for sure: the first one's tally names it.
    let mut vms: Vec<Vm> =
        sandboxes.into_iter().map(|(sandbox, (samples, tally))| vm(sandbox, samples, tally, shape)).collect();
    let first = vms.first_mut().context("no line is a sample")?;
    first.tally.rows = first.tally.rows.saturating_add(homeless.rows);
    first.tally.refused.extend(homeless.refused);
    Ok(vms)
}

fn sample(line: Line) -> Result<(SandboxId, Seen), String> {
    let sandbox = SandboxId::parse(&line.sandbox).map_err(|error| format!("sandbox: {error}"))?;
    let at = parse_time(&line.at)?;
    let mebibytes = |mib: Option<i64>, name: &str| match mib.map(MebiBytes::new) {
        Some(None) => Err(format!("{name} is not from 0 to 64 TiB")),
        Some(Some(mib)) => Ok(Some(mib)),
        None => Ok(None),
    };
    let counter = |count: i64, name: &str| {
        (0..=COUNTER_MAX).contains(&count).then_some(count).ok_or_else(|| format!("{name} is not from 0 to 2^53 - 1"))
    };
    let storage = mebibytes(line.storage_mib, "storage_mib")?;
    let seen = match line.lease {
        Some(lease) => {
            let lease = LeaseId::parse(&lease).map_err(|error| format!("lease: {error}"))?;
            let cpu_usage_us = counter(line.cpu_usage_usec.ok_or("cpu_usage_usec is missing")?, "cpu_usage_usec")?;
            let epoch = counter(line.epoch.unwrap_or(0), "epoch")?;
            let memory = mebibytes(line.memory_mib, "memory_mib")?;
            Seen::Running(lease, Reading { at, epoch, cpu_usage_us, memory, storage })
        }
        None if line.cpu_usage_usec.is_some() || line.epoch.is_some() || line.memory_mib.is_some() => {
            return Err("a sandbox at rest has no CPU and no memory".to_owned());
        }
        None => Seen::AtRest(StorageReport { at, storage: storage.ok_or("storage_mib is missing")? }),
    };
    Ok((sandbox, seen))
}

fn vm(sandbox: SandboxId, mut samples: Vec<(usize, Seen)>, mut tally: Tally, shape: Shape) -> Vm {
    samples.sort_by_key(|(_, seen)| seen.at());
    let mut windows: BTreeMap<LeaseId, Span> = BTreeMap::new();
    for (_, seen) in &samples {
        if let Seen::Running(lease, reading) = seen {
            let window = windows.entry(lease.clone()).or_insert(Span { start: reading.at, end: reading.at });
            window.end = reading.at;
        }
    }
    tally.leases = windows.len();
    let mut steps = Vec::new();
    let mut kind = LeaseKind::Create;
    if let Some((_, Seen::AtRest(report))) = samples.first() {
        steps.push(Step { at: report.at, action: Action::Register });
        kind = LeaseKind::Wake;
    }
    let mut last_of: BTreeMap<LeaseId, usize> = BTreeMap::new();
    for (index, (_, seen)) in samples.iter().enumerate() {
        if let Seen::Running(lease, _) = seen {
            last_of.insert(lease.clone(), index);
        }
    }
    for (index, (line, seen)) in samples.into_iter().enumerate() {
        let at = seen.at();
        let lease = match &seen {
            Seen::Running(lease, _) => Some(lease.clone()),
            Seen::AtRest(_) => None,
        };
        if let Some(lease) = &lease
            && let Some(window) = windows.remove(lease)
        {
            steps.push(admission(at, lease, kind, shape, window));
            kind = LeaseKind::Wake;
        }
        steps.push(Step { at, action: Action::Sample { line, seen } });
        if let Some(lease) = lease
            && last_of.get(&lease) == Some(&index)
        {
            steps.push(Step { at, action: Action::End { lease, reason: EndReason::Stop } });
        }
    }
    Vm { sandbox, steps, tally }
}

fn admission(at: Timestamp, lease: &LeaseId, kind: LeaseKind, shape: Shape, window: Span) -> Step {
    let timeout_ms = whole_seconds(window.length_ms()).min(LEASE_MS_MAX);
    Step { at, action: Action::Admit { lease: lease.clone(), kind, shape, timeout_ms } }
}

#[cfg(test)]
mod tests {
    use super::{Defaults, vms};
    use crate::cli::replay::steps::Action;

    #[test]
    fn leases_are_admitted_at_their_first_sample_and_bad_lines_are_named() {
        let text = r#"{"account":"a","sandbox":"s-1","lease":"l-1","at":"2026-11-01T00:01:00Z","cpu_usage_usec":5}
{"account":"a","sandbox":"s-1","lease":"l-1","at":"2026-11-01T00:00:00Z","cpu_usage_usec":0,"storage_mib":7}
{"account":"a","sandbox":"s-1","at":"2026-11-01T00:02:00Z","storage_mib":9}
{"account":"a","sandbox":"s-0","at":"2026-11-01T00:02:00Z","storage_mib":9}
{"account":"a","sandbox":"s-1","at":"2026-11-01T00:02:00Z","cpu_usage_usec":9}
{"account":"a","sandbox":"s-1","at":"2026-11-01T00:02:00","storage_mib":9}
{"account":"a","sandbox":"s-1","lease":"l-1","at":"2026-11-01T00:02:00Z","cpu_usage_usec":1.5}
"#;
        let vms = vms(text, &Defaults { vcpus: 1, memory_mib: 64, starts_at: None }).unwrap();
        let names: Vec<_> = vms.iter().map(|vm| vm.sandbox.as_str()).collect();
        assert_eq!(names, ["s-0", "s-1"]);
        assert_eq!(vms[0].tally.refused["invalid_sample"].count, 3);
        assert!(matches!(vms[0].steps[0].action, Action::Register));
        let said: Vec<_> = vms[1]
            .steps
            .iter()
            .map(|step| match &step.action {
                Action::Admit { timeout_ms, .. } => format!("admit {timeout_ms}"),
                Action::Sample { line, .. } => format!("sample {line}"),
                Action::End { .. } => "end".to_owned(),
                Action::Register => "register".to_owned(),
            })
            .collect();
        assert_eq!(said, ["admit 60000", "sample 2", "sample 1", "end", "sample 3"]);
    }
}
