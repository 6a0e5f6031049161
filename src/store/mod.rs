//! The store: the only SQL.

pub mod changes;
