//! For a hundred seeds, with requests and answers lost, delayed, doubled and reordered between agent and engine, and the
//! agent killed now and then: the bill is what the counters prove.

use serde_json::Value;
use tokio::task::JoinSet;

use super::faults::FaultProxy;
use super::rig::{Rig, document};
use crate::crash::random::Random;
use crate::harness::{Api, Backend, Engine, HOUR_S, Time, lease, made, on_each_backend, quantity, time};

on_each_backend!(a_hundred_seeds_bill_what_the_counters_prove);

const SEEDS: u64 = 100;
/// Sandboxes of each seed's host.
const SANDBOXES: usize = 3;
const MINUTES: i64 = 12;
/// What a minute costs at least, in vCPU-microseconds: 50 millicores.
const FLOOR_US: i64 = 3_000_000;

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// What a sandbox does (less than its vCPU can, so that no rounding of a label cuts any): how much CPU in each minute, and in which minute its group is made again.
struct Life {
    name: String,
    rates_us: Vec<i64>,
    made_again: i64,
    /// What it used before its counter began again, and in all.
    before_us: i64,
    used_us: i64,
}

impl Life {
    fn new(seed: u64, number: usize, random: &mut Random) -> Self {
        let rate = |random: &mut Random| i64::try_from(random.below(50_000_000)).expect("a rate");
        let rates_us = (0..MINUTES).map(|_| if random.below(3) == 0 { 0 } else { rate(random) }).collect();
        let made_again = i64::try_from(random.below(20)).expect("a minute");
        Self { name: format!("s-{seed}-{number}"), rates_us, made_again, before_us: 0, used_us: 0 }
    }

    /// What it used within so many seconds.
    fn used_after_s(&self, seconds: i64) -> i64 {
        let (minutes, rest) = (seconds / 60, seconds % 60);
        let whole: i64 = self.rates_us.iter().take(usize::try_from(minutes).expect("a count")).sum();
        let partial = self.rates_us.get(usize::try_from(minutes).expect("an index")).map_or(0, |rate| rate * rest / 60);
        whole + partial
    }

    /// What its bill must be: CPU measured and CPU billed.
    fn truth(&self) -> (i64, i64) {
        (self.rates_us.iter().sum(), self.rates_us.iter().map(|rate| FLOOR_US.max(*rate)).sum())
    }
}

/// Plays a seed's host through faults until everything is answered.
async fn play(seed: u64, target: String, token: String) -> (Vec<Life>, u64) {
    let mut random = Random::new(seed);
    let proxy = FaultProxy::before(&target, seed, 3).await;
    let mut rig = Rig::start(&proxy.url, &token, noon());
    let mut lives: Vec<Life> = (0..SANDBOXES).map(|number| Life::new(seed, number, &mut random)).collect();
    for life in &lives {
        rig.world.set_s(&life.name, 0);
        rig.write(&document(&life.name, Some((&life.name, noon()))));
    }
    rig.read_at(noon().plus_ms(1));
    for step in 1..=MINUTES * 3 {
        let seconds = step * 20;
        for life in &mut lives {
            life.used_us = life.used_after_s(seconds);
            rig.world.set_us(&life.name, life.used_us - life.before_us);
            if seconds == MINUTES * 60 {
                rig.world.exit(&life.name);
            }
        }
        if random.below(8) == 0 {
            rig.restart();
        }
        rig.read_at(noon().plus_s(seconds));
        for life in &mut lives {
            if seconds == life.made_again * 60 && seconds < MINUTES * 60 {
                // Its end was read; the new group is found a moment later, at nothing.
                life.before_us = life.used_us;
                rig.world.make_again(&life.name);
            }
        }
        if lives.iter().any(|life| seconds == life.made_again * 60) {
            rig.read_at(noon().plus_s(seconds).plus_ms(1));
        }
        for _ in 0..random.below(3) {
            rig.push_once().await;
        }
        if random.below(10) == 0 {
            rig.restart();
        }
    }
    proxy.heal();
    rig.push_all().await;
    assert_eq!(rig.unanswered_rows(), 0);
    assert_eq!(rig.set_aside(), Vec::<String>::new(), "seed {seed}");
    (lives, proxy.faults())
}

fn assert_bill(bill: &Value, life: &Life) {
    let (used_us, billed_us) = life.truth();
    let run_ms = MINUTES * 60_000;
    let expected = [used_us, billed_us, run_ms, 1_024 * run_ms].map(i128::from);
    let figures = ["cpu_used_us", "cpu_us", "run_ms", "memory_mib_ms"].map(|name| quantity(bill, name));
    assert_eq!(figures, expected, "{}", life.name);
}

async fn admit(api: &Api) {
    for seed in 0..SEEDS {
        let leases: Vec<Value> = (0..SANDBOXES)
            .map(|number| format!("s-{seed}-{number}"))
            .map(|name| lease(&name, &name, 1, 1_024, HOUR_S))
            .collect();
        made(api.admit("acme", "ci", &leases).await);
    }
}

async fn a_hundred_seeds_bill_what_the_counters_prove(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    admit(&engine.admin).await;
    let token = engine.host_token("h-1");
    engine.set_clock(noon().plus_s(MINUTES * 60)).await;
    let mut faults = 0;
    let mut left = 0..SEEDS;
    let mut playing = JoinSet::new();
    loop {
        while playing.len() < 4
            && let Some(seed) = left.next()
        {
            playing.spawn(play(seed, engine.admin.base().to_owned(), token.clone()));
        }
        let Some(played) = playing.join_next().await else { break };
        let (lives, met) = played.expect("a seed");
        faults += met;
        for life in lives {
            assert_bill(&engine.admin.lease("acme", &life.name).await, &life);
        }
    }
    assert!(faults > SEEDS * 5, "only {faults} faults");
    engine.assert_verified();
}
