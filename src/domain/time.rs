//! UTC time: instants in milliseconds, and the calendar's minutes, hours, days and months, all half-open.
//!
//! The calendar is the proleptic Gregorian one, from 1970 to the end of 9999; day arithmetic follows Howard Hinnant,
//! "chrono-Compatible Low-Level Date Algorithms". Instants are bounded, so differences of two of them always fit.

use super::checked::Overflow;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;
/// 9999-12-31T23:59:59.999Z.
const TIMESTAMP_MS_MAX: i64 = 253_402_300_799_999;

/// An instant: milliseconds since 1970-01-01T00:00:00Z, up to the end of the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(TIMESTAMP_MS_MAX);

    /// `None` before 1970 or after 9999.
    #[must_use]
    pub fn from_ms(ms: i64) -> Option<Self> {
        (0..=TIMESTAMP_MS_MAX).contains(&ms).then_some(Self(ms))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn ms(self) -> i64 {
        self.0
    }

    /// This instant `ms` later (earlier when negative); [`Overflow`] outside 1970 to 9999.
    pub fn plus_ms(self, ms: i64) -> Result<Self, Overflow> {
        self.0.checked_add(ms).and_then(Self::from_ms).ok_or(Overflow)
    }

    /// This instant `ms` later (earlier when negative), held to 1970 to 9999: for tolerances around `now`.
    #[must_use]
    pub fn near(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms).clamp(0, TIMESTAMP_MS_MAX))
    }

    /// Milliseconds from `earlier` to this instant; negative when it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The clock minute that contains it.
    #[must_use]
    pub fn minute(self) -> Minute {
        Minute(self.0 / MINUTE_MS)
    }

    /// The clock hour that contains it.
    #[must_use]
    pub fn hour(self) -> Hour {
        Hour(self.0 / HOUR_MS)
    }

    /// The UTC day that contains it.
    #[must_use]
    pub fn day(self) -> Day {
        Day(self.0 / DAY_MS)
    }

    /// The UTC month that contains it.
    #[must_use]
    pub fn month(self) -> Month {
        self.day().month()
    }
}

macro_rules! period {
    ($(#[$doc:meta])* $name:ident, $length_ms:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// From the number of such periods since 1970; `None` outside 1970 to 9999.
            #[must_use]
            pub fn from_index(index: i64) -> Option<Self> {
                (0..=TIMESTAMP_MS_MAX / $length_ms).contains(&index).then_some(Self(index))
            }

            /// The number of such periods since 1970.
            #[must_use]
            pub fn index(self) -> i64 {
                self.0
            }

            /// Its first instant.
            #[must_use]
            pub fn start(self) -> Timestamp {
                Timestamp(self.0.saturating_mul($length_ms))
            }

            /// Its end: the first instant after it (of the last one of 9999, the last instant).
            #[must_use]
            pub fn end(self) -> Timestamp {
                self.start().near($length_ms)
            }

            /// The one after it.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// The period as a span.
            #[must_use]
            pub fn span(self) -> Span {
                Span { start: self.start(), end: self.end() }
            }
        }
    };
}

period!(/// A UTC clock minute: what the CPU floor is counted by.
    Minute, MINUTE_MS);
period!(/// A UTC clock hour: what usage is stored by.
    Hour, HOUR_MS);
period!(/// A UTC day: what limits and prices go by.
    Day, DAY_MS);

impl Hour {
    /// The UTC day that contains it.
    #[must_use]
    pub fn day(self) -> Day {
        self.start().day()
    }
}

impl Day {
    /// From year, month (1 to 12) and day of the month; `None` when there is no such day from 1970 to 9999.
    #[must_use]
    pub fn from_ymd(year: i64, month: i64, day: i64) -> Option<Self> {
        let plausible = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        let found = plausible.then(|| Self(days_from_civil(year, month, day)))?;
        (found.ymd() == (year, month, day)).then_some(found)
    }

    /// Year, month (1 to 12) and day of the month.
    #[must_use]
    pub fn ymd(self) -> (i64, i64, i64) {
        civil_from_days(self.0)
    }

    /// The month that contains it.
    #[must_use]
    pub fn month(self) -> Month {
        let (year, month, _) = self.ymd();
        Month(year.saturating_sub(1970).saturating_mul(12).saturating_add(month).saturating_sub(1))
    }
}

/// A UTC calendar month: what is invoiced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month(i64);

impl Month {
    /// January 1970, before which nothing is billed.
    pub const FIRST: Self = Self(0);

    /// From year and month (1 to 12); `None` outside 1970 to 9999.
    #[must_use]
    pub fn from_ym(year: i64, month: i64) -> Option<Self> {
        Day::from_ymd(year, month, 1).map(Day::month)
    }

    /// From the number of months since January 1970; `None` after 9999.
    #[must_use]
    pub fn from_index(index: i64) -> Option<Self> {
        (0..=12 * 8_030 - 1).contains(&index).then_some(Self(index))
    }

    /// The number of months since January 1970.
    #[must_use]
    pub fn index(self) -> i64 {
        self.0
    }

    /// Year and month (1 to 12).
    #[must_use]
    pub fn ym(self) -> (i64, i64) {
        ((self.0 / 12).saturating_add(1970), (self.0 % 12).saturating_add(1))
    }

    /// Its first day.
    #[must_use]
    pub fn first_day(self) -> Day {
        let (year, month) = self.ym();
        Day(days_from_civil(year, month, 1))
    }

    /// The month after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The month as a span (December 9999 ends with its last instant).
    #[must_use]
    pub fn span(self) -> Span {
        let end = self.next().first_day().start();
        Span { start: self.first_day().start(), end: end.near(0) }
    }
}

/// Days since 1970-01-01 of a civil date; years 1970 to 10000.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last of its year; an era has 400 years.
    let year = if month <= 2 { year.saturating_sub(1) } else { year };
    let era = year / 400;
    let year_of_era = year % 400;
    let month_from_march = month.saturating_add(9) % 12;
    let day_of_year =
        (month_from_march.saturating_mul(153).saturating_add(2) / 5).saturating_add(day).saturating_sub(1);
    let leap_days = (year_of_era / 4).saturating_sub(year_of_era / 100);
    let day_of_era = year_of_era.saturating_mul(365).saturating_add(leap_days).saturating_add(day_of_year);
    era.saturating_mul(146_097).saturating_add(day_of_era).saturating_sub(719_468)
}

/// Year, month and day of a number of days since 1970-01-01; zero and above.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let leap_days = (day_of_era / 1_460).saturating_sub(day_of_era / 36_524).saturating_add(day_of_era / 146_096);
    let year_of_era = day_of_era.saturating_sub(leap_days) / 365;
    let before_year = year_of_era.saturating_mul(365).saturating_add(year_of_era / 4).saturating_sub(year_of_era / 100);
    let day_of_year = day_of_era.saturating_sub(before_year);
    let month_from_march = day_of_year.saturating_mul(5).saturating_add(2) / 153;
    let before_month = month_from_march.saturating_mul(153).saturating_add(2) / 5;
    let day = day_of_year.saturating_sub(before_month).saturating_add(1);
    let month = (month_from_march.saturating_add(2) % 12).saturating_add(1);
    let year = era.saturating_mul(400).saturating_add(year_of_era);
    (if month <= 2 { year.saturating_add(1) } else { year }, month, day)
}

/// A half-open span of time `[start, end)`; empty when `end <= start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant in it.
    pub start: Timestamp,
    /// The first instant after it.
    pub end: Timestamp,
}

impl Span {
    /// Its length in milliseconds; 0 when it is empty.
    #[must_use]
    pub fn length_ms(self) -> i64 {
        self.end.since(self.start).max(0)
    }

    /// Whether it holds no instant.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// What it shares with another span; empty when they don't meet.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// Whether some instant is in both.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        !self.meet(other).is_empty()
    }

    /// Its parts by UTC day, ascending; none when it is empty.
    pub fn by_day(self) -> impl Iterator<Item = (Day, Self)> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            (at < self.end).then(|| {
                let day = at.day();
                let part = Self { start: at, end: day.end().min(self.end) };
                at = part.end;
                (day, part)
            })
        })
    }

    /// Its parts by UTC hour, ascending; none when it is empty.
    pub fn by_hour(self) -> impl Iterator<Item = (Hour, Self)> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            (at < self.end).then(|| {
                let hour = at.hour();
                let part = Self { start: at, end: hour.end().min(self.end) };
                at = part.end;
                (hour, part)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Day, Month, Span, Timestamp};

    #[test]
    fn the_calendar_goes_round_from_1970_to_9999() {
        let mut expected = (1970, 1, 1);
        for index in 0..=Timestamp::MAX.day().index() {
            let day = Day::from_index(index).unwrap();
            assert_eq!(day.ymd(), expected);
            assert_eq!(Day::from_ymd(expected.0, expected.1, expected.2), Some(day));
            let (year, month, date) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                4 | 6 | 9 | 11 => 30,
                2 if leap => 29,
                2 => 28,
                _ => 31,
            };
            expected = if date < length { (year, month, date + 1) } else { (year, month + 1, 1) };
            if expected.1 > 12 {
                expected = (year + 1, 1, 1);
            }
        }
        assert_eq!(expected, (10_000, 1, 1));
    }

    #[test]
    fn impossible_dates_are_refused() {
        for (year, month, day) in
            [(2027, 2, 29), (2026, 13, 1), (2026, 0, 1), (2026, 4, 31), (1969, 1, 1), (10_000, 1, 1)]
        {
            assert_eq!(Day::from_ymd(year, month, day), None);
        }
    }

    #[test]
    fn months_tile_the_years() {
        let february = Month::from_ym(2028, 2).unwrap();
        assert_eq!(february.span().length_ms(), 29 * 86_400_000);
        assert_eq!(february.span().end, february.next().span().start);
        assert_eq!(Month::from_index(february.index()), Some(february));
        assert_eq!(Timestamp::MAX.month().next().first_day().start().ms(), 253_402_300_800_000);
    }

    #[test]
    fn a_span_splits_at_midnight_and_at_the_hour() {
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        let span = Span { start: at(86_400_000 - 1), end: at(2 * 86_400_000 + 1) };
        let lengths: Vec<_> = span.by_day().map(|(day, part)| (day.index(), part.length_ms())).collect();
        assert_eq!(lengths, [(0, 1), (1, 86_400_000), (2, 1)]);
        assert_eq!(span.by_hour().count(), 26);
        assert_eq!(Span { start: at(5), end: at(5) }.by_day().count(), 0);
    }
}
