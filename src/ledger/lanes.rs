//! The lanes: where commands wait for a worker, and what a worker takes of them at once.
//!
//! On SQLite one worker has all lanes, for there is one writer. On a shared database each lane has one of its own, and
//! samples have several, dealt out by account: while one waits for the database another one counts, and what concerns one
//! account stays in order.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tokio::sync::{mpsc, oneshot};

use super::Answer;
use super::alone::{Alone, AloneAnswer};
use super::batch::{AtGate, BatchLimits, Passed};
use super::command::SampleOutcome;
use super::ingest::Sent;
use super::lives::{Life, LifeAnswer};
use crate::domain::id::AccountId;

/// A command and where its answer goes.
#[derive(Debug)]
pub struct Job<C, T> {
    /// What is asked.
    pub command: C,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Answer<T>>,
}

/// A gate command that waits.
pub type GateJob = Job<AtGate, Passed>;
/// A slice of samples that waits.
pub type SliceJob = Job<Vec<Sent>, Vec<SampleOutcome>>;
/// What waits to be carried out alone.
type AloneJob = Job<Alone, AloneAnswer>;
/// An end, a move, a sandbox, a settling that waits.
type LifeJob = Job<Life, LifeAnswer>;

/// The sending ends of a ledger's lanes.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// Gate commands.
    pub gate: mpsc::Sender<GateJob>,
    /// What is carried out alone.
    pub alone: mpsc::Sender<AloneJob>,
    /// Ends, moves, sandboxes, settling.
    pub lives: mpsc::Sender<LifeJob>,
    /// Slices of samples.
    pub samples: Shares<SliceJob>,
}

/// One or more lanes, to which accounts are dealt out.
#[derive(Debug)]
pub struct Shares<T> {
    first: mpsc::Sender<T>,
    others: Vec<mpsc::Sender<T>>,
}

impl<T> Clone for Shares<T> {
    fn clone(&self) -> Self {
        Self { first: self.first.clone(), others: self.others.clone() }
    }
}

impl<T> Shares<T> {
    fn open(count: usize, queue_max: usize) -> (Self, Vec<mpsc::Receiver<T>>) {
        let (first, inbox) = mpsc::channel(queue_max);
        let (others, inboxes): (Vec<_>, Vec<_>) = (1..count).map(|_| mpsc::channel(queue_max)).unzip();
        (Self { first, others }, std::iter::once(inbox).chain(inboxes).collect())
    }

    fn count(&self) -> usize {
        self.others.len().saturating_add(1)
    }

    /// The lane of an account.
    pub fn of(&self, account: &AccountId) -> &mpsc::Sender<T> {
        let number = share(account, self.count());
        number.checked_sub(1).and_then(|number| self.others.get(number)).unwrap_or(&self.first)
    }
}

/// Samples of one account's lane that go into a batch together, with their places in the request.
pub struct Slice {
    /// An account of that lane.
    pub account: AccountId,
    /// Where each stood in the request.
    pub places: Vec<usize>,
    /// The samples.
    pub sent: Vec<Sent>,
}

impl Shares<SliceJob> {
    /// Deals the samples of a request out into slices of at most `most`, those of one account in the order of sandbox
    /// and time.
    pub fn deal(&self, sent: Vec<Sent>, most: usize) -> Vec<Slice> {
        let lane_of = |(place, sent): (usize, Sent)| (share(&sent.1.account, self.count()), place, sent);
        let mut order: Vec<(usize, usize, Sent)> = sent.into_iter().enumerate().map(lane_of).collect();
        order.sort_by(|(lane, place, (_, left)), (other_lane, other, (_, right))| {
            (lane, &left.account, &left.sandbox, left.seen.at(), place).cmp(&(
                other_lane,
                &right.account,
                &right.sandbox,
                right.seen.at(),
                other,
            ))
        });
        let mut slices: Vec<Slice> = Vec::new();
        let mut last = None;
        for (lane, place, sent) in order {
            match slices.last_mut() {
                Some(slice) if last == Some(lane) && slice.sent.len() < most => {
                    slice.places.push(place);
                    slice.sent.push(sent);
                }
                Some(_) | None => {
                    let account = sent.1.account.clone();
                    slices.push(Slice { account, places: vec![place], sent: vec![sent] });
                }
            }
            last = Some(lane);
        }
        slices
    }
}

/// Which of `shares` an account belongs to: always the same one.
fn share(account: &AccountId, shares: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    account.hash(&mut hasher);
    let shares = u64::try_from(shares).unwrap_or(u64::MAX).max(1);
    usize::try_from(hasher.finish().checked_rem(shares).unwrap_or_default()).unwrap_or_default()
}

/// Lanes with the inboxes of their workers: one, or several on a database that takes several writers.
pub fn open(limits: BatchLimits, is_shared: bool) -> (Lanes, Vec<Inbox>) {
    let shares = if is_shared { limits.sample_batches_max.max(1) } else { 1 };
    let (gate, gate_in) = mpsc::channel(limits.queue_max);
    let (alone, alone_in) = mpsc::channel(limits.queue_max);
    let (lives, lives_in) = mpsc::channel(limits.queue_max);
    let (samples, mut samples_in) = Shares::open(shares, limits.queue_max);
    let lanes = Lanes { gate, alone, lives, samples };
    let inboxes = if is_shared {
        let mut inboxes = vec![
            Inbox { gate: Some(gate_in), ..Inbox::default() },
            Inbox { alone: Some(alone_in), ..Inbox::default() },
            Inbox { lives: Some(lives_in), ..Inbox::default() },
        ];
        inboxes.extend(samples_in.into_iter().map(|lane| Inbox { samples: Some(lane), ..Inbox::default() }));
        inboxes
    } else {
        let (gate, alone, lives) = (Some(gate_in), Some(alone_in), Some(lives_in));
        vec![Inbox { gate, alone, lives, samples: samples_in.pop(), joins_slices: false }]
    };
    (lanes, inboxes)
}

/// The receiving ends of one worker; a lane that it does not have is `None`.
#[derive(Debug, Default)]
pub struct Inbox {
    gate: Option<mpsc::Receiver<GateJob>>,
    alone: Option<mpsc::Receiver<AloneJob>>,
    lives: Option<mpsc::Receiver<LifeJob>>,
    samples: Option<mpsc::Receiver<SliceJob>>,
    /// Whether nobody waits for a batch of samples, as far as the latest one tells: then more go together.
    joins_slices: bool,
}

/// What a worker has taken.
#[derive(Debug, Default)]
pub struct Taken {
    /// Gate commands.
    pub gates: Vec<GateJob>,
    /// What is carried out alone: one at most.
    pub alone: Vec<AloneJob>,
    /// Ends and the like.
    pub lives: Vec<LifeJob>,
    /// Slices, as many as fit one commit.
    pub slices: Vec<SliceJob>,
    /// A slice that was taken but does not fit: it goes first the next time.
    held_over: Option<SliceJob>,
}

impl Taken {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty() && self.alone.is_empty() && self.lives.is_empty() && self.slices.is_empty()
    }

    fn samples(&self) -> usize {
        self.slices.iter().map(|job| job.command.len()).sum()
    }

    /// Takes a slice that fits, or the first; holds any other over.
    fn slice(&mut self, job: SliceJob, samples_max: usize) {
        if self.slices.is_empty() || self.samples().saturating_add(job.command.len()) <= samples_max {
            self.slices.push(job);
        } else {
            self.held_over = Some(job);
        }
    }
}

impl Inbox {
    /// Waits until something is there, in the order of the lanes; `false` when one of them is closed and empty, for then
    /// all are closed: what is left in the others is taken without waiting.
    pub async fn wait(&mut self, taken: &mut Taken, limits: BatchLimits) -> bool {
        if let Some(job) = taken.held_over.take() {
            taken.slices.push(job);
            return true;
        }
        tokio::select! {
            biased;
            got = receive(&mut self.gate, &mut taken.gates, limits.commands_max) => got,
            got = receive(&mut self.alone, &mut taken.alone, 1) => got,
            got = receive(&mut self.lives, &mut taken.lives, limits.lives_max()) => got,
            got = receive(&mut self.samples, &mut taken.slices, 1) => got,
        }
    }

    /// Fills each batch up with what waits, without waiting.
    pub fn take_waiting(&mut self, taken: &mut Taken, limits: BatchLimits) {
        fill(&mut self.gate, &mut taken.gates, limits.commands_max);
        fill(&mut self.alone, &mut taken.alone, 1);
        fill(&mut self.lives, &mut taken.lives, limits.lives_max());
        let samples_max = if self.joins_slices { limits.joined_samples_max() } else { limits.slice_samples_max };
        while taken.held_over.is_none()
            && taken.samples() < samples_max
            && let Some(job) = self.samples.as_mut().and_then(|lane| lane.try_recv().ok())
        {
            taken.slice(job, samples_max);
        }
    }

    /// Whether commands at the gate wait.
    pub fn gates_wait(&self) -> bool {
        waits(self.gate.as_ref())
    }

    /// Whether anything else waits.
    pub fn others_wait(&self) -> bool {
        waits(self.alone.as_ref()) || waits(self.lives.as_ref()) || waits(self.samples.as_ref())
    }

    /// Lets the next batches have more samples, or no more than one slice.
    pub fn join_slices(&mut self, joins: bool) {
        self.joins_slices = joins;
    }

    /// Takes no more commands; those that wait stay.
    pub fn close(&mut self) {
        close(&mut self.gate);
        close(&mut self.alone);
        close(&mut self.lives);
        close(&mut self.samples);
    }
}

fn waits<T>(lane: Option<&mpsc::Receiver<T>>) -> bool {
    lane.is_some_and(|lane| !lane.is_empty())
}

/// Waits for a lane; `false` when it is closed and empty. One that the worker does not have never comes.
async fn receive<T>(lane: &mut Option<mpsc::Receiver<T>>, into: &mut Vec<T>, most: usize) -> bool {
    match lane {
        Some(lane) => lane.recv_many(into, most).await > 0,
        None => std::future::pending().await,
    }
}

fn fill<T>(lane: &mut Option<mpsc::Receiver<T>>, into: &mut Vec<T>, most: usize) {
    while into.len() < most
        && let Some(job) = lane.as_mut().and_then(|lane| lane.try_recv().ok())
    {
        into.push(job);
    }
}

fn close<T>(lane: &mut Option<mpsc::Receiver<T>>) {
    if let Some(lane) = lane {
        lane.close();
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Gate;
    use super::{AtGate, BatchLimits, Job, Lanes, Taken, open, share};
    use crate::domain::id::{AccountId, KeyId, SandboxId};
    use crate::domain::sample::{Sample, Seen, StorageReport};
    use crate::domain::time::Timestamp;
    use crate::domain::units::MebiBytes;
    use crate::ledger::command::AdmitRequest;
    use crate::ledger::ingest::Sent;

    fn account(number: usize) -> AccountId {
        AccountId::parse(&format!("a-{number}")).unwrap()
    }

    fn sent(account: &AccountId, at: i64) -> Sent {
        let report = StorageReport { at: Timestamp::from_ms(at).unwrap(), storage: MebiBytes::ZERO };
        let (account, sandbox) = (account.clone(), SandboxId::parse("s").unwrap());
        (None, Sample { account, sandbox, seen: Seen::AtRest(report) })
    }

    fn send(lanes: &Lanes, command: Vec<Sent>) {
        let (reply, _) = tokio::sync::oneshot::channel();
        lanes.samples.of(&account(0)).try_send(Job { command, reply }).unwrap();
    }

    #[test]
    fn an_account_has_one_share() {
        let shares: Vec<usize> = (0..100).map(|number| share(&account(number), 3)).collect();
        assert!((0..3).all(|wanted| shares.contains(&wanted)) && shares.iter().all(|got| *got < 3), "{shares:?}");
        assert_eq!(shares, (0..100).map(|number| share(&account(number), 3)).collect::<Vec<_>>());
        assert_eq!(share(&account(1), 0), 0);
    }

    #[test]
    fn samples_are_dealt_out_by_account_in_order() {
        let (lanes, inboxes) = open(BatchLimits { sample_batches_max: 3, ..BatchLimits::default() }, true);
        assert_eq!(inboxes.len(), 3 + 3);
        let request: Vec<Sent> =
            (0..100_i64).zip((0..10).cycle()).map(|(at, number)| sent(&account(number), 1_000 - at)).collect();
        let slices = lanes.samples.deal(request.clone(), 7);
        let mut seen = vec![false; request.len()];
        let mut last: std::collections::BTreeMap<AccountId, Timestamp> = std::collections::BTreeMap::new();
        for slice in &slices {
            assert!((1..=7).contains(&slice.sent.len()));
            for (place, one) in slice.places.iter().zip(&slice.sent) {
                assert_eq!(&request[*place], one);
                assert!(!std::mem::replace(&mut seen[*place], true), "once");
                assert_eq!(share(&one.1.account, 3), share(&slice.account, 3));
                let before = last.insert(one.1.account.clone(), one.1.seen.at());
                assert!(before < Some(one.1.seen.at()));
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!(lanes.samples.deal(Vec::new(), 7).is_empty());
    }

    #[tokio::test]
    async fn slices_join_up_to_one_commit() {
        let limits = BatchLimits { slice_samples_max: 4, ..BatchLimits::default() };
        let (lanes, mut inboxes) = open(limits, false);
        assert_eq!(inboxes.len(), 1);
        for length in [3, 1, 5, 2, 2, 1] {
            send(&lanes, (0..length).map(|at| sent(&account(0), at)).collect());
        }
        let inbox = &mut inboxes[0];
        inbox.close();
        let mut batches = Vec::new();
        let mut taken = Taken::default();
        loop {
            let waited = inbox.wait(&mut taken, limits).await;
            inbox.take_waiting(&mut taken, limits);
            if taken.is_empty() && !waited {
                break;
            }
            batches.push(taken.slices.drain(..).map(|job| job.command.len()).collect::<Vec<_>>());
        }
        assert_eq!(batches, [vec![3, 1], vec![5], vec![2, 2], vec![1]]);
    }

    #[tokio::test]
    async fn a_lone_admission_waits_behind_one_slice() {
        let limits = BatchLimits { slice_samples_max: 2, ..BatchLimits::default() };
        let (lanes, mut inboxes) = open(limits, false);
        let inbox = &mut inboxes[0];
        for _ in 0..100 {
            send(&lanes, vec![sent(&account(0), 1), sent(&account(0), 2)]);
        }
        let mut taken = Taken::default();
        for number in 0..10 {
            // While a worker is at one slice, an admission comes: it is in what the worker takes next, and goes first there.
            assert!(inbox.wait(&mut taken, limits).await);
            inbox.take_waiting(&mut taken, limits);
            assert_eq!((taken.gates.len(), taken.slices.drain(..).count()), (usize::from(number > 0), 1));
            taken.gates.clear();
            let (reply, _) = tokio::sync::oneshot::channel();
            let (account, key) = (account(1), KeyId::parse("k").unwrap());
            let command = Gate::Admit(AdmitRequest { account, key, leases: Vec::new() });
            let command = AtGate { command, by: None };
            lanes.gate.try_send(Job { command, reply }).unwrap();
        }
    }

    #[tokio::test]
    async fn more_slices_join_where_nobody_waits() {
        let limits = BatchLimits { slice_samples_max: 2, ..BatchLimits::default() };
        let (lanes, mut inboxes) = open(BatchLimits { sample_batches_max: 1, ..limits }, true);
        for _ in 0..12 {
            send(&lanes, vec![sent(&account(0), 1), sent(&account(0), 2)]);
        }
        let inbox = inboxes.last_mut().unwrap();
        let mut taken = Taken::default();
        let mut counts = Vec::new();
        for joins in [false, true, true, false] {
            inbox.join_slices(joins);
            assert!(inbox.wait(&mut taken, limits).await);
            inbox.take_waiting(&mut taken, limits);
            counts.push(taken.slices.drain(..).count());
        }
        assert_eq!(counts, [1, 5, 5, 1]);
    }
}
