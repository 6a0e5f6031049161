//! Rule 4 of the gate: what an account without a card may use, free time and promotional credit.
//!
//! Free time alone is asked first: it must cover the shapes, the disks and all unmetered time of all leases, the whole
//! of the new ones in it. Where it does not, and the account has credit, credit must cover the worst case of the rest:
//! all that leases hold and all that is asked for, at list price, less what free time is sure to pay. Which lease will
//! draw the free time is not known, so it is counted for the cheapest time of each day. The worst case of a shape beyond
//! what free time covers counts whole. Usage that no final invoice has billed takes its credit first. So, in order and at
//! the cards known, such an account never spends more than its free time and its credit.

use std::collections::BTreeMap;

use super::admission::{Ask, Refusal, Standing};
use super::checked::Overflow;
use super::credit::Uncredited;
use super::free_hours::{self, Uncovered};
use super::lease::Shape;
use super::money::Cost;
use super::time::{Day, Span, Timestamp};
use super::usage::Usage;

/// A lease that is not settled: what it holds, and the part of its time that may still draw free time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// What it is given.
    pub shape: Shape,
    /// What it holds, by day.
    pub held: BTreeMap<Day, Usage>,
    /// Of that the time of which nothing is posted, in milliseconds.
    pub unposted_ms: BTreeMap<Day, i64>,
}

/// Rule 4: a card is on file, or free time and credit pay.
pub fn can_pay(asks: &[Ask], standing: &Standing<'_>) -> Result<Result<(), Refusal>, Overflow> {
    if standing.account.card_on_file {
        return Ok(Ok(()));
    }
    let cover = standing.cover;
    let fits = |ask: &Ask| ask.shape.vcpus <= cover.vcpus && ask.shape.memory <= cover.memory && ask.disk <= cover.disk;
    let first_day = asks.iter().map(|ask| ask.window.start.day()).min();
    let has_credit = first_day.is_some_and(|day| standing.credits.is_open(day));
    if let Some(ask) = asks.iter().find(|ask| !has_credit && !fits(ask)) {
        return Ok(Err(Refusal::CardRequired { lease: ask.lease.clone() }));
    }
    let mut demand_ms = standing.unmetered_ms.clone();
    let mut all_fit = true;
    for (index, ask) in asks.iter().enumerate() {
        for (day, part) in ask.window.by_day() {
            let sum = demand_ms.entry(day).or_default();
            *sum = sum.checked_add(part.length_ms()).ok_or(Overflow)?;
        }
        all_fit &= fits(ask);
        // As sent: the refusal of a lease must not speak of the leases after it.
        let covered = free_hours::covers(standing.grants, &demand_ms)?;
        if all_fit && covered.is_ok() {
            continue;
        }
        if has_credit {
            let so_far = asks.get(..=index).unwrap_or(asks);
            let needed = needed_credit(so_far, standing, &demand_ms, &fits)?;
            if let Err(Uncredited { needed, available }) = standing.credits.covers(standing.unbilled, &needed)? {
                return Ok(Err(Refusal::CreditExhausted { lease: ask.lease.clone(), needed, available }));
            }
        } else if let Err(Uncovered { needed_ms, available_ms }) = covered {
            return Ok(Err(Refusal::FreeHoursExhausted { needed_ms, available_ms }));
        }
    }
    Ok(Ok(()))
}

/// The worst case of one day.
#[derive(Default)]
struct DayNeed {
    /// At list price.
    worst: Cost,
    /// Of that the worst case of shapes beyond what free time covers.
    beyond: Cost,
    /// What a millisecond costs at worst, and how many there are that may draw free time.
    parts: Vec<(Cost, i64)>,
}

/// The credit that is needed by day for what leases hold and what is asked for.
fn needed_credit(
    asks: &[Ask],
    standing: &Standing<'_>,
    demand_ms: &BTreeMap<Day, i64>,
    fits: &impl Fn(&Ask) -> bool,
) -> Result<BTreeMap<Day, Cost>, Overflow> {
    let mut days: BTreeMap<Day, DayNeed> = BTreeMap::new();
    let prices = standing.prices;
    for lease in standing.running {
        let beyond = lease.shape.vcpus > standing.cover.vcpus || lease.shape.memory > standing.cover.memory;
        for (day, held) in &lease.held {
            let cost = prices.price(*day, *held)?;
            let need = days.entry(*day).or_default();
            need.worst = need.worst.plus(cost)?;
            need.beyond = if beyond { need.beyond.plus(cost)? } else { need.beyond };
        }
        for (day, ms) in &lease.unposted_ms {
            let rate = prices.price(*day, lease.shape.worst_case(millisecond()?)?)?;
            days.entry(*day).or_default().parts.push((rate, *ms));
        }
    }
    for ask in asks {
        for (day, part) in ask.window.by_day() {
            let cost = prices.price(day, ask.shape.worst_case(part)?)?;
            let rate = prices.price(day, ask.shape.worst_case(millisecond()?)?)?;
            let need = days.entry(day).or_default();
            need.worst = need.worst.plus(cost)?;
            need.beyond = if fits(ask) { need.beyond } else { need.beyond.plus(cost)? };
            need.parts.push((rate, part.length_ms()));
        }
    }
    let free_ms = free_hours::paid_by_day(standing.grants, demand_ms)?;
    days.into_iter().map(|(day, need)| Ok((day, need.after(free_ms.get(&day).copied().unwrap_or(0))?))).collect()
}

fn millisecond() -> Result<Span, Overflow> {
    Ok(Span { start: Timestamp::EPOCH, end: Timestamp::EPOCH.plus_ms(1)? })
}

impl DayNeed {
    /// What is left to pay when free time pays for so many of the cheapest milliseconds.
    fn after(mut self, free_ms: i64) -> Result<Cost, Overflow> {
        self.parts.sort_unstable();
        let (mut left, mut cost) = (free_ms, self.worst);
        for (rate, ms) in self.parts {
            let paid = ms.min(left).max(0);
            cost = cost.minus(rate.times(paid)?)?;
            left = left.saturating_sub(paid);
        }
        Ok(cost.max(self.beyond))
    }
}
