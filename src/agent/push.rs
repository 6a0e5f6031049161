//! The half of the agent that sends: which batch goes to which server, and what its answer means. No tasks and no clock of
//! its own, so that tests drive it.
//!
//! One request is under way at a time, so a lease's samples keep their order. What is not answered is sent again as it was,
//! to the next server; an answer counts only if it accounts for every row. What a server refuses by name is set aside.

use std::io;

use super::meter::{SharedSpool, locked};
use super::schedule::Backoff;
use super::spool::{Batch, Rejected, lines, text};
use crate::domain::sample::RejectCode;
use crate::domain::time::Timestamp;
use crate::telemetry::agent::{AgentMetrics, whole};
use crate::wire::time::show_time;

/// Most bytes of a batch's rows when inflated: far more than 10,000 rows have.
const INFLATED_BYTES_MAX: u64 = 64 * 1_024 * 1_024;

/// What a server said of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows that are in the ledger now.
    pub accepted: u64,
    /// Rows that were there already.
    pub duplicates: u64,
    /// Rows that were not used.
    pub rejected: Vec<Rejection>,
}

/// A row that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// The code.
    pub code: String,
    /// What is wrong with it, for people.
    pub detail: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A server has answered for each row.
    Answered(Answer),
    /// It is not known whether it was taken, or it was not: to be sent again.
    Later {
        /// What happened, for people.
        why: String,
        /// How long the server asks to wait, in milliseconds.
        retry_after_ms: Option<i64>,
    },
    /// A server takes nothing of it, whatever is tried: it is too large, or no batch of samples at all.
    Refused {
        /// What it said, for people.
        why: String,
        /// Whether less at once might be taken.
        too_large: bool,
    },
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Milliseconds to wait; `None`: until the host's next moment.
    pub wait_ms: Option<i64>,
    /// The server refused rows as being of the future: its clock and ours disagree.
    pub future: bool,
}

/// The half that sends.
#[derive(Debug)]
pub struct Pusher {
    spool: SharedSpool,
    rejected: Rejected,
    servers: Vec<String>,
    server: usize,
    backoff: Backoff,
    rows_max: u64,
    /// How many rows are sent at once now: fewer after a refusal of a whole batch.
    rows_now: u64,
    metrics: AgentMetrics,
    trouble: Option<String>,
}

impl Pusher {
    /// A pusher of a spool to servers, of which there is at least one.
    #[must_use]
    pub fn new(
        spool: SharedSpool,
        rejected: Rejected,
        servers: Vec<String>,
        backoff: Backoff,
        rows_max: u64,
        metrics: AgentMetrics,
    ) -> Self {
        Self { spool, rejected, servers, server: 0, backoff, rows_max, rows_now: rows_max, metrics, trouble: None }
    }

    /// What is to be sent now, and where; `None`: everything is answered.
    pub fn take(&mut self) -> io::Result<Option<(String, Batch)>> {
        let batch = locked(&self.spool).next_batch(self.rows_now)?;
        let server = self.servers.get(self.server).or(self.servers.first()).cloned().unwrap_or_default();
        Ok(batch.map(|batch| (server, batch)))
    }

    /// What is wrong with sending, for people.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// How many requests failed in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// Takes the outcome of a batch that [`Pusher::take`] gave.
    pub fn sent(&mut self, batch: &Batch, outcome: Outcome, now: Timestamp) -> io::Result<Next> {
        match outcome {
            Outcome::Answered(answer) if adds_up(batch, &answer) => self.answered(batch, &answer, now),
            Outcome::Answered(_) => Ok(self.later("an answer that does not account for every sample".to_owned(), None)),
            Outcome::Later { why, retry_after_ms } => Ok(self.later(why, retry_after_ms)),
            Outcome::Refused { why, too_large } => self.refused(batch, &why, too_large, now),
        }
    }

    fn answered(&mut self, batch: &Batch, answer: &Answer, now: Timestamp) -> io::Result<Next> {
        if !answer.rejected.is_empty() {
            // Aside first: a crash between the two asks the server again, which refuses the same.
            let text = text(&batch.body, INFLATED_BYTES_MAX)?;
            let rows: Vec<&str> = text.lines().collect();
            let row = |rejection: &Rejection| rows.get(rejection.index).copied().unwrap_or_default();
            let rejected = answer.rejected.iter();
            let aside = rejected.map(|rejection| (&*rejection.code, &*rejection.detail, row(rejection)));
            self.rejected.set_aside(&show_time(now), aside)?;
            tracing::warn!(samples = answer.rejected.len(), "samples were refused by name and set aside");
        }
        let left = {
            let mut spool = locked(&self.spool);
            spool.answered(batch)?;
            spool.unanswered_rows()
        };
        self.metrics.unanswered.set(whole(left));
        self.metrics.requests.with_label_values(&["answered"]).inc();
        self.metrics.answers.with_label_values(&["accepted"]).inc_by(answer.accepted);
        self.metrics.answers.with_label_values(&["duplicate"]).inc_by(answer.duplicates);
        for rejection in &answer.rejected {
            self.metrics.answers.with_label_values(&[known_code(&rejection.code)]).inc();
        }
        self.metrics.answered_at.set(now.ms().div_euclid(1_000));
        if self.trouble.take().is_some() {
            tracing::info!(failures = self.backoff.failures(), "a server answers again");
        }
        self.backoff.worked();
        self.rows_now = self.rows_now.saturating_mul(2).clamp(1, self.rows_max);
        let future = answer.rejected.iter().any(|rejection| rejection.code == RejectCode::Future.as_str());
        Ok(Next { wait_ms: (left > 0).then_some(0), future })
    }

    fn later(&mut self, why: String, retry_after_ms: Option<i64>) -> Next {
        self.metrics.requests.with_label_values(&["later"]).inc();
        let wait_ms = self.backoff.failed(retry_after_ms);
        tracing::warn!(why, wait_ms, failures = self.backoff.failures(), "samples are sent again");
        self.trouble = Some(why);
        self.server = self.server.saturating_add(1).checked_rem(self.servers.len()).unwrap_or(0);
        Next { wait_ms: Some(wait_ms), future: false }
    }

    /// Fewer at once, down to one record; what is refused alone and is not too large is set aside.
    fn refused(&mut self, batch: &Batch, why: &str, too_large: bool, now: Timestamp) -> io::Result<Next> {
        self.metrics.requests.with_label_values(&["refused"]).inc();
        let records = batch.next.saturating_sub(batch.first);
        if records > 1 {
            self.rows_now = if too_large { batch.rows.div_euclid(2).max(1) } else { 1 };
            locked(&self.spool).choose_again()?;
            return Ok(Next { wait_ms: Some(0), future: false });
        }
        if too_large {
            return Ok(self.later(format!("{why}: the server takes less than {} samples at once", batch.rows), None));
        }
        let rows = lines(&batch.body, INFLATED_BYTES_MAX).unwrap_or_default();
        let aside = rows.iter().map(|row| ("invalid_request", why, &**row));
        self.rejected.set_aside(&show_time(now), aside)?;
        locked(&self.spool).answered(batch)?;
        self.metrics.answers.with_label_values(&["invalid_request"]).inc_by(batch.rows);
        tracing::error!(why, samples = batch.rows, "a server refused a batch as a whole; it was set aside");
        Ok(Next { wait_ms: Some(0), future: false })
    }
}

fn adds_up(batch: &Batch, answer: &Answer) -> bool {
    let rejected = u64::try_from(answer.rejected.len()).unwrap_or(u64::MAX);
    let within = |rejection: &Rejection| u64::try_from(rejection.index).is_ok_and(|index| index < batch.rows);
    let sum = answer.accepted.checked_add(answer.duplicates).and_then(|sum| sum.checked_add(rejected));
    sum == Some(batch.rows) && answer.rejected.iter().all(within)
}

/// A code as a label: one that this program knows, so that a server can't make labels without end.
fn known_code(code: &str) -> &str {
    RejectCode::ALL.iter().map(|known| known.as_str()).find(|known| *known == code).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{Answer, Next, Outcome, Pusher, Rejection};
    use crate::agent::meter::locked;
    use crate::agent::schedule::Backoff;
    use crate::agent::spool::{Limits, Rejected, Spool, lines, parts};
    use crate::domain::time::Timestamp;
    use crate::telemetry::agent::AgentMetrics;

    const NOW: Timestamp = Timestamp::EPOCH;

    fn pusher(folder: &tempfile::TempDir, rounds: i64) -> Pusher {
        let limits =
            Limits { bytes_max: 1 << 20, segment_bytes_max: 1 << 18, unanswered_ms_max: 1_000, answered_ms: 1_000 };
        let mut spool = Spool::open(folder.path(), limits).unwrap();
        for round in 0..rounds {
            let rows: Vec<String> = (0..10).map(|row| format!(r#"{{"row":{}}}"#, round * 10 + row)).collect();
            spool.append(&parts(&rows, round).unwrap()).unwrap();
        }
        let servers = ["http://a".to_owned(), "http://b".to_owned()].to_vec();
        let rejected = Rejected::new(folder.path(), 1 << 20);
        let metrics = AgentMetrics::new().unwrap();
        Pusher::new(Arc::new(Mutex::new(spool)), rejected, servers, Backoff::new(100, 1_000, 1), 1_000, metrics)
    }

    fn answer(accepted: u64, duplicates: u64, rejected: &[(usize, &str)]) -> Outcome {
        let rejection = |(index, code): &(usize, &str)| Rejection {
            index: *index,
            code: (*code).to_owned(),
            detail: "d".to_owned(),
        };
        Outcome::Answered(Answer { accepted, duplicates, rejected: rejected.iter().map(rejection).collect() })
    }

    fn later() -> Outcome {
        Outcome::Later { why: "no".to_owned(), retry_after_ms: None }
    }

    fn aside(folder: &tempfile::TempDir) -> String {
        std::fs::read_to_string(folder.path().join("rejected.ndjson")).unwrap_or_default()
    }

    #[test]
    fn what_is_answered_is_gone_and_what_is_refused_by_name_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let mut pusher = pusher(&folder, 2);
        let (_, batch) = pusher.take().unwrap().unwrap();
        assert_eq!(batch.rows, 20);
        let next = pusher.sent(&batch, answer(15, 3, &[(4, "stale_epoch"), (17, "surprise")]), NOW).unwrap();
        assert_eq!(next, Next { wait_ms: None, future: false });
        assert!(pusher.take().unwrap().is_none());
        assert!(aside(&folder).contains(r#""row":{"row":4}"#) && aside(&folder).contains(r#""row":{"row":17}"#));
        let text = String::from_utf8(pusher.metrics.exposition().unwrap()).unwrap();
        assert!(text.contains(r#"outcome="stale_epoch"} 1"#) && text.contains(r#"outcome="other"} 1"#), "{text}");
    }

    #[test]
    fn an_answer_that_does_not_add_up_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut pusher = pusher(&folder, 1);
        for wrong in [answer(9, 0, &[]), answer(0, 0, &[]), answer(9, 0, &[(10, "future")]), answer(u64::MAX, 11, &[])]
        {
            let (_, batch) = pusher.take().unwrap().unwrap();
            assert!(pusher.sent(&batch, wrong, NOW).unwrap().wait_ms.is_some());
            assert_eq!(locked(&pusher.spool).unanswered_rows(), 10);
        }
        assert!(pusher.trouble().is_some());
    }

    #[test]
    fn servers_are_tried_in_turn_with_the_same_bytes_and_one_that_answers_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut pusher = pusher(&folder, 2);
        let mut tried = Vec::new();
        let (_, first) = pusher.take().unwrap().unwrap();
        for _ in 0..3 {
            let (server, batch) = pusher.take().unwrap().unwrap();
            assert_eq!(batch, first);
            tried.push(server);
            assert!(pusher.sent(&batch, later(), NOW).unwrap().wait_ms.unwrap() <= 1_000);
        }
        assert_eq!(tried, ["http://a", "http://b", "http://a"]);
        assert_eq!(pusher.failures(), 3);
        let (server, batch) = pusher.take().unwrap().unwrap();
        pusher.sent(&batch, answer(20, 0, &[]), NOW).unwrap();
        assert_eq!((server.as_str(), pusher.failures()), ("http://b", 0));
        let rows = parts(&[r#"{"row":0}"#.to_owned()], 9).unwrap();
        locked(&pusher.spool).append(&rows).unwrap();
        assert_eq!(pusher.take().unwrap().unwrap().0, "http://b");
    }

    #[test]
    fn a_batch_that_is_refused_as_a_whole_is_taken_apart_and_only_its_bad_part_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let mut pusher = pusher(&folder, 4);
        let mut taken = Vec::new();
        while let Some((_, batch)) = pusher.take().unwrap() {
            let rows = lines(&batch.body, 10_000).unwrap();
            // The server can't read the third record.
            let bad = rows.iter().any(|row| row == r#"{"row":25}"#);
            let refused = Outcome::Refused { why: "no JSON".to_owned(), too_large: false };
            let outcome = if bad { refused } else { answer(batch.rows, 0, &[]) };
            if !bad {
                taken.extend(rows);
            }
            assert!(!pusher.sent(&batch, outcome, NOW).unwrap().future);
        }
        assert_eq!(taken.len(), 30);
        assert_eq!(aside(&folder).lines().count(), 10);
    }

    #[test]
    fn a_server_that_takes_less_gets_less_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let mut pusher = pusher(&folder, 8);
        let mut taken = 0;
        for _ in 0..100 {
            let Some((_, batch)) = pusher.take().unwrap() else { break };
            let refused = Outcome::Refused { why: "413".to_owned(), too_large: true };
            let fits = batch.rows <= 20;
            taken += if fits { batch.rows } else { 0 };
            pusher.sent(&batch, if fits { answer(batch.rows, 0, &[]) } else { refused }, NOW).unwrap();
        }
        assert_eq!((taken, aside(&folder)), (80, String::new()));
    }

    #[test]
    fn labels_of_the_future_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut pusher = pusher(&folder, 1);
        let (_, batch) = pusher.take().unwrap().unwrap();
        assert!(pusher.sent(&batch, answer(9, 0, &[(9, "future")]), NOW).unwrap().future);
    }
}
