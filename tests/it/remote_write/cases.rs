//! What remote write bills, however it comes; and what it leaves alone.

use serde_json::{Value, json};

use super::payload::{STALE, Series, cpu, disk, memory, rejected, send_v1, send_v2, start};
use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_rest, int, made, on_each_backend, quantity, sample, shape, time,
};

on_each_backend!(
    remote_write_bills_what_samples_bill,
    requests_cut_anywhere_bill_the_same,
    r5_what_waits_survives_a_crash,
    s1_the_same_bytes_again_are_billed_once,
    s5_a_new_counter_counts_from_zero,
    what_is_no_sample_changes_nothing,
    s9_of_two_replicas_one_counts,
);

const GIB: f64 = 1_073_741_824.0;

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// An engine with leases of 2 vCPU and 4 GiB for an hour, that started at noon; its clock at one.
async fn engine_with(backend: Backend, leases: &[&str]) -> Engine {
    let engine = Engine::with_payer(backend, noon()).await;
    let asked: Vec<Value> = leases.iter().map(|id| shape(id, HOUR_S)).collect();
    made(engine.admin.admit("acme", "ci", &asked).await);
    engine.set_clock(noon().plus_h(1)).await;
    engine
}

/// A minute's scrape of a lease, whose CPU grows unevenly.
fn scrape(id: &str, minute: i64) -> Vec<Series> {
    let at = noon().plus_s(60 * minute);
    let seconds = f64::from(u32::try_from(minute).expect("small"));
    vec![
        start(id, at, noon().plus_s(-3)),
        // As cAdvisor does: its own time for the counter, the scrape's for what is known of the container.
        cpu(id, at.plus_ms(-1_500), 0.1 + seconds * (1.0 + seconds)),
        memory(id, at, 3.0 * GIB),
        disk(id, "sda", at.plus_ms(-1_500), 10.0 * GIB),
        disk(id, "sdb", at.plus_ms(-1_500), seconds * GIB),
    ]
}

/// The same as the engine takes it from an agent.
fn samples(id: &str, minute: i64) -> Vec<Value> {
    let at = noon().plus_s(60 * minute).plus_ms(-1_500);
    let mut running = sample("acme", &format!("s-{id}"), id, at, 100_000 + minute * (1 + minute) * 1_000_000);
    running["epoch"] = json!(noon().plus_s(-3).0);
    running["memory_mib"] = json!(3_072);
    vec![running, at_rest("acme", &format!("s-{id}"), at, (10 + minute) * 1_024)]
}

/// What a lease and its sandbox cost.
async fn bill(engine: &Engine, id: &str) -> Value {
    let lease = engine.admin.lease("acme", id).await;
    let sandbox = engine.admin.sandbox("acme", &format!("s-{id}")).await;
    json!([lease["usage"], lease["list_micros"], lease["last_sample_at"], sandbox["storage_mib"], sandbox["month"]])
}

async fn remote_write_bills_what_samples_bill(backend: Backend) {
    let engine = engine_with(backend, &["old", "new", "json"]).await;
    let api = engine.host("h-1");
    for minute in 1..=20 {
        send_v1(&api, &scrape("old", minute)).await;
        assert_eq!(send_v2(&api, &scrape("new", minute)).await, 5);
        api.accepted(&samples("json", minute)).await;
    }
    // The last sum of the disks waits for the next scrape; it makes no other difference.
    engine.set_clock(engine.now().plus_s(121)).await;
    send_v1(&api, &[disk("old", "sda", noon().plus_s(1_220), 1.0), disk("old", "sdb", noon().plus_s(1_220), 1.0)])
        .await;
    send_v1(&api, &[disk("new", "sda", noon().plus_s(1_220), 1.0), disk("new", "sdb", noon().plus_s(1_220), 1.0)])
        .await;
    let [old, new, from_json] = [bill(&engine, "old").await, bill(&engine, "new").await, bill(&engine, "json").await];
    assert_eq!((&old, &new), (&from_json, &from_json));
    let lease = engine.admin.lease("acme", "old").await;
    assert_eq!(quantity(&lease, "cpu_used_us"), 100_000 + 20 * 21 * 1_000_000);
    assert_eq!(rejected(&engine.admin, "").await, []);
    engine.assert_verified();
}

async fn requests_cut_anywhere_bill_the_same(backend: Backend) {
    let engine = engine_with(backend, &["whole", "cut"]).await;
    let api = &engine.admin;
    let mut late = Vec::new();
    for minute in 1..=6 {
        send_v1(api, &scrape("whole", minute)).await;
        // The start and the memory come a scrape late, each series in a request of its own.
        for series in scrape("cut", minute) {
            assert_eq!(send_v2(api, &[series]).await, 1);
        }
        let both = [start("cut", noon().plus_s(60 * minute), noon().plus_s(-3))];
        late.extend(both);
    }
    assert_eq!(bill(&engine, "cut").await[0], bill(&engine, "whole").await[0]);
    let before = bill(&engine, "cut").await;
    // Again, and in another order: nothing changes.
    late.reverse();
    send_v1(api, &late).await;
    for minute in [3, 1, 6] {
        send_v1(api, &scrape("cut", minute)).await;
    }
    assert_eq!(bill(&engine, "cut").await, before);
    assert_eq!(rejected(api, "").await, []);
    engine.assert_verified();
}

async fn r5_what_waits_survives_a_crash(backend: Backend) {
    let mut engine = engine_with(backend, &["l"]).await;
    let at = noon().plus_s(60);
    assert_eq!(send_v2(&engine.admin, &[cpu("l", at, 7.0)]).await, 1, "it waits, and is kept");
    assert_eq!(engine.admin.lease("acme", "l").await["last_sample_at"], Value::Null);
    engine.crash_and_restart();
    assert_eq!(send_v2(&engine.admin, &[memory("l", at, GIB)]).await, 1);
    engine.crash_and_restart();
    assert_eq!(send_v2(&engine.admin, &[start("l", at, noon())]).await, 1);
    let lease = engine.admin.lease("acme", "l").await;
    assert_eq!(
        (lease["last_sample_at"].as_str(), quantity(&lease, "cpu_used_us")),
        (Some(&*at.to_string()), 7_000_000)
    );
    engine.assert_verified();
}

async fn s1_the_same_bytes_again_are_billed_once(backend: Backend) {
    let engine = engine_with(backend, &["l"]).await;
    let api = &engine.admin;
    let request: Vec<Series> = (1..=5).flat_map(|minute| scrape("l", minute)).collect();
    assert_eq!(send_v2(api, &request).await, 25);
    let once = bill(&engine, "l").await;
    for _ in 0..3 {
        assert_eq!(send_v2(api, &request).await, 25);
    }
    assert_eq!(bill(&engine, "l").await, once);
    engine.assert_verified();
}

async fn s5_a_new_counter_counts_from_zero(backend: Backend) {
    let engine = engine_with(backend, &["l"]).await;
    let api = &engine.admin;
    let at = |minute: i64| noon().plus_s(60 * minute);
    let reading = |minute, seconds, began| {
        vec![cpu("l", at(minute), seconds), start("l", at(minute), began), memory("l", at(minute), 0.0)]
    };
    let second = at(2).plus_s(10);
    for (minute, seconds, began) in [(1, 100.0, noon()), (2, 110.0, noon()), (3, 20.0, second), (4, 115.0, second)] {
        send_v1(api, &reading(minute, seconds, began)).await;
    }
    assert_eq!(quantity(&api.lease("acme", "l").await, "cpu_used_us"), 225_000_000);
    // What the first counter is said to have counted while the second ran.
    send_v1(api, &reading(5, 90.0, noon())).await;
    assert_eq!(rejected(api, "").await[0].0, "stale_epoch");
    // One that goes back without a new start.
    send_v1(api, &reading(5, 90.0, second)).await;
    assert_eq!(rejected(api, "?account=acme&limit=1").await[0].0, "counter_regressed");
    assert_eq!(quantity(&api.lease("acme", "l").await, "cpu_used_us"), 225_000_000);
    engine.assert_verified();
}

async fn what_is_no_sample_changes_nothing(backend: Backend) {
    let engine = engine_with(backend, &["l"]).await;
    let api = &engine.admin;
    send_v1(api, &scrape("l", 1)).await;
    let before = bill(&engine, "l").await;
    let at = noon().plus_s(120);
    let series = |metric: &str| Series::of(metric, "l");
    // Metadata alone, nothing at all, exemplars without a sample.
    send_v1(api, &[]).await;
    let body = super::payload::snappy(&super::payload::field(3, b"\x08\x01\x12\x02up"));
    assert_eq!(super::payload::post(api, super::payload::TYPE_V1, body).await.status, 204);
    assert_eq!(send_v2(api, &[series("container_cpu_usage_seconds_total").exemplar()]).await, 0);
    // Unknown from here: neither 0 nor stopped.
    let stale = [cpu("l", at, 0.0), start("l", at, noon()), disk("l", "sda", at, 0.0)]
        .map(|series| series.without_points().bits(at, STALE));
    assert_eq!(send_v2(api, &stale).await, 3);
    // Other metrics; parents, that have no labels of ours; single CPUs beside the whole; a container without a lease.
    let parent = Series::default().label("__name__", "container_cpu_usage_seconds_total").label("id", "/").at(at, 1e6);
    let one_cpu = cpu("l", at, 500.0).label("cpu", "cpu00");
    let at_rest = cpu("l", at, 500.0).label("container_label_runtab_lease", "");
    assert_eq!(send_v2(api, &[series("up").at(at, 1.0), parent, one_cpu, at_rest]).await, 0);
    assert_eq!(bill(&engine, "l").await, before);
    assert_eq!(rejected(api, "").await, []);
    let metrics = String::from_utf8(engine.nobody().raw("GET", "/metrics", &[], vec![]).await.body).expect("text");
    for line in [
        r#"runtab_remote_write_samples_total{outcome="passed_over"} 4"#,
        r#"runtab_remote_write_samples_total{outcome="stale_marker"} 3"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // A series may stand in a request again: a backlog brings several samples so.
    let backlog: Vec<Series> = [3, 2, 4].iter().flat_map(|minute| scrape("l", *minute)).collect();
    assert_eq!(send_v2(api, &backlog).await, 15);
    assert_eq!(quantity(&api.lease("acme", "l").await, "cpu_used_us"), 20_100_000);
    engine.assert_verified();
}

async fn s9_of_two_replicas_one_counts(backend: Backend) {
    let engine = engine_with(backend, &["l"]).await;
    let api = &engine.admin;
    let from = |replica: &str, minute: i64, off_ms: i64| -> Vec<Series> {
        let at = noon().plus_s(60 * minute).plus_ms(off_ms);
        let seconds = f64::from(u32::try_from(minute).expect("small"));
        let all = [cpu("l", at, seconds), start("l", at, noon()), memory("l", at, 0.0)];
        all.map(|series| series.label("replica", replica)).into()
    };
    assert_eq!(send_v2(api, &from("one", 1, 0)).await, 3);
    assert_eq!(send_v2(api, &from("two", 1, 400)).await, 0, "the other replica says the same");
    engine.set_clock(engine.now().plus_s(40)).await;
    assert_eq!(send_v2(api, &from("two", 2, 400)).await, 0);
    assert_eq!(send_v2(api, &from("one", 2, 0)).await, 3);
    engine.set_clock(engine.now().plus_s(59)).await;
    assert_eq!(send_v2(api, &from("two", 3, 400)).await, 0, "a minute of silence is not over");
    engine.set_clock(engine.now().plus_s(1)).await;
    assert_eq!(send_v2(api, &from("two", 4, 400)).await, 3, "it takes over");
    assert_eq!(send_v2(api, &from("one", 4, 0)).await, 0, "and keeps it");
    let lease = api.lease("acme", "l").await;
    assert_eq!(quantity(&lease, "cpu_used_us"), 4_000_000);
    assert_eq!(lease["last_sample_at"], noon().plus_ms(240_400).to_string());
    let metrics = String::from_utf8(engine.nobody().raw("GET", "/metrics", &[], vec![]).await.body).expect("text");
    assert!(metrics.contains(r#"runtab_remote_write_samples_total{outcome="other_replica"} 12"#), "{metrics}");
    assert_eq!(int(&lease, "list_micros"), int(&lease, "net_micros"));
    engine.assert_verified();
}
