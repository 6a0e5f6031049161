//! Leases: the gate, and what follows.

use axum::extract::State;
use axum::http::Uri;
use utoipa::IntoParams;

use super::{PageParams, made, ok, page};
use crate::domain::id::{HostId, KeyId, SandboxId};
use crate::http::Shared;
use crate::http::auth::{Caller, Operator, Reader};
use crate::http::extract::{AccountPath, JsonBody, LeasePath, List, NoQuery, Query};
use crate::http::problem::{Answer, Failure};
use crate::ledger::command::CommandError;
use crate::ledger::view::LeaseFilter;
use crate::wire::lease::{Admission, Extension, Lease, LeaseEnd, LeaseMove, LeaseStateWord, Leases, Quoted, STATES};
use crate::wire::page::Page;
use crate::wire::problem::Problem;
use crate::wire::schema::Id;

/// Which leases to list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents what extract::Query reads")]
struct FilterParams {
    /// Of this sandbox.
    #[param(value_type = Option<Id>)]
    sandbox: Option<String>,
    /// Of this key.
    #[param(value_type = Option<Id>)]
    key: Option<String>,
    /// In this state now.
    state: Option<LeaseStateWord>,
    /// On this host.
    #[param(value_type = Option<Id>)]
    host: Option<String>,
}

async fn shown(state: &Shared, lease: crate::domain::lease::Lease) -> Answer {
    // Boxed: the statements of a view would be most of what a waiting request takes.
    let views = Box::pin(state.ledger.views_of(vec![lease])).await?;
    ok(Lease::from(views.first().ok_or_else(Failure::not_found)?))
}

/// Asks for one or more leases of one key: all or nothing.
#[utoipa::path(post, path = "/v1/accounts/{account}/leases", operation_id = "admit_leases", tag = "leases",
    params(AccountPath), request_body = Admission,
    responses((status = 201, description = "Admitted.", body = Leases), (status = 200, description = "Admitted before; as they are now.", body = Leases),
        (status = 402, description = "A limit, a card or free time stands in the way.", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn admit(
    caller: Caller,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let request = body.read(|value| Admission::read(path.account, value))?;
    let admitted = state.ledger.admit_by(request, caller.0).await.map_err(|error| {
        let failure = Failure::from(error);
        state.metrics.admission(failure.code());
        failure
    })?;
    state.metrics.admission(if admitted.fresh { "admitted" } else { "repeated" });
    let fresh = admitted.fresh;
    let views = state.ledger.admitted_views(admitted).await?;
    made(fresh, Leases { leases: views.iter().map(Lease::from).collect() })
}

/// Asks what the gate would say; changes nothing.
#[utoipa::path(post, path = "/v1/accounts/{account}/leases/quote", operation_id = "quote_leases", tag = "leases",
    params(AccountPath), request_body = Admission,
    responses((status = 200, description = "Whether they would be admitted now.", body = Quoted)))]
pub(in crate::http) async fn quote(
    _: Operator,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let request = body.read(|value| Admission::read(path.account, value))?;
    match state.ledger.quote(request).await {
        Ok(quote) => ok(Quoted::from(&quote)),
        // What the admission would be told with another status is what it would be told.
        Err(error @ (CommandError::Conflict { .. } | CommandError::NotFound("key"))) => {
            ok(Quoted::refused(Failure::from(error).into_problem()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Lists the leases of an account by id.
#[utoipa::path(get, path = "/v1/accounts/{account}/leases", operation_id = "list_leases", tag = "leases",
    params(AccountPath, FilterParams, PageParams), responses((status = 200, description = "A page.", body = Page<Lease>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "leases", account: Some(&path.account) };
    let query = Query::of(&uri, &["limit", "cursor", "sandbox", "key", "state", "host"])?;
    let filter = LeaseFilter {
        sandbox: query.id("sandbox", SandboxId::parse)?,
        key: query.id("key", KeyId::parse)?,
        state: query.choice("state", &STATES)?,
        host: query.id("host", HostId::parse)?,
    };
    let asked = query.page(&list)?;
    page::<_, Lease>(&list, &state.ledger.leases(&path.account, filter, asked).await?)
}

/// A lease.
#[utoipa::path(get, path = "/v1/accounts/{account}/leases/{lease}", operation_id = "get_lease", tag = "leases",
    params(LeasePath), responses((status = 200, description = "The lease.", body = Lease)))]
pub(in crate::http) async fn get(_: Reader, path: LeasePath, _: NoQuery, State(state): State<Shared>) -> Answer {
    let view = state.ledger.lease(&path.account, &path.lease).await?.ok_or_else(Failure::not_found)?;
    ok(Lease::from(&view))
}

/// Adds time to a lease's end, through the same gate.
#[utoipa::path(post, path = "/v1/accounts/{account}/leases/{lease}/extend", operation_id = "extend_lease", tag = "leases",
    params(LeasePath), request_body = Extension,
    responses((status = 200, description = "The lease as it is now.", body = Lease),
        (status = 402, description = "A limit, a card or free time stands in the way.", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn extend(
    caller: Caller,
    path: LeasePath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| Extension::read(path.account, path.lease, value))?;
    let lease = state.ledger.extend_by(command, caller.0).await?;
    shown(&state, lease).await
}

/// Tells that a lease ended; repeating it changes nothing.
#[utoipa::path(post, path = "/v1/accounts/{account}/leases/{lease}/end", operation_id = "end_lease", tag = "leases",
    params(LeasePath), request_body = LeaseEnd,
    responses((status = 200, description = "The lease as it is now.", body = Lease)))]
pub(in crate::http) async fn end(
    _: Operator,
    path: LeasePath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| LeaseEnd::read(path.account, path.lease, value))?;
    let lease = state.ledger.end(command).await?;
    shown(&state, lease).await
}

/// Tells that another host runs a lease from now on.
#[utoipa::path(post, path = "/v1/accounts/{account}/leases/{lease}/move", operation_id = "move_lease", tag = "leases",
    params(LeasePath), request_body = LeaseMove,
    responses((status = 200, description = "The lease as it is now.", body = Lease)))]
pub(in crate::http) async fn move_to_host(
    _: Operator,
    path: LeasePath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| LeaseMove::read(path.account, path.lease, value))?;
    let lease = state.ledger.move_lease(command).await?;
    shown(&state, lease).await
}
