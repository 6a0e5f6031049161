//! The annex of an invoice: cost by day, with a bar chart, and by sandbox.

use super::{grouped, short, show_day};
use crate::domain::Overflow;
use crate::domain::breakdown::{Breakdown, Share};
use crate::domain::cost::Amounts;
use crate::domain::invoice::{Item, decimal};
use crate::domain::time::{Day, Month};
use crate::domain::usage::Usage;

/// Sandboxes that are shown by name, those that cost most; the others are one row, so that a page stays readable.
const SANDBOXES_MAX: usize = 500;

/// A row, as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The day, or the sandbox.
    pub(crate) of: String,
    /// vCPU-hours as billed.
    pub(crate) cpu: String,
    /// Dollars at list price.
    pub(crate) list: String,
    /// Dollars that free time paid, below zero.
    pub(crate) free: String,
    /// Dollars to pay.
    pub(crate) net: String,
}

fn row(of: String, usage: Usage, amounts: Amounts) -> Result<Row, Overflow> {
    let (_, size) = Item::Cpu.unit().ok_or(Overflow)?;
    Ok(Row {
        of,
        cpu: short(&decimal(usage.cpu_us, size)?).to_owned(),
        list: grouped(amounts.list.count()),
        free: grouped(amounts.free.count().saturating_neg()),
        net: grouped(amounts.net.count()),
    })
}

/// Rows by day.
pub(crate) fn days(breakdown: &Breakdown) -> Result<Vec<Row>, Overflow> {
    breakdown.days.iter().map(|share| row(show_day(share.of), share.usage, share.amounts)).collect()
}

/// Rows by sandbox: those that cost most first, at list price.
pub(crate) fn sandboxes(breakdown: &Breakdown) -> Result<Vec<Row>, Overflow> {
    let mut shares: Vec<&Share<_>> = breakdown.sandboxes.iter().collect();
    shares.sort_by(|left, right| (right.amounts.list, &left.of).cmp(&(left.amounts.list, &right.of)));
    let (named, others) = shares.split_at(shares.len().min(SANDBOXES_MAX));
    let mut rows = named
        .iter()
        .map(|share| row(share.of.to_string(), share.usage, share.amounts))
        .collect::<Result<Vec<_>, _>>()?;
    if !others.is_empty() {
        let (mut usage, mut sum) = (Usage::ZERO, Amounts::default());
        for share in others {
            usage = usage.plus(share.usage)?;
            let Amounts { list, free, net } = share.amounts;
            sum = Amounts { list: sum.list.plus(list)?, free: sum.free.plus(free)?, net: sum.net.plus(net)? };
        }
        rows.push(row(format!("{} others", others.len()), usage, sum)?);
    }
    Ok(rows)
}

/// The sum of all rows.
pub(crate) fn total(breakdown: &Breakdown) -> Result<Row, Overflow> {
    let usage = breakdown.days.iter().try_fold(Usage::ZERO, |sum, share| sum.plus(share.usage))?;
    row("All".to_owned(), usage, breakdown.amounts)
}

/// A day of the chart: what is paid for it stands on the base line, what free hours paid above that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    /// The day of the month: 1, 2, ...
    pub(crate) date: i64,
    /// From the left.
    pub(crate) x: i64,
    /// Its width.
    pub(crate) width: i64,
    /// The height of what is to be paid.
    pub(crate) net: i64,
    /// The height of what free hours paid.
    pub(crate) free: i64,
    /// The day and its cost.
    pub(crate) title: String,
}

/// The chart of a month's own days: every day has its place; one that cost less than nothing (a correction) has no
/// height, one that cost anything has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    /// The bars, by day.
    pub(crate) bars: Vec<Bar>,
    /// The cost of the dearest day, which is as high as the chart.
    pub(crate) most: String,
}

/// The chart in the caller's units; `None` where no day of the month cost anything.
pub(crate) fn chart(breakdown: &Breakdown, month: Month, width: i64, height: i64) -> Option<Chart> {
    let own = |share: &&Share<Day>| share.of.month() == month && share.amounts.list.count() > 0;
    let most = breakdown.days.iter().filter(own).map(|share| share.amounts.list.count()).max()?;
    let days = month.next().first_day().index().checked_sub(month.first_day().index())?;
    let edge = |place: i64| place.saturating_mul(width).checked_div(days).unwrap_or(0);
    let mut bars = Vec::new();
    for share in breakdown.days.iter().filter(own) {
        let place = share.of.index().saturating_sub(month.first_day().index());
        let tall = |micros: i64| {
            let wide = i128::from(micros).saturating_mul(i128::from(height));
            wide.checked_div(i128::from(most)).and_then(|tall| i64::try_from(tall).ok()).unwrap_or(0)
        };
        let whole = tall(share.amounts.list.count()).max(1);
        let net = tall(share.amounts.net.count().max(0)).min(whole);
        let (left, right) = (edge(place), edge(place.saturating_add(1)));
        let gap = right.saturating_sub(left) / 6;
        bars.push(Bar {
            date: place.saturating_add(1),
            x: left.saturating_add(gap),
            width: right.saturating_sub(left).saturating_sub(gap.saturating_mul(2)),
            net,
            free: whole.saturating_sub(net),
            title: format!("{}: {}", show_day(share.of), grouped(share.amounts.list.count())),
        });
    }
    Some(Chart { bars, most: grouped(most) })
}

/// The middle of each fifth day (and the first) on the chart's base line, with its number.
pub(crate) fn ticks(month: Month, width: i64) -> Vec<(i64, i64)> {
    let days = month.next().first_day().index().saturating_sub(month.first_day().index());
    let middle = |date: i64| {
        let halves = date.saturating_mul(2).saturating_sub(1);
        halves.saturating_mul(width).checked_div(days.saturating_mul(2)).unwrap_or(0)
    };
    (1..=days).filter(|date| *date == 1 || date % 5 == 0).map(|date| (date, middle(date))).collect()
}
