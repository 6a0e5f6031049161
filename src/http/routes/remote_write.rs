//! Prometheus remote write: what is good is taken, what is not is set aside, and the answer is 204 either way.

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::IntoResponse;

use crate::http::Shared;
use crate::http::auth::Reporter;
use crate::http::extract::{NoQuery, read_body};
use crate::http::problem::{Answer, Failure};
use crate::ingest::remote_write::message::{BadBody, Version, inflate};
use crate::ingest::remote_write::translate;
use crate::ledger::parts::Taken;
use crate::telemetry::metrics::Metrics;
use crate::wire::problem::Code;

const SAMPLES_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-samples-written");
const HISTOGRAMS_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-histograms-written");
const EXEMPLARS_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-exemplars-written");

/// Takes samples from a Prometheus, remote write 1.0 or 2.0 by the content type, as a snappy block of at most 8 MiB when it
/// is inflated. What can't be used is kept aside (`GET /v1/rejected`). Senders drop what is refused and repeat what is
/// answered 503, so a request is refused only where it can't be read at all.
#[utoipa::path(post, path = "/v1/remote-write", operation_id = "remote_write", tag = "samples",
    request_body(content = String, content_type = "application/x-protobuf"),
    responses((status = 204, description = "Taken. To 2.0 with the counts of what was written.",
        headers(("X-Prometheus-Remote-Write-Samples-Written" = u64), ("X-Prometheus-Remote-Write-Histograms-Written" = u64),
            ("X-Prometheus-Remote-Write-Exemplars-Written" = u64)))))]
pub(in crate::http) async fn write(
    Reporter(host): Reporter,
    _: NoQuery,
    State(state): State<Shared>,
    request: Request,
) -> Answer {
    let version = negotiated(request.headers())?;
    let bytes_max = state.settings.samples_bytes_max;
    let body = read_body(request, bytes_max).await?;
    let message = inflate(&body, bytes_max)?;
    drop(body);
    let request = translate(version, message, &state.remote_write, host.as_ref())?;
    let taken = state.ledger.take_parts(host, request.parts, &state.remote_write.rules()).await?;
    count(&state.metrics, &taken, request.stale, request.passed_over);
    let mut headers = HeaderMap::new();
    if version == Version::V2 {
        // What says "unknown from here" is understood; what is passed over or another replica's is not written.
        let written = taken.written.saturating_add(request.stale);
        headers.insert(SAMPLES_WRITTEN, HeaderValue::from(written));
        headers.insert(HISTOGRAMS_WRITTEN, HeaderValue::from(0));
        headers.insert(EXEMPLARS_WRITTEN, HeaderValue::from(0));
    }
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}

/// Which version a request is of; 415 where it is of none that is taken.
fn negotiated(headers: &HeaderMap) -> Result<Version, Failure> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let version = text(CONTENT_TYPE).and_then(Version::of_content_type);
    let is_snappy = text(CONTENT_ENCODING).is_some_and(|encoding| encoding.trim().eq_ignore_ascii_case("snappy"));
    version.filter(|_| is_snappy).ok_or_else(|| {
        Failure::new(
            Code::UnsupportedMediaType,
            "send Content-Encoding: snappy and Content-Type: application/x-protobuf, with proto=prometheus.WriteRequest \
             (or none) or proto=io.prometheus.write.v2.Request",
        )
    })
}

impl From<BadBody> for Failure {
    fn from(bad: BadBody) -> Self {
        match bad {
            BadBody::NotSnappy => Self::new(Code::NotJson, "the body is no block of snappy"),
            BadBody::TooLarge => Self::new(Code::PayloadTooLarge, "send fewer samples in one request"),
            BadBody::NotTheMessage => Self::new(Code::NotJson, "the body is not the message that its type says"),
        }
    }
}

fn count(metrics: &Metrics, taken: &Taken, stale: usize, passed_over: usize) {
    let many = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    metrics.samples("accepted", many(taken.accepted));
    metrics.samples("duplicate", many(taken.duplicates));
    for (code, count) in &taken.rejected {
        metrics.samples(code, many(*count));
    }
    for (outcome, count) in [
        ("written", taken.written),
        ("waiting", taken.waiting),
        ("other_replica", taken.replicated),
        ("stale_marker", stale),
        ("passed_over", passed_over),
    ] {
        metrics.remote_write(outcome, many(count));
    }
}
