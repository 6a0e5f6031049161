//! The annex of an invoice: cost by day, with a bar chart, and by sandbox.

use super::{dollars, short, show_day};
use crate::domain::Overflow;
use crate::domain::breakdown::{Breakdown, Share};
use crate::domain::cost::Amounts;
use crate::domain::invoice::{Item, decimal};
use crate::domain::usage::Usage;

/// Sandboxes that are shown by name, those that cost most; the others are one row, so that a page stays readable.
const SANDBOXES_MAX: usize = 500;
/// The chart's width, in its own units.
pub(crate) const CHART_WIDTH: i64 = 640;
/// The chart's height, likewise.
pub(crate) const CHART_HEIGHT: i64 = 80;

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
        list: dollars(amounts.list.count()),
        free: dollars(amounts.free.count().saturating_neg()),
        net: dollars(amounts.net.count()),
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

/// A bar of the chart: the list cost of a day, relative to the dearest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    /// From the left.
    pub(crate) x: i64,
    /// From the top.
    pub(crate) y: i64,
    /// Its width.
    pub(crate) width: i64,
    /// Its height; a day that cost anything has one.
    pub(crate) height: i64,
    /// The day and its cost.
    pub(crate) title: String,
}

/// The bars; days that cost less than nothing (corrections) have none.
pub(crate) fn bars(breakdown: &Breakdown) -> Vec<Bar> {
    let cost = |share: &Share<_>| share.amounts.list.count().max(0);
    let most = breakdown.days.iter().map(cost).max().unwrap_or(0).max(1);
    let count = i64::try_from(breakdown.days.len()).unwrap_or(1).max(1);
    let step = CHART_WIDTH.checked_div(count).unwrap_or(1).max(1);
    let mut bars = Vec::new();
    for (place, share) in (0_i64..).zip(&breakdown.days) {
        let wide = i128::from(cost(share)).saturating_mul(i128::from(CHART_HEIGHT));
        let height = wide.checked_div(i128::from(most)).and_then(|height| i64::try_from(height).ok()).unwrap_or(0);
        let height = if cost(share) > 0 { height.max(1) } else { 0 };
        let title = format!("{}: {}", show_day(share.of), dollars(share.amounts.list.count()));
        let gap = if step > 4 { 2 } else { 0 };
        bars.push(Bar {
            x: place.saturating_mul(step),
            y: CHART_HEIGHT.saturating_sub(height),
            width: step.saturating_sub(gap),
            height,
            title,
        });
    }
    bars
}
