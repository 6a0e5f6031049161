//! Grants of free time.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::{DayText, HoursCount, Id, MillisCount, NOTE_CHARS_MAX, Note, TimeText};
use super::time::{show_day, show_time};
use crate::domain;
use crate::domain::free_hours::GRANT_HOURS_MAX;
use crate::domain::id::{AccountId, GrantId};
use crate::domain::time::Day;
use crate::ledger::command::CreateGrant;

const HOUR_MS: i64 = 3_600_000;

/// A grant to make.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGrant {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: GrantId,
    /// How much.
    #[schema(value_type = HoursCount)]
    pub sandbox_hours: i64,
    /// The first day on which it pays; absent or null: today.
    #[schema(value_type = Option<DayText>)]
    pub starts_on: Option<Day>,
    /// The first day on which it pays no more, after `starts_on`; absent or null: never.
    #[schema(value_type = Option<DayText>, example = "2027-11-01")]
    pub expires_on: Option<Day>,
    /// Free text.
    #[schema(value_type = Note, required = false)]
    pub note: String,
}

impl NewGrant {
    /// Reads the request.
    pub fn read(account: AccountId, body: &Value<'_, '_>) -> Result<CreateGrant, Invalid> {
        let object = body.object(["id", "sandbox_hours", "starts_on", "expires_on", "note"])?;
        let hours = object.required("sandbox_hours")?.integer(1, GRANT_HOURS_MAX)?;
        let starts_on = object.optional("starts_on").map(|day| day.day()).transpose()?;
        let expires_on = object.optional("expires_on").map(|day| day.day()).transpose()?;
        if expires_on.is_some_and(|expires_on| starts_on.is_some_and(|starts_on| expires_on <= starts_on)) {
            return Err(object.invalid("expires_on", "must be after starts_on"));
        }
        Ok(CreateGrant {
            account,
            id: object.required("id")?.id(GrantId::parse)?,
            granted_ms: hours.saturating_mul(HOUR_MS),
            starts_on,
            expires_on,
            note: object.given("note").map(|note| note.text(NOTE_CHARS_MAX)).transpose()?.unwrap_or_default(),
        })
    }
}

/// A grant of free time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Grant {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// How much, in whole hours of one running sandbox.
    #[schema(value_type = HoursCount)]
    pub sandbox_hours: i64,
    /// How much.
    #[schema(value_type = MillisCount)]
    pub granted_ms: i64,
    /// How much of it is drawn.
    #[schema(value_type = MillisCount)]
    pub used_ms: i64,
    /// The first day on which it pays.
    #[schema(value_type = DayText)]
    pub starts_on: String,
    /// The first day on which it pays no more; null: never.
    #[schema(value_type = Option<DayText>, required = true)]
    pub expires_on: Option<String>,
    /// Free text.
    #[schema(value_type = Note)]
    pub note: String,
    /// When it was made.
    #[schema(value_type = TimeText)]
    pub created_at: String,
}

impl From<&domain::free_hours::Grant> for Grant {
    fn from(grant: &domain::free_hours::Grant) -> Self {
        Self {
            id: grant.id.to_string(),
            sandbox_hours: grant.granted_ms / HOUR_MS,
            granted_ms: grant.granted_ms,
            used_ms: grant.used_ms,
            starts_on: show_day(grant.starts_on),
            expires_on: grant.expires_on.map(show_day),
            note: grant.note.clone(),
            created_at: show_time(grant.created_at),
        }
    }
}
