//! Group commit: commands that wait are carried out together, in one transaction, and answered after its commit.
//!
//! A worker drains its lanes (`lanes.rs`) in turn: gate commands first (as many as wait, up to a cap), then what is done
//! alone (customers, quotes), then ends and sandboxes, then one slice of samples; so that a lone admission waits behind
//! one slice at most, and no lane starves. There is no timer that lingers for more. SQLite has one worker, for it has one
//! writer; PostgreSQL has several, which meet in the database only: a decision there waits for a slice only where both
//! are about one account with free time left, or where it replaces a lease that is being sampled. While a lane of samples
//! meets no such account, several slices share a commit.
//!
//! Fails closed: what the store does not confirm is answered as unavailable. When a batch does not fit the store (a sum
//! beyond 64 bits, a broken constraint), its commands are carried out one by one, so that only the one at fault fails.
//! When the database undid it, it is tried again as a whole (`retry.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::command::{AdmitRequest, Admitted, CommandError, ExtendLease, Presented, SampleOutcome};
use super::cut::cut;
use super::ingest::{Sent, ingest};
use super::lanes::{self, GateJob, Inbox, Job, Lanes, SliceJob, Taken};
use super::lives::{Life, LifeAnswer};
use super::onward::Onward;
use super::outbox::Outbox;
use super::recall::{Part, Recalled};
use super::retry::{Attempts, Failed};
use super::working_set::{LeaseKey, Rules, WorkingSet};
use super::{Answer, lives};
use crate::clock::Clock;
use crate::domain::lease::Lease;
use crate::domain::time::Month;
use crate::store::changes::Changes;
use crate::store::{Lane, Store, StoreError, Tx};

/// Bounds of batches and queues.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Most commands of one batch, and most leases of several: bounds how long its rows stay locked.
    pub commands_max: usize,
    /// Most samples of one commit: a lone admission waits behind at most one such slice.
    pub slice_samples_max: usize,
    /// Most commands that wait in a lane; more are refused as unavailable.
    pub queue_max: usize,
    /// Batches of samples under way at once on a database that takes several writers.
    pub sample_batches_max: usize,
    /// Longest time that one batch may take, all its attempts included, in milliseconds; then: unavailable.
    pub batch_ms_max: u64,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            commands_max: 1_024,
            slice_samples_max: 200,
            queue_max: 20_000,
            sample_batches_max: 4,
            batch_ms_max: 10_000,
        }
    }
}

impl BatchLimits {
    /// Most samples of one commit behind which no admission waits: several slices, so that what a commit costs by itself is
    /// shared by more.
    pub(super) fn joined_samples_max(&self) -> usize {
        /// More gains little, and holds its leases longer against their ends.
        const SLICES: usize = 5;
        self.slice_samples_max.saturating_mul(SLICES)
    }

    /// Most commands of a batch of ends and the like: an admission waits behind it as it does behind a slice.
    pub(super) fn lives_max(&self) -> usize {
        self.commands_max.min(self.slice_samples_max)
    }
}

/// A command that passes the gate.
#[derive(Clone, Debug)]
pub enum Gate {
    /// New leases.
    Admit(AdmitRequest),
    /// More time for one.
    Extend(ExtendLease),
}

/// A gate command, and who asks.
#[derive(Clone, Debug)]
pub struct AtGate {
    /// The command.
    pub command: Gate,
    /// Whose secret is to be confirmed; `None`: it was.
    pub by: Option<Presented>,
}

/// What a gate command answers.
#[derive(Clone, Debug)]
pub enum Passed {
    /// New leases (or known ones).
    Admitted(Admitted),
    /// The extended lease.
    Extended(Box<Lease>),
}

/// Carries out batches.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Where rows are.
    pub store: Store,
    /// What time it is.
    pub clock: Clock,
    /// Settings that decisions read.
    pub rules: Arc<Rules>,
    /// Bounds.
    pub limits: BatchLimits,
    /// What is counted for operators.
    pub tally: Arc<super::tally::Tally>,
    /// Leases as they were last written.
    pub recall: Arc<super::recall::Recall>,
    /// Whose admissions are looked up.
    pub doubts: Arc<super::unseen::Doubts>,
}

/// Starts the workers. They end when `stop` is cancelled and everything that was accepted is answered.
pub fn start(engine: &Engine, stop: &CancellationToken) -> (Lanes, Vec<tokio::task::JoinHandle<()>>) {
    let (lanes, inboxes) = lanes::open(engine.limits, engine.store.is_shared());
    let workers = inboxes.into_iter().map(|inbox| tokio::spawn(work(engine.clone(), inbox, stop.clone())));
    (lanes, workers.collect())
}

/// Commands of a batch after which more are about to come, though none waits just now.
const BUSY: usize = 16;

async fn work(engine: Engine, mut inbox: Inbox, stop: CancellationToken) {
    let mut stopping = false;
    let mut taken = Taken::default();
    let mut outbox = Outbox::new(&engine.store);
    let mut onward = Onward::default();
    // Whether its last samples met an account with free time left; not known is as if.
    let mut free = true;
    loop {
        if onward.has_begun() && !inbox.gates_wait() {
            // Those that were just answered may come again.
            tokio::task::yield_now().await;
            if !inbox.gates_wait() {
                onward.let_go();
            }
        }
        let waited = tokio::select! {
            biased;
            got = inbox.wait(&mut taken, engine.limits) => got,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                inbox.close();
                true
            }
        };
        // What other tasks are about to send comes along: they go first, those that they wake too.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        // One of the lanes is closed and empty: so are they all, or will be; take what is left without waiting.
        inbox.take_waiting(&mut taken, engine.limits);
        if taken.is_empty() && !waited {
            return outbox.empty(0).await;
        }
        if taken.gates.is_empty() {
            onward.let_go();
        }
        let only_gates = taken.alone.is_empty() && taken.lives.is_empty() && taken.slices.is_empty();
        for batch in cut(std::mem::take(&mut taken.gates), engine.limits.commands_max, leases_of) {
            let is_busy = batch.len() >= BUSY;
            let more_waits = || only_gates && !inbox.others_wait() && (is_busy || inbox.gates_wait());
            engine.gates(batch, &mut outbox, &mut onward, more_waits).await;
        }
        for job in std::mem::take(&mut taken.alone) {
            let answer = engine.alone(&job.command).await;
            outbox.tell(|kept| drop(job.reply.send(if_kept(answer, &kept)))).await;
        }
        engine.lives(std::mem::take(&mut taken.lives), &mut outbox).await;
        let slices = std::mem::take(&mut taken.slices);
        if !slices.is_empty() {
            engine.slices(slices, &mut free, &mut outbox).await;
            inbox.join_slices(engine.store.is_shared() && !free);
        }
    }
}

/// How many leases a gate command asks about: what a batch holds in memory, and locked, goes by them.
fn leases_of(job: &GateJob) -> usize {
    match &job.command.command {
        Gate::Admit(request) => request.leases.len(),
        Gate::Extend(_) => 1,
    }
}

/// Whether a failure may be one command's alone, so that the others of its batch are worth another try.
pub(super) fn may_be_one(error: &StoreError) -> bool {
    matches!(error, StoreError::Overflow | StoreError::Constraint(_))
}

/// How a failure of the store is told.
pub fn told(error: StoreError) -> CommandError {
    match error {
        StoreError::Overflow => CommandError::Invalid {
            pointer: String::new(),
            detail: "a sum would be too large to be kept exactly".to_owned(),
        },
        StoreError::Unavailable(detail)
        | StoreError::Again(detail)
        | StoreError::Stale(detail)
        | StoreError::Unknown(detail)
        | StoreError::Corrupt(detail)
        | StoreError::Constraint(detail) => {
            tracing::error!(%detail, "the store did not carry out a batch");
            CommandError::Unavailable(detail)
        }
    }
}

impl Engine {
    /// Begins a transaction with an empty working set of its time.
    pub async fn begin(&self, lane: Lane) -> Result<(Tx, WorkingSet), StoreError> {
        let mut tx = self.store.begin(lane).await?;
        let watermarks = tx.hold_watermarks().await?;
        Ok((tx, self.working_set(watermarks)))
    }

    pub(super) fn working_set(&self, (open_month, evidence_from): (Month, Month)) -> WorkingSet {
        let mut set = WorkingSet::new(self.clock.now(), Arc::clone(&self.rules), open_month);
        set.evidence_from = evidence_from;
        set.asks_store = !self.clock.is_test();
        set
    }

    /// Saves what changed, commits, and hands the answers over; a batch that changed nothing is only let go. They may be
    /// told when all is kept ([`Outbox`]).
    pub(super) async fn finish<T>(&self, tx: Tx, set: &WorkingSet, answers: T) -> Result<T, Failed<T>> {
        let answers = self.commit(tx, set, answers).await?;
        self.recall.forget(set.changes.known_leases().map(|(key, _)| key));
        Ok(answers)
    }

    /// Notes that a batch was committed.
    pub(super) fn committed(&self, set: &WorkingSet) {
        self.tally.count(set);
        self.recall.forget(set.changes.known_leases().map(|(key, _)| key));
    }

    async fn commit<T>(&self, mut tx: Tx, set: &WorkingSet, answers: T) -> Result<T, Failed<T>> {
        if set.changes != Changes::default() {
            tx.save(&set.changes).await?;
            if let Err(error) = tx.commit_early().await {
                return Err(Failed::at_commit(error, answers));
            }
            self.tally.count(set);
        }
        Ok(answers)
    }

    /// Lets a batch take its bounded time.
    pub(super) async fn in_time<T>(&self, batch: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = |_| Err(StoreError::Unavailable("a batch took too long".to_owned()));
        tokio::time::timeout(Duration::from_millis(self.limits.batch_ms_max), batch).await.unwrap_or_else(late)
    }

    async fn lives(&self, jobs: Vec<Job<Life, LifeAnswer>>, outbox: &mut Outbox) {
        if jobs.is_empty() {
            return;
        }
        let (commands, replies): (Vec<Life>, Vec<_>) = jobs.into_iter().map(|job| (job.command, job.reply)).unzip();
        let answers = match self.in_time(self.live(&commands)).await {
            Err(error) if may_be_one(&error) && commands.len() > 1 => {
                let mut answers = Vec::with_capacity(commands.len());
                for command in &commands {
                    answers.extend(each(self.in_time(self.live(std::slice::from_ref(command))).await, 1));
                }
                answers
            }
            outcome => each(outcome, commands.len()),
        };
        outbox.tell(|kept| send(replies, answers, &kept)).await;
    }

    pub(super) async fn live(&self, commands: &[Life]) -> Result<Vec<Answer<LifeAnswer>>, StoreError> {
        let mut attempts = Attempts::new();
        loop {
            if let Some(answers) = attempts.after(Box::pin(self.try_lives(commands)).await).await {
                return answers;
            }
        }
    }

    async fn try_lives(&self, commands: &[Life]) -> Result<Vec<Answer<LifeAnswer>>, Failed<Vec<Answer<LifeAnswer>>>> {
        let (mut tx, mut set) = self.begin(Lane::Meter).await?;
        let answers = lives::carry_out(&mut tx, &mut set, commands).await?;
        self.finish(tx, &set, answers).await
    }

    /// `free`: whether there was free time left to draw on, the last time; then this time. Admissions wait for such accounts.
    async fn slices(&self, jobs: Vec<SliceJob>, free: &mut bool, outbox: &mut Outbox) {
        let mut sent = Vec::new();
        let mut replies = Vec::new();
        for job in jobs {
            replies.push((job.command.len(), job.reply));
            sent.extend(job.command);
        }
        let outcome = self.take_parts(sent, free).await;
        let tell = move |kept: Result<(), StoreError>| {
            let mut outcomes = kept.and(outcome).map_err(told).map(Vec::into_iter);
            for (count, reply) in replies {
                let answer = match &mut outcomes {
                    Ok(outcomes) => Ok(outcomes.by_ref().take(count).collect()),
                    Err(error) => Err(error.clone()),
                };
                // A caller that went away has its samples in the ledger all the same.
                drop(reply.send(answer));
            }
        };
        outbox.tell(tell).await;
    }

    /// Takes samples of leases that are recalled, and the others; outcomes are in the order given.
    async fn take_parts(&self, sent: Vec<Sent>, free: &mut bool) -> Result<Vec<SampleOutcome>, StoreError> {
        let mut outcomes = vec![SampleOutcome::Accepted; sent.len()];
        let parts = if *free { vec![Part::whole(sent, None)] } else { self.recall.part(sent, self.clock.now()) };
        let mut parts = VecDeque::from(parts);
        let mut any_free = false;
        *free = true;
        while let Some(mut part) = parts.pop_front() {
            let recalled = part.recalled.take();
            let taken = match self.in_time(self.take(&part.sent, recalled, free)).await {
                // All are read, and taken together: free time is drawn in one order.
                Ok(None) => {
                    parts = VecDeque::from([Part::joined(std::iter::once(part).chain(parts))]);
                    continue;
                }
                Ok(Some(taken)) => taken,
                Err(error) if may_be_one(&error) => self.samples_apart(&part.sent).await?,
                Err(error) => return Err(error),
            };
            any_free |= *free;
            for (place, outcome) in part.places.into_iter().zip(taken) {
                if let Some(at) = outcomes.get_mut(place) {
                    *at = outcome;
                }
            }
        }
        *free = any_free;
        Ok(outcomes)
    }

    /// Takes samples that go together. `None`: what was assumed of their leases is not so, or not enough, and nothing is done.
    async fn take(
        &self,
        sent: &[Sent],
        mut recalled: Option<BTreeMap<LeaseKey, Recalled>>,
        free: &mut bool,
    ) -> Result<Option<Vec<SampleOutcome>>, StoreError> {
        let mut attempts = Attempts::new();
        loop {
            let assumes = recalled.is_some();
            let outcome = Box::pin(self.try_samples(sent, recalled.take(), free)).await;
            if assumes {
                let undone = outcome.as_ref().is_err_and(Failed::is_undone);
                if outcome.is_ok() || undone {
                    self.tally.count_recall(!undone);
                }
                if outcome.is_ok() || outcome.as_ref().is_err_and(Failed::is_stale) {
                    self.recall.learn(outcome.is_ok());
                }
                if undone {
                    return Ok(None);
                }
            }
            if let Some(outcomes) = attempts.after(outcome).await {
                return outcomes.map(Some);
            }
        }
    }

    async fn try_samples(
        &self,
        sent: &[Sent],
        recalled: Option<BTreeMap<LeaseKey, Recalled>>,
        free: &mut bool,
    ) -> Result<Vec<SampleOutcome>, Failed<Vec<SampleOutcome>>> {
        let (mut tx, mut set) = self.begin(Lane::Meter).await?;
        let outcomes = ingest(&mut tx, &mut set, sent, recalled).await?;
        *free = set.has_free_time();
        // Free time is drawn in one order over all leases of an account: they are read together.
        let keeps = !*free && tx.is_shared() && set.changes.known_leases().next().is_some();
        let Some(written_by) = (if keeps { tx.writes_as().await? } else { None }) else {
            return self.finish(tx, &set, outcomes).await;
        };
        let outcomes = self.commit(tx, &set, outcomes).await?;
        // One that is over is not sampled on.
        let (known, over): (Vec<_>, Vec<_>) = set.changes.known_leases().partition(|(_, lease)| lease.open);
        self.recall.forget(over.into_iter().map(|(key, _)| key));
        let known = known.into_iter();
        self.recall.keep(known.map(|(key, lease)| (key.clone(), (Arc::clone(lease), written_by))));
        Ok(outcomes)
    }

    /// Takes samples by halves, so that the one whose sum does not fit is the only one that is rejected.
    async fn samples_apart(&self, sent: &[Sent]) -> Result<Vec<SampleOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(sent.len());
        let mut waiting = vec![sent];
        while let Some(part) = waiting.pop() {
            match self.in_time(self.take(part, None, &mut false)).await {
                Ok(outcome) => outcomes.extend(outcome.unwrap_or_default()),
                Err(error) if !may_be_one(&error) => return Err(error),
                Err(_) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    waiting.extend([second, first]);
                }
                Err(_) => outcomes.push(SampleOutcome::Rejected(crate::domain::sample::RejectCode::InvalidSample)),
            }
        }
        Ok(outcomes)
    }
}

/// The answers of a batch, or its failure for each of its commands.
pub(super) fn each<T: Clone>(outcome: Result<Vec<Answer<T>>, StoreError>, count: usize) -> Vec<Answer<T>> {
    match outcome {
        Ok(answers) => answers,
        Err(error) => vec![Err(told(error)); count],
    }
}

pub(super) fn send<T>(
    replies: Vec<oneshot::Sender<Answer<T>>>,
    answers: Vec<Answer<T>>,
    kept: &Result<(), StoreError>,
) {
    for (reply, answer) in replies.into_iter().zip(answers) {
        // A caller that went away repeats the same id and gets the same answer.
        drop(reply.send(if_kept(answer, kept)));
    }
}

/// What may be told of a batch: nothing that is not known to be kept.
fn if_kept<T>(answer: Answer<T>, kept: &Result<(), StoreError>) -> Answer<T> {
    match kept {
        Ok(()) => answer,
        Err(error) => Err(told(error.clone())),
    }
}
