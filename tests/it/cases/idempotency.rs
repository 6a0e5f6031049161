//! Every command twice: the same again gives the same answer and changes nothing.

use serde_json::{Value, json};

use crate::harness::{Api, Backend, Engine, HOUR_S, Time, lease, made, on_each_backend, sample, shape, time, with};

on_each_backend!(every_command_twice, the_same_request_after_everything_is_over);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// Sends the same twice. The second answer is a 200 where the first was a 201, else the same status; its body is the
/// same but for members that are shown once.
async fn twice(engine: &Engine, api: &Api, method: &str, path: &str, body: Value) {
    let send = || async {
        if body.is_null() { api.delete(path).await } else { api.text(method, path, &body.to_string()).await }
    };
    let (first_status, first) = send().await;
    assert!((200..300).contains(&first_status), "{method} {path}: {first_status} {first}");
    let between = engine.seen("acme").await;
    let (second_status, second) = send().await;
    assert!(second_status == first_status || second_status == 200, "{method} {path}: {second_status} {second}");
    let shown_once = |mut body: Value| {
        if let Some(members) = body.as_object_mut() {
            members.remove("secret");
        }
        body
    };
    assert_eq!(shown_once(second), shown_once(first), "{method} {path}");
    assert_eq!(engine.seen("acme").await, between, "{method} {path}");
}

async fn every_command_twice(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let api = &engine.admin;
    let post = |path: &str, body: Value| {
        let path = path.to_owned();
        let engine = &engine;
        async move { twice(engine, &engine.admin, "POST", &path, body).await }
    };
    made(api.account("acme", true).await);
    post("/v1/accounts", json!({"id": "second", "name": "n", "card_on_file": false})).await;
    post("/v1/accounts/acme/keys", json!({"id": "ci", "name": "n", "daily_limit_micros": 1_000_000})).await;
    post("/v1/accounts/acme/grants", json!({"id": "g", "sandbox_hours": 5, "note": "n"})).await;
    let card = json!({"id": "c", "effective_on": "2027-01-01", "cpu_micros_per_vcpu_hour": 1, "memory_micros_per_gib_hour": 1,
                      "storage_micros_per_gib_hour": 1, "cpu_floor_millicores": 1, "account": null});
    post("/v1/rate-cards", card.clone()).await;
    post("/v1/rate-cards", with(with(card, "id", "own"), "account", "acme")).await;
    post("/v1/accounts/acme/rate-card", json!({"effective_on": "2027-02-01", "card": null})).await;
    twice(&engine, api, "PATCH", "/v1/accounts/acme", json!({"name": "Acme", "daily_limit_micros": 5_000_000})).await;
    twice(&engine, api, "PATCH", "/v1/accounts/acme/keys/ci", json!({"daily_limit_micros": 900_000})).await;
    post("/v1/accounts/acme/leases", json!({"key": "ci", "leases": [shape("l", HOUR_S), shape("m", HOUR_S)]})).await;
    post("/v1/accounts/acme/leases/quote", json!({"key": "ci", "leases": [shape("q", HOUR_S)]})).await;
    post("/v1/accounts/acme/leases/l/extend", json!({"timeout_seconds": 600, "id": "x"})).await;
    post("/v1/accounts/acme/leases/l/move", json!({"host": "h-2"})).await;
    engine.set_clock(noon().plus_s(600)).await;
    post("/v1/accounts/acme/leases/l/end", json!({"ended_at": null, "reason": "pause"})).await;
    post("/v1/accounts/acme/leases/m/end", json!({"ended_at": null, "reason": "delete"})).await;
    let replaces = |old: &str, id: &str| with(lease(id, "s-n", 1, 1_024, HOUR_S), "replaces", old);
    made(api.admit("acme", "ci", &[lease("n", "s-n", 1, 1_024, HOUR_S)]).await);
    post("/v1/accounts/acme/leases", json!({"key": "ci", "leases": [replaces("n", "o")]})).await;
    twice(&engine, api, "PUT", "/v1/accounts/acme/sandboxes/image", json!({"key": "ci"})).await;
    twice(&engine, api, "DELETE", "/v1/accounts/acme/sandboxes/image", Value::Null).await;
    twice(&engine, api, "PUT", "/v1/test-clock", json!({"now": noon().plus_s(600).to_string()})).await;
    twice(&engine, api, "DELETE", "/v1/accounts/acme/keys/ci", Value::Null).await;

    // Samples tell what they were: accepted, then duplicates.
    let row = [sample("acme", "s-l", "l", noon().plus_s(600), 5)];
    api.accepted(&row).await;
    let between = engine.seen("acme").await;
    let (status, body) = api.samples(&row).await;
    assert_eq!((status, body), (200, json!({"accepted": 0, "duplicates": 1, "rejected": []})));
    assert_eq!(engine.seen("acme").await, between);
}

async fn the_same_request_after_everything_is_over(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let ask = [shape("l", HOUR_S)];
    made(api.admit("acme", "ci", &ask).await);
    api.end("acme", "l", None, "delete").await;
    assert_eq!(api.delete("/v1/accounts/acme/keys/ci").await.0, 204);
    engine.set_clock(noon().plus_h(24 * 40)).await;
    let (status, body) = api.admit("acme", "ci", &ask).await;
    assert_eq!((status, &body["leases"][0]["state"]), (200, &json!("settled")), "with the current state: {body}");
}
