//! Bodies that tests send, and what they read out of answers.

use serde_json::{Value, json};

use super::api::Answer;
use super::time::Time;

/// A lease to ask for: `create`, starting now.
pub(crate) fn lease(id: &str, sandbox: &str, vcpus: i64, memory_mib: i64, timeout_seconds: i64) -> Value {
    json!({"id": id, "sandbox": sandbox, "kind": "create", "vcpus": vcpus, "memory_mib": memory_mib,
           "timeout_seconds": timeout_seconds})
}

/// A lease to ask for of 2 vCPU, 4 GiB: 80,000 microdollars an hour at worst, 31,250 idle. Its sandbox is `s-ID`.
pub(crate) fn shape(id: &str, timeout_seconds: i64) -> Value {
    lease(id, &format!("s-{id}"), 2, 4_096, timeout_seconds)
}

/// A sample of a running sandbox.
pub(crate) fn sample(account: &str, sandbox: &str, lease: &str, at: Time, cpu_usage_usec: i64) -> Value {
    json!({"account": account, "sandbox": sandbox, "lease": lease, "at": at.to_string(), "cpu_usage_usec": cpu_usage_usec})
}

/// A sample of a sandbox at rest.
pub(crate) fn at_rest(account: &str, sandbox: &str, at: Time, storage_mib: i64) -> Value {
    json!({"account": account, "sandbox": sandbox, "at": at.to_string(), "storage_mib": storage_mib})
}

/// The same object with one member set.
pub(crate) fn with(mut object: Value, member: &str, value: impl Into<Value>) -> Value {
    object[member] = value.into();
    object
}

/// The body of a 200.
#[track_caller]
pub(crate) fn done((status, body): Answer) -> Value {
    assert_eq!(status, 200, "{body}");
    body
}

/// The body of a 201.
#[track_caller]
pub(crate) fn made((status, body): Answer) -> Value {
    assert_eq!(status, 201, "{body}");
    body
}

/// The problem document of a refusal, whose every fixed member is as documented.
#[track_caller]
pub(crate) fn refused((status, body): Answer, expected: u16, code: &str) -> Value {
    assert_eq!((status, body["code"].as_str()), (expected, Some(code)), "{body}");
    assert_eq!(body["type"], format!("https://runtab.dev/problems/{code}"), "{body}");
    assert_eq!(body["status"], expected, "{body}");
    assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()), "{body}");
    assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body}");
    body
}

/// A refused value: 422 that names the field.
#[track_caller]
pub(crate) fn invalid(answer: Answer, pointer: &str) {
    let body = refused(answer, 422, "invalid_request");
    assert_eq!(body["pointer"], pointer, "{body}");
}

/// A whole number within 2^53 - 1.
#[track_caller]
pub(crate) fn int(object: &Value, member: &str) -> i64 {
    object[member].as_i64().unwrap_or_else(|| panic!("{member} is no integer: {object}"))
}

/// A quantity of `usage`: a decimal string of a whole number.
#[track_caller]
pub(crate) fn quantity(object: &Value, member: &str) -> i128 {
    let text = object["usage"][member].as_str().unwrap_or_else(|| panic!("usage.{member} is no string: {object}"));
    text.parse().unwrap_or_else(|_| panic!("usage.{member} is no whole number: {object}"))
}

/// (index, code) of each rejected sample.
#[track_caller]
pub(crate) fn rejections(body: &Value) -> Vec<(i64, String)> {
    let rejected = body["rejected"].as_array().unwrap_or_else(|| panic!("no rejected: {body}"));
    rejected.iter().map(|row| (int(row, "index"), row["code"].as_str().unwrap_or_default().to_owned())).collect()
}
