//! Costs and balances.

use axum::extract::State;
use axum::http::Uri;
use utoipa::IntoParams;

use super::ok;
use crate::domain::id::AccountId;
use crate::http::Shared;
use crate::http::auth::{Admin, Reader};
use crate::http::extract::{AccountPath, NoQuery, Query};
use crate::http::problem::{Answer, Failure};
use crate::ledger::view::{CostQuery, Granularity, GroupBy};
use crate::wire::balance::Balance;
use crate::wire::cost::{
    Costs, GRANULARITIES, GROUPS, GROUPS_OF_ALL, GranularityWord, GroupOfAllWord, GroupWord, checked,
};
use crate::wire::reader::Invalid;
use crate::wire::schema::HourText;

/// Which range, and rows by what time.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents what extract::Query reads")]
struct RangeParams {
    /// On the boundary of an hour; by the day or month, of a UTC day.
    #[param(value_type = HourText, example = "2026-11-01T00:00:00Z")]
    from: String,
    /// Likewise; after `from`, by the hour at most 93 days, else at most 100 years.
    #[param(value_type = HourText, example = "2026-12-01T00:00:00Z")]
    to: String,
    /// Rows by time; `total` when it is left out.
    granularity: Option<GranularityWord>,
}

/// Rows of one account by what.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents what extract::Query reads")]
struct GroupParams {
    /// Rows by what; `none` when it is left out.
    group_by: Option<GroupWord>,
}

/// Rows over all accounts by what.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents what extract::Query reads")]
struct GroupOfAllParams {
    /// Rows by what; `none` when it is left out.
    group_by: Option<GroupOfAllWord>,
}

fn asked(account: Option<AccountId>, uri: &Uri, groups: &[(&str, GroupBy)]) -> Result<CostQuery, Invalid> {
    let query = Query::of(uri, &["from", "to", "granularity", "group_by"])?;
    checked(CostQuery {
        account,
        from: query.time("from")?,
        to: query.time("to")?,
        granularity: query.choice("granularity", &GRANULARITIES)?.unwrap_or(Granularity::Total),
        group_by: query.choice("group_by", groups)?.unwrap_or(GroupBy::None),
    })
}

async fn table(state: &Shared, query: CostQuery) -> Answer {
    let group_by = query.group_by;
    ok(Costs::new(&state.ledger.costs(query).await?, group_by))
}

/// What an account cost in a range; the rows sum to the total.
#[utoipa::path(get, path = "/v1/accounts/{account}/costs", operation_id = "get_costs", tag = "reading",
    params(AccountPath, RangeParams, GroupParams), responses((status = 200, description = "The table.", body = Costs)))]
pub(in crate::http) async fn of_account(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let query = asked(Some(path.account), &uri, &GROUPS)?;
    table(&state, query).await
}

/// What all accounts cost in a range.
#[utoipa::path(get, path = "/v1/costs", operation_id = "get_costs_of_all", tag = "reading",
    params(RangeParams, GroupOfAllParams), responses((status = 200, description = "The table.", body = Costs)))]
pub(in crate::http) async fn of_all(_: Admin, State(state): State<Shared>, uri: Uri) -> Answer {
    let query = asked(None, &uri, &GROUPS_OF_ALL)?;
    table(&state, query).await
}

/// Where an account stands: the month, its free time, and the day of its keys.
#[utoipa::path(get, path = "/v1/accounts/{account}/balance", operation_id = "get_balance", tag = "reading",
    params(AccountPath), responses((status = 200, description = "The balance.", body = Balance)))]
pub(in crate::http) async fn balance(_: Reader, path: AccountPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    let balance = state.ledger.balance(&path.account).await?.ok_or_else(Failure::not_found)?;
    ok(Balance::from(&balance))
}
