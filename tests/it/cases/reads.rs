//! Cost tables: ranges, calendars, groups that add up, and how complete they are.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, refused, sample, time, with,
};

on_each_backend!(
    r3_single_days_sum_to_the_range,
    r3_ranges_that_are_refused,
    r4_a_day_has_24_hours,
    every_grouping_adds_up,
    complete_before,
    empty_periods_have_rows,
    costs_of_all_accounts,
    the_forecast_goes_on_at_the_same_pace,
    health_and_documents,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// One busy hour of 1 vCPU, 1 GiB at noon of each of 6, 7 and 8 September: 32,500 a day.
async fn r3_single_days_sum_to_the_range(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-09-06T12:00:00Z")).await;
    let api = &engine.admin;
    for day in [6, 7, 8] {
        let (id, start) = (format!("l-{day}"), time(&format!("2026-09-0{day}T12:00:00Z")));
        engine.set_clock(start).await;
        made(api.admit("acme", "ci", &[lease(&id, "s", 1, 1_024, HOUR_S)]).await);
        engine.set_clock(start.plus_h(1)).await;
        api.accepted(&[sample("acme", "s", &id, engine.now(), 3_600_000_000)]).await;
    }
    let net = |from: &str, to: &str| {
        let (from, to) = (time(&format!("{from}T00:00:00Z")), time(&format!("{to}T00:00:00Z")));
        let api = api.clone();
        async move { api.costs("acme", from, to, "granularity=day&group_by=none").await }
    };
    let mut days = Vec::new();
    for (from, to) in [("2026-09-06", "2026-09-07"), ("2026-09-07", "2026-09-08"), ("2026-09-08", "2026-09-09")] {
        days.push(int(&net(from, to).await["total"], "net_micros"));
    }
    assert_eq!(days, [32_500, 32_500, 32_500]);
    let range = net("2026-09-06", "2026-09-09").await;
    assert_eq!(int(&range["total"], "net_micros"), 97_500);
    let rows: Vec<i64> = range["rows"].as_array().unwrap().iter().map(|row| int(row, "net_micros")).collect();
    assert_eq!(rows, days);
}

#[expect(clippy::disallowed_methods, reason = "the case is about how long a refusal takes")]
async fn r3_ranges_that_are_refused(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let day = "2026-11-10T00:00:00Z";
    for query in [
        "from=2026-11-11T00:00:00Z&to=2026-11-10T00:00:00Z&granularity=day&group_by=none".to_owned(),
        format!("from={day}&to={day}&granularity=day&group_by=none"),
        "from=yesterday&to=2026-11-10T00:00:00Z&granularity=day&group_by=none".to_owned(),
        "from=2026-11-10&to=2026-11-11&granularity=day&group_by=none".to_owned(),
        "from=0001-01-01T00:00:00Z&to=9999-01-01T00:00:00Z&granularity=hour&group_by=none".to_owned(),
        "from=0001-01-01T00:00:00Z&to=9999-01-01T00:00:00Z&granularity=day&group_by=none".to_owned(),
        "from=2026-08-01T00:00:00Z&to=2026-11-03T00:00:00Z&granularity=hour&group_by=none".to_owned(),
        "from=2026-11-10T00:30:00Z&to=2026-11-10T02:00:00Z&granularity=hour&group_by=none".to_owned(),
        "from=2026-11-10T01:00:00Z&to=2026-11-11T00:00:00Z&granularity=day&group_by=none".to_owned(),
        "from=2026-11-10T01:00:00Z&to=2026-12-01T00:00:00Z&granularity=month&group_by=none".to_owned(),
        format!("from={day}&to=2026-11-11T00:00:00Z&granularity=week&group_by=none"),
        format!("from={day}&to=2026-11-11T00:00:00Z&granularity=day&group_by=colour"),
        format!("from={day}&to=2026-11-11T00:00:00Z&granularity=day&group_by=account"),
    ] {
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            refused(api.get(&format!("/v1/accounts/acme/costs?{query}")).await, 422, "invalid_request");
            fastest = fastest.min(start.elapsed());
        }
        assert!(fastest < Duration::from_millis(100), "{query}: {fastest:?}");
    }
}

/// No zone parameter exists, and the server's own zone, in which this day has 25 hours, does not matter.
async fn r4_a_day_has_24_hours(backend: Backend) {
    let engine = Engine::start_with(backend, time("2026-11-02T00:00:00Z"), &[("TZ", "America/New_York")]).await;
    let api = &engine.admin;
    made(api.account("acme", true).await);
    let (from, to) = (time("2026-11-01T00:00:00Z"), time("2026-11-02T00:00:00Z"));
    let costs = api.costs("acme", from, to, "granularity=hour&group_by=none").await;
    let rows = costs["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 24);
    assert_eq!((&rows[0]["start"], &rows[23]["end"]), (&json!(from.to_string()), &json!(to.to_string())));
    for zone in ["tz=America/New_York", "timezone=UTC", "zone=Asia/Tokyo"] {
        let path = format!("/v1/accounts/acme/costs?from={from}&to={to}&granularity=hour&group_by=none&{zone}");
        refused(api.get(&path).await, 422, "invalid_request");
    }
}

/// Two leases of odd lengths, storage beside them.
async fn odd_usage(api: &Api, engine: &Engine) {
    made(api.key("acme", "other", None).await);
    made(api.admit("acme", "ci", &[lease("a", "a", 3, 1_537, 5_000)]).await);
    made(api.admit("acme", "other", &[lease("b", "b", 1, 333, 7_777)]).await);
    engine.set_clock(noon().plus_h(3)).await;
    let row = |id: &str, seconds: i64, cpu: i64| sample("acme", id, id, noon().plus_s(seconds), cpu);
    api.accepted(&[
        with(row("a", 777, 123_456_789), "storage_mib", 811),
        row("a", 5_000, 1_234_567_891),
        with(row("b", 7_777, 31), "storage_mib", 97),
        at_rest("acme", "a", noon().plus_s(9_001), 1),
        at_rest("acme", "b", noon().plus_s(10_003), 1),
    ])
    .await;
}

async fn every_grouping_adds_up(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    odd_usage(api, &engine).await;
    let (from, to) = (noon(), noon().plus_h(3));
    let mut totals = Vec::new();
    for granularity in ["hour", "total"] {
        for group in ["none", "sandbox", "lease", "key", "resource"] {
            let query = format!("granularity={granularity}&group_by={group}");
            let costs = api.costs("acme", from, to, &query).await;
            let rows = costs["rows"].as_array().unwrap();
            for name in ["list_micros", "free_micros", "net_micros"] {
                let sum: i64 = rows.iter().map(|row| int(row, name)).sum();
                assert_eq!(sum, int(&costs["total"], name), "{query} {name}");
            }
            let starts: Vec<&str> = rows.iter().map(|row| row["start"].as_str().unwrap()).collect();
            assert!(starts.is_sorted(), "{query}");
            totals.push(costs["total"].clone());
        }
    }
    assert!(totals.iter().all(|total| *total == totals[0]), "{totals:?}");
    let leases = engine.list("a").await + engine.list("b").await;
    let storage = api.costs("acme", from, to, "granularity=total&group_by=resource").await["rows"][2].clone();
    let difference = int(&totals[0], "list_micros") - leases - int(&storage, "list_micros");
    assert!((-3..=3).contains(&difference), "each figure is rounded once: {difference}");
}

async fn complete_before(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let until = |to: Time| {
        let api = api.clone();
        async move { api.costs("acme", noon(), to, "granularity=hour&group_by=none").await["complete_before"].clone() }
    };
    assert_eq!(until(noon().plus_h(2)).await, noon().to_string(), "without any: now");
    let leases = [lease("a", "a", 1, 1_024, HOUR_S), lease("b", "b", 1, 1_024, HOUR_S)];
    made(api.admit("acme", "ci", &leases).await);
    engine.set_clock(noon().plus_s(1_200)).await;
    let row = |id: &str, seconds: i64| sample("acme", id, id, noon().plus_s(seconds), 0);
    api.accepted(&[row("a", 600), row("b", 1_200)]).await;
    assert_eq!(until(noon().plus_h(2)).await, noon().plus_s(600).to_string());
    engine.set_clock(noon().plus_h(1)).await;
    api.accepted(&[row("a", 3_600)]).await;
    assert_eq!(until(noon().plus_h(2)).await, noon().plus_s(1_200).to_string(), "a is settled");
    engine.set_clock(noon().plus_s(3_600 + 900)).await;
    assert_eq!(until(noon().plus_h(2)).await, engine.now().to_string(), "b settled by the clock");
    assert_eq!(until(noon().plus_h(1)).await, noon().plus_h(1).to_string(), "the range's end, if that is earlier");
}

async fn empty_periods_have_rows(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(noon().plus_h(1)).await;
    api.accepted(&[sample("acme", "s", "l", engine.now(), 0)]).await;
    let day = time("2026-11-10T00:00:00Z");
    let count = |query: &'static str| {
        let api = api.clone();
        async move { api.costs("acme", day, day.plus_h(24), query).await["rows"].as_array().unwrap().len() }
    };
    assert_eq!(count("granularity=hour&group_by=none").await, 24);
    assert_eq!(count("granularity=hour&group_by=resource").await, 72);
    assert_eq!(count("granularity=hour&group_by=sandbox").await, 1);
    assert_eq!(count("granularity=day&group_by=lease").await, 1);
    assert_eq!(count("granularity=month&group_by=none").await, 1);
    assert_eq!(count("granularity=total&group_by=none").await, 1);
}

async fn costs_of_all_accounts(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.account("other", true).await);
    made(api.key("other", "ci", None).await);
    for account in ["acme", "other"] {
        made(api.admit(account, "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    }
    engine.set_clock(noon().plus_h(1)).await;
    for (account, cpu) in [("acme", 0), ("other", 3_600_000_000)] {
        api.accepted(&[sample(account, "s", "l", engine.now(), cpu)]).await;
    }
    let path =
        |group: &str| format!("/v1/costs?from={}&to={}&granularity=total&group_by={group}", noon(), engine.now());
    let costs = done(api.get(&path("account")).await);
    let rows: Vec<(Value, i64)> =
        costs["rows"].as_array().unwrap().iter().map(|row| (row["account"].clone(), int(row, "list_micros"))).collect();
    assert_eq!(rows, [(json!("acme"), 8_750), (json!("other"), 32_500)]);
    assert_eq!(int(&costs["total"], "list_micros"), 41_250);
    let customer = engine.customer("acme", "k", false).await;
    refused(customer.get(&path("account")).await, 403, "forbidden");
}

/// 31,250 net in the first of the 30 days of November.
async fn the_forecast_goes_on_at_the_same_pace(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-01T00:00:00Z")).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 2, 4_096, HOUR_S)]).await);
    engine.set_clock(time("2026-11-01T01:00:00Z")).await;
    api.accepted(&[sample("acme", "s", "l", engine.now(), 0)]).await;
    engine.set_clock(time("2026-11-02T00:00:00Z")).await;
    let month = api.balance("acme").await["month"].clone();
    assert_eq!((&month["month"], int(&month, "net_micros")), (&json!("2026-11"), 31_250));
    assert_eq!(int(&month, "forecast_micros"), 937_500);
}

async fn health_and_documents(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let nobody = engine.nobody();
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        let answer = nobody.raw("GET", path, &[], Vec::new()).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    let document = done(nobody.get("/openapi.json").await);
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{}", document["openapi"]);
    let (status, body) = engine.admin.set_clock(noon().plus_ms(-1)).await;
    assert!([409, 422].contains(&status), "a clock does not go back: {status} {body}");
}
