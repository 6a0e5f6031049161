//! Leases that make sandboxes are taken for new without looking; what is answered is the same as if all were looked up,
//! as those that wake sandboxes are.

use serde_json::{Value, json};

use crate::harness::{Api, Backend, Engine, HOUR_S, Time, dump_tables, lease, made, on_each_backend, time, with};

on_each_backend!(
    creates_and_wakes_are_answered_alike,
    what_was_refused_and_what_is_known_is_told_so,
    one_sandbox_for_many_callers_runs_once,
    what_was_changed_counts_for_whoever_comes_next
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// A lease of 80,000 microdollars.
fn ask(kind: &str, id: &str, sandbox: &str) -> Value {
    with(lease(id, sandbox, 2, 4_096, HOUR_S), "kind", kind)
}

async fn customer(api: &Api, account: &str) {
    made(api.account(account, true).await);
    made(api.key(account, "ci", Some(450_000)).await);
}

/// What an account can meet after a few leases that were new, each in turn.
async fn meet(api: &Api, account: &str, kind: &str, turn: usize) -> (u16, Value) {
    let ask = |id: &str, sandbox: &str| ask(kind, id, sandbox);
    let admit = async |leases: &[Value]| api.admit(account, "ci", leases).await;
    match turn {
        // The same again; with other content; one known and one not; a known sandbox that runs.
        0 => admit(&[ask("l-1", "s-1")]).await,
        1 => admit(&[with(ask("l-1", "s-1"), "vcpus", 1)]).await,
        2 => admit(&[ask("l-1", "s-1"), ask("l-9", "s-9")]).await,
        3 => admit(&[ask("l-9", "s-1")]).await,
        // A sandbox that rests, and one that is gone.
        4 => admit(&[ask("l-9", "s-2")]).await,
        5 => admit(&[ask("l-9", "s-3")]).await,
        6 => admit(&[with(ask("l-9", "s-3"), "starts_at", noon().plus_s(-60).to_string())]).await,
        // In another's place.
        7 => admit(&[with(ask("l-9", "s-1"), "replaces", "l-1")]).await,
        8 => admit(&[with(ask("l-9", "s-9"), "replaces", "l-1")]).await,
        // More than the key may spend, more than the lease may cost, a window that may not be; and two on one sandbox.
        9 => admit(&[ask("l-7", "s-7"), ask("l-8", "s-8"), ask("l-9", "s-9"), ask("l-10", "s-10")]).await,
        10 => admit(&[with(ask("l-9", "s-9"), "max_cost_micros", 79_999)]).await,
        11 => admit(&[with(ask("l-9", "s-9"), "starts_at", noon().plus_h(-2).to_string())]).await,
        12 => admit(&[ask("l-8", "s-9"), ask("l-9", "s-9")]).await,
        13 => api.admit(account, "none", &[ask("l-9", "s-9")]).await,
        14 => api.admit("nobody", "ci", &[ask("l-9", "s-9")]).await,
        _ => api.quote(account, "ci", &[ask("l-1", "s-1"), ask("l-9", "s-9")]).await,
    }
}

async fn history(engine: &Engine, kind: &str) -> Vec<(u16, String)> {
    let api = &engine.admin;
    let mut answers = Vec::new();
    for turn in 0..16 {
        let account = format!("acme-{turn}");
        customer(api, &account).await;
        for number in 1..=3 {
            let leases = [ask(kind, &format!("l-{number}"), &format!("s-{number}"))];
            answers.push(api.admit(&account, "ci", &leases).await);
        }
        answers.push(api.end(&account, "l-2", None, "pause").await);
        answers.push(api.end(&account, "l-3", None, "delete").await);
        answers.push(meet(api, &account, kind, turn).await);
        answers.push(api.admit(&account, "ci", &[ask(kind, "l-20", "s-20")]).await);
        answers.push(api.get(&format!("/v1/accounts/{account}/balance")).await);
    }
    let told = |(status, body): (u16, Value)| (status, body.to_string().replace(kind, "KIND"));
    answers.into_iter().map(told).collect()
}

async fn creates_and_wakes_are_answered_alike(backend: Backend) {
    let (creates, wakes) = (Engine::start(backend, noon()).await, Engine::start(backend, noon()).await);
    let (created, woken) = (history(&creates, "create").await, history(&wakes, "wake").await);
    for (place, (created, woken)) in created.iter().zip(&woken).enumerate() {
        assert_eq!(created, woken, "turn {}, answer {}", place / 8, place % 8);
    }
    let statuses: std::collections::BTreeSet<u16> = created.iter().map(|(status, _)| *status).collect();
    assert!([200, 201, 402, 404, 409, 422].iter().all(|status| statuses.contains(status)), "{statuses:?}");
    let left = async |engine: &Engine, kind: &str| {
        let tables = ["account_days", "key_days", "leases", "refusals", "sandboxes", "usage_hours"];
        dump_tables(engine.database(), &tables).await.replace(kind, "KIND")
    };
    assert_eq!(left(&creates, "create").await, left(&wakes, "wake").await);
    let (right, in_vain) = taken_for_new(&creates.admin).await;
    assert!(right > 30 && in_vain > 10, "{right} right, {in_vain} in vain");
    assert_eq!(taken_for_new(&wakes.admin).await, (0, 0));
    creates.assert_verified();
}

/// Batches that took admissions for new: rightly, and in vain.
async fn taken_for_new(api: &Api) -> (u64, u64) {
    let text = api.raw("GET", "/metrics", &[], Vec::new()).await.text();
    let count = |outcome: &str| {
        let name = format!("runtab_ledger_taken_for_new_total{{outcome=\"{outcome}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&name)).expect("a count");
        count.parse().expect("a number")
    };
    (count("right"), count("in_vain"))
}

async fn what_was_refused_and_what_is_known_is_told_so(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let api = &engine.admin;
    customer(api, "acme").await;
    let five: Vec<Value> = (0..5).map(|number| ask("create", &format!("l-{number}"), &format!("s-{number}"))).collect();
    made(api.admit("acme", "ci", &five).await);
    // What is known is told though nothing more would fit.
    let (status, body) = api.admit("acme", "ci", &five).await;
    assert_eq!((status, body["leases"].as_array().map(Vec::len)), (200, Some(5)), "{body}");
    let (status, body) = api.admit("acme", "ci", &[ask("create", "l-9", "s-9")]).await;
    assert_eq!((status, &body["code"]), (402, &json!("spending_limit_reached")), "{body}");
    let (status, body) = api.admit("acme", "ci", &[ask("create", "l-9", "s-1")]).await;
    assert_eq!((status, &body["code"]), (409, &json!("lease_running")), "{body}");
}

async fn one_sandbox_for_many_callers_runs_once(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    made(engine.admin.account("acme", true).await);
    made(engine.admin.key("acme", "ci", None).await);
    for round in 0..5 {
        let mut callers = tokio::task::JoinSet::new();
        for number in 0..12 {
            let api = engine.admin.clone();
            callers.spawn(async move {
                let ask = ask("create", &format!("l-{round}-{number}"), &format!("s-{round}"));
                api.admit("acme", "ci", &[ask]).await.0
            });
        }
        let mut statuses = callers.join_all().await;
        statuses.sort_unstable();
        assert_eq!(statuses, [vec![201], vec![409; 11]].concat());
    }
    engine.assert_verified();
}

/// However busy the gate is: a limit, a revoked key, a revoked token are so from their answer on.
async fn what_was_changed_counts_for_whoever_comes_next(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let api = &engine.admin;
    customer(api, "acme").await;
    made(api.key("acme", "busy", None).await);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..12 {
        let (api, stop) = (api.clone(), std::sync::Arc::clone(&stop));
        callers.spawn(async move {
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let ask = ask("create", &format!("b-{caller}-{number}"), &format!("b-{caller}-{number}"));
                made(api.admit("acme", "busy", &[ask]).await);
            }
            number
        });
    }
    for round in 0..15 {
        let limit = async |micros: i64| {
            let (status, body) = api.patch("/v1/accounts/acme/keys/ci", &json!({"daily_limit_micros": micros})).await;
            assert_eq!(status, 200, "{body}");
        };
        let admit = async |key: &str, id: &str| {
            let id = format!("{id}-{round}");
            api.admit("acme", key, &[with(ask("create", &id, &id), "timeout_seconds", 60)]).await.0
        };
        limit(0).await;
        assert_eq!(admit("ci", "l").await, 402);
        limit(450_000).await;
        assert_eq!(admit("ci", "l").await, 201);
        let key = format!("k-{round}");
        assert_eq!(admit(&key, "k").await, 404);
        made(api.key("acme", &key, None).await);
        assert_eq!(admit(&key, "k").await, 201);
        let (status, body) = api.delete(&format!("/v1/accounts/acme/keys/{key}")).await;
        assert_eq!(status, 204, "{body}");
        assert_eq!(admit(&key, "r").await, 403);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(callers.join_all().await.into_iter().sum::<u32>() > 15, "it was busy");
    engine.assert_verified();
}
