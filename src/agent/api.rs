//! What the agent answers on its host: sandboxes on the Unix socket, metrics and health there and on loopback.
//!
//! Who may open the socket may say who pays for a sandbox: its rights are the file's (0660). On loopback, which has no
//! rights, nothing can be changed and no sandbox is named.

use std::fmt::Display;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::clock::Time;
use super::orders::Order;
use super::sandbox::{DOCUMENT_BYTES_MAX, Key, Sandbox};
use crate::domain::id::{AccountId, SandboxId};
use crate::domain::time::Timestamp;
use crate::telemetry::agent::AgentMetrics;

/// Since when sending fails, and why.
#[derive(Clone, Debug, Default)]
pub struct PushHealth(Arc<Mutex<Option<(i64, String)>>>);

/// How long sending may fail before the agent is called degraded, in milliseconds: a server's restart is shorter.
const FAILING_MS_MAX: i64 = 60_000;

impl PushHealth {
    /// Takes how sending goes now.
    pub fn set(&self, trouble: Option<&str>, now: Timestamp) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = trouble.map(|why| (state.as_ref().map_or(now.ms(), |(since, _)| *since), why.to_owned()));
    }

    fn fault(&self, now: Timestamp) -> Option<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, why) = state.as_ref()?;
        let failing_ms = now.ms().saturating_sub(*since);
        (failing_ms > FAILING_MS_MAX)
            .then(|| format!("no server has answered for {} s: {why}", failing_ms.div_euclid(1_000)))
    }
}

/// What handlers share.
#[derive(Clone)]
pub struct Shared {
    /// Where the meter takes orders.
    pub orders: Sender<Order>,
    /// Every metric.
    pub metrics: AgentMetrics,
    /// How sending goes.
    pub push: PushHealth,
    /// The clocks.
    pub time: Arc<dyn Time>,
}

/// The routes of the Unix socket.
pub fn socket(shared: Shared) -> Router {
    let sandboxes = Router::new()
        .route("/v1/sandboxes", get(list).post(put))
        .route("/v1/sandboxes/{account}/{sandbox}", delete(remove))
        .layer(DefaultBodyLimit::max(DOCUMENT_BYTES_MAX))
        .with_state(shared.clone());
    sandboxes.merge(watching(shared))
}

/// The routes of the loopback address.
pub fn watching(shared: Shared) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(shared)
}

fn document(status: StatusCode, kind: &'static str, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], Body::from(body.to_string())).into_response()
}

fn problem(status: StatusCode, code: &str, detail: impl Display, pointer: Option<&str>) -> Response {
    let title = status.canonical_reason().unwrap_or_default();
    let mut body = json!({
        "type": format!("https://runtab.dev/problems/{code}"), "title": title, "status": status.as_u16(), "code": code,
        "detail": detail.to_string(),
    });
    if let Some((pointer, object)) = pointer.zip(body.as_object_mut()) {
        object.insert("pointer".to_owned(), pointer.into());
    }
    document(status, "application/problem+json", &body)
}

/// Asks the meter; a problem when it does not answer.
async fn ask<T>(shared: &Shared, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, Response> {
    let unavailable = || problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the agent is stopping", None);
    let (answer, answered) = oneshot::channel();
    shared.orders.send(order(answer)).map_err(|_| unavailable())?;
    answered.await.map_err(|_| unavailable())
}

async fn list(State(shared): State<Shared>) -> Response {
    match ask(&shared, Order::List).await {
        Ok(list) => document(StatusCode::OK, "application/json", &list),
        Err(response) => response,
    }
}

async fn put(State(shared): State<Shared>, body: Bytes) -> Response {
    let sandbox = match Sandbox::read(&body) {
        Ok(sandbox) => sandbox,
        Err(invalid) => {
            let detail = format!("{} {}", invalid.pointer, invalid.detail);
            return problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail.trim(), Some(&invalid.pointer));
        }
    };
    let taken = sandbox.to_json();
    match ask(&shared, |answer| Order::Put(Box::new(sandbox), answer)).await {
        Ok(Ok(())) => document(StatusCode::OK, "application/json", &taken),
        Ok(Err(error)) => problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", error, None),
        Err(response) => response,
    }
}

async fn remove(State(shared): State<Shared>, Path((account, sandbox)): Path<(String, String)>) -> Response {
    let missing = || problem(StatusCode::NOT_FOUND, "not_found", "no such sandbox on this host", None);
    let (Ok(account), Ok(sandbox)) = (AccountId::parse(&account), SandboxId::parse(&sandbox)) else { return missing() };
    match ask(&shared, |answer| Order::Remove(Key { account, sandbox }, answer)).await {
        Ok(Ok(true)) => StatusCode::NO_CONTENT.into_response(),
        Ok(Ok(false)) => missing(),
        Ok(Err(error)) => problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", error, None),
        Err(response) => response,
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.metrics.exposition() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", error, None),
    }
}

/// Alive: the meter's thread answers.
async fn healthz(State(shared): State<Shared>) -> Response {
    match ask(&shared, Order::List).await {
        Ok(_) => "ok\n".into_response(),
        Err(response) => response,
    }
}

/// Everything is as it should be, or what is not.
async fn readyz(State(shared): State<Shared>) -> Response {
    let list = match ask(&shared, Order::List).await {
        Ok(list) => list,
        Err(response) => return response,
    };
    let faults = list.get("faults").and_then(Value::as_array).map_or(0, Vec::len);
    let mut reasons: Vec<String> = shared.push.fault(shared.time.now().real).into_iter().collect();
    if shared.metrics.unwritten.get() > 0 {
        reasons.push("the spool does not take samples".to_owned());
    }
    if faults > 0 {
        reasons.push(format!("{faults} faults: see GET /v1/sandboxes on the socket"));
    }
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    document(status, "application/json", &json!({"ready": reasons.is_empty(), "reasons": reasons}))
}
