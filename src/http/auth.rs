//! Who calls, and what the role may do.
//!
//! The ledger is asked once a request whose token it is, every time: a revoked one stops at once. Each route names its
//! access by an extractor, which stands first, so that a role is refused before anything of the request is read.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};

use super::Shared;
use super::problem::Failure;
use crate::domain::id::HostId;
use crate::ledger::command::Principal;
use crate::secret;
use crate::wire::problem::Code;

/// Finds out who calls; 401 without a valid token.
pub(super) async fn principal(state: &Shared, headers: &HeaderMap) -> Result<Principal, Failure> {
    let digest = headers.get(AUTHORIZATION).and_then(bearer).and_then(secret::digest_of).ok_or_else(unauthorized)?;
    state.ledger.authenticate(digest.sha256).await?.ok_or_else(unauthorized)
}

fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_ascii())
}

fn unauthorized() -> Failure {
    Failure::new(Code::Unauthorized, "send Authorization: Bearer with a token that is not revoked")
}

fn forbidden() -> Failure {
    Failure::new(Code::Forbidden, "the role of this token may not do this")
}

/// What the layer noted. Without it (a route outside of it) nobody is let in.
fn noted(parts: &Parts) -> Result<&Principal, Failure> {
    parts.extensions.get().ok_or_else(unauthorized)
}

/// Admin only.
pub(super) struct Admin;

impl FromRequestParts<Shared> for Admin {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        match noted(parts)? {
            Principal::Admin => Ok(Self),
            Principal::ControlPlane | Principal::Host(_) | Principal::Customer { .. } => Err(forbidden()),
        }
    }
}

/// Admin and the control plane.
pub(super) struct Operator;

impl FromRequestParts<Shared> for Operator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        match noted(parts)? {
            Principal::Admin | Principal::ControlPlane => Ok(Self),
            Principal::Host(_) | Principal::Customer { .. } => Err(forbidden()),
        }
    }
}

/// Admin, the control plane, and a customer in its own account; of another account there is nothing (404).
pub(super) struct Reader;

impl FromRequestParts<Shared> for Reader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        let own = match noted(parts)? {
            Principal::Admin | Principal::ControlPlane => return Ok(Self),
            Principal::Host(_) => return Err(forbidden()),
            Principal::Customer { account, .. } => account.clone(),
        };
        let path = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Failure::not_found())?;
        let asked = path.iter().find(|(name, _)| *name == "account").map(|(_, account)| account);
        if asked == Some(own.as_str()) { Ok(Self) } else { Err(Failure::not_found()) }
    }
}

/// A host, which sends its own samples, or an admin, who may send for any host.
pub(super) struct Reporter(pub(super) Option<HostId>);

impl FromRequestParts<Shared> for Reporter {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        match noted(parts)? {
            Principal::Admin => Ok(Self(None)),
            Principal::Host(host) => Ok(Self(Some(host.clone()))),
            Principal::ControlPlane | Principal::Customer { .. } => Err(forbidden()),
        }
    }
}
