//! What was measured, as a table and as JSON. Medians over rounds; ratios are of figures of one round.

use serde::Serialize;

use super::load::Pace;
use crate::cli::format::{Align, Table, grouped, pad};

/// One measured figure with its neighbours of the same round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Units a second.
    pub(super) per_second: u64,
    /// Median time of an answer, in microseconds.
    pub(super) p50_us: u64,
    /// 99th percentile, in microseconds.
    pub(super) p99_us: u64,
    /// What the yardstick made in this round, a second.
    pub(super) yardstick_per_second: Option<u64>,
}

impl Round {
    /// A round of requests that carry so many units each.
    pub(super) fn of(pace: Pace, units: u64, yardstick: Option<Pace>) -> Self {
        Self {
            per_second: pace.per_second(units),
            p50_us: pace.p50_us,
            p99_us: pace.p99_us,
            yardstick_per_second: yardstick.map(|pace| pace.per_second(1)),
        }
    }

    fn ratio_thousandths(&self) -> Option<u64> {
        self.yardstick_per_second.and_then(|yardstick| self.per_second.saturating_mul(1_000).checked_div(yardstick))
    }
}

/// A row of the report: medians.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// What was done.
    what: String,
    /// On how many connections.
    connections: usize,
    /// How many engines answered; 0 for the yardstick.
    engines: usize,
    /// Units a second: requests, admissions or samples.
    per_second: u64,
    /// Median time of an answer, in microseconds.
    p50_us: u64,
    /// 99th percentile, in microseconds.
    p99_us: u64,
    /// Thousandths of the hello-world server's requests in the same round on as many connections.
    of_hello_thousandths: Option<u64>,
}

/// Resident memory of an engine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    /// Running leases.
    pub(super) leases: u64,
    /// Right after the start, in KiB.
    pub(super) empty_kib: u64,
    /// With the leases admitted, in KiB.
    pub(super) admitted_kib: u64,
    /// After a sample of each, in KiB.
    pub(super) sampled_kib: u64,
}

/// The whole report.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    /// The back end and its durability.
    pub(super) database: String,
    /// Processors that this process may use.
    pub(super) processors: usize,
    /// `/proc/loadavg` before and after: what else was going on.
    pub(super) load_before: String,
    /// The same after.
    pub(super) load_after: String,
    /// Rounds, and seconds of each measurement in a round.
    pub(super) rounds: usize,
    /// Seconds of each measurement in a round.
    pub(super) seconds: u64,
    /// The rows.
    pub(super) rows: Vec<Row>,
    /// Memory, if it was measured.
    pub(super) memory: Option<Memory>,
}

fn median(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl Row {
    /// The medians of some rounds.
    pub(super) fn of(what: &str, connections: usize, engines: usize, rounds: &[Round]) -> Self {
        let of = |figure: fn(&Round) -> u64| median(rounds.iter().map(figure)).unwrap_or_default();
        Self {
            what: what.to_owned(),
            connections,
            engines,
            per_second: of(|round| round.per_second),
            p50_us: of(|round| round.p50_us),
            p99_us: of(|round| round.p99_us),
            of_hello_thousandths: median(rounds.iter().filter_map(Round::ratio_thousandths)),
        }
    }
}

fn ms(us: u64) -> String {
    format!("{}.{:02}", us / 1_000, us % 1_000 / 10)
}

impl Report {
    /// The report for people's eyes.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("database    {}", self.database),
            format!("processors  {}, shared by the engine, the client and the database", self.processors),
            format!("load        {} before, {} after", self.load_before, self.load_after),
            format!("medians     of {} rounds of {} s each; of hello: in the same round", self.rounds, self.seconds),
            String::new(),
        ];
        let columns = [("what", Align::Left), ("connections", Align::Right), ("engines", Align::Right)];
        let figures = ["a second", "p50 ms", "p99 ms", "of hello"].map(|name| (name, Align::Right));
        let mut table = Table::new(&[&columns[..], &figures].concat());
        for row in &self.rows {
            let engines = if row.engines == 0 { String::new() } else { row.engines.to_string() };
            let ratio =
                row.of_hello_thousandths.map_or_else(String::new, |of| format!("{}.{:03}", of / 1_000, of % 1_000));
            table.row(vec![
                row.what.clone(),
                row.connections.to_string(),
                engines,
                grouped(row.per_second),
                ms(row.p50_us),
                ms(row.p99_us),
                ratio,
            ]);
        }
        lines.extend(table.lines());
        if let Some(memory) = &self.memory {
            let mib = |kib: u64| format!("{} MiB", kib / 1_024);
            lines.push(String::new());
            lines.push(format!("resident memory of an engine with {} running leases", grouped(memory.leases)));
            for (name, kib) in
                [("started", memory.empty_kib), ("admitted", memory.admitted_kib), ("sampled", memory.sampled_kib)]
            {
                lines.push(format!("  {} {}", pad(name, 10), mib(kib)));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{Round, Row, median};

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median([3, 1, 2]), Some(2));
        assert_eq!(median([4, 1]), Some(1));
        assert_eq!(median([]), None);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let round =
            |per_second, yardstick| Round { per_second, p50_us: 1, p99_us: 2, yardstick_per_second: Some(yardstick) };
        let row = Row::of("x", 1, 1, &[round(10, 100), round(30, 60), round(20, 100)]);
        assert_eq!((row.per_second, row.of_hello_thousandths), (20, Some(200)));
    }
}
