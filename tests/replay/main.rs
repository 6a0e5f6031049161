//! Replay, held against a second, naive computation of the same bills.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    reason = "a test that can't go on should stop at once"
)]
#![expect(clippy::arithmetic_side_effects, reason = "exact rationals can't overflow, and figures of tests are small")]

#[cfg(test)]
mod bills;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod steps;
