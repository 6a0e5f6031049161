//! The operator's report of a month: every figure of a small month, in every format.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, done, dump, int, lease, made, on_each_backend, refused, sample, time, with,
};

on_each_backend!(a_month_adds_up_in_every_format, a_month_of_nothing);

/// An hour of 1 vCPU, 1 GiB, busy.
const BUSY: i64 = 32_500;
/// The same, idle.
const IDLE: i64 = 8_750;

fn report(engine: &Engine, month: &str, more: &[&str]) -> String {
    let mut arguments = vec!["report", month, "--database", engine.database()];
    arguments.extend(more);
    let output = Command::new(env!("CARGO_BIN_EXE_runtab")).args(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rows<'v>(report: &'v Value, name: &str) -> &'v Vec<Value> {
    report[name].as_array().unwrap()
}

/// January of 2 busy hours; February of 10, one that came late, four kinds of unbilled time, and refusals.
async fn history(backend: Backend) -> Engine {
    let engine = Engine::with_payer(backend, time("2026-01-20T00:00:00Z")).await;
    let api = &engine.admin;
    let january = engine.now();
    made(api.admit("acme", "ci", &[lease("j", "s", 1, 1_024, 3 * HOUR_S)]).await);
    engine.set_clock(january.plus_h(2)).await;
    api.accepted(&[sample("acme", "s", "j", engine.now(), 2 * 3_600_000_000)]).await;
    engine.set_clock(time("2026-02-03T00:00:00Z")).await;
    done(api.post("/v1/months/2026-01/close", &json!({})).await);
    api.accepted(&[sample("acme", "s", "j", january.plus_h(3), 3 * 3_600_000_000)]).await;
    let start = engine.now();
    let of = |id: &str| lease(id, id, 1, 1_024, HOUR_S);
    made(api.admit("acme", "ci", &[with(lease("f", "s", 1, 1_024, 10 * HOUR_S), "kind", "wake")]).await);
    made(api.admit("acme", "ci", &[of("never"), of("silent"), of("lost"), of("late"), of("cancelled")]).await);
    done(api.end("acme", "cancelled", None, "cancel").await);
    engine.set_clock(start.plus_s(1_800)).await;
    let half = 1_800_000_000;
    api.accepted(&[
        sample("acme", "silent", "silent", engine.now(), half),
        sample("acme", "lost", "lost", engine.now(), half),
    ])
    .await;
    done(api.end("acme", "lost", None, "host_lost").await);
    engine.set_clock(start.plus_h(10)).await;
    // It has settled long ago.
    done(api.end("acme", "late", Some(start.plus_s(1_200)), "stop").await);
    api.accepted(&[sample("acme", "s", "f", engine.now(), 10 * 3_600_000_000)]).await;
    made(api.key("acme", "capped", Some(0)).await);
    for _ in 0..3 {
        refused(
            api.admit("acme", "capped", &[lease("no", "no", 1, 1_024, HOUR_S)]).await,
            402,
            "spending_limit_reached",
        );
    }
    refused(api.admit("acme", "ci", &[with(of("no"), "max_cost_micros", 1)]).await, 402, "max_cost_exceeded");
    made(api.post("/v1/accounts/acme/grants", &json!({"id": "sorry", "sandbox_hours": 5})).await);
    made(api.post("/v1/accounts/acme/grants", &json!({"id": "promo", "credit_micros": 100_000})).await);
    made(api.post("/v1/accounts", &json!({"id": "other", "name": "=Other\u{7}", "card_on_file": true})).await);
    made(api.key("other", "ci", None).await);
    made(api.admit("other", "ci", &[lease("o", "o", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(engine.now().plus_h(1)).await;
    api.accepted(&[sample("other", "o", "o", engine.now(), 3_600_000_000)]).await;
    engine.set_clock(time("2026-03-04T00:00:00Z")).await;
    engine
}

async fn a_month_adds_up_in_every_format(backend: Backend) {
    let engine = history(backend).await;
    let api = &engine.admin;
    let before = dump(engine.database()).await;
    let draft: Value = serde_json::from_str(&report(&engine, "2026-02", &["--format", "json"])).unwrap();
    assert_eq!(dump(engine.database()).await, before, "reading changes nothing");
    assert_eq!(draft["closed"], false);
    done(api.post("/v1/months/2026-02/close", &json!({})).await);
    let month: Value = serde_json::from_str(&report(&engine, "2026-02", &["--format", "json"])).unwrap();
    assert_eq!((&month["closed"], &month["resources"]), (&json!(true), &draft["resources"]));
    // 10 busy hours, the late one, half an hour each of two that ended badly; free time and credit pay a part.
    let invoices = ["acme", "other"];
    let mut sums = (0, 0);
    for account in invoices {
        let invoice = done(api.get(&format!("/v1/accounts/{account}/invoices/2026-02")).await);
        sums = (sums.0 + int(&invoice, "total_micros"), sums.1 + int(&invoice, "amount_due_cents"));
    }
    assert_eq!((int(&month, "total_micros"), int(&month, "amount_due_cents")), sums);
    let list: i64 = rows(&month, "resources").iter().map(|row| int(row, "amount_micros")).sum();
    assert_eq!(list, sums.0);
    let amount = |name: &str| {
        rows(&month, "resources").iter().find(|row| row["resource"] == name).map_or(0, |row| int(row, "amount_micros"))
    };
    assert_eq!(amount("cpu") + amount("memory"), 13 * BUSY);
    assert_eq!(int(&month, "before_micros"), 2 * BUSY);
    assert_eq!(month["late"], json!([{"month_of_use": "2026-01", "accounts": 1, "amount_micros": BUSY}]));
    assert_eq!(month["given"]["free_granted_ms"], (55 * 3_600_000).to_string());
    assert_eq!(int(&month["given"], "credit_granted_micros"), 100_000);
    assert_eq!(int(&month["given"], "credit_used_micros"), -amount("credit"));
    assert_eq!(int(&month["given"], "free_paid_micros"), -amount("free_hours"));
    let unbilled: Vec<(&str, i64, i64, i64)> = rows(&month, "unbilled")
        .iter()
        .map(|row| {
            let ms: i64 = row["ms"].as_str().unwrap().parse().unwrap();
            (row["cause"].as_str().unwrap(), int(row, "leases"), ms, int(row, "at_floor_micros"))
        })
        .collect();
    let (half, third) = (1_800_000, 1_200_000);
    assert_eq!(
        unbilled,
        [
            ("never_sampled", 1, 3_600_000, IDLE),
            ("went_silent", 1, half, IDLE / 2),
            ("host_lost", 1, half, IDLE / 2),
            ("end_told_late", 1, third, IDLE / 3),
        ]
    );
    let top = &rows(&month, "top_keys")[0];
    assert_eq!(
        (top["account"].as_str(), top["key"].as_str(), int(top, "list_micros")),
        (Some("acme"), Some("ci"), 11 * BUSY)
    );
    assert_eq!(
        month["refused"],
        json!([{"code": "spending_limit_reached", "count": 3}, {"code": "max_cost_exceeded", "count": 1}])
    );
    assert_eq!(
        month["refusals"][0],
        json!({"account": "acme", "key": "capped", "code": "spending_limit_reached", "count": 3})
    );
    assert_eq!((int(&month, "notes"), int(&month, "corrected_total_micros")), (0, sums.0));
    check_other_formats(&engine, &month);
    // A note on one of the invoices changes none of it, and is shown beside it.
    let note = json!({"id": "n", "kind": "credit", "reason": "outage", "lines": [{"description": "x", "amount_micros": 40_000}]});
    made(api.post("/v1/accounts/acme/invoices/2026-02/notes", &note).await);
    let after: Value = serde_json::from_str(&report(&engine, "2026-02", &["--format", "json"])).unwrap();
    assert_eq!((int(&after, "notes"), int(&after, "corrected_total_micros")), (1, sums.0 - 40_000));
    assert_eq!((&after["accounts"], &after["total_micros"]), (&month["accounts"], &month["total_micros"]));
    assert!(report(&engine, "2026-02", &[]).contains("After notes:  USD 0.250000  (1)"));
}

/// The same figures as CSV, as a page, and in a terminal.
fn check_other_formats(engine: &Engine, month: &Value) {
    let text = report(engine, "2026-02", &["--format", "csv"]);
    let records: Vec<csv::StringRecord> =
        csv::Reader::from_reader(text.as_bytes()).records().map(|record| record.unwrap()).collect();
    let sum = |section: &str| -> i64 {
        records.iter().filter(|record| &record[1] == section).map(|record| record[7].parse::<i64>().unwrap()).sum()
    };
    let total = int(month, "total_micros");
    assert_eq!((sum("resource"), sum("account"), sum("total"), sum("late")), (total, total, total, BUSY));
    assert!(records.iter().any(|record| &record[1] == "account" && &record[4] == "'=Other\u{7}"), "{text}");
    let page = report(engine, "2026-02", &["--format", "html"]);
    for shown in
        ["Report, February 2026", "Expired, never sampled", "spending_limit_reached", "closed, all invoices final"]
    {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("<script") && !page.contains("http"), "nothing is loaded from elsewhere");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.txt");
    assert_eq!(report(engine, "2026-02", &["--output", file.to_str().unwrap()]), "");
    let tables = std::fs::read_to_string(&file).unwrap();
    assert_eq!(report(engine, "2026-02", &[]), tables);
    assert!(!tables.contains('\u{7}'), "what people wrote can't ring a bell");
    insta::assert_snapshot!("report_table", tables);
}

async fn a_month_of_nothing(backend: Backend) {
    let engine = Engine::start(backend, time("2026-02-10T00:00:00Z")).await;
    made(engine.admin.account("idle", true).await);
    let month: Value = serde_json::from_str(&report(&engine, "2026-02", &["--format", "json"])).unwrap();
    assert_eq!((int(&month, "total_micros"), int(&month, "invoices"), rows(&month, "accounts").len()), (0, 0, 0));
    let tables = report(&engine, "2026-02", &[]);
    assert!(tables.contains("USD 0.000000") && tables.contains("  none"), "{tables}");
    let refused = Command::new(env!("CARGO_BIN_EXE_runtab"))
        .args(["report", "9998-01", "--database", engine.database()])
        .output()
        .unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("yet to come"));
}
