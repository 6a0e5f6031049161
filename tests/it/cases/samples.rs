//! Batches of samples: duplicates, bad rows, crashes, clocks, hosts, units and encodings.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_rest, done, int, invalid, lease, made, on_each_backend, quantity, refused,
    rejections, sample, time, with,
};

on_each_backend!(
    s1_duplicates_are_billed_once,
    s2_a_crash_between_check_and_write,
    s3_one_bad_row,
    s3_sizes_of_a_batch,
    s8_a_sample_of_the_future,
    s9_two_reporters,
    s10_units,
    s11_offsets,
    s11_zones_of_the_server,
    every_code_in_its_order,
    ndjson_and_gzip,
    digits_beyond_the_millisecond,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// `count` samples of lease `l` from `from` seconds after noon, a second apart, at 500 millicores.
fn batch(from: i64, count: i64) -> Vec<Value> {
    (from..from + count).map(|second| sample("acme", "s", "l", noon().plus_s(second), second * 500_000)).collect()
}

/// An engine with lease `l` of sandbox `s`: 1 vCPU, 1 GiB for an hour from noon; the clock is at its end.
async fn with_lease(backend: Backend) -> Engine {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(noon().plus_h(1)).await;
    engine
}

async fn s1_duplicates_are_billed_once(backend: Backend) {
    let mut engine = with_lease(backend).await;
    engine.admin.accepted(&batch(1, 600)).await;
    let bill = engine.admin.lease("acme", "l").await;
    assert_eq!((quantity(&bill, "run_ms"), quantity(&bill, "cpu_us")), (600_000, 300_000_000));
    for _ in 0..2 {
        let body = done(engine.admin.samples(&batch(1, 600)).await);
        assert_eq!(body, json!({"accepted": 0, "duplicates": 600, "rejected": []}));
    }
    assert_eq!(engine.admin.lease("acme", "l").await, bill);
    // Mixed with new ones.
    let body = done(engine.admin.samples(&batch(301, 600)).await);
    assert_eq!((int(&body, "accepted"), int(&body, "duplicates")), (300, 300));
    let bill = engine.admin.lease("acme", "l").await;
    assert_eq!(quantity(&bill, "cpu_us"), 450_000_000);
    engine.crash_and_restart();
    let body = done(engine.admin.samples(&batch(1, 600)).await);
    assert_eq!(int(&body, "duplicates"), 600);
    engine.set_clock(noon().plus_h(40 * 24)).await;
    let body = done(engine.admin.samples(&batch(1, 600)).await);
    assert_eq!(int(&body, "duplicates"), 600);
    assert_eq!(engine.admin.lease("acme", "l").await["usage"], bill["usage"]);
    // A repetition inside one batch is one as well.
    let twice = [batch(1_000, 1), batch(1_000, 1)].concat();
    let body = done(engine.admin.samples(&twice).await);
    assert_eq!((int(&body, "accepted"), int(&body, "duplicates")), (1, 1));
}

/// The engine is killed while it takes a batch; the host sends it again whole.
async fn s2_a_crash_between_check_and_write(backend: Backend) {
    let mut engine = with_lease(backend).await;
    let mut sent = 0;
    for round in 0..5 {
        sent = (round + 1) * 600;
        let host = engine.admin.clone();
        let rows = json!(batch(1, sent)).to_string();
        let sending = tokio::spawn(async move {
            let _answer = host.text("POST", "/v1/samples", &rows).await;
        });
        // Let it begin; how far it gets before the kill is chance, and must not matter.
        for _ in 0..round * 20 {
            tokio::task::yield_now().await;
        }
        engine.crash_and_restart();
        let _cut_off = sending.await;
        let body = done(engine.admin.samples(&batch(1, sent)).await);
        assert_eq!(int(&body, "accepted") + int(&body, "duplicates"), sent, "{body}");
        let bill = engine.admin.lease("acme", "l").await;
        assert_eq!(quantity(&bill, "cpu_us"), i128::from(sent) * 500_000, "round {round}");
    }
    let body = done(engine.admin.samples(&batch(1, sent)).await);
    assert_eq!(int(&body, "duplicates"), sent);
}

async fn s3_one_bad_row(backend: Backend) {
    let engine = with_lease(backend).await;
    let api = &engine.admin;
    let good = batch(1, 100);
    let mut rows = good.clone();
    rows[50] = with(good[50].clone(), "cpu_usage_usec", "much");
    let body = done(api.samples(&rows).await);
    assert_eq!((int(&body, "accepted"), int(&body, "duplicates")), (99, 0));
    assert_eq!(rejections(&body), [(50, "invalid_sample".to_owned())]);
    assert!(body["rejected"][0]["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{body}");
    let body = done(api.samples(&good).await);
    assert_eq!(body, json!({"accepted": 1, "duplicates": 99, "rejected": []}));
}

async fn s3_sizes_of_a_batch(backend: Backend) {
    let engine = with_lease(backend).await;
    let api = &engine.admin;
    assert_eq!(done(api.samples(&[]).await), json!({"accepted": 0, "duplicates": 0, "rejected": []}));
    let many = |count: i64| -> Vec<Value> {
        let at = |index: i64| noon().plus_ms((index + 1) * 300);
        (0..count).map(|index| sample("acme", "s", "l", at(index), index * 100_000)).collect()
    };
    refused(api.samples(&many(10_001)).await, 413, "payload_too_large");
    assert_eq!(engine.list("l").await, 0, "all of it is refused");
    api.accepted(&many(10_000)).await;
    let bill = api.lease("acme", "l").await;
    assert_eq!((quantity(&bill, "run_ms"), quantity(&bill, "cpu_used_us")), (3_000_000, 999_900_000));
    let blank = vec![b' '; 8 * 1_024 * 1_024 + 1];
    refused(api.post_too_much("/v1/samples", blank).await, 413, "payload_too_large");
}

async fn s8_a_sample_of_the_future(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T23:00:00Z")).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 48 * HOUR_S)]).await);
    let now = time("2026-11-10T23:59:30Z");
    engine.set_clock(now).await;
    let at = |seconds: i64| sample("acme", "s", "l", now.plus_s(seconds), 0);
    let body = done(api.samples(&[at(25), at(600), at(86_400), at(61)]).await);
    assert_eq!(int(&body, "accepted"), 1);
    assert_eq!(rejections(&body), [1, 2, 3].map(|index| (index, "future".to_owned())));
    engine.set_clock(time("2026-11-11T00:00:01Z")).await;
    let day = api.key_day("acme", "ci").await;
    assert_eq!((&day["day"], int(&day, "used_micros")), (&json!("2026-11-11"), 0));
    let bill = api.lease("acme", "l").await;
    assert_eq!((quantity(&bill, "run_ms"), &bill["last_sample_at"]), (3_595_000, &json!("2026-11-10T23:59:55.000Z")));
}

async fn s9_two_reporters(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let (api, a, b) = (&engine.admin, engine.host("h-a"), engine.host("h-b"));
    made(api.admit("acme", "ci", &[with(lease("l", "s", 1, 1_024, HOUR_S), "host", "h-a")]).await);
    let busy =
        |minute: i64, cpu_minutes: i64| sample("acme", "s", "l", noon().plus_s(minute * 60), cpu_minutes * 60_000_000);
    let wrong = done(b.samples(&[busy(0, 0)]).await);
    assert_eq!(rejections(&wrong), [(0, "wrong_host".to_owned())]);
    for minute in 1..=29 {
        engine.set_clock(noon().plus_s(minute * 60)).await;
        a.accepted(&[busy(minute, minute)]).await;
    }
    assert_eq!(done(api.move_to("acme", "l", "h-b").await)["host"], "h-b");
    for minute in 30..=60 {
        engine.set_clock(noon().plus_s(minute * 60)).await;
        if minute <= 31 {
            let body = done(a.samples(&[busy(minute, minute)]).await);
            assert_eq!(rejections(&body), [(0, "wrong_host".to_owned())]);
        }
        b.accepted(&[with(busy(minute, minute - 29), "epoch", 1)]).await;
    }
    assert_eq!(engine.list("l").await, 32_500);
    // What the old host had sent before is a duplicate, not the wrong host's.
    assert_eq!(int(&done(a.samples(&[busy(29, 29)]).await), "duplicates"), 1);
    // A lease that names no host takes the first that reports it.
    made(api.admit("acme", "ci", &[lease("m", "m", 1, 1_024, HOUR_S)]).await);
    let first = sample("acme", "m", "m", engine.now(), 0);
    b.accepted(std::slice::from_ref(&first)).await;
    assert_eq!(api.lease("acme", "m").await["host"], "h-b");
    let body = done(a.samples(&[with(first, "cpu_usage_usec", 1)]).await);
    assert_eq!(rejections(&body), [(0, "wrong_host".to_owned())]);
}

async fn s10_units(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for (id, memory_mib) in [("gib", 1_024), ("half", 512)] {
        made(api.admit("acme", "ci", &[lease(id, id, 1, memory_mib, HOUR_S)]).await);
    }
    engine.set_clock(noon().plus_h(1)).await;
    for (id, micros) in [("gib", 7_500), ("half", 3_750)] {
        api.accepted(&[sample("acme", id, id, engine.now(), 0)]).await;
        assert_eq!(engine.list(id).await, 1_250 + micros, "{id}");
    }
    for field in ["memory_gib", "memory_mb", "memory_bytes"] {
        let ask = with(lease("l", "s", 1, 1_024, HOUR_S), field, 1);
        invalid(api.admit("acme", "ci", &[ask]).await, &format!("/leases/0/{field}"));
        let body = done(api.samples(&[with(sample("acme", "gib", "gib", noon(), 0), field, 1)]).await);
        assert_eq!(rejections(&body), [(0, "invalid_sample".to_owned())], "{field}");
    }
}

async fn s11_offsets(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-02-28T15:30:00Z")).await;
    let api = &engine.admin;
    let ask = with(lease("l", "s", 1, 1_024, HOUR_S), "starts_at", "2026-03-01T00:30:00+09:00");
    let body = made(api.admit("acme", "ci", &[ask]).await);
    assert_eq!(body["leases"][0]["starts_at"], "2026-02-28T15:30:00.000Z");
    engine.set_clock(time("2026-02-28T16:30:00Z")).await;
    let row = sample("acme", "s", "l", noon(), 3_600_000_000);
    api.accepted(&[with(row.clone(), "at", "2026-03-01T01:30:00+09:00")]).await;
    let (from, to) = (time("2026-02-01T00:00:00Z"), time("2026-04-01T00:00:00Z"));
    let costs = api.costs("acme", from, to, "granularity=month&group_by=none").await;
    let months: Vec<i64> = costs["rows"].as_array().unwrap().iter().map(|row| int(row, "list_micros")).collect();
    assert_eq!(months, [32_500, 0]);

    let naive = "2026-02-28T16:30:00";
    let body = done(api.samples(&[with(row, "at", naive)]).await);
    assert_eq!(rejections(&body), [(0, "invalid_sample".to_owned())]);
    let ask = with(lease("m", "m", 1, 1_024, HOUR_S), "starts_at", naive);
    invalid(api.admit("acme", "ci", &[ask]).await, "/leases/0/starts_at");
    let end = json!({"ended_at": naive, "reason": "stop"});
    invalid(api.post("/v1/accounts/acme/leases/l/end", &end).await, "/ended_at");
    let path = format!("/v1/accounts/acme/costs?from={naive}&to=2026-03-01T00:00:00Z&granularity=hour&group_by=none");
    refused(api.get(&path).await, 422, "invalid_request");
}

/// The same bytes whatever the server's zone is.
async fn s11_zones_of_the_server(backend: Backend) {
    let mut answers = Vec::new();
    for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
        let engine = Engine::start_with(backend, time("2026-02-28T23:30:00Z"), &[("TZ", zone)]).await;
        let api = &engine.admin;
        made(api.account("acme", true).await);
        made(api.key("acme", "ci", Some(1_000_000)).await);
        made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
        engine.set_clock(time("2026-03-01T00:30:00Z")).await;
        api.accepted(&[sample("acme", "s", "l", engine.now(), 3_600_000_000)]).await;
        let mut seen = Vec::new();
        for path in [
            "/leases",
            "/balance",
            "/costs?from=2026-02-28T00:00:00Z&to=2026-03-02T00:00:00Z&granularity=day&group_by=none",
        ] {
            seen.push(api.raw("GET", &format!("/v1/accounts/acme{path}"), &[], Vec::new()).await.body);
        }
        answers.push(seen);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

async fn every_code_in_its_order(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S), lease("o", "o", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(noon().plus_h(2)).await;
    let at = |seconds: i64, cpu: i64| sample("acme", "s", "l", noon().plus_s(seconds), cpu);
    api.accepted(&[at(600, 100_000_000), with(at(1_200, 10_000_000), "epoch", 1)]).await;
    let rows: Vec<(Value, &str)> = vec![
        (with(at(1, 0), "cpu_usage_usec", -1), "invalid_sample"),
        (with(at(1, 0), "cpu_usage_usec", 1.5), "invalid_sample"),
        (with(at(1, 0), "memory_mib", 64 * 1_024 * 1_024 + 1), "invalid_sample"),
        (with(at(1, 0), "surprise", 1), "invalid_sample"),
        (with(at_rest("acme", "s", noon(), 1), "cpu_usage_usec", 1), "invalid_sample"),
        (json!("not an object"), "invalid_sample"),
        (with(at(1, 0), "lease", "nope"), "unknown_lease"),
        (with(at(1, 0), "account", "nope"), "unknown_lease"),
        (with(at(1, 0), "sandbox", "o"), "unknown_sandbox"),
        (at_rest("acme", "nope", noon(), 1), "unknown_sandbox"),
        (at(7_261, 0), "future"),
        (at(3_661, 200_000_000), "outside_lease"),
        (at(-61, 0), "outside_lease"),
        (at(600, 100_000_001), "conflict"),
        (with(at(300, 0), "epoch", 1), "stale_epoch"),
        (at(1_800, 200_000_000), "stale_epoch"),
        (at(300, 100_000_001), "counter_regressed"),
        (with(at(1_800, 9_999_999), "epoch", 1), "counter_regressed"),
        (with(at(1_260, 131_000_001), "epoch", 1), "cpu_implausible"),
    ];
    let sent: Vec<Value> = rows.iter().map(|(row, _)| row.clone()).collect();
    let body = done(api.samples(&sent).await);
    let expected: Vec<(i64, String)> = (0..).zip(&rows).map(|(index, (_, code))| (index, (*code).to_owned())).collect();
    assert_eq!(rejections(&body), expected);
    // On the edge of each rule they pass: twice what the shape can make plus one vCPU-second; a minute outside.
    api.accepted(&[with(at(1_260, 131_000_000), "epoch", 1), with(at(3_660, 131_000_000), "epoch", 1)]).await;
}

async fn ndjson_and_gzip(backend: Backend) {
    let engine = with_lease(backend).await;
    let host = engine.host("h-1");
    let zip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let lines: Vec<String> = batch(1, 100).iter().map(Value::to_string).collect();
    let ndjson = [lines.join("\n"), "\n".to_owned()].concat();
    let plain = [("content-type", "application/x-ndjson")];
    let zipped = [("content-type", "application/x-ndjson"), ("content-encoding", "gzip")];
    let body = done(host.raw("POST", "/v1/samples", &zipped, zip(ndjson.as_bytes())).await.json());
    assert_eq!(body, json!({"accepted": 100, "duplicates": 0, "rejected": []}));
    let body = done(host.raw("POST", "/v1/samples", &plain, ndjson.clone().into_bytes()).await.json());
    assert_eq!(int(&body, "duplicates"), 100);
    let array = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let body =
        done(host.raw("POST", "/v1/samples", &array, zip(json!(batch(1, 100)).to_string().as_bytes())).await.json());
    assert_eq!(int(&body, "duplicates"), 100);

    // A line that is no JSON spoils nothing but itself; an array that is none has no rows to save.
    let mut broken = lines.clone();
    "{\"account\":".clone_into(&mut broken[50]);
    let body = done(host.raw("POST", "/v1/samples", &plain, broken.join("\n").into_bytes()).await.json());
    assert_eq!((int(&body, "duplicates"), rejections(&body)), (99, vec![(50, "invalid_sample".to_owned())]));
    refused(host.text("POST", "/v1/samples", "[{]").await, 400, "invalid_request");
    let csv = host.raw("POST", "/v1/samples", &[("content-type", "text/csv")], b"a,b".to_vec()).await;
    refused(csv.json(), 415, "unsupported_media_type");
    // 8 MiB hold for what comes out, not for what goes in.
    let bomb = host.raw("POST", "/v1/samples", &zipped, zip(&vec![b'\n'; 64 * 1_024 * 1_024])).await;
    refused(bomb.json(), 413, "payload_too_large");
}

async fn digits_beyond_the_millisecond(backend: Backend) {
    let engine = with_lease(backend).await;
    let row = |at: &str| with(sample("acme", "s", "l", noon(), 1_000), "at", at);
    engine.admin.accepted(&[row("2026-11-10T12:00:01.0009999Z")]).await;
    let body = done(engine.admin.samples(&[row("2026-11-10T12:00:01.000Z"), row("2026-11-10T13:00:01+01:00")]).await);
    assert_eq!(int(&body, "duplicates"), 2);
}
