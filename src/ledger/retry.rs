//! Trying a batch again: when, how often, and what is told where a commit's outcome was not known.
//!
//! [`StoreError::Again`]: the database undid the batch, or was lost before its commit. Nothing is done; the whole batch
//! is carried out again from its first lock on. [`StoreError::Unknown`]: the connection was lost during the commit. It is
//! not guessed: the same batch is carried out again, and finds what it did by its ids, or does it now. That is exact,
//! for every command is idempotent: admissions and extensions by their ids, samples by lease and instant, ends and
//! settling by the lease's state, customers by their ids. Changes that set a value (a limit, a status, a secret) are set
//! again: nobody was told of the first time, so the second is when they happened.
//!
//! What the first run saw itself make, and the second finds made, is told as made (201, and a sample as accepted): this
//! very command may have made it. An identical request that another engine carried out at that moment is told so too;
//! nobody could tell them apart. A new key is told apart by its secret.
//!
//! Stop rule: at most [`ATTEMPTS_MAX`] attempts, with pauses that double and vary, all within
//! [`BatchLimits::batch_ms_max`](super::batch::BatchLimits::batch_ms_max); then the answer is unavailable.

use std::time::Duration;

use super::Answer;
use super::alone::AloneAnswer;
use super::batch::Passed;
use super::command::{CommandError, SampleOutcome};
use super::lives::LifeAnswer;
use crate::store::StoreError;

/// Most times that a batch is carried out.
const ATTEMPTS_MAX: u32 = 8;
/// The first pause, in milliseconds; the next ones are twice as long each. Each varies by as much again, so that two
/// engines that met don't meet again.
const PAUSE_MS: u64 = 2;

/// Why a batch was not committed, or not known to be.
#[derive(Debug)]
pub(super) struct Failed<T> {
    error: StoreError,
    /// What would have been answered, where the outcome of the commit is not known.
    undecided: Option<T>,
}

impl<T> From<StoreError> for Failed<T> {
    fn from(error: StoreError) -> Self {
        Self { error, undecided: None }
    }
}

impl<T> Failed<T> {
    /// A commit that failed, and what it would have answered.
    pub(super) fn at_commit(error: StoreError, answers: T) -> Self {
        let undecided = matches!(error, StoreError::Unknown(_)).then_some(answers);
        Self { error, undecided }
    }
}

impl<T> Failed<T> {
    /// Whether a row was not what it was assumed to be.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self.error, StoreError::Stale(_))
    }

    /// Whether the batch was undone and may be carried out again at once.
    pub(super) fn is_undone(&self) -> bool {
        matches!(self.error, StoreError::Again(_) | StoreError::Stale(_))
    }
}

impl<T> Failed<Answer<T>> {
    /// Of a command that is carried out alone: a constraint was broken because somebody else made the same just before
    /// (what has no row yet can't be locked), so it is looked at again.
    pub(super) fn of_one(self) -> Self {
        match self.error {
            StoreError::Constraint(detail) => StoreError::Again(detail).into(),
            error => Self { error, undecided: self.undecided },
        }
    }
}

impl<T> Failed<T> {
    /// Of a batch that took commands for new: a constraint that was broken may be what they inserted.
    pub(super) fn of_new(self) -> Self {
        match self.error {
            StoreError::Constraint(detail) => StoreError::Stale(detail).into(),
            error => Self { error, undecided: self.undecided },
        }
    }
}

/// What can be told twice.
pub(super) trait Told: Sized {
    /// What to tell where `first` may have been committed, and `again` was.
    fn then(first: Self, again: Self) -> Self;
}

/// The attempts at one batch.
#[derive(Debug)]
pub(super) struct Attempts<T> {
    made: u32,
    first: Option<T>,
}

impl<T: Told> Attempts<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { made: 0, first: None }
    }

    /// What to answer after an attempt; `None`, after a pause, to make another.
    pub(super) async fn after(&mut self, outcome: Result<T, Failed<T>>) -> Option<Result<T, StoreError>> {
        self.made = self.made.saturating_add(1);
        let failed = match outcome {
            Ok(answers) => return Some(Ok(self.told(answers))),
            Err(failed) => failed,
        };
        if let Some(undecided) = failed.undecided {
            self.first = Some(self.told(undecided));
        }
        match failed.error {
            StoreError::Again(detail) | StoreError::Stale(detail) | StoreError::Unknown(detail)
                if self.made < ATTEMPTS_MAX =>
            {
                tracing::debug!(%detail, attempt = self.made, "a batch is tried again");
                tokio::time::sleep(pause(self.made)).await;
                None
            }
            error => Some(Err(error)),
        }
    }

    /// Whether an earlier attempt may have been committed.
    pub(super) fn may_be_done(&self) -> bool {
        self.first.is_some()
    }

    fn told(&mut self, answers: T) -> T {
        match self.first.take() {
            Some(first) => T::then(first, answers),
            None => answers,
        }
    }
}

/// The pause after an attempt.
fn pause(made: u32) -> Duration {
    let base_ms = PAUSE_MS.checked_shl(made).unwrap_or(PAUSE_MS);
    let mut random = [0; 1];
    // Without randomness two engines may meet again; the stop rule holds.
    let varied = if getrandom::fill(&mut random).is_ok() { u64::from(random[0]) } else { 0 };
    Duration::from_millis(base_ms.saturating_add(base_ms.saturating_mul(varied) / 256))
}

impl<T: Told> Told for Vec<T> {
    fn then(first: Self, again: Self) -> Self {
        first.into_iter().zip(again).map(|(first, again)| T::then(first, again)).collect()
    }
}

impl Told for Answer<Passed> {
    fn then(first: Self, mut again: Self) -> Self {
        if let (Ok(Passed::Admitted(first)), Ok(Passed::Admitted(known))) = (&first, &mut again) {
            known.fresh |= first.fresh;
        }
        again
    }
}

impl Told for Answer<LifeAnswer> {
    fn then(_: Self, again: Self) -> Self {
        again
    }
}

impl Told for SampleOutcome {
    fn then(first: Self, again: Self) -> Self {
        match (first, again) {
            (Self::Accepted, Self::Duplicate) => Self::Accepted,
            (_, again) => again,
        }
    }
}

impl Told for Answer<AloneAnswer> {
    fn then(first: Self, mut again: Self) -> Self {
        match (&first, &mut again) {
            (Ok(AloneAnswer::Account(first)), Ok(AloneAnswer::Account(known))) => known.fresh |= first.fresh,
            (Ok(AloneAnswer::Grant(first)), Ok(AloneAnswer::Grant(known))) => known.fresh |= first.fresh,
            (Ok(AloneAnswer::RateCard(first)), Ok(AloneAnswer::RateCard(known))) => known.fresh |= first.fresh,
            // What was removed is not found again.
            (Ok(AloneAnswer::Done), Err(CommandError::NotFound(_))) => return first,
            (_, _) => {}
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::{ATTEMPTS_MAX, Attempts, Failed, SampleOutcome, pause};
    use crate::store::StoreError;

    fn again() -> Result<Vec<SampleOutcome>, Failed<Vec<SampleOutcome>>> {
        Err(StoreError::Again("a deadlock".to_owned()).into())
    }

    #[tokio::test]
    async fn attempts_end() {
        let mut attempts = Attempts::new();
        for _ in 1..ATTEMPTS_MAX {
            assert_eq!(attempts.after(again()).await, None);
        }
        assert!(matches!(attempts.after(again()).await, Some(Err(StoreError::Again(_)))));
        assert!(pause(ATTEMPTS_MAX).as_millis() < 1_100);
    }

    #[tokio::test]
    async fn what_may_have_been_done_is_told_as_done() {
        let mut attempts = Attempts::new();
        let unknown = StoreError::Unknown("the connection was lost".to_owned());
        let first = vec![SampleOutcome::Accepted, SampleOutcome::Duplicate];
        assert_eq!(attempts.after(Err(Failed::at_commit(unknown, first))).await, None);
        assert_eq!(attempts.after(again()).await, None);
        let found = vec![SampleOutcome::Duplicate, SampleOutcome::Duplicate];
        let told = attempts.after(Ok(found)).await;
        assert_eq!(told, Some(Ok(vec![SampleOutcome::Accepted, SampleOutcome::Duplicate])));
    }

    #[tokio::test]
    async fn what_can_not_be_done_is_told_at_once() {
        let mut attempts = Attempts::<Vec<SampleOutcome>>::new();
        let told = attempts.after(Err(StoreError::Overflow.into())).await;
        assert_eq!(told, Some(Err(StoreError::Overflow)));
    }
}
