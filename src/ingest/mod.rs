//! Samples from the outside world.

pub mod ndjson;
pub mod remote_write;
