//! The HTTP edge: requests to commands and queries of the ledger, answers to JSON. No rule of the business is here.
//!
//! Order of checks: the token (401), what its role may do (403, or 404 where a thing is another account's), then the
//! path, the query and the body (404, 405, 413, 415, 400, 422), then the ledger. Whatever fails is a problem document.

mod answer;
mod auth;
mod encoding;
mod extract;
mod inlet;
mod invoice_path;
mod layers;
mod openapi;
mod outlet;
mod press;
mod problem;
mod router;
#[expect(unused_qualifications, reason = "the attribute that documents a route qualifies its parameters")]
mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use openapi::openapi_json;
pub use press::Press;
pub use router::router;
pub use server::serve;

use crate::clock::Clock;
use crate::ingest::remote_write::mapping::Mapping;
use crate::ledger::Ledger;
use crate::report::Seller;
use crate::telemetry::metrics::Metrics;

/// What the routes need.
#[derive(Clone)]
pub struct AppState {
    /// Decides and remembers everything.
    pub ledger: Ledger,
    /// Only the test clock's route reads or moves it.
    pub clock: Clock,
    /// Who sends invoices.
    pub seller: Seller,
    /// Makes files for people, a few at once.
    pub press: Press,
    /// Where requests are counted.
    pub metrics: Metrics,
    /// Bounds.
    pub settings: HttpSettings,
    /// What the series of remote write are.
    pub remote_write: Arc<Mapping>,
}

/// The state as routes share it: one allocation, never copied by a request.
type Shared = Arc<AppState>;

/// Bounds of the HTTP edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Most requests being answered at once; more are refused with 503. Bounds memory: at most this many bodies.
    pub requests_in_flight_max: usize,
    /// Longest time to answer a request; then 503. A caller that waits longer has given up.
    pub request_timeout: Duration,
    /// Largest body, in bytes; a thousand leases take a third of it.
    pub body_bytes_max: usize,
    /// Largest body of samples, in bytes after decompression; ten thousand samples take a quarter of it.
    pub samples_bytes_max: usize,
}

impl Default for HttpSettings {
    /// 1,024 requests, 30 s, 1 MiB, 8 MiB.
    fn default() -> Self {
        Self {
            requests_in_flight_max: 1_024,
            request_timeout: Duration::from_secs(30),
            body_bytes_max: 1_048_576,
            samples_bytes_max: 8_388_608,
        }
    }
}
