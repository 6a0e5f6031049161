//! The store: the only SQL. A narrow port: load rows by key, save rows, a few reads; no business rule.
//!
//! A caller begins a [`Tx`] in a [`Lane`], locks and loads what a batch touches, and saves one
//! [`changes::Changes`]; or reads from a snapshot ([`Store::read`]). Loads answer the core's own types; a row that is
//! not there is simply absent from the answer.
//!
//! Ordering: locks are taken in statements of their own, in the order of keys; what is decided on is loaded in later
//! statements, so that it is what was committed when the lock was got. The caller keeps the order watermark,
//! accounts, leases, sandboxes, counters (DESIGN.md section 6).

mod error;
mod stub;

pub mod changes;
pub mod shapes;

pub use error::StoreError;

/// What the store answers.
pub type Answer<T> = Result<T, StoreError>;

/// Which writers share connections: a lane has its own, so that neither starves the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Admissions, limits, grants: what can raise what is committed.
    Decision,
    /// Samples, ends, settling.
    Meter,
}

/// Bounds of the connections to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most connections that write, a lane (PostgreSQL; SQLite has one writer in all).
    pub writers_max: u32,
    /// Most connections that read.
    pub readers_max: u32,
    /// Longest wait for a connection, a lock or a statement, in milliseconds; afterwards: unavailable.
    pub wait_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { writers_max: 2, readers_max: 4, wait_ms_max: 5_000 }
    }
}

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {}

/// A transaction: a batch that writes, or a snapshot to read. Dropped without a commit, it is rolled back.
#[derive(Debug)]
pub struct Tx {}
