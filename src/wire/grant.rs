//! Grants: of free time, and of promotional credit.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::{
    CreditCount, DayText, HoursCount, Id, MillisCount, NOTE_CHARS_MAX, Note, SignedMicrosCount, TimeText,
};
use super::time::{show_day, show_time};
use crate::domain::credit::{CREDIT_MICROS_MAX, Credit};
use crate::domain::free_hours::{self, GRANT_HOURS_MAX};
use crate::domain::id::{AccountId, GrantId};
use crate::domain::money::Micros;
use crate::domain::time::Day;
use crate::ledger::command::{CreateCredit, CreateGrant};
use crate::ledger::view::GrantView;

const HOUR_MS: i64 = 3_600_000;

/// A grant to make: of free time (`sandbox_hours`), or of credit (`credit_micros`).
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGrant {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: GrantId,
    /// Free time: how much. This or `credit_micros`.
    #[schema(value_type = HoursCount, required = false)]
    pub sandbox_hours: Option<i64>,
    /// Credit: how much. It pays for everything, after free time. This or `sandbox_hours`.
    #[schema(value_type = CreditCount, required = false)]
    pub credit_micros: Option<i64>,
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

/// A grant to make, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantRequest {
    /// Free time.
    Time(CreateGrant),
    /// Promotional credit.
    Credit(CreateCredit),
}

impl NewGrant {
    /// Reads the request.
    pub fn read(account: AccountId, body: &Value<'_, '_>) -> Result<GrantRequest, Invalid> {
        let object = body.object(["id", "sandbox_hours", "credit_micros", "starts_on", "expires_on", "note"])?;
        let credit = object.given("credit_micros").map(|credit| credit.integer(1, CREDIT_MICROS_MAX)).transpose()?;
        if credit.is_some() && object.given("sandbox_hours").is_some() {
            return Err(object.invalid("credit_micros", "a grant is of free time or of credit, not of both"));
        }
        let starts_on = object.optional("starts_on").map(|day| day.day()).transpose()?;
        let expires_on = object.optional("expires_on").map(|day| day.day()).transpose()?;
        if expires_on.is_some_and(|expires_on| starts_on.is_some_and(|starts_on| expires_on <= starts_on)) {
            return Err(object.invalid("expires_on", "must be after starts_on"));
        }
        let id = object.required("id")?.id(GrantId::parse)?;
        let note = object.given("note").map(|note| note.text(NOTE_CHARS_MAX)).transpose()?.unwrap_or_default();
        if let Some(granted) = credit.and_then(Micros::new) {
            return Ok(GrantRequest::Credit(CreateCredit { account, id, granted, starts_on, expires_on, note }));
        }
        let hours = object.required("sandbox_hours")?.integer(1, GRANT_HOURS_MAX)?;
        let granted_ms = hours.saturating_mul(HOUR_MS);
        Ok(GrantRequest::Time(CreateGrant { account, id, granted_ms, starts_on, expires_on, note }))
    }
}

/// A grant of free time or of credit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Grant {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// Free time: how much, in whole hours of one running sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HoursCount, required = false)]
    pub sandbox_hours: Option<i64>,
    /// Free time: how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MillisCount, required = false)]
    pub granted_ms: Option<i64>,
    /// Free time: how much of it is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MillisCount, required = false)]
    pub used_ms: Option<i64>,
    /// Credit: how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CreditCount, required = false)]
    pub credit_micros: Option<i64>,
    /// Credit: how much of it final invoices have drawn; what drafts would draw is in the balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = SignedMicrosCount, required = false)]
    pub credit_used_micros: Option<i64>,
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

impl From<&free_hours::Grant> for Grant {
    fn from(grant: &free_hours::Grant) -> Self {
        Self {
            id: grant.id.to_string(),
            sandbox_hours: Some(grant.granted_ms / HOUR_MS),
            granted_ms: Some(grant.granted_ms),
            used_ms: Some(grant.used_ms),
            credit_micros: None,
            credit_used_micros: None,
            starts_on: show_day(grant.starts_on),
            expires_on: grant.expires_on.map(show_day),
            note: grant.note.clone(),
            created_at: show_time(grant.created_at),
        }
    }
}

impl Grant {
    /// A grant of credit, of which so much is drawn.
    #[must_use]
    pub fn of_credit(credit: &Credit, drawn: Micros) -> Self {
        Self {
            id: credit.id.to_string(),
            sandbox_hours: None,
            granted_ms: None,
            used_ms: None,
            credit_micros: Some(credit.granted.count()),
            credit_used_micros: Some(drawn.count()),
            starts_on: show_day(credit.starts_on),
            expires_on: credit.expires_on.map(show_day),
            note: credit.note.clone(),
            created_at: show_time(credit.created_at),
        }
    }
}

impl From<&GrantView> for Grant {
    fn from(grant: &GrantView) -> Self {
        match grant {
            GrantView::Time(grant) => Self::from(grant),
            GrantView::Credit(credit, drawn) => Self::of_credit(credit, *drawn),
        }
    }
}
