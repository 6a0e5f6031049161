//! One request over HTTP: a batch to a server, and what its answer means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use reqwest::{Certificate, Client, Identity, Response, StatusCode};
use serde::Deserialize;

use super::push::{Answer, Outcome, Rejection};
use crate::config::agent::Push;

/// Longest answer that is read, in bytes: 10,000 rejections have a quarter of it.
const ANSWER_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Sends batches.
#[derive(Clone, Debug)]
pub struct Transport {
    client: Client,
    /// Read for each request, so that a new token needs no restart.
    token_file: PathBuf,
}

#[derive(Deserialize)]
struct AnswerBody {
    accepted: u64,
    duplicates: u64,
    rejected: Vec<RejectionBody>,
}

#[derive(Deserialize)]
struct RejectionBody {
    index: usize,
    code: String,
    #[serde(default)]
    detail: String,
}

#[derive(Deserialize)]
struct ProblemBody {
    code: String,
    #[serde(default)]
    detail: String,
}

fn pem(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

impl Transport {
    /// A client as the settings say: TLS by rustls; with a private CA no other is trusted.
    pub fn new(settings: &Push) -> anyhow::Result<Self> {
        // Somebody else in this process may have chosen it already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let timeout = Duration::from_millis(settings.timeout_ms.unsigned_abs());
        let mut builder = Client::builder()
            .no_proxy()
            .timeout(timeout)
            .connect_timeout(timeout.min(Duration::from_secs(10)))
            .pool_max_idle_per_host(1)
            .redirect(reqwest::redirect::Policy::none());
        if !settings.ca_file.as_os_str().is_empty() {
            let certificates = Certificate::from_pem_bundle(&pem(&settings.ca_file)?);
            let certificates = certificates.with_context(|| settings.ca_file.display().to_string())?;
            anyhow::ensure!(!certificates.is_empty(), "{}: no certificate in it", settings.ca_file.display());
            builder = builder.tls_certs_only(certificates);
        } else if settings.servers.addresses().iter().all(|address| address.starts_with("http://")) {
            // The system's certificates take time and memory to load, and nothing would use them.
            builder = builder.tls_certs_only([]);
        }
        if !settings.client_file.as_os_str().is_empty() {
            let identity = Identity::from_pem(&pem(&settings.client_file)?);
            builder = builder.identity(identity.with_context(|| settings.client_file.display().to_string())?);
        }
        let client = builder.build().context("the HTTP client can't be made")?;
        Ok(Self { client, token_file: settings.token_file.clone() })
    }

    /// Sends a batch's body and waits for the answer.
    pub async fn send(&self, server: &str, body: Vec<u8>) -> Outcome {
        let token = match std::fs::read_to_string(&self.token_file) {
            Ok(token) => token,
            Err(error) => return later(format!("{}: {error}", self.token_file.display()), None),
        };
        let request = self
            .client
            .post(format!("{server}/v1/samples"))
            .bearer_auth(token.trim())
            .header("content-type", "application/x-ndjson")
            .header("content-encoding", "gzip")
            .body(body);
        match request.send().await {
            Ok(response) => judge(server, response).await,
            Err(error) => later(format!("{server}: {}", causes(&error)), None),
        }
    }
}

/// An error with what caused it, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn later(why: String, retry_after_ms: Option<i64>) -> Outcome {
    Outcome::Later { why, retry_after_ms }
}

async fn judge(server: &str, response: Response) -> Outcome {
    let status = response.status();
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after_ms =
        retry_after.and_then(|text| text.trim().parse::<i64>().ok()).map(|seconds| seconds.saturating_mul(1_000));
    let is_problem = response.headers().get("content-type").is_some_and(|kind| kind == "application/problem+json");
    let body = match read(response).await {
        Ok(body) => body,
        Err(why) => return later(format!("{server}: {why}"), None),
    };
    meaning(server, status, is_problem, retry_after_ms, &body)
}

/// What an answer means. Only a problem document of a server of ours can refuse samples for good: what stands between may
/// say anything.
fn meaning(server: &str, status: StatusCode, is_problem: bool, retry_after_ms: Option<i64>, body: &[u8]) -> Outcome {
    if status == StatusCode::OK {
        return match serde_json::from_slice::<AnswerBody>(body) {
            Ok(answer) => Outcome::Answered(answer.into()),
            Err(_) => later(format!("{server}: 200, but no answer of runtab's"), None),
        };
    }
    let problem = is_problem.then(|| serde_json::from_slice::<ProblemBody>(body).ok()).flatten();
    let Some(ProblemBody { code, detail }) = problem else {
        return later(format!("{server}: {status}"), retry_after_ms);
    };
    let why = format!("{server}: {} {code}: {detail}", status.as_u16());
    match code.as_str() {
        "invalid_request" => Outcome::Refused { why, too_large: false },
        "payload_too_large" => Outcome::Refused { why, too_large: true },
        _ => later(why, retry_after_ms),
    }
}

async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| causes(&error))? {
        if body.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
            return Err("an answer without end".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl From<AnswerBody> for Answer {
    fn from(body: AnswerBody) -> Self {
        let rejection = |RejectionBody { index, code, detail }| Rejection { index, code, detail };
        Self {
            accepted: body.accepted,
            duplicates: body.duplicates,
            rejected: body.rejected.into_iter().map(rejection).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::{Outcome, meaning};

    fn of(status: u16, is_problem: bool, body: &str) -> Outcome {
        meaning("http://a", StatusCode::from_u16(status).unwrap(), is_problem, Some(7), body.as_bytes())
    }

    #[test]
    fn only_an_answer_of_runtabs_answers() {
        let good =
            of(200, false, r#"{"accepted":1,"duplicates":2,"rejected":[{"index":0,"code":"future","detail":""}]}"#);
        assert!(
            matches!(good, Outcome::Answered(answer) if answer.accepted == 1 && answer.rejected[0].code == "future")
        );
        for body in ["", "<html>", "{}", r#"{"accepted":-1,"duplicates":0,"rejected":[]}"#] {
            assert!(matches!(of(200, false, body), Outcome::Later { .. }), "{body}");
        }
    }

    #[test]
    fn only_a_problem_document_refuses_for_good() {
        let problem = |code: &str| format!(r#"{{"code":"{code}","detail":"d","status":1}}"#);
        let refused = |status, code: &str| matches!(of(status, true, &problem(code)), Outcome::Refused { .. });
        assert!(refused(400, "invalid_request") && refused(413, "payload_too_large"));
        for (status, code) in
            [(503, "unavailable"), (401, "unauthorized"), (403, "forbidden"), (404, "not_found"), (429, "slow")]
        {
            assert!(!refused(status, code), "{status}");
        }
        // What stands between.
        for status in [302, 400, 404, 413, 429, 500, 502] {
            let outcome = of(status, false, &problem("invalid_request"));
            assert!(matches!(outcome, Outcome::Later { retry_after_ms: Some(7), .. }), "{status} {outcome:?}");
        }
    }
}
