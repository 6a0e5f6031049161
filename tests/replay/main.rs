//! Replay, held against a second, naive computation of the same bills.

mod bills;
mod naive;
mod steps;
