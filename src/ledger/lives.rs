//! A batch about the lives of leases and sandboxes: ends, moves, registrations, deletions, settling; and what is kept
//! beside samples.

use std::collections::BTreeSet;

use super::aside::Keep;
use super::command::{DeleteSandbox, EndLease, MoveLease, PutSandbox};
use super::working_set::{LeaseKey, WorkingSet};
use super::{Answer, aside, load};
use crate::domain::lease::Lease;
use crate::store::{StoreError, Tx};

/// A command of this lane.
#[derive(Clone, Debug)]
pub enum Life {
    /// A lease ended.
    End(EndLease),
    /// A lease runs on another host.
    Move(MoveLease),
    /// A sandbox without a lease.
    Put(PutSandbox),
    /// A sandbox is gone.
    Delete(DeleteSandbox),
    /// These leases' time to settle may have come.
    Settle(BTreeSet<LeaseKey>),
    /// What came with samples and is none.
    Keep(Box<Keep>),
}

/// What such a command answers.
#[derive(Clone, Debug)]
pub enum LifeAnswer {
    /// The lease as it is now.
    Lease(Box<Lease>),
    /// Done.
    Done,
}

/// Loads and carries out a batch. Answers in the order of the commands.
pub async fn carry_out(
    tx: &mut Tx,
    set: &mut WorkingSet,
    commands: &[Life],
) -> Result<Vec<Answer<LifeAnswer>>, StoreError> {
    let mut leases: BTreeSet<LeaseKey> = BTreeSet::new();
    let (mut ends, mut puts, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    for command in commands {
        match command {
            Life::End(end) => {
                leases.insert((end.account.clone(), end.lease.clone()));
                ends.push(end);
            }
            Life::Move(moved) => drop(leases.insert((moved.account.clone(), moved.lease.clone()))),
            Life::Put(put) => puts.push(put),
            Life::Delete(delete) => deletes.push(delete),
            Life::Settle(due) => leases.extend(due.iter().cloned()),
            Life::Keep(_) => {}
        }
    }
    load::lives(tx, set, &leases, &ends, &puts, &deletes).await?;
    aside::load(tx, set, commands).await?;
    Ok(commands.iter().map(|command| apply(set, command)).collect())
}

fn apply(set: &mut WorkingSet, command: &Life) -> Answer<LifeAnswer> {
    match command {
        Life::End(end) => set.end(end).map(|lease| LifeAnswer::Lease(Box::new(lease))),
        Life::Move(moved) => set.move_lease(moved).map(|lease| LifeAnswer::Lease(Box::new(lease))),
        Life::Put(put) => set.put_new_sandbox(put).map(|()| LifeAnswer::Done),
        Life::Delete(delete) => set.delete_sandbox(delete).map(|()| LifeAnswer::Done),
        Life::Keep(keep) => {
            set.keep(keep);
            Ok(LifeAnswer::Done)
        }
        Life::Settle(due) => {
            for key in due {
                set.lease_for_change(key)?;
            }
            Ok(LifeAnswer::Done)
        }
    }
}
