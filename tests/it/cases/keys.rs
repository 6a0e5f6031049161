//! Secrets of keys and tokens: shown once, told apart from everything else, gone when revoked.

use serde_json::json;

use crate::harness::{Backend, Engine, HOUR_S, Time, at_once, done, int, made, on_each_backend, refused, shape, time};

on_each_backend!(
    a_secret_is_shown_once,
    introspection,
    operator_tokens_are_listed_and_revoked,
    a_revoked_token_passes_no_gate,
    a_known_token_is_answered_like_a_new_one,
    the_card_in_force_and_what_comes,
    what_a_customer_may_be_called,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

async fn a_secret_is_shown_once(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let ask = json!({"id": "k", "name": "K", "read_only": true, "daily_limit_micros": 7});
    let first = made(api.post("/v1/accounts/acme/keys", &ask).await);
    let secret = first["secret"].as_str().unwrap();
    assert!(secret.len() >= 43, "256 bits and a prefix: {secret}");
    let again = done(api.post("/v1/accounts/acme/keys", &ask).await);
    assert!(again["secret"].is_null(), "{again}");
    for path in ["/v1/accounts/acme/keys", "/v1/accounts/acme/keys/k", "/v1/accounts/acme"] {
        let raw = api.raw("GET", path, &[], Vec::new()).await;
        assert!(!String::from_utf8(raw.body).unwrap().contains(secret), "{path}");
    }
    let key = done(api.get("/v1/accounts/acme/keys/k").await);
    assert_eq!((&key["read_only"], int(&key, "daily_limit_micros"), &key["name"]), (&json!(true), 7, &json!("K")));
    let renamed = done(api.patch("/v1/accounts/acme/keys/k", &json!({"name": "L"})).await);
    assert_eq!((&renamed["name"], int(&renamed, "daily_limit_micros")), (&json!("L"), 7));
}

async fn introspection(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let control_plane = engine.control_plane();
    let path = "/v1/keys/introspect";
    let made = made(api.key("acme", "k", None).await);
    let ask = json!({"secret": made["secret"]});
    let known = json!({"active": true, "account": "acme", "key": "k", "read_only": false});
    assert_eq!(done(control_plane.post(path, &ask).await), known);
    let rotated = done(api.post("/v1/accounts/acme/keys/k/rotate", &json!({})).await);
    assert_eq!(done(control_plane.post(path, &ask).await)["active"], false);
    let ask = json!({"secret": rotated["secret"]});
    assert_eq!(done(control_plane.post(path, &ask).await), known);
    assert_eq!(api.delete("/v1/accounts/acme/keys/k").await.0, 204);
    assert_eq!(done(control_plane.post(path, &ask).await)["active"], false);
    for secret in ["nonsense", "rt_key_0000"] {
        assert_eq!(done(control_plane.post(path, &json!({"secret": secret})).await)["active"], false, "{secret}");
    }
}

async fn operator_tokens_are_listed_and_revoked(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let host = engine.host("h-7");
    done(host.samples(&[]).await);
    let tokens = done(api.get("/v1/tokens").await);
    let tokens = tokens["items"].as_array().unwrap();
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    let token = tokens.iter().find(|token| token["role"] == "host").unwrap();
    assert_eq!(token["host"], "h-7");
    let path = format!("/v1/tokens/{}", token["id"].as_str().unwrap());
    assert_eq!(api.delete(&path).await.0, 204);
    refused(host.samples(&[]).await, 401, "unauthorized");
    refused(api.delete("/v1/tokens/nope").await, 404, "not_found");
}

/// What is large comes compressed, whoever confirmed the token.
async fn a_known_token_is_answered_like_a_new_one(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = engine.control_plane();
    let leases: Vec<_> = (0..40).map(|number| shape(&format!("l-{number}"), HOUR_S)).collect();
    let body = json!({"key": "ci", "leases": leases}).to_string();
    let headers = [("content-type", "application/json"), ("accept-encoding", "gzip")];
    for status in [201, 200, 200] {
        let raw = api.raw("POST", "/v1/accounts/acme/leases", &headers, body.clone().into_bytes()).await;
        assert_eq!((raw.status, raw.body.get(..2)), (status, Some(&[0x1f, 0x8b][..])));
    }
}

/// The gate confirms a token that is recognised: a revoked one admits nothing, and is told nothing of what it asks.
async fn a_revoked_token_passes_no_gate(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let control_plane = engine.control_plane();
    for number in 0..3 {
        made(control_plane.admit("acme", "ci", &[shape(&format!("l-{number}"), HOUR_S)]).await);
    }
    done(control_plane.extend("acme", "l-0", "x-0", 60).await);
    refused(control_plane.admit("acme", "none", &[shape("l-3", HOUR_S)]).await, 404, "not_found");
    let held = engine.admin.used_and_reserved("acme", "ci").await;
    let tokens = done(engine.admin.get("/v1/tokens").await);
    let token = tokens["items"].as_array().unwrap().iter().find(|token| token["role"] == "control-plane").unwrap();
    // Revoked through the same engine, or another on the same database.
    let path = format!("/v1/tokens/{}", token["id"].as_str().unwrap());
    let other = engine.beside();
    let revoker = if matches!(backend, Backend::Postgres) { &other.0 } else { &engine.admin };
    assert_eq!(revoker.delete(&path).await.0, 204);
    let asks = at_once(4, |number| {
        let api = control_plane.clone();
        async move { api.admit("acme", "ci", &[shape(&format!("l-{}", 2 + number), HOUR_S)]).await }
    });
    for answer in asks.await {
        refused(answer, 401, "unauthorized");
    }
    refused(control_plane.extend("acme", "l-1", "x-1", 60).await, 401, "unauthorized");
    refused(control_plane.admit("none", "ci", &[shape("l", 1)]).await, 401, "unauthorized");
    refused(control_plane.text("POST", "/v1/accounts/acme/leases", "{").await, 401, "unauthorized");
    refused(control_plane.text("POST", "/v1/accounts/acme/leases?x=1", "{}").await, 401, "unauthorized");
    assert_eq!(engine.admin.used_and_reserved("acme", "ci").await, held);
    engine.assert_verified();
}

async fn the_card_in_force_and_what_comes(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    let ask = json!({"id": "2027", "effective_on": "2027-01-01", "cpu_micros_per_vcpu_hour": 26_000,
                     "memory_micros_per_gib_hour": 7_500, "storage_micros_per_gib_hour": 108,
                     "cpu_floor_millicores": 50, "account": null});
    made(api.post("/v1/rate-cards", &ask).await);
    let body = done(api.get("/v1/accounts/acme/rate-card").await).to_string();
    for part in ["\"list\"", "25000", "\"2027\"", "\"2027-01-01\"", "26000"] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let listed = done(api.get("/v1/rate-cards").await).to_string();
    assert!(listed.contains("\"2027\""), "{listed}");
    assert_eq!(api.delete("/v1/rate-cards/2027").await.0, 204);
    let body = done(api.get("/v1/accounts/acme/rate-card").await).to_string();
    assert!(!body.contains("2027"), "{body}");
    for (member, value) in [
        ("cpu_floor_millicores", json!(1_001)),
        ("cpu_micros_per_vcpu_hour", json!(1_000_000_001)),
        ("memory_micros_per_gib_hour", json!(-1)),
        ("storage_micros_per_gib_hour", json!(1.5)),
        ("effective_on", json!("2027-02-30")),
        ("id", json!("a b")),
    ] {
        let answer = api.post("/v1/rate-cards", &crate::harness::with(ask.clone(), member, value)).await;
        crate::harness::invalid(answer, &format!("/{member}"));
    }
}

async fn what_a_customer_may_be_called(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let api = &engine.admin;
    made(api.account(&"A.b_c:d-9".repeat(7), false).await);
    let ask = |id: &str, name: &str| json!({"id": id, "name": name, "card_on_file": false});
    for id in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
        crate::harness::invalid(api.post("/v1/accounts", &ask(id, "n")).await, "/id");
    }
    crate::harness::invalid(api.post("/v1/accounts", &ask("a", &"n".repeat(201))).await, "/name");
    let name = "=HYPERLINK(\"http://x\";\"y\")\u{202e}, ä€😀";
    let body = made(api.post("/v1/accounts", &ask("a", name)).await);
    assert_eq!(body["name"], name);
    assert_eq!(int(&done(api.get("/v1/accounts/a/balance").await)["free"], "granted_ms"), 180_000_000);
}
