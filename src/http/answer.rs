//! Answers of JSON: one text, written at once.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::problem::Failure;

/// Room for an answer at first, in bytes: one lease, or a problem, fits.
const ANSWER_BYTES: usize = 1_024;

/// An answer of JSON.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    if let Err(error) = serde_json::to_writer(&mut text, body) {
        return Failure::internal(&error).into_response();
    }
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
