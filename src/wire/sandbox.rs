//! Sandboxes: what outlives their leases.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::{Id, MibCount, TimeText};
use super::time::show_time;
use super::usage::Priced;
use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
use crate::ledger::command::PutSandbox;
use crate::ledger::view::{SandboxState, SandboxView};

/// A sandbox that has no lease: an image, a snapshot.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSandbox {
    /// The key that its storage is attributed to.
    #[schema(value_type = Id)]
    pub key: KeyId,
}

impl NewSandbox {
    /// Reads the request.
    pub fn read(account: AccountId, sandbox: SandboxId, body: &Value<'_, '_>) -> Result<PutSandbox, Invalid> {
        Ok(PutSandbox { account, sandbox, key: body.object(["key"])?.required("key")?.id(KeyId::parse)? })
    }
}

/// What a sandbox is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxStateWord {
    /// A lease of it is on.
    Running,
    /// None is.
    Resting,
    /// It is gone.
    Deleted,
}

/// The newest life of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Sandbox {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// What it is doing now.
    pub state: SandboxStateWord,
    /// The key that pays for its storage now.
    #[schema(value_type = Id)]
    pub key: String,
    /// Its newest lease.
    #[schema(value_type = Option<Id>, required = true)]
    pub lease: Option<String>,
    /// Its disk as last reported.
    #[schema(value_type = MibCount)]
    pub storage_mib: i64,
    /// When this life began.
    #[schema(value_type = TimeText)]
    pub created_at: String,
    /// When it was deleted.
    #[schema(value_type = Option<TimeText>, required = true)]
    pub deleted_at: Option<String>,
    /// The current month: compute and storage.
    pub month: Priced,
}

impl From<&SandboxView> for Sandbox {
    fn from(view: &SandboxView) -> Self {
        Self {
            id: view.id.to_string(),
            state: match view.state {
                SandboxState::Running => SandboxStateWord::Running,
                SandboxState::Resting => SandboxStateWord::Resting,
                SandboxState::Deleted => SandboxStateWord::Deleted,
            },
            key: view.key.to_string(),
            lease: view.lease.as_ref().map(LeaseId::to_string),
            storage_mib: view.storage_mib,
            created_at: show_time(view.created_at),
            deleted_at: view.deleted_at.map(show_time),
            month: Priced::new(&view.month_usage, view.month_amounts),
        }
    }
}
