//! Probes, metrics, the API document and the test clock.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::ok;
use crate::http::auth::Admin;
use crate::http::extract::{JsonBody, NoQuery};
use crate::http::problem::{Answer, Failure};
use crate::http::{Shared, openapi_json};
use crate::telemetry::metrics::LedgerCounts;
use crate::wire::problem::{Code, Problem};
use crate::wire::test_clock::TestClock;

/// Made once: anybody may ask for it.
static DOCUMENT: LazyLock<String> = LazyLock::new(openapi_json);

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", operation_id = "alive", tag = "operations",
    responses((status = 200, description = "It is.", body = String, content_type = "text/plain")))]
pub(in crate::http) async fn alive() -> &'static str {
    "ok\n"
}

/// Whether the store answers, and there is somebody to take commands.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "operations",
    responses((status = 200, description = "It does.", body = String, content_type = "text/plain"),
        (status = 503, description = "It does not.", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn ready(State(state): State<Shared>) -> Answer {
    state.ledger.ready().await?;
    Ok("ok\n".into_response())
}

/// Metrics in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operations",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"),
        (status = 500, description = "A fault of ours.", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn metrics(State(state): State<Shared>) -> Answer {
    let text = state.metrics.exposition(&counts(&state)).map_err(|error| Failure::internal(&error))?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn counts(state: &Shared) -> LedgerCounts {
    let tally = state.ledger.tally();
    LedgerCounts {
        batches: tally.batches.load(Ordering::Relaxed),
        admitted: tally.admitted.load(Ordering::Relaxed),
        refused: tally.refused.load(Ordering::Relaxed),
        recalls: [
            ("right", tally.recalled.load(Ordering::Relaxed)),
            ("in_vain", tally.recalled_in_vain.load(Ordering::Relaxed)),
        ],
        taken_for_new: [
            ("right", tally.taken_for_new.load(Ordering::Relaxed)),
            ("in_vain", tally.taken_for_new_in_vain.load(Ordering::Relaxed)),
        ],
        late_micros: tally.late.micros(),
        repriced_micros: tally.repriced.micros(),
        stale_leases: tally.stale.load(Ordering::Relaxed),
        unbilled_ms: tally.unbilled_ms(),
        verified_accounts: tally.verified_accounts.load(Ordering::Relaxed),
        verified_differences: tally.verified_differences.load(Ordering::Relaxed),
        verified_at_seconds: tally.verified_at_seconds.load(Ordering::Relaxed),
    }
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "document", tag = "operations",
    responses((status = 200, description = "The document.", body = Object, content_type = "application/json")))]
pub(in crate::http) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// Moves the test clock forward; 404 unless the server runs with one.
#[utoipa::path(put, path = "/v1/test-clock", operation_id = "move_test_clock", tag = "operations",
    request_body = TestClock, responses((status = 200, description = "What it shows now.", body = TestClock)))]
pub(in crate::http) async fn move_test_clock(
    _: Admin,
    State(state): State<Shared>,
    _: NoQuery,
    body: JsonBody,
) -> Answer {
    if !state.clock.is_test() {
        return Err(Failure::not_found());
    }
    let now = body.read(TestClock::read)?;
    if state.clock.advance_to(now) {
        ok(TestClock::at(now))
    } else {
        Err(Failure::new(Code::Conflict, "the test clock never goes back"))
    }
}
