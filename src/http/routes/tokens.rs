//! Operator tokens: made on the command line only.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, gone, page};
use crate::http::Shared;
use crate::http::auth::{Admin, Operator};
use crate::http::extract::{List, NoQuery, Query, TokenPath};
use crate::http::problem::Answer;
use crate::wire::page::Page;
use crate::wire::token::Token;

const LIST: List<'static> = List { name: "tokens", account: None };

/// Lists operator tokens by id, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", operation_id = "list_tokens", tag = "operations", params(PageParams),
    responses((status = 200, description = "A page.", body = Page<Token>)))]
pub(in crate::http) async fn list(_: Operator, State(state): State<Shared>, uri: Uri) -> Answer {
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&LIST)?;
    page::<_, Token>(&LIST, &state.ledger.tokens(asked).await?)
}

/// Revokes a token at once.
#[utoipa::path(delete, path = "/v1/tokens/{id}", operation_id = "revoke_token", tag = "operations", params(TokenPath),
    responses((status = 204, description = "Revoked.")))]
pub(in crate::http) async fn revoke(_: Admin, path: TokenPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    state.ledger.revoke_token(path.id).await?;
    Ok(gone())
}
