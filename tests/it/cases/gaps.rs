//! Gaps: leases whose samples stop are shown, and time that nobody pays for is told by its cause.

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, done, int, made, on_each_backend, refused, sample, shape, time,
};

on_each_backend!(a_lease_whose_samples_stop_is_stale, unbilled_time_is_told_by_its_cause);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

async fn stale(api: &Api, id: &str) -> bool {
    api.lease("acme", id).await["stale"].as_bool().expect("stale is there")
}

/// A metric's value, by the beginning of its line.
async fn metric(engine: &Engine, name: &str) -> i64 {
    let text = engine.nobody().raw("GET", "/metrics", &[], vec![]).await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().expect("a number"))
}

/// Asks until a metric is so.
async fn becomes(engine: &Engine, name: &str, value: i64) {
    let come = async { while metric(engine, name).await != value {} };
    tokio::time::timeout(std::time::Duration::from_mins(1), come).await.expect("the metric is brought up to date");
}

async fn a_lease_whose_samples_stop_is_stale(backend: Backend) {
    let settings = [("RUNTAB_LEDGER_STALE_AFTER_SECONDS", "60"), ("RUNTAB_REMOTE_WRITE_WATCH_INTERVAL_MS", "20")];
    let engine = Engine::start_with(backend, noon(), &settings).await;
    let api = &engine.admin;
    made(api.account("acme", true).await);
    made(api.key("acme", "ci", None).await);
    let all = ["sampled", "silent", "ended", "expired"].map(|id| shape(id, if id == "expired" { 60 } else { HOUR_S }));
    let admitted = made(api.admit("acme", "ci", &all).await);
    assert!(admitted["leases"].as_array().unwrap().iter().all(|lease| lease["stale"] == false));
    engine.set_clock(noon().plus_ms(59_999)).await;
    assert!(!stale(api, "silent").await, "not yet");
    engine.set_clock(noon().plus_s(90)).await;
    api.accepted(&[sample("acme", "s-sampled", "sampled", noon().plus_s(80), 1)]).await;
    done(api.end("acme", "ended", None, "stop").await);
    assert_eq!(
        [
            stale(api, "sampled").await,
            stale(api, "silent").await,
            stale(api, "ended").await,
            stale(api, "expired").await
        ],
        [false, true, false, false]
    );
    becomes(&engine, "runtab_stale_leases", 1).await;
    // Costs say up to where they are complete: the lease that is silent holds them back.
    let costs = api.costs("acme", noon(), noon().plus_h(1), "granularity=hour").await;
    assert_eq!(costs["complete_before"], noon().to_string());
    engine.set_clock(noon().plus_s(140)).await;
    assert!(stale(api, "sampled").await, "a minute after its last sample");
    becomes(&engine, "runtab_stale_leases", 2).await;
    let listed = done(api.get("/v1/accounts/acme/leases?state=running").await);
    assert!(listed["items"].as_array().unwrap().iter().all(|lease| lease["stale"] == true), "{listed}");
    // What comes late makes good.
    api.accepted(&[sample("acme", "s-silent", "silent", noon().plus_s(140), 1)]).await;
    assert!(!stale(api, "silent").await);
    becomes(&engine, "runtab_stale_leases", 1).await;
    // One that is over is silent for good.
    engine.set_clock(noon().plus_h(3)).await;
    assert!(!stale(api, "sampled").await);
    becomes(&engine, "runtab_stale_leases", 0).await;
}

async fn unbilled_time_is_told_by_its_cause(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.account("other", true).await);
    made(api.key("other", "ci", None).await);
    let all = ["never", "silent", "lost", "late", "whole"].map(|id| shape(id, HOUR_S));
    made(api.admit("acme", "ci", &all).await);
    made(api.admit("other", "ci", &[shape("never", HOUR_S)]).await);
    engine.set_clock(noon().plus_s(1_800)).await;
    for id in ["silent", "lost", "late", "whole"] {
        api.accepted(&[sample("acme", &format!("s-{id}"), id, noon().plus_s(1_800), 0)]).await;
    }
    done(api.end("acme", "lost", None, "host_lost").await);
    engine.set_clock(noon().plus_h(1)).await;
    api.accepted(&[sample("acme", "s-whole", "whole", noon().plus_h(1), 0)]).await;
    let causes = async || done(api.get("/v1/months/2026-11/unbilled").await);
    let shown = |rows: [(&str, i64, i64, i64); 4]| {
        let rows = rows.map(|(cause, leases, run_s, least)| {
            json!({"cause": cause, "leases": leases, "run_ms": (run_s * 1_000).to_string(), "least_micros": least})
        });
        json!({"month": "2026-11", "causes": rows})
    };
    // Of those that are not settled samples may still come.
    let lost = ("host_lost", 1, 1_800, 15_625);
    let none = |cause| (cause, 0, 0, 0);
    let before = shown([none("never_sampled"), none("went_silent"), lost, none("end_told_late")]);
    assert_eq!(causes().await, before);
    engine.set_clock(noon().plus_h(2)).await;
    done(api.end("acme", "late", Some(noon().plus_s(2_700)), "stop").await);
    let after = shown([
        ("never_sampled", 2, 7_200, 62_500),
        ("went_silent", 1, 1_800, 15_625),
        lost,
        ("end_told_late", 1, 900, 7_812),
    ]);
    assert_eq!(causes().await, after);
    let empty: Value = done(api.get("/v1/months/2026-10/unbilled").await);
    assert!(empty["causes"].as_array().unwrap().iter().all(|cause| int(cause, "leases") == 0), "{empty}");
    refused(engine.control_plane().get("/v1/months/2026-11/unbilled").await, 403, "forbidden");
    // The metric counts when leases are settled in their rows, by whoever touches them or the sweep.
    for (cause, run_s) in [("host_lost", 1_800), ("never_sampled", 7_200), ("went_silent", 3_600)] {
        let name = format!("runtab_unbilled_milliseconds_total{{cause=\"{cause}\"}}");
        becomes(&engine, &name, run_s * 1_000).await;
    }
    engine.assert_verified();
}
