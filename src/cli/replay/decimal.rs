//! Exact decimals as traces write them (`104.14166666666667`, `2.0789248E7`), and the CPU counter that they make.

/// Most digits behind the point; the longest of real traces has 17.
const SCALE_MAX: u32 = 24;
/// Bound of the digits, so that a rate times an hour still fits 128 bits.
const MANTISSA_MAX: i128 = 10_i128.pow(31);

/// A decimal of zero or above: `mantissa / 10^scale`, without trailing zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    mantissa: i128,
    scale: u32,
}

impl Decimal {
    /// A whole number; `None` below zero or beyond the bound.
    #[must_use]
    pub fn whole(number: i64) -> Option<Self> {
        Self::new(i128::from(number), 0)
    }

    /// Reads digits, an optional fraction and an optional exponent. `None` for anything else, a minus sign included,
    /// and for a number that can't be held exactly: it is refused rather than rounded.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let clean = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !clean(whole) || !clean(fraction) || number.ends_with('.') {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self::default());
        }
        let trailing = digits.len().checked_sub(digits.trim_end_matches('0').len())?;
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(i64::try_from(trailing).ok()?)?;
        let scale = scale.checked_sub(i64::from(exponent))?;
        let mantissa: i128 = significant.parse().ok()?;
        match u32::try_from(scale) {
            Ok(scale) => Self::new(mantissa, scale),
            Err(_) => Self::new(mantissa.checked_mul(power(u32::try_from(scale.checked_neg()?).ok()?)?)?, 0),
        }
    }

    fn new(mut mantissa: i128, mut scale: u32) -> Option<Self> {
        while scale > 0 && mantissa.checked_rem(10)? == 0 {
            mantissa = mantissa.checked_div(10)?;
            scale = scale.checked_sub(1)?;
        }
        ((0..MANTISSA_MAX).contains(&mantissa) && scale <= SCALE_MAX).then_some(Self { mantissa, scale })
    }

    /// The exact product; `None` where it can't be held.
    #[must_use]
    pub fn times(self, other: Self) -> Option<Self> {
        Self::new(self.mantissa.checked_mul(other.mantissa)?, self.scale.checked_add(other.scale)?)
    }

    /// This divided by a whole number above zero, rounded up to a whole one.
    #[must_use]
    pub fn div_up(self, divisor: i64) -> Option<i64> {
        let divisor = i128::from(divisor).checked_mul(power(self.scale)?)?;
        let down = self.mantissa.checked_div(divisor)?;
        let up = if self.mantissa.checked_rem(divisor)? == 0 { down } else { down.checked_add(1)? };
        i64::try_from(up).ok()
    }

    /// The number, if it is a whole one.
    #[must_use]
    pub fn exact(self) -> Option<i64> {
        (self.scale == 0).then(|| i64::try_from(self.mantissa).ok()).flatten()
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.mantissa == 0
    }
}

fn power(scale: u32) -> Option<i128> {
    10_i128.checked_pow(scale)
}

/// A cumulative CPU counter: the exact sum of rate times time, shown rounded down.
///
/// `cpu_usage_usec(t) = floor(sum of millicores_j * dt_j)` over the intervals up to `t`, `dt_j` in milliseconds:
/// 1 millicore for 1 ms is 1 vCPU-microsecond. The fraction is carried on exactly, never dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    whole_us: i128,
    /// In `10^-SCALE_MAX` microseconds, below one.
    fraction: i128,
}

impl Counter {
    /// Adds a rate in millicores over a time in milliseconds; `None` beyond 128 bits.
    #[must_use]
    pub fn plus(self, millicores: Decimal, dt_ms: i64) -> Option<Self> {
        let product = millicores.mantissa.checked_mul(i128::from(dt_ms))?;
        let unit = power(millicores.scale)?;
        let finer = power(SCALE_MAX.checked_sub(millicores.scale)?)?;
        let fraction = self.fraction.checked_add(product.checked_rem_euclid(unit)?.checked_mul(finer)?)?;
        let carry = fraction.checked_div_euclid(power(SCALE_MAX)?)?;
        let whole_us = self.whole_us.checked_add(product.checked_div_euclid(unit)?)?.checked_add(carry)?;
        Some(Self { whole_us, fraction: fraction.checked_rem_euclid(power(SCALE_MAX)?)? })
    }

    /// The counter in whole microseconds.
    #[must_use]
    pub fn floor_us(self) -> i128 {
        self.whole_us
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, Decimal};

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn real_spellings_are_read_exactly() {
        assert_eq!(decimal("2.0789248E7").exact(), Some(20_789_248));
        assert_eq!(decimal("2097152.0").exact(), Some(2_097_152));
        assert_eq!(decimal("1.5e-1"), decimal("0.15"));
        assert_eq!(decimal("10"), decimal("1E1"));
        assert_eq!(decimal("0.0E0"), Decimal::default());
        assert_eq!(decimal("104.14166666666667").exact(), None);
    }

    #[test]
    fn what_is_no_plain_number_is_refused() {
        for bad in ["", " 1", "-1", "+1", "1.", ".5", "1,5", "NaN", "inf", "1e", "1e1.5", "1e400", "0x1", "1_0"] {
            assert_eq!(Decimal::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Decimal::parse(&"9".repeat(40)), None);
        assert_eq!(Decimal::parse(&format!("0.{}1", "0".repeat(24))), None);
    }

    #[test]
    fn division_rounds_up_only_where_something_is_left() {
        assert_eq!(decimal("2097152.0").div_up(1_024), Some(2_048));
        assert_eq!(decimal("2097152.0001").div_up(1_024), Some(2_049));
        assert_eq!(decimal("0").div_up(1_024), Some(0));
        assert_eq!(decimal("0.5").div_up(1), Some(1));
    }

    #[test]
    fn a_counter_drops_no_fraction() {
        let third = decimal("0.3333");
        let counter = (0..10_000).fold(Counter::default(), |counter, _| counter.plus(third, 1).unwrap());
        assert_eq!(counter.floor_us(), 3_333);
        let most = decimal("104.14166666666667").times(decimal("10240")).unwrap();
        assert_eq!(Counter::default().plus(most, 3_600_000).unwrap().floor_us(), 3_839_078_400_000);
    }
}
