//! Questions change nothing: quotes, cost tables and lists leave every table as it was.

use serde_json::json;

use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_once, done, dump, int, made, on_each_backend, sample, shape, time, with,
};

on_each_backend!(a13_questions_change_nothing, a_quote_answers_as_the_gate_does);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// Quotes that fit, quotes that do not, cost tables, balances and lists: 10,000 on SQLite; 1,000 on PostgreSQL, where
/// each costs several round trips of an unoptimised build.
async fn a13_questions_change_nothing(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(100_000)).await);
    made(api.admit("acme", "ci", &[shape("on", HOUR_S)]).await);
    engine.set_clock(noon().plus_s(600)).await;
    api.accepted(&[with(sample("acme", "s-on", "on", engine.now(), 600_000_000), "storage_mib", 500)]).await;
    let (seen, tables) = (engine.seen("acme").await, dump(engine.database()).await);
    let hundreds = match backend {
        Backend::Sqlite => 100,
        Backend::Postgres => 10,
    };
    for _ in 0..hundreds {
        at_once(100, |index| {
            let api = api.clone();
            async move {
                match index % 10 {
                    0 => drop(api.costs("acme", noon(), noon().plus_h(1), "granularity=hour&group_by=sandbox").await),
                    1 => drop(api.balance("acme").await),
                    2 => drop(done(api.get("/v1/accounts/acme/sandboxes?limit=1").await)),
                    3..=5 => {
                        let quote = done(api.quote("acme", "ci", &[shape("no", HOUR_S)]).await);
                        assert_eq!(quote["allowed"], false, "{quote}");
                    }
                    _ => {
                        let quote = done(api.quote("acme", "ci", &[shape("yes", 900)]).await);
                        assert_eq!(
                            quote,
                            json!({"allowed": true, "leases": [{"id": "yes", "worst_case_micros": 20_000}]})
                        );
                    }
                }
            }
        })
        .await;
    }
    assert_eq!(engine.seen("acme").await, seen);
    assert_eq!(dump(engine.database()).await, tables);
}

async fn a_quote_answers_as_the_gate_does(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(100_000)).await);
    let fits = [shape("l-1", HOUR_S)];
    let quote = done(api.quote("acme", "ci", &fits).await);
    assert_eq!(quote, json!({"allowed": true, "leases": [{"id": "l-1", "worst_case_micros": 80_000}]}));
    made(api.admit("acme", "ci", &fits).await);
    let more = [shape("l-2", HOUR_S)];
    let quote = done(api.quote("acme", "ci", &more).await);
    let (status, refusal) = api.admit("acme", "ci", &more).await;
    assert_eq!((quote["allowed"].as_bool(), status), (Some(false), 402));
    for member in
        ["code", "status", "scope", "lease", "day", "needed_micros", "available_micros", "longest_timeout_seconds"]
    {
        assert_eq!(quote["refusal"][member], refusal[member], "{member}");
    }
    assert_eq!(int(&refusal, "longest_timeout_seconds"), 900);
    // Worst cases are rounded up: 1 s of 1 vCPU, 1 MiB is 6.946...
    let quote = done(api.quote("acme", "ci", &[crate::harness::lease("l", "s", 1, 1, 1)]).await);
    assert_eq!(int(&quote["leases"][0], "worst_case_micros"), 7);
    // What the gate answers with other statuses is a quote of 200 all the same.
    made(api.admit("acme", "ci", &[shape("running", 60)]).await);
    let other = |id: &str| with(shape(id, 60), "sandbox", "s-running");
    for (key, ask, code) in [
        ("ci", other("second"), "lease_running"),
        ("ci", shape("running", 61), "lease_conflict"),
        ("nobody", shape("l", 60), "not_found"),
    ] {
        let quote = done(api.quote("acme", key, std::slice::from_ref(&ask)).await);
        assert_eq!((&quote["allowed"], &quote["refusal"]["code"]), (&json!(false), &json!(code)), "{quote}");
        assert_ne!(api.admit("acme", key, &[ask]).await.0, 201);
    }
}
