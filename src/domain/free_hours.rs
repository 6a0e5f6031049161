//! Free time: dated grants, and how usage draws on them.
//!
//! A free hour pays for the compute (CPU and memory) of one running sandbox for one hour, whatever its size. Time is
//! drawn as usage is posted, from the grants that are valid on the day *of the usage*, the one that expires first first,
//! and goes back only where the hour's running time falls below what it drew (DESIGN.md section 4).

use std::collections::BTreeMap;

use super::checked::{Overflow, add, sub};
use super::id::{AccountId, GrantId};
use super::lease::HourTotals;
use super::time::{Day, Hour, Timestamp};
use super::usage::Usage;

/// Free hours of a new account.
pub const WELCOME_HOURS: i64 = 50;
/// Most hours of one grant: a hundred years of one sandbox.
pub const GRANT_HOURS_MAX: i64 = 876_000;

/// A grant of free sandbox time, valid on the days `[starts_on, expires_on)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: GrantId,
    /// How much, in milliseconds of one running sandbox.
    pub granted_ms: i64,
    /// How much of it is drawn, in milliseconds.
    pub used_ms: i64,
    /// The first day on which it pays.
    pub starts_on: Day,
    /// The first day on which it pays no more; `None`: never.
    pub expires_on: Option<Day>,
    /// Free text of at most 2,000 characters.
    pub note: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Grant {
    /// Whether it pays for usage on a day.
    #[must_use]
    pub fn pays_on(&self, day: Day) -> bool {
        self.starts_on <= day && self.expires_on.is_none_or(|end| day < end)
    }

    /// What is left of it, in milliseconds, lapsed or not.
    #[must_use]
    pub fn left_ms(&self) -> i64 {
        self.granted_ms.saturating_sub(self.used_ms).max(0)
    }

    /// Whether it has time left that can still pay for something used on `day` or later.
    #[must_use]
    pub fn is_open(&self, day: Day) -> bool {
        self.left_ms() > 0 && self.expires_on.is_none_or(|end| day < end)
    }

    /// The order of drawing: the one that expires first first; then the one that started first; then by id.
    fn order(&self) -> (bool, Option<Day>, Day, &GrantId) {
        (self.expires_on.is_none(), self.expires_on, self.starts_on, &self.id)
    }
}

/// Sorts grants in the order in which they are drawn.
pub fn sort_for_drawing(grants: &mut [Grant]) {
    grants.sort_by(|left, right| left.order().cmp(&right.order()));
}

/// Free time that one lease's hour has drawn, by grant, in milliseconds, in the order in which it first drew on them.
/// Draws are recorded facts; one that was given back stays, with 0.
pub type Draws = Vec<(GrantId, i64)>;

/// Draws up to `wanted_ms` for usage on `day` from grants sorted for drawing. Answers how much was drawn.
fn draw(grants: &mut [Grant], draws: &mut Draws, day: Day, wanted_ms: i64) -> Result<i64, Overflow> {
    let mut lacking = wanted_ms;
    for grant in grants.iter_mut().filter(|grant| grant.pays_on(day)) {
        let taken = grant.left_ms().min(lacking);
        if taken > 0 {
            grant.used_ms = grant.used_ms.checked_add(taken).ok_or(Overflow)?;
            match draws.iter_mut().find(|(id, _)| *id == grant.id) {
                Some((_, drawn)) => *drawn = drawn.checked_add(taken).ok_or(Overflow)?,
                None => draws.push((grant.id.clone(), taken)),
            }
            lacking = lacking.saturating_sub(taken);
        }
    }
    Ok(wanted_ms.saturating_sub(lacking))
}

/// Gives `surplus_ms` back to the grants that this hour drew on, the one that it drew on last first.
fn give_back(grants: &mut [Grant], draws: &mut Draws, surplus_ms: i64) -> Result<(), Overflow> {
    let mut surplus = surplus_ms;
    for (id, drawn) in draws.iter_mut().rev() {
        let back = surplus.min(*drawn);
        if let Some(grant) = grants.iter_mut().find(|grant| grant.id == *id) {
            grant.used_ms = grant.used_ms.checked_sub(back).ok_or(Overflow)?;
        }
        *drawn = drawn.checked_sub(back).ok_or(Overflow)?;
        surplus = surplus.saturating_sub(back);
    }
    Ok(())
}

/// Posts `added` usage to a lease's hour: draws the free time that the hour lacks, or gives back what it no longer
/// needs, and works out its free part anew: compute times `free_ms / run_ms`, rounded down.
///
/// `grants` are sorted for drawing; `draws` are this hour's. Both are brought up to date.
pub fn post(
    hour: Hour,
    before: HourTotals,
    added: Usage,
    grants: &mut [Grant],
    draws: &mut Draws,
) -> Result<HourTotals, Overflow> {
    let usage = before.usage.plus(added)?;
    let lacking = i64::try_from(sub(usage.run_ms, before.free_ms)?).map_err(|_| Overflow)?;
    let free_ms = if lacking >= 0 {
        add(before.free_ms, i128::from(draw(grants, draws, hour.day(), lacking)?))?
    } else {
        give_back(grants, draws, lacking.saturating_neg())?;
        usage.run_ms
    };
    let free = if free_ms > 0 { usage.compute_part(free_ms, usage.run_ms)? } else { Usage::ZERO };
    Ok(HourTotals { usage, free_ms, free })
}

/// Free time does not cover a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncovered {
    /// All that is asked for, in milliseconds.
    pub needed_ms: i64,
    /// How much of it free time would pay for.
    pub available_ms: i64,
}

/// How much of a demand by day free time would pay: drawn in the order of the days, each in the order of drawing.
pub fn paid_by_day(grants: &[Grant], demand_ms: &BTreeMap<Day, i64>) -> Result<BTreeMap<Day, i64>, Overflow> {
    let mut grants = grants.to_vec();
    sort_for_drawing(&mut grants);
    demand_ms.iter().map(|(day, ms)| Ok((*day, draw(&mut grants, &mut Draws::new(), *day, *ms)?))).collect()
}

/// Whether free time covers a demand by day ([`paid_by_day`]).
pub fn covers(grants: &[Grant], demand_ms: &BTreeMap<Day, i64>) -> Result<Result<(), Uncovered>, Overflow> {
    let sum = |days: &BTreeMap<Day, i64>| days.values().try_fold(0_i64, |sum, ms| sum.checked_add(*ms)).ok_or(Overflow);
    let (needed_ms, available_ms) = (sum(demand_ms)?, sum(&paid_by_day(grants, demand_ms)?)?);
    Ok(if available_ms == needed_ms { Ok(()) } else { Err(Uncovered { needed_ms, available_ms }) })
}

#[cfg(test)]
mod tests {
    use super::{Draws, Grant, Uncovered, covers, post, sort_for_drawing};
    use crate::domain::id::{AccountId, GrantId};
    use crate::domain::lease::HourTotals;
    use crate::domain::time::{Day, Timestamp};
    use crate::domain::usage::Usage;

    const HOUR_MS: i64 = 3_600_000;

    fn grant(id: &str, hours: i64, starts: i64, expires: Option<i64>) -> Grant {
        Grant {
            account: AccountId::parse("a").unwrap(),
            id: GrantId::parse(id).unwrap(),
            granted_ms: hours * HOUR_MS,
            used_ms: 0,
            starts_on: Day::from_index(starts).unwrap(),
            expires_on: expires.map(|day| Day::from_index(day).unwrap()),
            note: String::new(),
            created_at: Timestamp::EPOCH,
        }
    }

    fn ran(run_ms: i64) -> Usage {
        let run = i128::from(run_ms);
        Usage { run_ms: run, cpu_used_us: 0, cpu_us: 50 * run, memory_mib_ms: 1_024 * run, storage_mib_ms: 0 }
    }

    fn day(index: i64) -> Day {
        Day::from_index(index).unwrap()
    }

    #[test]
    fn the_grant_that_expires_first_is_drawn_first_and_given_back_last() {
        let mut grants = vec![grant("never", 1, 0, None), grant("late", 1, 0, Some(9)), grant("soon", 1, 0, Some(5))];
        sort_for_drawing(&mut grants);
        let hour = day(4).start().hour();
        let mut draws = Draws::new();
        let run = 2 * HOUR_MS;
        let totals = post(hour, HourTotals::default(), ran(run), &mut grants, &mut draws).unwrap();
        assert_eq!(totals.free, Usage { run_ms: 0, ..ran(run) });
        let drawn: Vec<_> = draws.iter().map(|(id, ms)| (id.as_str(), *ms)).collect();
        assert_eq!(drawn, [("soon", HOUR_MS), ("late", HOUR_MS)]);
        let less = Usage::ZERO.minus(ran(HOUR_MS / 2)).unwrap();
        let totals = post(hour, totals, less, &mut grants, &mut draws).unwrap();
        assert_eq!(totals.free_ms, i128::from(run - HOUR_MS / 2));
        let drawn: Vec<_> = draws.iter().map(|(id, ms)| (id.as_str(), *ms)).collect();
        assert_eq!(drawn, [("soon", HOUR_MS), ("late", HOUR_MS / 2)]);
    }

    #[test]
    fn a_part_is_free_in_proportion_rounded_down() {
        let mut grants = vec![grant("g", 1, 0, None)];
        grants[0].granted_ms = 1;
        let totals =
            post(day(0).start().hour(), HourTotals::default(), ran(3), &mut grants, &mut Draws::new()).unwrap();
        assert_eq!((totals.free_ms, totals.free.cpu_us, totals.free.memory_mib_ms), (1, 50, 1_024));
    }

    #[test]
    fn only_days_within_a_grant_are_paid() {
        let grants = [grant("g", 10, 0, Some(5))];
        let demand = |day_index| [(day(day_index), HOUR_MS)].into();
        assert_eq!(covers(&grants, &demand(4)).unwrap(), Ok(()));
        assert_eq!(covers(&grants, &demand(5)).unwrap(), Err(Uncovered { needed_ms: HOUR_MS, available_ms: 0 }));
    }
}
