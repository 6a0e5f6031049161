//! What the bench sends: request texts made once, in which only digits change from one request to the next.

use super::load::Work;
use crate::cli::format::rfc3339;
use crate::domain::time::Timestamp;

/// A text with places to fill in: each a run of `#`.
#[derive(Clone, Debug)]
struct Template {
    text: Vec<u8>,
    places: Vec<std::ops::Range<usize>>,
}

impl Template {
    fn new(text: String) -> Self {
        let text = text.into_bytes();
        let mut places: Vec<std::ops::Range<usize>> = Vec::new();
        for (at, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'#') {
            match places.last_mut().filter(|place| place.end == at) {
                Some(place) => place.end = at.saturating_add(1),
                None => places.push(at..at.saturating_add(1)),
            }
        }
        Self { text, places }
    }

    /// Fills a place with a number, zeros before it.
    fn number(&mut self, place: usize, mut number: u64) {
        let Some(cells) = self.places.get(place).cloned().and_then(|range| self.text.get_mut(range)) else { return };
        for cell in cells.iter_mut().rev() {
            *cell = u8::try_from(number % 10).map_or(b'0', |digit| digit.saturating_add(b'0'));
            number /= 10;
        }
    }

    /// Fills a place with a text of just its length.
    fn words(&mut self, place: usize, words: &str) {
        let Some(cells) = self.places.get(place).cloned().and_then(|range| self.text.get_mut(range)) else { return };
        for (cell, byte) in cells.iter_mut().zip(words.bytes()) {
            *cell = byte;
        }
    }
}

/// A whole request with a body of JSON.
pub(super) fn post(path: &str, token: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The yardstick: the smallest request that a server can answer.
pub(super) struct Hello;

impl Work for Hello {
    const EXPECTED: &'static str = "hello";

    fn next(&mut self) -> Option<&[u8]> {
        Some(b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n")
    }
}

/// Requests that are sent once each.
pub(super) struct Queue {
    waiting: std::vec::IntoIter<String>,
    now: String,
}

impl Queue {
    /// Deals requests out to at most `connections` queues.
    pub(super) fn deal(requests: &[String], connections: usize) -> Vec<Self> {
        let share = requests.len().div_ceil(connections.max(1)).max(1);
        let shares = requests.chunks(share).map(<[String]>::to_vec);
        shares.map(|share| Self { waiting: share.into_iter(), now: String::new() }).collect()
    }
}

impl Work for Queue {
    const EXPECTED: &'static str = "{";

    fn next(&mut self) -> Option<&[u8]> {
        self.now = self.waiting.next()?;
        Some(self.now.as_bytes())
    }
}

/// Whose leases are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// One key of one account.
    Hot,
    /// All of [`SPREAD_KEYS`] keys of all of [`SPREAD_ACCOUNTS`] accounts in turn.
    Spread,
}

/// Accounts where admissions are spread.
pub(super) const SPREAD_ACCOUNTS: u64 = 1_000;
/// Keys of each.
pub(super) const SPREAD_KEYS: u64 = 10;

/// Admissions: each of a new lease of a new sandbox.
pub(super) struct Admissions {
    template: Template,
    keys: Keys,
    next: u64,
    step: u64,
}

impl Admissions {
    /// The work of `connections` connections, the numbers of leases from `from` on dealt out to them.
    pub(super) fn of(token: &str, keys: Keys, connections: u64, from: u64) -> Vec<Self> {
        let body = "{\"key\":\"k-####\",\"leases\":[{\"id\":\"l-############\",\"sandbox\":\"s-############\",\
            \"kind\":\"create\",\"vcpus\":1,\"memory_mib\":512,\"timeout_seconds\":3600}]}";
        let template = Template::new(post("/v1/accounts/a-####/leases", token, body));
        let one =
            |index| Self { template: template.clone(), keys, next: from.saturating_add(index), step: connections };
        (0..connections).map(one).collect()
    }

    /// The highest number that was used, or would be next.
    pub(super) fn highest(works: &[Self]) -> u64 {
        works.iter().map(|work| work.next).max().unwrap_or_default()
    }
}

impl Work for Admissions {
    const EXPECTED: &'static str = "\"worst_case_micros\"";

    fn next(&mut self) -> Option<&[u8]> {
        let number = self.next;
        self.next = number.saturating_add(self.step);
        let (account, key) = match self.keys {
            Keys::Hot => (0, 0),
            Keys::Spread => (number % SPREAD_ACCOUNTS, number / SPREAD_ACCOUNTS % SPREAD_KEYS),
        };
        for (place, number) in [account, key, number, number].into_iter().enumerate() {
            self.template.number(place, number);
        }
        Some(&self.template.text)
    }
}

/// Samples of one batch.
pub(super) const BATCH_SAMPLES: u64 = 1_000;
/// Between two samples of a lease, in milliseconds.
const SAMPLE_STEP_MS: i64 = 10_000;
/// vCPU-microseconds in that time: 100 millicores.
const SAMPLE_CPU_US: u64 = 1_000_000;

/// Batches of samples: in each, the next sample of every lease of this connection.
pub(super) struct Samples {
    template: Template,
    from: Timestamp,
    until: Timestamp,
    step: u64,
}

impl Samples {
    /// Batches of samples of the leases `first` and up of an account, from their start until `until`.
    pub(super) fn of(token: &str, account: &str, first: u64, from: Timestamp, until: Timestamp) -> Self {
        let sample = |number| {
            format!(
                "{{\"account\":\"{account}\",\"sandbox\":\"s-{number:012}\",\"lease\":\"l-{number:012}\",\
                 \"at\":\"########################\",\"cpu_usage_usec\":1###########}}"
            )
        };
        let numbers = first..first.saturating_add(BATCH_SAMPLES);
        let body = format!("[{}]", numbers.map(sample).collect::<Vec<_>>().join(","));
        Self { template: Template::new(post("/v1/samples", token, &body)), from, until, step: 0 }
    }
}

impl Work for Samples {
    const EXPECTED: &'static str = "\"rejected\":[]";

    fn next(&mut self) -> Option<&[u8]> {
        let step = i64::try_from(self.step).ok()?;
        let at = Timestamp::from_ms(self.from.ms().checked_add(step.checked_mul(SAMPLE_STEP_MS)?)?)?;
        if at > self.until {
            return None;
        }
        let (at, cpu_us) = (rfc3339(at), self.step.saturating_mul(SAMPLE_CPU_US));
        for place in (0..self.template.places.len()).step_by(2) {
            self.template.words(place, &at);
            self.template.number(place.saturating_add(1), cpu_us);
        }
        self.step = self.step.saturating_add(1);
        Some(&self.template.text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Admissions, Keys, Samples, Work};
    use crate::domain::time::Timestamp;

    #[test]
    fn admissions_of_all_connections_differ() {
        let mut works = Admissions::of("t", Keys::Spread, 2, 1_004);
        let texts: Vec<String> =
            works.iter_mut().map(|work| String::from_utf8(work.next().unwrap().to_vec()).unwrap()).collect();
        assert!(texts[0].starts_with("POST /v1/accounts/a-0004/leases "), "{}", texts[0]);
        assert!(texts[0].contains("\"k-0001\"") && texts[0].contains("\"l-000000001004\""), "{}", texts[0]);
        assert!(texts[1].contains("\"s-000000001005\""), "{}", texts[1]);
        assert_eq!(Admissions::highest(&works), 1_007);
    }

    #[test]
    fn samples_go_on_until_their_end() {
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        let mut work = Samples::of("t", "a", 1_000, at(0), at(10_000));
        work.next().unwrap();
        let text = String::from_utf8(work.next().unwrap().to_vec()).unwrap();
        assert_eq!(text.matches("\"1970-01-01T00:00:10.000Z\"").count(), 1_000);
        assert!(text.contains("\"l-000000001999\"") && text.contains(":100001000000}"), "{text}");
        assert!(work.next().is_none());
    }
}
