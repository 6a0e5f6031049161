//! Jobs: what the engine does by itself from time to time. Nothing that is billed or decided depends on them.

pub mod close_month;
pub mod evidence;
pub mod settle;
pub mod verify;
pub mod watch;
