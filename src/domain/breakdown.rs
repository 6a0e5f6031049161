//! What an invoice's usage came from: its cost by sandbox, and by day. Each table adds up.

use std::collections::BTreeMap;

use super::checked::Overflow;
use super::cost::{Amounts, Priced, tabulate};
use super::id::SandboxId;
use super::lease::HourTotals;
use super::rate_card::PriceBook;
use super::time::Day;
use super::usage::Usage;

/// A row of a breakdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share<K> {
    /// The sandbox, or the day.
    pub of: K,
    /// Its usage.
    pub usage: Usage,
    /// What it costs.
    pub amounts: Amounts,
}

/// The usage behind an invoice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// By sandbox, in the order of their ids.
    pub sandboxes: Vec<Share<SandboxId>>,
    /// By day of use, ascending; late usage is on its own days.
    pub days: Vec<Share<Day>>,
    /// All of it.
    pub amounts: Amounts,
}

impl Breakdown {
    /// From usage by day and sandbox.
    pub fn of(rows: &[(Day, SandboxId, HourTotals)], book: &PriceBook) -> Result<Self, Overflow> {
        let mut sandboxes: BTreeMap<SandboxId, Priced> = BTreeMap::new();
        let mut days: BTreeMap<Day, Priced> = BTreeMap::new();
        for (day, sandbox, totals) in rows {
            let (list, net) = (book.price(*day, totals.usage)?, book.price(*day, totals.net()?)?);
            let priced = Priced { usage: totals.usage, list, net };
            let sum = sandboxes.entry(sandbox.clone()).or_default();
            *sum = sum.plus(priced)?;
            let sum = days.entry(*day).or_default();
            *sum = sum.plus(priced)?;
        }
        let (amounts, sandboxes) = shares(sandboxes)?;
        Ok(Self { sandboxes, days: shares(days)?.1, amounts })
    }
}

fn shares<K>(sums: BTreeMap<K, Priced>) -> Result<(Amounts, Vec<Share<K>>), Overflow> {
    let (of, sums): (Vec<K>, Vec<Priced>) = sums.into_iter().unzip();
    let (_, total, rows) = tabulate(&sums)?;
    let rows = of.into_iter().zip(sums).zip(rows);
    Ok((total, rows.map(|((of, sum), amounts)| Share { of, usage: sum.usage, amounts }).collect()))
}
