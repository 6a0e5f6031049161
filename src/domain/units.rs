//! Quantities with their unit in their name; only products that mean something exist.

use super::checked::{Overflow, mul};

/// Most vCPUs of a shape.
pub const VCPUS_MAX: i64 = 1_024;
/// Most memory or storage: 64 TiB, in MiB.
pub const MEBIBYTES_MAX: i64 = 64 * 1_024 * 1_024;
/// Highest CPU floor of a rate card, in millicores: one core.
pub const FLOOR_MILLICORES_MAX: i64 = 1_000;

/// Virtual CPUs of a sandbox: 1 to 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vcpus(i64);

impl Vcpus {
    /// `None` outside 1 to [`VCPUS_MAX`].
    #[must_use]
    pub fn new(count: i64) -> Option<Self> {
        (1..=VCPUS_MAX).contains(&count).then_some(Self(count))
    }

    /// The number of vCPUs.
    #[must_use]
    pub fn count(self) -> i64 {
        self.0
    }

    /// vCPU-microseconds that all of them make in `run_ms` milliseconds: 1 millicore for 1 ms is exactly 1 vCPU-us.
    pub fn busy_us(self, run_ms: i64) -> Result<i128, Overflow> {
        mul(i128::from(self.0), mul(1_000, i128::from(run_ms))?)
    }
}

/// Memory or storage in MiB: 0 to 64 TiB (a shape's memory is at least 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MebiBytes(i64);

impl MebiBytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `None` outside 0 to [`MEBIBYTES_MAX`].
    #[must_use]
    pub fn new(mib: i64) -> Option<Self> {
        (0..=MEBIBYTES_MAX).contains(&mib).then_some(Self(mib))
    }

    /// The number of MiB.
    #[must_use]
    pub fn mib(self) -> i64 {
        self.0
    }

    /// MiB-milliseconds that it takes in `held_ms` milliseconds.
    pub fn held_mib_ms(self, held_ms: i64) -> Result<i128, Overflow> {
        mul(i128::from(self.0), i128::from(held_ms))
    }
}

/// Thousandths of a core; used for the CPU floor: 0 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millicores(i64);

impl Millicores {
    /// `None` outside 0 to [`FLOOR_MILLICORES_MAX`].
    #[must_use]
    pub fn new(millicores: i64) -> Option<Self> {
        (0..=FLOOR_MILLICORES_MAX).contains(&millicores).then_some(Self(millicores))
    }

    /// The number of millicores.
    #[must_use]
    pub fn count(self) -> i64 {
        self.0
    }

    /// vCPU-microseconds that it makes in `run_ms` milliseconds.
    pub fn made_us(self, run_ms: i64) -> Result<i128, Overflow> {
        mul(i128::from(self.0), i128::from(run_ms))
    }
}
