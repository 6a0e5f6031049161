//! The test clock.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::TimeText;
use super::time::show_time;
use crate::domain::time::Timestamp;

/// What a test clock shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestClock {
    /// Now; it never goes back.
    #[schema(value_type = TimeText)]
    pub now: String,
}

impl TestClock {
    /// Reads the request.
    pub fn read(body: &Value<'_, '_>) -> Result<Timestamp, Invalid> {
        body.object(["now"])?.required("now")?.time()
    }

    /// Shows an instant.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now: show_time(now) }
    }
}
