//! The demo's HTTP client: every step goes over the wire, with the token that a real caller would have.

use anyhow::{Context, bail};
use reqwest::{Client, Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

/// One caller: an address and a token.
#[derive(Clone, Debug)]
pub struct Caller {
    http: Client,
    base: String,
    token: String,
}

/// A problem document, as far as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// What happened and what to do.
    #[serde(default)]
    pub detail: String,
}

/// Amounts of a row or a total, in microdollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Amounts {
    /// At list price.
    pub list_micros: i64,
    /// Paid by free hours.
    pub free_micros: i64,
    /// To be paid.
    pub net_micros: i64,
}

/// One row of a cost table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CostRow {
    /// The sandbox, when grouped so.
    pub sandbox: Option<String>,
    /// The resource, when grouped so.
    pub resource: Option<String>,
    /// What was used.
    #[serde(default)]
    pub usage: Usage,
    /// Its amounts.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// Used quantities: whole numbers as texts, since they may pass 2^53.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// vCPU-microseconds that are billed.
    pub cpu_us: String,
    /// MiB-milliseconds of memory.
    pub memory_mib_ms: String,
    /// MiB-milliseconds of disk.
    pub storage_mib_ms: String,
}

/// A cost table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Costs {
    /// Its rows.
    pub rows: Vec<CostRow>,
    /// Their sum.
    pub total: Amounts,
}

impl Costs {
    /// Whether every column of the rows sums to the total.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let sum = self.rows.iter().fold(Amounts::default(), |sum, row| Amounts {
            list_micros: sum.list_micros.saturating_add(row.amounts.list_micros),
            free_micros: sum.free_micros.saturating_add(row.amounts.free_micros),
            net_micros: sum.net_micros.saturating_add(row.amounts.net_micros),
        });
        sum == self.total && sum.list_micros == sum.free_micros.saturating_add(sum.net_micros)
    }
}

impl Caller {
    /// A caller of the API at `base` with this token.
    #[must_use]
    pub fn new(http: &Client, base: &str, token: &str) -> Self {
        Self { http: http.clone(), base: base.to_owned(), token: token.to_owned() }
    }

    /// Sends a request; the answer's body, or the problem that it is.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Result<Value, Problem>> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.with_context(|| format!("{method} {path}"))?;
        let status = answer.status();
        let text = answer.text().await.with_context(|| format!("{method} {path}"))?;
        if status == StatusCode::NO_CONTENT {
            return Ok(Ok(Value::Null));
        }
        let value: Value = serde_json::from_str(&text).with_context(|| format!("{method} {path}: {status} {text}"))?;
        if status.is_success() {
            Ok(Ok(value))
        } else {
            let problem = serde_json::from_value(value);
            Ok(Err(problem.with_context(|| format!("{method} {path}: {status} {text}"))?))
        }
    }

    /// Sends a request that must succeed.
    pub async fn must(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        match self.call(method.clone(), path, body).await? {
            Ok(value) => Ok(value),
            Err(problem) => bail!("{method} {path}: {} {}: {}", problem.status, problem.code, problem.detail),
        }
    }

    /// Reads something that must be there.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.must(Method::GET, path, None).await
    }

    /// Posts something that must be taken.
    pub async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.must(Method::POST, path, Some(body)).await
    }

    /// Sends something that must be refused.
    pub async fn refused(&self, path: &str, body: Value) -> anyhow::Result<Problem> {
        match self.call(Method::POST, path, Some(body)).await? {
            Ok(value) => bail!("POST {path} should have been refused: {value}"),
            Err(problem) => Ok(problem),
        }
    }
}

/// A text of an answer, by JSON pointer.
pub fn text_at(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).with_context(|| format!("no {pointer} in {value}"))
}

/// An integer of an answer, by JSON pointer.
pub fn integer_at(value: &Value, pointer: &str) -> anyhow::Result<i64> {
    value.pointer(pointer).and_then(Value::as_i64).with_context(|| format!("no {pointer} in {value}"))
}

#[cfg(test)]
mod tests {
    use super::{Amounts, CostRow, Costs, Usage};

    fn row(list_micros: i64, free_micros: i64) -> CostRow {
        let amounts = Amounts { list_micros, free_micros, net_micros: list_micros - free_micros };
        CostRow { sandbox: None, resource: None, usage: Usage::default(), amounts }
    }

    #[test]
    fn a_table_that_does_not_add_up_is_found_out() {
        let total = Amounts { list_micros: 3, free_micros: 2, net_micros: 1 };
        assert!(Costs { rows: vec![row(1, 1), row(2, 1)], total }.adds_up());
        assert!(!Costs { rows: vec![row(1, 1), row(1, 1)], total }.adds_up());
        assert!(!Costs { rows: vec![row(1, 0), row(2, 1)], total }.adds_up());
    }
}
