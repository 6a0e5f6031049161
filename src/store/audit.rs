//! What checking an account reads: everything that is kept of it, by sandbox life, and its counters.

use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::limits::DayTotals;
use crate::domain::sandbox::Sandbox;
use crate::domain::time::{Day, Hour};

use super::days::day_columns;
use super::hours::sums;
use super::leases::{lease, lease_columns};
use super::pages::page;
use super::sandboxes::{sandbox, sandbox_columns};
use super::shapes::{DrawRow, OwnedPage};
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

static LIVES: Statement = Statement::new(
    "lives of an account",
    concat!(
        "SELECT ",
        sandbox_columns!(),
        " FROM sandboxes s WHERE s.account_id = {text 1} AND (s.sandbox_id, s.life) > ({text 2}, {int 3})
        ORDER BY s.sandbox_id, s.life LIMIT {int 4}"
    ),
);
static LEASES: Statement = Statement::new(
    "leases of a life",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM {rows account_id text, sandbox_id text, life int}
        {each leases l by leases_by_start: l.account_id = r.account_id AND l.sandbox_id = r.sandbox_id
            AND l.life = r.life AND l.starts_at >= 0} ORDER BY l.lease_id"
    ),
);
static PAGES: Statement = Statement::new(
    "pages of a life",
    "SELECT p.account_id, p.sandbox_id, p.life, p.lease_id, p.first_at, p.number, p.last_at, p.storage_first_at,
        p.storage_last_at, p.bytes, p.accepted_month
    FROM {rows account_id text, sandbox_id text, life int}
    {each sample_pages p: p.account_id = r.account_id AND p.sandbox_id = r.sandbox_id AND p.life = r.life}",
);
static HOURS: Statement = Statement::new(
    "hours of a life",
    concat!(
        "SELECT h.hour, h.key_id, h.lease_id, ",
        sums!("h"),
        " FROM {rows account_id text, sandbox_id text, life int}
        {each usage_hours h by usage_hours_by_sandbox: h.account_id = r.account_id AND h.sandbox_id = r.sandbox_id
            AND h.life = r.life}
        GROUP BY h.hour, h.key_id, h.lease_id ORDER BY h.hour, h.key_id, h.lease_id"
    ),
);
static DRAWS: Statement = Statement::new(
    "draws of leases",
    "SELECT d.account_id, d.lease_id, d.hour, d.grant_id, d.drawn_ms, d.seq FROM {rows account_id text, lease_id text}
    {each draws d: d.account_id = r.account_id AND d.lease_id = r.lease_id} ORDER BY r.ord, d.hour, d.seq",
);
static KEY_DAYS: Statement = Statement::new(
    "all key days of an account",
    concat!(
        "SELECT d.key_id, d.day, ",
        day_columns!("d.", ""),
        " FROM key_days d WHERE d.account_id = {text 1} AND d.day >= {int 2} AND d.day < {int 3}"
    ),
);
static ACCOUNT_DAYS: Statement = Statement::new(
    "all days of an account",
    concat!(
        "SELECT d.day, ",
        day_columns!("d.", ""),
        " FROM account_days d WHERE d.account_id = {text 1} AND d.day >= {int 2} AND d.day < {int 3}"
    ),
);
pub(super) static STATEMENTS: &[&Statement] = &[&LIVES, &LEASES, &PAGES, &HOURS, &DRAWS, &KEY_DAYS, &ACCOUNT_DAYS];

/// A life of a sandbox.
pub(super) type Life<'a> = (&'a AccountId, &'a SandboxId, i64);

fn of_life(life: Life<'_>) -> Rows<'_> {
    Rows::of([life], |rows, (account, sandbox, life)| {
        rows.text(account.as_str()).text(sandbox.as_str()).int(life);
    })
}

impl Tx {
    /// Lives of an account's sandboxes after one, by sandbox and life, at most `limit`.
    pub async fn lives_of(
        &mut self,
        account: &AccountId,
        after: Option<(&SandboxId, i64)>,
        limit: i64,
    ) -> Answer<Vec<Sandbox>> {
        let (id, life) = after.map_or(("", 0), |(id, life)| (id.as_str(), life));
        let values = [Value::text(account.as_str()), Value::text(id), Value::int(life), Value::int(limit)];
        all(self.fetch(&LIVES, &values).await?, sandbox)
    }

    /// All leases of a life.
    pub async fn leases_of_life(&mut self, life: Life<'_>) -> Answer<Vec<Lease>> {
        all(self.fetch_rows(&LEASES, &of_life(life), &[]).await?, lease)
    }

    /// All closed pages of a life, of its leases and at rest.
    pub async fn pages_of_life(&mut self, life: Life<'_>) -> Answer<Vec<OwnedPage>> {
        all(self.fetch_rows(&PAGES, &of_life(life), &[]).await?, page)
    }

    /// All written hours of a life, summed over the months that bill them.
    pub async fn hours_of_life(&mut self, life: Life<'_>) -> Answer<Vec<(Hour, KeyId, Option<LeaseId>, HourTotals)>> {
        let found = self.fetch_rows(&HOURS, &of_life(life), &[]).await?;
        all(found, |row| Ok((row.hour()?, row.id()?, row.key_id()?, row.hour_totals()?)))
    }

    /// All draws of leases.
    pub async fn draws_of_leases(&mut self, account: &AccountId, leases: &[LeaseId]) -> Answer<Vec<DrawRow>> {
        let rows = Rows::of(leases, |rows, lease| {
            rows.text(account.as_str()).text(lease.as_str());
        });
        all(self.fetch_rows(&DRAWS, &rows, &[]).await?, |row| {
            Ok(DrawRow {
                account: row.id()?,
                lease: row.id()?,
                hour: row.hour()?,
                grant: row.id()?,
                drawn_ms: row.int()?,
                seq: row.int()?,
            })
        })
    }

    /// All days of an account's keys in `[from, to)`.
    pub async fn all_key_days(
        &mut self,
        account: &AccountId,
        from: Day,
        to: Day,
    ) -> Answer<Vec<((KeyId, Day), DayTotals)>> {
        let values = [Value::text(account.as_str()), Value::int(from.index()), Value::int(to.index())];
        all(self.fetch(&KEY_DAYS, &values).await?, |row| Ok(((row.id()?, row.day()?), row.day_totals()?)))
    }

    /// All days of an account's own counters in `[from, to)`.
    pub async fn all_account_days(&mut self, account: &AccountId, from: Day, to: Day) -> Answer<Vec<(Day, DayTotals)>> {
        let values = [Value::text(account.as_str()), Value::int(from.index()), Value::int(to.index())];
        all(self.fetch(&ACCOUNT_DAYS, &values).await?, |row| Ok((row.day()?, row.day_totals()?)))
    }
}
