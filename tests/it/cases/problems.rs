//! Every problem code with its status, its members and the field that it names.

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, Time, done, int, invalid, lease, made, on_each_backend, refused, shape, time, with,
};

on_each_backend!(
    refusals_of_the_gate,
    conflicts,
    what_is_not_there,
    requests_that_are_not_understood,
    fields_that_are_named,
    problems_are_problem_documents,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// In the order of the rules: who may, what is on, the cap, the card, the free hours, the limits.
async fn refusals_of_the_gate(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let api = &engine.admin;
    made(api.account("acme", false).await);
    made(api.key("acme", "ci", Some(0)).await);
    made(api.key("acme", "gone", None).await);
    made(api.post("/v1/accounts/acme/keys", &json!({"id": "reader", "name": "r", "read_only": true})).await);
    assert_eq!(api.delete("/v1/accounts/acme/keys/gone").await.0, 204);
    // Everything is wrong with it; as each fault is mended the next one is told.
    let mut ask = with(lease("l", "s", 9, 1_024, 60 * HOUR_S), "max_cost_micros", 1);
    refused(api.admit("acme", "nope", std::slice::from_ref(&ask)).await, 404, "not_found");
    refused(api.admit("acme", "gone", std::slice::from_ref(&ask)).await, 403, "key_revoked");
    refused(api.admit("acme", "reader", std::slice::from_ref(&ask)).await, 403, "read_only_key");
    done(api.patch("/v1/accounts/acme", &json!({"status": "suspended"})).await);
    refused(api.admit("acme", "ci", std::slice::from_ref(&ask)).await, 403, "account_suspended");
    done(api.patch("/v1/accounts/acme", &json!({"status": "active"})).await);
    // 9 vCPU, 1 GiB: 232,500 an hour.
    let body = refused(api.admit("acme", "ci", std::slice::from_ref(&ask)).await, 402, "max_cost_exceeded");
    assert_eq!(
        (&body["lease"], int(&body, "worst_case_micros"), int(&body, "max_cost_micros")),
        (&json!("l"), 13_950_000, 1)
    );
    ask = with(ask, "max_cost_micros", Value::Null);
    let body = refused(api.admit("acme", "ci", std::slice::from_ref(&ask)).await, 402, "card_required");
    assert_eq!(body["lease"], "l");
    ask = with(ask, "vcpus", 2);
    let body = refused(api.admit("acme", "ci", std::slice::from_ref(&ask)).await, 402, "free_hours_exhausted");
    assert_eq!((int(&body, "needed_ms"), int(&body, "available_ms")), (216_000_000, 180_000_000));
    ask = with(ask, "timeout_seconds", HOUR_S);
    let body = refused(api.admit("acme", "ci", std::slice::from_ref(&ask)).await, 402, "spending_limit_reached");
    let names = ["scope", "key", "lease", "day", "resets_at"];
    let shown = names.map(|name| body[name].as_str().unwrap_or_default());
    assert_eq!(shown, ["key", "ci", "l", "2026-11-10", "2026-11-11T00:00:00.000Z"]);
    let names = [
        "limit_micros",
        "used_micros",
        "reserved_micros",
        "needed_micros",
        "available_micros",
        "longest_timeout_seconds",
    ];
    assert_eq!(names.map(|name| int(&body, name)), [0, 0, 0, 57_500, 0, 0]);
    done(api.set_limit("acme", "ci", None).await);
    made(api.admit("acme", "ci", &[ask]).await);
    // A refusal is not remembered, and a suspended account may end what runs.
    done(api.patch("/v1/accounts/acme", &json!({"status": "suspended"})).await);
    refused(api.extend("acme", "l", "x", 60).await, 403, "account_suspended");
    done(api.end("acme", "l", None, "stop").await);
}

async fn conflicts(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l", HOUR_S)]).await);
    let other = [shape("l", HOUR_S + 1)];
    assert_eq!(refused(api.admit("acme", "ci", &other).await, 409, "lease_conflict")["lease"], "l");
    made(api.key("acme", "second", None).await);
    refused(api.admit("acme", "second", &[shape("l", HOUR_S)]).await, 409, "lease_conflict");
    let half_known = [shape("l", HOUR_S), shape("m", HOUR_S)];
    refused(api.admit("acme", "ci", &half_known).await, 409, "lease_conflict");
    let meets = [lease("n", "s-l", 1, 1_024, 60)];
    assert_eq!(refused(api.admit("acme", "ci", &meets).await, 409, "lease_running")["lease"], "l");
    done(api.extend("acme", "l", "x", 60).await);
    refused(api.extend("acme", "l", "x", 61).await, 409, "lease_conflict");
    refused(api.account("acme", false).await, 409, "conflict");
    refused(api.key("acme", "second", Some(1)).await, 409, "conflict");
    engine.set_clock(noon().plus_s(HOUR_S + 60)).await;
    refused(api.extend("acme", "l", "y", 60).await, 409, "lease_conflict");
    let card = json!({"id": "c", "effective_on": "2026-11-11", "cpu_micros_per_vcpu_hour": 1, "memory_micros_per_gib_hour": 1,
                      "storage_micros_per_gib_hour": 1, "cpu_floor_millicores": 1, "account": null});
    made(api.post("/v1/rate-cards", &card).await);
    refused(api.post("/v1/rate-cards", &with(card.clone(), "cpu_micros_per_vcpu_hour", 2)).await, 409, "conflict");
    refused(api.post("/v1/rate-cards", &with(card, "id", "d")).await, 409, "conflict");
}

async fn what_is_not_there(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for path in [
        "/v1/accounts/nope",
        "/v1/accounts/nope/balance",
        "/v1/accounts/nope/leases",
        "/v1/accounts/acme/keys/nope",
        "/v1/accounts/acme/leases/nope",
        "/v1/accounts/acme/sandboxes/nope",
        "/v1/nope",
        "/nope",
    ] {
        refused(api.get(path).await, 404, "not_found");
    }
    refused(api.admit("nope", "ci", &[shape("l", 60)]).await, 404, "not_found");
    refused(api.key("nope", "k", None).await, 404, "not_found");
    refused(api.extend("acme", "nope", "x", 60).await, 404, "not_found");
    refused(api.move_to("acme", "nope", "h").await, 404, "not_found");
    refused(api.set_limit("acme", "nope", None).await, 404, "not_found");
    refused(api.delete("/v1/accounts/acme/sandboxes/nope").await, 404, "not_found");
    refused(api.delete("/v1/rate-cards/nope").await, 404, "not_found");
}

async fn requests_that_are_not_understood(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for body in ["", "{", "nonsense", "{\"id\":NaN}", "{\"id\":\"a\"", "{'id':'a'}"] {
        refused(api.text("POST", "/v1/accounts", body).await, 400, "invalid_request");
    }
    for body in ["[]", "\"a\"", "7", "null"] {
        refused(api.text("POST", "/v1/accounts", body).await, 422, "invalid_request");
    }
    let text = api.raw("POST", "/v1/accounts", &[("content-type", "text/plain")], b"{}".to_vec()).await;
    refused(text.json(), 415, "unsupported_media_type");
    refused(api.text("PUT", "/v1/accounts", "{}").await, 405, "method_not_allowed");
    refused(api.delete("/v1/accounts/acme").await, 405, "method_not_allowed");
    let much = format!("{{\"id\":\"a\",\"name\":\"{}\"}}", "n".repeat(9 * 1_024 * 1_024));
    refused(api.post_too_much("/v1/accounts", much.into_bytes()).await, 413, "payload_too_large");
    refused(api.get("/v1/accounts?surprise=1").await, 422, "invalid_request");
}

async fn fields_that_are_named(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for (member, value) in [
        ("id", json!("a b")),
        ("id", json!(7)),
        ("sandbox", json!("")),
        ("kind", json!("borrow")),
        ("vcpus", json!("2")),
        ("vcpus", json!(2.0)),
        ("memory_mib", json!(-1)),
        ("timeout_seconds", json!(null)),
        ("host", json!("h/1")),
        ("starts_at", json!("2026-11-10T10:59:59Z")),
        ("starts_at", json!("2026-11-10T12:01:01Z")),
        ("starts_at", json!("now")),
        ("replaces", json!(7)),
        ("surprise", json!(7)),
    ] {
        let ask = [shape("fine", 60), with(shape("l", 60), member, value)];
        invalid(api.admit("acme", "ci", &ask).await, &format!("/leases/1/{member}"));
    }
    let path = "/v1/accounts/acme/leases";
    invalid(api.post(path, &json!({"key": "ci", "leases": []})).await, "/leases");
    invalid(api.post(path, &json!({"key": "c i", "leases": [shape("l", 60)]})).await, "/key");
    invalid(api.post(path, &json!({"leases": [shape("l", 60)]})).await, "/key");
    let many: Vec<Value> = (0..1_001).map(|index| shape(&format!("l-{index}"), 60)).collect();
    invalid(api.post(path, &json!({"key": "ci", "leases": many})).await, "/leases");
    for (body, pointer) in [
        (json!({"id": "g", "sandbox_hours": 0}), "/sandbox_hours"),
        (json!({"id": "g", "sandbox_hours": 1.5}), "/sandbox_hours"),
        (json!({"id": "g", "sandbox_hours": 876_001}), "/sandbox_hours"),
        (json!({"id": "g", "sandbox_hours": 1, "starts_on": "2026-13-01"}), "/starts_on"),
        (json!({"id": "g", "sandbox_hours": 1, "expires_on": "soon"}), "/expires_on"),
        (json!({"id": "g", "sandbox_hours": 1, "expires_on": "2026-11-10"}), "/expires_on"),
        (json!({"id": "g", "sandbox_hours": 1, "note": "n".repeat(2_001)}), "/note"),
    ] {
        invalid(api.post("/v1/accounts/acme/grants", &body).await, pointer);
    }
    invalid(api.patch("/v1/accounts/acme", &json!({"status": "asleep"})).await, "/status");
    invalid(api.put("/v1/test-clock", &json!({"now": "2026-11-10"})).await, "/now");
    assert_eq!(done(api.get(path).await)["items"], json!([]));
}

async fn problems_are_problem_documents(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let json = [("content-type", "application/json")];
    for (method, path, body) in [
        ("GET", "/v1/accounts/nope", ""),
        ("GET", "/nope", ""),
        ("PUT", "/v1/accounts", "{}"),
        ("POST", "/v1/accounts", "{"),
        ("POST", "/v1/accounts", "{}"),
    ] {
        let raw = api.raw(method, path, &json, body.into()).await;
        assert_eq!(raw.content_type, "application/problem+json", "{method} {path}");
        assert_eq!(raw.retry_after, None, "{method} {path}");
    }
    let raw = engine.nobody().raw("GET", "/v1/accounts", &[], Vec::new()).await;
    assert_eq!((raw.status, raw.content_type.as_str()), (401, "application/problem+json"));
}
