//! JSON shapes, and their conversion to and from the domain and what the ledger asks and answers; one file a resource.
//!
//! Requests are read by a strict reader ([`reader`]), answers are plain structs. The same structs document themselves
//! in the API document. Nothing here does I/O or decides anything.

pub mod account;
pub mod balance;
pub mod cost;
pub mod evidence;
pub mod grant;
pub mod invoice;
pub mod key;
pub mod lease;
pub mod month_report;
pub mod note;
pub mod page;
pub mod problem;
pub mod proof;
pub mod rate_card;
pub mod reader;
pub mod rejected;
pub mod sample;
pub mod sandbox;
pub mod schema;
pub mod shown;
pub mod test_clock;
pub mod time;
pub mod token;
pub mod unbilled;
pub mod usage;
pub mod void;
