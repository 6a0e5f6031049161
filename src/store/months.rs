//! Months: the watermark, what a month bills, and what is still open in the rows of leases and sandboxes.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, SandboxId};
use crate::domain::lease::HourTotals;
use crate::domain::time::{Hour, Month};
use crate::domain::usage::Usage;

use super::changes::{Changes, HourKey};
use super::dialect::Row;
use super::hours::sums;
use super::read::known;
use super::shapes::{BilledRow, BilledSpan};
use super::statement::Statement;
use super::sums::{storage_totals, totals};
use super::{Answer, Rows, StoreError, Tx, Value, all};

/// Most hours of one statement that adds to hours.
const HOURS_MAX: usize = 5_000;

/// Waits for all batches, which hold the watermark shared.
static LOCK: Statement = Statement::new("lock watermark", "UPDATE watermark SET open_month = open_month WHERE id = 1");
static MOVE: Statement = Statement::new("move watermark", "UPDATE watermark SET open_month = {int 1} WHERE id = 1");
static OPEN_LEASES: Statement = Statement::new(
    "open hours of leases",
    concat!(
        "SELECT l.account_id, l.open_hour, l.sandbox_id, l.life, l.key_id, l.lease_id, ",
        totals!("l"),
        " FROM accounts r {each leases l: l.account_id = r.account_id AND l.open_hour < {int 1}}
        ORDER BY l.account_id, l.lease_id"
    ),
);
static OPEN_SANDBOXES: Statement = Statement::new(
    "open hours of sandboxes",
    "SELECT s.account_id, s.storage_hour, s.sandbox_id, s.life, s.storage_hour_key_id, s.storage_hour_mib_ms
    FROM accounts r {each sandboxes s: s.account_id = r.account_id AND s.storage_hour < {int 1}}
    ORDER BY s.account_id, s.sandbox_id, s.life LIMIT {int 2}",
);
static FIRST_HOUR: Statement = Statement::new(
    "first hour",
    "SELECT MIN((SELECT MIN(h.hour) FROM usage_hours h WHERE h.account_id = a.account_id)) FROM accounts a",
);
static LATE: Statement = Statement::new(
    "late months",
    "SELECT m.account_id, m.use_month FROM {rows account_id text, billed_month int}
    {each late_months m: m.account_id = r.account_id AND m.billed_month = r.billed_month}
    ORDER BY m.account_id, m.use_month",
);
static ADD_LATE: Statement = Statement::new(
    "add late months",
    "INSERT INTO late_months ({columns}) SELECT {r.columns} FROM {rows account_id text, billed_month int,
        use_month int} WHERE true ON CONFLICT (account_id, billed_month, use_month) DO NOTHING",
);
static BILLED: Statement = Statement::new(
    "usage billed in a month",
    concat!(
        "SELECT h.account_id, h.hour / 24, CASE {int 1} WHEN 1 THEN h.sandbox_id ELSE '' END, ",
        sums!("h"),
        " FROM {rows account_id text, since int, until int, billed_month int}
        {each usage_hours h: h.account_id = r.account_id AND h.hour >= r.since AND h.hour < r.until
            AND h.billed_month = r.billed_month}
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ),
);
static OPEN: Statement = Statement::new(
    "usage in open hours",
    concat!(
        "SELECT u.account_id, u.hour / 24, u.name, ",
        sums!("u"),
        " FROM (SELECT l.account_id, l.open_hour AS hour, CASE {int 1} WHEN 1 THEN l.sandbox_id ELSE '' END AS name, ",
        totals!("l"),
        " FROM {rows account_id text, since int, until int}
        {each leases l: l.account_id = r.account_id AND l.open_hour >= r.since AND l.open_hour < r.until}
        UNION ALL SELECT s.account_id, s.storage_hour, CASE {int 1} WHEN 1 THEN s.sandbox_id ELSE '' END, ",
        storage_totals!(),
        " FROM {rows}
        {each sandboxes s: s.account_id = r.account_id AND s.storage_hour >= r.since AND s.storage_hour < r.until}
        ) u GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ),
);
static CLOSED: Statement =
    Statement::new("closed month", "SELECT c.invoices FROM closed_months c WHERE c.month = {int 1}");
/// By the key from its end: the watermark may be further already, while invoices are being made.
static LAST_CLOSED: Statement = Statement::new(
    "last closed month",
    "SELECT c.month FROM closed_months c WHERE c.month >= 0 ORDER BY c.month DESC LIMIT 1",
);
static ADD_CLOSED: Statement = Statement::new(
    "add closed month",
    "INSERT INTO closed_months ({columns}) SELECT {r.columns} FROM {rows month int | invoices int}
    WHERE true ON CONFLICT (month) DO NOTHING",
);
pub(super) static STATEMENTS: &[&Statement] = &[
    &LOCK,
    &MOVE,
    &OPEN_LEASES,
    &OPEN_SANDBOXES,
    &FIRST_HOUR,
    &LATE,
    &ADD_LATE,
    &BILLED,
    &OPEN,
    &CLOSED,
    &LAST_CLOSED,
    &ADD_CLOSED,
];

fn lease_hour(row: &mut Row) -> Answer<(HourKey, HourTotals)> {
    let (account, hour, sandbox, life) = (row.id()?, row.hour()?, row.id()?, row.int()?);
    let (key, lease, totals) = (row.id()?, row.id()?, row.hour_totals()?);
    let billed_month = hour.start().month();
    Ok((HourKey { account, hour, sandbox, life, key, lease: Some(lease), billed_month }, totals))
}

fn storage_hour(row: &mut Row) -> Answer<(HourKey, HourTotals)> {
    let (account, hour, sandbox, life, key) = (row.id()?, row.hour()?, row.id()?, row.int()?, row.id()?);
    let usage = Usage { storage_mib_ms: i128::from(row.int()?), ..Usage::ZERO };
    let key = HourKey { account, hour, sandbox, life, key, lease: None, billed_month: hour.start().month() };
    Ok((key, HourTotals { usage, ..HourTotals::default() }))
}

fn billed(row: &mut Row) -> Answer<BilledRow> {
    let (account, day) = (row.id()?, row.day()?);
    let name = row.text()?;
    let sandbox = if name.is_empty() { None } else { Some(known(SandboxId::parse(name).ok(), "an id")?) };
    Ok(BilledRow { account, day, sandbox, totals: row.hour_totals()? })
}

impl Tx {
    /// Locks the watermark alone: waits until no batch is under way, and lets none begin until the commit.
    pub async fn lock_watermark(&mut self) -> Answer<Month> {
        self.execute(&LOCK, &[]).await?;
        self.open_month(false).await
    }

    /// Moves the watermark; the caller holds it alone.
    pub async fn move_watermark(&mut self, to: Month) -> Answer<()> {
        self.execute(&MOVE, &[Value::int(to.index())]).await.map(drop)
    }

    /// Every lease's and sandbox's open hour before an hour, with the key under which it will be kept (the billed month
    /// is that of the hour).
    pub async fn open_hours_before(&mut self, hour: Hour) -> Answer<Vec<(HourKey, HourTotals)>> {
        let mut found = all(self.fetch(&OPEN_LEASES, &[Value::int(hour.index())]).await?, lease_hour)?;
        found.extend(self.open_storage_before(hour, i64::MAX).await?);
        Ok(found)
    }

    /// Open hours of sandboxes before an hour, at most `limit`.
    pub async fn open_storage_before(&mut self, hour: Hour, limit: i64) -> Answer<Vec<(HourKey, HourTotals)>> {
        let values = [Value::int(hour.index()), Value::int(limit)];
        all(self.fetch(&OPEN_SANDBOXES, &values).await?, storage_hour)
    }

    /// Adds to hours, in statements of bounded size.
    pub async fn add_hours(&mut self, hours: Vec<(HourKey, HourTotals)>) -> Answer<()> {
        let mut hours = hours.into_iter();
        loop {
            let mut changes = Changes::default();
            for (key, totals) in hours.by_ref().take(HOURS_MAX) {
                let sum = changes.hours.entry(key).or_default();
                *sum = sum.plus(totals)?;
            }
            if changes.hours.is_empty() {
                return Ok(());
            }
            self.save_hours(&changes).await?;
        }
    }

    /// Notes late usage of what a batch saves: which months bill which earlier ones.
    pub(super) async fn save_late_months(&mut self, changes: &Changes) -> Answer<()> {
        let late: BTreeSet<(&str, i64, i64)> = changes
            .hours
            .keys()
            .map(|key| (key.account.as_str(), key.billed_month.index(), key.hour.start().month().index()))
            .filter(|(_, billed, used)| billed != used)
            .collect();
        let rows = Rows::of(late, |rows, (account, billed, used)| {
            rows.text(account).int(billed).int(used);
        });
        self.write(&ADD_LATE, &rows).await.map(drop)
    }

    /// The earliest hour that any account has usage in; `None` when there is none.
    pub async fn first_hour(&mut self) -> Answer<Option<Hour>> {
        let found = self.fetch(&FIRST_HOUR, &[]).await?.into_iter().next();
        found.ok_or_else(|| StoreError::corrupt("no minimum"))?.opt_hour()
    }

    /// Which earlier months' usage a month bills, by account.
    pub async fn late_months(
        &mut self,
        accounts: &BTreeSet<AccountId>,
        billed_month: Month,
    ) -> Answer<Vec<(AccountId, Month)>> {
        let rows = Rows::of(accounts, |rows, account| {
            rows.text(account.as_str()).int(billed_month.index());
        });
        all(self.fetch_rows(&LATE, &rows, &[]).await?, |row| Ok((row.id()?, row.month()?)))
    }

    /// Usage by account and day (and sandbox) that a month bills in the given spans, from the hours' table.
    pub async fn billed_usage(&mut self, spans: &[BilledSpan], by_sandbox: bool) -> Answer<Vec<BilledRow>> {
        let rows = Rows::of(spans, |rows, span| {
            rows.text(span.account.as_str()).int(span.from.index()).int(span.to.index());
            rows.int(span.billed_month.index());
        });
        all(self.fetch_rows(&BILLED, &rows, &[Value::int(i64::from(by_sandbox))]).await?, billed)
    }

    /// Usage by account and day (and sandbox) that is still in the rows of leases and sandboxes, in the given spans.
    pub async fn open_usage(&mut self, spans: &[(AccountId, Hour, Hour)], by_sandbox: bool) -> Answer<Vec<BilledRow>> {
        let rows = Rows::of(spans, |rows, (account, from, to)| {
            rows.text(account.as_str()).int(from.index()).int(to.index());
        });
        all(self.fetch_rows(&OPEN, &rows, &[Value::int(i64::from(by_sandbox))]).await?, billed)
    }

    /// How many invoices a closed month has, once all are final.
    pub async fn closed_month(&mut self, month: Month) -> Answer<Option<i64>> {
        let found = self.fetch(&CLOSED, &[Value::int(month.index())]).await?.into_iter().next();
        found.map(|mut row| row.int()).transpose()
    }

    /// The latest month whose invoices are all final.
    pub async fn last_closed_month(&mut self) -> Answer<Option<Month>> {
        let found = self.fetch(&LAST_CLOSED, &[]).await?.into_iter().next();
        found.map(|mut row| row.month()).transpose()
    }

    /// Notes that all invoices of a month are final.
    pub async fn add_closed_month(&mut self, month: Month, invoices: i64) -> Answer<()> {
        let row = Rows::of([()], |rows, ()| {
            rows.int(month.index()).int(invoices);
        });
        self.write(&ADD_CLOSED, &row).await.map(drop)
    }
}
