//! What must always hold of the meters: properties against slow models that are written from the specification.
#![expect(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "tests"
)]

mod cases;
mod kept;
mod meter;
mod naive;
mod pages;
mod storage;
mod world;
