//! What can go wrong in the store, chosen by what the caller can do about it.

use crate::domain::Overflow;

/// Why the store did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database did not answer in time, is busy, full or read-only. Nothing is known to be done; try again.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The database undid the batch, or the connection was lost before its commit: nothing is done, and the same batch
    /// may well go through at once (a deadlock, a lock not got in time, a server that went away, rows that came between).
    #[error("the database undid a batch: {0}")]
    Again(String),
    /// A row is no longer what it was assumed to be: nothing is done, and the same batch goes through when it is read.
    #[error("a row is not what it was assumed to be: {0}")]
    Stale(String),
    /// The connection was lost during the commit: it may be done or not. Only reading the ids again can tell.
    #[error("whether the database kept a batch is not known: {0}")]
    Unknown(String),
    /// A quantity does not fit the 64 bits of a column. Nothing was saved.
    #[error("a quantity is too large to be kept exactly")]
    Overflow,
    /// What is stored can't be read back: a bug, or somebody else wrote it.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
    /// A rule of the schema was broken: two running leases of one sandbox, a key taken twice, evidence rewritten.
    #[error("a constraint of the database was broken: {0}")]
    Constraint(String),
}

impl From<Overflow> for StoreError {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

impl StoreError {
    /// [`StoreError::Corrupt`] about something by name.
    pub(super) fn corrupt(what: &str) -> Self {
        Self::Corrupt(what.to_owned())
    }
}
