//! Usage that a month bills hour by hour, in pages: for exports of any length in constant memory.

use crate::domain::charge::BilledHour;
use crate::domain::id::AccountId;
use crate::domain::time::{Hour, Month};

use super::dialect::Row;
use super::shapes::HourCursor;
use super::statement::Statement;
use super::sums::{storage_totals, totals};
use super::{Answer, Tx, Value, all};

/// The range of hours is narrowed to where the last page ended, so that a page is found by the key.
static HOURS: Statement = Statement::new(
    "billed hours",
    concat!(
        "SELECT h.hour, h.sandbox_id, h.life, h.key_id, h.lease_id, ",
        totals!("h"),
        " FROM usage_hours h WHERE h.account_id = {text 1} AND h.hour >= {int 2} AND h.hour < {int 3}
        AND h.billed_month = {int 4}
        AND (h.hour, h.sandbox_id, h.life, h.key_id, h.lease_id) > ({int 2}, {text 5}, {int 6}, {text 7}, {text 8})
        ORDER BY h.hour, h.sandbox_id, h.life, h.key_id, h.lease_id LIMIT {int 9}"
    ),
);
static OPEN_LEASES: Statement = Statement::new(
    "billed hours in leases",
    concat!(
        "SELECT l.open_hour, l.sandbox_id, l.life, l.key_id, l.lease_id, ",
        totals!("l"),
        " FROM leases l WHERE l.account_id = {text 1} AND l.open_hour >= {int 2} AND l.open_hour < {int 3}
        AND (l.open_hour, l.lease_id) > ({int 2}, {text 4}) ORDER BY l.open_hour, l.lease_id LIMIT {int 5}"
    ),
);
static OPEN_SANDBOXES: Statement = Statement::new(
    "billed hours in sandboxes",
    concat!(
        "SELECT s.storage_hour, s.sandbox_id, s.life, s.storage_hour_key_id, '', ",
        storage_totals!(),
        " FROM sandboxes s WHERE s.account_id = {text 1} AND s.storage_hour >= {int 2} AND s.storage_hour < {int 3}
        AND (s.storage_hour, s.sandbox_id, s.life) > ({int 2}, {text 4}, {int 5})
        ORDER BY s.storage_hour, s.sandbox_id, s.life LIMIT {int 6}"
    ),
);
pub(super) static STATEMENTS: &[&Statement] = &[&HOURS, &OPEN_LEASES, &OPEN_SANDBOXES];

fn billed(row: &mut Row) -> Answer<(HourCursor, BilledHour)> {
    let (hour, sandbox, life, key) = (row.hour()?, row.id()?, row.int()?, row.id()?);
    let lease = row.key_id()?;
    let cursor = HourCursor::after(hour, &sandbox, life, &key, lease.as_ref());
    Ok((cursor, BilledHour { hour, sandbox, key, lease, totals: row.hour_totals()? }))
}

impl Tx {
    /// Hours from the hours' table that a month bills, after `after` and before `until`, at most `limit`.
    pub async fn billed_hours(
        &mut self,
        account: &AccountId,
        billed_month: Month,
        after: &HourCursor,
        until: Hour,
        limit: i64,
    ) -> Answer<Vec<(HourCursor, BilledHour)>> {
        let values = [
            Value::text(account.as_str()),
            Value::int(after.hour.index()),
            Value::int(until.index()),
            Value::int(billed_month.index()),
            Value::text(&after.sandbox),
            Value::int(after.life),
            Value::text(&after.key),
            Value::text(&after.lease),
            Value::int(limit),
        ];
        all(self.fetch(&HOURS, &values).await?, billed)
    }

    /// Hours that are still in the rows of leases, likewise.
    pub async fn billed_hours_in_leases(
        &mut self,
        account: &AccountId,
        after: &HourCursor,
        until: Hour,
        limit: i64,
    ) -> Answer<Vec<(HourCursor, BilledHour)>> {
        let values = [
            Value::text(account.as_str()),
            Value::int(after.hour.index()),
            Value::int(until.index()),
            Value::text(&after.lease),
            Value::int(limit),
        ];
        all(self.fetch(&OPEN_LEASES, &values).await?, billed)
    }

    /// Hours of storage that are still in the rows of sandboxes, likewise.
    pub async fn billed_hours_in_sandboxes(
        &mut self,
        account: &AccountId,
        after: &HourCursor,
        until: Hour,
        limit: i64,
    ) -> Answer<Vec<(HourCursor, BilledHour)>> {
        let values = [
            Value::text(account.as_str()),
            Value::int(after.hour.index()),
            Value::int(until.index()),
            Value::text(&after.sandbox),
            Value::int(after.life),
            Value::int(limit),
        ];
        all(self.fetch(&OPEN_SANDBOXES, &values).await?, billed)
    }
}
