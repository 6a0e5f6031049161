//! Who calls, and what the role may do.
//!
//! The ledger is asked once a request whose token it is, every time: a revoked one stops at once. Each route names its
//! access by an extractor, which stands first, so that a role is refused before anything of the request is read.
//!
//! What passes the gate is asked about by the gate itself, in the transaction that decides: there a token that is recognised
//! goes on as [`Presented`], which only [`Caller`] takes. So a route that would not confirm it lets nobody in.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};

use super::Shared;
use super::problem::Failure;
use crate::domain::id::HostId;
use crate::ledger::command::{Presented, Principal};
use crate::secret;
use crate::wire::problem::Code;

/// The SHA-256 of the secret that a request presents.
pub(super) fn presented(headers: &HeaderMap) -> Option<[u8; 32]> {
    let digest = headers.get(AUTHORIZATION).and_then(bearer).and_then(secret::digest_of)?;
    Some(digest.sha256)
}

/// Whose secret it is; 401 if it is nobody's.
pub(super) async fn known(state: &Shared, sha256: [u8; 32]) -> Result<Principal, Failure> {
    state.ledger.authenticate(sha256).await?.ok_or_else(Failure::unauthorized)
}

fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_ascii())
}

fn forbidden() -> Failure {
    Failure::new(Code::Forbidden, "the role of this token may not do this")
}

/// What the layer noted. Without it (a route outside of it) nobody is let in.
fn noted(parts: &Parts) -> Result<&Principal, Failure> {
    parts.extensions.get().ok_or_else(Failure::unauthorized)
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

/// Admin and the control plane, where the gate confirms that they are: who is to be confirmed, if it is not known yet.
pub(super) struct Caller(pub(super) Option<Presented>);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        let Some(presented) = parts.extensions.get::<Presented>() else {
            return Operator::from_request_parts(parts, state).await.map(|_| Self(None));
        };
        match presented.principal {
            Principal::Admin | Principal::ControlPlane => Ok(Self(Some(presented.clone()))),
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
