//! The engine as its callers see it: a real process, real HTTP, and the figures of the cases to the unit.
//!
//! Every test starts an engine of its own on a database of its own with a clock that stands still, so tests run in
//! parallel, in any order, and wait for nothing. See `docs/API.md` for the wire that they speak.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that can't go on should stop at once, and its figures are small"
)]

mod cases;
mod harness;
mod tidy;
