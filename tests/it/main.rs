//! The engine as its callers see it: a real process, real HTTP, and the figures of the cases to the unit; and the
//! contract of the store that both back ends keep.
//!
//! Every test has a database of its own, and engines have a clock that stands still, so tests run in parallel, in any
//! order, and wait for nothing. See `docs/API.md` for the wire that they speak.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that can't go on should stop at once, and its figures are small"
)]

mod agent;
mod cases;
#[cfg(test)]
mod cli;
mod crash;
mod engines;
#[cfg(test)]
mod failover;
mod fuzzed;
mod golden;
mod harness;
mod paper;
#[cfg(test)]
mod postgres;
mod remote_write;
#[cfg(test)]
mod sizes;
#[cfg(test)]
mod store;
mod tidy;
mod upgrade;
