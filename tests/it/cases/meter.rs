//! What samples and ends make of a lease's bill: any order, any gap, any race gives the one right figure.

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, quantity, refused,
    rejections, sample, time, with,
};

on_each_backend!(
    s4_any_order,
    s4_another_value_is_a_conflict,
    s5_a_counter_that_starts_again,
    s5_a_glitch_to_zero,
    s6_short_lives,
    s7_a_missed_sample_drops_nothing,
    s12_suspended_time_is_not_billed,
    s13_an_orphan,
    s14_an_end_that_is_confirmed_late,
    s16_a_counter_that_goes_on,
    s17_the_end_and_the_last_sample_race,
    reported_memory_lowers_the_bill_only,
    ends_that_are_refused,
    a_late_end_changes_nothing,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// All orders of `items`.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 0..items.len() {
        let mut rest = items.to_vec();
        let item = rest.remove(first);
        all.extend(orders(&rest).into_iter().map(|order| [vec![item.clone()], order].concat()));
    }
    all
}

/// A lease `id` of 1 vCPU, 1 GiB of the sandbox of the same name, from now on.
async fn admit(api: &Api, id: &str, timeout_seconds: i64) {
    made(api.admit("acme", "ci", &[lease(id, id, 1, 1_024, timeout_seconds)]).await);
}

/// A sample of a lease whose sandbox has its name, `seconds` after noon, with a counter in seconds.
fn seen(id: &str, seconds: i64, cpu_seconds: i64) -> Value {
    sample("acme", id, id, noon().plus_s(seconds), cpu_seconds * 1_000_000)
}

async fn s4_any_order(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let orders = orders(&[0, 60, 120, 180]);
    assert_eq!(orders.len(), 24);
    for index in 0..orders.len() {
        admit(api, &format!("b-{index}"), 180).await;
        admit(api, &format!("r-{index}"), 180).await;
    }
    engine.set_clock(noon().plus_s(180)).await;
    for (index, order) in orders.iter().enumerate() {
        // One batch, and a request a sample.
        let batch: Vec<Value> = order.iter().map(|second| seen(&format!("b-{index}"), *second, *second)).collect();
        api.accepted(&batch).await;
        for second in order {
            api.accepted(&[seen(&format!("r-{index}"), *second, *second)]).await;
        }
        for id in [format!("b-{index}"), format!("r-{index}")] {
            let body = api.lease("acme", &id).await;
            assert_eq!((quantity(&body, "cpu_us"), quantity(&body, "run_ms")), (180_000_000, 180_000), "{order:?}");
            assert_eq!(int(&body, "list_micros"), 1_250 + 375, "{order:?}");
        }
    }
}

async fn s4_another_value_is_a_conflict(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    admit(api, "l", 180).await;
    engine.set_clock(noon().plus_s(180)).await;
    api.accepted(&[seen("l", 0, 0), seen("l", 60, 60), seen("l", 120, 120), seen("l", 180, 180)]).await;
    let before = api.lease("acme", "l").await;
    let body = done(api.samples(&[seen("l", 120, 150)]).await);
    assert_eq!(rejections(&body), [(0, "conflict".to_owned())]);
    // An explicit memory is another value than an absent one.
    let body = done(api.samples(&[with(seen("l", 120, 120), "memory_mib", 1_024)]).await);
    assert_eq!(rejections(&body), [(0, "conflict".to_owned())]);
    assert_eq!(api.lease("acme", "l").await, before);
    assert_eq!(int(&before, "list_micros"), 1_625);
}

async fn s5_a_counter_that_starts_again(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "l", 2, 1_024, 1_200)]).await);
    engine.set_clock(noon().plus_s(1_200)).await;
    let epoch = |sample: Value| with(sample, "epoch", 1);
    let samples = [seen("l", 300, 100), seen("l", 600, 350), epoch(seen("l", 900, 50)), epoch(seen("l", 1_200, 90))];
    api.accepted(&samples).await;
    let body = api.lease("acme", "l").await;
    assert_eq!((quantity(&body, "cpu_used_us"), quantity(&body, "cpu_us")), (440_000_000, 440_000_000));
    let stale = done(api.samples(&[seen("l", 1_000, 400)]).await);
    assert_eq!(rejections(&stale), [(0, "stale_epoch".to_owned())]);
}

async fn s5_a_glitch_to_zero(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "l", 2, 1_024, 180)]).await);
    engine.set_clock(noon().plus_s(180)).await;
    let body = done(api.samples(&[seen("l", 60, 100), seen("l", 120, 0), seen("l", 180, 103)]).await);
    assert_eq!((int(&body, "accepted"), rejections(&body)), (2, vec![(1, "counter_regressed".to_owned())]));
    let body = api.lease("acme", "l").await;
    assert_eq!(quantity(&body, "cpu_used_us"), 103_000_000);
    assert_eq!(quantity(&body, "cpu_us"), 106_000_000, "3 vCPU-s over 120 s are billed at the floor");
}

async fn s6_short_lives(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for id in ["seen", "unseen", "told-first"] {
        admit(api, id, HOUR_S).await;
    }
    engine.set_clock(noon().plus_s(3)).await;
    done(api.end("acme", "unseen", None, "stop").await);
    assert_eq!(engine.list("unseen").await, 7);
    let last = |id: &str| sample("acme", id, id, noon().plus_s(12), 9_500_000);
    engine.set_clock(noon().plus_s(12)).await;
    api.accepted(&[seen("seen", 10, 8), last("seen")]).await;
    done(api.end("acme", "seen", None, "stop").await);
    assert_eq!(engine.list("seen").await, 90);
    // The end alone bills the floor; the samples correct it.
    done(api.end("acme", "told-first", None, "stop").await);
    assert_eq!(engine.list("told-first").await, 29);
    api.accepted(&[last("told-first"), seen("told-first", 10, 8)]).await;
    assert_eq!(engine.list("told-first").await, 90);
}

async fn s7_a_missed_sample_drops_nothing(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for id in ["all", "some"] {
        made(api.admit("acme", "ci", &[lease(id, id, 1, 4_096, HOUR_S)]).await);
    }
    engine.set_clock(noon().plus_h(1)).await;
    let all: Vec<Value> = (1..=60).map(|minute| seen("all", minute * 60, minute * 30)).collect();
    let lost = [3, 4, 5, 17, 30, 31, 42, 50, 51, 59];
    let some = (1..=60).filter(|minute| !lost.contains(minute));
    let some: Vec<Value> = some.map(|minute| seen("some", minute * 60, minute * 30)).collect();
    assert_eq!(some.len(), 50);
    api.accepted(&[all, some].concat()).await;
    let bodies = [api.lease("acme", "all").await, api.lease("acme", "some").await];
    assert_eq!(bodies[0]["usage"], bodies[1]["usage"]);
    assert_eq!(quantity(&bodies[1], "memory_mib_ms"), 4_096 * 3_600_000, "30,000 microdollars");
    assert_eq!(int(&bodies[1], "list_micros"), 30_000 + 12_500);
}

async fn s12_suspended_time_is_not_billed(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l-1", "s", 1, 4_096, 600)]).await);
    engine.set_clock(noon().plus_s(600)).await;
    api.accepted(&[sample("acme", "s", "l-1", engine.now(), 1_000)]).await;
    done(api.end("acme", "l-1", None, "pause").await);
    api.accepted(&[
        at_rest("acme", "s", noon().plus_s(600).plus_ms(1), 1),
        at_rest("acme", "s", noon().plus_s(630), 1),
    ])
    .await;
    engine.set_clock(noon().plus_s(3_600)).await;
    api.accepted(&[at_rest("acme", "s", engine.now(), 1)]).await;
    made(api.admit("acme", "ci", &[with(lease("l-2", "s", 1, 4_096, 600), "kind", "wake")]).await);
    engine.set_clock(noon().plus_s(4_200)).await;
    api.accepted(&[sample("acme", "s", "l-2", engine.now(), 2_000)]).await;
    let costs = api.costs("acme", noon(), noon().plus_h(2), "granularity=total&group_by=none").await;
    assert_eq!(int(&costs["total"], "list_micros"), 10_416);
    assert_eq!((quantity(&costs["total"], "run_ms"), quantity(&costs["total"], "cpu_us")), (1_200_000, 60_000_000));
}

async fn s13_an_orphan(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "l", 2, 4_096, HOUR_S)]).await);
    engine.set_clock(noon().plus_s(1_200)).await;
    let idle = |minutes: std::ops::RangeInclusive<i64>| -> Vec<Value> {
        minutes.map(|minute| seen("l", minute * 60, 0)).collect()
    };
    api.accepted(&idle(1..=20)).await;
    assert_eq!(engine.list("l").await, 10_416);
    engine.set_clock(noon().plus_h(18 * 24)).await;
    let body = api.lease("acme", "l").await;
    assert_eq!((int(&body, "list_micros"), &body["state"]), (10_416, &json!("settled")));
    assert_eq!(body["last_sample_at"], noon().plus_s(1_200).to_string());
    api.accepted(&idle(21..=60)).await;
    let again = done(api.samples(&idle(21..=60)).await);
    assert_eq!(int(&again, "duplicates"), 40);
    assert_eq!(engine.list("l").await, 31_250);
}

async fn s14_an_end_that_is_confirmed_late(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "l", 2, 4_096, HOUR_S)]).await);
    for minute in 1..=20 {
        engine.set_clock(noon().plus_s(minute * 60)).await;
        api.accepted(&[seen("l", minute * 60, 0)]).await;
    }
    done(api.end("acme", "l", Some(noon().plus_s(600)), "stop").await);
    let body = api.lease("acme", "l").await;
    assert_eq!((int(&body, "list_micros"), quantity(&body, "run_ms")), (5_208, 600_000));
    // And when the end is known first.
    made(api.admit("acme", "ci", &[lease("m", "m", 2, 4_096, HOUR_S)]).await);
    let start = engine.now();
    engine.set_clock(start.plus_s(600)).await;
    done(api.end("acme", "m", None, "stop").await);
    for minute in 1..=20 {
        engine.set_clock(engine.now().max(start.plus_s(minute * 60))).await;
        api.accepted(&[sample("acme", "m", "m", start.plus_s(minute * 60), 0)]).await;
    }
    assert_eq!(engine.list("m").await, 5_208);
}

async fn s16_a_counter_that_goes_on(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for (id, first) in [("at-start", 0), ("before", -30), ("a-minute-before", -60)] {
        admit(api, id, HOUR_S).await;
        api.accepted(&[seen(id, first, 1_800)]).await;
        assert_eq!(engine.list(id).await, 0, "a baseline proves nothing by itself");
    }
    engine.set_clock(noon().plus_h(1)).await;
    for id in ["at-start", "before", "a-minute-before"] {
        api.accepted(&[seen(id, 3_600, 1_800)]).await;
        let body = api.lease("acme", id).await;
        assert_eq!((quantity(&body, "cpu_used_us"), quantity(&body, "cpu_us")), (0, 180_000_000), "{id}");
        assert_eq!(int(&body, "list_micros"), 1_250 + 7_500, "{id}");
    }
}

async fn s17_the_end_and_the_last_sample_race(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let orders = orders(&[0, 300, 600]);
    for index in 0..orders.len() {
        admit(api, &format!("l-{index}"), HOUR_S).await;
    }
    engine.set_clock(noon().plus_s(600)).await;
    for (index, order) in orders.iter().enumerate() {
        let id = format!("l-{index}");
        for step in order {
            match step {
                0 => drop(done(api.end("acme", &id, Some(noon().plus_s(500)), "stop").await)),
                300 => api.accepted(&[seen(&id, 300, 150)]).await,
                _ => api.accepted(&[seen(&id, 600, 330)]).await,
            }
        }
        let body = api.lease("acme", &id).await;
        let figures = ["run_ms", "cpu_used_us", "cpu_us", "memory_mib_ms"].map(|name| quantity(&body, name));
        assert_eq!(figures, [500_000, 270_000_000, 270_000_000, 512_000_000], "{order:?}");
        assert_eq!(int(&body, "list_micros"), 2_916, "{order:?}");
    }
}

async fn reported_memory_lowers_the_bill_only(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    admit(api, "l", HOUR_S).await;
    engine.set_clock(noon().plus_h(1)).await;
    let samples = [
        with(seen("l", 0, 0), "memory_mib", 512),
        with(seen("l", 1_800, 0), "memory_mib", 2_048),
        seen("l", 2_700, 0),
        seen("l", 3_600, 0),
    ];
    api.accepted(&samples).await;
    let memory = quantity(&api.lease("acme", "l").await, "memory_mib_ms");
    assert_eq!(memory, 512 * 1_800_000 + 1_024 * 1_800_000, "a step function, at most the lease's");
}

async fn ends_that_are_refused(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    admit(api, "l", HOUR_S).await;
    let (status, body) = api.end("acme", "l", Some(noon().plus_ms(-1)), "stop").await;
    assert!([409, 422].contains(&status), "before its start: {status} {body}");
    let (status, body) = api.end("acme", "l", Some(noon().plus_s(61)), "stop").await;
    assert!([409, 422].contains(&status), "more than a minute ahead: {status} {body}");
    engine.set_clock(noon().plus_s(60)).await;
    api.accepted(&[seen("l", 60, 0)]).await;
    refused(api.end("acme", "l", None, "cancel").await, 409, "lease_conflict");
    assert_eq!(api.lease("acme", "l").await["state"], "running");
    // A lost host: it ends at its last sample, and nothing is billed after it.
    engine.set_clock(noon().plus_s(600)).await;
    let body = done(api.end("acme", "l", None, "host_lost").await);
    assert_eq!(body["ended_at"], noon().plus_s(60).to_string());
    assert_eq!(quantity(&body, "run_ms"), 60_000);
    refused(api.end("acme", "nope", None, "stop").await, 404, "not_found");
    let (status, body) = api.end("acme", "l", None, "bored").await;
    assert_eq!((status, &body["pointer"]), (422, &json!("/reason")));
}

async fn a_late_end_changes_nothing(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    admit(api, "l", HOUR_S).await;
    engine.set_clock(noon().plus_s(1_200)).await;
    let first = done(api.end("acme", "l", Some(noon().plus_s(600)), "stop").await);
    assert_eq!(int(&first, "list_micros"), 1_458, "10 minutes at the floor: 8,750 / 6");
    let later = done(api.end("acme", "l", Some(noon().plus_s(900)), "stop").await);
    assert_eq!(later, first, "a later end than the recorded one");
    let earlier = done(api.end("acme", "l", Some(noon().plus_s(300)), "stop").await);
    assert_eq!(int(&earlier, "list_micros"), 729, "an earlier one corrects");
    // Told after it has settled: it proves nothing.
    admit(api, "m", 600).await;
    engine.set_clock(engine.now().plus_s(600 + 900)).await;
    let body = done(api.end("acme", "m", None, "stop").await);
    assert_eq!((int(&body, "list_micros"), quantity(&body, "run_ms")), (0, 0));
}
