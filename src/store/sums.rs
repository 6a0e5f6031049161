//! Sums for people: usage by account, time and group, with the hours that are still in the rows of leases and
//! sandboxes; and how complete they are.

use crate::domain::id::{AccountId, SandboxId};
use crate::domain::lease::HourTotals;
use crate::domain::time::{Day, Hour, Timestamp};

use super::dialect::Row;
use super::hours::sums;
use super::read::{grouped, known};
use super::shapes::{Bucket, Group, UsageQuery, UsageRow};
use super::statement::Statement;
use super::{Answer, Rows, StoreError, Tx, Value, all};

const HOUR_MS: i64 = 3_600_000;

/// The columns of one hour's totals.
macro_rules! totals {
    ($alias:literal) => {
        concat!(
            $alias,
            ".run_ms, ",
            $alias,
            ".cpu_used_us, ",
            $alias,
            ".cpu_us, ",
            $alias,
            ".memory_mib_ms, ",
            $alias,
            ".storage_mib_ms, ",
            $alias,
            ".free_ms, ",
            $alias,
            ".free_cpu_us, ",
            $alias,
            ".free_memory_mib_ms"
        )
    };
}
/// The totals of a storage hour under the names of `totals`: there is storage only. Zero has the columns' type.
macro_rules! storage_totals {
    () => {
        "s.life * 0 AS run_ms, s.life * 0 AS cpu_used_us, s.life * 0 AS cpu_us, s.life * 0 AS memory_mib_ms,
        s.storage_hour_mib_ms AS storage_mib_ms, s.life * 0 AS free_ms, s.life * 0 AS free_cpu_us,
        s.life * 0 AS free_memory_mib_ms"
    };
}
pub(super) use {storage_totals, totals};

/// All usage of the accounts of `$from` in the hours [1, 2), a bucket of 3 hours, by the group 4.
macro_rules! grouped_usage {
    ($hours:literal, $leases:literal, $sandboxes:literal) => {
        concat!(
            "SELECT u.account_id, u.hour / {int 3} * {int 3}, u.name, ",
            sums!("u"),
            " FROM (SELECT h.account_id, h.hour, ",
            "CASE {int 4} WHEN 1 THEN h.sandbox_id WHEN 2 THEN h.lease_id WHEN 3 THEN h.key_id ELSE '' END AS name, ",
            totals!("h"),
            " FROM ",
            $hours,
            " UNION ALL SELECT l.account_id, l.open_hour, ",
            "CASE {int 4} WHEN 1 THEN l.sandbox_id WHEN 2 THEN l.lease_id WHEN 3 THEN l.key_id ELSE '' END, ",
            totals!("l"),
            " FROM ",
            $leases,
            " UNION ALL SELECT s.account_id, s.storage_hour, ",
            "CASE {int 4} WHEN 1 THEN s.sandbox_id WHEN 3 THEN s.storage_hour_key_id ELSE '' END, ",
            storage_totals!(),
            " FROM ",
            $sandboxes,
            ") u GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT {int 5}"
        )
    };
}

static OF_ACCOUNT: Statement = Statement::new(
    "usage of an account",
    grouped_usage!(
        "usage_hours h WHERE h.account_id = {text 6} AND h.hour >= {int 1} AND h.hour < {int 2}",
        "leases l WHERE l.account_id = {text 6} AND l.open_hour >= {int 1} AND l.open_hour < {int 2}",
        "sandboxes s WHERE s.account_id = {text 6} AND s.storage_hour >= {int 1} AND s.storage_hour < {int 2}"
    ),
);
/// The operator's sum: every account's range of hours, one after another.
static OF_ALL: Statement = Statement::new(
    "usage of all accounts",
    grouped_usage!(
        "accounts r {each usage_hours h: h.account_id = r.account_id AND h.hour >= {int 1} AND h.hour < {int 2}}",
        "accounts r {each leases l: l.account_id = r.account_id AND l.open_hour >= {int 1} AND l.open_hour < {int 2}}",
        "accounts r {each sandboxes s: s.account_id = r.account_id AND s.storage_hour >= {int 1}
            AND s.storage_hour < {int 2}}"
    ),
);
/// COALESCE keeps the open hours' own indexes out of it: they would read all open hours of the account.
static OF_SANDBOXES: Statement = Statement::new(
    "days of sandboxes",
    concat!(
        "SELECT u.ord, u.hour / 24, ",
        sums!("u"),
        " FROM (SELECT r.ord, h.hour, ",
        totals!("h"),
        " FROM {rows account_id text, sandbox_id text, life int, since int, until int}
        {each usage_hours h by usage_hours_by_sandbox: h.account_id = r.account_id AND h.sandbox_id = r.sandbox_id AND h.life = r.life
            AND h.hour >= r.since AND h.hour <= r.until}
        UNION ALL SELECT r.ord, l.open_hour, ",
        totals!("l"),
        " FROM {rows}
        {each leases l by leases_by_start: l.account_id = r.account_id AND l.sandbox_id = r.sandbox_id AND l.life = r.life
            AND l.starts_at >= 0 AND COALESCE(l.open_hour, -1) >= r.since AND COALESCE(l.open_hour, -1) <= r.until}
        UNION ALL SELECT r.ord, s.storage_hour, ",
        storage_totals!(),
        " FROM {rows}
        {each sandboxes s: s.account_id = r.account_id AND s.sandbox_id = r.sandbox_id AND s.life = r.life
            AND COALESCE(s.storage_hour, -1) >= r.since AND COALESCE(s.storage_hour, -1) <= r.until}
        ) u GROUP BY 1, 2 ORDER BY 1, 2"
    ),
);
macro_rules! incomplete {
    ($from:literal) => {
        concat!(
            "SELECT MIN(CASE WHEN l.last_at > l.starts_at THEN l.last_at ELSE l.starts_at END) FROM leases l WHERE ",
            $from,
            "l.settled_at IS NULL AND l.settles_at > {int 1} AND l.starts_at < {int 3} AND l.effective_end > {int 2}"
        )
    };
}
static INCOMPLETE: Statement =
    Statement::new("incomplete leases of an account", incomplete!("l.account_id = {text 4} AND "));
static INCOMPLETE_ALL: Statement = Statement::new("incomplete leases of all accounts", incomplete!(""));
pub(super) static STATEMENTS: &[&Statement] = &[&OF_ACCOUNT, &OF_ALL, &OF_SANDBOXES, &INCOMPLETE, &INCOMPLETE_ALL];

impl Tx {
    /// All usage of an account, or of all, in the hours `[from, to)`, the hours that are still open included; by
    /// account, start, group; at most `rows_max` rows (ask for one more to know whether there are).
    pub async fn usage_grouped(&mut self, query: &UsageQuery) -> Answer<Vec<UsageRow>> {
        let hours = match query.bucket {
            Bucket::Hour => 1,
            Bucket::Day => 24,
        };
        let group = match query.group {
            Group::None => 0,
            Group::Sandbox => 1,
            Group::Lease => 2,
            Group::Key => 3,
        };
        let (from, to) = (query.from.index(), query.to.index());
        let mut values: Vec<Value<'_>> = [from, to, hours, group, query.rows_max].map(Value::int).to_vec();
        let statement = match &query.account {
            Some(account) => {
                values.push(Value::text(account.as_str()));
                &OF_ACCOUNT
            }
            None => &OF_ALL,
        };
        all(self.fetch(statement, &values).await?, |row| {
            let account = row.id()?;
            let start = row.int()?.checked_mul(HOUR_MS).and_then(Timestamp::from_ms);
            let name = row.text()?;
            let group = (!name.is_empty()).then(|| name.to_owned());
            Ok(UsageRow { account, start: known(start, "an hour")?, group, totals: row.hour_totals()? })
        })
    }

    /// Per UTC day, compute and storage of one life of each sandbox in the hours `[from, to]`, both included, the
    /// hours that are still open too; days ascending, in the order asked.
    pub async fn usage_by_day_of_sandboxes(
        &mut self,
        sandboxes: &[(AccountId, SandboxId, i64, Hour, Hour)],
    ) -> Answer<Vec<Vec<(Day, HourTotals)>>> {
        let rows = Rows::of(sandboxes, |rows, (account, sandbox, life, from, to)| {
            rows.text(account.as_str()).text(sandbox.as_str()).int(*life).int(from.index()).int(to.index());
        });
        let read = |row: &mut Row| Ok((row.place()?, (row.day()?, row.hour_totals()?)));
        let found = all(self.fetch_rows(&OF_SANDBOXES, &rows, &[]).await?, read)?;
        Ok(grouped(sandboxes.len(), found))
    }

    /// Of the leases that meet `[from, to)` and are not settled at `now` (those of an account, or all): the earliest
    /// last sample, or start where there is none.
    pub async fn incomplete_since(
        &mut self,
        account: Option<&AccountId>,
        from: Timestamp,
        to: Timestamp,
        now: Timestamp,
    ) -> Answer<Option<Timestamp>> {
        let mut values: Vec<Value<'_>> = [now.ms(), from.ms(), to.ms()].map(Value::int).to_vec();
        let statement = match account {
            Some(account) => {
                values.push(Value::text(account.as_str()));
                &INCOMPLETE
            }
            None => &INCOMPLETE_ALL,
        };
        let found = self.fetch(statement, &values).await?.into_iter().next();
        found.ok_or_else(|| StoreError::corrupt("no minimum"))?.opt_time()
    }
}
