//! What operators see of the program: logs and metrics.

pub mod agent;
pub mod logging;
pub mod metrics;
