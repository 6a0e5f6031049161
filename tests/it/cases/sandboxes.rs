//! The life of a sandbox: running, at rest, deleted, and a second life under the same id.

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, quantity, refused, rejections,
    sample, shape, time, with,
};

on_each_backend!(
    a_life_from_create_to_delete,
    an_image_never_runs,
    a_second_life_does_not_mix,
    storage_follows_the_latest_key,
    a_replaced_lease_gives_its_hold_to_the_new_one,
    two_leases_of_one_sandbox_do_not_meet,
    reports_of_storage_come_in_any_order,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// MiB-milliseconds of storage in the whole day.
async fn stored(engine: &Engine) -> i128 {
    let day = time("2026-11-10T00:00:00Z");
    let costs = engine.admin.costs("acme", day, day.plus_h(72), "granularity=total&group_by=none").await;
    quantity(&costs["total"], "storage_mib_ms")
}

async fn a_life_from_create_to_delete(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l-1", "s", 2, 4_096, HOUR_S)]).await);
    let body = api.sandbox("acme", "s").await;
    let expected = json!({"id": "s", "state": "running", "key": "ci", "lease": "l-1", "storage_mib": 0,
                          "created_at": noon().to_string(), "deleted_at": null});
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&body[member], value, "{member}");
    }
    assert_eq!(int(&body["month"], "list_micros"), 0);
    refused(api.delete("/v1/accounts/acme/sandboxes/s").await, 409, "lease_running");

    engine.set_clock(noon().plus_h(1)).await;
    api.accepted(&[with(sample("acme", "s", "l-1", engine.now(), 0), "storage_mib", 1_024)]).await;
    done(api.end("acme", "l-1", None, "pause").await);
    assert_eq!(api.sandbox("acme", "s").await["state"], "resting");
    engine.set_clock(noon().plus_h(2)).await;
    api.accepted(&[at_rest("acme", "s", engine.now(), 2_048)]).await;
    let body = api.sandbox("acme", "s").await;
    assert_eq!((int(&body, "storage_mib"), int(&body["month"], "list_micros")), (2_048, 31_250 + 108));
    assert_eq!(quantity(&body["month"], "storage_mib_ms"), 1_024 * 3_600_000);

    made(api.admit("acme", "ci", &[with(lease("l-2", "s", 1, 1_024, HOUR_S), "kind", "wake")]).await);
    assert_eq!(api.sandbox("acme", "s").await["lease"], "l-2");
    engine.set_clock(noon().plus_h(3)).await;
    let body = done(api.end("acme", "l-2", None, "delete").await);
    assert_eq!(body["ended_at"], noon().plus_h(3).to_string());
    let body = api.sandbox("acme", "s").await;
    assert_eq!((&body["state"], &body["deleted_at"]), (&json!("deleted"), &json!(noon().plus_h(3).to_string())));
    assert_eq!(stored(&engine).await, (1_024 + 2_048) * 3_600_000, "to the deletion, and not beyond it");
}

async fn an_image_never_runs(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let path = "/v1/accounts/acme/sandboxes/image";
    for _ in 0..2 {
        let (status, body) = api.put(path, &json!({"key": "ci"})).await;
        assert!([200, 201].contains(&status), "{status} {body}");
    }
    let body = api.sandbox("acme", "image").await;
    assert_eq!((&body["state"], &body["lease"], &body["key"]), (&json!("resting"), &json!(null), &json!("ci")));
    api.accepted(&[at_rest("acme", "image", noon(), 10_240)]).await;
    engine.set_clock(noon().plus_h(24)).await;
    api.accepted(&[at_rest("acme", "image", engine.now(), 10_240)]).await;
    let costs = api.costs("acme", noon(), noon().plus_h(24), "granularity=total&group_by=none").await;
    assert_eq!(["list_micros", "free_micros"].map(|name| int(&costs["total"], name)), [25_920, 0]);
    engine.set_clock(noon().plus_h(25)).await;
    for _ in 0..2 {
        assert_eq!(api.delete(path).await.0, 204);
    }
    assert_eq!(stored(&engine).await, 10_240 * 25 * 3_600_000);
    refused(api.put("/v1/accounts/acme/sandboxes/other", &json!({"key": "nope"})).await, 404, "not_found");
}

async fn a_second_life_does_not_mix(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l-1", "s", 1, 1_024, HOUR_S)]).await);
    api.accepted(&[with(sample("acme", "s", "l-1", noon(), 0), "storage_mib", 5_000)]).await;
    engine.set_clock(noon().plus_h(1)).await;
    done(api.end("acme", "l-1", None, "delete").await);
    assert_eq!(stored(&engine).await, 5_000 * 3_600_000);
    engine.set_clock(noon().plus_h(2)).await;
    made(api.admit("acme", "ci", &[lease("l-2", "s", 1, 1_024, HOUR_S)]).await);
    let body = api.sandbox("acme", "s").await;
    assert_eq!((&body["state"], int(&body, "storage_mib")), (&json!("running"), 0));
    assert_eq!(body["created_at"], noon().plus_h(2).to_string());
    engine.set_clock(noon().plus_h(3)).await;
    api.accepted(&[with(sample("acme", "s", "l-2", engine.now(), 0), "storage_mib", 100)]).await;
    assert_eq!(stored(&engine).await, 5_000 * 3_600_000, "before its first report it is 0");
    engine.set_clock(noon().plus_h(4)).await;
    done(api.end("acme", "l-2", None, "stop").await);
    assert_eq!(api.delete("/v1/accounts/acme/sandboxes/s").await.0, 204);
    assert_eq!(stored(&engine).await, 5_100 * 3_600_000);
    // A late sample of the first life's lease stays in the first life.
    api.accepted(&[with(sample("acme", "s", "l-1", noon().plus_s(1_800), 0), "storage_mib", 3_000)]).await;
    assert_eq!(stored(&engine).await, (4_000 + 100) * 3_600_000);
}

async fn storage_follows_the_latest_key(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.key("acme", "other", None).await);
    made(api.admit("acme", "ci", &[lease("l-1", "s", 1, 1_024, HOUR_S)]).await);
    api.accepted(&[with(sample("acme", "s", "l-1", noon(), 0), "storage_mib", 1_024)]).await;
    engine.set_clock(noon().plus_h(1)).await;
    done(api.end("acme", "l-1", None, "pause").await);
    engine.set_clock(noon().plus_h(2)).await;
    made(api.admit("acme", "other", &[lease("l-2", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(noon().plus_h(3)).await;
    api.accepted(&[with(sample("acme", "s", "l-2", engine.now(), 0), "storage_mib", 1_024)]).await;
    let costs = api.costs("acme", noon(), noon().plus_h(3), "granularity=total&group_by=key").await;
    let rows: Vec<(&str, i128)> = costs["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["key"].as_str().unwrap(), quantity(row, "storage_mib_ms")))
        .collect();
    assert_eq!(rows, [("ci", 1_024 * 7_200_000), ("other", 1_024 * 3_600_000)]);
}

async fn a_replaced_lease_gives_its_hold_to_the_new_one(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(120_000)).await);
    made(api.admit("acme", "ci", &[lease("small", "s", 2, 4_096, HOUR_S)]).await);
    engine.set_clock(noon().plus_s(1_800)).await;
    api.accepted(&[sample("acme", "s", "small", engine.now(), 3_600_000_000)]).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (40_000, 40_000));
    // 4 vCPU, 8 GiB for half an hour is 80,000 at worst: it fits only with what the old one gives back.
    let ask = [with(lease("large", "s", 4, 8_192, 1_800), "replaces", "small")];
    assert_eq!(done(api.quote("acme", "ci", &ask).await)["allowed"], true);
    made(api.admit("acme", "ci", &ask).await);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (40_000, 80_000));
    let old = api.lease("acme", "small").await;
    assert_eq!((&old["ended_at"], &old["state"]), (&json!(noon().plus_s(1_800).to_string()), &json!("settled")));
    let sandbox = api.sandbox("acme", "s").await;
    assert_eq!((&sandbox["state"], &sandbox["lease"]), (&json!("running"), &json!("large")));
    assert_eq!(done(api.admit("acme", "ci", &ask).await)["leases"][0]["id"], "large", "again: the same answer");
    let other = with(shape("x", HOUR_S), "replaces", "large");
    refused(api.admit("acme", "ci", &[other]).await, 409, "lease_conflict");
}

async fn two_leases_of_one_sandbox_do_not_meet(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l-1", "s", 1, 1_024, 600)]).await);
    let body = refused(api.admit("acme", "ci", &[lease("l-2", "s", 1, 1_024, 600)]).await, 409, "lease_running");
    assert_eq!(body["lease"], "l-1");
    let twice = [lease("l-3", "t", 1, 1_024, 600), lease("l-4", "t", 1, 1_024, 600)];
    let (status, body) = api.admit("acme", "ci", &twice).await;
    assert!([409, 422].contains(&status), "two of one sandbox in one request: {status} {body}");
    // Half-open: the next one may start where the first ends.
    engine.set_clock(noon().plus_s(600)).await;
    made(api.admit("acme", "ci", &[lease("l-2", "s", 1, 1_024, 600)]).await);
    // An extension of the first would meet the second, and comes after its end.
    assert_eq!(api.extend("acme", "l-1", "x", 60).await.0, 409);
    assert_eq!(done(api.get("/v1/accounts/acme/leases?sandbox=s").await)["items"].as_array().unwrap().len(), 2);
}

/// Four reports in two orders; of two at one instant the lease's wins.
async fn reports_of_storage_come_in_any_order(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for sandbox in ["a", "b"] {
        made(api.admit("acme", "ci", &[lease(sandbox, sandbox, 1, 1_024, HOUR_S)]).await);
    }
    engine.set_clock(noon().plus_h(2)).await;
    let rows = |id: &str| -> Vec<Value> {
        let running = |seconds: i64, storage: i64| {
            with(sample("acme", id, id, noon().plus_s(seconds), 0), "storage_mib", storage)
        };
        vec![
            running(600, 100),
            running(3_600, 300),
            at_rest("acme", id, noon().plus_s(3_600), 999),
            at_rest("acme", id, noon().plus_s(5_400), 50),
            at_rest("acme", id, noon().plus_s(7_200), 50),
        ]
    };
    api.accepted(&rows("a")).await;
    let mut backwards = rows("b");
    backwards.reverse();
    api.accepted(&backwards).await;
    let costs = api.costs("acme", noon(), noon().plus_h(2), "granularity=total&group_by=sandbox").await;
    for row in costs["rows"].as_array().unwrap() {
        let expected = 100 * 3_000_000 + 300 * 1_800_000 + 50 * 1_800_000;
        assert_eq!(quantity(row, "storage_mib_ms"), expected, "{}", row["sandbox"]);
    }
    let body = done(api.samples(&[at_rest("acme", "a", noon().plus_s(5_400), 51)]).await);
    assert_eq!(rejections(&body), [(0, "conflict".to_owned())]);
}
