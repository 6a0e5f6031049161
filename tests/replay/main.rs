//! Replay, held against a second, naive computation of the same bills.

#![expect(clippy::arithmetic_side_effects, reason = "exact rationals can't overflow, and figures of tests are small")]

#[cfg(test)]
mod bills;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod steps;
