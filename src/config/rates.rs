//! `[rates]`: the first default rate card, `list`. It holds where no other card does, from the beginning of time.

use super::section::{OutOfBounds, bounded, section};
use crate::domain::id::RateCardId;
use crate::domain::money::{PRICE_MICROS_MAX, PriceMicros};
use crate::domain::rate_card::RateCard;
use crate::domain::units::{FLOOR_MILLICORES_MAX, Millicores};

section! {
    /// The list prices.
    Rates = "rates" {
        /// Microdollars per vCPU-hour.
        cpu_micros_per_vcpu_hour: i64 = 25_000, "RUNTAB_RATES_CPU_MICROS_PER_VCPU_HOUR";
        /// Microdollars per GiB-hour of memory.
        memory_micros_per_gib_hour: i64 = 7_500, "RUNTAB_RATES_MEMORY_MICROS_PER_GIB_HOUR";
        /// Microdollars per GiB-hour of storage.
        storage_micros_per_gib_hour: i64 = 108, "RUNTAB_RATES_STORAGE_MICROS_PER_GIB_HOUR";
        /// What each minute of a running sandbox costs at least, in millicores.
        cpu_floor_millicores: i64 = 50, "RUNTAB_RATES_CPU_FLOOR_MILLICORES";
    }
}

impl Rates {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        bounded("cpu_micros_per_vcpu_hour", self.cpu_micros_per_vcpu_hour, 0, PRICE_MICROS_MAX)?;
        bounded("memory_micros_per_gib_hour", self.memory_micros_per_gib_hour, 0, PRICE_MICROS_MAX)?;
        bounded("storage_micros_per_gib_hour", self.storage_micros_per_gib_hour, 0, PRICE_MICROS_MAX)?;
        bounded("cpu_floor_millicores", self.cpu_floor_millicores, 0, FLOOR_MILLICORES_MAX)
    }

    /// The card `list`. `None` only where [`super::Settings`] was not checked.
    #[must_use]
    pub fn list_card(&self) -> Option<RateCard> {
        Some(RateCard {
            id: RateCardId::parse("list").ok()?,
            cpu: PriceMicros::new(self.cpu_micros_per_vcpu_hour)?,
            memory: PriceMicros::new(self.memory_micros_per_gib_hour)?,
            storage: PriceMicros::new(self.storage_micros_per_gib_hour)?,
            floor: Millicores::new(self.cpu_floor_millicores)?,
        })
    }
}
