//! What was received and is not used: the latest of each account, for people.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, HostId};
use crate::domain::set_aside::{Door, SetAside};
use crate::domain::time::Timestamp;

use super::changes::Changes;
use super::dialect::Row;
use super::read::known;
use super::shapes::AsideRow;
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

/// Of no account that is known.
const NO_ACCOUNT: &str = "";

macro_rules! columns {
    () => {
        "j.seq, j.account_id, j.received_at, j.door, j.host_id, j.sandbox, j.lease, j.at, j.code, j.detail"
    };
}
static LIST: Statement = Statement::new(
    "list rejected samples",
    concat!("SELECT ", columns!(), " FROM rejected_samples j WHERE j.seq < {int 1} ORDER BY j.seq DESC LIMIT {int 2}"),
);
static LIST_OF_ACCOUNT: Statement = Statement::new(
    "list rejected samples of an account",
    concat!(
        "SELECT ",
        columns!(),
        " FROM rejected_samples j WHERE j.account_id = {text 3} AND j.seq < {int 1} ORDER BY j.seq DESC LIMIT {int 2}"
    ),
);
static ADD: Statement = Statement::new(
    "add rejected samples",
    "INSERT INTO rejected_samples ({columns}) SELECT {r.columns} FROM {rows account_id text, received_at int, door text,
        host_id text, sandbox text, lease text, at int, code text, detail text} WHERE true",
);
/// Rows that another batch is trimming are passed over: no batch waits for what only people read.
static TRIM: Statement = Statement::new(
    "trim rejected samples",
    "DELETE FROM rejected_samples WHERE seq IN (SELECT o.seq FROM {rows account_id text}
        {each_skip rejected_samples o by rejected_samples_by_account: o.account_id = r.account_id
            AND o.seq <= COALESCE((SELECT k.seq FROM rejected_samples k WHERE k.account_id = r.account_id
                ORDER BY k.seq DESC LIMIT 1 OFFSET {int 1}), -1)})",
);
pub(super) static STATEMENTS: &[&Statement] = &[&LIST, &LIST_OF_ACCOUNT, &ADD, &TRIM];

fn aside(row: &mut Row) -> Answer<AsideRow> {
    let seq = row.int()?;
    let (account, received_at) = (row.key_id()?, row.time()?);
    let door = row.string()?;
    let door = known(Door::ALL.iter().find(|(_, name)| *name == door).map(|(door, _)| *door), "a door")?;
    Ok(AsideRow {
        seq,
        account,
        received_at,
        door,
        host: row.opt_id()?,
        sandbox: row.opt_text()?.map(str::to_owned),
        lease: row.opt_text()?.map(str::to_owned),
        at: row.opt_time()?,
        code: row.string()?,
        detail: row.string()?,
    })
}

fn account_of(aside: &SetAside) -> &str {
    aside.account.as_ref().map_or(NO_ACCOUNT, AccountId::as_str)
}

impl Tx {
    /// What was set aside, of one account or of all, the latest first; before `before` where it is given, at most `limit`.
    pub async fn list_rejected(
        &mut self,
        of: Option<&AccountId>,
        before: Option<i64>,
        limit: i64,
    ) -> Answer<Vec<AsideRow>> {
        let (before, limit) = (Value::int(before.unwrap_or(i64::MAX)), Value::int(limit));
        let rows = match of {
            Some(of) => self.fetch(&LIST_OF_ACCOUNT, &[before, limit, Value::text(of.as_str())]).await?,
            None => self.fetch(&LIST, &[before, limit]).await?,
        };
        all(rows, aside)
    }

    /// Adds what was set aside at `now`, and lets the oldest of those accounts go.
    pub(super) async fn save_rejected(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::of(&changes.rejected, |rows, (now, aside)| {
            rows.text(account_of(aside)).int(Timestamp::ms(*now)).text(aside.door.name());
            rows.opt_text(aside.host.as_ref().map(HostId::as_str)).opt_text(aside.sandbox.as_deref());
            rows.opt_text(aside.lease.as_deref()).opt_int(aside.at.map(Timestamp::ms)).text(aside.code);
            rows.text(&aside.detail);
        });
        self.write(&ADD, &rows).await?;
        let accounts: BTreeSet<&str> = changes.rejected.iter().map(|(_, aside)| account_of(aside)).collect();
        let rows = Rows::of(accounts, |rows, account| {
            rows.text(account);
        });
        self.write_with(&TRIM, &rows, &[Value::int(changes.rejected_kept)]).await.map(drop)
    }
}
