//! Samples that are not used, and time that nobody pays for: what operators look at.

use axum::extract::State;
use axum::http::Uri;
use utoipa::IntoParams;

use super::invoices::MonthParams;
use super::{PageParams, ok, page};
use crate::domain::id::AccountId;
use crate::http::Shared;
use crate::http::auth::Admin;
use crate::http::extract::{List, MonthPath, NoQuery, Query};
use crate::http::problem::Answer;
use crate::wire::page::Page;
use crate::wire::rejected::Rejected;
use crate::wire::schema::Id;
use crate::wire::unbilled::Unbilled;

/// Of which account.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents what extract::Query reads")]
struct AccountParam {
    /// Of this account only.
    #[param(value_type = Id)]
    account: Option<String>,
}

/// Lists samples that are not used, the latest first. Of each account, and of none that is known, a bounded number is kept.
#[utoipa::path(get, path = "/v1/rejected", operation_id = "list_rejected", tag = "samples",
    params(AccountParam, PageParams), responses((status = 200, description = "A page.", body = Page<Rejected>)))]
pub(in crate::http) async fn list(_: Admin, State(state): State<Shared>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["account", "limit", "cursor"])?;
    let account = query.id("account", AccountId::parse)?;
    let list = List { name: "rejected", account: account.as_ref() };
    let asked = query.page(&list)?;
    page::<_, Rejected>(&list, &state.ledger.rejected(account.as_ref(), &asked).await?)
}

/// Says how much time of a month was granted and is billed to nobody, by its cause, over all accounts.
#[utoipa::path(get, path = "/v1/months/{month}/unbilled", operation_id = "unbilled", tag = "customers",
    params(MonthParams), responses((status = 200, description = "By cause.", body = Unbilled)))]
pub(in crate::http) async fn unbilled(_: Admin, path: MonthPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    ok(Unbilled::new(path.month, &state.ledger.unbilled(path.month).await?))
}
