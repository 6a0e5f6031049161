//! Accounts.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, made, ok, page};
use crate::http::Shared;
use crate::http::auth::{Admin, Operator, Reader};
use crate::http::extract::{AccountPath, JsonBody, List, NoQuery, Query};
use crate::http::problem::{Answer, Failure};
use crate::wire::account::{Account, AccountChange, NewAccount};
use crate::wire::page::Page;

const LIST: List<'static> = List { name: "accounts", account: None };

/// Makes an account, with the welcome free hours.
#[utoipa::path(post, path = "/v1/accounts", operation_id = "create_account", tag = "customers",
    request_body = NewAccount,
    responses((status = 201, description = "Made.", body = Account), (status = 200, description = "Made before.", body = Account)))]
pub(in crate::http) async fn create(_: Admin, _: NoQuery, State(state): State<Shared>, body: JsonBody) -> Answer {
    let account = state.ledger.create_account(body.read(NewAccount::read)?).await?;
    made(account.fresh, Account::from(&account.value))
}

/// Lists accounts by id.
#[utoipa::path(get, path = "/v1/accounts", operation_id = "list_accounts", tag = "customers", params(PageParams),
    responses((status = 200, description = "A page.", body = Page<Account>)))]
pub(in crate::http) async fn list(_: Operator, State(state): State<Shared>, uri: Uri) -> Answer {
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&LIST)?;
    page::<_, Account>(&LIST, &state.ledger.accounts(asked).await?)
}

/// An account.
#[utoipa::path(get, path = "/v1/accounts/{account}", operation_id = "get_account", tag = "customers", params(AccountPath),
    responses((status = 200, description = "The account.", body = Account)))]
pub(in crate::http) async fn get(_: Reader, path: AccountPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    let account = state.ledger.account(&path.account).await?.ok_or_else(Failure::not_found)?;
    ok(Account::from(&account))
}

/// Changes what is given of an account.
#[utoipa::path(patch, path = "/v1/accounts/{account}", operation_id = "update_account", tag = "customers",
    params(AccountPath), request_body = AccountChange,
    responses((status = 200, description = "The account as it is now.", body = Account)))]
pub(in crate::http) async fn update(
    _: Admin,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let change = body.read(|value| AccountChange::read(path.account, value))?;
    ok(Account::from(&state.ledger.update_account(change).await?))
}
