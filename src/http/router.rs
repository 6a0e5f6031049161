//! Every route on one page.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Failure;
use super::routes::{
    accounts, costs, dashboard, evidence, grants, invoices, keys, leases, notes, ops, rate_cards, rejected,
    remote_write, samples, sandboxes, tokens, voids,
};
use super::{AppState, Shared, layers, openapi};
use crate::wire::problem::Code;

/// The whole program as a service: the API, the probes and the dashboard, with all layers.
pub fn router(state: AppState) -> Router {
    assemble(state, layers::guarded)
}

/// The routes with the layer of the API given, so that tests can be any caller.
pub(super) fn assemble(state: AppState, guard: impl FnOnce(Router<Shared>, &Shared) -> Router<Shared>) -> Router {
    let state = Arc::new(state);
    let (api, probes) = (api().split_for_parts().0, probes().split_for_parts().0);
    let api = guard(with_fallbacks(api).fallback(no_route), &state);
    api.merge(layers::open(with_fallbacks(probes), &state)).with_state(state)
}

/// Everything below `/v1`: needs a token.
#[rustfmt::skip]
pub(super) fn api() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::head())
        // customers
        .routes(routes!(accounts::create, accounts::list))
        .routes(routes!(accounts::get, accounts::update))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::get, keys::update, keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::introspect))
        .routes(routes!(grants::create, grants::list))
        .routes(routes!(rate_cards::create, rate_cards::list))
        .routes(routes!(rate_cards::remove))
        .routes(routes!(rate_cards::in_force, rate_cards::return_to_default))
        .routes(routes!(tokens::list))
        .routes(routes!(tokens::revoke))
        // leases and sandboxes
        .routes(routes!(leases::admit, leases::list))
        .routes(routes!(leases::quote))
        .routes(routes!(leases::get))
        .routes(routes!(leases::extend))
        .routes(routes!(leases::end))
        .routes(routes!(leases::move_to_host))
        .routes(routes!(sandboxes::list))
        .routes(routes!(sandboxes::get, sandboxes::put, sandboxes::delete))
        // samples
        .routes(routes!(samples::ingest))
        .routes(routes!(remote_write::write))
        .routes(routes!(rejected::list))
        .routes(routes!(voids::create, voids::list))
        // reading
        .routes(routes!(costs::of_account))
        .routes(routes!(costs::of_all))
        .routes(routes!(costs::balance))
        .routes(routes!(invoices::list))
        .routes(routes!(invoices::get))
        .routes(routes!(evidence::get))
        .routes(routes!(invoices::close))
        .routes(routes!(rejected::unbilled))
        .routes(routes!(notes::record))
        .routes(routes!(notes::issue))
        .routes(routes!(notes::list))
        .routes(routes!(notes::get))
        // trying things out
        .routes(routes!(ops::move_test_clock))
}

/// What needs no token.
pub(super) fn probes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(ops::alive))
        .routes(routes!(ops::ready))
        .routes(routes!(ops::metrics))
        .routes(routes!(ops::document))
        .route("/", get(dashboard::page))
}

fn with_fallbacks(router: Router<Shared>) -> Router<Shared> {
    router.method_not_allowed_fallback(async || Failure::new(Code::MethodNotAllowed, "see Allow for the methods"))
}

async fn no_route() -> Failure {
    Failure::new(Code::NotFound, "there is no such route; see /openapi.json")
}
