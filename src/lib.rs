//! runtab: the usage metering and billing engine of a microVM sandbox cloud.
//!
//! Modules, in layers; imports point down only.

#![cfg_attr(test, expect(clippy::arithmetic_side_effects, reason = "a test may panic; what it tests may not"))]

// layer 0: pure
pub mod domain;
// layer 1: adapters
pub mod report;
pub mod store;
// layer 2: load, apply, save
pub mod ledger;
// layer 3: edges
pub mod agent;
pub mod http;
pub mod ingest;
pub mod jobs;
pub mod wire;
// layer 4: choose and wire
pub mod cli;
// beside them
pub mod clock;
pub mod config;
pub mod secret;
pub mod telemetry;
