//! The dashboard: one page without anything from elsewhere; a pasted key reads its own account.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::response::{Html, IntoResponse};

const PAGE: &str = include_str!("dashboard.html");
/// Nothing is loaded from anywhere; only this server is asked.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page.
pub(in crate::http) async fn page() -> impl IntoResponse {
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, Html(PAGE))
}
