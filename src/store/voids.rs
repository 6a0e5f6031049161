//! Voided samples: append-only.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, LeaseId, SandboxId, VoidId};
use crate::domain::void::Void;

use super::changes::Changes;
use super::dialect::Row;
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

/// No lease: at rest.
const AT_REST: &str = "";

macro_rules! columns {
    () => {
        "v.account_id, v.sandbox_id, v.life, v.lease_id, v.at, v.void_id, v.reason, v.voided_at, v.open_month"
    };
}
static OF_LIVES: Statement = Statement::new(
    "voids of sandboxes",
    concat!(
        "SELECT ",
        columns!(),
        " FROM {rows account_id text, sandbox_id text, life int}
        {each voids v: v.account_id = r.account_id AND v.sandbox_id = r.sandbox_id AND v.life = r.life}
        ORDER BY r.ord, v.at"
    ),
);
static OF_ACCOUNT: Statement = Statement::new(
    "voids of an account",
    concat!(
        "SELECT ",
        columns!(),
        " FROM voids v WHERE v.account_id = {text 1} ORDER BY v.sandbox_id, v.life, v.lease_id, v.at"
    ),
);
static BY_ID: Statement = Statement::new(
    "voids by id",
    concat!(
        "SELECT ",
        columns!(),
        " FROM {rows account_id text, void_id text}
        {each voids v by voids_by_id: v.account_id = r.account_id AND v.void_id = r.void_id} ORDER BY r.ord"
    ),
);
static LIST: Statement = Statement::new(
    "list voids",
    concat!(
        "SELECT ",
        columns!(),
        " FROM {rows account_id text, after text}
        {each voids v by voids_by_id: v.account_id = r.account_id AND v.void_id > r.after}
        ORDER BY v.void_id LIMIT {int 1}"
    ),
);
static ADD: Statement = Statement::new(
    "add voids",
    "INSERT INTO voids ({columns}) SELECT {r.columns} FROM {rows account_id text, sandbox_id text, life int,
        lease_id text, at int | void_id text, reason text, voided_at int, open_month int} WHERE true",
);
pub(super) static STATEMENTS: &[&Statement] = &[&OF_LIVES, &OF_ACCOUNT, &BY_ID, &LIST, &ADD];

fn void(row: &mut Row) -> Answer<Void> {
    Ok(Void {
        account: row.id()?,
        sandbox: row.id()?,
        life: row.int()?,
        lease: row.key_id()?,
        at: row.time()?,
        id: row.id()?,
        reason: row.string()?,
        voided_at: row.time()?,
        open_month: row.month()?,
    })
}

impl Tx {
    /// Voided samples of lives of sandboxes, their leases' and those at rest.
    pub async fn voids_of_lives(&mut self, lives: &BTreeSet<(AccountId, SandboxId, i64)>) -> Answer<Vec<Void>> {
        let rows = Rows::of(lives, |rows, (account, sandbox, life)| {
            rows.text(account.as_str()).text(sandbox.as_str()).int(*life);
        });
        all(self.fetch_rows(&OF_LIVES, &rows, &[]).await?, void)
    }

    /// All voided samples of an account, by sandbox, life, lease and instant.
    pub async fn voids_of(&mut self, account: &AccountId) -> Answer<Vec<Void>> {
        all(self.fetch(&OF_ACCOUNT, &[Value::text(account.as_str())]).await?, void)
    }

    /// A void by its id.
    pub async fn void(&mut self, account: &AccountId, id: &VoidId) -> Answer<Option<Void>> {
        let rows = Rows::of([()], |rows, ()| {
            rows.text(account.as_str()).text(id.as_str());
        });
        Ok(all(self.fetch_rows(&BY_ID, &rows, &[]).await?, void)?.pop())
    }

    /// An account's voids by id after `after`, at most `limit`.
    pub async fn list_voids(&mut self, of: &AccountId, after: Option<&str>, limit: i64) -> Answer<Vec<Void>> {
        let rows = Rows::of([()], |rows, ()| {
            rows.text(of.as_str()).text(after.unwrap_or_default());
        });
        all(self.fetch_rows(&LIST, &rows, &[Value::int(limit)]).await?, void)
    }

    /// Adds voids.
    pub(super) async fn save_voids(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::of(&changes.voids, |rows, void| {
            rows.text(void.account.as_str()).text(void.sandbox.as_str()).int(void.life);
            rows.text(void.lease.as_ref().map_or(AT_REST, LeaseId::as_str)).int(void.at.ms());
            rows.text(void.id.as_str()).text(&void.reason).int(void.voided_at.ms()).int(void.open_month.index());
        });
        self.write(&ADD, &rows).await.map(drop)
    }
}
