//! Operator tokens, without their secrets.

use serde::Serialize;
use utoipa::ToSchema;

use super::schema::{Id, Name, TimeText};
use super::time::show_time;
use crate::domain::id::HostId;
use crate::ledger::command;

/// What an operator token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoleWord {
    /// Everything.
    Admin,
    /// Leases and sandboxes; reads everything.
    ControlPlane,
    /// Samples of one host.
    Host,
}

/// An operator token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Token {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// What it may do.
    pub role: RoleWord,
    /// Free text.
    #[schema(value_type = Name)]
    pub name: String,
    /// The host whose samples it may send; null for other roles.
    #[schema(value_type = Option<Id>, required = true)]
    pub host: Option<String>,
    /// When it was made.
    #[schema(value_type = TimeText)]
    pub created_at: String,
}

impl From<&command::Token> for Token {
    fn from(token: &command::Token) -> Self {
        let (role, host) = match &token.role {
            command::Role::Admin => (RoleWord::Admin, None),
            command::Role::ControlPlane => (RoleWord::ControlPlane, None),
            command::Role::Host(host) => (RoleWord::Host, Some(HostId::to_string(host))),
        };
        Self { id: token.id.to_string(), role, name: token.name.clone(), host, created_at: show_time(token.created_at) }
    }
}
