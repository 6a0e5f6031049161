//! Every collection is paged, and a walk through the pages meets each item once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Backend, Engine, Time, done, lease, made, on_each_backend, refused, time};

on_each_backend!(pages_meet_every_item_once, limits_of_a_page, filters_of_leases);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// Seven of everything.
async fn seven(backend: Backend) -> Engine {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for index in 0..7 {
        made(api.account(&format!("a-{index}"), true).await);
        made(api.key("acme", &format!("k-{index}"), None).await);
        made(api.post("/v1/accounts/acme/grants", &json!({"id": format!("g-{index}"), "sandbox_hours": 1})).await);
        let (id, key) = (format!("l-{index}"), format!("k-{}", index % 2));
        made(api.admit("acme", &key, &[lease(&id, &id, 1, 1_024, 600 + index)]).await);
        let card = json!({"id": format!("c-{index}"), "effective_on": format!("2027-01-0{}", index + 1),
            "cpu_micros_per_vcpu_hour": 1, "memory_micros_per_gib_hour": 1, "storage_micros_per_gib_hour": 1,
            "cpu_floor_millicores": 50, "account": null});
        made(api.post("/v1/rate-cards", &card).await);
        drop(engine.host(&format!("h-{index}")));
    }
    engine
}

async fn pages_meet_every_item_once(backend: Backend) {
    let engine = seven(backend).await;
    let paths = [
        "/v1/accounts",
        "/v1/accounts/acme/keys",
        "/v1/accounts/acme/grants",
        "/v1/accounts/acme/leases",
        "/v1/accounts/acme/sandboxes",
        "/v1/rate-cards",
        "/v1/tokens",
    ];
    for path in paths {
        let whole = done(engine.admin.get(path).await);
        let items = whole["items"].as_array().unwrap().clone();
        assert!(items.len() >= 7, "{path}: {whole}");
        assert!(whole["next_cursor"].is_null(), "{path}: {whole}");
        let mut walked: Vec<Value> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = done(engine.admin.get(&format!("{path}?limit=3{cursor}")).await);
            let page_items = page["items"].as_array().unwrap();
            assert!((1..=3).contains(&page_items.len()), "{path}: {page}");
            walked.extend(page_items.iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(walked, items, "{path}");
        let distinct: BTreeSet<String> = walked.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), items.len(), "{path}");
    }
}

async fn limits_of_a_page(backend: Backend) {
    let engine = seven(backend).await;
    for query in ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=1.5", "cursor=nonsense!", "offset=3", "page=2"]
    {
        refused(engine.admin.get(&format!("/v1/accounts?{query}")).await, 422, "invalid_request");
    }
    done(engine.admin.get("/v1/accounts?limit=1000").await);
    assert_eq!(done(engine.admin.get("/v1/accounts?limit=1").await)["items"].as_array().unwrap().len(), 1);
}

async fn filters_of_leases(backend: Backend) {
    let engine = seven(backend).await;
    let api = &engine.admin;
    done(api.move_to("acme", "l-3", "h-3").await);
    done(api.end("acme", "l-5", None, "cancel").await);
    let ids = |query: &'static str| {
        let api = api.clone();
        async move {
            let body = done(api.get(&format!("/v1/accounts/acme/leases?{query}")).await);
            let items = body["items"].as_array().unwrap().clone();
            items.iter().map(|lease| lease["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<String>>()
        }
    };
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(ids("sandbox=l-2").await, set(&["l-2"]));
    assert_eq!(ids("key=k-1").await, set(&["l-1", "l-3", "l-5"]));
    assert_eq!(ids("host=h-3").await, set(&["l-3"]));
    assert_eq!(ids("state=running&key=k-1").await, set(&["l-1", "l-3"]));
    engine.set_clock(noon().plus_s(1_506)).await;
    assert_eq!(ids("state=running").await, set(&[]));
    assert_eq!(ids("state=settled").await.len(), 7);
    refused(api.get("/v1/accounts/acme/leases?state=gone").await, 422, "invalid_request");
}
