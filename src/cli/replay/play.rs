//! Says the steps of all VMs to a ledger, in order of time, under a clock of their own.
//!
//! Time goes in ticks of a quarter of an hour: the clock moves to a tick's end, then everything that happened in the
//! tick is said, the VMs side by side, each in its own order. That is well within what the ledger takes as in time: a
//! lease may start up to an hour ago, and a lease settles a quarter of an hour after its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::task::JoinSet;

use super::steps::{Action, Step, Tally, Vm};
use crate::clock::Clock;
use crate::domain::id::{AccountId, KeyId, SandboxId};
use crate::domain::sample::Sample;
use crate::domain::time::{Span, Timestamp};
use crate::ledger::Ledger;
use crate::ledger::command::{
    AdmitRequest, CommandError, CreateAccount, CreateKey, EndLease, Ingest, LeaseRequest, PutSandbox, SampleOutcome,
    SecretDigest,
};
use crate::ledger::view::{CostQuery, CostTable, Granularity, GroupBy};

/// How far the clock moves at once, in milliseconds.
const TICK_MS: i64 = 900_000;
/// Most samples of one request, as hosts send them.
const REQUEST_SAMPLES_MAX: usize = 10_000;

/// Who is billed.
#[derive(Clone, Debug)]
pub struct Payer {
    /// The account.
    pub account: AccountId,
    /// Its key.
    pub key: KeyId,
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What became of each VM's rows, by sandbox.
    pub tallies: BTreeMap<SandboxId, Tally>,
    /// Costs by sandbox.
    pub by_sandbox: CostTable,
    /// The same costs by resource.
    pub by_resource: CostTable,
}

/// The time of all steps; `None` when there are none.
#[must_use]
pub fn span(vms: &[Vm]) -> Option<Span> {
    let times = || vms.iter().flat_map(|vm| vm.steps.iter().map(|step| step.at));
    Some(Span { start: times().min()?, end: times().max()? })
}

/// Replays the VMs into a ledger whose time is `clock`, a test clock that stands at or before the first step, and reads
/// what they cost. `progress` is told how many steps were said.
pub async fn play(
    ledger: &Ledger,
    clock: &Clock,
    payer: &Payer,
    vms: Vec<Vm>,
    progress: &dyn Fn(usize),
) -> anyhow::Result<Outcome> {
    let span = span(&vms).context("no row of these traces makes a lease or a sample")?;
    open_account(ledger, payer).await?;
    let mut tallies: BTreeMap<SandboxId, Tally> = BTreeMap::new();
    let mut waiting: BTreeMap<i64, Vec<(Arc<Vm>, usize)>> = BTreeMap::new();
    for vm in vms {
        let vm = Arc::new(vm);
        if tallies.insert(vm.sandbox.clone(), vm.tally.clone()).is_some() {
            bail!("two files are called {}: replay them one by one, or rename one", vm.sandbox);
        }
        wait(&mut waiting, vm, 0);
    }
    while let Some((tick, due)) = waiting.pop_first() {
        let now = tick.saturating_add(1).saturating_mul(TICK_MS);
        if !clock.advance_to(Timestamp::from_ms(now).context("past the year 9999")?) {
            bail!("the clock can't be moved to {now}: it is the system's, or already later");
        }
        let mut running = JoinSet::new();
        for (vm, from) in due {
            let (ledger, payer) = (ledger.clone(), payer.clone());
            running.spawn(async move {
                let to = steps_until(&vm, from, tick);
                let mut said = Said { ledger, payer, tally: Tally::default() };
                said.steps(&vm, vm.steps.get(from..to).unwrap_or_default()).await?;
                anyhow::Ok((vm, from, to, said.tally))
            });
        }
        while let Some(done) = running.join_next().await {
            let (vm, from, to, said) = done.context("a task broke off")??;
            tallies.entry(vm.sandbox.clone()).or_default().add(&said);
            progress(to.saturating_sub(from));
            wait(&mut waiting, vm, to);
        }
    }
    let range = Span { start: span.start.hour().start(), end: span.end.hour().end() };
    let by_sandbox = costs(ledger, payer, range, GroupBy::Sandbox).await?;
    let by_resource = costs(ledger, payer, range, GroupBy::Resource).await?;
    Ok(Outcome { tallies, by_sandbox, by_resource })
}

fn tick_of(at: Timestamp) -> i64 {
    at.ms().div_euclid(TICK_MS)
}

fn wait(waiting: &mut BTreeMap<i64, Vec<(Arc<Vm>, usize)>>, vm: Arc<Vm>, from: usize) {
    if let Some(step) = vm.steps.get(from) {
        waiting.entry(tick_of(step.at)).or_default().push((vm, from));
    }
}

fn steps_until(vm: &Vm, from: usize, tick: i64) -> usize {
    let more = vm.steps.iter().skip(from).take_while(|step| tick_of(step.at) == tick).count();
    from.saturating_add(more)
}

async fn costs(ledger: &Ledger, payer: &Payer, range: Span, group_by: GroupBy) -> anyhow::Result<CostTable> {
    let account = Some(payer.account.clone());
    let query = CostQuery { account, from: range.start, to: range.end, granularity: Granularity::Total, group_by };
    ledger.costs(query).await.context("reading the costs")
}

/// An account that can pay, so that nothing is refused for its money, and a key without a limit.
async fn open_account(ledger: &Ledger, payer: &Payer) -> anyhow::Result<()> {
    if ledger.account(&payer.account).await?.is_none() {
        let account =
            CreateAccount { id: payer.account.clone(), name: "Replay".to_owned(), card_on_file: true, tax: None };
        ledger.create_account(account).await?;
    }
    if ledger.key(&payer.account, &payer.key).await?.is_none() {
        let mut sha256 = [0_u8; 32];
        // The hash of no known secret: nobody can use this key.
        getrandom::fill(&mut sha256).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let (account, id) = (payer.account.clone(), payer.key.clone());
        let secret = SecretDigest { sha256 };
        let key = CreateKey { account, id, name: "Replay".to_owned(), read_only: false, daily_limit: None, secret };
        ledger.create_key(key).await?;
    }
    Ok(())
}

struct Said {
    ledger: Ledger,
    payer: Payer,
    tally: Tally,
}

impl Said {
    async fn steps(&mut self, vm: &Vm, steps: &[Step]) -> anyhow::Result<()> {
        let mut samples = Vec::new();
        for step in steps {
            if let Action::Sample { line, seen } = &step.action {
                let (account, sandbox) = (self.payer.account.clone(), vm.sandbox.clone());
                samples.push((*line, Sample { account, sandbox, seen: seen.clone() }));
                if samples.len() >= REQUEST_SAMPLES_MAX {
                    self.send(std::mem::take(&mut samples)).await?;
                }
                continue;
            }
            self.send(std::mem::take(&mut samples)).await?;
            self.tell(vm, step).await.with_context(|| format!("{} at {}", vm.sandbox, step.at.ms()))?;
        }
        self.send(samples).await
    }

    async fn send(&mut self, samples: Vec<(usize, Sample)>) -> anyhow::Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let (lines, samples): (Vec<usize>, Vec<Sample>) = samples.into_iter().unzip();
        let outcomes = self.ledger.ingest(Ingest { host: None, samples }).await?;
        for (line, outcome) in lines.into_iter().zip(outcomes) {
            match outcome {
                SampleOutcome::Accepted => self.tally.accepted = self.tally.accepted.saturating_add(1),
                SampleOutcome::Duplicate => self.tally.duplicates = self.tally.duplicates.saturating_add(1),
                SampleOutcome::Rejected(code) => self.tally.refuse(code.as_str(), line, code.detail()),
            }
        }
        Ok(())
    }

    async fn tell(&mut self, vm: &Vm, step: &Step) -> anyhow::Result<()> {
        let (account, sandbox) = (self.payer.account.clone(), vm.sandbox.clone());
        let told = match &step.action {
            Action::Admit { lease, kind, shape, timeout_ms } => {
                let lease = LeaseRequest {
                    id: lease.clone(),
                    sandbox,
                    kind: *kind,
                    shape: *shape,
                    timeout_ms: *timeout_ms,
                    max_cost: None,
                    host: None,
                    starts_at: Some(step.at),
                    replaces: None,
                };
                let request = AdmitRequest { account, key: self.payer.key.clone(), leases: vec![lease] };
                self.ledger.admit(request).await.map(drop)
            }
            Action::Register => {
                self.ledger.put_sandbox(PutSandbox { account, sandbox, key: self.payer.key.clone() }).await
            }
            Action::End { lease, reason } => {
                let end = EndLease { account, lease: lease.clone(), ended_at: Some(step.at), reason: *reason };
                self.ledger.end(end).await.map(drop)
            }
            Action::Sample { .. } => Ok(()),
        };
        match told {
            Ok(()) => Ok(()),
            Err(CommandError::Unavailable(why)) => bail!("unavailable: {why}"),
            Err(error) => {
                // Line 0: a lease is made of many lines.
                self.tally.refuse("lease_refused", 0, &error.to_string());
                Ok(())
            }
        }
    }
}
