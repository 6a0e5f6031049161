//! Promotional credit: dated grants of money, and how invoices draw on them.
//!
//! Credit pays for everything, after free time. It is drawn by invoices: by day of usage, ascending, in whole
//! microdollars of what that day adds to the invoice, from the credits that are valid on that day, the one that
//! expires first first; in all at most what the invoice comes to without it. Where an invoice takes usage of a day back
//! (a correction), what credit paid for that day is given back first, last drawn first: nobody gets promotional credit
//! as money. Draws are recorded facts of the final invoice; a draft's are what it would draw now (DESIGN.md section 4).
//!
//! Taking the days in order and the soonest expiry first pays as much as any order could. So what [`CreditBook::covers`]
//! promises at admission, an invoice keeps.

use std::collections::BTreeMap;

use super::checked::Overflow;
use super::id::{AccountId, GrantId};
use super::money::{Cost, Micros};
use super::time::{Day, Timestamp};

/// Largest credit of one grant: a million dollars.
pub const CREDIT_MICROS_MAX: i64 = 1_000_000_000_000;

/// A grant of promotional credit, valid for usage of the days `[starts_on, expires_on)`. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The account.
    pub account: AccountId,
    /// Its id; grants of free time and of credit share one space of ids.
    pub id: GrantId,
    /// How much.
    pub granted: Micros,
    /// The first day whose usage it pays for.
    pub starts_on: Day,
    /// The first day whose usage it pays for no more; `None`: never.
    pub expires_on: Option<Day>,
    /// Free text of at most 2,000 characters.
    pub note: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Credit {
    /// Whether it pays for usage of a day.
    #[must_use]
    pub fn pays_on(&self, day: Day) -> bool {
        self.starts_on <= day && self.expires_on.is_none_or(|end| day < end)
    }

    /// The order of drawing: the one that expires first first; then the one that started first; then by id.
    fn order(&self) -> (bool, Option<Day>, Day, &GrantId) {
        (self.expires_on.is_none(), self.expires_on, self.starts_on, &self.id)
    }
}

/// What an invoice drew on one credit for the usage of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditDraw {
    /// The day of the usage.
    pub day: Day,
    /// The credit.
    pub credit: GrantId,
    /// How much; below zero: given back.
    pub amount: Micros,
}

/// An account's credits and what was drawn on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreditBook {
    /// In the order of drawing, each with what is drawn of it.
    credits: Vec<(Credit, Micros)>,
    /// By day of usage, in the order of drawing.
    drawn: BTreeMap<Day, Vec<(GrantId, Micros)>>,
}

impl CreditBook {
    /// A book of credits on which nothing was drawn, in any order.
    #[must_use]
    pub fn new(mut credits: Vec<Credit>) -> Self {
        credits.sort_by(|left, right| left.order().cmp(&right.order()));
        Self { credits: credits.into_iter().map(|credit| (credit, Micros::ZERO)).collect(), drawn: BTreeMap::new() }
    }

    /// Whether there are no credits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.credits.is_empty()
    }

    /// Whether something is left that can still pay for usage of `day` or later.
    #[must_use]
    pub fn is_open(&self, day: Day) -> bool {
        self.credits
            .iter()
            .any(|(credit, used)| *used < credit.granted && credit.expires_on.is_none_or(|end| day < end))
    }

    /// The credits, in the order of drawing, each with what is drawn of it.
    pub fn credits(&self) -> impl Iterator<Item = (&Credit, Micros)> {
        self.credits.iter().map(|(credit, used)| (credit, *used))
    }

    /// What was drawn for usage of a day, in the order of drawing.
    #[must_use]
    pub fn drawn_on(&self, day: Day) -> &[(GrantId, Micros)] {
        self.drawn.get(&day).map(Vec::as_slice).unwrap_or_default()
    }

    /// Notes draws of an invoice; those on credits that it does not have are passed over.
    pub fn note(&mut self, draws: &[CreditDraw]) -> Result<(), Overflow> {
        for draw in draws {
            self.add(draw.day, &draw.credit, draw.amount)?;
        }
        Ok(())
    }

    /// The book without the credits that `keeps` says no to.
    #[must_use]
    pub fn filtered(&self, keeps: impl Fn(&Credit) -> bool) -> Self {
        let credits = self.credits.iter().filter(|(credit, _)| keeps(credit)).cloned().collect();
        Self { credits, drawn: self.drawn.clone() }
    }

    fn add(&mut self, day: Day, id: &GrantId, amount: Micros) -> Result<(), Overflow> {
        let Some((_, used)) = self.credits.iter_mut().find(|(credit, _)| credit.id == *id) else { return Ok(()) };
        *used = used.plus(amount)?;
        let drawn = self.drawn.entry(day).or_default();
        match drawn.iter_mut().find(|(known, _)| known == id) {
            Some((_, sum)) => *sum = sum.plus(amount)?,
            None => drawn.push((id.clone(), amount)),
        }
        Ok(())
    }

    /// Draws for an invoice that comes to `base` without credit, of which each day adds its amount (ascending, a day
    /// once). Answers what is given back and drawn, by day and credit; the book has it in it.
    pub fn draw(&mut self, days: &[(Day, Micros)], base: Micros) -> Result<Vec<CreditDraw>, Overflow> {
        let mut draws = Vec::new();
        let mut unpaid = base;
        for (day, amount) in days.iter().filter(|(_, amount)| *amount < Micros::ZERO) {
            let back = self.give_back(*day, Micros::ZERO.minus(*amount)?, &mut draws)?;
            unpaid = unpaid.plus(back)?;
        }
        for (day, amount) in days.iter().filter(|(_, amount)| *amount > Micros::ZERO) {
            let wanted = (*amount).min(unpaid);
            unpaid = unpaid.minus(self.take(*day, wanted, &mut draws)?)?;
        }
        Ok(draws)
    }

    /// Gives back up to `surplus` of what was drawn for a day, last drawn first. Answers how much.
    fn give_back(&mut self, day: Day, surplus: Micros, draws: &mut Vec<CreditDraw>) -> Result<Micros, Overflow> {
        let mut left = surplus;
        for (credit, drawn) in self.drawn.get(&day).cloned().unwrap_or_default().into_iter().rev() {
            let back = drawn.min(left);
            if back > Micros::ZERO {
                let amount = Micros::ZERO.minus(back)?;
                self.add(day, &credit, amount)?;
                draws.push(CreditDraw { day, credit, amount });
                left = left.minus(back)?;
            }
        }
        surplus.minus(left)
    }

    /// Takes up to `wanted` for a day. Answers how much.
    fn take(&mut self, day: Day, wanted: Micros, draws: &mut Vec<CreditDraw>) -> Result<Micros, Overflow> {
        let mut lacking = wanted;
        let valid: Vec<(GrantId, Micros)> = self
            .credits
            .iter()
            .filter(|(credit, _)| credit.pays_on(day))
            .map(|(credit, used)| Ok((credit.id.clone(), credit.granted.minus(*used)?)))
            .collect::<Result<_, Overflow>>()?;
        for (credit, left) in valid {
            let amount = left.min(lacking);
            if amount > Micros::ZERO {
                self.add(day, &credit, amount)?;
                draws.push(CreditDraw { day, credit, amount });
                lacking = lacking.minus(amount)?;
            }
        }
        wanted.minus(lacking)
    }

    /// Whether credit pays for `needed` by day after what it has to pay for already: `pending`, usage that no final
    /// invoice has billed (what credit can't pay of that is owed anyway). Both are rounded up by day.
    pub fn covers(
        &self,
        pending: &BTreeMap<Day, Cost>,
        needed: &BTreeMap<Day, Cost>,
    ) -> Result<Result<(), Uncredited>, Overflow> {
        let mut book = self.clone();
        let mut ignored = Vec::new();
        for (day, cost) in pending {
            book.take(*day, cost.ceil()?, &mut ignored)?;
        }
        let (mut wanted, mut available) = (Micros::ZERO, Micros::ZERO);
        for (day, cost) in needed {
            let cost = cost.ceil()?;
            wanted = wanted.plus(cost)?;
            available = available.plus(book.take(*day, cost, &mut ignored)?)?;
        }
        Ok(if available == wanted { Ok(()) } else { Err(Uncredited { needed: wanted, available }) })
    }

    /// What stands on `today`, on top of what is noted as drawn.
    pub fn balance(&self, today: Day) -> Result<CreditBalance, Overflow> {
        let mut sum = CreditBalance::default();
        for (credit, used) in &self.credits {
            let left = credit.granted.minus(*used)?;
            sum.granted = sum.granted.plus(credit.granted)?;
            sum.used = sum.used.plus(*used)?;
            if credit.expires_on.is_some_and(|end| end <= today) {
                sum.expired = sum.expired.plus(left)?;
            } else {
                sum.remaining = sum.remaining.plus(left)?;
            }
        }
        Ok(sum)
    }
}

/// Credit does not pay for what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncredited {
    /// All that is needed, rounded up by day.
    pub needed: Micros,
    /// How much of it credit would pay for.
    pub available: Micros,
}

/// Where an account's credit stands: `remaining = granted - used - expired`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditBalance {
    /// Ever granted.
    pub granted: Micros,
    /// Drawn by final invoices, and what drafts would draw now.
    pub used: Micros,
    /// Lapsed undrawn.
    pub expired: Micros,
    /// Left.
    pub remaining: Micros,
}

#[cfg(test)]
#[path = "credit_tests.rs"]
mod tests;
