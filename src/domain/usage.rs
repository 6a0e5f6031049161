//! [`Usage`]: the additive vector that everything is counted in.
//!
//! Quantities are the ledger; money is a view of them (DESIGN.md section 1). Components may be negative in a
//! correction. They are 128 bits wide in memory so that an operator's sum over all accounts can't overflow; a stored
//! row holds 64 bits and refuses more.

use std::collections::BTreeMap;

use super::checked::{Overflow, add, mul_div_floor, sub};
use super::time::{Day, Hour};

/// Running time, CPU, memory and storage of something over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Running time, in milliseconds.
    pub run_ms: i128,
    /// CPU as measured, in vCPU-microseconds.
    pub cpu_used_us: i128,
    /// CPU as billed (after the floor), in vCPU-microseconds.
    pub cpu_us: i128,
    /// Memory, in MiB-milliseconds.
    pub memory_mib_ms: i128,
    /// Storage, in MiB-milliseconds.
    pub storage_mib_ms: i128,
}

impl Usage {
    /// Nothing used.
    pub const ZERO: Self = Self { run_ms: 0, cpu_used_us: 0, cpu_us: 0, memory_mib_ms: 0, storage_mib_ms: 0 };

    fn zip(self, other: Self, op: impl Fn(i128, i128) -> Result<i128, Overflow>) -> Result<Self, Overflow> {
        Ok(Self {
            run_ms: op(self.run_ms, other.run_ms)?,
            cpu_used_us: op(self.cpu_used_us, other.cpu_used_us)?,
            cpu_us: op(self.cpu_us, other.cpu_us)?,
            memory_mib_ms: op(self.memory_mib_ms, other.memory_mib_ms)?,
            storage_mib_ms: op(self.storage_mib_ms, other.storage_mib_ms)?,
        })
    }

    /// The sum, component by component.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        self.zip(other, add)
    }

    /// The difference, component by component; may be negative.
    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        self.zip(other, sub)
    }

    /// The difference, but no component below zero.
    pub fn minus_at_least_zero(self, other: Self) -> Result<Self, Overflow> {
        self.zip(other, |left, right| sub(left, right).map(|difference| difference.max(0)))
    }

    /// The part `numerator / denominator` of the billed compute (CPU and memory), each rounded down; the other
    /// components are zero. `denominator` must be above zero.
    pub fn compute_part(self, numerator: i128, denominator: i128) -> Result<Self, Overflow> {
        Ok(Self {
            cpu_us: mul_div_floor(self.cpu_us, numerator, denominator)?,
            memory_mib_ms: mul_div_floor(self.memory_mib_ms, numerator, denominator)?,
            ..Self::ZERO
        })
    }

    /// Whether every component is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

/// Usage by UTC hour: what a command posts. Hours whose usage is zero are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageByHour(BTreeMap<Hour, Usage>);

impl UsageByHour {
    /// Adds a usage to an hour.
    pub fn add(&mut self, hour: Hour, usage: Usage) -> Result<(), Overflow> {
        let sum = self.0.get(&hour).copied().unwrap_or(Usage::ZERO).plus(usage)?;
        if sum.is_zero() {
            self.0.remove(&hour);
        } else {
            self.0.insert(hour, sum);
        }
        Ok(())
    }

    /// The sum, hour by hour.
    pub fn plus(mut self, other: &Self) -> Result<Self, Overflow> {
        for (hour, usage) in other.iter() {
            self.add(hour, usage)?;
        }
        Ok(self)
    }

    /// The difference, hour by hour; may be negative.
    pub fn minus(mut self, other: &Self) -> Result<Self, Overflow> {
        for (hour, usage) in other.iter() {
            self.add(hour, Usage::ZERO.minus(usage)?)?;
        }
        Ok(self)
    }

    /// The hours that have usage, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Hour, Usage)> + '_ {
        self.0.iter().map(|(hour, usage)| (*hour, *usage))
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum by UTC day.
    pub fn by_day(&self) -> Result<BTreeMap<Day, Usage>, Overflow> {
        let mut days: BTreeMap<Day, Usage> = BTreeMap::new();
        for (hour, usage) in self.iter() {
            let sum = days.entry(hour.day()).or_default();
            *sum = sum.plus(usage)?;
        }
        Ok(days)
    }

    /// The sum of all hours.
    pub fn total(&self) -> Result<Usage, Overflow> {
        self.iter().try_fold(Usage::ZERO, |sum, (_, usage)| sum.plus(usage))
    }
}
