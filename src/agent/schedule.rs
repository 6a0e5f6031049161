//! When to read and when to send: pure arithmetic on the clocks.
//!
//! Readings are at whole multiples of the interval of the calendar, and at every minute's boundary, on all hosts alike:
//! the floor is per minute. Sending is what is spread: each host has a moment of its own in the period, by a hash of
//! its id, that stays the same over restarts.

use sha2::{Digest, Sha256};

use crate::domain::time::Timestamp;

const MINUTE_MS: i64 = 60_000;

/// How often readings are taken, by how full the spool is of what no server has answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At every interval and minute.
    Full,
    /// At every second interval, and every minute.
    Half,
    /// At every minute.
    Minutes,
    /// Every five minutes.
    Slow,
}

impl Pace {
    /// The pace for a spool that is so many thousandths full of unanswered bytes. A full one stops nothing here: then
    /// the spool itself refuses, and the latest reading of each lease is held in memory.
    #[must_use]
    pub fn of(filled_permille: i64) -> Self {
        match filled_permille {
            ..500 => Self::Full,
            500..750 => Self::Half,
            750..900 => Self::Minutes,
            900.. => Self::Slow,
        }
    }

    /// For metrics: 0 is full speed.
    #[must_use]
    pub fn level(self) -> i64 {
        match self {
            Self::Full => 0,
            Self::Half => 1,
            Self::Minutes => 2,
            Self::Slow => 3,
        }
    }
}

/// Milliseconds until the next reading is due: more than 0.
#[must_use]
pub fn until_reading(now: Timestamp, interval_ms: i64, pace: Pace) -> i64 {
    let to_minute = until_multiple(now.ms(), MINUTE_MS);
    match pace {
        Pace::Full => until_multiple(now.ms(), interval_ms).min(to_minute),
        Pace::Half => until_multiple(now.ms(), interval_ms.saturating_mul(2)).min(to_minute),
        Pace::Minutes => to_minute,
        Pace::Slow => until_multiple(now.ms(), MINUTE_MS.saturating_mul(5)),
    }
}

/// The moment of a host within the period in which it sends: from 0 to `period_ms`, the same after every start.
#[must_use]
pub fn phase_ms(host: &str, period_ms: i64) -> i64 {
    let digest: [u8; 32] = Sha256::digest(host.as_bytes()).into();
    let head = digest.first_chunk::<8>().copied().unwrap_or_default();
    i64::try_from(u64::from_be_bytes(head) >> 1).unwrap_or(0).checked_rem(period_ms.max(1)).unwrap_or(0)
}

/// Milliseconds until a host sends next: more than 0, at most the period.
#[must_use]
pub fn until_push(now: Timestamp, period_ms: i64, phase_ms: i64) -> i64 {
    until_multiple(now.ms().saturating_sub(phase_ms), period_ms)
}

fn until_multiple(ms: i64, of_ms: i64) -> i64 {
    let of_ms = of_ms.max(1);
    of_ms.saturating_sub(ms.checked_rem_euclid(of_ms).unwrap_or(0))
}

/// Waits after failures: full jitter, from 0 to a bound that doubles up to its most.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    base_ms: i64,
    most_ms: i64,
    failures: u32,
    random: u64,
}

impl Backoff {
    /// `seed` must differ between hosts, or they try again together.
    #[must_use]
    pub fn new(base_ms: i64, most_ms: i64, seed: u64) -> Self {
        Self { base_ms, most_ms, failures: 0, random: seed }
    }

    /// How long to wait after another failure, in milliseconds; at least what the server asks for, if it asks.
    pub fn failed(&mut self, retry_after_ms: Option<i64>) -> i64 {
        let doubled = self.base_ms.saturating_mul(1_i64.checked_shl(self.failures.min(30)).unwrap_or(i64::MAX));
        self.failures = self.failures.saturating_add(1);
        let bound = doubled.clamp(1, self.most_ms.max(1));
        let jitter = i64::try_from(self.draw() >> 1).unwrap_or(0).checked_rem(bound.saturating_add(1)).unwrap_or(0);
        // What the server asked for is kept, and spread as well, so that those who were told the same don't come together.
        retry_after_ms.map_or(jitter, |asked| asked.clamp(0, 300_000).saturating_add(jitter.min(bound.div_euclid(4))))
    }

    /// It worked.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// How many failures there were in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// `SplitMix64`.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Pace, phase_ms, until_push, until_reading};
    use crate::domain::time::Timestamp;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms).unwrap()
    }

    #[test]
    fn readings_are_on_the_grid_and_at_every_minute() {
        for (now, interval, pace, expected) in [
            (0, 10_000, Pace::Full, 10_000),
            (9_999, 10_000, Pace::Full, 1),
            (55_000, 7_000, Pace::Full, 1_000),
            (56_000, 7_000, Pace::Full, 4_000),
            (56_000, 600_000, Pace::Full, 4_000),
            (10_000, 10_000, Pace::Half, 10_000),
            (10_000, 10_000, Pace::Minutes, 50_000),
            (10_000, 10_000, Pace::Slow, 290_000),
        ] {
            assert_eq!(until_reading(at(now), interval, pace), expected, "{now} {interval} {pace:?}");
        }
    }

    #[test]
    fn a_fuller_spool_is_read_into_more_slowly() {
        let paces = [0, 499, 500, 750, 900, 1_000].map(|filled| Pace::of(filled).level());
        assert_eq!(paces, [0, 0, 1, 2, 3, 3]);
    }

    #[test]
    fn hosts_send_at_moments_of_their_own_that_stay() {
        assert_eq!(phase_ms("h-1", 10_000), phase_ms("h-1", 10_000));
        let mut slots = [0_i64; 10];
        for host in 0..1_000 {
            let slot = phase_ms(&format!("host-{host}"), 10_000) / 1_000;
            slots[usize::try_from(slot).unwrap()] += 1;
        }
        assert!(slots.iter().all(|count| (60..150).contains(count)), "{slots:?}");
        assert_eq!(until_push(at(20_000), 10_000, 3_000), 3_000);
        assert_eq!(until_push(at(23_000), 10_000, 3_000), 10_000);
    }

    #[test]
    fn waits_grow_are_spread_and_keep_what_the_server_asked_for() {
        let mut backoff = Backoff::new(500, 60_000, 7);
        let waits: Vec<i64> = (0..40).map(|_| backoff.failed(None)).collect();
        let bounds = (0..40).map(|failures| (500_i64 << failures.min(20)).min(60_000));
        assert!(waits.iter().zip(bounds).all(|(wait, bound)| (0..=bound).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait > 30_000) && waits[10..].iter().any(|wait| *wait < 30_000), "{waits:?}");
        assert!((7_000..=22_000).contains(&backoff.failed(Some(7_000))));
        assert!(backoff.failed(Some(i64::MAX)) <= 315_000, "nobody makes an agent wait for hours");
        backoff.worked();
        assert!(backoff.failed(None) <= 500);
        let mut other = Backoff::new(500, 60_000, 8);
        let others: Vec<i64> = (0..40).map(|_| other.failed(None)).collect();
        assert_ne!(waits, others);
    }
}
