//! `runtab token`: makes, lists and revokes operator tokens.
//!
//! A token is shown once, alone on standard output, so that `TOKEN=$(runtab token create --role admin)` works. Only
//! its SHA-256 is kept.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};

use super::format::{Align, Table, rfc3339};
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::id::{HostId, TokenId};
use crate::ledger::Ledger;
use crate::ledger::command::{Page, Role};
use crate::secret::{Secret, SecretKind};

/// Tokens of one page of the list.
const PAGE_TOKENS: i64 = 1_000;

/// The subcommands of `runtab token`.
#[derive(Clone, Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Make a token and print it, alone, on standard output; it is shown this once
    Create {
        /// What it may do
        #[arg(long, value_enum)]
        role: RoleName,
        /// What people call it; free text of at most 200 characters
        #[arg(long, default_value = "")]
        name: String,
        /// The host whose samples it may send; with --role host
        #[arg(long, required_if_eq("role", "host"))]
        host: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// List the tokens, without their secrets
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Revoke a token: it stops working at once
    Revoke {
        /// Its id, as `token list` shows it
        id: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleName {
    /// Everything
    Admin,
    /// Leases and sandboxes; reads everything
    ControlPlane,
    /// Samples of one host, nothing else
    Host,
}

pub(super) async fn run(args: TokenArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Create { role, name, host, common } => {
            let ledger = serve::open(&common.settings(None)?, Clock::system()).await?;
            let token = create(&ledger, role_of(role, host.as_deref())?, name).await?;
            writeln!(std::io::stdout(), "{token}")?;
        }
        Action::List { common } => {
            let ledger = serve::open_known(&common.settings(None)?, Clock::system()).await?;
            list(&ledger, &mut std::io::stdout()).await?;
        }
        Action::Revoke { id, common } => {
            let id = TokenId::parse(&id)?;
            let ledger = serve::open_known(&common.settings(None)?, Clock::system()).await?;
            ledger.revoke_token(id.clone()).await?;
            writeln!(std::io::stdout(), "revoked {id}")?;
        }
    }
    Ok(())
}

fn role_of(name: RoleName, host: Option<&str>) -> anyhow::Result<Role> {
    Ok(match (name, host) {
        (RoleName::Admin, None) => Role::Admin,
        (RoleName::ControlPlane, None) => Role::ControlPlane,
        (RoleName::Host, Some(host)) => Role::Host(HostId::parse(host).context("--host")?),
        (RoleName::Host, None) => bail!("--role host needs --host"),
        (RoleName::Admin | RoleName::ControlPlane, Some(_)) => bail!("--host goes with --role host only"),
    })
}

/// Makes a token of a role in a ledger and answers its text, which is kept nowhere.
pub async fn create(ledger: &Ledger, role: Role, name: String) -> anyhow::Result<String> {
    let kind = match &role {
        Role::Admin => SecretKind::Admin,
        Role::ControlPlane => SecretKind::ControlPlane,
        Role::Host(_) => SecretKind::Host,
    };
    let secret = Secret::generate(kind).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    ledger.create_token(role, name, secret.digest()).await?;
    Ok(secret.into_text())
}

async fn list(ledger: &Ledger, out: &mut impl Write) -> anyhow::Result<()> {
    let columns = ["id", "role", "host", "name", "made"].map(|name| (name, Align::Left));
    let mut table = Table::new(&columns);
    let mut after = None;
    loop {
        let page = ledger.tokens(Page { after, limit: PAGE_TOKENS }).await?;
        for token in page.items {
            let (role, host) = match token.role {
                Role::Admin => ("admin", String::new()),
                Role::ControlPlane => ("control-plane", String::new()),
                Role::Host(host) => ("host", host.to_string()),
            };
            table.row(vec![token.id.to_string(), role.to_owned(), host, token.name, rfc3339(token.created_at)]);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for line in table.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{RoleName, role_of};

    #[test]
    fn a_host_token_needs_its_host_and_no_other_takes_one() {
        assert!(role_of(RoleName::Host, Some("h-1")).is_ok());
        assert!(role_of(RoleName::Host, None).is_err());
        assert!(role_of(RoleName::Host, Some("no host")).is_err());
        assert!(role_of(RoleName::Admin, Some("h-1")).is_err());
    }
}
