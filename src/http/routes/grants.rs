//! Grants of free time and of credit.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, made, page};
use crate::http::Shared;
use crate::http::auth::{Admin, Reader};
use crate::http::extract::{AccountPath, JsonBody, List, NoQuery, Query};
use crate::http::problem::Answer;
use crate::wire::grant::{Grant, GrantRequest, NewGrant};
use crate::wire::page::Page;

/// Grants free time or promotional credit.
#[utoipa::path(post, path = "/v1/accounts/{account}/grants", operation_id = "create_grant", tag = "customers",
    params(AccountPath), request_body = NewGrant,
    responses((status = 201, description = "Made.", body = Grant), (status = 200, description = "Made before.", body = Grant)))]
pub(in crate::http) async fn create(
    _: Admin,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    match body.read(|value| NewGrant::read(path.account, value))? {
        GrantRequest::Time(command) => {
            let grant = state.ledger.create_grant(command).await?;
            made(grant.fresh, Grant::from(&grant.value))
        }
        GrantRequest::Credit(command) => {
            let grant = state.ledger.create_credit(command).await?;
            let (credit, drawn) = &grant.value;
            made(grant.fresh, Grant::of_credit(credit, *drawn))
        }
    }
}

/// Lists the grants of an account by id.
#[utoipa::path(get, path = "/v1/accounts/{account}/grants", operation_id = "list_grants", tag = "customers",
    params(AccountPath, PageParams), responses((status = 200, description = "A page.", body = Page<Grant>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "grants", account: Some(&path.account) };
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&list)?;
    page::<_, Grant>(&list, &state.ledger.grants(&path.account, asked).await?)
}
