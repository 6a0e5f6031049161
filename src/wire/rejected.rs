//! What was received and is not used, as it is listed.

use serde::Serialize;
use utoipa::ToSchema;

use super::schema::{Id, TimeText};
use super::time::show_time;
use crate::domain::set_aside::Door;
use crate::store::shapes::AsideRow;

/// By which door a sample came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoorWord {
    /// `POST /v1/samples`.
    Samples,
    /// `POST /v1/remote-write`.
    RemoteWrite,
}

/// A sample that is not used, or what should have become one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Rejected {
    /// The account; null: it names none that is there.
    #[schema(value_type = Option<Id>, required = true)]
    pub account: Option<String>,
    /// When it came.
    #[schema(value_type = TimeText)]
    pub received_at: String,
    /// By which door.
    pub door: DoorWord,
    /// The host that sent it; null: an operator did.
    #[schema(value_type = Option<Id>, required = true)]
    pub host: Option<String>,
    /// The sandbox that it names, as it was written.
    #[schema(required = true)]
    pub sandbox: Option<String>,
    /// The lease that it names, as it was written.
    #[schema(required = true)]
    pub lease: Option<String>,
    /// The instant that it names.
    #[schema(value_type = Option<TimeText>, required = true)]
    pub at: Option<String>,
    /// The stable code to branch on.
    pub code: String,
    /// What is wrong with it, for people.
    pub detail: String,
}

impl From<&AsideRow> for Rejected {
    fn from(row: &AsideRow) -> Self {
        Self {
            account: row.account.as_ref().map(ToString::to_string),
            received_at: show_time(row.received_at),
            door: match row.door {
                Door::Samples => DoorWord::Samples,
                Door::RemoteWrite => DoorWord::RemoteWrite,
            },
            host: row.host.as_ref().map(ToString::to_string),
            sandbox: row.sandbox.clone(),
            lease: row.lease.clone(),
            at: row.at.map(show_time),
            code: row.code.clone(),
            detail: row.detail.clone(),
        }
    }
}
