//! Operators' tokens, and whose secret a digest is.

use crate::domain::id::{HostId, TokenId};

use super::dialect::Row;
use super::read::known;
use super::shapes::{Bearer, TokenRecord, TokenRole};
use super::statement::Statement;
use super::{Answer, Rows, Store, Tx, Value, all};

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
pub(super) static BEARERS: Statement = Statement::new(
    "bearers",
    "SELECT r.ord, t.role, t.token_id, '', t.host_id, t.name, t.created_at, 0 FROM {rows secret_sha256 bytes}
    {each tokens t: t.secret_sha256 = r.secret_sha256}
    UNION ALL SELECT r.ord, 'key', k.account_id, k.key_id, NULL, '', 0, k.read_only FROM {rows}
    {each keys k: k.secret_sha256 = r.secret_sha256 AND k.revoked_at IS NULL}",
);
pub(super) static STATEMENTS: &[&Statement] = &[&INSERT, &DELETE, &LIST, &BEARERS];

fn role_text(role: &TokenRole) -> (&'static str, Option<&HostId>) {
    match role {
        TokenRole::Admin => ("admin", None),
        TokenRole::ControlPlane => ("control-plane", None),
        TokenRole::Host(host) => ("host", Some(host)),
    }
}

fn role_of(text: &str, host: Option<HostId>) -> Option<TokenRole> {
    match (text, host) {
        ("admin", None) => Some(TokenRole::Admin),
        ("control-plane", None) => Some(TokenRole::ControlPlane),
        ("host", Some(host)) => Some(TokenRole::Host(host)),
        _ => None,
    }
}

fn token(row: &mut Row) -> Answer<TokenRecord> {
    let (id, role, host): (_, _, Option<HostId>) = (row.id()?, row.string()?, row.opt_id()?);
    let role = role_of(&role, host);
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

    /// [`Store::bearers`] as this transaction sees it.
    pub async fn bearers(&mut self, digests: &[[u8; 32]]) -> Answer<Vec<Option<Bearer>>> {
        placed(digests.len(), self.fetch_rows(&BEARERS, &secret_rows(digests), &[]).await?)
    }
}

impl Store {
    /// Whose secrets have these SHA-256, in their order: tokens', or those of keys that are not revoked; as it is now.
    /// One statement, which needs no snapshot around it.
    pub async fn bearers(&self, digests: &[[u8; 32]]) -> Answer<Vec<Option<Bearer>>> {
        placed(digests.len(), self.ask(&BEARERS, &secret_rows(digests)).await?)
    }
}

/// Secrets as a row source.
pub(super) fn secret_rows(digests: &[[u8; 32]]) -> Rows<'_> {
    Rows::of(digests, |rows, digest| {
        rows.bytes(digest);
    })
}

/// Whose each of so many secrets is.
pub(super) fn placed(count: usize, rows: Vec<Row>) -> Answer<Vec<Option<Bearer>>> {
    let mut bearers: Vec<Option<Bearer>> = vec![None; count];
    for (place, found) in all(rows, |row| Ok((row.place()?, bearer(row)?)))? {
        if let Some(slot) = bearers.get_mut(place) {
            *slot = Some(found);
        }
    }
    Ok(bearers)
}

fn bearer(row: &mut Row) -> Answer<Bearer> {
    let role = row.string()?;
    if role != "key" {
        let (id, _, host) = (row.id()?, row.string()?, row.opt_id()?);
        let role = known(role_of(&role, host), "a token's role")?;
        return Ok(Bearer::Token(TokenRecord { id, role, name: row.string()?, created_at: row.time()? }));
    }
    let (account, key) = (row.id()?, row.id()?);
    let (_, _, _) = (row.opt_text()?.is_none(), row.string()?, row.int()?);
    Ok(Bearer::Key { account, key, read_only: row.flag()? })
}
