//! Parts of samples: joined with what waits, judged as samples, and kept where something is missing.
//!
//! One request: read what waits of its sandboxes, join, take the samples that are whole, then write what still waits and
//! what is not used; only then is it answered. A crash in between repeats samples, which are duplicates then. Two
//! requests at once that each have what the other lacks both keep it; the next request of the sandbox joins them, or
//! [`Ledger::release_parts`] does.

use std::collections::{BTreeMap, BTreeSet};

use super::aside::Keep;
use super::batch::told;
use super::command::{Ingest, SampleOutcome};
use super::{Answer, Ledger};
use crate::domain::id::{AccountId, HostId, SandboxId};
use crate::domain::part::{JoinRules, Joined, Part, PartFault, Piece, Whole, join};
use crate::domain::replica::{Choice, Chosen, choose};
use crate::domain::sample::{RejectCode, Sample, Seen};
use crate::domain::set_aside::{Door, SetAside};
use crate::domain::time::Timestamp;

type SandboxKey = (AccountId, SandboxId);

/// A part that has just come, and which replica sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The part; when it came and whose token sent it are filled in here.
    pub part: Part,
    /// The replica; `None`: there is only one sender.
    pub replica: Option<String>,
}

/// Parts of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeParts {
    /// The parts.
    pub parts: Vec<Arrived>,
    /// What of the request could not be read.
    pub aside: Vec<SetAside>,
}

/// How parts are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRules {
    /// How they are joined.
    pub join: JoinRules,
    /// After how long without a word another replica takes over, in milliseconds.
    pub replica_silent_ms: i64,
}

/// What became of the parts of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Parts that are in the ledger, wait for others, or said what was needed.
    pub written: usize,
    /// Samples that were taken.
    pub accepted: usize,
    /// Samples that were there already.
    pub duplicates: usize,
    /// Parts that wait.
    pub waiting: usize,
    /// Parts of replicas that are not listened to.
    pub replicated: usize,
    /// What is not used, by its code.
    pub rejected: BTreeMap<&'static str, usize>,
}

impl Taken {
    fn reject(&mut self, code: &'static str) {
        let count = self.rejected.entry(code).or_default();
        *count = count.saturating_add(1);
    }
}

/// Most parts whose sandboxes are looked at in one round of [`Ledger::release_parts`].
const RELEASED_MAX: i64 = 1_000;

impl Ledger {
    /// Takes the parts of one request. Trouble on the way is told as unavailable: the whole can be sent again.
    pub async fn take_parts(&self, host: Option<HostId>, command: TakeParts, rules: &PartRules) -> Answer<Taken> {
        let now = self.engine.clock.now();
        let mut taken = Taken::default();
        let mut keep = Keep { replica_silent_ms: rules.replica_silent_ms, aside: command.aside, ..Keep::default() };
        for aside in &keep.aside {
            taken.reject(aside.code);
        }
        let of: BTreeSet<SandboxKey> =
            command.parts.iter().map(|arrived| (arrived.part.account.clone(), arrived.part.sandbox.clone())).collect();
        let mut pieces: BTreeMap<SandboxKey, Vec<Piece>> = BTreeMap::new();
        if !of.is_empty() {
            let replicated = command.parts.iter().any(|arrived| arrived.replica.is_some());
            let (waiting, chosen) = self.known(&of, replicated).await?;
            pieces = waiting;
            let heard = heard(command.parts, chosen, now, rules.replica_silent_ms, &mut taken, &mut keep);
            for Arrived { mut part, .. } in heard {
                (part.received_at, part.host) = (now, host.clone());
                let key = (part.account.clone(), part.sandbox.clone());
                pieces.entry(key).or_default().push(Piece { part, kept: None });
            }
            // Only what was heard can have changed something.
            pieces.retain(|_, pieces| pieces.iter().any(|piece| piece.kept.is_none()));
        }
        self.join_and_take(pieces, rules, now, &mut taken, &mut keep).await?;
        self.keep(keep).await?;
        Ok(taken)
    }

    /// Takes or sets aside parts that have waited too long. Answers what became of them. Nothing that is billed is lost
    /// without it, but the last sum or the last reading of a sandbox may need it.
    pub async fn release_parts(&self, rules: &PartRules) -> Answer<Taken> {
        let now = self.engine.clock.now();
        let until = now.near(rules.join.wait_ms.saturating_neg());
        let mut tx = self.engine.store.read().await.map_err(told)?;
        let of = tx.oldest_parts(until, RELEASED_MAX).await.map_err(told)?;
        drop(tx);
        let mut taken = Taken::default();
        if of.is_empty() {
            return Ok(taken);
        }
        let (pieces, _) = self.known(&of, false).await?;
        let mut keep = Keep::default();
        self.join_and_take(pieces, rules, now, &mut taken, &mut keep).await?;
        self.keep(keep).await?;
        Ok(taken)
    }

    /// What waits of sandboxes, and which replicas are listened to.
    async fn known(
        &self,
        of: &BTreeSet<SandboxKey>,
        replicated: bool,
    ) -> Answer<(BTreeMap<SandboxKey, Vec<Piece>>, BTreeMap<SandboxKey, Chosen>)> {
        let mut tx = self.engine.store.read().await.map_err(told)?;
        let mut waiting: BTreeMap<SandboxKey, Vec<Piece>> = BTreeMap::new();
        for piece in tx.parts(of).await.map_err(told)? {
            waiting.entry((piece.part.account.clone(), piece.part.sandbox.clone())).or_default().push(piece);
        }
        let chosen = if replicated { tx.replicas(of).await.map_err(told)? } else { Vec::new() };
        let chosen = chosen.into_iter().map(|chosen| ((chosen.account.clone(), chosen.sandbox.clone()), chosen));
        Ok((waiting, chosen.collect()))
    }

    async fn join_and_take(
        &self,
        pieces: BTreeMap<SandboxKey, Vec<Piece>>,
        rules: &PartRules,
        now: Timestamp,
        taken: &mut Taken,
        keep: &mut Keep,
    ) -> Answer<()> {
        let mut by_host: BTreeMap<Option<HostId>, Vec<Whole>> = BTreeMap::new();
        for pieces in pieces.into_values() {
            let Joined { whole, aside, keep: waiting, spent, taken: said } = join(pieces, &rules.join, now);
            for whole in whole {
                by_host.entry(whole.host.clone()).or_default().push(whole);
            }
            for (part, fault, _) in aside {
                let (code, detail) = told_of(fault);
                taken.reject(code);
                keep.aside.push(of_part(&part, code, detail));
            }
            taken.written = taken.written.saturating_add(said).saturating_add(waiting.len());
            taken.waiting = taken.waiting.saturating_add(waiting.len());
            keep.parts.extend(waiting);
            keep.spent.extend(spent);
        }
        for (host, whole) in by_host {
            let samples = whole.iter().map(|whole| whole.sample.clone()).collect();
            let outcomes = self.ingest(Ingest { host: host.clone(), samples }).await?;
            for (whole, outcome) in whole.into_iter().zip(outcomes) {
                match outcome {
                    SampleOutcome::Accepted => taken.accepted = taken.accepted.saturating_add(1),
                    SampleOutcome::Duplicate => taken.duplicates = taken.duplicates.saturating_add(1),
                    SampleOutcome::Rejected(code) => {
                        taken.reject(code.as_str());
                        keep.aside.push(of_sample(Door::RemoteWrite, host.as_ref(), &whole.sample, code));
                        continue;
                    }
                }
                taken.written = taken.written.saturating_add(whole.fresh);
            }
        }
        Ok(())
    }
}

/// The parts of replicas that are listened to; the others are counted.
fn heard(
    arrived: Vec<Arrived>,
    mut chosen: BTreeMap<SandboxKey, Chosen>,
    now: Timestamp,
    silent_ms: i64,
    taken: &mut Taken,
    keep: &mut Keep,
) -> Vec<Arrived> {
    let mut heard = Vec::with_capacity(arrived.len());
    for arrived in arrived {
        if let Some(replica) = arrived.replica.clone() {
            let key = (arrived.part.account.clone(), arrived.part.sandbox.clone());
            match choose(chosen.get(&key), &replica, now, silent_ms) {
                Choice::Another => {
                    taken.replicated = taken.replicated.saturating_add(1);
                    continue;
                }
                Choice::Heard { note: false } => {}
                Choice::Heard { note: true } => {
                    let (account, sandbox) = key.clone();
                    let now_chosen = Chosen { account, sandbox, replica, seen_at: now };
                    keep.replicas.push(now_chosen.clone());
                    chosen.insert(key, now_chosen);
                }
            }
        }
        heard.push(arrived);
    }
    heard
}

/// The code of a part's fault, and what it means.
fn told_of(fault: PartFault) -> (&'static str, &'static str) {
    match fault {
        PartFault::NoEpoch => (
            "no_epoch",
            "nobody told in time when this counter began; send its start, or name it in the settings under [remote_write]",
        ),
        PartFault::Ambiguous => (
            "ambiguous_series",
            "several series claim to be this number; tell them apart by `only`, or let them be summed, in the settings under [remote_write]",
        ),
        PartFault::Conflict => ("conflict", "the same series came with another value for the same instant"),
        PartFault::TooLarge => ("too_large", "the number is larger than can be counted"),
    }
}

fn of_part(part: &Part, code: &'static str, detail: &str) -> SetAside {
    SetAside {
        account: Some(part.account.clone()),
        door: Door::RemoteWrite,
        host: part.host.clone(),
        sandbox: Some(part.sandbox.to_string()),
        lease: part.lease.as_ref().map(ToString::to_string),
        at: Some(part.at),
        code,
        detail: format!("{} {}: {detail}", part.kind.name(), part.value),
    }
}

/// A sample that the ledger rejected.
#[must_use]
pub fn of_sample(door: Door, host: Option<&HostId>, sample: &Sample, code: RejectCode) -> SetAside {
    let lease = match &sample.seen {
        Seen::Running(lease, _) => Some(lease.to_string()),
        Seen::AtRest(_) => None,
    };
    SetAside {
        account: Some(sample.account.clone()),
        door,
        host: host.cloned(),
        sandbox: Some(sample.sandbox.to_string()),
        lease,
        at: Some(sample.seen.at()),
        code: code.as_str(),
        detail: code.detail().to_owned(),
    }
}
