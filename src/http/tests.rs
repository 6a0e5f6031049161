//! Routes without a ledger that answers: what is refused before it is asked, and who may do what.

use std::collections::BTreeSet;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::OnceCell;
use tower::ServiceExt as _;

use super::layers::open;
use super::router::assemble;
use super::{AppState, HttpSettings, openapi_json, router};
use crate::clock::Clock;
use crate::domain::admission::FreeCover;
use crate::domain::id::{AccountId, HostId, KeyId, RateCardId};
use crate::domain::money::PriceMicros;
use crate::domain::rate_card::RateCard;
use crate::domain::time::Timestamp;
use crate::domain::units::{MebiBytes, Millicores, Vcpus};
use crate::ledger::Ledger;
use crate::ledger::batch::BatchLimits;
use crate::ledger::command::Principal;
use crate::ledger::working_set::Rules;
use crate::report::Seller;
use crate::secret::{Secret, SecretKind};
use crate::store::{Options, Store};
use crate::telemetry::metrics::Metrics;

/// A ledger that is closed: every call is `Unavailable`.
async fn silent_ledger() -> Ledger {
    static CLOSED: OnceCell<Ledger> = OnceCell::const_new();
    let close = async || {
        let store = Store::open("sqlite::memory:", Options::default()).await.unwrap();
        let price = |micros| PriceMicros::new(micros).unwrap();
        let list = RateCard {
            id: RateCardId::parse("list").unwrap(),
            cpu: price(25_000),
            memory: price(7_500),
            storage: price(108),
            floor: Millicores::new(50).unwrap(),
        };
        let mib = |mib| MebiBytes::new(mib).unwrap();
        let cover = FreeCover { vcpus: Vcpus::new(8).unwrap(), memory: mib(16_384), disk: mib(20_480) };
        let rules =
            Rules { settle_after_ms: 900_000, cover, welcome_ms: 0, list, stale_after_ms: 300_000, rejected_kept: 10 };
        let ledger = Ledger::start(store, Clock::system(), rules, BatchLimits::default());
        ledger.close().await;
        ledger
    };
    CLOSED.get_or_init(close).await.clone()
}

pub(super) async fn state() -> AppState {
    AppState {
        ledger: silent_ledger().await,
        clock: Clock::test(Timestamp::from_ms(1_000).unwrap()),
        seller: Seller::default(),
        press: super::Press::default(),
        metrics: Metrics::new().unwrap(),
        settings: HttpSettings::default(),
        remote_write: super::Mapping::new(crate::config::remote_write::RemoteWrite::default()).into(),
    }
}

fn customer(read_only: bool) -> Principal {
    Principal::Customer { account: AccountId::parse("own").unwrap(), key: KeyId::parse("ci").unwrap(), read_only }
}

struct Told {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Told {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let json = self.json();
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(json["status"], self.status.as_u16());
        assert_eq!(text("type"), format!("https://runtab.dev/problems/{}", text("code")));
        (self.status.as_u16(), text("code"), text("pointer"))
    }
}

async fn send(app: axum::Router, request: Request<Body>) -> Told {
    let response = app.oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    Told { status, headers, body }
}

/// Asks as somebody whose token was already found out.
async fn ask_as(principal: Principal, method: &str, path: &str, body: &[u8]) -> Told {
    let app = assemble(state().await, |api, state| open(api.layer(Extension(principal)), state));
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    send(app, request.body(Body::from(body.to_vec())).unwrap()).await
}

async fn admin(method: &str, path: &str, body: &[u8]) -> Told {
    ask_as(Principal::Admin, method, path, body).await
}

/// Every route and who may use it; nobody else may. `customer` is one in its own account.
const ACCESS: &str = "
    POST   /v1/accounts                                     admin
    GET    /v1/accounts                                     admin control-plane
    GET    /v1/accounts/{account}                           admin control-plane customer
    PATCH  /v1/accounts/{account}                           admin
    POST   /v1/accounts/{account}/keys                      admin
    GET    /v1/accounts/{account}/keys                      admin control-plane customer
    GET    /v1/accounts/{account}/keys/{key}                admin control-plane customer
    PATCH  /v1/accounts/{account}/keys/{key}                admin
    DELETE /v1/accounts/{account}/keys/{key}                admin
    POST   /v1/accounts/{account}/keys/{key}/rotate         admin
    POST   /v1/keys/introspect                              admin control-plane
    POST   /v1/accounts/{account}/grants                    admin
    GET    /v1/accounts/{account}/grants                    admin control-plane customer
    POST   /v1/rate-cards                                   admin
    GET    /v1/rate-cards                                   admin control-plane
    DELETE /v1/rate-cards/{id}                              admin
    GET    /v1/accounts/{account}/rate-card                 admin control-plane customer
    POST   /v1/accounts/{account}/rate-card                 admin
    GET    /v1/tokens                                       admin control-plane
    DELETE /v1/tokens/{id}                                  admin
    POST   /v1/accounts/{account}/leases                    admin control-plane
    GET    /v1/accounts/{account}/leases                    admin control-plane customer
    POST   /v1/accounts/{account}/leases/quote              admin control-plane
    GET    /v1/accounts/{account}/leases/{lease}            admin control-plane customer
    POST   /v1/accounts/{account}/leases/{lease}/extend     admin control-plane
    POST   /v1/accounts/{account}/leases/{lease}/end        admin control-plane
    POST   /v1/accounts/{account}/leases/{lease}/move       admin control-plane
    GET    /v1/accounts/{account}/sandboxes                 admin control-plane customer
    GET    /v1/accounts/{account}/sandboxes/{sandbox}       admin control-plane customer
    PUT    /v1/accounts/{account}/sandboxes/{sandbox}       admin control-plane
    DELETE /v1/accounts/{account}/sandboxes/{sandbox}       admin control-plane
    POST   /v1/samples                                      admin host
    POST   /v1/remote-write                                 admin host
    GET    /v1/rejected                                     admin
    POST   /v1/accounts/{account}/voids                     admin
    GET    /v1/accounts/{account}/voids                     admin control-plane customer
    GET    /v1/accounts/{account}/costs                     admin control-plane customer
    GET    /v1/costs                                        admin
    GET    /v1/accounts/{account}/balance                   admin control-plane customer
    GET    /v1/accounts/{account}/invoices                  admin control-plane customer
    GET    /v1/accounts/{account}/invoices/{month}          admin control-plane customer
    GET    /v1/accounts/{account}/invoices/{month}/evidence admin control-plane customer
    POST   /v1/months/{month}/close                         admin
    GET    /v1/months/{month}/unbilled                      admin
    POST   /v1/accounts/{account}/invoices/{month}/events   admin
    POST   /v1/accounts/{account}/invoices/{month}/notes    admin
    GET    /v1/accounts/{account}/notes                     admin control-plane customer
    GET    /v1/accounts/{account}/notes/{number}            admin control-plane customer
    PUT    /v1/test-clock                                   admin
";

/// Method, path and roles of each line.
fn access() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let lines = ACCESS.lines().map(str::split_whitespace).map(Iterator::collect::<Vec<_>>);
    lines.filter(|line| !line.is_empty()).map(|line| (line[0], line[1], line[2..].to_vec())).collect()
}

fn filled(path: &str, account: &str) -> String {
    let path = path.replace("{account}", account).replace("{month}", "2026-11").replace("{number}", "CN-000001");
    ["{key}", "{lease}", "{sandbox}", "{id}"].iter().fold(path, |path, name| path.replace(name, "x"))
}

#[test]
fn every_route_is_in_the_table() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut routes = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            routes.insert((method.to_uppercase(), path.clone()));
        }
    }
    let probes = ["/healthz", "/readyz", "/metrics", "/openapi.json"];
    routes.retain(|(_, path)| !probes.contains(&path.as_str()));
    let table = access().into_iter().map(|(method, path, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(routes, table);
}

#[tokio::test]
async fn each_role_may_do_what_the_table_says_and_nothing_else() {
    let host = Principal::Host(HostId::parse("h").unwrap());
    let roles = [
        ("admin", Principal::Admin),
        ("control-plane", Principal::ControlPlane),
        ("host", host),
        ("customer", customer(false)),
        ("customer", customer(true)),
    ];
    for (method, path, allowed) in access() {
        for (role, principal) in &roles {
            let told = ask_as(principal.clone(), method, &filled(path, "own"), b"").await;
            let refused = matches!(told.status.as_u16(), 401 | 403 | 404);
            assert_eq!(!refused, allowed.contains(role), "{role} {method} {path}: {}", told.status);
            if refused {
                assert_eq!(told.problem().1, "forbidden", "{role} {method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn another_account_is_as_a_missing_one_to_a_customer() {
    let missing = ask_as(customer(false), "GET", "/v1/accounts/a%20b", b"").await;
    for (method, path, allowed) in access() {
        if !path.contains("{account}") {
            continue;
        }
        let told = ask_as(customer(false), method, &filled(path, "theirs"), b"").await;
        if allowed.contains(&"customer") {
            assert_eq!((told.status, &told.body), (missing.status, &missing.body), "{method} {path}");
            let names = |headers: &HeaderMap| headers.keys().map(ToString::to_string).collect::<BTreeSet<_>>();
            assert_eq!(names(&told.headers), names(&missing.headers), "{method} {path}");
        } else {
            assert_eq!(told.problem().0, 403, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn without_a_token_every_route_is_401() {
    let secret = Secret::generate(SecretKind::Admin).unwrap().into_text();
    let garbled = format!("Bearer {}", secret.replace("admin", "host"));
    for (method, path, _) in access() {
        for authorization in [None, Some("Basic abc"), Some("Bearer"), Some("Bearer abc"), Some(garbled.as_str())] {
            let mut request = Request::builder().method(method).uri(filled(path, "own"));
            if let Some(authorization) = authorization {
                request = request.header("authorization", authorization);
            }
            let told = send(router(state().await), request.body(Body::empty()).unwrap()).await;
            assert_eq!(told.problem(), (401, "unauthorized".to_owned(), String::new()), "{method} {path}");
            assert_eq!(told.headers["www-authenticate"], "Bearer");
        }
    }
}

#[tokio::test]
async fn a_ledger_that_does_not_answer_is_unavailable() {
    let token = Secret::generate(SecretKind::Admin).unwrap().into_text();
    let request = Request::get("/v1/accounts").header("authorization", format!("bearer {token}"));
    let told = send(router(state().await), request.body(Body::empty()).unwrap()).await;
    assert_eq!(told.problem(), (503, "unavailable".to_owned(), String::new()));
    assert_eq!(told.headers["retry-after"], "1");
    assert!(!String::from_utf8(told.body).unwrap().contains("not yet"), "the cause stays in the log");
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    assert_eq!(send(router(state().await), request).await.problem().0, 503);
}

#[tokio::test]
async fn routes_and_methods_that_are_not_there() {
    assert_eq!(admin("GET", "/v1/nope", b"").await.problem().1, "not_found");
    assert_eq!(admin("GET", "/nope", b"").await.problem().0, 404);
    let told = admin("DELETE", "/v1/accounts/own", b"").await;
    assert_eq!(told.problem().1, "method_not_allowed");
    assert_eq!(told.headers["allow"], "GET,HEAD,PATCH");
    let told = admin("POST", "/healthz", b"").await;
    assert_eq!((told.problem().0, told.headers["allow"].to_str().unwrap()), (405, "GET,HEAD"));
    let told = admin("TRACE", "/v1/samples", b"").await;
    assert_eq!((told.problem().0, told.headers["allow"].to_str().unwrap()), (405, "POST"));
}

#[tokio::test]
async fn bodies_that_can_not_be_taken() {
    let path = "/v1/accounts";
    let told = admin("POST", path, b"").await;
    assert_eq!(told.problem().1, "unsupported_media_type");
    for (body, status, pointer) in [
        (r"{", 400, ""),
        (r#"{"id":NaN}"#, 400, ""),
        (r" ", 400, ""),
        (r"[]", 422, ""),
        (r"{}", 422, "/id"),
        (r#"{"id":"a b"}"#, 422, "/id"),
        (r#"{"id":"a","id":"a"}"#, 422, "/id"),
        (r#"{"id":"a","admin":true}"#, 422, "/admin"),
        (r#"{"id":"a","name":null}"#, 422, "/name"),
        (r#"{"id":"a","card_on_file":"yes"}"#, 422, "/card_on_file"),
        (r#"{"id":"a"}"#, 503, ""),
    ] {
        let told = admin("POST", path, body.as_bytes()).await;
        let (told_status, _, told_pointer) = told.problem();
        assert_eq!((told_status, told_pointer.as_str()), (status, pointer), "{body}");
    }
    let large = format!(r#"{{"id":"a","name":"{}"}}"#, "x".repeat(1_048_576));
    assert_eq!(admin("POST", path, large.as_bytes()).await.problem().1, "payload_too_large");
    let limits = r#""daily_limit_micros":"#;
    for (limit, status) in
        [("null", 503), ("0", 503), ("-7", 422), ("1.5", 422), ("1e400", 422), ("9007199254740992", 422)]
    {
        let body = format!(r#"{{"id":"k",{limits}{limit}}}"#);
        assert_eq!(admin("POST", "/v1/accounts/own/keys", body.as_bytes()).await.problem().0, status, "{limit}");
    }
}

#[tokio::test]
async fn paths_and_queries_that_can_not_be_taken() {
    let day = "from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z";
    for (path, status, pointer) in [
        ("/v1/accounts?limit=0", 422, "?limit"),
        ("/v1/accounts?cursor=zz", 422, "?cursor"),
        ("/v1/accounts?tz=UTC", 422, "?tz"),
        ("/v1/accounts/own?x=1", 422, "?x"),
        ("/v1/accounts/%FF", 404, ""),
        ("/v1/accounts/own/leases?state=on", 422, "?state"),
        ("/v1/accounts/own/leases?key=%00", 422, "?key"),
        ("/v1/accounts/own/costs", 422, "?from"),
        ("/v1/accounts/own/costs?from=2026-11-01T00:00:00Z&to=12026-11-01T00:00:00Z", 422, "?to"),
        (&format!("/v1/accounts/own/costs?{day}&group_by=account"), 422, "?group_by"),
        (&format!("/v1/accounts/own/costs?{day}&granularity=week"), 422, "?granularity"),
        (&format!("/v1/accounts/own/costs?{day}&group_by=lease&granularity=month"), 503, ""),
        (&format!("/v1/costs?{day}&group_by=account"), 503, ""),
    ] {
        let (told_status, _, told_pointer) = admin("GET", path, b"").await.problem();
        assert_eq!((told_status, told_pointer.as_str()), (status, pointer), "{path}");
    }
}

async fn samples(kind: &str, encoding: Option<&str>, body: Vec<u8>) -> Told {
    let app = assemble(state().await, |api, state| open(api.layer(Extension(Principal::Admin)), state));
    let mut request = Request::builder().method(Method::POST).uri("/v1/samples").header("content-type", kind);
    if let Some(encoding) = encoding {
        request = request.header("content-encoding", encoding);
    }
    send(app, request.body(Body::from(body)).unwrap()).await
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn bodies_of_samples() {
    assert_eq!(samples("text/csv", None, Vec::new()).await.problem().0, 415);
    assert_eq!(samples("application/json", Some("br"), b"[]".to_vec()).await.problem().0, 415);
    assert_eq!(samples("application/json", Some("gzip"), b"[]".to_vec()).await.problem().0, 400);
    assert_eq!(samples("application/json", None, b"{}".to_vec()).await.problem().0, 422);
    assert_eq!(samples("Application/JSON", Some("GZIP"), gzipped(b"[]")).await.status, StatusCode::OK);
    let members = [gzipped(b"7\n"), gzipped(b"8\n")].concat();
    let told = samples("application/x-ndjson", Some("gzip"), members).await;
    assert_eq!(told.json()["rejected"].as_array().unwrap().len(), 2, "both members are read");
    assert_eq!(samples("application/json", None, b"[1,".to_vec()).await.problem().0, 400);
    let empty = samples("application/json; charset=utf-8", Some("gzip"), gzipped(b"[]")).await;
    assert_eq!(empty.json(), serde_json::json!({"accepted": 0, "duplicates": 0, "rejected": []}));
    let told = samples("application/x-ndjson", Some("gzip"), gzipped(b"7\n\n{\n")).await;
    let rejected = told.json()["rejected"].clone();
    assert_eq!((told.status.as_u16(), rejected.as_array().unwrap().len()), (200, 2));
    assert_eq!((&rejected[1]["index"], &rejected[1]["code"]), (&1.into(), &"invalid_sample".into()));
    let bomb = gzipped(&vec![b' '; 9 * 1_048_576]);
    assert!(bomb.len() < 100_000);
    assert_eq!(samples("application/json", Some("gzip"), bomb).await.problem().0, 413);
}

#[tokio::test]
async fn the_test_clock_only_goes_forward() {
    let app = assemble(state().await, |api, state| open(api.layer(Extension(Principal::Admin)), state));
    let put = |now: &str| {
        let body = format!(r#"{{"now":"{now}"}}"#);
        let request = Request::put("/v1/test-clock").header("content-type", "application/json");
        send(app.clone(), request.body(Body::from(body)).unwrap())
    };
    let told = put("2026-11-01T01:00:00+01:00").await;
    assert_eq!(told.json(), serde_json::json!({"now": "2026-11-01T00:00:00.000Z"}));
    assert_eq!(put("2026-11-01T00:00:00Z").await.status, StatusCode::OK);
    assert_eq!(put("2026-10-31T00:00:00Z").await.problem().1, "conflict");
    let system = AppState { clock: Clock::system(), ..state().await };
    let app = assemble(system, |api, state| open(api.layer(Extension(Principal::Admin)), state));
    let request = Request::put("/v1/test-clock").header("content-type", "application/json");
    assert_eq!(send(app, request.body(Body::from("{}")).unwrap()).await.problem().1, "not_found");
}

#[tokio::test]
async fn too_many_requests_at_once_are_503() {
    let settings = HttpSettings { requests_in_flight_max: 0, ..HttpSettings::default() };
    let told =
        send(router(AppState { settings, ..state().await }), Request::get("/v1/accounts").body(Body::empty()).unwrap());
    let told = told.await;
    assert_eq!(told.problem(), (503, "unavailable".to_owned(), String::new()));
    assert_eq!(told.headers["retry-after"], "1");
}

#[tokio::test]
async fn probes_and_the_dashboard_need_no_token() {
    let app = router(state().await);
    let get = |path: &str| send(app.clone(), Request::get(path).body(Body::empty()).unwrap());
    assert_eq!(get("/healthz").await.body, b"ok\n");
    let page = get("/").await;
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    let text = String::from_utf8(page.body).unwrap();
    assert!(
        !text.contains("http://") && !text.contains("https://") && !text.contains("//cdn"),
        "nothing from elsewhere"
    );
    let metrics = String::from_utf8(get("/metrics").await.body).unwrap();
    assert!(
        metrics.contains(r#"runtab_http_requests_total{method="GET",route="/healthz",status="200"} 1"#),
        "{metrics}"
    );
    assert!(get("/").await.headers.contains_key("x-request-id"));
}

#[test]
fn the_document_refers_only_to_what_is_in_it() {
    let text = openapi_json();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("\"$ref\": \"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}
