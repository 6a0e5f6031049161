//! Daily limits and caps: what they may be, when they bind, and what changing them means.

use serde_json::json;

use crate::harness::{
    Backend, Engine, HOUR_S, Time, done, int, invalid, lease, made, on_each_backend, refused, sample, shape, time, with,
};

on_each_backend!(
    a8_values_of_a_limit,
    a8_values_of_max_cost,
    a11_no_reset_to_skip,
    a12_every_door_is_gated,
    a14_changed_limits_and_rotated_secrets,
    a15_a_lease_over_midnight,
    a16_an_exact_fit,
    an_earlier_end_gives_back_at_once,
    what_a_later_card_adds_is_counted,
    what_is_held_shrinks_with_each_sample,
);

/// What no amount may be, as JSON text, with the status that it is refused with.
const REFUSED: [(&str, u16); 10] = [
    ("-7", 422),
    ("\"\"", 422),
    ("\"100\"", 422),
    ("1.5", 422),
    ("100.0", 422),
    ("1e400", 422),
    ("9007199254740992", 422),
    ("9223372036854775808", 422),
    ("true", 422),
    ("NaN", 400),
];

fn midnight() -> Time {
    time("2026-11-10T00:00:00Z")
}

async fn a8_values_of_a_limit(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    let before = engine.seen("acme").await;
    for (value, status) in REFUSED {
        let requests = [
            ("PATCH", "/v1/accounts/acme/keys/ci", format!("{{\"daily_limit_micros\":{value}}}")),
            ("PATCH", "/v1/accounts/acme", format!("{{\"daily_limit_micros\":{value}}}")),
            (
                "POST",
                "/v1/accounts/acme/keys",
                format!("{{\"id\":\"k\",\"name\":\"k\",\"daily_limit_micros\":{value}}}"),
            ),
        ];
        for (method, path, body) in requests {
            let answer = api.text(method, path, &body).await;
            let problem = refused(answer, status, "invalid_request");
            assert!(status == 400 || problem["pointer"] == "/daily_limit_micros", "{value}: {problem}");
        }
    }
    assert_eq!(engine.seen("acme").await, before);

    made(api.post("/v1/accounts/acme/keys", &json!({"id": "absent", "name": "n"})).await);
    made(api.post("/v1/accounts/acme/keys", &json!({"id": "null", "name": "n", "daily_limit_micros": null})).await);
    for key in ["absent", "null"] {
        assert_eq!(api.key_day("acme", key).await["available_micros"], json!(null));
        made(api.admit("acme", key, &[shape(key, HOUR_S)]).await);
    }
    made(api.key("acme", "most", Some(9_007_199_254_740_991)).await);
    made(api.admit("acme", "most", &[shape("most", HOUR_S)]).await);
    made(api.key("acme", "none", Some(0)).await);
    let body = refused(api.admit("acme", "none", &[lease("l", "s", 1, 1, 1)]).await, 402, "spending_limit_reached");
    assert_eq!((int(&body, "limit_micros"), int(&body, "longest_timeout_seconds")), (0, 0));
}

async fn a8_values_of_max_cost(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    let path = "/v1/accounts/acme/leases";
    let before = engine.seen("acme").await;
    for (value, status) in REFUSED {
        let body = format!(
            "{{\"key\":\"ci\",\"leases\":[{{\"id\":\"l\",\"sandbox\":\"s\",\"kind\":\"create\",\"vcpus\":2,\"memory_mib\":4096,\
             \"timeout_seconds\":3600,\"max_cost_micros\":{value}}}]}}"
        );
        let problem = refused(api.text("POST", path, &body).await, status, "invalid_request");
        assert!(status == 400 || problem["pointer"] == "/leases/0/max_cost_micros", "{value}: {problem}");
    }
    let zero = with(shape("l-0", HOUR_S), "max_cost_micros", 0);
    let body = refused(api.admit("acme", "ci", &[zero]).await, 402, "max_cost_exceeded");
    assert_eq!((int(&body, "worst_case_micros"), int(&body, "max_cost_micros")), (80_000, 0));
    assert_eq!(body["lease"], "l-0");
    assert_eq!(engine.seen("acme").await, before);
    made(api.admit("acme", "ci", &[with(shape("l-1", HOUR_S), "max_cost_micros", json!(null))]).await);
    made(api.admit("acme", "ci", &[shape("l-2", HOUR_S)]).await);
}

async fn a11_no_reset_to_skip(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T12:00:00Z")).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(80_000)).await);
    made(api.admit("acme", "ci", &[shape("l-1", HOUR_S)]).await);
    let end = time("2026-11-10T13:00:00Z");
    engine.set_clock(end).await;
    api.accepted(&[sample("acme", "s-l-1", "l-1", end, 7_200_000_000)]).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (80_000, 0));
    engine.set_clock(time("2026-11-10T23:59:59.999Z")).await;
    let body = refused(api.admit("acme", "ci", &[shape("l-2", HOUR_S)]).await, 402, "spending_limit_reached");
    assert_eq!(body["day"], "2026-11-10");
    assert_eq!(body["resets_at"], "2026-11-11T00:00:00.000Z");
    assert_eq!((int(&body, "available_micros"), int(&body, "longest_timeout_seconds")), (0, 0));
    engine.set_clock(time("2026-11-13T00:00:00.000Z")).await;
    made(api.admit("acme", "ci", &[shape("l-2", HOUR_S)]).await);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 80_000));
}

async fn a12_every_door_is_gated(backend: Backend) {
    let engine = Engine::with_payer(backend, midnight()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(160_000)).await);
    made(api.admit("acme", "ci", &[shape("on", 2 * HOUR_S)]).await);
    engine.set_clock(midnight().plus_h(1)).await;
    api.accepted(&[sample("acme", "s-on", "on", midnight().plus_h(1), 7_200_000_000)]).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (80_000, 80_000));
    done(api.set_limit("acme", "ci", Some(80_000)).await);
    let before = engine.seen("acme").await;
    for kind in ["create", "wake", "fork"] {
        let ask = with(lease(kind, "new", 1, 1, 1), "kind", kind);
        refused(api.admit("acme", "ci", std::slice::from_ref(&ask)).await, 402, "spending_limit_reached");
        let quote = done(api.quote("acme", "ci", &[ask]).await);
        assert_eq!(quote["refusal"]["code"], "spending_limit_reached");
    }
    refused(api.extend("acme", "on", "x", 1).await, 402, "spending_limit_reached");
    let larger = with(with(lease("larger", "s-on", 4, 8_192, HOUR_S), "kind", "wake"), "replaces", "on");
    refused(api.admit("acme", "ci", &[larger]).await, 402, "spending_limit_reached");
    assert_eq!(engine.seen("acme").await, before);
}

async fn a14_changed_limits_and_rotated_secrets(backend: Backend) {
    let engine = Engine::with_payer(backend, midnight()).await;
    let api = &engine.admin;
    let key = made(api.key("acme", "k", Some(1_000_000)).await);
    made(api.admit("acme", "k", &[shape("l-1", 42_750)]).await);
    engine.set_clock(midnight().plus_s(42_750)).await;
    api.accepted(&[sample("acme", "s-l-1", "l-1", engine.now(), 85_500_000_000)]).await;
    let stands = |api: crate::harness::Api| async move {
        let day = api.key_day("acme", "k").await;
        (int(&day, "used_micros"), day["available_micros"].as_i64())
    };
    assert_eq!(stands(api.clone()).await, (950_000, Some(50_000)));

    let rotated = done(api.post("/v1/accounts/acme/keys/k/rotate", &json!({})).await);
    let [old, new] = [&key, &rotated].map(|body| api.with_token(body["secret"].as_str()));
    assert_ne!(key["secret"], rotated["secret"]);
    refused(old.get("/v1/accounts/acme/balance").await, 401, "unauthorized");
    done(new.get("/v1/accounts/acme/balance").await);
    assert_eq!(stands(api.clone()).await, (950_000, Some(50_000)));

    done(api.set_limit("acme", "k", Some(500_000)).await);
    assert_eq!(stands(api.clone()).await, (950_000, Some(0)));
    let body = refused(api.admit("acme", "k", &[lease("l", "s", 1, 1, 1)]).await, 402, "spending_limit_reached");
    assert_eq!((int(&body, "available_micros"), int(&body, "used_micros")), (0, 950_000));
    done(api.set_limit("acme", "k", Some(1_200_000)).await);
    assert_eq!(stands(api.clone()).await, (950_000, Some(250_000)));
    done(api.set_limit("acme", "k", None).await);
    assert_eq!(stands(api.clone()).await, (950_000, None));
    done(api.set_limit("acme", "k", Some(1_000_000)).await);
    assert_eq!(stands(api.clone()).await, (950_000, Some(50_000)));
}

async fn a15_a_lease_over_midnight(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-11-10T23:30:00Z")).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(50_000)).await);
    let body = made(api.admit("acme", "ci", &[shape("l-1", HOUR_S)]).await);
    assert_eq!(int(&body["leases"][0], "worst_case_micros"), 80_000);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 40_000));
    done(api.set_limit("acme", "ci", Some(70_000)).await);
    let ask = lease("l-2", "s-2", 1, 4_096, 75 * 60);
    let body = refused(api.admit("acme", "ci", &[ask]).await, 402, "spending_limit_reached");
    let names = ["scope", "key", "lease", "day", "resets_at"];
    assert_eq!(
        names.map(|name| body[name].as_str().unwrap()),
        ["key", "ci", "l-2", "2026-11-11", "2026-11-12T00:00:00.000Z"]
    );
    let names = ["limit_micros", "used_micros", "reserved_micros", "needed_micros", "available_micros"];
    assert_eq!(names.map(|name| int(&body, name)), [70_000, 0, 40_000, 41_250, 30_000]);
    // 30,000 of 55,000 an hour are 1,963.6 s of tomorrow, after half an hour of today.
    assert_eq!(int(&body, "longest_timeout_seconds"), 3_763);
    let second_more = lease("l-2", "s-2", 1, 4_096, 3_764);
    refused(api.admit("acme", "ci", &[second_more]).await, 402, "spending_limit_reached");
    made(api.admit("acme", "ci", &[lease("l-2", "s-2", 1, 4_096, 3_763)]).await);
    engine.set_clock(time("2026-11-11T00:00:00Z")).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 69_991), "69,990.3, rounded up");
}

async fn a16_an_exact_fit(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    for kind in ["create", "wake"] {
        let ask = |id: &str| with(shape(&format!("{kind}-{id}"), HOUR_S), "kind", kind);
        done(api.set_limit("acme", "ci", None).await);
        let over = with(ask("capped"), "max_cost_micros", 79_999);
        refused(api.admit("acme", "ci", &[over]).await, 402, "max_cost_exceeded");
        made(api.admit("acme", "ci", &[with(ask("capped"), "max_cost_micros", 80_000)]).await);

        let key = format!("k-{kind}");
        made(api.key("acme", &key, Some(79_999)).await);
        let body = refused(api.admit("acme", &key, &[ask("fits")]).await, 402, "spending_limit_reached");
        assert_eq!(int(&body, "longest_timeout_seconds"), 3_599);
        done(api.set_limit("acme", &key, Some(80_000)).await);
        made(api.admit("acme", &key, &[ask("fits")]).await);
        let day = api.key_day("acme", &key).await;
        assert_eq!((int(&day, "reserved_micros"), int(&day, "available_micros")), (80_000, 0));
    }
    // An extension has a cap of its own, for what it adds.
    let path = "/v1/accounts/acme/leases/create-capped/extend";
    let ask = |cap: i64| json!({"id": "x-1", "timeout_seconds": 1_800, "max_cost_micros": cap});
    let body = refused(api.post(path, &ask(39_999)).await, 402, "max_cost_exceeded");
    assert_eq!(int(&body, "worst_case_micros"), 40_000);
    let body = done(api.post(path, &ask(40_000)).await);
    assert_eq!((&body["ends_at"], int(&body, "worst_case_micros")), (&json!("2026-11-10T01:30:00.000Z"), 120_000));
    invalid(api.post(path, &with(ask(1), "timeout_seconds", 0)).await, "/timeout_seconds");
}

async fn an_earlier_end_gives_back_at_once(backend: Backend) {
    let engine = Engine::with_payer(backend, midnight()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l-1", HOUR_S)]).await);
    engine.set_clock(midnight().plus_s(900)).await;
    let body = done(api.end("acme", "l-1", None, "stop").await);
    assert_eq!((&body["state"], &body["ended_at"]), (&json!("ended"), &json!("2026-11-10T00:15:00.000Z")));
    // 15 minutes at the floor are 7,812.5; their worst case is 20,000, of which the floor is posted already.
    assert_eq!(api.used_and_reserved("acme", "ci").await, (7_812, 12_188));
    api.accepted(&[sample("acme", "s-l-1", "l-1", engine.now(), 1_800_000_000)]).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (20_000, 0));
    assert_eq!(api.lease("acme", "l-1").await["state"], "settled");
}

async fn what_is_held_shrinks_with_each_sample(backend: Backend) {
    let engine = Engine::with_payer(backend, midnight()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l-1", HOUR_S)]).await);
    for (minute, used, reserved) in [(15, 7_812, 60_000), (30, 15_625, 40_000), (45, 23_437, 20_000), (60, 31_250, 0)] {
        engine.set_clock(midnight().plus_s(minute * 60)).await;
        api.accepted(&[sample("acme", "s-l-1", "l-1", engine.now(), 0)]).await;
        assert_eq!(api.used_and_reserved("acme", "ci").await, (used, reserved), "minute {minute}");
    }
}

async fn what_a_later_card_adds_is_counted(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T22:30:00Z")).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l-1", "s-1", 1, 1_024, 3 * HOUR_S)]).await);
    engine.set_clock(time("2026-11-10T22:40:00Z")).await;
    let card = json!({"id": "dear", "effective_on": "2026-11-11", "cpu_micros_per_vcpu_hour": 125_000,
                      "memory_micros_per_gib_hour": 7_500, "storage_micros_per_gib_hour": 108,
                      "cpu_floor_millicores": 50, "account": null});
    made(api.post("/v1/rate-cards", &card).await);
    // Half an hour of one vCPU on each side of midnight.
    engine.set_clock(time("2026-11-11T00:30:00Z")).await;
    let at = |minutes: i64| time("2026-11-10T22:30:00Z").plus_ms(minutes * 60_000);
    let used = [(0, 0), (60, 0), (90, 1_800_000_000), (120, 3_600_000_000)];
    let samples = used.map(|(minutes, cpu_us)| sample("acme", "s-1", "l-1", at(minutes), cpu_us));
    api.accepted(&samples).await;
    let text = engine.nobody().raw("GET", "/metrics", &[], Vec::new()).await.text();
    assert!(text.contains("runtab_repriced_micros 50000\n"), "half an hour at 100,000 more: {text}");
    assert!(text.contains("runtab_late_micros 0\n"), "{text}");
    // Of a lease that was admitted at the dear price nothing is counted.
    made(api.admit("acme", "ci", &[lease("l-2", "s-2", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-11-11T01:00:00Z")).await;
    api.accepted(&[sample("acme", "s-2", "l-2", time("2026-11-11T01:00:00Z"), 1_800_000_000)]).await;
    let text = engine.nobody().raw("GET", "/metrics", &[], Vec::new()).await.text();
    assert!(text.contains("runtab_repriced_micros 50000\n"), "{text}");
}
