//! Integration tests: one binary.

#[cfg(test)]
mod postgres;
#[cfg(test)]
mod store;
