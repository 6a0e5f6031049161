//! The functional core: what usage, money, leases and limits *are*.
//!
//! Values in, values out. No I/O, no async, no clock (the caller passes `now`), no randomness, no SQL, no serde, no
//! floating point. Every integer operation is checked; an overflow is a refused input ([`Overflow`]), never a wrap.
//!
//! Reading order: [`time`] and [`units`], [`usage`], [`money`], [`rate_card`]; then [`sample`], [`void`], [`curve`],
//! [`meter`], [`storage_meter`]; how samples come in parts ([`part`]), from [`replica`]s, or are [`set_aside`]; then
//! [`lease`], [`limits`], [`free_hours`], [`credit`], [`funds`], [`admission`]; last
//! [`cost`], tables that add up, and [`invoice`] (its [`invoice_line`]s, [`tax`]) with its [`breakdown`] and each hour's
//! [`charge`], its [`invoice_life`], [`note`]s on it, and its [`proof`]; for operators, [`month_report`] with what is
//! [`unbilled`].

pub mod admission;
pub mod breakdown;
pub mod charge;
pub mod checked;
pub mod cost;
pub mod credit;
pub mod curve;
pub mod customer;
pub mod free_hours;
pub mod funds;
pub mod id;
pub mod invoice;
pub mod invoice_life;
pub mod invoice_line;
pub mod lease;
pub mod limits;
pub mod meter;
pub mod money;
pub mod month_report;
pub mod note;
pub mod part;
pub mod proof;
pub mod rate_card;
pub mod replica;
pub mod sample;
pub mod sample_page;
pub mod sandbox;
pub mod set_aside;
pub mod storage_meter;
pub mod tax;
pub mod time;
pub mod unbilled;
pub mod units;
pub mod usage;
pub mod void;

pub use checked::Overflow;
