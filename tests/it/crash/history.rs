//! A month's beginning as eight accounts live it: 200 leases and 10,000 samples, in phases between which the clock moves.
//!
//! It has what a crash could spoil: free hours that run out, a limit that binds, leases over midnight, extensions,
//! samples out of order, duplicates, storage, counters that begin again, and ends that the last sample corrects.

use serde_json::{Value, json};

use super::random::Random;
use crate::harness::{HOUR_S, Time, lease, sample, time, with};

/// Accounts, each with a client of its own.
pub(crate) const ACCOUNTS: usize = 8;
/// How often each account starts leases.
const ROUNDS: i64 = 5;
/// Leases that each round starts.
const LEASES: i64 = 5;
/// Samples of a lease.
const SAMPLES: i64 = 50;
/// Phases of a round, an hour each.
const PHASES: i64 = 3;
/// Seconds between two samples of a lease: 50 make three hours.
const STEP_S: i64 = 216;
/// Hours from one round to the next.
const ROUND_H: i64 = 7;
/// Samples of one request.
const POST: usize = 30;

/// When the first lease starts.
pub(crate) fn start() -> Time {
    time("2026-11-10T05:00:00Z")
}

/// A request that changes something.
#[derive(Clone)]
pub(crate) struct Ask {
    /// Where it is posted.
    pub(crate) path: String,
    /// Its body.
    pub(crate) body: Value,
}

/// What happens while the clock stands at an instant.
pub(crate) struct Phase {
    /// The clock.
    pub(crate) now: Time,
    /// The requests of each account, one after another.
    pub(crate) asks: Vec<Vec<Ask>>,
}

/// The account of a number.
pub(crate) fn account(number: usize) -> String {
    format!("a-{number}")
}

/// The whole history; the same for a seed.
pub(crate) fn history(seed: u64) -> Vec<Phase> {
    let mut random = Random::new(seed);
    let mut phases = Vec::new();
    for round in 0..ROUNDS {
        let begin = start().plus_h(round * ROUND_H);
        let admissions = (0..ACCOUNTS).map(|number| admissions(&account(number), round)).collect();
        phases.push(Phase { now: begin, asks: admissions });
        for phase in 0..PHASES {
            let asks = (0..ACCOUNTS).map(|number| metering(&mut random, &account(number), round, phase)).collect();
            phases.push(Phase { now: begin.plus_h(phase + 1), asks });
        }
    }
    phases
}

fn id(round: i64, number: i64) -> String {
    format!("l-{round}-{number}")
}

/// Every other round wakes the sandboxes of the round before.
fn sandbox(round: i64, number: i64) -> String {
    format!("s-{}-{number}", round / 2)
}

fn admissions(account: &str, round: i64) -> Vec<Ask> {
    let path = format!("/v1/accounts/{account}/leases");
    let ask = |number: i64| {
        let one = lease(&id(round, number), &sandbox(round, number), 1 + number % 3, 1_024 * (1 + number), 3 * HOUR_S);
        with(one, "host", "h-1")
    };
    let together = |numbers: &[i64]| numbers.iter().map(|number| ask(*number)).collect::<Vec<Value>>();
    let admit = |key: &str, leases: Vec<Value>| Ask { path: path.clone(), body: json!({"key": key, "leases": leases}) };
    let over = lease(&format!("over-{round}"), &format!("over-{round}"), 64, 131_072, 24 * HOUR_S);
    vec![
        admit("ci", together(&[0, 1, 2])),
        admit("capped", vec![over]),
        admit("capped", together(&[3])),
        admit("ci", together(&[4])),
    ]
}

fn metering(random: &mut Random, account: &str, round: i64, phase: i64) -> Vec<Ask> {
    let begin = start().plus_h(round * ROUND_H);
    let (from, to) = (phase * SAMPLES / PHASES, (phase + 1) * SAMPLES / PHASES);
    let mut samples = Vec::new();
    for number in 0..LEASES {
        for index in from..to {
            samples.push(reading(account, round, number, index, begin.plus_s((index + 1) * STEP_S)));
        }
    }
    // Mostly in order, but for some that come late, some of them twice.
    let mut late: Vec<Value> = Vec::new();
    for _ in 0..6 {
        let place = random.index(samples.len());
        late.push(samples.remove(place));
    }
    let twice = samples[random.index(samples.len())].clone();
    samples.sort_by_key(|sample| sample["at"].as_str().map(str::to_owned));
    random.shuffle(&mut late);
    samples.extend(late);
    samples.push(twice);
    let posts = samples.chunks(POST).map(|post| Ask { path: "/v1/samples".to_owned(), body: json!(post) });
    let mut asks: Vec<Ask> = posts.collect();
    let to_lease = |number: i64, verb: &str| format!("/v1/accounts/{account}/leases/{}/{verb}", id(round, number));
    if phase == 1 {
        let body = json!({"id": "x-1", "timeout_seconds": 1_800, "max_cost_micros": null});
        asks.push(Ask { path: to_lease(0, "extend"), body });
    }
    if phase == PHASES - 1 {
        // The last two ends come before the last samples do, and are corrected by them.
        let end = |number: i64, reason: &str| {
            let at = begin.plus_h(PHASES).plus_s(-number);
            Ask { path: to_lease(number, "end"), body: json!({"ended_at": at.to_string(), "reason": reason}) }
        };
        asks.insert(0, end(3, "stop"));
        asks.insert(1, end(4, "pause"));
        asks.extend([end(0, "stop"), end(1, "pause"), end(2, "stop")]);
    }
    asks
}

/// What a host saw: a busy stretch in the middle; the fourth lease's counter begins again there; storage grows.
fn reading(account: &str, round: i64, number: i64, index: i64, at: Time) -> Value {
    let half = SAMPLES / 2;
    let (epoch, steps) = if number == 3 && index >= half { (1, index - half) } else { (0, index + 1) };
    let busy = (steps - 10).clamp(0, 8);
    let cpu_usec = STEP_S * 1_000 * (steps * 7 * (number + 1) + busy * 600);
    let one = sample(account, &sandbox(round, number), &id(round, number), at, cpu_usec);
    let one = with(one, "epoch", epoch);
    if index % 10 == 0 { with(one, "storage_mib", 100 + 10 * index + number) } else { one }
}
