//! Voids of wrong samples.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, made, page};
use crate::http::Shared;
use crate::http::auth::{Admin, Reader};
use crate::http::extract::{AccountPath, JsonBody, List, NoQuery, Query};
use crate::http::problem::Answer;
use crate::wire::page::Page;
use crate::wire::void::{NewVoid, Void};

/// Voids an accepted sample: it stays in the evidence and counts no more. What it added is taken back, as late usage
/// where its month is closed.
#[utoipa::path(post, path = "/v1/accounts/{account}/voids", operation_id = "void_sample", tag = "samples",
    params(AccountPath), request_body = NewVoid,
    responses((status = 201, description = "Voided.", body = Void), (status = 200, description = "Voided before.", body = Void)))]
pub(in crate::http) async fn create(
    _: Admin,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| NewVoid::read(path.account, value))?;
    let void = state.ledger.void_sample(command).await?;
    made(void.fresh, Void::from(&void.value))
}

/// Lists the voided samples of an account by the void's id.
#[utoipa::path(get, path = "/v1/accounts/{account}/voids", operation_id = "list_voids", tag = "samples",
    params(AccountPath, PageParams), responses((status = 200, description = "A page.", body = Page<Void>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "voids", account: Some(&path.account) };
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&list)?;
    page::<_, Void>(&list, &state.ledger.voids(&path.account, asked).await?)
}
