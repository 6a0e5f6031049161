//! A page of a list.

use serde::Serialize;
use utoipa::ToSchema;

/// Items of a list by their key, and where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Page<T: ToSchema> {
    /// At most as many as `limit`.
    pub items: Vec<T>,
    /// Given where there is more: the `cursor` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}
