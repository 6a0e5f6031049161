//! What must always hold of the meters: properties against slow models that are written from the specification.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

mod cases;
mod gate;
mod invoices;
mod kept;
mod meter;
mod money;
mod naive;
mod naive_storage;
mod pages;
mod parts;
mod storage;
mod world;
