//! What people read, held by snapshots: answers of the API, the OpenAPI document, the program's help.
//!
//! `INSTA_UPDATE=always cargo nextest run --test it golden` writes what has changed; the change is then reviewed as text.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Backend, Engine, at_rest, sample, shape, time, with};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_runtab");

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).env("COLUMNS", "100").output().expect("the program runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn help_teaches() {
    let mut text = String::new();
    for command in [
        &[][..],
        &["serve"],
        &["agent"],
        &["token"],
        &["token", "create"],
        &["demo"],
        &["replay"],
        &["migrate"],
        &["close"],
        &["export"],
        &["report"],
        &["verify"],
    ] {
        let arguments: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        writeln!(text, "$ runtab {}\n{}", arguments.join(" "), printed(&arguments)).unwrap();
    }
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("help", trimmed.join("\n"));
}

/// Each operation with what it answers, and each schema with its fields: the document without its prose.
#[test]
fn the_api_document_keeps_its_shape() {
    let document: Value = serde_json::from_str(&printed(&["openapi"])).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    let mut text = String::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let statuses: Vec<&str> =
                operation["responses"].as_object().expect("responses").keys().map(String::as_str).collect();
            let parameters: Vec<&str> = operation["parameters"]
                .as_array()
                .map(|all| all.iter().filter_map(|one| one["name"].as_str()).collect())
                .unwrap_or_default();
            writeln!(text, "{} {path} ({}) -> {}", method.to_uppercase(), parameters.join(", "), statuses.join(" "))
                .unwrap();
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        let fields: Vec<&str> =
            schema["properties"].as_object().map(|all| all.keys().map(String::as_str).collect()).unwrap_or_default();
        writeln!(text, "{name}: {}", fields.join(", ")).unwrap();
    }
    insta::assert_snapshot!("openapi", text);
}

/// A day of one customer, every answer as it is.
#[tokio::test]
async fn answers_of_a_day() {
    let noon = time("2026-11-10T12:00:00Z");
    let engine = Engine::start(Backend::Sqlite, noon).await;
    let (api, mut text) = (&engine.admin, String::new());
    let mut note = |what: &str, (status, mut body): (u16, Value)| {
        if let Some(secret) = body.get_mut("secret") {
            *secret = json!("(secret)");
        }
        writeln!(text, "{what}\n{status} {body:#}\n").unwrap();
    };
    note("make an account", api.account("acme", false).await);
    note("make a key", api.key("acme", "ci", Some(1_000_000)).await);
    let lease = with(shape("l-1", 3_600), "max_cost_micros", 90_000);
    note("quote", api.quote("acme", "ci", std::slice::from_ref(&lease)).await);
    note("admit", api.admit("acme", "ci", &[lease]).await);
    note("refuse: costs too much", api.admit("acme", "ci", &[with(shape("l-2", 3_600), "max_cost_micros", 1)]).await);
    note("refuse: passes the day's limit", api.admit("acme", "ci", &[shape("l-2", 86_400)]).await);
    note("refuse: card required", api.admit("acme", "ci", &[with(shape("l-2", 3_600), "vcpus", 9)]).await);
    engine.set_clock(noon.plus_s(900)).await;
    let samples = [
        with(sample("acme", "s-l-1", "l-1", noon.plus_s(600), 300_000_000), "storage_mib", 812),
        sample("acme", "s-l-1", "l-1", noon.plus_s(700), 1),
        at_rest("acme", "nobody", noon, 1),
    ];
    note("send samples", api.samples(&samples).await);
    note("the lease", api.get("/v1/accounts/acme/leases/l-1").await);
    note("end it", api.end("acme", "l-1", Some(noon.plus_s(600)), "pause").await);
    note("the sandbox", api.get("/v1/accounts/acme/sandboxes/s-l-1").await);
    let range = "from=2026-11-10T12:00:00Z&to=2026-11-10T13:00:00Z";
    note("costs by resource", api.get(&format!("/v1/accounts/acme/costs?{range}&group_by=resource")).await);
    note(
        "costs by the hour and sandbox",
        api.get(&format!("/v1/accounts/acme/costs?{range}&granularity=hour&group_by=sandbox")).await,
    );
    note("balance", api.get("/v1/accounts/acme/balance").await);
    note("the card in force", api.get("/v1/accounts/acme/rate-card").await);
    note("grants", api.get("/v1/accounts/acme/grants").await);
    note("not understood", api.text("POST", "/v1/accounts", "{\"id\":\"a b\"}").await);
    insta::assert_snapshot!("answers_of_a_day", text);
}
