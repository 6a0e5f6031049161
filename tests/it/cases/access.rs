//! Tenants are apart: what is another account's looks as if it were not there.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, done, lease, made, on_each_backend, refused, sample, time, with,
};

on_each_backend!(
    r1_another_tenants_data,
    a_customer_reads_its_own_account,
    who_is_refused_early_is_told_that_the_connection_closes,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// Accounts `acme` and `secretive`, each with a key `ci`, a lease and a sandbox; a customer of `acme`.
async fn two_tenants(engine: &Engine) -> Api {
    let api = &engine.admin;
    for (account, id) in [("acme", "mine"), ("secretive", "theirs")] {
        made(api.account(account, true).await);
        made(api.key(account, "ci", Some(9_999_999)).await);
        made(api.admit(account, "ci", &[lease(id, id, 1, 1_024, HOUR_S)]).await);
    }
    engine.set_clock(noon().plus_h(1)).await;
    for (account, id) in [("acme", "mine"), ("secretive", "theirs")] {
        api.accepted(&[with(sample(account, id, id, engine.now(), 0), "storage_mib", 5)]).await;
    }
    engine.customer("acme", "reader", true).await
}

/// Every route that a customer may read, under an account.
const READS: [&str; 13] = [
    "",
    "/keys",
    "/keys/ci",
    "/grants",
    "/rate-card",
    "/leases",
    "/leases?sandbox=theirs",
    "/leases/theirs",
    "/sandboxes",
    "/sandboxes/theirs",
    "/balance",
    "/costs?from=2026-11-10T12:00:00Z&to=2026-11-10T13:00:00Z&granularity=hour&group_by=sandbox",
    "/costs?from=2026-11-10T12:00:00Z&to=2026-11-10T13:00:00Z&granularity=total&group_by=none",
];

async fn r1_another_tenants_data(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let customer = two_tenants(&engine).await;
    for path in READS {
        let theirs = customer.raw("GET", &format!("/v1/accounts/secretive{path}"), &[], Vec::new()).await;
        let missing = customer.raw("GET", &format!("/v1/accounts/missing00{path}"), &[], Vec::new()).await;
        assert_eq!((theirs.status, &theirs.content_type), (404, &missing.content_type), "{path}");
        let normal = |body: &[u8]| String::from_utf8(body.to_vec()).unwrap().replace("secretive", "missing00");
        assert_eq!(normal(&theirs.body), normal(&missing.body), "{path}");
        refused(theirs.json(), 404, "not_found");
    }
    // A lease's, sandbox's or key's id of another account under one's own.
    for (theirs, missing) in [("/leases/theirs", "/leases/absent"), ("/sandboxes/theirs", "/sandboxes/absent")] {
        let theirs = customer.get(&format!("/v1/accounts/acme{theirs}")).await;
        let missing = customer.get(&format!("/v1/accounts/acme{missing}")).await;
        assert_eq!(refused(theirs, 404, "not_found")["title"], refused(missing, 404, "not_found")["title"]);
    }
    // Filters find nothing, and a cursor of another account opens no door.
    for query in ["sandbox=theirs", "key=nope", "host=theirs"] {
        let body = done(customer.get(&format!("/v1/accounts/acme/leases?{query}")).await);
        assert_eq!(body["items"], json!([]), "{query}");
    }
    made(engine.admin.admit("secretive", "ci", &[lease("theirs-2", "theirs-2", 1, 1_024, HOUR_S)]).await);
    let page = done(engine.admin.get("/v1/accounts/secretive/leases?limit=1").await);
    let cursor = page["next_cursor"].as_str().unwrap();
    let (_, body) = customer.get(&format!("/v1/accounts/acme/leases?cursor={cursor}")).await;
    assert!(!body.to_string().contains("theirs"), "{body}");
    for path in [
        "/v1/accounts",
        "/v1/tokens",
        "/v1/rate-cards",
        "/v1/costs?from=2026-11-10T12:00:00Z&to=2026-11-10T13:00:00Z&granularity=total&group_by=account",
    ] {
        let (status, body) = customer.get(path).await;
        assert!([403, 404].contains(&status), "{path}: {status} {body}");
        assert!(!body.to_string().contains("secretive"), "{path}: {body}");
    }
}

async fn a_customer_reads_its_own_account(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let reader = two_tenants(&engine).await;
    let full = engine.customer("acme", "full", false).await;
    for customer in [reader, full] {
        for path in READS {
            let path = path.replace("theirs", "mine");
            let body = done(customer.get(&format!("/v1/accounts/acme{path}")).await);
            let same = done(engine.admin.get(&format!("/v1/accounts/acme{path}")).await);
            assert_eq!(body, same, "{path}");
            assert!(!body.to_string().contains("secret"), "{path}: {body}");
        }
    }
}

/// Whoever sends much with a wrong token is answered before all of it has come.
async fn who_is_refused_early_is_told_that_the_connection_closes(backend: Backend) {
    let engine = Engine::start(backend, noon()).await;
    let host = engine.admin.base().strip_prefix("http://").expect("an address").to_owned();
    for (length, closes) in [(10_000_000, true), (0, false)] {
        let mut server = TcpStream::connect(&host).await.expect("a connection");
        let head = format!(
            "POST /v1/samples HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer nobody\r\ncontent-length: {length}\r\n\r\n"
        );
        server.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            assert!(server.read_buf(&mut answer).await.expect("an answer") > 0);
        }
        let answer = String::from_utf8_lossy(&answer).to_lowercase();
        assert!(answer.starts_with("http/1.1 401"), "{answer}");
        assert_eq!(answer.contains("connection: close"), closes, "{answer}");
    }
}
