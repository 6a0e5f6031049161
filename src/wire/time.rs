//! Times, days and months on the wire: RFC 3339 with an offset, `YYYY-MM-DD`, `YYYY-MM`.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::domain::time::{Day, Month, Timestamp};

/// What a time must look like, for people.
pub const TIME_RULE: &str = "must be an RFC 3339 time with an offset, such as 2026-11-01T10:00:00Z, from 1970 to 9999";
/// What a day must look like, for people.
pub const DAY_RULE: &str = "must be a day from 1970 to 9999, such as 2026-11-01";

const DAY_MS: i64 = 86_400_000;
/// Longest text of a time that is looked at; digits beyond the millisecond are cut off.
const TIME_CHARS_MAX: usize = 64;

/// Reads a time and converts it to UTC; `None` without an offset, or outside 1970 to 9999.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if text.len() > TIME_CHARS_MAX || !text.is_ascii() {
        return None;
    }
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = parse_ymd(date)?;
    let day_ms = civil_ms(year, month, day)?;
    let rest = rest.strip_prefix(['T', 't'])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let (clock, seconds) = clock.split_at_checked(6)?;
    let clock_ms = parse_clock(clock.strip_suffix(':')?)?;
    let second_ms = bounded(seconds, 59)?.checked_mul(1_000)?;
    let (fraction_ms, offset) = parse_fraction(rest)?;
    let local_ms = day_ms.checked_add(clock_ms)?.checked_add(second_ms)?.checked_add(fraction_ms)?;
    Timestamp::from_ms(local_ms.checked_sub(parse_offset(offset)?)?)
}

/// Reads a day; `None` when there is no such day from 1970 to 9999.
#[must_use]
pub fn parse_day(text: &str) -> Option<Day> {
    let (year, month, day) = parse_ymd(text)?;
    Day::from_ymd(year, month, day)
}

/// Reads a month; `None` when there is no such month from 1970 to 9999.
#[must_use]
pub fn parse_month(text: &str) -> Option<Month> {
    let (year, month) = text.split_once('-').filter(|(year, month)| year.len() == 4 && month.len() == 2)?;
    Month::from_ym(bounded(year, 9_999)?, bounded(month, 12)?)
}

/// A time as answers show it: `2026-11-01T10:00:00.000Z`.
#[must_use]
pub fn show_time(at: Timestamp) -> String {
    ShownTime(at).to_string()
}

/// A time that is written as answers show it, without a string of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownTime(pub Timestamp);

impl ShownTime {
    fn text(self) -> [u8; 24] {
        let (year, month, day) = self.0.day().ymd();
        let ms = self.0.ms() % DAY_MS;
        // Years have four digits: a time is from 1970 to 9999.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (place, number) in [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, ms / 3_600_000),
            (14..16, ms / 60_000 % 60),
            (17..19, ms / 1_000 % 60),
            (20..23, ms % 1_000),
        ] {
            put(text.get_mut(place).unwrap_or_default(), number);
        }
        text
    }
}

impl fmt::Display for ShownTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(str::from_utf8(&self.text()).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for ShownTime {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(str::from_utf8(&self.text()).map_err(serde::ser::Error::custom)?)
    }
}

/// Fills a place with the last digits of a number.
fn put(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0'.saturating_add(u8::try_from(number % 10).unwrap_or_default());
        number /= 10;
    }
}

/// A day as answers show it.
#[must_use]
pub fn show_day(day: Day) -> String {
    let (year, month, date) = day.ymd();
    format!("{year:04}-{month:02}-{date:02}")
}

/// A month as answers show it.
#[must_use]
pub fn show_month(month: Month) -> String {
    let (year, month) = month.ym();
    format!("{year:04}-{month:02}")
}

/// Milliseconds from 1970 to a date; also for the last day of 1969, from which an offset may lead into 1970.
fn civil_ms(year: i64, month: i64, day: i64) -> Option<i64> {
    if (year, month, day) == (1969, 12, 31) {
        return Some(-DAY_MS);
    }
    Some(Day::from_ymd(year, month, day)?.start().ms())
}

fn parse_ymd(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split('-');
    let date = (parts.next()?, parts.next()?, parts.next()?);
    if text.len() != 10 || date.0.len() != 4 || date.1.len() != 2 || parts.next().is_some() {
        return None;
    }
    Some((bounded(date.0, 9_999)?, bounded(date.1, 12)?, bounded(date.2, 31)?))
}

/// Milliseconds of `HH:MM`.
fn parse_clock(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    bounded(hours, 23)?.checked_mul(60)?.checked_add(bounded(minutes, 59)?)?.checked_mul(60_000)
}

/// The milliseconds of a fraction, if there is one, and what follows it.
fn parse_fraction(text: &str) -> Option<(i64, &str)> {
    let Some(fraction) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = fraction.find(|digit: char| !digit.is_ascii_digit())?;
    let (digits, offset) = fraction.split_at_checked(end)?;
    if digits.is_empty() {
        return None;
    }
    let ms = digits
        .bytes()
        .chain(*b"00")
        .take(3)
        .try_fold(0_i64, |ms, digit| ms.checked_mul(10)?.checked_add(i64::from(digit.checked_sub(b'0')?)))?;
    Some((ms, offset))
}

/// Milliseconds east of UTC.
fn parse_offset(text: &str) -> Option<i64> {
    match text.split_at_checked(1)? {
        ("Z" | "z", "") => Some(0),
        ("+", clock) => parse_clock(clock),
        ("-", clock) => parse_clock(clock)?.checked_neg(),
        _ => None,
    }
}

fn bounded(digits: &str, max: i64) -> Option<i64> {
    let clean = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    clean.then(|| digits.parse().ok()).flatten().filter(|number| *number <= max)
}

#[cfg(test)]
mod tests {
    use super::{parse_day, parse_month, parse_time, show_day, show_month, show_time};

    #[test]
    fn times_are_converted_to_utc_and_cut_to_milliseconds() {
        for (text, shown) in [
            ("2026-11-01T10:00:30Z", "2026-11-01T10:00:30.000Z"),
            ("2026-03-01T00:30:00+09:00", "2026-02-28T15:30:00.000Z"),
            ("2026-12-31T23:30:00.5-01:00", "2027-01-01T00:30:00.500Z"),
            ("2026-11-01t10:00:30.1239999999z", "2026-11-01T10:00:30.123Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
            ("2028-02-29T00:00:00-00:00", "2028-02-29T00:00:00.000Z"),
        ] {
            assert_eq!(parse_time(text).map(show_time).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-11-01",
            "2026-11-01T10:00:30",
            "2026-11-01 10:00:30Z",
            "2026-11-01T10:00Z",
            "2026-11-01T24:00:00Z",
            "2026-11-01T10:60:00Z",
            "2026-11-01T10:00:60Z",
            "2026-02-30T10:00:00Z",
            "2026-11-01T10:00:30.Z",
            "2026-11-01T10:00:30+9:00",
            "2026-11-01T10:00:30+24:00",
            "2026-11-01T10:00:30Zx",
            "+026-11-01T10:00:30Z",
            "1969-12-31T23:59:59Z",
            "12026-01-01T00:00:00Z",
            "9999-12-31T23:59:59-00:01",
            "２026-11-01T10:00:30Z",
            "2026-11-01T10:00:+1Z",
            "1970-01-01T00:00:00+00:01",
            "2026-11-01T10:00:30.1",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn days_and_months() {
        assert_eq!(parse_day("2028-02-29").map(show_day).as_deref(), Some("2028-02-29"));
        assert_eq!(parse_day("2028-02-29").map(|day| show_month(day.month())).as_deref(), Some("2028-02"));
        for text in ["2027-02-29", "2026-1-01", "2026-011-1", "2026-11-01T", "1969-12-31", "", "2026/11/01"] {
            assert_eq!(parse_day(text), None, "{text}");
        }
        for text in ["1970-01", "2026-11", "9999-12"] {
            assert_eq!(parse_month(text).map(show_month).as_deref(), Some(text));
        }
        for text in ["2026-13", "2026-00", "2026-1", "26-11", "1969-12", "2026-11-01", "2026", "", "-026-11", "2026-+1"]
        {
            assert_eq!(parse_month(text), None, "{text}");
        }
    }
}
