//! The golden figures of DESIGN.md section 3, each through HTTP.

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, quantity, sample, time,
};

on_each_backend!(
    idle_for_an_hour,
    both_cpus_busy_for_an_hour,
    three_hundred_millicores_for_ten_minutes,
    idle_for_a_second,
    the_floor_is_per_minute_by_the_minute,
    the_floor_is_per_minute_by_the_second,
    an_idle_hour_with_a_busy_minute,
    ten_gibibytes_at_rest_for_a_day,
    sixty_hours_of_a_new_account,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// An engine where lease `l` ran for its whole window and was sampled at its end.
async fn ran(backend: Backend, vcpus: i64, memory_mib: i64, seconds: i64, cpu_us: i64) -> Engine {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "s", vcpus, memory_mib, seconds)]).await);
    engine.set_clock(noon().plus_s(seconds)).await;
    engine.admin.accepted(&[sample("acme", "s", "l", engine.now(), cpu_us)]).await;
    engine
}

async fn idle_for_an_hour(backend: Backend) {
    let engine = ran(backend, 2, 4_096, HOUR_S, 0).await;
    let body = engine.admin.lease("acme", "l").await;
    assert_eq!(int(&body, "list_micros"), 31_250);
    let usage = json!({"run_ms": "3600000", "cpu_used_us": "0", "cpu_us": "180000000", "memory_mib_ms": "14745600000",
                       "storage_mib_ms": "0"});
    assert_eq!(body["usage"], usage);
}

async fn both_cpus_busy_for_an_hour(backend: Backend) {
    assert_eq!(ran(backend, 2, 4_096, HOUR_S, 7_200_000_000).await.list("l").await, 80_000);
}

async fn three_hundred_millicores_for_ten_minutes(backend: Backend) {
    assert_eq!(ran(backend, 1, 512, 600, 180_000_000).await.list("l").await, 1_875);
}

async fn idle_for_a_second(backend: Backend) {
    assert_eq!(ran(backend, 2, 4_096, 1, 0).await.list("l").await, 8, "8.680...");
}

/// Samples of an hour in which every other minute stands still and the others use 100 millicores.
fn every_other_minute(step_s: i64) -> Vec<Value> {
    let cpu_us = |second: i64| (second / 120 * 60 + (second % 120 - 60).max(0)) * 100_000;
    (1..=HOUR_S / step_s)
        .map(|step| step * step_s)
        .map(|second| sample("acme", "s", "l", noon().plus_s(second), cpu_us(second)))
        .collect()
}

async fn the_floor_is_per_minute(backend: Backend, step_s: i64) {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(noon().plus_h(1)).await;
    engine.admin.accepted(&every_other_minute(step_s)).await;
    let body = engine.admin.lease("acme", "l").await;
    assert_eq!((quantity(&body, "cpu_used_us"), quantity(&body, "cpu_us")), (180_000_000, 270_000_000));
    assert_eq!(int(&body, "list_micros"), 1_875 + 7_500);
}

async fn the_floor_is_per_minute_by_the_minute(backend: Backend) {
    the_floor_is_per_minute(backend, 60).await;
}

async fn the_floor_is_per_minute_by_the_second(backend: Backend) {
    the_floor_is_per_minute(backend, 1).await;
}

async fn an_idle_hour_with_a_busy_minute(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "s", 2, 1_024, HOUR_S)]).await);
    engine.set_clock(noon().plus_h(1)).await;
    let at = |minute: i64, cpu: i64| sample("acme", "s", "l", noon().plus_s(minute * 60), cpu);
    engine.admin.accepted(&[at(30, 0), at(31, 120_000_000), at(60, 120_000_000)]).await;
    let body = engine.admin.lease("acme", "l").await;
    assert_eq!(quantity(&body, "cpu_us"), 297_000_000, "2,062.5");
    let costs = engine.admin.costs("acme", noon(), noon().plus_h(1), "granularity=total&group_by=resource").await;
    let rows = costs["rows"].as_array().unwrap();
    let shown: Vec<(&str, i64)> =
        rows.iter().map(|row| (row["resource"].as_str().unwrap(), int(row, "list_micros"))).collect();
    assert_eq!(shown, [("cpu", 2_062), ("memory", 7_500), ("storage", 0)]);
}

async fn ten_gibibytes_at_rest_for_a_day(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 600)]).await);
    engine.set_clock(noon().plus_s(600)).await;
    done(api.end("acme", "l", None, "pause").await);
    engine.set_clock(noon().plus_h(1)).await;
    api.accepted(&[at_rest("acme", "s", engine.now(), 10_240)]).await;
    engine.set_clock(noon().plus_h(25)).await;
    api.accepted(&[at_rest("acme", "s", engine.now(), 10_240)]).await;
    let costs = api.costs("acme", noon().plus_h(1), noon().plus_h(25), "granularity=total&group_by=sandbox").await;
    assert_eq!(costs["rows"].as_array().unwrap().len(), 1);
    assert_eq!((&costs["rows"][0]["sandbox"], int(&costs["rows"][0], "net_micros")), (&json!("s"), 25_920));
    assert_eq!(quantity(&costs["total"], "storage_mib_ms"), 10_240 * 86_400_000);
    assert_eq!(int(&api.sandbox("acme", "s").await, "storage_mib"), 10_240);
    assert_eq!(api.lease("acme", "l").await["usage"]["storage_mib_ms"], "0", "storage is the sandbox's");
}

async fn sixty_hours_of_a_new_account(backend: Backend) {
    let engine = ran(backend, 2, 4_096, 60 * HOUR_S, 0).await;
    let body = engine.admin.lease("acme", "l").await;
    let shown = ["list_micros", "free_micros", "net_micros"].map(|name| int(&body, name));
    assert_eq!(shown, [1_875_000, 1_562_500, 312_500]);
    let free = engine.admin.balance("acme").await["free"].clone();
    let shown = ["granted_ms", "used_ms", "expired_ms", "remaining_ms"].map(|name| int(&free, name));
    assert_eq!(shown, [180_000_000, 180_000_000, 0, 0]);
}
