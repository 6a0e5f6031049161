//! Who may write what: every write route with every role that may not, and nothing changes.

use serde_json::{Value, json};

use crate::harness::{Api, Backend, Engine, HOUR_S, Time, lease, made, on_each_backend, refused, sample, time};

on_each_backend!(r2_roles_that_may_not_write, r2_nobody_may_write, r2_privileged_fields_are_refused, roles_that_may,);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// Roles that may use a write route, besides admin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    Admin,
    ControlPlane,
    Host,
}

/// Every write route with a body that would be taken.
fn writes() -> Vec<(&'static str, &'static str, Value, May)> {
    let card = json!({"id": "c", "effective_on": "2027-01-01", "cpu_micros_per_vcpu_hour": 1,
                      "memory_micros_per_gib_hour": 1, "storage_micros_per_gib_hour": 1, "cpu_floor_millicores": 1,
                      "account": null});
    let ask = json!({"key": "ci", "leases": [lease("new", "new", 1, 1_024, HOUR_S)]});
    vec![
        ("POST", "/v1/accounts", json!({"id": "new", "name": "n", "card_on_file": true}), May::Admin),
        ("PATCH", "/v1/accounts/acme", json!({"name": "changed"}), May::Admin),
        ("POST", "/v1/accounts/acme/keys", json!({"id": "new", "name": "n"}), May::Admin),
        ("PATCH", "/v1/accounts/acme/keys/ci", json!({"daily_limit_micros": 1}), May::Admin),
        ("POST", "/v1/accounts/acme/keys/ci/rotate", json!({}), May::Admin),
        ("DELETE", "/v1/accounts/acme/keys/ci", Value::Null, May::Admin),
        ("POST", "/v1/accounts/acme/grants", json!({"id": "g", "sandbox_hours": 1}), May::Admin),
        ("POST", "/v1/rate-cards", card, May::Admin),
        ("DELETE", "/v1/rate-cards/c", Value::Null, May::Admin),
        ("POST", "/v1/accounts/acme/rate-card", json!({"effective_on": "2027-01-01", "card": null}), May::Admin),
        ("DELETE", "/v1/tokens/t", Value::Null, May::Admin),
        ("POST", "/v1/months/2026-10/close", json!({}), May::Admin),
        ("PUT", "/v1/test-clock", json!({"now": "2026-11-10T13:00:00Z"}), May::Admin),
        ("POST", "/v1/keys/introspect", json!({"secret": "x"}), May::ControlPlane),
        ("POST", "/v1/accounts/acme/leases", ask.clone(), May::ControlPlane),
        ("POST", "/v1/accounts/acme/leases/quote", ask, May::ControlPlane),
        ("POST", "/v1/accounts/acme/leases/l/extend", json!({"timeout_seconds": 60, "id": "x"}), May::ControlPlane),
        ("POST", "/v1/accounts/acme/leases/l/end", json!({"ended_at": null, "reason": "stop"}), May::ControlPlane),
        ("POST", "/v1/accounts/acme/leases/l/move", json!({"host": "h-2"}), May::ControlPlane),
        ("PUT", "/v1/accounts/acme/sandboxes/image", json!({"key": "ci"}), May::ControlPlane),
        ("DELETE", "/v1/accounts/acme/sandboxes/rest", Value::Null, May::ControlPlane),
        ("POST", "/v1/samples", json!([sample("acme", "s", "l", noon(), 0)]), May::Host),
    ]
}

/// An engine with account `acme`, key `ci`, running lease `l` of sandbox `s`, and sandbox `rest`.
async fn furnished(backend: Backend) -> Engine {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    let (status, body) = engine.admin.put("/v1/accounts/acme/sandboxes/rest", &json!({"key": "ci"})).await;
    assert!([200, 201].contains(&status), "{status} {body}");
    engine
}

async fn send(api: &Api, method: &str, path: &str, body: &Value) -> (u16, Value) {
    if body.is_null() { api.delete(path).await } else { api.text(method, path, &body.to_string()).await }
}

async fn r2_roles_that_may_not_write(backend: Backend) {
    let engine = furnished(backend).await;
    let full = engine.customer("acme", "full", false).await;
    let read_only = engine.customer("acme", "reader", true).await;
    let (control_plane, host) = (engine.control_plane(), engine.host("h-1"));
    let before = engine.seen("acme").await;
    for (method, path, body, may) in writes() {
        let mut cannot = vec![("full key", &full), ("read-only key", &read_only)];
        if may != May::ControlPlane {
            cannot.push(("control-plane", &control_plane));
        }
        if may != May::Host {
            cannot.push(("host", &host));
        }
        for (role, api) in cannot {
            let (status, answer) = send(api, method, path, &body).await;
            let code = answer["code"].as_str().unwrap_or_default();
            assert_eq!(status, 403, "{role}: {method} {path}: {answer}");
            assert!(["forbidden", "read_only_key"].contains(&code), "{role}: {method} {path}: {answer}");
        }
    }
    for path in ["/v1/accounts/acme", "/v1/accounts/acme/balance", "/v1/accounts"] {
        refused(host.get(path).await, 403, "forbidden");
    }
    assert_eq!(engine.seen("acme").await, before);
}

async fn r2_nobody_may_write(backend: Backend) {
    let engine = furnished(backend).await;
    let before = engine.seen("acme").await;
    let strangers = [engine.nobody(), engine.admin.with_token(Some("nonsense")), engine.admin.with_token(Some(""))];
    for stranger in strangers {
        for (method, path, body, _) in writes() {
            let answer = send(&stranger, method, path, &body).await;
            refused(answer, 401, "unauthorized");
        }
        for path in ["/v1/accounts", "/v1/accounts/acme", "/v1/accounts/acme/balance", "/v1/tokens"] {
            refused(stranger.get(path).await, 401, "unauthorized");
        }
    }
    assert_eq!(engine.seen("acme").await, before);
}

async fn r2_privileged_fields_are_refused(backend: Backend) {
    let engine = furnished(backend).await;
    let before = engine.seen("acme").await;
    for (method, path, body, _) in writes() {
        if body.is_object() {
            for field in ["role", "account_id", "secret_sha256", "used_micros"] {
                let more = crate::harness::with(body.clone(), field, "admin");
                let answer = send(&engine.admin, method, path, &more).await;
                crate::harness::invalid(answer, &format!("/{field}"));
            }
        }
    }
    assert_eq!(engine.seen("acme").await, before);
}

/// In the order of the list, the role that may does.
async fn roles_that_may(backend: Backend) {
    let engine = furnished(backend).await;
    let (control_plane, host) = (engine.control_plane(), engine.host("h-1"));
    for (method, path, body, may) in writes() {
        let api = match may {
            May::Admin => continue,
            May::ControlPlane => &control_plane,
            May::Host => &host,
        };
        // The lease is moved after its end here, and reported by another host than its own: both are told so.
        let (status, answer) = send(api, method, path, &body).await;
        assert!([200, 201, 204, 409].contains(&status), "{method} {path}: {status} {answer}");
    }
    for path in ["", "/keys", "/leases", "/sandboxes", "/balance", "/grants", "/rate-card"] {
        let (status, body) = control_plane.get(&format!("/v1/accounts/acme{path}")).await;
        assert_eq!(status, 200, "{path}: {body}");
    }
}
