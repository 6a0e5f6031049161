//! Exact money: [`Cost`] loses no fraction; [`Micros`] is what people see; [`apportion`] makes tables add up.
//!
//! A `Cost` counts 1/460,800,000,000 of a microdollar: 3.6e9 (us per vCPU-hour) and 1024 * 3.6e6 (MiB-ms per GiB-hour)
//! have the least common multiple 4.608e11 (DESIGN.md section 1). Rounding happens once, at the edge, and down; only
//! a worst case is rounded up.

use super::checked::{Overflow, add, mul, sub};

/// Exact units in one microdollar.
pub const UNITS_PER_MICRO: i128 = 460_800_000_000;
/// The largest amount on the wire: 2^53 - 1 microdollars.
pub const MICROS_MAX: i64 = 9_007_199_254_740_991;

/// An exact amount of money, in 1/460,800,000,000 microdollar; negative in a correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(i128);

impl Cost {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// From exact units.
    #[must_use]
    pub fn from_units(units: i128) -> Self {
        Self(units)
    }

    /// The exact units.
    #[must_use]
    pub fn units(self) -> i128 {
        self.0
    }

    /// The exact cost of whole microdollars.
    #[must_use]
    pub fn from_micros(micros: Micros) -> Self {
        // 2^53 * 4.608e11 is below 2^92: this can't saturate.
        Self(i128::from(micros.0).saturating_mul(UNITS_PER_MICRO))
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        add(self.0, other.0).map(Self)
    }

    /// The difference; may be negative.
    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        sub(self.0, other.0).map(Self)
    }

    /// So many times as much.
    pub fn times(self, count: i64) -> Result<Self, Overflow> {
        mul(self.0, i128::from(count)).map(Self)
    }

    /// Rounded down (towards minus infinity) to whole microdollars: how totals are shown.
    pub fn floor(self) -> Result<Micros, Overflow> {
        Micros::wide(self.0.div_euclid(UNITS_PER_MICRO))
    }

    /// Rounded up to whole microdollars: how a worst case and a reservation are shown.
    pub fn ceil(self) -> Result<Micros, Overflow> {
        let down = self.0.div_euclid(UNITS_PER_MICRO);
        let up = if self.0.rem_euclid(UNITS_PER_MICRO) == 0 { down } else { add(down, 1)? };
        Micros::wide(up)
    }
}

/// Whole microdollars ($1 = 1,000,000), from -(2^53 - 1) to 2^53 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(i64);

impl Micros {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// `None` beyond 2^53 - 1 either way.
    #[must_use]
    pub fn new(micros: i64) -> Option<Self> {
        (-MICROS_MAX..=MICROS_MAX).contains(&micros).then_some(Self(micros))
    }

    fn wide(micros: i128) -> Result<Self, Overflow> {
        i64::try_from(micros).ok().and_then(Self::new).ok_or(Overflow)
    }

    /// The number of microdollars.
    #[must_use]
    pub fn count(self) -> i64 {
        self.0
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        Self::wide(i128::from(self.0).saturating_add(i128::from(other.0)))
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        Self::wide(i128::from(self.0).saturating_sub(i128::from(other.0)))
    }
}

/// A price: whole microdollars per vCPU-hour or GiB-hour, 0 to 1e9 ($1,000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriceMicros(i64);

/// The highest price, in microdollars per hour.
pub const PRICE_MICROS_MAX: i64 = 1_000_000_000;

impl PriceMicros {
    /// `None` outside 0 to [`PRICE_MICROS_MAX`].
    #[must_use]
    pub fn new(micros_per_hour: i64) -> Option<Self> {
        (0..=PRICE_MICROS_MAX).contains(&micros_per_hour).then_some(Self(micros_per_hour))
    }

    /// Microdollars per hour.
    #[must_use]
    pub fn micros_per_hour(self) -> i64 {
        self.0
    }

    /// The exact cost of `cpu_us` vCPU-microseconds at this price per vCPU-hour.
    pub fn of_cpu(self, cpu_us: i128) -> Result<Cost, Overflow> {
        mul(mul(128, i128::from(self.0))?, cpu_us).map(Cost)
    }

    /// The exact cost of `mib_ms` MiB-milliseconds at this price per GiB-hour.
    pub fn of_bytes(self, mib_ms: i128) -> Result<Cost, Overflow> {
        mul(mul(125, i128::from(self.0))?, mib_ms).map(Cost)
    }
}

/// Splits `total` over rows of exact costs by largest remainder, ties by row order: the parts sum to `total`, and each
/// is the row's exact cost rounded down or up.
///
/// `total` is the sum of the rows rounded down, or at most one more (a difference of two such sums). [`Overflow`] when
/// it is further off than there are rows, which no caller's arithmetic can produce.
pub fn apportion(total: Micros, rows: &[Cost]) -> Result<Vec<Micros>, Overflow> {
    let mut parts = Vec::with_capacity(rows.len());
    let mut by_remainder = Vec::with_capacity(rows.len());
    let mut left = i128::from(total.0);
    for (index, row) in rows.iter().enumerate() {
        let down = row.floor()?;
        left = sub(left, i128::from(down.0))?;
        by_remainder.push((std::cmp::Reverse(row.0.rem_euclid(UNITS_PER_MICRO)), index));
        parts.push(down);
    }
    by_remainder.sort_unstable();
    let left = usize::try_from(left).map_err(|_| Overflow)?;
    if left > rows.len() {
        return Err(Overflow);
    }
    for (_, index) in by_remainder.into_iter().take(left) {
        if let Some(part) = parts.get_mut(index) {
            *part = part.plus(Micros(1))?;
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::{Cost, Micros, PriceMicros, UNITS_PER_MICRO, apportion};

    fn micros(count: i64) -> Micros {
        Micros::new(count).unwrap()
    }

    #[test]
    fn an_hour_of_a_cpu_and_of_a_gib_cost_their_price() {
        let price = PriceMicros::new(25_000).unwrap();
        assert_eq!(price.of_cpu(3_600_000_000).unwrap(), Cost::from_micros(micros(25_000)));
        assert_eq!(price.of_bytes(1_024 * 3_600_000).unwrap(), Cost::from_micros(micros(25_000)));
    }

    #[test]
    fn rounding_is_down_for_totals_and_up_for_worst_cases() {
        let half = Cost::from_units(UNITS_PER_MICRO / 2);
        assert_eq!((half.floor(), half.ceil()), (Ok(micros(0)), Ok(micros(1))));
        let minus_half = Cost::from_units(-UNITS_PER_MICRO / 2);
        assert_eq!((minus_half.floor(), minus_half.ceil()), (Ok(micros(-1)), Ok(micros(0))));
    }

    #[test]
    fn parts_sum_to_the_total_and_ties_go_by_row_order() {
        let third = Cost::from_units(UNITS_PER_MICRO / 3);
        let two_thirds = Cost::from_units(2 * UNITS_PER_MICRO / 3);
        let parts = apportion(micros(1), &[third, two_thirds, third]).unwrap();
        assert_eq!(parts, [micros(0), micros(1), micros(0)]);
        let half = Cost::from_units(UNITS_PER_MICRO / 2);
        assert_eq!(apportion(micros(1), &[half, half]).unwrap(), [micros(1), micros(0)]);
        assert!(apportion(micros(3), &[half]).is_err());
    }
}
