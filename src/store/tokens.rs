//! Operators' tokens, and whose secret a digest is.

use crate::domain::id::{HostId, TokenId};

use super::dialect::Row;
use super::read::known;
use super::shapes::{Bearer, TokenRecord, TokenRole};
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

static INSERT: Statement = Statement::new(
    "insert token",
    "INSERT INTO tokens ({columns}) SELECT {r.columns} FROM {rows token_id text | role text, host_id text, name text,
        secret_sha256 bytes, created_at int} WHERE true",
);
static DELETE: Statement = Statement::new(
    "delete token",
    "DELETE FROM tokens WHERE token_id IN (SELECT r.token_id FROM {rows token_id text})",
);
static LIST: Statement = Statement::new(
    "list tokens",
    "SELECT t.token_id, t.role, t.host_id, t.name, t.created_at FROM tokens t WHERE t.token_id > {text 1}
    ORDER BY t.token_id LIMIT {int 2}",
);
static BY_SECRETS: Statement = Statement::new(
    "tokens by secrets",
    "SELECT r.ord, t.token_id, t.role, t.host_id, t.name, t.created_at FROM {rows secret_sha256 bytes}
    {each tokens t: t.secret_sha256 = r.secret_sha256}",
);
static KEYS_BY_SECRETS: Statement = Statement::new(
    "keys by secrets",
    "SELECT r.ord, k.account_id, k.key_id, k.read_only FROM {rows secret_sha256 bytes}
    {each keys k: k.secret_sha256 = r.secret_sha256 AND k.revoked_at IS NULL}",
);
pub(super) static STATEMENTS: &[&Statement] = &[&INSERT, &DELETE, &LIST, &BY_SECRETS, &KEYS_BY_SECRETS];

fn role_text(role: &TokenRole) -> (&'static str, Option<&HostId>) {
    match role {
        TokenRole::Admin => ("admin", None),
        TokenRole::ControlPlane => ("control-plane", None),
        TokenRole::Host(host) => ("host", Some(host)),
    }
}

fn token(row: &mut Row) -> Answer<TokenRecord> {
    let (id, role, host): (_, _, Option<HostId>) = (row.id()?, row.string()?, row.opt_id()?);
    let role = match (role.as_str(), host) {
        ("admin", None) => Some(TokenRole::Admin),
        ("control-plane", None) => Some(TokenRole::ControlPlane),
        ("host", Some(host)) => Some(TokenRole::Host(host)),
        _ => None,
    };
    Ok(TokenRecord { id, role: known(role, "a token's role")?, name: row.string()?, created_at: row.time()? })
}

impl Tx {
    /// Adds a token; [`StoreError::Constraint`](super::StoreError::Constraint) when its id or secret is there already.
    pub async fn insert_token(&mut self, token: &TokenRecord, sha256: &[u8; 32]) -> Answer<()> {
        let (role, host) = role_text(&token.role);
        let row = Rows::of([token], |rows, token| {
            rows.text(token.id.as_str()).text(role).opt_text(host.map(HostId::as_str)).text(&token.name);
            rows.bytes(sha256).int(token.created_at.ms());
        });
        self.write(&INSERT, &row).await.map(drop)
    }

    /// Removes a token; whether there was one.
    pub async fn delete_token(&mut self, id: &TokenId) -> Answer<bool> {
        let row = Rows::of([id], |rows, id| {
            rows.text(id.as_str());
        });
        Ok(self.write(&DELETE, &row).await? > 0)
    }

    /// Tokens by id after `after`, at most `limit`.
    pub async fn list_tokens(&mut self, after: Option<&str>, limit: i64) -> Answer<Vec<TokenRecord>> {
        let values = [Value::text(after.unwrap_or_default()), Value::int(limit)];
        all(self.fetch(&LIST, &values).await?, token)
    }

    /// Whose secrets have these SHA-256, in their order: tokens', or those of keys that are not revoked.
    pub async fn bearers(&mut self, digests: &[[u8; 32]]) -> Answer<Vec<Option<Bearer>>> {
        let mut bearers: Vec<Option<Bearer>> = vec![None; digests.len()];
        let tokens = all(self.fetch_rows(&BY_SECRETS, &secrets(digests), &[]).await?, |row| {
            Ok((row.place()?, Bearer::Token(token(row)?)))
        })?;
        let known = tokens.len();
        put(&mut bearers, tokens);
        // Most callers are operators: customers' keys are asked for only when some are left.
        if known < digests.len() {
            let keys = all(self.fetch_rows(&KEYS_BY_SECRETS, &secrets(digests), &[]).await?, |row| {
                Ok((row.place()?, Bearer::Key { account: row.id()?, key: row.id()?, read_only: row.flag()? }))
            })?;
            put(&mut bearers, keys);
        }
        Ok(bearers)
    }
}

fn secrets(digests: &[[u8; 32]]) -> Rows<'_> {
    Rows::of(digests, |rows, digest| {
        rows.bytes(digest);
    })
}

/// Puts what was found to its place; what is there stays.
fn put(bearers: &mut [Option<Bearer>], found: Vec<(usize, Bearer)>) {
    for (place, bearer) in found {
        if let Some(slot) = bearers.get_mut(place) {
            slot.get_or_insert(bearer);
        }
    }
}
