//! Cost tables.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::Invalid;
use super::schema::{Id, TimeText};
use super::time::show_time;
use super::usage::Priced;
use crate::domain::id::AccountId;
use crate::domain::time::Timestamp;
use crate::ledger::view::{CostQuery, CostRow, CostTable, Granularity, GroupBy};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;
/// Longest range by the hour, in days.
pub const HOURLY_DAYS_MAX: i64 = 93;
/// Longest range at all, in days: a hundred years.
pub const RANGE_DAYS_MAX: i64 = 36_525;
/// Most rows of one answer.
pub const COST_ROWS_MAX: i64 = 100_000;

/// Rows by time, as words.
pub const GRANULARITIES: [(&str, Granularity); 4] = [
    ("hour", Granularity::Hour),
    ("day", Granularity::Day),
    ("month", Granularity::Month),
    ("total", Granularity::Total),
];
/// Rows of one account by what, as words.
pub const GROUPS: [(&str, GroupBy); 5] = [
    ("none", GroupBy::None),
    ("sandbox", GroupBy::Sandbox),
    ("lease", GroupBy::Lease),
    ("key", GroupBy::Key),
    ("resource", GroupBy::Resource),
];
/// Rows over all accounts by what, as words.
pub const GROUPS_OF_ALL: [(&str, GroupBy); 6] = [
    ("none", GroupBy::None),
    ("sandbox", GroupBy::Sandbox),
    ("lease", GroupBy::Lease),
    ("key", GroupBy::Key),
    ("resource", GroupBy::Resource),
    ("account", GroupBy::Account),
];

/// Rows by time.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum GranularityWord {
    /// By UTC hour.
    Hour,
    /// By UTC day.
    Day,
    /// By UTC month.
    Month,
    /// The whole range.
    Total,
}

/// Rows by what.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum GroupWord {
    /// Nothing.
    None,
    /// Sandbox.
    Sandbox,
    /// Lease; storage has none.
    Lease,
    /// Key.
    Key,
    /// CPU, memory, storage.
    Resource,
}

/// Rows over all accounts by what.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum GroupOfAllWord {
    /// Nothing.
    None,
    /// Sandbox.
    Sandbox,
    /// Lease; storage has none.
    Lease,
    /// Key.
    Key,
    /// CPU, memory, storage.
    Resource,
    /// Account.
    Account,
}

/// Checks a range: in order, on the boundaries of its granularity, and not too long.
pub fn checked(query: CostQuery) -> Result<CostQuery, Invalid> {
    let (unit_ms, unit) = match query.granularity {
        Granularity::Hour | Granularity::Total => (HOUR_MS, "an hour"),
        Granularity::Day | Granularity::Month => (DAY_MS, "a UTC day"),
    };
    let bad = |name: &str, detail: String| Err(Invalid { pointer: format!("?{name}"), detail });
    for (name, at) in [("from", query.from), ("to", query.to)] {
        if at.ms().checked_rem(unit_ms) != Some(0) {
            return bad(name, format!("must be on the boundary of {unit}"));
        }
    }
    if query.to <= query.from {
        return bad("to", "must be after from".to_owned());
    }
    let length_ms = query.to.since(query.from);
    let days_max = if query.granularity == Granularity::Hour { HOURLY_DAYS_MAX } else { RANGE_DAYS_MAX };
    if length_ms > days_max.saturating_mul(DAY_MS) {
        return bad("to", format!("must be at most {days_max} days after from"));
    }
    // By resource every period has three rows, empty ones too.
    let rows_each = if query.group_by == GroupBy::Resource { 3 } else { 1 };
    if query.granularity == Granularity::Day && (length_ms / DAY_MS).saturating_mul(rows_each) > COST_ROWS_MAX {
        return bad("to", format!("would give more than {COST_ROWS_MAX} rows"));
    }
    Ok(query)
}

/// One row: usage and cost of a period, and of a sandbox, lease, key, resource or account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Row {
    /// From.
    #[schema(value_type = TimeText)]
    pub start: String,
    /// To.
    #[schema(value_type = TimeText)]
    pub end: String,
    /// Grouped by sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub sandbox: Option<String>,
    /// Grouped by lease; null for storage, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub lease: Option<Option<String>>,
    /// Grouped by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub key: Option<String>,
    /// Grouped by resource: `cpu`, `memory` or `storage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resource: Option<String>,
    /// Grouped by account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub account: Option<String>,
    /// What was used and what it costs.
    #[serde(flatten)]
    pub priced: Priced,
}

impl Row {
    fn new(row: &CostRow, group_by: GroupBy) -> Self {
        let mut shown = Self {
            start: show_time(row.start),
            end: show_time(row.end),
            sandbox: None,
            lease: None,
            key: None,
            resource: None,
            account: None,
            priced: Priced::new(&row.usage, row.amounts),
        };
        let group = row.group.clone();
        match group_by {
            GroupBy::None => {}
            GroupBy::Sandbox => shown.sandbox = group,
            GroupBy::Lease => shown.lease = Some(group),
            GroupBy::Key => shown.key = group,
            GroupBy::Resource => shown.resource = group,
            GroupBy::Account => shown.account = group,
        }
        shown
    }
}

/// A cost table: its rows sum to the total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Costs {
    /// The range's start.
    #[schema(value_type = TimeText)]
    pub from: String,
    /// The range's end.
    #[schema(value_type = TimeText)]
    pub to: String,
    /// Up to here nothing more is awaited.
    #[schema(value_type = TimeText)]
    pub complete_before: String,
    /// In order of start, then group.
    pub rows: Vec<Row>,
    /// All usage in the range.
    pub total: Priced,
}

impl Costs {
    /// A table as it is shown, grouped as it was asked.
    #[must_use]
    pub fn new(table: &CostTable, group_by: GroupBy) -> Self {
        Self {
            from: show_time(table.from),
            to: show_time(table.to),
            complete_before: show_time(table.complete_before),
            rows: table.rows.iter().map(|row| Row::new(row, group_by)).collect(),
            total: Priced::new(&table.usage, table.amounts),
        }
    }
}

/// A query as it was asked, not checked yet.
#[must_use]
pub fn asked(
    account: Option<AccountId>,
    range: (Timestamp, Timestamp),
    granularity: Granularity,
    group_by: GroupBy,
) -> CostQuery {
    CostQuery { account, from: range.0, to: range.1, granularity, group_by }
}

#[cfg(test)]
mod tests {
    use super::{asked, checked};
    use crate::ledger::view::{Granularity, GroupBy};
    use crate::wire::time::parse_time;

    fn pointer(from: &str, to: &str, granularity: Granularity) -> Option<String> {
        let range = (parse_time(from).unwrap(), parse_time(to).unwrap());
        checked(asked(None, range, granularity, GroupBy::Resource)).err().map(|invalid| invalid.pointer)
    }

    #[test]
    fn ranges_are_on_boundaries_in_order_and_bounded() {
        let day = "2026-11-01T00:00:00Z";
        assert_eq!(pointer(day, "2026-11-01T01:00:00Z", Granularity::Hour), None);
        assert_eq!(pointer(day, "2026-11-01T01:00:00.001Z", Granularity::Hour).as_deref(), Some("?to"));
        assert_eq!(pointer("2026-11-01T01:00:00Z", "2026-11-03T00:00:00Z", Granularity::Day).as_deref(), Some("?from"));
        assert_eq!(pointer(day, day, Granularity::Total).as_deref(), Some("?to"));
        assert_eq!(pointer(day, "2027-02-02T00:00:00Z", Granularity::Hour), None);
        assert_eq!(pointer(day, "2027-02-02T01:00:00Z", Granularity::Hour).as_deref(), Some("?to"));
        assert_eq!(pointer("1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z", Granularity::Total).as_deref(), Some("?to"));
        assert_eq!(pointer("1970-01-01T00:00:00Z", "2062-01-01T00:00:00Z", Granularity::Day).as_deref(), Some("?to"));
    }
}
