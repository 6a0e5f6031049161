//! Schemas of the plain values: what the API document promises of an id, a time or an amount is what the reader takes.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{Number, PartialSchema, ToSchema};

use crate::domain::admission::REQUEST_LEASES_MAX;
use crate::domain::credit::CREDIT_MICROS_MAX;
use crate::domain::free_hours::GRANT_HOURS_MAX;
use crate::domain::lease::{LEASE_MS_MAX, LEASE_MS_MIN};
use crate::domain::money::{MICROS_MAX, PRICE_MICROS_MAX};
use crate::domain::tax::TAX_RATE_BPS_MAX;
use crate::domain::units::{FLOOR_MILLICORES_MAX, MEBIBYTES_MAX, VCPUS_MAX};

/// Most characters of a name.
pub const NAME_CHARS_MAX: usize = 200;
/// Most characters of a note.
pub const NOTE_CHARS_MAX: usize = 2_000;
/// Largest whole number on the wire: 2^53 - 1.
pub const INTEGER_MAX: i64 = MICROS_MAX;
/// Most characters of a secret that are looked at.
pub const SECRET_CHARS_MAX: usize = 200;
/// Shortest lease, in seconds.
pub const TIMEOUT_SECONDS_MIN: i64 = LEASE_MS_MIN / 1_000;
/// Longest lease, in seconds.
pub const TIMEOUT_SECONDS_MAX: i64 = LEASE_MS_MAX / 1_000;
/// Most leases of one request.
pub const LEASES_MAX: usize = REQUEST_LEASES_MAX;

const ID_PATTERN: &str = concat!(
    "^([A-Za-z0-9_:-][A-Za-z0-9._:-]{0,63}|",
    "\\.[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,62}|",
    "\\.\\.[A-Za-z0-9._:-]{1,62})$"
);
const PLAIN_PATTERN: &str = "^[^\\u0000]*$";
const DIGEST_PATTERN: &str = "^[0-9a-f]{64}$";
const QUANTITY_PATTERN: &str = "^-?[0-9]{1,39}$";
const DECIMAL_PATTERN: &str = "^-?[0-9]{1,39}\\.[0-9]{12}$";
const MONTH_PATTERN: &str = "^(19[7-9][0-9]|[2-9][0-9]{3})-(0[1-9]|1[0-2])$";

macro_rules! date {
    () => {
        concat!(
            "((19[7-9][0-9]|[2-9][0-9]{3})-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)",
            "|02-(0[1-9]|1[0-9]|2[0-8]))|(19([79][26]|8[048])|[2-9][0-9](0[48]|[2468][048]|[13579][26])",
            "|([2468][048]|[3579][26])00)-02-29)"
        )
    };
}
const DAY_PATTERN: &str = concat!("^", date!(), "$");
const TIME_PATTERN: &str = concat!(
    "^",
    date!(),
    "[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
);
const HOUR_PATTERN: &str = concat!("^", date!(), "T([01][0-9]|2[0-3]):00:00(\\.0{1,9})?Z$");

macro_rules! text_schemas {
    ($($(#[$doc:meta])* $name:ident, $pattern:expr, $max:expr, $about:literal, $example:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .pattern(Some($pattern))
                    .max_length($max)
                    .description(Some($about))
                    .examples([$example])
                    .into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

text_schemas! {
    /// An id.
    Id, ID_PATTERN, Some(64), "An id: chosen by the caller, which makes commands idempotent.", "acme";
    /// A name.
    Name, PLAIN_PATTERN, Some(NAME_CHARS_MAX), "Free text for people.", "Acme Inc";
    /// A note.
    Note, PLAIN_PATTERN, Some(NOTE_CHARS_MAX), "Free text for people.", "sorry for Tuesday";
    /// A secret.
    SecretText, PLAIN_PATTERN, Some(SECRET_CHARS_MAX), "The secret of a key: a bearer token.", "runtab_key_...";
    /// A day.
    DayText, DAY_PATTERN, Some(10), "A UTC day.", "2026-11-01";
    /// A month.
    MonthText, MONTH_PATTERN, Some(7), "A UTC month.", "2026-11";
    /// An instant.
    TimeText, TIME_PATTERN, Some(64), "An RFC 3339 time; the offset is required, digits beyond the millisecond are cut off. Answers are in UTC with milliseconds.", "2026-11-01T10:00:00.000Z";
    /// An instant on an hour's boundary.
    HourText, HOUR_PATTERN, Some(64), "An RFC 3339 time on the boundary of an hour.", "2026-11-01T00:00:00Z";
    /// A quantity in a unit for people.
    Decimal, DECIMAL_PATTERN, Some(53), "A decimal number of 12 digits after the point.", "12.345678901234";
    /// A SHA-256.
    DigestText, DIGEST_PATTERN, Some(64), "A SHA-256 in hexadecimal.", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    /// A quantity.
    Quantity, QUANTITY_PATTERN, Some(40), "A whole number as a decimal string: it may pass 2^53.", "3600000";
}

fn number(value: i64) -> Number {
    isize::try_from(value).map_or(Number::Int(isize::MAX), Number::Int)
}

macro_rules! integer_schemas {
    ($($(#[$doc:meta])* $name:ident, $min:expr, $max:expr, $about:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some(number($min)))
                    .maximum(Some(number($max)))
                    .description(Some($about))
                    .into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

integer_schemas! {
    /// Money.
    MicrosCount, 0, INTEGER_MAX, "Whole microdollars: $1 is 1,000,000. Written without fraction or exponent.";
    /// Money that a correction can make negative.
    SignedMicrosCount, INTEGER_MAX.saturating_neg(), INTEGER_MAX, "Whole microdollars; negative in a correction.";
    /// A price.
    PriceCount, 0, PRICE_MICROS_MAX, "Whole microdollars per vCPU-hour or GiB-hour.";
    /// Milliseconds.
    MillisCount, 0, INTEGER_MAX, "Milliseconds.";
    /// A counter.
    CounterCount, 0, INTEGER_MAX, "A counter.";
    /// vCPUs.
    VcpusCount, 1, VCPUS_MAX, "vCPUs.";
    /// Memory of a shape.
    MemoryMibCount, 1, MEBIBYTES_MAX, "Memory in MiB.";
    /// A reported size.
    MibCount, 0, MEBIBYTES_MAX, "MiB.";
    /// A timeout.
    TimeoutSecondsCount, TIMEOUT_SECONDS_MIN, TIMEOUT_SECONDS_MAX, "Seconds: 1 to 31 days of them.";
    /// Hours of a grant.
    HoursCount, 1, GRANT_HOURS_MAX, "Hours of one running sandbox.";
    /// A grant of credit.
    CreditCount, 1, CREDIT_MICROS_MAX, "Whole microdollars of promotional credit.";
    /// A tax rate.
    TaxRateBps, 0, TAX_RATE_BPS_MAX, "Basis points: 1,900 is 19 %.";
    /// A CPU floor.
    MillicoresCount, 0, FLOOR_MILLICORES_MAX, "Thousandths of a core.";
}

#[cfg(test)]
mod tests {
    use super::{INTEGER_MAX, number};

    #[test]
    fn bounds_are_written_exactly() {
        assert_eq!(serde_json::to_string(&number(INTEGER_MAX)).unwrap(), "9007199254740991");
    }
}
