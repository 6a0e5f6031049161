//! What must always hold of the meters: properties against slow models that are written from the specification.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "tests")]

mod cases;
mod kept;
mod meter;
mod naive;
mod naive_storage;
mod pages;
mod storage;
mod world;
