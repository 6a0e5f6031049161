//! Samples of one lease through several engines by turns: what one engine remembers, the other has changed.

use serde_json::{Value, json};

use super::{Fleet, Random};
use crate::harness::{Api, Backend, Engine, HOUR_S, Time, done, dump_tables, lease, made, sample, time, with};

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// What must be the same whoever took the samples.
const TABLES: [&str; 7] =
    ["account_days", "key_days", "leases", "sample_pages", "sandboxes", "usage_hours", "voided_samples"];

/// Leases that are sampled, in order mostly; and everything else that can happen to them. Answers what was answered.
async fn history(engine: &Engine, api: impl Fn(usize) -> Api, seed: u64) -> Vec<(u16, Value)> {
    let mut random = Random(seed);
    let mut pick = |bound: u64| usize::try_from(random.below(bound)).expect("small");
    let mut answers = Vec::new();
    let began = noon().plus_s(-1_800);
    made(engine.admin.key("acme", "limited", Some(9_000_000)).await);
    let asks: Vec<Value> = (0..6)
        .map(|number| {
            with(
                lease(&format!("l-{number}"), &format!("s-{number}"), 1, 1_024, HOUR_S),
                "starts_at",
                began.to_string(),
            )
        })
        .collect();
    made(api(0).admit("acme", "limited", &asks).await);
    let mut sampled = [0_i64; 6];
    let of = |number: usize, seconds: i64| {
        let (sandbox, id) = (format!("s-{number}"), format!("l-{number}"));
        sample("acme", &sandbox, &id, began.plus_s(seconds), 700_000 * seconds)
    };
    for step in 0..120 {
        let api = api(pick(3));
        let number = pick(6);
        let answer = match pick(30) {
            // One that was left out, one that was sent before, and one that says otherwise.
            0 => api.samples(&[of(number, sampled[number] - 5)]).await,
            1 => api.samples(&[of(number, sampled[number]), of((number + 1) % 6, sampled[(number + 1) % 6] + 3)]).await,
            2 => api.samples(&[with(of(number, sampled[number]), "cpu_usage_usec", 1)]).await,
            3 => {
                sampled[number] += 10;
                api.samples(&[with(of(number, sampled[number]), "storage_mib", 512)]).await
            }
            4 => api.extend("acme", &format!("l-{number}"), &format!("x-{step}"), 60).await,
            5 if step > 60 => api.end("acme", &format!("l-{number}"), None, "pause").await,
            // A counter that can't be.
            6 => api.samples(&[with(of(number, sampled[number] + 1), "cpu_usage_usec", 0)]).await,
            _ => {
                let all: Vec<Value> = (0..6)
                    .filter(|other| (step + other) % 7 != 0)
                    .map(|other| {
                        sampled[other] += 10;
                        of(other, sampled[other])
                    })
                    .collect();
                api.samples(&all).await
            }
        };
        answers.push(answer);
    }
    answers
}

async fn recalled(api: &Api) -> u64 {
    let text = api.raw("GET", "/metrics", &[], Vec::new()).await.text();
    let count = text.lines().find_map(|line| line.strip_prefix("runtab_ledger_recalls_total{outcome=\"right\"} "));
    count.expect("a count").parse().expect("a number")
}

#[tokio::test]
async fn samples_by_turns_are_taken_as_by_one_engine() {
    for seed in 1..=4 {
        let fleet = Fleet::start(2, noon()).await;
        let one = Engine::with_payer(Backend::Postgres, noon()).await;
        let plain = Engine::with_payer(Backend::Sqlite, noon()).await;
        let expected = history(&plain, |_| plain.admin.clone(), seed).await;
        assert_eq!(history(&one, |_| one.admin.clone(), seed).await, expected, "one engine, {seed}");
        assert_eq!(history(&fleet.first, |index| fleet.api(index), seed).await, expected, "two engines, {seed}");
        let tables = dump_tables(one.database(), &TABLES).await;
        assert!(tables.lines().count() > 100);
        assert_eq!(dump_tables(fleet.first.database(), &TABLES).await, tables, "{seed}");
        assert!(recalled(&one.admin).await > 10, "what is remembered is used");
        assert_eq!(recalled(&plain.admin).await, 0);
        one.assert_verified();
        fleet.first.assert_verified();
    }
}

/// A lease that another engine has ended is not sampled on, however well it is remembered.
#[tokio::test]
async fn what_another_engine_ended_is_ended() {
    let fleet = Fleet::start(2, noon()).await;
    let began = noon().plus_s(-1_800);
    let ask = with(lease("l", "s", 1, 1_024, HOUR_S), "starts_at", began.to_string());
    made(fleet.api(0).admit("acme", "ci", &[ask]).await);
    for number in 0..30 {
        let at = began.plus_s(10 * number);
        fleet.api(0).accepted(&[sample("acme", "s", "l", at, 10_000_000 * number)]).await;
    }
    assert!(recalled(&fleet.api(0)).await > 0);
    done(fleet.api(1).end("acme", "l", Some(began.plus_s(300)), "stop").await);
    let (_, body) = fleet.api(0).samples(&[sample("acme", "s", "l", began.plus_s(600), 600_000_000)]).await;
    // What is after an end says only what was used until then.
    assert_eq!(body["accepted"], 1, "{body}");
    let lease = fleet.api(1).lease("acme", "l").await;
    assert_eq!(lease["usage"]["run_ms"], "300000", "{lease}");
    fleet.first.assert_verified();
}

/// Free time that comes while leases are remembered is drawn by sandbox, then time, whatever is remembered.
#[tokio::test]
async fn free_time_that_comes_later_is_drawn_in_order() {
    let run = async |backend| {
        let engine = Engine::with_payer(backend, noon().plus_h(1)).await;
        let api = &engine.admin;
        let asks = [("l-1", "s-1", 8, 8_192), ("l-2", "s-2", 1, 1_024)].map(|(id, sandbox, vcpus, memory)| {
            with(lease(id, sandbox, vcpus, memory, 2 * HOUR_S), "starts_at", noon().to_string())
        });
        made(api.admit("acme", "ci", &asks).await);
        for minute in 1..4 {
            api.accepted(&[sample("acme", "s-2", "l-2", noon().plus_s(60 * minute), 60_000_000 * minute)]).await;
        }
        let grant = json!({"id": "g", "sandbox_hours": 1, "starts_on": "2026-11-10"});
        made(api.post("/v1/accounts/acme/grants", &grant).await);
        let at = noon().plus_s(3_540);
        let samples = [sample("acme", "s-1", "l-1", at, 60_000_000), sample("acme", "s-2", "l-2", at, 3_540_000_000)];
        api.accepted(&samples).await;
        engine.assert_verified();
        (api.lease("acme", "l-1").await, api.lease("acme", "l-2").await, api.balance("acme").await)
    };
    assert_eq!(run(Backend::Postgres).await, run(Backend::Sqlite).await);
}
