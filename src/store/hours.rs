//! Usage by hour: added to, and summed for leases.

use crate::domain::id::LeaseId;

use super::changes::Changes;
use super::shapes::{LeaseDay, LeaseHour, LeaseHours};
use super::statement::Statement;
use super::{Answer, Rows, Tx, all};

/// The eight sums of an hour's totals.
macro_rules! sums {
    ($alias:literal) => {
        concat!(
            "CAST(SUM(",
            $alias,
            ".run_ms) AS BIGINT), CAST(SUM(",
            $alias,
            ".cpu_used_us) AS BIGINT), CAST(SUM(",
            $alias,
            ".cpu_us) AS BIGINT), CAST(SUM(",
            $alias,
            ".memory_mib_ms) AS BIGINT), CAST(SUM(",
            $alias,
            ".storage_mib_ms) AS BIGINT), CAST(SUM(",
            $alias,
            ".free_ms) AS BIGINT), CAST(SUM(",
            $alias,
            ".free_cpu_us) AS BIGINT), CAST(SUM(",
            $alias,
            ".free_memory_mib_ms) AS BIGINT)"
        )
    };
}
macro_rules! of_leases {
    ($period:literal) => {
        concat!(
            "SELECT h.account_id, h.lease_id, ",
            $period,
            ", ",
            sums!("h"),
            " FROM {rows account_id text, sandbox_id text, life int, lease_id text, since int, until int}
            {each usage_hours h by usage_hours_by_sandbox: h.account_id = r.account_id AND h.sandbox_id = r.sandbox_id AND h.life = r.life
                AND h.hour >= r.since AND h.hour <= r.until AND h.lease_id = r.lease_id}
            GROUP BY h.account_id, h.lease_id, ",
            $period,
            " ORDER BY h.account_id, h.lease_id, ",
            $period
        )
    };
}
pub(super) use sums;

static HOURS: Statement = Statement::new("hours of leases", of_leases!("h.hour"));
static DAYS: Statement = Statement::new("days of leases", of_leases!("h.hour / 24"));
static ADD: Statement = Statement::new(
    "add hours",
    "INSERT INTO usage_hours ({columns}) SELECT {r.columns} FROM {rows account_id text, hour int, sandbox_id text,
        life int, key_id text, lease_id text, billed_month int | run_ms int, cpu_used_us int, cpu_us int,
        memory_mib_ms int, storage_mib_ms int, free_ms int, free_cpu_us int, free_memory_mib_ms int}
    WHERE true
    ON CONFLICT (account_id, hour, sandbox_id, life, key_id, lease_id, billed_month) DO UPDATE SET {add usage_hours}",
);
pub(super) static STATEMENTS: &[&Statement] = &[&HOURS, &DAYS, &ADD];

fn lease_hours_rows(leases: &[LeaseHours]) -> Rows<'_> {
    Rows::of(leases, |rows, hours| {
        rows.text(hours.account.as_str()).text(hours.sandbox.as_str()).int(hours.life).text(hours.lease.as_str());
        rows.int(hours.from.index()).int(hours.to.index());
    })
}

impl Tx {
    /// Hours of leases from the hours' table, summed over the billed months; by account, lease, hour. The hour that is
    /// open is in the lease itself. A lease is asked for once.
    pub async fn hours_of_leases(&mut self, leases: &[LeaseHours]) -> Answer<Vec<LeaseHour>> {
        let rows = self.fetch_rows(&HOURS, &lease_hours_rows(leases), &[]).await?;
        all(rows, |row| Ok(((row.id()?, row.id()?), row.hour()?, row.hour_totals()?)))
    }

    /// [`Tx::hours_of_leases`] by UTC day.
    pub async fn usage_by_day_of_leases(&mut self, leases: &[LeaseHours]) -> Answer<Vec<LeaseDay>> {
        let rows = self.fetch_rows(&DAYS, &lease_hours_rows(leases), &[]).await?;
        all(rows, |row| Ok(((row.id()?, row.id()?), row.day()?, row.hour_totals()?)))
    }

    /// Adds to hours.
    pub(super) async fn save_hours(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::try_of(&changes.hours, |rows, (key, totals)| {
            rows.text(key.account.as_str()).int(key.hour.index()).text(key.sandbox.as_str()).int(key.life);
            rows.text(key.key.as_str()).text(key.lease.as_ref().map_or("", LeaseId::as_str));
            rows.int(key.billed_month.index()).hour_totals(totals)
        })?;
        self.write(&ADD, &rows).await?;
        self.save_late_months(changes).await
    }
}
