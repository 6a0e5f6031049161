//! What operators see of the program: logs and metrics.

pub mod logging;
pub mod metrics;
