//! Rate cards.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, gone, made, ok, page};
use crate::http::Shared;
use crate::http::auth::{Admin, Operator, Reader};
use crate::http::extract::{AccountPath, JsonBody, List, NoQuery, Query, RateCardPath};
use crate::http::problem::Answer;
use crate::ledger::command::RemoveRateCard;
use crate::wire::page::Page;
use crate::wire::rate_card::{BackToDefault, NewRateCard, RateCardEntry, RateCardInForce};

const LIST: List<'static> = List { name: "rate-cards", account: None };

/// Adds a rate card: for all, or for one account.
#[utoipa::path(post, path = "/v1/rate-cards", operation_id = "add_rate_card", tag = "customers",
    request_body = NewRateCard,
    responses((status = 201, description = "Added.", body = RateCardEntry), (status = 200, description = "Added before.", body = RateCardEntry)))]
pub(in crate::http) async fn create(_: Admin, _: NoQuery, State(state): State<Shared>, body: JsonBody) -> Answer {
    let entry = state.ledger.add_rate_card(body.read(NewRateCard::read)?).await?;
    made(entry.fresh, RateCardEntry::from(&entry.value))
}

/// Lists all rate cards and returns to the default.
#[utoipa::path(get, path = "/v1/rate-cards", operation_id = "list_rate_cards", tag = "customers", params(PageParams),
    responses((status = 200, description = "A page.", body = Page<RateCardEntry>)))]
pub(in crate::http) async fn list(_: Operator, State(state): State<Shared>, uri: Uri) -> Answer {
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&LIST)?;
    page::<_, RateCardEntry>(&LIST, &state.ledger.rate_cards(asked).await?)
}

/// Removes a rate card, up to an hour before its day.
#[utoipa::path(delete, path = "/v1/rate-cards/{id}", operation_id = "remove_rate_card", tag = "customers",
    params(RateCardPath), responses((status = 204, description = "Removed.")))]
pub(in crate::http) async fn remove(_: Admin, path: RateCardPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    state.ledger.remove_rate_card(RemoveRateCard { id: path.id }).await?;
    Ok(gone())
}

/// The card in force for an account, and what comes.
#[utoipa::path(get, path = "/v1/accounts/{account}/rate-card", operation_id = "get_rate_card", tag = "customers",
    params(AccountPath), responses((status = 200, description = "The cards.", body = RateCardInForce)))]
pub(in crate::http) async fn in_force(_: Reader, path: AccountPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    ok(RateCardInForce::from(&state.ledger.cards_in_force(&path.account).await?))
}

/// Returns an account to the default card from a day on.
#[utoipa::path(post, path = "/v1/accounts/{account}/rate-card", operation_id = "return_to_default", tag = "customers",
    params(AccountPath), request_body = BackToDefault,
    responses((status = 201, description = "Added.", body = RateCardEntry), (status = 200, description = "Added before.", body = RateCardEntry)))]
pub(in crate::http) async fn return_to_default(
    _: Admin,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| BackToDefault::read(path.account, value))?;
    let entry = state.ledger.return_to_default(command).await?;
    made(entry.fresh, RateCardEntry::from(&entry.value))
}
