//! Cost tables: usage by time and group, priced by the card of each day, so that every table adds up.

use std::collections::{BTreeMap, BTreeSet};

use super::super::batch::told;
use super::super::command::CommandError;
use super::super::view::{CostQuery, CostRow, CostTable, Granularity, GroupBy};
use super::super::{Answer, Ledger};
use super::priced;
use crate::domain::cost::{Priced, tabulate};
use crate::domain::id::AccountId;
use crate::domain::lease::HourTotals;
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Day, Span, Timestamp};
use crate::domain::usage::Usage;
use crate::store::shapes::{Bucket, Group, UsageQuery, UsageRow};
use crate::store::{StoreError, Tx};

/// Most rows of one table.
const ROWS_MAX: i64 = 100_000;
/// Longest range by the hour, in days.
const HOURLY_DAYS_MAX: i64 = 93;
/// Longest range of any table, in days: a hundred years.
const DAYS_MAX: i64 = 36_525;
/// Most rows that the store sums up for one table.
const SUMMED_ROWS_MAX: i64 = 1_000_000;
/// The rows of a table by resource, in order.
const RESOURCES: [&str; 3] = ["cpu", "memory", "storage"];

/// Rows of a table before they are shown: by start, then group.
type Sums = BTreeMap<(Timestamp, Option<String>), Priced>;

impl Ledger {
    /// A cost table of one account, or of all.
    pub async fn costs(&self, query: CostQuery) -> Answer<CostTable> {
        let periods = periods(&query)?;
        let mut tx = match &query.account {
            Some(account) => self.snapshot_of(account).await?,
            None => self.report().await?,
        };
        let found = tx.usage_grouped(&usage_query(&query)).await.map_err(told)?;
        if i64::try_from(found.len()).is_ok_and(|count| count >= SUMMED_ROWS_MAX) {
            return Err(too_many());
        }
        let sums = self.sum_up(&mut tx, &query, &periods, found).await.map_err(told)?;
        if i64::try_from(sums.len()).is_ok_and(|count| count > ROWS_MAX) {
            return Err(too_many());
        }
        let now = self.engine.clock.now();
        let incomplete = tx.incomplete_since(query.account.as_ref(), query.from, query.to, now).await.map_err(told)?;
        let complete_before = incomplete.unwrap_or(Timestamp::MAX).min(now).min(query.to);
        table(&query, &periods, sums, complete_before).map_err(told)
    }

    async fn sum_up(
        &self,
        tx: &mut Tx,
        query: &CostQuery,
        periods: &[Span],
        found: Vec<UsageRow>,
    ) -> Result<Sums, StoreError> {
        let accounts: BTreeSet<AccountId> = found.iter().map(|row| row.account.clone()).collect();
        let books = self.books(tx, &accounts).await?;
        let mut sums = Sums::new();
        let shows_empty = matches!(query.group_by, GroupBy::None | GroupBy::Resource);
        for period in periods.iter().filter(|_| shows_empty) {
            for group in groups_of_empty(query.group_by) {
                sums.insert((period.start, group), Priced::default());
            }
        }
        for row in found {
            let Some(book) = books.get(&row.account) else { continue };
            let day = row.start.day();
            // A day's sum starts at midnight, also where the range starts later in that day.
            let start = row.start.max(query.from);
            let place = periods.partition_point(|period| period.start <= start);
            let Some(period) = place.checked_sub(1).and_then(|index| periods.get(index)) else { continue };
            for (group, priced) in split(query.group_by, row, book, day)? {
                let sum = sums.entry((period.start, group)).or_default();
                *sum = sum.plus(priced)?;
            }
        }
        Ok(sums)
    }
}

fn too_many() -> CommandError {
    let detail = format!("the table would have more than {ROWS_MAX} rows; ask for a shorter range or fewer groups");
    CommandError::Invalid { pointer: "?from".to_owned(), detail }
}

fn usage_query(query: &CostQuery) -> UsageQuery {
    UsageQuery {
        account: query.account.clone(),
        from: query.from.hour(),
        to: query.to.hour(),
        bucket: if query.granularity == Granularity::Hour { Bucket::Hour } else { Bucket::Day },
        group: match query.group_by {
            GroupBy::None | GroupBy::Resource | GroupBy::Account => Group::None,
            GroupBy::Sandbox => Group::Sandbox,
            GroupBy::Lease => Group::Lease,
            GroupBy::Key => Group::Key,
        },
        rows_max: SUMMED_ROWS_MAX,
    }
}

/// The periods of a table, ascending; refused when there are too many.
fn periods(query: &CostQuery) -> Answer<Vec<Span>> {
    let range = Span { start: query.from, end: query.to };
    let invalid = |detail: &str| CommandError::Invalid { pointer: "?to".to_owned(), detail: detail.to_owned() };
    if range.is_empty() {
        return Err(invalid("a range ends after it starts"));
    }
    let days_max = if query.granularity == Granularity::Hour { HOURLY_DAYS_MAX } else { DAYS_MAX };
    if range.length_ms() / 86_400_000 > days_max {
        return Err(invalid(&format!("this range is longer than {days_max} days")));
    }
    Ok(match query.granularity {
        Granularity::Hour => range.by_hour().map(|(_, part)| part).collect(),
        Granularity::Day => range.by_day().map(|(_, part)| part).collect(),
        Granularity::Month => by_month(range),
        Granularity::Total => vec![range],
    })
}

fn by_month(range: Span) -> Vec<Span> {
    let mut parts = Vec::new();
    let mut month = range.start.month();
    while month.span().start < range.end {
        parts.push(month.span().meet(range));
        month = month.next();
    }
    parts
}

fn groups_of_empty(group_by: GroupBy) -> Vec<Option<String>> {
    match group_by {
        GroupBy::Resource => RESOURCES.iter().map(|name| Some((*name).to_owned())).collect(),
        GroupBy::None | GroupBy::Sandbox | GroupBy::Lease | GroupBy::Key | GroupBy::Account => vec![None],
    }
}

/// A summed row as rows of the table: one, or one a resource.
fn split(
    group_by: GroupBy,
    row: UsageRow,
    book: &PriceBook,
    day: Day,
) -> Result<Vec<(Option<String>, Priced)>, StoreError> {
    let group = match group_by {
        GroupBy::None => None,
        GroupBy::Account => Some(row.account.to_string()),
        GroupBy::Sandbox | GroupBy::Lease | GroupBy::Key => row.group,
        GroupBy::Resource => {
            let parts = RESOURCES.iter().zip([cpu(row.totals), memory(row.totals), storage(row.totals)]);
            return parts.map(|(name, part)| Ok((Some((*name).to_owned()), priced(book, day, part)?))).collect();
        }
    };
    Ok(vec![(group, priced(book, day, row.totals)?)])
}

/// The CPU part of totals, with the running time, so that the parts sum to the whole.
fn cpu(totals: HourTotals) -> HourTotals {
    let part = |usage: Usage| Usage { memory_mib_ms: 0, storage_mib_ms: 0, ..usage };
    HourTotals { usage: part(totals.usage), free_ms: totals.free_ms, free: part(totals.free) }
}

fn memory(totals: HourTotals) -> HourTotals {
    let part = |usage: Usage| Usage { memory_mib_ms: usage.memory_mib_ms, ..Usage::ZERO };
    HourTotals { usage: part(totals.usage), free_ms: 0, free: part(totals.free) }
}

fn storage(totals: HourTotals) -> HourTotals {
    let part = |usage: Usage| Usage { storage_mib_ms: usage.storage_mib_ms, ..Usage::ZERO };
    HourTotals { usage: part(totals.usage), free_ms: 0, free: part(totals.free) }
}

fn table(query: &CostQuery, periods: &[Span], sums: Sums, complete_before: Timestamp) -> Result<CostTable, StoreError> {
    let shown: Vec<((Timestamp, Option<String>), Priced)> =
        sums.into_iter().filter(|((_, group), sum)| group.is_none() || !sum.usage.is_zero() || keeps(query)).collect();
    let costs: Vec<Priced> = shown.iter().map(|(_, sum)| *sum).collect();
    let (total, amounts, parts) = tabulate(&costs)?;
    let rows = shown
        .into_iter()
        .zip(parts)
        .map(|(((start, group), sum), amounts)| {
            let place = periods.partition_point(|period| period.start < start);
            let period = periods.get(place);
            CostRow { start, end: period.map_or(query.to, |period| period.end), group, usage: sum.usage, amounts }
        })
        .collect();
    Ok(CostTable { from: query.from, to: query.to, complete_before, rows, usage: total.usage, amounts })
}

/// Whether rows without usage are shown: by resource every period has its rows.
fn keeps(query: &CostQuery) -> bool {
    query.group_by == GroupBy::Resource
}
