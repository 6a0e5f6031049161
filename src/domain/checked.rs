//! Integer arithmetic that says when it does not fit.
//!
//! The whole core uses these three operations for quantities; operators are denied by lint.

use std::error::Error;
use std::fmt;

/// A result that does not fit its type: the input that led to it is refused, nothing wraps or saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a quantity is too large to be counted exactly")
    }
}

impl Error for Overflow {}

/// `left + right`, or [`Overflow`].
pub fn add(left: i128, right: i128) -> Result<i128, Overflow> {
    left.checked_add(right).ok_or(Overflow)
}

/// `left - right`, or [`Overflow`].
pub fn sub(left: i128, right: i128) -> Result<i128, Overflow> {
    left.checked_sub(right).ok_or(Overflow)
}

/// `left * right`, or [`Overflow`].
pub fn mul(left: i128, right: i128) -> Result<i128, Overflow> {
    left.checked_mul(right).ok_or(Overflow)
}

/// `left * right / divisor`, rounded towards minus infinity; `divisor` must be above zero, else [`Overflow`].
pub fn mul_div_floor(left: i128, right: i128, divisor: i128) -> Result<i128, Overflow> {
    if divisor <= 0 {
        return Err(Overflow);
    }
    mul(left, right)?.checked_div_euclid(divisor).ok_or(Overflow)
}

#[cfg(test)]
mod tests {
    use super::{Overflow, add, mul_div_floor};

    #[test]
    fn overflow_is_told() {
        assert_eq!(add(i128::MAX, 1), Err(Overflow));
        assert_eq!(mul_div_floor(1, 1, 0), Err(Overflow));
    }

    #[test]
    fn division_rounds_down_below_zero_too() {
        assert_eq!(mul_div_floor(-1, 1, 2), Ok(-1));
        assert_eq!(mul_div_floor(7, 3, 2), Ok(10));
    }
}
