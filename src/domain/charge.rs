//! Charges: an hour's usage as priced parts, in decimals that multiply exactly.
//!
//! An hour of a sandbox is up to five charges: CPU, memory and storage that are paid for, and the CPU and memory that free
//! time pays. A quantity is a decimal of 12 digits (as invoices show it), a price one of 6, and so their product is one
//! of 18 digits, without a remainder: [`Atto`]. What rounding to 12 digits adds or takes is far below a microdollar an
//! hour; whoever adds charges up closes the account with a charge of the rest.

use super::checked::{Overflow, add, mul, mul_div_floor, sub};
use super::id::{KeyId, LeaseId, SandboxId};
use super::invoice::Item;
use super::lease::HourTotals;
use super::money::{Micros, PriceMicros};
use super::rate_card::RateCard;
use super::time::Hour;

/// Trillionths (10^-12) of a unit of quantity: vCPU-hours, GiB-hours.
pub type Trillionths = i128;
/// 10^-18 of a dollar.
pub type Atto = i128;

/// [`Trillionths`] in one unit.
const SCALE: i128 = 1_000_000_000_000;
/// [`Atto`] in a microdollar.
const ATTO_PER_MICRO: i128 = 1_000_000_000_000;
/// [`Atto`] in a cent.
const ATTO_PER_CENT: i128 = 10_000_000_000_000_000;

/// Usage that a month bills: of one hour, sandbox, key, and lease or (for storage) none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BilledHour {
    /// When it was used.
    pub hour: Hour,
    /// By what.
    pub sandbox: SandboxId,
    /// Who pays.
    pub key: KeyId,
    /// The lease; storage has none.
    pub lease: Option<LeaseId>,
    /// How much; below zero in a correction.
    pub totals: HourTotals,
}

/// A part of an hour at one price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// CPU, memory or storage.
    pub item: Item,
    /// Whether free time pays for it.
    pub free: bool,
    /// How much is billed.
    pub priced: Trillionths,
    /// How much was measured: for CPU before the floor, else the same.
    pub consumed: Trillionths,
    /// Per vCPU-hour or GiB-hour.
    pub price: PriceMicros,
}

impl Charge {
    /// What it costs at list price: exactly price times quantity.
    pub fn list(&self) -> Result<Atto, Overflow> {
        mul(self.priced, i128::from(self.price.micros_per_hour()))
    }

    /// What is to be paid: nothing where free time pays.
    pub fn billed(&self) -> Result<Atto, Overflow> {
        if self.free { Ok(0) } else { self.list() }
    }
}

/// The charges of an hour, those without any quantity left out.
pub fn charges(totals: &HourTotals, card: &RateCard) -> Result<Vec<Charge>, Overflow> {
    let (all, free) = (totals.usage, totals.free);
    let paid = all.minus(free)?;
    // What was measured is split like what is billed, so that the two parts sum to it.
    let measured_free = match all.cpu_us {
        0 => 0,
        // A correction takes back: both are below zero.
        ..0 => mul_div_floor(sub(0, all.cpu_used_us)?, free.cpu_us, sub(0, all.cpu_us)?)?,
        cpu => mul_div_floor(all.cpu_used_us, free.cpu_us, cpu)?,
    };
    let measured_paid = sub(all.cpu_used_us, measured_free)?;
    let parts = [
        (Item::Cpu, false, paid.cpu_us, measured_paid, card.cpu),
        (Item::Cpu, true, free.cpu_us, measured_free, card.cpu),
        (Item::Memory, false, paid.memory_mib_ms, paid.memory_mib_ms, card.memory),
        (Item::Memory, true, free.memory_mib_ms, free.memory_mib_ms, card.memory),
        (Item::Storage, false, paid.storage_mib_ms, paid.storage_mib_ms, card.storage),
    ];
    let mut charges = Vec::new();
    for (item, free, priced, consumed, price) in parts {
        if priced == 0 && consumed == 0 {
            continue;
        }
        let (_, size) = item.unit().ok_or(Overflow)?;
        let (priced, consumed) = (trillionths(priced, size)?, trillionths(consumed, size)?);
        charges.push(Charge { item, free, priced, consumed, price });
    }
    Ok(charges)
}

/// `units` of `per_unit` exact units each, rounded half away from zero.
pub fn trillionths(units: i128, per_unit: i128) -> Result<Trillionths, Overflow> {
    let size = units.checked_abs().ok_or(Overflow)?;
    let whole = mul(size.checked_div(per_unit).ok_or(Overflow)?, SCALE)?;
    let rest = mul(size.checked_rem(per_unit).ok_or(Overflow)?, SCALE)?;
    let digits = add(rest, per_unit / 2)?.checked_div(per_unit).ok_or(Overflow)?;
    let sum = add(whole, digits)?;
    if units < 0 { sub(0, sum) } else { Ok(sum) }
}

/// An amount in microdollars.
#[must_use]
pub fn atto(amount: Micros) -> Atto {
    // 2^53 * 10^12 is below 2^93: this can't saturate.
    i128::from(amount.count()).saturating_mul(ATTO_PER_MICRO)
}

/// An amount in cents.
#[must_use]
pub fn atto_of_cents(cents: i64) -> Atto {
    // 2^63 * 10^16 is below 2^117: this can't saturate.
    i128::from(cents).saturating_mul(ATTO_PER_CENT)
}

#[cfg(test)]
mod tests {
    use super::{Charge, atto, atto_of_cents, charges, trillionths};
    use crate::domain::id::RateCardId;
    use crate::domain::invoice::{Item, decimal};
    use crate::domain::lease::HourTotals;
    use crate::domain::money::{Micros, PriceMicros};
    use crate::domain::rate_card::RateCard;
    use crate::domain::units::Millicores;
    use crate::domain::usage::Usage;

    fn card() -> RateCard {
        let price = |micros| PriceMicros::new(micros).unwrap();
        let id = RateCardId::parse("list").unwrap();
        RateCard {
            id,
            cpu: price(25_000),
            memory: price(7_500),
            storage: price(108),
            floor: Millicores::new(50).unwrap(),
        }
    }

    #[test]
    fn quantities_are_those_of_invoices() {
        for units in [0, 1, -1, 5, 1_799_999_999, 3_600_000_000, -123_456_789_012_345] {
            let size = 3_600_000_000;
            let shown: i128 = decimal(units, size).unwrap().replace('.', "").parse().unwrap();
            assert_eq!(trillionths(units, size).unwrap(), shown, "{units}");
        }
    }

    #[test]
    fn a_correction_has_charges_below_zero() {
        let usage = Usage {
            run_ms: -3_600_000,
            cpu_used_us: -3_000_000_001,
            cpu_us: -3_600_000_000,
            memory_mib_ms: -1_024 * 3_600_000,
            storage_mib_ms: 0,
        };
        let free = Usage { cpu_us: -1_200_000_000, memory_mib_ms: 0, ..Usage::ZERO };
        for (free_ms, free) in [(0, Usage::ZERO), (-1_200_000, free)] {
            let charges = charges(&HourTotals { usage, free_ms, free }, &card()).unwrap();
            let list: i128 = charges.iter().map(|charge| charge.list().unwrap()).sum();
            assert_eq!(list, -atto(Micros::new(25_000 + 7_500).unwrap()));
            let cpus =
                charges.iter().filter(|charge| charge.item == Item::Cpu).map(|charge| charge.consumed).sum::<i128>();
            assert!((cpus - trillionths(usage.cpu_used_us, 3_600_000_000).unwrap()).abs() <= 1);
        }
    }

    #[test]
    fn an_hour_is_charges_that_add_up() {
        let usage = Usage {
            run_ms: 3_600_000,
            cpu_used_us: 100_000_001,
            cpu_us: 180_000_000,
            memory_mib_ms: 1_024 * 3_600_000,
            storage_mib_ms: 0,
        };
        let free = usage.compute_part(1, 3).unwrap();
        let charges = charges(&HourTotals { usage, free_ms: 1_200_000, free }, &card()).unwrap();
        let sum = |of: &dyn Fn(&Charge) -> i128| charges.iter().map(of).sum::<i128>();
        assert_eq!(charges.iter().filter(|charge| charge.free).count(), 2);
        assert_eq!(sum(&|charge| charge.list().unwrap()), atto(Micros::new(1_250 + 7_500).unwrap()));
        let (cpu, size) = (Item::Cpu, 3_600_000_000);
        let cpus = charges.iter().filter(|charge| charge.item == cpu).map(|charge| charge.consumed).sum::<i128>();
        assert!((cpus - trillionths(usage.cpu_used_us, size).unwrap()).abs() <= 1);
        assert!(charges.iter().all(|charge| charge.free == (charge.billed().unwrap() == 0)));
        assert_eq!(atto_of_cents(31), atto(Micros::new(310_000).unwrap()));
    }
}
