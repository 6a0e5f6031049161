//! Handlers: read the request, ask the ledger, show the answer.

pub(super) mod accounts;
pub(super) mod costs;
pub(super) mod dashboard;
pub(super) mod evidence;
mod focus;
pub(super) mod grants;
pub(super) mod invoices;
pub(super) mod keys;
pub(super) mod leases;
pub(super) mod notes;
pub(super) mod ops;
pub(super) mod rate_cards;
pub(super) mod rejected;
pub(super) mod remote_write;
pub(super) mod samples;
pub(super) mod sandboxes;
pub(super) mod tokens;
pub(super) mod voids;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::answer::json;
use super::extract::List;
use super::problem::Answer;
use crate::ledger::view::Listed;
use crate::wire::page::Page;

/// Which page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents what extract::Query reads")]
struct PageParams {
    /// Most items of the page.
    #[param(minimum = 1, maximum = 1_000, default = 100)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

#[expect(clippy::unnecessary_wraps, reason = "the last expression of handlers, which answer a result")]
fn ok(body: impl Serialize) -> Answer {
    Ok(json(StatusCode::OK, &body))
}

/// 201 for what this request made, 200 for what was there already.
#[expect(clippy::unnecessary_wraps, reason = "the last expression of handlers, which answer a result")]
fn made(fresh: bool, body: impl Serialize) -> Answer {
    let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json(status, &body))
}

fn gone() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn page<V, T>(list: &List<'_>, listed: &Listed<V>) -> Answer
where
    T: ToSchema + Serialize + for<'v> From<&'v V>,
{
    ok(Page::<T> {
        items: listed.items.iter().map(T::from).collect(),
        next_cursor: listed.next.as_deref().map(|key| list.seal(key)),
    })
}
