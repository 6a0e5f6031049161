//! From the rows of a trace to what a control plane and a host would have said: leases, samples, ends.
//!
//! Rows are taken in order of time, then of line. Of several rows of one instant the first holds; the others are what
//! a second reporter said: they are sent too, at the same counter, and the ledger judges them.
//!
//! - A row's CPU counts to the next row. After a silence of more than [`SILENCE_MS_MAX`] nobody knows whether the VM
//!   ran: its lease ends at the row before it and a new one begins at the row after it; nothing is billed between.
//! - A row with 0 cores is a VM that is off: its lease ends there (a pause); the next row with cores is a wake.
//! - Another size is another lease, from that row on; so is a time beyond the longest lease.
//! - The counter goes on over all of it: every lease begins with a sample at its start, which is its baseline.
//! - A lone row, with no other within reach, proves no time and makes no lease.

use std::collections::BTreeMap;

use anyhow::Context;

use super::decimal::Counter;
use super::trace::{BadLine, Row};
use crate::domain::id::{LeaseId, SandboxId};
use crate::domain::lease::{EndReason, LEASE_MS_MAX, LeaseKind, Shape};
use crate::domain::sample::{COUNTER_MAX, Reading, Seen};
use crate::domain::time::Timestamp;
use crate::domain::units::{MebiBytes, Vcpus};

/// The longest time that a row counts for, in milliseconds: one hour. Rows come each 5 minutes; a reporter that was
/// silent for longer proves nothing.
pub const SILENCE_MS_MAX: i64 = 3_600_000;
/// Refused rows of one code that are named.
const EXAMPLES_MAX: usize = 3;

/// A VM of a trace, and what is to be said of it, in order of time.
#[derive(Clone, Debug)]
pub struct Vm {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// What is said.
    pub steps: Vec<Step>,
    /// What became of its rows.
    pub tally: Tally,
}

/// One thing that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it happened.
    pub at: Timestamp,
    /// What.
    pub action: Action,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A lease is asked for, from this instant on.
    Admit {
        /// Its id.
        lease: LeaseId,
        /// What for.
        kind: LeaseKind,
        /// What it is given.
        shape: Shape,
        /// For how long, in milliseconds.
        timeout_ms: i64,
    },
    /// The sandbox is registered without a lease.
    Register,
    /// A host saw it.
    Sample {
        /// The line of the trace that says so, from 1.
        line: usize,
        /// What was seen.
        seen: Seen,
    },
    /// A lease ended at this instant.
    End {
        /// Which.
        lease: LeaseId,
        /// Why.
        reason: EndReason,
    },
}

/// What became of a trace's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows of the trace, bad ones included.
    pub rows: usize,
    /// Rows of a VM that was off.
    pub off: usize,
    /// Rows with no other within reach.
    pub lone: usize,
    /// Silences of more than an hour of a VM that was on.
    pub silences: usize,
    /// Their time, in milliseconds.
    pub silent_ms: i64,
    /// Leases.
    pub leases: usize,
    /// Samples that the ledger took.
    pub accepted: usize,
    /// Samples that it had already.
    pub duplicates: usize,
    /// Refused rows by code.
    pub refused: BTreeMap<&'static str, Refused>,
}

/// Refused rows of one code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub count: usize,
    /// The first of them: line and reason.
    pub examples: Vec<(usize, String)>,
}

impl Tally {
    /// Adds what the ledger answered to some steps.
    pub fn add(&mut self, answered: &Self) {
        self.accepted = self.accepted.saturating_add(answered.accepted);
        self.duplicates = self.duplicates.saturating_add(answered.duplicates);
        for (code, refused) in &answered.refused {
            let sum = self.refused.entry(code).or_default();
            sum.count = sum.count.saturating_add(refused.count);
            let room = EXAMPLES_MAX.saturating_sub(sum.examples.len());
            sum.examples.extend(refused.examples.iter().take(room).cloned());
        }
    }

    /// Counts a refused row.
    pub fn refuse(&mut self, code: &'static str, line: usize, detail: &str) {
        let refused = self.refused.entry(code).or_default();
        refused.count = refused.count.saturating_add(1);
        if refused.examples.len() < EXAMPLES_MAX {
            refused.examples.push((line, detail.to_owned()));
        }
    }
}

fn one_more(count: &mut usize) {
    *count = count.saturating_add(1);
}

impl Vm {
    /// From rows in any order. `end`: when the last row's time ends, where the trace says so.
    pub fn from_rows(name: &str, mut rows: Vec<Row>, end: Option<Timestamp>, bad: &[BadLine]) -> anyhow::Result<Self> {
        let sandbox = SandboxId::parse(name).with_context(|| format!("{name:?}"))?;
        rows.sort_by_key(|row| (row.at, row.line));
        let mut tally = Tally { rows: rows.len().saturating_add(bad.len()), ..Tally::default() };
        for line in bad {
            tally.refuse("invalid_row", line.line, line.detail);
        }
        let mut writer = Writer { name, steps: Vec::new(), tally, open: None, counter: Counter::default() };
        let groups: Vec<&[Row]> = rows.chunk_by(|left, right| left.at == right.at).collect();
        let mut before: Option<Row> = None;
        for (index, group) in groups.iter().enumerate() {
            let Some((row, others)) = group.split_first() else { continue };
            let next = groups.get(index.saturating_add(1)).and_then(|group| group.first()).map(|next| next.at);
            if let (Some(before), true) = (before, writer.open.is_some()) {
                let sum = writer.counter.plus(before.millicores, row.at.since(before.at));
                writer.counter = sum.context("the CPU of this trace passes what 128 bits hold")?;
            }
            writer.instant(row, others, next.or(end))?;
            before = Some(*row);
        }
        if let (Some(end), Some(last)) = (end, before) {
            writer.close(&last, end)?;
        }
        Ok(Self { sandbox, steps: writer.steps, tally: writer.tally })
    }
}

/// The lease that is on while rows are walked through.
struct Open {
    lease: LeaseId,
    shape: Shape,
    start: Timestamp,
    /// Where its admission stands, whose timeout is known only at its end.
    admitted: usize,
}

struct Writer<'a> {
    name: &'a str,
    steps: Vec<Step>,
    tally: Tally,
    open: Option<Open>,
    counter: Counter,
}

impl Writer<'_> {
    /// Walks through one instant: what the open lease's time so far comes to, whether it goes on, what else was said.
    fn instant(&mut self, row: &Row, others: &[Row], next: Option<Timestamp>) -> anyhow::Result<()> {
        let wanted = shape_of(row);
        let reach = next.map(|next| next.since(row.at));
        let counts = reach.is_some_and(|reach| reach <= SILENCE_MS_MAX);
        if let (Some(reach), false, Some(_)) = (reach, counts, wanted) {
            one_more(&mut self.tally.silences);
            self.tally.silent_ms = self.tally.silent_ms.saturating_add(reach);
        }
        if wanted.is_none() {
            one_more(&mut self.tally.off);
        }
        let was_open = self.open.as_ref().map(|open| open.lease.clone());
        if let Some(lease) = &was_open {
            self.sample(row, lease);
            self.second_reporter(others, lease);
        }
        let goes_on = self.open.as_ref().is_some_and(|open| {
            let length = next.map_or(i64::MAX, |next| next.since(open.start));
            counts && wanted == Some(open.shape) && length <= LEASE_MS_MAX
        });
        if !goes_on {
            self.end(row.at, if wanted.is_none() { EndReason::Pause } else { EndReason::Stop })?;
        }
        match wanted {
            Some(shape) if counts && !goes_on => {
                let lease = self.admit(row.at, shape)?;
                self.sample(row, &lease);
                if was_open.is_none() {
                    self.second_reporter(others, &lease);
                }
            }
            Some(_) if was_open.is_none() => self.tally.lone = self.tally.lone.saturating_add(group_size(others)),
            None if was_open.is_none() => self.without_lease(others),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// The end of a trace that says when its last row's time ends.
    fn close(&mut self, last: &Row, end: Timestamp) -> anyhow::Result<()> {
        if let Some(open) = &self.open {
            let lease = open.lease.clone();
            let sum = self.counter.plus(last.millicores, end.since(last.at));
            self.counter = sum.context("the CPU of this trace passes what 128 bits hold")?;
            self.sample(&Row { at: end, ..*last }, &lease);
            self.end(end, EndReason::Stop)?;
        }
        Ok(())
    }

    fn sample(&mut self, row: &Row, lease: &LeaseId) {
        let counter = i64::try_from(self.counter.floor_us()).ok().filter(|counter| *counter <= COUNTER_MAX);
        let (Some(cpu_usage_us), Some(memory)) = (counter, MebiBytes::new(row.memory_mib)) else {
            self.tally.refuse("invalid_row", row.line, "the CPU counter passes 2^53 - 1 microseconds");
            return;
        };
        let reading = Reading { at: row.at, epoch: 0, cpu_usage_us, memory: Some(memory), storage: None };
        let action = Action::Sample { line: row.line, seen: Seen::Running(lease.clone(), reading) };
        self.steps.push(Step { at: row.at, action });
    }

    /// Other rows of the same instant: said of the same lease, at the same counter.
    fn second_reporter(&mut self, others: &[Row], lease: &LeaseId) {
        for row in others {
            self.sample(row, lease);
        }
    }

    /// Other rows of an instant whose first row says that the VM is off.
    fn without_lease(&mut self, others: &[Row]) {
        for row in others {
            if row.vcpus == 0 {
                one_more(&mut self.tally.off);
            } else {
                self.tally.refuse("vm_off", row.line, "the first row of this instant says that the VM is off");
            }
        }
    }

    fn admit(&mut self, at: Timestamp, shape: Shape) -> anyhow::Result<LeaseId> {
        let kind = if self.tally.leases == 0 { LeaseKind::Create } else { LeaseKind::Wake };
        one_more(&mut self.tally.leases);
        let lease = LeaseId::parse(&format!("{}.{}", self.name, at.ms()))?;
        let admitted = self.steps.len();
        let action = Action::Admit { lease: lease.clone(), kind, shape, timeout_ms: LEASE_MS_MAX };
        self.steps.push(Step { at, action });
        self.open = Some(Open { lease: lease.clone(), shape, start: at, admitted });
        Ok(lease)
    }

    fn end(&mut self, at: Timestamp, reason: EndReason) -> anyhow::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let Some(Step { action: Action::Admit { timeout_ms, .. }, .. }) = self.steps.get_mut(open.admitted) else {
            anyhow::bail!("a lease without its admission");
        };
        *timeout_ms = whole_seconds(at.since(open.start));
        self.steps.push(Step { at, action: Action::End { lease: open.lease, reason } });
        Ok(())
    }
}

/// A time as a timeout: in whole seconds, rounded up, at least one; in milliseconds.
#[must_use]
pub fn whole_seconds(ms: i64) -> i64 {
    ms.max(1).saturating_add(999).saturating_div(1_000).saturating_mul(1_000)
}

fn shape_of(row: &Row) -> Option<Shape> {
    Some(Shape { vcpus: Vcpus::new(row.vcpus)?, memory: MebiBytes::new(row.memory_mib)? })
}

fn group_size(others: &[Row]) -> usize {
    others.len().saturating_add(1)
}
