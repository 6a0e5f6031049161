//! Tax: a rate in basis points, applied once to what an invoice or a note comes to.

use super::checked::{Overflow, add, mul};
use super::money::Micros;

/// Basis points in the whole.
const BASIS_POINTS: i128 = 10_000;

/// A tax rate in basis points (1/100 of a percent): 0 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaxRate(i64);

/// The highest rate, in basis points: 100 %.
pub const TAX_RATE_BPS_MAX: i64 = 10_000;

impl TaxRate {
    /// `None` outside 0 to [`TAX_RATE_BPS_MAX`].
    #[must_use]
    pub fn from_bps(bps: i64) -> Option<Self> {
        (0..=TAX_RATE_BPS_MAX).contains(&bps).then_some(Self(bps))
    }

    /// The basis points.
    #[must_use]
    pub fn bps(self) -> i64 {
        self.0
    }

    /// The tax on a sum, in whole microdollars, rounded half up once; nothing on what is not above zero.
    pub fn of(self, base: Micros) -> Result<Micros, Overflow> {
        if base <= Micros::ZERO {
            return Ok(Micros::ZERO);
        }
        let exact = mul(i128::from(base.count()), i128::from(self.0))?;
        let rounded = add(exact, BASIS_POINTS / 2)?.div_euclid(BASIS_POINTS);
        i64::try_from(rounded).ok().and_then(Micros::new).ok_or(Overflow)
    }
}

/// What a tax line says: the rate, and what it was applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taxed {
    /// The rate.
    pub rate: TaxRate,
    /// The sum before tax; zero where that is not above zero.
    pub base: Micros,
}

#[cfg(test)]
mod tests {
    use super::{TAX_RATE_BPS_MAX, TaxRate};
    use crate::domain::money::{MICROS_MAX, Micros};

    fn tax(base: i64, bps: i64) -> i64 {
        TaxRate::from_bps(bps).unwrap().of(Micros::new(base).unwrap()).unwrap().count()
    }

    #[test]
    fn tax_is_rounded_half_up_once() {
        assert_eq!([tax(10_000, 1_900), tax(1, 5_000), tax(1, 4_999), tax(3, 5_000)], [1_900, 1, 0, 2]);
        assert_eq!([tax(0, 1_900), tax(-10_000, 1_900), tax(77, 0), tax(77, 10_000)], [0, 0, 0, 77]);
        assert_eq!(tax(MICROS_MAX, TAX_RATE_BPS_MAX), MICROS_MAX);
        assert_eq!((TaxRate::from_bps(-1), TaxRate::from_bps(10_001)), (None, None));
    }
}
