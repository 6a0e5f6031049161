//! Samples from the outside world.

pub mod ndjson;
