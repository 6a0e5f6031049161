//! Keys of an account, and whose a secret is.

use axum::extract::State;
use axum::http::Uri;

use super::{PageParams, gone, made, ok, page};
use crate::http::Shared;
use crate::http::auth::{Admin, Operator, Reader};
use crate::http::extract::{AccountPath, JsonBody, KeyPath, List, NoQuery, Query};
use crate::http::problem::{Answer, Failure};
use crate::ledger::command::Principal;
use crate::secret::{Secret, SecretKind, digest_of};
use crate::wire::key::{Introspected, Introspection, Key, KeyChange, NewKey, Rotation};
use crate::wire::page::Page;

fn new_secret() -> Result<Secret, Failure> {
    Secret::generate(SecretKind::Key).map_err(|error| Failure::internal(&error))
}

/// Makes a key; its secret is shown this once.
#[utoipa::path(post, path = "/v1/accounts/{account}/keys", operation_id = "create_key", tag = "customers",
    params(AccountPath), request_body = NewKey,
    responses((status = 201, description = "Made, with its secret.", body = Key), (status = 200, description = "Made before; without the secret.", body = Key)))]
pub(in crate::http) async fn create(
    _: Admin,
    path: AccountPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let secret = new_secret()?;
    let command = body.read(|value| NewKey::read(path.account, value, secret.digest()))?;
    let key = state.ledger.create_key(command).await?;
    made(key.fresh, Key::with_secret(&key.value, key.fresh.then(|| secret.into_text())))
}

/// Lists the keys of an account by id.
#[utoipa::path(get, path = "/v1/accounts/{account}/keys", operation_id = "list_keys", tag = "customers",
    params(AccountPath, PageParams), responses((status = 200, description = "A page.", body = Page<Key>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "keys", account: Some(&path.account) };
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&list)?;
    page::<_, Key>(&list, &state.ledger.keys(&path.account, asked).await?)
}

/// A key, without its secret.
#[utoipa::path(get, path = "/v1/accounts/{account}/keys/{key}", operation_id = "get_key", tag = "customers",
    params(KeyPath), responses((status = 200, description = "The key.", body = Key)))]
pub(in crate::http) async fn get(_: Reader, path: KeyPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    let key = state.ledger.key(&path.account, &path.key).await?.ok_or_else(Failure::not_found)?;
    ok(Key::from(&key))
}

/// Changes what is given of a key.
#[utoipa::path(patch, path = "/v1/accounts/{account}/keys/{key}", operation_id = "update_key", tag = "customers",
    params(KeyPath), request_body = KeyChange,
    responses((status = 200, description = "The key as it is now.", body = Key)))]
pub(in crate::http) async fn update(
    _: Admin,
    path: KeyPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let change = body.read(|value| KeyChange::read(path.account, path.key, value))?;
    ok(Key::from(&state.ledger.update_key(change).await?))
}

/// Gives a key a new secret; the old one stops at once, usage and limit go on.
#[utoipa::path(post, path = "/v1/accounts/{account}/keys/{key}/rotate", operation_id = "rotate_key", tag = "customers",
    params(KeyPath), request_body = Rotation,
    responses((status = 200, description = "The key, with its new secret.", body = Key)))]
pub(in crate::http) async fn rotate(
    _: Admin,
    path: KeyPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    body.read(Rotation::read)?;
    let secret = new_secret()?;
    let key = state.ledger.rotate_key(path.account, path.key, secret.digest()).await?;
    ok(Key::with_secret(&key, Some(secret.into_text())))
}

/// Revokes a key at once; its usage stays, and what runs is metered on.
#[utoipa::path(delete, path = "/v1/accounts/{account}/keys/{key}", operation_id = "revoke_key", tag = "customers",
    params(KeyPath), responses((status = 204, description = "Revoked.")))]
pub(in crate::http) async fn revoke(_: Admin, path: KeyPath, _: NoQuery, State(state): State<Shared>) -> Answer {
    state.ledger.revoke_key(path.account, path.key).await?;
    Ok(gone())
}

/// Whose key a secret is.
#[utoipa::path(post, path = "/v1/keys/introspect", operation_id = "introspect_key", tag = "customers",
    request_body = Introspection,
    responses((status = 200, description = "Whose it is, or `active` false.", body = Introspected)))]
pub(in crate::http) async fn introspect(
    _: Operator,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let asked = body.read(Introspection::read)?;
    let principal = match digest_of(&asked.secret) {
        Some(digest) => state.ledger.authenticate(digest.sha256).await?,
        None => None,
    };
    ok(match principal {
        Some(Principal::Customer { account, key, read_only }) => Introspected {
            active: true,
            account: Some(account.to_string()),
            key: Some(key.to_string()),
            read_only: Some(read_only),
        },
        Some(Principal::Admin | Principal::ControlPlane | Principal::Host(_)) | None => Introspected::default(),
    })
}
