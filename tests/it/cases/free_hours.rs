//! Free hours: valid on their days, drawn once, given back, and the gate of an account without a card.

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, refused, sample, shape, time, with,
};

on_each_backend!(
    f1_expired_hours_are_not_spent,
    f2_hours_valid_on_the_day_of_use,
    f3_a_grant_is_granted_once,
    f4_a_correction_of_a_free_hour,
    f4_an_earlier_end_gives_back,
    the_grant_that_expires_first_pays_first,
    free_hours_do_not_pay_for_storage,
    a_card_is_required_beyond_the_free_shape,
    a_card_is_required_beyond_the_free_disk,
    free_hours_must_cover_the_whole_window,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// granted, used, expired and remaining hours in milliseconds.
async fn free(engine: &Engine) -> [i64; 4] {
    let free = engine.admin.balance("acme").await["free"].clone();
    ["granted_ms", "used_ms", "expired_ms", "remaining_ms"].map(|name| int(&free, name))
}

/// list, free and net of a lease.
async fn amounts(engine: &Engine, lease: &str) -> [i64; 3] {
    let body = engine.admin.lease("acme", lease).await;
    ["list_micros", "free_micros", "net_micros"].map(|name| int(&body, name))
}

async fn grant(engine: &Engine, grant: Value) {
    made(engine.admin.post("/v1/accounts/acme/grants", &grant).await);
}

async fn f1_expired_hours_are_not_spent(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T23:00:00Z")).await;
    grant(&engine, json!({"id": "g", "sandbox_hours": 10, "expires_on": "2026-11-11"})).await;
    made(engine.admin.admit("acme", "ci", &[shape("l", 2 * HOUR_S)]).await);
    engine.set_clock(time("2026-11-11T01:00:00Z")).await;
    engine.admin.accepted(&[sample("acme", "s-l", "l", engine.now(), 0)]).await;
    assert_eq!(amounts(&engine, "l").await, [62_500, 31_250, 31_250]);
    assert_eq!(free(&engine).await, [60, 51, 9, 0].map(|hours| hours * 3_600_000));
    assert_eq!(engine.admin.used_and_reserved("acme", "ci").await, (31_250, 0), "today is the day after");
}

async fn f2_hours_valid_on_the_day_of_use(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-18T12:00:00Z")).await;
    grant(&engine, json!({"id": "g", "sandbox_hours": 10, "expires_on": "2026-02-20"})).await;
    made(engine.admin.admit("acme", "ci", &[shape("l", 4 * HOUR_S)]).await);
    engine.set_clock(time("2026-02-25T09:00:00Z")).await;
    let rows: Vec<Value> =
        (1..=4).map(|hour| sample("acme", "s-l", "l", time("2026-02-18T12:00:00Z").plus_h(hour), 0)).collect();
    engine.admin.accepted(&rows).await;
    assert_eq!(amounts(&engine, "l").await, [125_000, 125_000, 0]);
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    assert_eq!(amounts(&engine, "l").await, [125_000, 125_000, 0]);
    assert_eq!(free(&engine).await, [60, 54, 6, 0].map(|hours| hours * 3_600_000));
}

async fn f3_a_grant_is_granted_once(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let ask = json!({"id": "sorry-1", "sandbox_hours": 5, "starts_on": "2026-11-01", "expires_on": null, "note": "n"});
    let path = "/v1/accounts/acme/grants";
    let first = made(api.post(path, &ask).await);
    for _ in 0..4 {
        assert_eq!(done(api.post(path, &ask).await), first);
    }
    refused(api.post(path, &with(ask, "sandbox_hours", 6)).await, 409, "conflict");
    assert_eq!(free(&engine).await[0], 55 * 3_600_000);
    let grants = done(api.get(path).await);
    assert_eq!(grants["items"].as_array().unwrap().len(), 2, "the welcome and this one");
}

async fn f4_a_correction_of_a_free_hour(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l", HOUR_S)]).await);
    engine.set_clock(noon().plus_h(1)).await;
    done(api.end("acme", "l", None, "stop").await);
    assert_eq!(amounts(&engine, "l").await, [31_250, 31_250, 0]);
    api.accepted(&[sample("acme", "s-l", "l", noon().plus_h(1), 7_200_000_000)]).await;
    assert_eq!(amounts(&engine, "l").await, [80_000, 80_000, 0]);
    assert_eq!(free(&engine).await, [50, 1, 0, 49].map(|hours| hours * 3_600_000));
}

async fn f4_an_earlier_end_gives_back(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l", 2 * HOUR_S)]).await);
    engine.set_clock(noon().plus_h(2)).await;
    api.accepted(&[sample("acme", "s-l", "l", noon().plus_h(2), 0)]).await;
    assert_eq!(free(&engine).await, [50, 2, 0, 48].map(|hours| hours * 3_600_000));
    done(api.end("acme", "l", Some(noon().plus_s(1_800)), "stop").await);
    assert_eq!(amounts(&engine, "l").await, [15_625, 15_625, 0]);
    assert_eq!(free(&engine).await, [180_000_000, 1_800_000, 0, 178_200_000]);
}

/// Three hours: the first to expire first, then the other; a grant of another day pays nothing.
async fn the_grant_that_expires_first_pays_first(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    grant(&engine, json!({"id": "a", "sandbox_hours": 5})).await;
    grant(&engine, json!({"id": "b", "sandbox_hours": 2, "expires_on": "2026-11-11"})).await;
    grant(&engine, json!({"id": "c", "sandbox_hours": 7, "starts_on": "2026-11-11"})).await;
    made(api.admit("acme", "ci", &[shape("l", 3 * HOUR_S)]).await);
    engine.set_clock(noon().plus_h(3)).await;
    api.accepted(&[sample("acme", "s-l", "l", engine.now(), 0)]).await;
    assert_eq!(amounts(&engine, "l").await, [93_750, 93_750, 0]);
    let grants = done(api.get("/v1/accounts/acme/grants").await);
    let used = |id: &str| {
        let grant = grants["items"].as_array().unwrap().iter().find(|grant| grant["id"] == id).unwrap();
        int(grant, "used_ms")
    };
    assert_eq!([used("a"), used("b"), used("c")], [3_600_000, 7_200_000, 0]);
}

async fn free_hours_do_not_pay_for_storage(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l", HOUR_S)]).await);
    let row = |at: Time| with(sample("acme", "s-l", "l", at, 0), "storage_mib", 10_240);
    api.accepted(&[row(noon())]).await;
    engine.set_clock(noon().plus_h(1)).await;
    api.accepted(&[row(noon().plus_h(1))]).await;
    let total = api.costs("acme", noon(), noon().plus_h(1), "granularity=total&group_by=none").await["total"].clone();
    assert_eq!(["list_micros", "free_micros", "net_micros"].map(|name| int(&total, name)), [32_330, 31_250, 1_080]);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (1_080, 0), "used is net of free time");
}

/// An account without a card and its key `ci`.
async fn without_card(backend: Backend) -> Engine {
    let engine = Engine::start(backend, noon()).await;
    made(engine.admin.account("acme", false).await);
    made(engine.admin.key("acme", "ci", None).await);
    engine
}

async fn a_card_is_required_beyond_the_free_shape(backend: Backend) {
    let engine = without_card(backend).await;
    let api = &engine.admin;
    for (vcpus, memory_mib) in [(9, 16_384), (8, 16_385)] {
        let ask = [lease("fits", "fits", 1, 1_024, 60), lease("large", "large", vcpus, memory_mib, 60)];
        let body = refused(api.admit("acme", "ci", &ask).await, 402, "card_required");
        assert_eq!(body["lease"], "large");
    }
    let ask = [lease("large", "large", 8, 16_384, 60)];
    made(api.admit("acme", "ci", &ask).await);
    done(api.patch("/v1/accounts/acme", &json!({"card_on_file": true})).await);
    made(api.admit("acme", "ci", &[lease("larger", "larger", 9, 16_385, 60)]).await);
}

async fn a_card_is_required_beyond_the_free_disk(backend: Backend) {
    let engine = without_card(backend).await;
    let api = &engine.admin;
    for (sandbox, storage_mib, fits) in [("full", 20 * 1_024, true), ("over", 20 * 1_024 + 1, false)] {
        let (status, body) = api.put(&format!("/v1/accounts/acme/sandboxes/{sandbox}"), &json!({"key": "ci"})).await;
        assert!([200, 201].contains(&status), "{status} {body}");
        api.accepted(&[at_rest("acme", sandbox, noon(), storage_mib)]).await;
        let answer = api.admit("acme", "ci", &[with(lease(sandbox, sandbox, 1, 1_024, 60), "kind", "wake")]).await;
        if fits {
            made(answer);
        } else {
            assert_eq!(refused(answer, 402, "card_required")["lease"], "over");
        }
    }
}

async fn free_hours_must_cover_the_whole_window(backend: Backend) {
    let engine = without_card(backend).await;
    let api = &engine.admin;
    let body = refused(api.admit("acme", "ci", &[shape("l", 51 * HOUR_S)]).await, 402, "free_hours_exhausted");
    assert_eq!((int(&body, "needed_ms"), int(&body, "available_ms")), (183_600_000, 180_000_000));
    made(api.admit("acme", "ci", &[shape("l", 49 * HOUR_S)]).await);
    // An hour is left, and the unmetered time of the other lease is spoken for.
    refused(api.admit("acme", "ci", &[shape("m", HOUR_S + 1)]).await, 402, "free_hours_exhausted");
    refused(api.extend("acme", "l", "x", HOUR_S + 1).await, 402, "free_hours_exhausted");
    made(api.admit("acme", "ci", &[shape("m", HOUR_S)]).await);
    refused(api.admit("acme", "ci", &[shape("n", 1)]).await, 402, "free_hours_exhausted");
    // What an end gives back is there again.
    done(api.end("acme", "m", None, "cancel").await);
    made(api.admit("acme", "ci", &[shape("n", HOUR_S)]).await);
    // Free time must be valid on the days in question.
    done(api.end("acme", "l", None, "cancel").await);
    done(api.end("acme", "n", None, "cancel").await);
    made(
        api.post("/v1/accounts/acme/grants", &json!({"id": "g", "sandbox_hours": 20, "expires_on": "2026-11-11"}))
            .await,
    );
    made(api.admit("acme", "ci", &[shape("o", 62 * HOUR_S)]).await);
    // 12 of the 20 hours of today are spoken for, and all of the 50 that never expire.
    refused(api.admit("acme", "ci", &[shape("p", 8 * HOUR_S + 1)]).await, 402, "free_hours_exhausted");
    made(api.admit("acme", "ci", &[shape("p", 8 * HOUR_S)]).await);
}
