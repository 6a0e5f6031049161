//! Where an account stands.

use serde::Serialize;
use utoipa::ToSchema;

use super::schema::{DayText, Id, MicrosCount, MillisCount, MonthText, SignedMicrosCount, TimeText};
use super::time::{show_day, show_month, show_time};
use crate::domain::id::KeyId;
use crate::domain::money::Micros;
use crate::ledger::view;

/// The current month so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MonthSoFar {
    /// Which.
    #[schema(value_type = MonthText)]
    pub month: String,
    /// At list price.
    #[schema(value_type = SignedMicrosCount)]
    pub list_micros: i64,
    /// Paid by free time.
    #[schema(value_type = SignedMicrosCount)]
    pub free_micros: i64,
    /// To be paid.
    #[schema(value_type = SignedMicrosCount)]
    pub net_micros: i64,
    /// The net cost at the same pace to the month's end.
    #[schema(value_type = SignedMicrosCount)]
    pub forecast_micros: i64,
    /// What promotional credit pays of the month's invoice as it stands.
    #[schema(value_type = SignedMicrosCount)]
    pub credit_micros: i64,
}

/// Free time: `remaining = granted - used - expired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FreeTime {
    /// Ever granted.
    #[schema(value_type = MillisCount)]
    pub granted_ms: i64,
    /// Drawn.
    #[schema(value_type = MillisCount)]
    pub used_ms: i64,
    /// Lapsed undrawn.
    #[schema(value_type = MillisCount)]
    pub expired_ms: i64,
    /// Left.
    #[schema(value_type = MillisCount)]
    pub remaining_ms: i64,
}

/// Promotional credit: `remaining = granted - used - expired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreditStanding {
    /// Ever granted.
    #[schema(value_type = MicrosCount)]
    pub granted_micros: i64,
    /// Drawn by final invoices, and what the drafts of open months draw as they stand.
    #[schema(value_type = MicrosCount)]
    pub used_micros: i64,
    /// Lapsed undrawn.
    #[schema(value_type = MicrosCount)]
    pub expired_micros: i64,
    /// Left.
    #[schema(value_type = MicrosCount)]
    pub remaining_micros: i64,
}

/// Where a key, or the account as a whole, stands today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DayBalance {
    /// The key; absent for the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub key: Option<String>,
    /// Today.
    #[schema(value_type = DayText)]
    pub day: String,
    /// The limit; null: none.
    #[schema(value_type = Option<MicrosCount>, required = true)]
    pub daily_limit_micros: Option<i64>,
    /// Used today, rounded down.
    #[schema(value_type = SignedMicrosCount)]
    pub used_micros: i64,
    /// Held today, rounded up.
    #[schema(value_type = MicrosCount)]
    pub reserved_micros: i64,
    /// What the limit leaves, never below 0; null without a limit.
    #[schema(value_type = Option<MicrosCount>, required = true)]
    pub available_micros: Option<i64>,
    /// When the day ends.
    #[schema(value_type = TimeText)]
    pub resets_at: String,
}

impl From<&view::DayBalance> for DayBalance {
    fn from(day: &view::DayBalance) -> Self {
        Self {
            key: day.key.as_ref().map(KeyId::to_string),
            day: show_day(day.day),
            daily_limit_micros: day.daily_limit.map(Micros::count),
            used_micros: day.used.count(),
            reserved_micros: day.reserved.count(),
            available_micros: day.available.map(Micros::count),
            resets_at: show_time(day.resets_at),
        }
    }
}

/// Where an account stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Balance {
    /// The account.
    #[schema(value_type = Id)]
    pub account: String,
    /// Now.
    #[schema(value_type = TimeText)]
    pub now: String,
    /// The current month.
    pub month: MonthSoFar,
    /// Free time.
    pub free: FreeTime,
    /// Promotional credit.
    pub credit: CreditStanding,
    /// The account's own day.
    pub account_day: DayBalance,
    /// Its keys, by id; at most 1,000.
    pub keys: Vec<DayBalance>,
}

impl From<&view::Balance> for Balance {
    fn from(balance: &view::Balance) -> Self {
        let (amounts, free, credit) = (balance.amounts, balance.free, balance.credit);
        Self {
            account: balance.account.to_string(),
            now: show_time(balance.now),
            month: MonthSoFar {
                month: show_month(balance.month),
                list_micros: amounts.list.count(),
                free_micros: amounts.free.count(),
                net_micros: amounts.net.count(),
                forecast_micros: balance.forecast.count(),
                credit_micros: balance.month_credit.count(),
            },
            free: FreeTime {
                granted_ms: free.granted_ms,
                used_ms: free.used_ms,
                expired_ms: free.expired_ms,
                remaining_ms: free.remaining_ms,
            },
            credit: CreditStanding {
                granted_micros: credit.granted.count(),
                used_micros: credit.used.count(),
                expired_micros: credit.expired.count(),
                remaining_micros: credit.remaining.count(),
            },
            account_day: DayBalance::from(&balance.account_day),
            keys: balance.keys.iter().map(DayBalance::from).collect(),
        }
    }
}
