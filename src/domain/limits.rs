//! Day counters of keys and accounts, and what a limit leaves.

use super::checked::Overflow;
use super::money::{Cost, Micros};
use super::rate_card::PriceBook;
use super::time::Day;
use super::usage::Usage;

/// What a key (or an account) used and what its leases hold on one UTC day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayTotals {
    /// Used, net of free time; includes storage as it accrues.
    pub used: Usage,
    /// Held by leases that are not settled: worst cases, at list.
    pub reserved: Usage,
}

impl DayTotals {
    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        Ok(Self { used: self.used.plus(other.used)?, reserved: self.reserved.plus(other.reserved)? })
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.used.is_zero() && self.reserved.is_zero()
    }

    /// The exact cost of both together at the prices of a day.
    pub fn committed(self, day: Day, prices: &PriceBook) -> Result<Cost, Overflow> {
        prices.price(day, self.used.plus(self.reserved)?)
    }

    /// Whether this stays within a limit: compared exactly; what fits exactly passes.
    pub fn fits(self, day: Day, prices: &PriceBook, limit: Micros) -> Result<bool, Overflow> {
        Ok(self.committed(day, prices)? <= Cost::from_micros(limit))
    }

    /// What a limit leaves: rounded down, never below zero.
    pub fn available(self, day: Day, prices: &PriceBook, limit: Micros) -> Result<Micros, Overflow> {
        let left = Cost::from_micros(limit).minus(self.committed(day, prices)?)?;
        Ok(left.floor()?.max(Micros::ZERO))
    }
}
