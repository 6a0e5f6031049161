//! Integration tests: one binary.

mod postgres;
mod store;
