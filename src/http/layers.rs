//! What every request passes through, outermost first: request id, trace, problems and metrics, panics, time limit,
//! bound of requests in flight, compression, and the token. Probes pass only the first five.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::error_handling::HandleErrorLayer;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::{DefaultOnFailure, DefaultOnResponse, TraceLayer};
use tracing::Level;

use super::Shared;
use super::auth;
use super::problem::{Failure, PROBLEM_JSON};
use crate::secret::hex;
use crate::wire::problem::Code;

/// Answers below this many bytes are not compressed: an admission's is not worth the work.
const COMPRESS_BYTES_MIN: u64 = 4_096;

/// The layers of the API: everything below `/v1`.
pub(super) fn for_api(api: Router<Shared>, state: &Shared) -> Router<Shared> {
    let shed = state.clone();
    let too_many = move |_: BoxError| {
        shed.metrics.request_shed();
        std::future::ready(Failure::new(Code::Unavailable, "too many requests at once; repeat it a little later"))
    };
    api.layer(
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(too_many))
            .layer(LoadShedLayer::new())
            .layer(GlobalConcurrencyLimitLayer::new(state.settings.requests_in_flight_max))
            .layer(CompressionLayer::new().compress_when(SizeAbove::new(COMPRESS_BYTES_MIN)))
            .layer(from_fn_with_state(state.clone(), auth::authenticate)),
    )
}

/// The layers of everything.
pub(super) fn for_all(router: Router<Shared>, state: &Shared) -> Router<Shared> {
    let trace = TraceLayer::new_for_http()
        .make_span_with(span)
        .on_request(())
        .on_body_chunk(())
        .on_eos(())
        .on_response(DefaultOnResponse::new().level(Level::DEBUG))
        .on_failure(DefaultOnFailure::new().level(Level::WARN));
    router.layer(
        ServiceBuilder::new()
            .layer(SetRequestIdLayer::x_request_id(CountedIds::new()))
            .layer(trace)
            .layer(PropagateRequestIdLayer::x_request_id())
            .layer(from_fn_with_state(state.clone(), observe))
            .layer(CatchPanicLayer::custom(panicked))
            .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, state.settings.request_timeout)),
    )
}

/// Fields of a request in the log: never a header but its id, never the query or the body.
fn span<B>(request: &axum::http::Request<B>) -> tracing::Span {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).unwrap_or("none");
    tracing::info_span!("request", method = %request.method(), route, path = request.uri().path(), id)
}

/// Counts and times the request, and makes a problem document of any failure that is none yet.
#[expect(clippy::disallowed_methods, reason = "telemetry: how long a request took decides nothing")]
async fn observe(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let in_flight = state.metrics.request_began();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = documented(next.run(request).await);
    drop(in_flight);
    // Costs and keys are nobody's to keep.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    state.metrics.request_answered(known(&method), route, response.status().as_str(), began.elapsed());
    response
}

/// The method, as a label of few values.
fn known(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

fn documented(response: Response) -> Response {
    let failed = response.status().is_client_error() || response.status().is_server_error();
    if !failed || response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM_JSON) {
        return response;
    }
    let mut document = Failure::of_status(response.status()).into_response();
    for (name, value) in response.headers() {
        if name != CONTENT_TYPE && name != CONTENT_LENGTH {
            document.headers_mut().insert(name, value.clone());
        }
    }
    document
}

#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    Failure::internal(&format!("panic: {}", text.unwrap_or("no message"))).into_response()
}

/// Ids of requests that came without one: a random start of the process and a counter.
#[derive(Clone)]
struct CountedIds(std::sync::Arc<(String, AtomicU64)>);

impl CountedIds {
    fn new() -> Self {
        let mut start = [0; 6];
        if getrandom::fill(&mut start).is_err() {
            tracing::warn!("no randomness: ids of requests repeat after a restart");
        }
        Self(std::sync::Arc::new((hex(&start), AtomicU64::new(1))))
    }
}

impl MakeRequestId for CountedIds {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        let (start, counter) = &*self.0;
        let id = format!("{start}-{:x}", counter.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(id).ok().map(RequestId::new)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use super::{documented, panicked};

    #[test]
    fn failures_without_a_document_get_one() {
        let response = documented((StatusCode::SERVICE_UNAVAILABLE, [("x-kept", "1")], "plain").into_response());
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["x-kept"], "1");
        assert_eq!(documented(StatusCode::OK.into_response()).headers().get("content-type"), None);
    }

    #[test]
    fn a_panic_is_an_internal_problem() {
        let response = panicked(Box::new("boom"));
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}
