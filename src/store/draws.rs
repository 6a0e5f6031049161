//! Draws on free time: which lease's hour took how much of which grant.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, LeaseId};
use crate::domain::time::Hour;

use super::changes::Changes;
use super::shapes::DrawRow;
use super::statement::Statement;
use super::{Answer, Rows, Tx, all};

static BY_HOUR: Statement = Statement::new(
    "draws",
    "SELECT d.account_id, d.lease_id, d.hour, d.grant_id, d.drawn_ms, d.seq
    FROM {rows account_id text, lease_id text, hour int}
    {each draws d: d.account_id = r.account_id AND d.lease_id = r.lease_id AND d.hour = r.hour}
    ORDER BY r.ord, d.seq, d.grant_id",
);
/// The place in the order is a fact of the first draw: later saves leave it.
static ADD: Statement = Statement::new(
    "add draws",
    "INSERT INTO draws ({columns}) SELECT {r.columns} FROM {rows account_id text, lease_id text, hour int,
        grant_id text | drawn_ms int, seq int}
    WHERE true
    ON CONFLICT (account_id, lease_id, hour, grant_id) DO UPDATE SET drawn_ms = draws.drawn_ms + excluded.drawn_ms",
);
static ADD_LATE: Statement = Statement::new(
    "add late draws",
    "INSERT INTO late_draws ({columns}) SELECT {r.columns} FROM {rows account_id text, lease_id text, hour int,
        grant_id text, billed_month int | drawn_ms int}
    WHERE true ON CONFLICT (account_id, lease_id, hour, grant_id, billed_month)
    DO UPDATE SET drawn_ms = late_draws.drawn_ms + excluded.drawn_ms",
);
pub(super) static STATEMENTS: &[&Statement] = &[&BY_HOUR, &ADD, &ADD_LATE];

impl Tx {
    /// What leases' hours drew, by hour asked, then in the order in which they first drew.
    pub async fn draws(&mut self, ids: &BTreeSet<(AccountId, LeaseId, Hour)>) -> Answer<Vec<DrawRow>> {
        let rows = Rows::of(ids, |rows, (account, lease, hour)| {
            rows.text(account.as_str()).text(lease.as_str()).int(hour.index());
        });
        all(self.fetch_rows(&BY_HOUR, &rows, &[]).await?, |row| {
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

    /// Adds to draws.
    pub(super) async fn save_draws(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::of(&changes.draws, |rows, (key, change)| {
            rows.text(key.account.as_str()).text(key.lease.as_str()).int(key.hour.index()).text(key.grant.as_str());
            rows.int(change.added_ms).int(change.seq);
        });
        self.write(&ADD, &rows).await?;
        let late = Rows::of(&changes.late_draws, |rows, ((key, billed), added_ms)| {
            rows.text(key.account.as_str()).text(key.lease.as_str()).int(key.hour.index()).text(key.grant.as_str());
            rows.int(billed.index()).int(*added_ms);
        });
        self.write(&ADD_LATE, &late).await.map(drop)
    }
}
