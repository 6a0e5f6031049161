//! Time that nobody pays for, by its cause.

use serde::Serialize;
use utoipa::ToSchema;

use super::schema::{MicrosCount, MonthText};
use super::time::show_month;
use crate::domain::time::Month;
use crate::ledger::view::UnbilledView;

/// Time of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnbilledCause {
    /// `never_sampled`, `went_silent`, `host_lost` or `end_told_late`.
    pub cause: &'static str,
    /// Of how many leases.
    pub leases: u64,
    /// How long, in milliseconds; a decimal string, as in `usage`.
    pub run_ms: String,
    /// What it would have cost at least: at the floor, and with the lease's memory.
    #[schema(value_type = MicrosCount)]
    pub least_micros: i64,
}

/// Time of a month that was granted and that nothing proves, over all accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Unbilled {
    /// The month.
    #[schema(value_type = MonthText)]
    pub month: String,
    /// Every cause, in a fixed order.
    pub causes: Vec<UnbilledCause>,
}

impl Unbilled {
    /// As it is shown.
    #[must_use]
    pub fn new(month: Month, causes: &[UnbilledView]) -> Self {
        let cause = |view: &UnbilledView| UnbilledCause {
            cause: view.cause.name(),
            leases: view.leases,
            run_ms: view.run_ms.to_string(),
            least_micros: view.least.count(),
        };
        Self { month: show_month(month), causes: causes.iter().map(cause).collect() }
    }
}
