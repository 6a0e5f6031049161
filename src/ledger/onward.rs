//! The next batch at the gate begins along with the commit of the one before, where nobody else writes.
//!
//! Each text that is sent to the database is a wait for its thread, and its answer a wait for ours. While commands wait
//! that are probably about the same accounts, keys and days as those before them, what they will be decided on is asked
//! for in the text that commits: so a batch takes one such wait instead of two. It is read within the next transaction,
//! which writes only where nobody else wrote since, so it is as good as if it had been asked for later. Where the next
//! batch needs more, it asks for all of it, in that same transaction.
//!
//! Whoever else wants to write comes in between after a few batches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Engine;
use super::load::{About, Asks, Early};
use super::retry::Failed;
use super::working_set::WorkingSet;
use crate::domain::time::Timestamp;
use crate::store::changes::Changes;
use crate::store::decision::{Asked, Found, Held};
use crate::store::{Lane, StoreError, Tx};

/// For how long batches begin one right after another before somebody else may have a turn.
const IN_A_ROW: Duration = Duration::from_millis(20);
/// Accounts, secrets and keys' days of a batch, after which the next is probably about the same.
const SAME_MAX: usize = 4;

/// What the next batch at the gate may find begun.
#[derive(Debug, Default)]
pub(super) struct Onward {
    begun: Option<Begun>,
    /// Since when they begin in a row.
    since: Option<Instant>,
    /// Whether the batch under way began so: only what it writes tells that nobody else has written since.
    only_read: bool,
}

/// A transaction that has begun, and what it has answered already.
#[derive(Debug)]
struct Begun {
    tx: Tx,
    about: About,
    held: Held,
    /// Of no lease and no sandbox.
    found: Found,
}

/// A batch at the gate that has begun.
pub(super) struct Start {
    /// Its transaction.
    pub(super) tx: Tx,
    /// What was asked about.
    pub(super) about: About,
    /// Whom it is about, and who asks.
    pub(super) held: Held,
    /// What is found already.
    pub(super) early: Option<Early>,
}

impl Onward {
    /// Whether the next batch has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    fn may_go_on(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < IN_A_ROW)
    }

    /// Lets others have their turn.
    pub(super) fn let_go(&mut self) {
        *self = Self::default();
    }
}

impl Engine {
    /// Begins a batch, or finds it begun. `now`: not later than its time.
    pub(super) async fn start(
        &self,
        asks: &Asks<'_>,
        secrets: Vec<[u8; 32]>,
        now: Timestamp,
        onward: &mut Onward,
    ) -> Result<Start, StoreError> {
        let about = asks.about(secrets, now);
        onward.only_read = onward.has_begun();
        let mut tx = if let Some(Begun { tx, about: known, held, found }) = onward.begun.take() {
            self.store.is_well()?;
            if asks.needs_no_lease() && about.is_within(&known) {
                let early = Some(Early { days: known.days.clone(), found });
                return Ok(Start { tx, about: known, held, early });
            }
            tx
        } else {
            onward.since = Some(Instant::now());
            self.store.begin(Lane::Decision).await?
        };
        let (held, early) = asks.hold(&mut tx, &about, now).await?;
        Ok(Start { tx, about, held, early })
    }

    /// [`Engine::finish`]; and where more waits, begins the next batch.
    pub(super) async fn finish_and_go_on<T>(
        &self,
        tx: Tx,
        set: &WorkingSet,
        answers: T,
        about: About,
        onward: &mut Onward,
        more_waits: impl Fn() -> bool,
    ) -> Result<T, Failed<T>> {
        if set.changes == Changes::default() {
            let only_read = onward.only_read;
            onward.let_go();
            let again = || StoreError::Again("a batch that began with a commit writes nothing".to_owned());
            return if only_read { Err(again().into()) } else { Ok(answers) };
        }
        let mut tx = tx;
        tx.save(&set.changes).await?;
        let may_go_on = !tx.is_shared() && about.is_small(SAME_MAX) && onward.may_go_on();
        let next = if may_go_on && more_waits() {
            let About { secrets, accounts, days } = &about;
            let asked = Asked { accounts, leases: &BTreeSet::new(), sandboxes: &BTreeMap::new(), days };
            tx.commit_and_hold(secrets, &asked).await
        } else {
            tx.commit_early().await.map(|()| None)
        };
        match next {
            Ok(Some((tx, held, found))) => {
                onward.begun = Some(Begun { tx, about, held, found });
            }
            Ok(None) => onward.let_go(),
            Err(error) => {
                onward.let_go();
                return Err(Failed::at_commit(error, answers));
            }
        }
        self.committed(set);
        Ok(answers)
    }
}
