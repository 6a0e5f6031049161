//! Numbers of Prometheus: the bits of a 64-bit float as a whole number of some unit, rounded once, exactly, and without
//! floating point.

use crate::domain::sample::COUNTER_MAX;

/// The not-a-number that says: unknown from here.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Why a number can't be one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadNumber {
    /// Not a number.
    Nan,
    /// Plus or minus infinity.
    Infinite,
    /// Below zero.
    Negative,
    /// Larger than can be counted.
    TooLarge,
}

impl BadNumber {
    /// The stable code, and what it means.
    #[must_use]
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Nan => ("nan", "the value is not a number"),
            Self::Infinite => ("infinite", "the value is infinite"),
            Self::Negative => ("negative", "the value is below zero"),
            Self::TooLarge => ("too_large", "the value is larger than can be counted"),
        }
    }
}

/// Units: `value * multiplier / divisor` is the number that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// At most 2^20, so that 53 bits more fit.
    pub multiplier: u32,
    /// At least 1.
    pub divisor: u32,
}

impl Scale {
    /// As it is.
    pub const ONE: Self = Self { multiplier: 1, divisor: 1 };
    /// Thousands.
    pub const THOUSAND: Self = Self { multiplier: 1_000, divisor: 1 };
    /// Millions.
    pub const MILLION: Self = Self { multiplier: 1_000_000, divisor: 1 };
    /// Thousandths.
    pub const THOUSANDTH: Self = Self { multiplier: 1, divisor: 1_000 };
}

const FRACTION_BITS: u32 = 52;
const EXPONENT_BIAS: i32 = 1_075;
const EXPONENT_SPECIAL: u64 = 0x7ff;

/// The number in its unit, rounded to the nearest whole one, halves up; at most `max`.
pub fn whole(bits: u64, scale: Scale, max: i64) -> Result<i64, BadNumber> {
    let (negative, magnitude) = (bits >> 63 == 1, bits & (u64::MAX >> 1));
    let fraction = magnitude & ((1 << FRACTION_BITS) - 1);
    let exponent = magnitude >> FRACTION_BITS;
    if exponent == EXPONENT_SPECIAL {
        return Err(if fraction == 0 { BadNumber::Infinite } else { BadNumber::Nan });
    }
    if magnitude == 0 {
        return Ok(0); // minus zero too
    }
    if negative {
        return Err(BadNumber::Negative);
    }
    // value = mantissa * 2^power
    let mantissa = if exponent == 0 { fraction } else { fraction | (1 << FRACTION_BITS) };
    let power = i32::try_from(exponent.max(1)).ok().and_then(|exponent| exponent.checked_sub(EXPONENT_BIAS));
    let scaled = u128::from(mantissa).checked_mul(u128::from(scale.multiplier)).ok_or(BadNumber::TooLarge)?;
    let rounded = match power {
        Some(power) if power >= 0 => {
            let shift = power.unsigned_abs();
            let fits = scaled.leading_zeros() > shift;
            let shifted = if fits { scaled.checked_shl(shift) } else { None };
            divided(shifted.ok_or(BadNumber::TooLarge)?, u128::from(scale.divisor))
        }
        // Far below one half of anything.
        Some(power) => match 1_u128.checked_shl(power.unsigned_abs()).filter(|_| power > -90) {
            Some(parts) => divided(scaled, parts.checked_mul(u128::from(scale.divisor)).ok_or(BadNumber::TooLarge)?),
            None => Some(0),
        },
        None => None,
    };
    let rounded = rounded.and_then(|rounded| i64::try_from(rounded).ok()).filter(|rounded| *rounded <= max);
    rounded.ok_or(BadNumber::TooLarge)
}

/// A quotient rounded to the nearest, halves up.
fn divided(dividend: u128, divisor: u128) -> Option<u128> {
    dividend.checked_add(divisor >> 1)?.checked_div(divisor)
}

/// A counter, at most what the wire takes.
pub fn counter(bits: u64, scale: Scale) -> Result<i64, BadNumber> {
    whole(bits, scale, COUNTER_MAX)
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::{BadNumber, STALE_BITS, Scale, counter, whole};

    #[test]
    fn seconds_become_microseconds_by_rounding() {
        for (seconds, us) in [
            (0.0, 0),
            (-0.0, 0),
            (1.0, 1_000_000),
            (0.1, 100_000),
            (1.111_111_5, 1_111_112),
            (5e-324, 0),
            (4.9e-7, 0),
            (5.0e-7, 0), // the float is a little below
            (5.1e-7, 1),
            (2e-9, 0),
            (8_000_000_000.5, 8_000_000_000_500_000),
            (1_764_500_000.123, 1_764_500_000_123_000),
        ] {
            assert_eq!(counter(f64::to_bits(seconds), Scale::MILLION), Ok(us), "{seconds}");
        }
    }

    #[test]
    fn what_is_no_number_is_named() {
        let code = |value: f64| counter(value.to_bits(), Scale::MILLION).unwrap_err().told().0;
        assert_eq!(
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5, 1e300, 1e10].map(code),
            ["nan", "infinite", "infinite", "negative", "too_large", "too_large"]
        );
        assert_eq!(counter(STALE_BITS, Scale::ONE), Err(BadNumber::Nan));
        assert_eq!(whole((9.3e18_f64).to_bits(), Scale::ONE, i64::MAX), Err(BadNumber::TooLarge));
        assert_eq!(whole((2_f64.powi(62)).to_bits(), Scale::ONE, i64::MAX), Ok(1 << 62));
    }

    proptest! {
        /// Against exact rationals: the nearest whole number, halves up.
        #[test]
        fn rounding_is_exact(bits: u64, small in 0.0..1e12_f64, pick: bool, scale in 0..4_usize) {
            let bits = if pick { bits & (u64::MAX >> 1) } else { small.to_bits() };
            let scale = [Scale::ONE, Scale::THOUSAND, Scale::MILLION, Scale::THOUSANDTH][scale];
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let exact = BigRational::from_float(value).unwrap()
                * BigRational::new(BigInt::from(scale.multiplier), BigInt::from(scale.divisor));
            let half = BigRational::new(BigInt::from(1), BigInt::from(2));
            let nearest = (exact + half).floor().to_integer();
            match counter(bits, scale) {
                Ok(whole) => prop_assert_eq!(BigInt::from(whole), nearest),
                Err(error) => {
                    prop_assert_eq!(error, BadNumber::TooLarge);
                    prop_assert!(nearest > BigInt::from(9_007_199_254_740_991_i64));
                }
            }
        }
    }
}
