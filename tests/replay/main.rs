//! Replay, held against a second, naive computation of the same bills.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    reason = "a test that can't go on should stop at once"
)]

mod bills;
mod naive;
mod steps;
