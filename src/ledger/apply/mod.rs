//! Applying commands: each is a pure function of the working set and the command; no I/O, no clock.
//!
//! A command that is refused leaves the working set as it was. The shell loads the rows that a command names before it
//! is applied ([`super::load`]), and saves the working set's changes afterwards.

pub mod admit;
pub mod customers;
pub mod end;
pub mod extend;
mod funds;
pub mod notes;
pub mod sample;
pub mod sandbox;
pub mod settle;
pub mod storage;
pub mod void;

use super::command::{CommandError, ConflictCode};
use crate::domain::Overflow;
use crate::domain::admission::Refusal;
use crate::domain::id::LeaseId;
use crate::domain::sample_page::{CorruptPage, PageError};

/// What applying a command answers.
pub type Applied<T> = Result<T, CommandError>;

/// What no rule foresees, and no command can go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A quantity does not fit: the input that led to it is refused.
    Overflow,
    /// A page of evidence does not read back: somebody else wrote it, or the disk failed.
    Corrupt,
}

impl From<Overflow> for Fault {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

impl From<CorruptPage> for Fault {
    fn from(_: CorruptPage) -> Self {
        Self::Corrupt
    }
}

impl From<PageError> for Fault {
    fn from(_: PageError) -> Self {
        Self::Corrupt
    }
}

impl From<Fault> for CommandError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Overflow => Self::Invalid { pointer: String::new(), detail: Overflow.to_string() },
            Fault::Corrupt => Self::Unavailable(CorruptPage.to_string()),
        }
    }
}

impl From<Overflow> for CommandError {
    fn from(overflow: Overflow) -> Self {
        Fault::from(overflow).into()
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::UnknownKey => Self::NotFound("key"),
            Refusal::LeaseRunning { lease } => Self::Conflict {
                code: ConflictCode::LeaseRunning,
                detail: format!("lease {lease} of this sandbox is on in the window asked for; end it, or replace it"),
                lease: Some(lease),
            },
            other => Self::Refused(other),
        }
    }
}

/// A conflict about a lease.
fn lease_conflict(lease: &LeaseId, detail: impl Into<String>) -> CommandError {
    CommandError::Conflict { code: ConflictCode::LeaseConflict, detail: detail.into(), lease: Some(lease.clone()) }
}

/// A conflict about any other id.
fn id_conflict(detail: impl Into<String>) -> CommandError {
    CommandError::Conflict { code: ConflictCode::Conflict, detail: detail.into(), lease: None }
}

/// A value that can't be taken.
fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> CommandError {
    CommandError::Invalid { pointer: pointer.into(), detail: detail.into() }
}
