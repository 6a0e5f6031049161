//! Routes without a ledger: what is refused before it is asked, and who may do what.
