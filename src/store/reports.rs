//! What operators' reports read of an account beside sums: leases that may have time that nobody pays for, and refusals.

use crate::domain::id::{AccountId, KeyId, LeaseId};
use crate::domain::lease::{EndReason, Lease};
use crate::domain::time::{Span, Timestamp};

use super::dialect::Row;
use super::leases::{lease, lease_columns, reason_text};
use super::statement::Statement;
use super::{Answer, Tx, Value, all};

/// Left out are leases whose last sample, or whose end, proves all of their time.
static UNPROVEN: Statement = Statement::new(
    "unproven leases",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM leases l WHERE l.account_id = {text 1} AND l.lease_id > {text 2} AND l.starts_at < {int 3}
        AND l.ends_at > {int 4} AND (l.end_reason = {text 5} OR (COALESCE(l.last_at, 0) < l.effective_end
            AND COALESCE(l.proven_until, 0) < l.effective_end)) ORDER BY l.lease_id LIMIT {int 6}"
    ),
);
static REFUSALS: Statement = Statement::new(
    "refusals of an account",
    "SELECT f.key_id, f.code, COUNT(*) FROM refusals f WHERE f.account_id = {text 1} AND f.at >= {int 2}
        AND f.at < {int 3} GROUP BY f.key_id, f.code ORDER BY f.key_id, f.code",
);
/// Leases that are over settle, so few of those that are looked at do not run.
static STALE: Statement = Statement::new(
    "stale leases of all accounts",
    "SELECT COUNT(*) FROM leases l WHERE l.settled_at IS NULL AND l.settles_at > {int 1} AND l.ended_at IS NULL
        AND l.ends_at > {int 1} AND l.starts_at <= {int 2} AND COALESCE(l.last_at, 0) <= {int 2}",
);
pub(super) static STATEMENTS: &[&Statement] = &[&UNPROVEN, &REFUSALS, &STALE];

impl Tx {
    /// Leases whose granted window meets a span and is not proven to its end, or whose host was lost; by id after
    /// `after`, at most `limit`.
    pub async fn unproven_leases(
        &mut self,
        account: &AccountId,
        after: Option<&LeaseId>,
        span: Span,
        limit: i64,
    ) -> Answer<Vec<Lease>> {
        let values = [
            Value::text(account.as_str()),
            Value::text(after.map_or("", LeaseId::as_str)),
            Value::int(span.end.ms()),
            Value::int(span.start.ms()),
            Value::text(reason_text(EndReason::HostLost)),
            Value::int(limit),
        ];
        all(self.fetch(&UNPROVEN, &values).await?, lease)
    }

    /// How many leases of all accounts run at `now` and have had no sample after `since`.
    pub async fn stale_leases(&mut self, now: Timestamp, since: Timestamp) -> Answer<i64> {
        let values = [Value::int(now.ms()), Value::int(since.ms())];
        let counts = all(self.fetch(&STALE, &values).await?, Row::int)?;
        Ok(counts.into_iter().sum())
    }

    /// How often an account's keys were refused in a span, by key and code.
    pub async fn refusals(&mut self, account: &AccountId, span: Span) -> Answer<Vec<(KeyId, String, i64)>> {
        let values = [Value::text(account.as_str()), Value::int(span.start.ms()), Value::int(span.end.ms())];
        all(self.fetch(&REFUSALS, &values).await?, |row| Ok((row.id()?, row.string()?, row.int()?)))
    }
}
