//! Parts of samples that wait for others, and the replica that is listened to.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, HostId, LeaseId, SandboxId};
use crate::domain::part::{Part, PartKind, Piece};
use crate::domain::replica::Chosen;
use crate::domain::time::Timestamp;

use super::changes::Changes;
use super::dialect::Row;
use super::read::known;
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

/// No lease: the disk of a sandbox.
const NO_LEASE: &str = "";

static OF_SANDBOXES: Statement = Statement::new(
    "parts of sandboxes",
    "SELECT p.seq, p.account_id, p.sandbox_id, p.lease_id, p.kind, p.at, p.series, p.value, p.received_at, p.host_id, p.epoch
    FROM {rows account_id text, sandbox_id text}
    {each sample_parts p by sample_parts_by_sandbox: p.account_id = r.account_id AND p.sandbox_id = r.sandbox_id}",
);
static OLDEST: Statement = Statement::new(
    "oldest parts",
    "SELECT p.account_id, p.sandbox_id FROM sample_parts p WHERE p.received_at <= {int 1}
    ORDER BY p.received_at, p.seq LIMIT {int 2}",
);
static ADD: Statement = Statement::new(
    "add parts",
    "INSERT INTO sample_parts ({columns}) SELECT {r.columns} FROM {rows account_id text, sandbox_id text, lease_id text,
        kind text, at int, series text | value int, received_at int, host_id text, epoch int} WHERE true
    ON CONFLICT (account_id, sandbox_id, lease_id, kind, at, series) DO NOTHING",
);
static REMOVE: Statement =
    Statement::new("remove parts", "DELETE FROM sample_parts WHERE seq IN (SELECT r.seq FROM {rows seq int})");
static CHOSEN: Statement = Statement::new(
    "replicas",
    "SELECT c.account_id, c.sandbox_id, c.replica, c.seen_at FROM {rows account_id text, sandbox_id text}
    {each replicas c: c.account_id = r.account_id AND c.sandbox_id = r.sandbox_id} ORDER BY r.ord",
);
/// Of two that are noted at once the first stays: the other was not silent.
static NOTE: Statement = Statement::new(
    "note replicas",
    "INSERT INTO replicas (account_id, sandbox_id, replica, seen_at)
    SELECT r.account_id, r.sandbox_id, r.replica, r.seen_at
    FROM {rows account_id text, sandbox_id text | replica text, seen_at int} WHERE true
    ON CONFLICT (account_id, sandbox_id) DO UPDATE SET replica = excluded.replica, seen_at = excluded.seen_at
    WHERE replicas.replica = excluded.replica OR replicas.seen_at <= excluded.seen_at - {int 1}",
);
pub(super) static STATEMENTS: &[&Statement] = &[&OF_SANDBOXES, &OLDEST, &ADD, &REMOVE, &CHOSEN, &NOTE];

fn piece(row: &mut Row) -> Answer<Piece> {
    let kept = row.int()?;
    let (account, sandbox, lease) = (row.id()?, row.id()?, row.key_id()?);
    let kind = row.string()?;
    let kind = known(PartKind::ALL.iter().find(|(_, name)| *name == kind).map(|(kind, _)| *kind), "a part's kind")?;
    let part = Part {
        account,
        sandbox,
        lease,
        kind,
        at: row.time()?,
        series: row.string()?,
        value: row.int()?,
        received_at: row.time()?,
        host: row.opt_id()?,
        epoch: row.opt_int()?,
    };
    Ok(Piece { part, kept: Some(kept) })
}

impl Tx {
    /// Parts of sandboxes that wait for others, in no order.
    pub async fn parts(&mut self, of: &BTreeSet<(AccountId, SandboxId)>) -> Answer<Vec<Piece>> {
        all(self.fetch_rows(&OF_SANDBOXES, &sandbox_rows(of), &[]).await?, piece)
    }

    /// Sandboxes that have parts which came at `until` or before, the longest waiting first; of at most `limit` parts.
    pub async fn oldest_parts(&mut self, until: Timestamp, limit: i64) -> Answer<BTreeSet<(AccountId, SandboxId)>> {
        let values = [Value::int(until.ms()), Value::int(limit)];
        let found = all(self.fetch(&OLDEST, &values).await?, |row| Ok((row.id()?, row.id()?)))?;
        Ok(found.into_iter().collect())
    }

    /// The replicas that are listened to.
    pub async fn replicas(&mut self, of: &BTreeSet<(AccountId, SandboxId)>) -> Answer<Vec<Chosen>> {
        all(self.fetch_rows(&CHOSEN, &sandbox_rows(of), &[]).await?, |row| {
            Ok(Chosen { account: row.id()?, sandbox: row.id()?, replica: row.string()?, seen_at: row.time()? })
        })
    }

    /// Adds and removes parts, and notes replicas.
    pub(super) async fn save_parts(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::of(&changes.parts_spent, |rows, seq| {
            rows.int(*seq);
        });
        self.write(&REMOVE, &rows).await?;
        let rows = Rows::of(&changes.parts, |rows, part| {
            rows.text(part.account.as_str()).text(part.sandbox.as_str());
            rows.text(part.lease.as_ref().map_or(NO_LEASE, LeaseId::as_str)).text(part.kind.name()).int(part.at.ms());
            rows.text(&part.series).int(part.value).int(part.received_at.ms());
            rows.opt_text(part.host.as_ref().map(HostId::as_str)).opt_int(part.epoch);
        });
        self.write(&ADD, &rows).await?;
        let rows = Rows::of(changes.replicas.values(), |rows, chosen| {
            rows.text(chosen.account.as_str()).text(chosen.sandbox.as_str()).text(&chosen.replica);
            rows.int(chosen.seen_at.ms());
        });
        self.write_with(&NOTE, &rows, &[Value::int(changes.replica_silent_ms)]).await.map(drop)
    }
}

fn sandbox_rows(of: &BTreeSet<(AccountId, SandboxId)>) -> Rows<'_> {
    Rows::of(of, |rows, (account, sandbox)| {
        rows.text(account.as_str()).text(sandbox.as_str());
    })
}
