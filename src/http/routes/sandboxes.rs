//! Sandboxes.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, gone, ok, page};
use crate::domain::id::{AccountId, SandboxId};
use crate::http::Shared;
use crate::http::auth::{Operator, Reader};
use crate::http::extract::{AccountPath, JsonBody, List, NoQuery, Query, SandboxPath};
use crate::http::problem::{Answer, Failure};
use crate::ledger::command::DeleteSandbox;
use crate::wire::page::Page;
use crate::wire::sandbox::{NewSandbox, Sandbox};

/// Lists the sandboxes of an account by id, each with its newest life.
#[utoipa::path(get, path = "/v1/accounts/{account}/sandboxes", operation_id = "list_sandboxes", tag = "leases",
    params(AccountPath, PageParams), responses((status = 200, description = "A page.", body = Page<Sandbox>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "sandboxes", account: Some(&path.account) };
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&list)?;
    page::<_, Sandbox>(&list, &state.ledger.sandboxes(&path.account, asked).await?)
}

async fn shown(state: &Shared, account: &AccountId, sandbox: &SandboxId) -> Answer {
    let view = state.ledger.sandbox(account, sandbox).await?.ok_or_else(Failure::not_found)?;
    ok(Sandbox::from(&view))
}

/// A sandbox.
#[utoipa::path(get, path = "/v1/accounts/{account}/sandboxes/{sandbox}", operation_id = "get_sandbox", tag = "leases",
    params(SandboxPath), responses((status = 200, description = "The sandbox.", body = Sandbox)))]
pub(in crate::http) async fn get(_: Reader, path: SandboxPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    shown(&state, &path.account, &path.sandbox).await
}

/// Registers a sandbox that has no lease: an image, a snapshot.
#[utoipa::path(put, path = "/v1/accounts/{account}/sandboxes/{sandbox}", operation_id = "put_sandbox", tag = "leases",
    params(SandboxPath), request_body = NewSandbox,
    responses((status = 200, description = "The sandbox.", body = Sandbox)))]
pub(in crate::http) async fn put(
    _: Operator,
    path: SandboxPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| NewSandbox::read(path.account.clone(), path.sandbox.clone(), value))?;
    state.ledger.put_sandbox(command).await?;
    shown(&state, &path.account, &path.sandbox).await
}

/// Deletes a sandbox at rest; its usage stays.
#[utoipa::path(delete, path = "/v1/accounts/{account}/sandboxes/{sandbox}", operation_id = "delete_sandbox", tag = "leases",
    params(SandboxPath), responses((status = 204, description = "Deleted.")))]
pub(in crate::http) async fn delete(_: Operator, path: SandboxPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    state.ledger.delete_sandbox(DeleteSandbox { account: path.account, sandbox: path.sandbox }).await?;
    Ok(gone())
}
