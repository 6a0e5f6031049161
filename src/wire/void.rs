//! Voids: accepted samples that count no more.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::{Id, NOTE_CHARS_MAX, Note, TimeText};
use super::time::show_time;
use crate::domain;
use crate::domain::id::{AccountId, LeaseId, SandboxId, VoidId};
use crate::domain::time::Timestamp;
use crate::ledger::command::{Target, VoidSample};

/// A sample to void: of a lease, or of a sandbox at rest.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVoid {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: VoidId,
    /// The lease that the sample is of. This or `sandbox`.
    #[schema(value_type = Id, required = false)]
    pub lease: Option<LeaseId>,
    /// The sandbox whose sample at rest it is. This or `lease`.
    #[schema(value_type = Id, required = false)]
    pub sandbox: Option<SandboxId>,
    /// The sample's instant.
    #[schema(value_type = TimeText)]
    pub at: Timestamp,
    /// Why; it is kept with the evidence.
    #[schema(value_type = Note)]
    pub reason: String,
}

impl NewVoid {
    /// Reads the request.
    pub fn read(account: AccountId, body: &Value<'_, '_>) -> Result<VoidSample, Invalid> {
        let object = body.object(["id", "lease", "sandbox", "at", "reason"])?;
        let of = match (object.given("lease"), object.given("sandbox")) {
            (Some(lease), None) => Target::Lease(lease.id(LeaseId::parse)?),
            (None, Some(sandbox)) => Target::AtRest(sandbox.id(SandboxId::parse)?),
            (Some(_), Some(_)) => return Err(object.invalid("sandbox", "a sample is of a lease or at rest, not both")),
            (None, None) => return Err(object.invalid("lease", "is required, or sandbox for a sample at rest")),
        };
        Ok(VoidSample {
            account,
            id: object.required("id")?.id(VoidId::parse)?,
            of,
            at: object.required("at")?.time()?,
            reason: reason_of(&object.required("reason")?)?,
        })
    }
}

/// A reason: text with something in it.
pub(super) fn reason_of(value: &Value<'_, '_>) -> Result<String, Invalid> {
    let reason = value.text(NOTE_CHARS_MAX)?;
    if reason.trim().is_empty() { Err(value.refused("must say why")) } else { Ok(reason) }
}

/// A voided sample: it stays in the evidence and counts no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Void {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// The account.
    #[schema(value_type = Id)]
    pub account: String,
    /// The sandbox.
    #[schema(value_type = Id)]
    pub sandbox: String,
    /// The lease that the sample is of; null: at rest.
    #[schema(value_type = Option<Id>, required = true)]
    pub lease: Option<String>,
    /// The sample's instant.
    #[schema(value_type = TimeText)]
    pub at: String,
    /// Why.
    #[schema(value_type = Note)]
    pub reason: String,
    /// When it was voided.
    #[schema(value_type = TimeText)]
    pub voided_at: String,
}

impl From<&domain::void::Void> for Void {
    fn from(void: &domain::void::Void) -> Self {
        Self {
            id: void.id.to_string(),
            account: void.account.to_string(),
            sandbox: void.sandbox.to_string(),
            lease: void.lease.as_ref().map(LeaseId::to_string),
            at: show_time(void.at),
            reason: void.reason.clone(),
            voided_at: show_time(void.voided_at),
        }
    }
}
