//! Parts of samples: metrics that arrive one by one, and how they are joined to samples.
//!
//! Some senders know no sample, only series: the CPU counter, its start, the memory and the disk of a sandbox each come
//! as a number of their own, cut into requests anywhere. A part waits until what it needs is there:
//!
//! - A CPU counter at `t` belongs to the counter that began at S, where somebody saw at or after `t` that the running
//!   counter began at S, and S is not after `t`: between S and then no other can have begun. That is its epoch. Nothing
//!   is guessed: with a wrong epoch a counter would count twice.
//! - Memory is that of the first look at or after `t`.
//! - Where several series make one number (a counter a CPU, a device a disk), their sum is taken when each that is known
//!   has gone on to a later instant: then none of this instant is still on its way, for a series keeps its order. The
//!   latest of each series always waits, so all are known from one instant to the next.
//!
//! What has waited too long is taken as it is, or set aside. Nothing here depends on how parts were cut into requests.

use std::collections::{BTreeMap, BTreeSet};

use super::id::{AccountId, HostId, LeaseId, SandboxId};
use super::sample::{COUNTER_MAX, Reading, Sample, Seen, StorageReport};
use super::time::Timestamp;
use super::units::MebiBytes;

/// Bytes of a MiB.
const MEBIBYTE_BYTES: i64 = 1_048_576;

/// What a part says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// CPU since the counter began, in microseconds.
    Cpu,
    /// When the counter that runs began, in milliseconds since the epoch.
    Start,
    /// Memory reserved, in bytes; 0: no bound of its own.
    Memory,
    /// Disk taken, in bytes.
    Storage,
}

impl PartKind {
    /// Every kind with its stable name.
    pub const ALL: [(Self, &str); 4] =
        [(Self::Cpu, "cpu"), (Self::Start, "start"), (Self::Memory, "memory"), (Self::Storage, "storage")];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// One number of one series at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The lease; `None` for the disk, which is the sandbox's.
    pub lease: Option<LeaseId>,
    /// What it says.
    pub kind: PartKind,
    /// When.
    pub at: Timestamp,
    /// Tells the series of one kind apart; at most 64 characters.
    pub series: String,
    /// The number, in the unit of its kind; never negative.
    pub value: i64,
    /// Of a CPU counter: its epoch, where the sender says it beside the number.
    pub epoch: Option<i64>,
    /// When it came.
    pub received_at: Timestamp,
    /// Whose token sent it.
    pub host: Option<HostId>,
}

/// A part, and its number in the store where it waits already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The part.
    pub part: Part,
    /// Where it is kept; `None`: it has just come.
    pub kept: Option<i64>,
}

/// How many series make one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// One; several are set aside.
    One,
    /// Their sum is the number.
    Sum,
}

/// What joining needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRules {
    /// Whether counters have a start of their own; without one their epoch is what they say, or else 0.
    pub start: bool,
    /// Whether memory is told.
    pub memory: bool,
    /// How many series are one CPU counter.
    pub cpu: Series,
    /// How many series are one disk.
    pub storage: Series,
    /// How long a part waits for others, in milliseconds.
    pub wait_ms: i64,
}

/// Why a part is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartFault {
    /// No start of the counter was told in time.
    NoEpoch,
    /// Several series where one was expected.
    Ambiguous,
    /// The same series and instant with another value.
    Conflict,
    /// Larger than can be counted.
    TooLarge,
}

/// A sample that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The sample.
    pub sample: Sample,
    /// Whose token sent it.
    pub host: Option<HostId>,
    /// How many of its parts have just come.
    pub fresh: usize,
}

/// What becomes of the pieces of one sandbox: each that has just come is in one of `whole`, `aside`, `keep` or `taken`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Samples to be judged.
    pub whole: Vec<Whole>,
    /// Parts that can't be used, and why; whether they have just come.
    pub aside: Vec<(Part, PartFault, bool)>,
    /// Parts that have just come and wait for others.
    pub keep: Vec<Part>,
    /// Kept parts that are no longer needed.
    pub spent: Vec<i64>,
    /// How many that have just come said only what is known, or what a sample needed.
    pub taken: usize,
}

/// The pieces of one series set at one instant, by series.
type Cells = BTreeMap<String, Piece>;

/// Joins the pieces of one sandbox.
#[must_use]
pub fn join(pieces: Vec<Piece>, rules: &JoinRules, now: Timestamp) -> Joined {
    let mut joined = Joined::default();
    let mut running: BTreeMap<Option<LeaseId>, Running> = BTreeMap::new();
    let mut storage: BTreeMap<Timestamp, Cells> = BTreeMap::new();
    for piece in pieces {
        let of = piece.part.lease.clone();
        match piece.part.kind {
            PartKind::Cpu => joined.place(&mut running.entry(of).or_default().cpu, piece),
            PartKind::Start => running.entry(of).or_default().starts.push(piece),
            PartKind::Memory => running.entry(of).or_default().memories.push(piece),
            PartKind::Storage => joined.place(&mut storage, piece),
        }
    }
    joined.storage(storage, rules, now);
    for (lease, parts) in running {
        joined.running(lease.as_ref(), parts, rules, now);
    }
    joined
}

#[derive(Default)]
struct Running {
    cpu: BTreeMap<Timestamp, Cells>,
    starts: Vec<Piece>,
    memories: Vec<Piece>,
}

/// Whether a piece has waited long enough.
fn is_overdue(piece: &Piece, rules: &JoinRules, now: Timestamp) -> bool {
    now.since(piece.part.received_at) >= rules.wait_ms
}

/// The last instant of each series.
fn last_of(instants: &BTreeMap<Timestamp, Cells>) -> BTreeMap<String, Timestamp> {
    instants.iter().flat_map(|(at, cells)| cells.keys().map(|series| (series.clone(), *at))).collect()
}

impl Joined {
    /// Puts a piece into its place. One that is there already says nothing new, or contradicts.
    fn place(&mut self, instants: &mut BTreeMap<Timestamp, Cells>, piece: Piece) {
        let cells = instants.entry(piece.part.at).or_default();
        match cells.get(&piece.part.series) {
            None => drop(cells.insert(piece.part.series.clone(), piece)),
            Some(known) if known.part.value == piece.part.value => self.drop_piece(&piece),
            Some(_) => self.set_aside(piece, PartFault::Conflict),
        }
    }

    /// Lets go of a piece that is not needed any more.
    fn drop_piece(&mut self, piece: &Piece) {
        match piece.kept {
            Some(kept) => self.spent.push(kept),
            None => self.taken = self.taken.saturating_add(1),
        }
    }

    fn set_aside(&mut self, piece: Piece, fault: PartFault) {
        self.spent.extend(piece.kept);
        self.aside.push((piece.part, fault, piece.kept.is_none()));
    }

    fn set_all_aside(&mut self, cells: Cells, fault: PartFault) {
        for piece in cells.into_values() {
            self.set_aside(piece, fault);
        }
    }

    fn keep_all(&mut self, cells: Cells) {
        self.keep.extend(cells.into_values().filter(|piece| piece.kept.is_none()).map(|piece| piece.part));
    }

    /// Takes the pieces of a sample: how many have just come, and whose they are.
    fn take(&mut self, cells: &Cells) -> (usize, Option<HostId>) {
        self.spent.extend(cells.values().filter_map(|piece| piece.kept));
        let fresh = cells.values().filter(|piece| piece.kept.is_none()).count();
        (fresh, cells.values().find_map(|piece| piece.part.host.clone()))
    }

    fn storage(&mut self, instants: BTreeMap<Timestamp, Cells>, rules: &JoinRules, now: Timestamp) {
        let last = last_of(&instants);
        for (at, cells) in instants {
            let Some(first) = cells.values().next().map(|piece| piece.part.clone()) else { continue };
            if rules.storage == Series::One && cells.len() > 1 {
                self.set_all_aside(cells, PartFault::Ambiguous);
            } else if rules.storage == Series::Sum && !is_complete(&cells, at, &last, rules, now) {
                self.keep_all(cells);
            } else if let Some(storage) = sum(&cells).and_then(mebibytes) {
                let (fresh, host) = self.take(&cells);
                let seen = Seen::AtRest(StorageReport { at, storage });
                let sample = Sample { account: first.account, sandbox: first.sandbox, seen };
                self.whole.push(Whole { sample, host, fresh });
            } else {
                self.set_all_aside(cells, PartFault::TooLarge);
            }
        }
    }

    fn running(&mut self, lease: Option<&LeaseId>, parts: Running, rules: &JoinRules, now: Timestamp) {
        let last = last_of(&parts.cpu);
        let mut used: BTreeSet<Timestamp> = BTreeSet::new();
        let mut waits = false;
        for (at, cells) in parts.cpu {
            let overdue = cells.values().all(|piece| is_overdue(piece, rules, now));
            let complete = rules.cpu == Series::One || is_complete(&cells, at, &last, rules, now);
            let Ok(told) = epoch_of(&cells) else {
                self.set_all_aside(cells, PartFault::Conflict);
                continue;
            };
            let epoch = if rules.start { epoch_at(&parts.starts, at) } else { Some((told.unwrap_or(0), at)) };
            let memory = memory_at(&parts.memories, at);
            let Some((first, lease)) = cells.values().next().map(|piece| piece.part.clone()).zip(lease) else {
                self.set_all_aside(cells, PartFault::NoEpoch);
                continue;
            };
            if rules.cpu == Series::One && cells.len() > 1 {
                self.set_all_aside(cells, PartFault::Ambiguous);
                continue;
            }
            let waits_for_memory = rules.memory && memory.is_none() && !overdue;
            let (Some((epoch, seen_at)), true, false) = (epoch, complete, waits_for_memory) else {
                if overdue {
                    self.set_all_aside(cells, PartFault::NoEpoch);
                } else {
                    waits = true;
                    self.keep_all(cells);
                }
                continue;
            };
            let Some(cpu_usage_us) = sum(&cells).filter(|sum| *sum <= COUNTER_MAX) else {
                self.set_all_aside(cells, PartFault::TooLarge);
                continue;
            };
            // A look after this instant may still be what a later one needs.
            used.extend(
                memory.map(|(_, seen_at)| seen_at).into_iter().chain([seen_at]).filter(|seen_at| *seen_at == at),
            );
            let memory = memory.and_then(|(bytes, _)| mebibytes(bytes)).filter(|memory| *memory > MebiBytes::ZERO);
            let (fresh, host) = self.take(&cells);
            let reading = Reading { at, epoch, cpu_usage_us, memory, storage: None };
            let seen = Seen::Running(lease.clone(), reading);
            let sample = Sample { account: first.account, sandbox: first.sandbox, seen };
            self.whole.push(Whole { sample, host, fresh });
        }
        self.observed(parts.starts, |part| part.value, waits, &used, rules, now);
        self.observed(parts.memories, |_| 0, waits, &used, rules, now);
    }

    /// What was seen of a counter or its memory is kept while a part may still need it: the latest of each `of`, unless a
    /// sample of that very instant had it and none waits.
    fn observed(
        &mut self,
        pieces: Vec<Piece>,
        of: impl Fn(&Part) -> i64,
        waits: bool,
        used: &BTreeSet<Timestamp>,
        rules: &JoinRules,
        now: Timestamp,
    ) {
        let mut latest: BTreeMap<i64, Piece> = BTreeMap::new();
        for piece in pieces {
            let known = latest.remove(&of(&piece.part));
            let (newer, older) = match known {
                Some(known) if known.part.at >= piece.part.at => (known, Some(piece)),
                other => (piece, other),
            };
            if let Some(older) = older {
                self.drop_piece(&older);
            }
            latest.insert(of(&newer.part), newer);
        }
        for piece in latest.into_values() {
            if !waits && (used.contains(&piece.part.at) || is_overdue(&piece, rules, now)) {
                self.drop_piece(&piece);
            } else if piece.kept.is_none() {
                self.keep.push(piece.part);
            }
        }
    }
}

/// Whether all series that are known have gone on, or there is no more to wait for.
fn is_complete(
    cells: &Cells,
    at: Timestamp,
    last: &BTreeMap<String, Timestamp>,
    rules: &JoinRules,
    now: Timestamp,
) -> bool {
    last.values().all(|last| *last > at) || cells.values().all(|piece| is_overdue(piece, rules, now))
}

fn sum(cells: &Cells) -> Option<i64> {
    cells.values().try_fold(0_i64, |sum, piece| sum.checked_add(piece.part.value))
}

/// The epoch that an instant's cells say; an error where they say several.
fn epoch_of(cells: &Cells) -> Result<Option<i64>, ()> {
    let mut told = cells.values().map(|piece| piece.part.epoch);
    let first = told.next().flatten();
    if told.all(|epoch| epoch == first) { Ok(first) } else { Err(()) }
}

/// Bytes as MiB, what is begun counting as whole; `None` beyond the bound of a sandbox.
fn mebibytes(bytes: i64) -> Option<MebiBytes> {
    let whole = bytes.checked_div(MEBIBYTE_BYTES)?;
    let begun = i64::from(bytes.checked_rem(MEBIBYTE_BYTES)? != 0);
    MebiBytes::new(whole.checked_add(begun)?)
}

/// The start of the counter that ran at `at`, and when it was seen; see the module.
fn epoch_at(starts: &[Piece], at: Timestamp) -> Option<(i64, Timestamp)> {
    let fit = starts.iter().map(|piece| &piece.part).filter(|part| part.at >= at && part.value <= at.ms());
    fit.max_by_key(|part| (part.value, part.at)).map(|part| (part.value, part.at))
}

/// The first look at the memory at or after `at`, in bytes, and when it was.
fn memory_at(memories: &[Piece], at: Timestamp) -> Option<(i64, Timestamp)> {
    let fit = memories.iter().map(|piece| &piece.part).filter(|part| part.at >= at);
    fit.min_by_key(|part| part.at).map(|part| (part.value, part.at))
}
