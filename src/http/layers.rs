//! What every request passes through: request id, span, count and time, time limit, panics; below `/v1` also the bound of
//! requests in flight, the token, and compression of what is large.
//!
//! It is one layer and reads from top to bottom, on purpose. In a tower of layers each boxes its future, clones what is
//! below it and moves request and answer once more, and that was a good part of what a small request cost.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request};
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use axum::routing::future::RouteFuture;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Timeout, timeout};
use tower::layer::layer_fn;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tracing::Span;

use super::Shared;
use super::auth;
use super::inlet;
use super::problem::{Failure, PROBLEM_JSON};
use crate::secret::hex;
use crate::wire::problem::Code;

/// Answers below this many bytes are not compressed: an admission's is not worth the work.
const COMPRESS_BYTES_MIN: u64 = 4_096;
/// The header that says a request's id, in requests and answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The layer of the API, everything below `/v1`: for callers with a token.
pub(super) fn guarded(api: Router<Shared>, state: &Shared) -> Router<Shared> {
    layered(api, state, Some(Arc::new(Semaphore::new(state.settings.requests_in_flight_max))))
}

/// The layer of what needs no token.
pub(super) fn open(router: Router<Shared>, state: &Shared) -> Router<Shared> {
    layered(router, state, None)
}

/// Places for requests of the API.
type Places = Arc<Semaphore>;

fn layered(router: Router<Shared>, state: &Shared, places: Option<Places>) -> Router<Shared> {
    let state = state.clone();
    router.layer(layer_fn(move |route: Route| {
        let (state, places) = (state.clone(), places.clone());
        service_fn(move |request| pass(state.clone(), places.as_ref(), route.clone(), request))
    }))
}

/// Carries a request to its route, and the answer back.
///
/// What comes of this is allocated and moved for every request: so what can be done at once is done before it, nothing is
/// in it twice (an async function keeps its arguments beside what they were moved to), and what is rare is boxed.
#[expect(clippy::disallowed_methods, reason = "telemetry: how long a request took decides nothing")]
fn pass(
    state: Shared,
    places: Option<&Places>,
    route: Route,
    request: Request,
) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
    let began = Instant::now();
    let in_flight = state.metrics.request_began();
    let told = request.headers().get(REQUEST_ID).filter(|id| id.to_str().is_ok_and(|id| !id.is_empty()));
    let id = told.cloned().or_else(next_id);
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let method = known(request.method());
    let span = span(&request, path_of(matched.as_ref()), id.as_ref());
    let (request, rest) = inlet::watched(request);
    let mut begun = begin(&state, places, route, request);
    async move {
        let answer = pin!(timeout(state.settings.request_timeout, answer(&state, &mut begun)));
        let mut response = documented(unwound(answer, &span).await);
        drop(in_flight);
        let headers = response.headers_mut();
        // Costs and keys are nobody's to keep.
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if rest.is_left() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(id) = id {
            headers.entry(REQUEST_ID).or_insert(id);
        }
        let (status, took) = (response.status(), began.elapsed());
        state.metrics.request_answered(method, path_of(matched.as_ref()), status.as_str(), took);
        if status.is_server_error() {
            span.in_scope(|| tracing::warn!(status = status.as_u16(), took_us = took.as_micros(), "failed"));
        } else {
            span.in_scope(|| tracing::debug!(status = status.as_u16(), took_us = took.as_micros(), "answered"));
        }
        Ok(watched(response, span))
    }
}

fn path_of(matched: Option<&MatchedPath>) -> &str {
    matched.map_or("none", MatchedPath::as_str)
}

/// A request that was begun.
struct Begun {
    step: Step,
    /// The secret that the gate confirms, if it does.
    at_gate: Option<[u8; 32]>,
    /// The encodings that are accepted, where answers are compressed.
    accepted: Option<Vec<HeaderValue>>,
    /// Its place, which is free again when it is over.
    _place: Option<OwnedSemaphorePermit>,
}

type Later<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// How far a request is.
enum Step {
    /// It needs no route.
    Answered(Ready<Response>),
    /// Its route answers.
    Called(RouteFuture<Infallible>),
    /// Who asks is found out first, then its route answers. Boxed: whose answers must be fast are mostly recognised.
    Asked(Later<'static>),
}

impl Future for Step {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        match &mut *self {
            Self::Answered(answer) => Pin::new(answer).poll(context),
            Self::Called(route) => Pin::new(route).poll(context).map(|Ok(answer)| answer),
            Self::Asked(answer) => answer.as_mut().poll(context),
        }
    }
}

impl Begun {
    fn of(step: Step) -> Self {
        Self { step, at_gate: None, accepted: None, _place: None }
    }

    fn answered(failure: Failure) -> Self {
        Self::of(Step::Answered(ready(failure.into_response())))
    }
}

/// Gives a request to its route, with a place and a token where it needs them.
fn begin(state: &Shared, places: Option<&Places>, mut route: Route, mut request: Request) -> Begun {
    let Some(places) = places else { return Begun::of(Step::Called(route.call(request))) };
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        state.metrics.request_shed();
        let detail = "too many requests at once; repeat it a little later";
        return Begun::answered(Failure::new(Code::Unavailable, detail));
    };
    let accepted = request.headers().get_all(ACCEPT_ENCODING).iter().cloned().collect();
    let Some(sha256) = auth::presented(request.headers()) else { return Begun::answered(Failure::unauthorized()) };
    let recognised = if passes_the_gate(&request) { state.ledger.recognise(sha256) } else { None };
    let at_gate = recognised.is_some().then_some(sha256);
    let step = if let Some(presented) = recognised {
        request.extensions_mut().insert(presented);
        Step::Called(route.call(request))
    } else {
        Step::Asked(Box::pin(asked(Shared::clone(state), sha256, route, request)))
    };
    Begun { step, at_gate, accepted: Some(accepted), _place: Some(place) }
}

/// What the route answers to who has this secret.
async fn asked(state: Shared, sha256: [u8; 32], mut route: Route, mut request: Request) -> Response {
    match auth::known(&state, sha256).await {
        Ok(principal) => request.extensions_mut().insert(principal),
        Err(failure) => return failure.into_response(),
    };
    let Ok(response) = route.call(request).await;
    response
}

async fn answer(state: &Shared, begun: &mut Begun) -> Response {
    let response = (&mut begun.step).await;
    match finished(state, begun, response) {
        Ok(response) => response,
        Err(more) => more.await,
    }
}

/// The answer, or what there is to do before it is one: mostly nothing.
fn finished<'a>(state: &'a Shared, begun: &mut Begun, response: Response) -> Result<Response, Later<'a>> {
    let refused = begun.at_gate.filter(|_| !response.status().is_success());
    let accepted = begun.accepted.take().filter(|_| !is_small(&response));
    if refused.is_none() && accepted.is_none() {
        return Ok(response);
    }
    Err(Box::pin(async move {
        let response = match refused {
            Some(sha256) => confirmed(state, sha256, response).await,
            None => response,
        };
        match accepted {
            Some(accepted) => compressed(accepted, response).await,
            None => response,
        }
    }))
}

/// Whether a request is carried out by the gate, which confirms who asks.
fn passes_the_gate(request: &Request) -> bool {
    const ROUTES: [&str; 2] = ["/v1/accounts/{account}/leases", "/v1/accounts/{account}/leases/{lease}/extend"];
    let path = request.extensions().get::<MatchedPath>();
    request.method() == Method::POST && path.is_some_and(|path| ROUTES.contains(&path.as_str()))
}

/// An answer of the gate that is no yes. It may come from before who asks was confirmed: it is told only to who is known now.
async fn confirmed(state: &Shared, sha256: [u8; 32], response: Response) -> Response {
    match auth::known(state, sha256).await {
        Ok(_) => response,
        Err(failure) => failure.into_response(),
    }
}

fn is_small(response: &Response) -> bool {
    response.body().size_hint().exact().is_some_and(|bytes| bytes < COMPRESS_BYTES_MIN)
}

/// Compresses what is large, as the caller accepts it. What is small is not even looked at.
async fn compressed(accepted: Vec<HeaderValue>, response: Response) -> Response {
    if is_small(&response) || refuses_all(&accepted) {
        return response;
    }
    let mut request = Request::new(());
    for encodings in accepted {
        request.headers_mut().append(ACCEPT_ENCODING, encodings);
    }
    let mut response = Some(response);
    let inner = service_fn(|_| ready(response.take().ok_or(())));
    let layer = CompressionLayer::new().compress_when(SizeAbove::new(COMPRESS_BYTES_MIN));
    match layer.layer(inner).oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(()) => Failure::internal(&"an answer was asked for twice").into_response(),
    }
}

/// Whether a caller accepts neither gzip nor what is not compressed ([RFC 9110, 12.5.3]). Such a one is answered all the
/// same: its command has been carried out, and 406 would say that it was not.
///
/// [RFC 9110, 12.5.3]: https://www.rfc-editor.org/rfc/rfc9110#field.accept-encoding
fn refuses_all(accepted: &[HeaderValue]) -> bool {
    let listed = || accepted.iter().filter_map(|header| header.to_str().ok()).flat_map(|header| header.split(','));
    let said = |name: &str| {
        listed().find_map(|one| {
            let (encoding, weight) = one.split_once(';').unwrap_or((one, ""));
            let quality = weight.trim().strip_prefix(['q', 'Q']).and_then(|q| q.strip_prefix('=')).unwrap_or("1");
            let refused = quality.bytes().all(|digit| b"0.".contains(&digit));
            encoding.trim().eq_ignore_ascii_case(name).then_some(!refused)
        })
    };
    let others = said("*");
    !said("gzip").or(others).unwrap_or(false) && !said("identity").or(others).unwrap_or(true)
}

/// The answer, or a problem in place of a panic, or of none in time. All of it happens in the span.
async fn unwound(mut answer: Pin<&mut Timeout<impl Future<Output = Response>>>, span: &Span) -> Response {
    poll_fn(|context| {
        span.in_scope(|| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
            Ok(answer) => answer.map(|answer| answer.unwrap_or_else(|_| too_slow())),
            Err(cause) => Poll::Ready(panicked(cause)),
        })
    })
    .await
}

fn too_slow() -> Response {
    Failure::of_status(StatusCode::SERVICE_UNAVAILABLE).into_response()
}

/// Fields of a request in the log: never a header but its id, never the query or the body.
fn span(request: &Request, route: &str, id: Option<&HeaderValue>) -> Span {
    tracing::info_span!(
        "request",
        method = %request.method(),
        route,
        path = request.uri().path(),
        id = id.and_then(|id| id.to_str().ok()).unwrap_or("none"),
    )
}

/// A body that comes piece by piece may break off long after its status was told: the log says so.
fn watched(response: Response, span: Span) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        Body::new(body.map_err(move |error| {
            span.in_scope(|| tracing::warn!(%error, "an answer broke off"));
            error
        }))
    })
}

/// The method, as a label of few values.
fn known(method: &Method) -> &'static str {
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

/// The id of a request that came without one: a random start of the process and a count.
fn next_id() -> Option<HeaderValue> {
    static START: LazyLock<String> = LazyLock::new(|| {
        let mut start = [0; 6];
        if getrandom::fill(&mut start).is_err() {
            tracing::warn!("no randomness: ids of requests repeat after a restart");
        }
        hex(&start)
    });
    static COUNT: AtomicU64 = AtomicU64::new(1);
    // Twelve digits, a hyphen, and at most sixteen more.
    let mut text = [0; 32];
    let mut rest = text.as_mut_slice();
    write!(rest, "{}-{:x}", *START, COUNT.fetch_add(1, Ordering::Relaxed)).ok()?;
    let unused = rest.len();
    let used = text.len().checked_sub(unused)?;
    HeaderValue::from_bytes(text.get(..used)?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use axum::routing::{Route, get, post};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    use tower::layer::layer_fn;

    use super::{compressed, documented, open, panicked, pass};
    use crate::http::tests::state;
    use crate::http::{AppState, HttpSettings, Shared};

    /// What a route answers through the layer that everything has.
    async fn through(path: &str, id: Option<&str>) -> Response {
        let request_timeout = Duration::from_millis(1);
        let settings = HttpSettings { request_timeout, ..HttpSettings::default() };
        let state = Shared::new(AppState { settings, ..state().await });
        let routes = Router::new()
            .route("/panic", get(async || -> StatusCode { panic!("boom") }))
            .route("/never", get(std::future::pending::<StatusCode>))
            .route("/good", get(async || "good"));
        let mut request = Request::get(path);
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        open(routes, &state).with_state(state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn code(response: Response) -> String {
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        problem["code"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_route_that_panics_or_never_ends_is_a_problem() {
        assert_eq!(code(through("/panic", None).await).await, "internal");
        let late = through("/never", None).await;
        assert_eq!((late.status().as_u16(), late.headers()["retry-after"].to_str().unwrap()), (503, "1"));
        assert_eq!(code(late).await, "unavailable");
    }

    #[tokio::test]
    async fn an_answer_has_the_id_of_its_request_or_one_of_its_own() {
        let told = through("/good", Some("theirs")).await;
        assert_eq!(told.headers()["x-request-id"], "theirs");
        assert_eq!(told.headers()["cache-control"], "no-store");
        for unreadable in ["", "caf\u{e9}"] {
            assert_ne!(through("/good", Some(unreadable)).await.headers()["x-request-id"], unreadable);
        }
        let (one, other) = (through("/good", None).await, through("/good", None).await);
        let (one, other) = (&one.headers()["x-request-id"], &other.headers()["x-request-id"]);
        let digits = one.to_str().unwrap().replacen('-', "", 1);
        assert!(digits.len() > 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
        assert_ne!(one, other);
    }

    #[tokio::test]
    async fn who_is_answered_before_the_body_was_read_is_told_that_the_connection_closes() {
        let state = Shared::new(state().await);
        for (path, sent, closes) in
            [("/read", "all of it", false), ("/left", "all of it", true), ("/read", "", false), ("/left", "", false)]
        {
            let routes =
                Router::new().route("/read", post(async |body: String| body)).route("/left", post(async || "no"));
            let request = Request::post(path).body(Body::from(sent)).unwrap();
            let answer = open(routes, &state).with_state(Shared::clone(&state)).oneshot(request).await.unwrap();
            assert_eq!(answer.headers().get("connection").is_some(), closes, "{path} {sent}");
        }
    }

    #[tokio::test]
    async fn only_what_is_large_is_compressed_and_only_as_accepted() {
        for (bytes, accepted, encoding, varies) in [
            (4_095, Some("gzip"), None, false),
            (4_096, Some("gzip"), Some("gzip"), true),
            (4_096, Some("br"), None, true),
            (4_096, None, None, true),
            // Neither is accepted: what was done is told all the same.
            (4_096, Some("identity;q=0"), None, false),
            (4_096, Some("gzip;q=0, *; q=0.0"), None, false),
            (4_096, Some("identity;q=0, br"), None, false),
            (4_096, Some("identity;q=0, GZIP"), Some("gzip"), true),
            (4_096, Some("*;q=0, identity"), None, true),
        ] {
            let accepted = accepted.map(|accepted| accepted.parse().unwrap());
            let told = compressed(accepted.into_iter().collect(), "x".repeat(bytes).into_response()).await;
            let header = |name| told.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!((header("content-encoding"), header("vary").is_some()), (encoding, varies), "{bytes}");
        }
    }

    #[tokio::test]
    async fn what_is_allocated_for_every_request_stays_small() {
        // What allocators keep at hand: beyond it each costs several times as much.
        const BYTES_MAX: usize = 1_024;
        let state = Shared::new(state().await);
        let measured = layer_fn(move |route: Route| {
            let passing = pass(Shared::clone(&state), None, route.clone(), Request::default());
            assert!(size_of_val(&passing) <= BYTES_MAX, "{}", size_of_val(&passing));
            route
        });
        drop(Router::<()>::new().route("/", get(async || "")).layer(measured));
    }

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
