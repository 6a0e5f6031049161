//! Usage and what it costs.

use serde::Serialize;
use utoipa::ToSchema;

use super::schema::Quantity;
use super::shown::Shown;
use crate::domain;
use crate::domain::cost::Amounts;

/// Quantities: whole numbers as decimal strings, for they may pass 2^53.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Usage {
    /// Running time, in milliseconds.
    #[schema(value_type = Quantity)]
    pub run_ms: Shown<i128>,
    /// CPU as measured, in vCPU-microseconds.
    #[schema(value_type = Quantity)]
    pub cpu_used_us: Shown<i128>,
    /// CPU as billed (after the floor), in vCPU-microseconds.
    #[schema(value_type = Quantity)]
    pub cpu_us: Shown<i128>,
    /// Memory, in MiB-milliseconds.
    #[schema(value_type = Quantity)]
    pub memory_mib_ms: Shown<i128>,
    /// Storage, in MiB-milliseconds.
    #[schema(value_type = Quantity)]
    pub storage_mib_ms: Shown<i128>,
}

impl From<&domain::usage::Usage> for Usage {
    fn from(usage: &domain::usage::Usage) -> Self {
        Self {
            run_ms: Shown(usage.run_ms),
            cpu_used_us: Shown(usage.cpu_used_us),
            cpu_us: Shown(usage.cpu_us),
            memory_mib_ms: Shown(usage.memory_mib_ms),
            storage_mib_ms: Shown(usage.storage_mib_ms),
        }
    }
}

/// Usage with its cost: `list = free + net`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Priced {
    /// What was used.
    pub usage: Usage,
    /// At list price, in microdollars.
    pub list_micros: i64,
    /// Paid by free time, in microdollars.
    pub free_micros: i64,
    /// To be paid, in microdollars.
    pub net_micros: i64,
}

impl Priced {
    /// From a usage and what it costs.
    #[must_use]
    pub fn new(usage: &domain::usage::Usage, amounts: Amounts) -> Self {
        Self {
            usage: Usage::from(usage),
            list_micros: amounts.list.count(),
            free_micros: amounts.free.count(),
            net_micros: amounts.net.count(),
        }
    }
}
