//! What is refused as a whole, what is set aside with its reason, and what is answered when the store is down.

use serde_json::json;

use super::payload::{
    Series, TYPE_V1, TYPE_V2, cpu, disk, field, memory, post, rejected, send_v1, send_v2, snappy, start, v1, v2,
};
use crate::harness::{
    Backend, Engine, HOUR_S, Time, done, int, made, on_each_backend, quantity, refused, rejections, sample, shape, time,
};

on_each_backend!(
    s3_bad_samples_are_set_aside_with_their_reason,
    samples_that_hosts_post_are_set_aside_too,
    what_is_set_aside_is_bounded_and_paged,
    only_what_cannot_be_read_is_refused,
    a_counter_whose_start_never_comes_is_set_aside,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

async fn engine_with(backend: Backend, settings: &[(&str, &str)]) -> Engine {
    let engine = Engine::start_with(backend, noon(), settings).await;
    made(engine.admin.account("acme", true).await);
    made(engine.admin.account("other", true).await);
    made(engine.admin.key("acme", "ci", None).await);
    made(engine.admin.admit("acme", "ci", &[shape("l", HOUR_S)]).await);
    engine.set_clock(noon().plus_s(1_800)).await;
    engine
}

async fn s3_bad_samples_are_set_aside_with_their_reason(backend: Backend) {
    let engine = engine_with(backend, &[]).await;
    let api = engine.host("h-1");
    let at = noon().plus_s(60);
    let good = [cpu("l", at, 1.0), start("l", at, noon()), memory("l", at, 0.0)];
    let told = |id: &str, at: Time| vec![start(id, at, noon().plus_s(-60)), memory(id, at, 0.0)];
    let ahead = noon().plus_h(1);
    let bad = [
        vec![cpu("l", at.plus_s(1), f64::NAN)],
        vec![cpu("l", at.plus_s(2), f64::INFINITY)],
        vec![disk("l", "sda", at, f64::NEG_INFINITY)],
        vec![cpu("l", at.plus_s(3), -1.5)],
        vec![cpu("l", at.plus_s(4), 1e300)],
        vec![cpu("l", Time(-5), 1.0)],
        [vec![cpu("none", at, 1.0)], told("none", at)].concat(),
        [vec![cpu("l", ahead, 1.0)], told("l", ahead)].concat(),
        vec![cpu("l", at, 1.0).label("container_label_runtab_sandbox", "no id")],
    ];
    let all: Vec<Series> = bad.concat().into_iter().chain(good).collect();
    // Written: the good three, and what was told of two counters that turn out to be none.
    assert_eq!(send_v2(&api, &all).await, 3 + 4);
    assert_eq!(quantity(&engine.admin.lease("acme", "l").await, "cpu_used_us"), 1_000_000);
    let mut codes: Vec<String> = rejected(&engine.admin, "").await.into_iter().map(|(code, ..)| code).collect();
    codes.sort();
    let expected = [
        "future",
        "infinite",
        "infinite",
        "invalid_sample",
        "invalid_sample",
        "nan",
        "negative",
        "too_large",
        "unknown_lease",
    ];
    assert_eq!(codes, expected);
    let list = done(engine.admin.get("/v1/rejected?account=acme").await);
    let row = list["items"].as_array().unwrap().iter().find(|row| row["code"] == "unknown_lease").unwrap();
    assert_eq!(row["received_at"], engine.now().to_string());
    assert_eq!((&row["door"], &row["host"]), (&json!("remote_write"), &json!("h-1")));
    assert_eq!(
        (&row["sandbox"], &row["lease"], &row["at"]),
        (&json!("s-none"), &json!("none"), &json!(at.to_string()))
    );
    let metrics = String::from_utf8(engine.nobody().raw("GET", "/metrics", &[], vec![]).await.body).unwrap();
    assert!(metrics.contains(r#"runtab_samples_total{outcome="nan"} 1"#), "{metrics}");
    // It is repeated whole: the good one is known, the bad ones are refused again, by both versions.
    send_v1(&api, &all).await;
    assert_eq!(rejected(&engine.admin, "").await.len(), 18);
    engine.assert_verified();
}

async fn samples_that_hosts_post_are_set_aside_too(backend: Backend) {
    let engine = engine_with(backend, &[]).await;
    let at = noon().plus_s(60);
    let rows = json!([
        sample("acme", "s-l", "l", at, 1),
        {"account": "acme", "sandbox": "s-l", "cpu": 1},
        sample("acme", "s-l", "none", at, 1),
        sample("nobody", "s-l", "l", at, 1),
    ]);
    let body = done(engine.host("h-1").post("/v1/samples", &rows).await);
    assert_eq!(rejections(&body).len(), 3);
    let list = done(engine.admin.get("/v1/rejected").await);
    let seen: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|row| (row["account"].as_str(), row["code"].as_str().unwrap(), row["door"].as_str().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            (None, "invalid_sample", "samples"),
            (Some("acme"), "unknown_lease", "samples"),
            (None, "unknown_lease", "samples"),
        ]
    );
    let last = &list["items"][0]["detail"];
    assert!(last.as_str().unwrap().contains("the account nobody"), "{last}");
    for api in [engine.control_plane(), engine.host("h-1"), engine.customer("acme", "k", false).await] {
        refused(api.get("/v1/rejected").await, 403, "forbidden");
    }
}

async fn what_is_set_aside_is_bounded_and_paged(backend: Backend) {
    let engine = engine_with(backend, &[("RUNTAB_LEDGER_REJECTED_KEPT", "5")]).await;
    let api = &engine.admin;
    let at = |second: i64| noon().plus_s(second);
    for second in 0..8 {
        api.samples(&[sample("acme", "s-l", "none", at(second), 1)]).await;
    }
    api.samples(&[sample("other", "s-l", "none", at(100), 1), sample("nobody", "s-l", "none", at(200), 1)]).await;
    let instants = async |query: &str| {
        let list = done(api.get(&format!("/v1/rejected{query}")).await);
        let rows = list["items"].as_array().unwrap().iter();
        let ats: Vec<String> = rows.map(|row| row["at"].as_str().unwrap().to_owned()).collect();
        (ats, list["next_cursor"].as_str().map(str::to_owned))
    };
    let text = |seconds: &[i64]| seconds.iter().map(|second| at(*second).to_string()).collect::<Vec<_>>();
    assert_eq!(instants("?account=acme").await, (text(&[7, 6, 5, 4, 3]), None), "the latest five of an account");
    assert_eq!(instants("?account=other").await, (text(&[100]), None));
    let mut seen = Vec::new();
    let mut query = "?limit=3".to_owned();
    loop {
        let (page, next) = instants(&query).await;
        seen.extend(page);
        let Some(next) = next else { break };
        query = format!("?limit=3&cursor={next}");
    }
    assert_eq!(seen, text(&[200, 100, 7, 6, 5, 4, 3]), "samples of one request by account and time");
}

async fn only_what_cannot_be_read_is_refused(backend: Backend) {
    let engine = engine_with(backend, &[("RUNTAB_SERVER_SAMPLES_BYTES_MAX", "65536")]).await;
    let api = &engine.admin;
    let body = || snappy(&v1(&[cpu("l", noon(), 0.0)]));
    for content_type in ["application/json", "application/x-protobuf;proto=other.Request", "text/plain"] {
        refused(post(api, content_type, body()).await.json(), 415, "unsupported_media_type");
    }
    for encoding in ["identity", "gzip", "zstd"] {
        let headers = [("content-type", TYPE_V1), ("content-encoding", encoding)];
        let raw = api.raw("POST", "/v1/remote-write", &headers, body()).await;
        refused(raw.json(), 415, "unsupported_media_type");
    }
    for wrong in [vec![0xff; 30], snappy(&[0x0a]), snappy(&field(1, &[0xff])), v1(&[cpu("l", noon(), 0.0)])] {
        refused(post(api, TYPE_V1, wrong).await.json(), 400, "invalid_request");
    }
    refused(post(api, TYPE_V2, snappy(&field(5, &[0xff]))).await.json(), 400, "invalid_request");
    // Sixteen bytes that would be four gigabytes, and a body that would be a little too large.
    refused(post(api, TYPE_V1, vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0]).await.json(), 413, "payload_too_large");
    refused(post(api, TYPE_V1, snappy(&field(3, &vec![0; 65_534]))).await.json(), 413, "payload_too_large");
    assert_eq!(post(api, TYPE_V1, snappy(&field(3, &vec![0; 65_000]))).await.status, 204);
    let mut many = cpu("l", noon(), 0.0);
    for ms in 0..50_000 {
        many = many.at(noon().plus_ms(ms), 0.0);
    }
    let engine = engine_with(backend, &[]).await;
    let api = &engine.admin;
    refused(post(api, TYPE_V1, snappy(&v1(&[many]))).await.json(), 413, "payload_too_large");
    // A series whose labels are not there spoils nothing.
    let message = [v2(&[cpu("l", noon(), 0.0)]), field(5, &[0x0a, 2, 0x7f, 0x7f, 0x12, 2, 0x10, 1])].concat();
    assert_eq!(post(api, TYPE_V2, snappy(&message)).await.status, 204);
    assert_eq!(rejected(api, "").await[0].0, "invalid_sample");
    for api in [engine.control_plane(), engine.customer("acme", "k", false).await] {
        refused(post(&api, TYPE_V1, body()).await.json(), 403, "forbidden");
    }
    refused(post(&engine.nobody(), TYPE_V1, body()).await.json(), 401, "unauthorized");
}

async fn a_counter_whose_start_never_comes_is_set_aside(backend: Backend) {
    let engine = engine_with(backend, &[("RUNTAB_REMOTE_WRITE_WATCH_INTERVAL_MS", "20")]).await;
    let api = &engine.admin;
    let at = noon().plus_s(60);
    assert_eq!(send_v2(api, &[cpu("l", at, 1.0), disk("l", "sda", at, 5.0)]).await, 2);
    assert_eq!(rejected(api, "").await, []);
    engine.set_clock(engine.now().plus_s(120)).await;
    let list = loop {
        let list = rejected(api, "?account=acme").await;
        if !list.is_empty() {
            break list;
        }
    };
    assert_eq!((list.len(), list[0].0.as_str(), list[0].1.as_str()), (1, "no_epoch", "s-l"));
    while api.sandbox("acme", "s-l").await["storage_mib"] != 1 {}
    assert_eq!(quantity(&api.lease("acme", "l").await, "cpu_used_us"), 0);
    engine.assert_verified();
}

/// A full disk: 503, never 204; the same bytes are taken when there is room again.
#[tokio::test]
async fn a7_a_store_that_takes_nothing_is_answered_503() {
    let engine = engine_with(Backend::Sqlite, &[]).await;
    let at = noon().plus_s(60);
    let request = snappy(&v2(&[cpu("l", at, 1.0), start("l", at, noon()), memory("l", at, 0.0)]));
    let only_bad = snappy(&v2(&[cpu("l", at, f64::NAN)]));
    engine.limit_files(Some(0));
    for body in [&request, &only_bad] {
        let raw = post(&engine.admin, TYPE_V2, body.clone()).await;
        assert!(raw.retry_after.is_some() && raw.written.is_none());
        refused(raw.json(), 503, "unavailable");
    }
    engine.limit_files(None);
    for body in [&request, &only_bad] {
        assert_eq!(post(&engine.admin, TYPE_V2, body.clone()).await.status, 204);
    }
    let lease = engine.admin.lease("acme", "l").await;
    assert_eq!(quantity(&lease, "cpu_used_us"), 1_000_000);
    assert!(int(&lease, "list_micros") > 0);
    assert_eq!(rejected(&engine.admin, "").await.len(), 1);
    engine.assert_verified();
}
