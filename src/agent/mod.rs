//! The agent of a host: finds its sandboxes, reads their counters, keeps the readings on disk and sends them until a server
//! has answered for each. What operators need to know is in `docs/AGENT.md`.
//!
//! Reading order: `sandbox.rs` and `registry.rs` (what runs here), `source.rs` with `cgroup.rs`, `cgroup1.rs`, `proc.rs`,
//! `replay.rs`, `storage.rs` and `host.rs` (what the machine says), `clock.rs` and `schedule.rs` (time), `epochs.rs` (what
//! a counter means), `sampler.rs` and `row.rs` (a round), `spool/` (on disk), `meter.rs` and `state.rs` (the half that
//! reads), `push.rs` and `transport.rs` (the half that sends), `orders.rs`, `watch.rs`, `api.rs`, `run.rs` (the process).
//!
//! Invariants: a row that was read is on disk or, while the disk takes none, the latest of its lease is in memory; what no
//! server has answered is never dropped uncounted; one request is under way at a time; a label is later than the one
//! before. Time, the machine and the server's answers are arguments of all of it but `run.rs` and `transport.rs`, so tests
//! play days of failures in no time.

pub mod api;
pub mod cgroup;
mod cgroup1;
pub mod clock;
pub mod epochs;
pub mod host;
pub mod meter;
pub mod orders;
pub mod proc;
pub mod push;
pub mod registry;
pub mod replay;
pub mod row;
pub mod run;
pub mod sampler;
pub mod sandbox;
pub mod schedule;
pub mod source;
pub mod spool;
pub mod state;
pub mod storage;
pub mod transport;
pub mod watch;
