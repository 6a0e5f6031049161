//! A small typed client of the wire.

use std::future::Future;
use std::io::Read as _;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::time::Time;

/// A status and a JSON body (`null` when there is none).
pub(crate) type Answer = (u16, Value);

/// An answer as it came.
pub(crate) struct Raw {
    /// The status.
    pub(crate) status: u16,
    /// `Content-Type`.
    pub(crate) content_type: String,
    /// `Retry-After`.
    pub(crate) retry_after: Option<String>,
    /// What a receiver of remote write says that it has written: samples, histograms, exemplars.
    pub(crate) written: Option<[String; 3]>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Raw {
    /// The body as text.
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.body).expect("text")
    }
}

impl Raw {
    /// Status and body; the body must be JSON, or nothing.
    pub(crate) fn json(self) -> Answer {
        let body = match self.body.as_slice() {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes)
                .unwrap_or_else(|_| panic!("{}: no JSON: {}", self.status, String::from_utf8_lossy(bytes))),
        };
        (self.status, body)
    }
}

/// An engine and a bearer token.
#[derive(Clone)]
pub(crate) struct Api {
    http: Client,
    base: String,
    token: Option<String>,
}

impl Api {
    /// A client of the engine at `base` (`http://ADDRESS:PORT`).
    pub(crate) fn new(base: &str, token: Option<&str>) -> Self {
        // Another test of this process may have chosen it already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = Client::builder().no_proxy().build().expect("a client");
        Self { http, base: base.to_owned(), token: token.map(str::to_owned) }
    }

    /// Where the engine listens: `http://ADDRESS:PORT`.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The same engine as somebody else.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        Self { http: self.http.clone(), base: self.base.clone(), token: token.map(str::to_owned) }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request with any body and headers.
    pub(crate) async fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Raw {
        self.try_raw(method, path, headers, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    async fn try_raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Raw, reqwest::Error> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let plain = self.request(method, path);
        let request = headers.iter().fold(plain, |request, (name, value)| request.header(*name, *value));
        let answer = request.body(body).send().await?;
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (content_type, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
        let counted = |what: &str| header(&format!("x-prometheus-remote-write-{what}-written"));
        let written = counted("samples").map(|samples| {
            [Some(samples), counted("histograms"), counted("exemplars")].map(|count| count.expect("all three"))
        });
        let status = answer.status().as_u16();
        Ok(Raw { status, content_type, retry_after, written, body: answer.bytes().await?.to_vec() })
    }

    /// What is answered to a caller who takes gzip; what is small comes as it is.
    pub(crate) async fn unzipped(&self, path: &str) -> Vec<u8> {
        let raw = self.raw("GET", path, &[("accept-encoding", "gzip")], Vec::new()).await;
        assert_eq!(raw.status, 200, "{path}");
        if !raw.body.starts_with(&[0x1f, 0x8b]) {
            assert!(raw.body.len() < 4_096, "{path}: {} bytes as they are", raw.body.len());
            return raw.body;
        }
        let mut body = Vec::new();
        flate2::read::GzDecoder::new(raw.body.as_slice()).read_to_end(&mut body).expect("whole gzip");
        body
    }

    /// Posts a JSON body that is beyond the limit. A server may answer and close while the body is still being sent,
    /// and then the answer may be lost on its way: it is asked again.
    pub(crate) async fn post_too_much(&self, path: &str, body: Vec<u8>) -> Answer {
        for _ in 0..20 {
            let sent = self.try_raw("POST", path, &[("content-type", "application/json")], body.clone());
            if let Ok(answer) = sent.await {
                return answer.json();
            }
        }
        panic!("{path}: no answer");
    }

    /// Sends a JSON body, byte for byte.
    pub(crate) async fn text(&self, method: &str, path: &str, body: &str) -> Answer {
        self.raw(method, path, &[("content-type", "application/json")], body.into()).await.json()
    }

    /// Sends a JSON body to an engine that may not be there; nothing when no whole answer came.
    pub(crate) async fn attempt(&self, method: &str, path: &str, body: &Value) -> Option<Answer> {
        let headers = [("content-type", "application/json")];
        self.try_raw(method, path, &headers, body.to_string().into()).await.ok().map(Raw::json)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.raw("GET", path, &[], Vec::new()).await.json()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.text("POST", path, &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.text("PUT", path, &body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.text("PATCH", path, &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.raw("DELETE", path, &[], Vec::new()).await.json()
    }

    pub(crate) async fn account(&self, id: &str, card_on_file: bool) -> Answer {
        self.post("/v1/accounts", &json!({"id": id, "name": id, "card_on_file": card_on_file})).await
    }

    pub(crate) async fn key(&self, account: &str, id: &str, limit: Option<i64>) -> Answer {
        let body = json!({"id": id, "name": id, "read_only": false, "daily_limit_micros": limit});
        self.post(&format!("/v1/accounts/{account}/keys"), &body).await
    }

    pub(crate) async fn set_limit(&self, account: &str, key: &str, limit: Option<i64>) -> Answer {
        self.patch(&format!("/v1/accounts/{account}/keys/{key}"), &json!({"daily_limit_micros": limit})).await
    }

    pub(crate) async fn admit(&self, account: &str, key: &str, leases: &[Value]) -> Answer {
        self.post(&format!("/v1/accounts/{account}/leases"), &json!({"key": key, "leases": leases})).await
    }

    pub(crate) async fn quote(&self, account: &str, key: &str, leases: &[Value]) -> Answer {
        self.post(&format!("/v1/accounts/{account}/leases/quote"), &json!({"key": key, "leases": leases})).await
    }

    pub(crate) async fn extend(&self, account: &str, lease: &str, id: &str, timeout_seconds: i64) -> Answer {
        let body = json!({"timeout_seconds": timeout_seconds, "id": id});
        self.post(&format!("/v1/accounts/{account}/leases/{lease}/extend"), &body).await
    }

    pub(crate) async fn end(&self, account: &str, lease: &str, ended_at: Option<Time>, reason: &str) -> Answer {
        let body = json!({"ended_at": ended_at.map(|at| at.to_string()), "reason": reason});
        self.post(&format!("/v1/accounts/{account}/leases/{lease}/end"), &body).await
    }

    pub(crate) async fn move_to(&self, account: &str, lease: &str, host: &str) -> Answer {
        self.post(&format!("/v1/accounts/{account}/leases/{lease}/move"), &json!({"host": host})).await
    }

    /// A lease as it is now; it must be there.
    pub(crate) async fn lease(&self, account: &str, lease: &str) -> Value {
        super::done(self.get(&format!("/v1/accounts/{account}/leases/{lease}")).await)
    }

    /// A sandbox as it is now; it must be there.
    pub(crate) async fn sandbox(&self, account: &str, sandbox: &str) -> Value {
        super::done(self.get(&format!("/v1/accounts/{account}/sandboxes/{sandbox}")).await)
    }

    pub(crate) async fn samples(&self, samples: &[Value]) -> Answer {
        self.post("/v1/samples", &json!(samples)).await
    }

    /// Sends samples that must all be accepted, none of them known.
    pub(crate) async fn accepted(&self, samples: &[Value]) {
        let body = super::done(self.samples(samples).await);
        assert_eq!(body, json!({"accepted": samples.len(), "duplicates": 0, "rejected": []}));
    }

    /// A cost table; `more` is the rest of the query, such as `granularity=day&group_by=key`.
    pub(crate) async fn costs(&self, account: &str, from: Time, to: Time, more: &str) -> Value {
        let path = format!("/v1/accounts/{account}/costs?from={from}&to={to}&{more}");
        super::done(self.get(&path).await)
    }

    pub(crate) async fn balance(&self, account: &str) -> Value {
        super::done(self.get(&format!("/v1/accounts/{account}/balance")).await)
    }

    /// Where a key stands today.
    pub(crate) async fn key_day(&self, account: &str, key: &str) -> Value {
        let balance = self.balance(account).await;
        let days = balance["keys"].as_array().expect("keys");
        days.iter().find(|day| day["key"] == key).cloned().unwrap_or_else(|| panic!("no {key}: {balance}"))
    }

    /// Used and reserved of a key today.
    pub(crate) async fn used_and_reserved(&self, account: &str, key: &str) -> (i64, i64) {
        let day = self.key_day(account, key).await;
        (super::int(&day, "used_micros"), super::int(&day, "reserved_micros"))
    }

    /// Moves the engine's clock.
    pub(crate) async fn set_clock(&self, now: Time) -> Answer {
        self.put("/v1/test-clock", &json!({"now": now.to_string()})).await
    }
}

/// Runs what `make` makes for 0, 1, ... `count` - 1 all at once; the answers in that order.
pub(crate) async fn at_once<F, T>(count: usize, make: impl Fn(usize) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let mut tasks = JoinSet::new();
    for index in 0..count {
        let task = make(index);
        tasks.spawn(async move { (index, task.await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
