//! Keys of an account.

use serde::Serialize;
use utoipa::ToSchema;

use super::account::limit_of;
use super::reader::{Invalid, Value};
use super::schema::{Id, MicrosCount, NAME_CHARS_MAX, Name, SECRET_CHARS_MAX, SecretText, TimeText};
use super::time::show_time;
use crate::domain;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::money::Micros;
use crate::ledger::command::{CreateKey, SecretDigest, UpdateKey};

/// A key to make.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Chosen by the caller; the same request again gives the same answer, without the secret.
    #[schema(value_type = Id)]
    pub id: KeyId,
    /// Defaults to the id.
    #[schema(value_type = Name, required = false)]
    pub name: String,
    /// Whether it may read but start nothing.
    #[schema(required = false, default = false)]
    pub read_only: bool,
    /// Most that it may spend in a UTC day; absent or null: no limit, 0 refuses all.
    #[schema(value_type = Option<MicrosCount>)]
    pub daily_limit_micros: Option<Micros>,
}

impl NewKey {
    /// Reads the request; `secret` is what a new key will have.
    pub fn read(account: AccountId, body: &Value<'_, '_>, secret: SecretDigest) -> Result<CreateKey, Invalid> {
        let object = body.object(["id", "name", "read_only", "daily_limit_micros"])?;
        let id = object.required("id")?.id(KeyId::parse)?;
        let name = object.given("name").map(|name| name.text(NAME_CHARS_MAX)).transpose()?;
        Ok(CreateKey {
            account,
            name: name.unwrap_or_else(|| id.to_string()),
            id,
            read_only: object.given("read_only").map(|flag| flag.flag()).transpose()?.unwrap_or(false),
            daily_limit: object.optional("daily_limit_micros").map(|limit| limit.micros()).transpose()?,
            secret,
        })
    }
}

/// What to change of a key; what is left out stays.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// A new name.
    #[schema(value_type = Name, required = false)]
    pub name: Option<String>,
    /// Most that it may spend in a UTC day; null removes the limit, 0 refuses all.
    #[schema(value_type = Option<MicrosCount>)]
    pub daily_limit_micros: Option<Option<Micros>>,
}

impl KeyChange {
    /// Reads the request.
    pub fn read(account: AccountId, key: KeyId, body: &Value<'_, '_>) -> Result<UpdateKey, Invalid> {
        let object = body.object(["name", "daily_limit_micros"])?;
        Ok(UpdateKey {
            account,
            id: key,
            name: object.given("name").map(|name| name.text(NAME_CHARS_MAX)).transpose()?,
            daily_limit: object.given("daily_limit_micros").map(|limit| limit_of(&limit)).transpose()?,
        })
    }
}

/// Asks for a new secret: an empty object.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotation {}

impl Rotation {
    /// Reads the request.
    pub fn read(body: &Value<'_, '_>) -> Result<(), Invalid> {
        body.object([]).map(|_| ())
    }
}

/// A secret to look up.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Introspection {
    /// What a caller presented.
    #[schema(value_type = SecretText)]
    pub secret: String,
}

impl Introspection {
    /// Reads the request.
    pub fn read(body: &Value<'_, '_>) -> Result<Self, Invalid> {
        let object = body.object(["secret"])?;
        Ok(Self { secret: object.required("secret")?.text(SECRET_CHARS_MAX)? })
    }
}

/// Whose a secret is; only `active` when it is no key's, or a revoked one's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Introspected {
    /// Whether it is the secret of a key that is not revoked.
    pub active: bool,
    /// The account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub account: Option<String>,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub key: Option<String>,
    /// Whether it may read but start nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub read_only: Option<bool>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Key {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// The account.
    #[schema(value_type = Id)]
    pub account: String,
    /// Its name.
    #[schema(value_type = Name)]
    pub name: String,
    /// Whether it may read but start nothing.
    pub read_only: bool,
    /// Most that it may spend in a UTC day; null: no limit.
    #[schema(value_type = Option<MicrosCount>, required = true)]
    pub daily_limit_micros: Option<i64>,
    /// When it was revoked.
    #[schema(value_type = Option<TimeText>, required = true)]
    pub revoked_at: Option<String>,
    /// When it was made.
    #[schema(value_type = TimeText)]
    pub created_at: String,
    /// Shown once: when the key is made or rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = SecretText, required = false)]
    pub secret: Option<String>,
}

impl Key {
    /// The key with the secret that it was just given.
    #[must_use]
    pub fn with_secret(key: &domain::customer::Key, secret: Option<String>) -> Self {
        Self { secret, ..Self::from(key) }
    }
}

impl From<&domain::customer::Key> for Key {
    fn from(key: &domain::customer::Key) -> Self {
        Self {
            id: key.id.to_string(),
            account: key.account.to_string(),
            name: key.name.clone(),
            read_only: key.read_only,
            daily_limit_micros: key.daily_limit.map(Micros::count),
            revoked_at: key.revoked_at.map(show_time),
            created_at: show_time(key.created_at),
            secret: None,
        }
    }
}
