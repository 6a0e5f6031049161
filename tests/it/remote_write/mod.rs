//! Prometheus remote write: payloads that the tests write byte by byte, captured ones, and the real Prometheus.

#![expect(clippy::float_arithmetic, reason = "what Prometheus sends is floats")]

mod captures;
mod cases;
mod exporter;
mod payload;
mod prometheus;
mod settings;
mod trouble;
