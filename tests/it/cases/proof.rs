//! The proof of invoices: whoever has the evidence and the invoice can check every line, and any change is found.

use std::path::Path;
use std::process::Command;

use runtab::wire::proof::{Verdict, check};
use serde_json::{Value, json};

use super::verify::furnished;
use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, refused, run_sql, sample,
    time, with,
};

on_each_backend!(
    every_invoice_is_what_its_evidence_makes,
    evidence_is_of_ones_own_account,
    a_changed_database_is_found_by_its_digest,
    archived_evidence_is_told_apart_from_wrong_evidence,
);

/// The evidence of a final invoice, as it is sent.
async fn evidence(api: &Api, account: &str, month: &str) -> Vec<u8> {
    let path = format!("/v1/accounts/{account}/invoices/{month}/evidence");
    let raw = api.raw("GET", &path, &[], Vec::new()).await;
    assert_eq!((raw.status, &raw.content_type[..]), (200, "application/x-ndjson"));
    assert_eq!(api.unzipped(&path).await, raw.body);
    raw.body
}

async fn invoice(api: &Api, account: &str, month: &str) -> Value {
    done(api.get(&format!("/v1/accounts/{account}/invoices/{month}")).await)
}

/// Checks an invoice as somebody without a database would.
fn checked(evidence: &[u8], invoice: &Value) -> Verdict {
    check(&mut &evidence[..], invoice.to_string().as_bytes()).unwrap()
}

fn assert_equal(evidence: &[u8], invoice: &Value) {
    let verdict = checked(evidence, invoice);
    assert!(verdict.found.is_empty(), "{:#?}\n{}", verdict.found, String::from_utf8_lossy(evidence));
    assert_eq!(verdict.checked.lines, invoice["lines"].as_array().unwrap().len());
}

/// A furnished account with October, November and December closed, each with usage that came late.
async fn three_months(backend: Backend) -> Engine {
    let engine = furnished(backend).await;
    let api = &engine.admin;
    let start = time("2026-10-30T20:00:00Z");
    made(api.admit("acme", "ci", &[lease("over", "s-4", 1, 500, 20 * 24 * HOUR_S)]).await);
    // Credit that runs out, credit that lapses, and tax.
    let credit = |id: &str, micros: i64| json!({"id": id, "credit_micros": micros, "starts_on": "2026-10-01"});
    made(api.post("/v1/accounts/acme/grants", &credit("c-1", 900_000)).await);
    made(api.post("/v1/accounts/acme/grants", &with(credit("c-0", 5_000_000), "expires_on", "2026-11-18")).await);
    done(api.patch("/v1/accounts/acme", &json!({"tax_rate_bps": 1_900})).await);
    engine.set_clock(time("2026-11-15T10:00:00Z")).await;
    // A lease that runs over the month's end, and a disk that nobody reports for a while.
    made(api.admit("acme", "ci", &[lease("on", "s-5", 2, 900, 20 * 24 * HOUR_S)]).await);
    api.accepted(&[with(sample("acme", "s-5", "on", engine.now(), 0), "storage_mib", 300)]).await;
    engine.set_clock(time("2026-12-01T05:00:00Z")).await;
    api.accepted(&[with(sample("acme", "s-4", "over", time("2026-11-10T00:00:00Z"), 7_000_000), "memory_mib", 100)])
        .await;
    api.accepted(&[sample("acme", "s-5", "on", time("2026-11-30T23:50:30Z"), 3_600_000_000_000)]).await;
    assert_eq!(api.post("/v1/months/2026-11/close", &json!({})).await.0, 200);
    // The step over the month's end, and what came late: for the first closed month and for the second.
    api.accepted(&[with(
        sample("acme", "s-5", "on", time("2026-12-01T04:00:00Z"), 3_650_000_000_000),
        "storage_mib",
        900,
    )])
    .await;
    api.accepted(&[sample("acme", "s-4", "over", time("2026-11-08T12:30:00Z"), 6_500_000)]).await;
    api.accepted(&[sample("acme", "s-0", "l-0", start.plus_s(1_234), 1_000)]).await;
    api.accepted(&[at_rest("acme", "s-0", time("2026-11-03T00:00:00Z"), 9_000)]).await;
    done(api.end("acme", "over", Some(time("2026-11-20T00:00:00Z")), "delete").await);
    made(api.post("/v1/accounts/acme/grants", &json!({"id": "h", "sandbox_hours": 7})).await);
    // Voided after their month was closed, next to its end and within it; and in the open month.
    let void =
        |id: &str, lease: &str, at: Time| json!({"id": id, "lease": lease, "at": at.to_string(), "reason": "wrong"});
    made(api.post("/v1/accounts/acme/voids", &void("v-1", "over", time("2026-11-10T00:00:00Z"))).await);
    made(api.post("/v1/accounts/acme/voids", &void("v-2", "on", time("2026-11-30T23:50:30Z"))).await);
    made(api.post("/v1/accounts/acme/voids", &void("v-3", "l-0", start.plus_s(2_017))).await);
    engine.set_clock(time("2026-12-20T00:00:00Z")).await;
    api.accepted(&[sample("acme", "s-5", "on", time("2026-12-03T00:00:00Z"), 3_800_000_000_000)]).await;
    done(api.end("acme", "on", None, "host_lost").await);
    engine.set_clock(time("2027-01-04T00:00:00Z")).await;
    assert_eq!(api.post("/v1/months/2026-12/close", &json!({})).await.0, 200);
    engine
}

async fn every_invoice_is_what_its_evidence_makes(backend: Backend) {
    let engine = furnished(backend).await;
    let (october, first) =
        (evidence(&engine.admin, "acme", "2026-10").await, invoice(&engine.admin, "acme", "2026-10").await);
    assert_equal(&october, &first);
    drop(engine);

    let engine = three_months(backend).await;
    let api = &engine.admin;
    engine.assert_verified();
    let customer = engine.customer("acme", "reads", true).await;
    for month in ["2026-10", "2026-11", "2026-12"] {
        let (file, bill) = (evidence(api, "acme", month).await, invoice(api, "acme", month).await);
        assert_equal(&file, &bill);
        assert_eq!(evidence(&customer, "acme", month).await, file);
        assert_eq!(written(&engine, month), file);
        let (equal, text) = offline(&file, &bill);
        assert!(equal && text.starts_with("equal: "), "{text}");
        assert_eq!(by_another_hand(&file).as_deref(), bill["evidence_digest"].as_str());
    }
    let late =
        |bill: &Value, month: &str| bill["lines"].as_array().unwrap().iter().any(|line| line["month_of_use"] == month);
    let (november, december) = (invoice(api, "acme", "2026-11").await, invoice(api, "acme", "2026-12").await);
    assert!(late(&november, "2026-10") && late(&december, "2026-10") && late(&december, "2026-11"), "{december}");
    assert_eq!(invoice(api, "acme", "2027-01").await["evidence_digest"], Value::Null);
    let path = "/v1/accounts/acme/invoices/2027-01/evidence";
    assert_eq!(api.get(path).await.0, 404);
    // What came later changes no evidence of before.
    assert_eq!(evidence(api, "acme", "2026-10").await, october);
    assert_eq!(invoice(api, "acme", "2026-10").await, first);
}

/// The evidence as the command writes it.
fn written(engine: &Engine, month: &str) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_runtab"))
        .args(["evidence", "acme", month, "--database", engine.database()])
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// `runtab verify --evidence FILE --invoice FILE`: whether it says equal, and what it says.
fn offline(evidence: &[u8], invoice: &Value) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, bill] = ["evidence.ndjson", "invoice.json"].map(|name| folder.path().join(name));
    std::fs::write(&file, evidence).expect("a file");
    std::fs::write(&bill, invoice.to_string()).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_runtab"))
        .args(["verify".as_ref(), "--evidence".as_ref(), file.as_os_str(), "--invoice".as_ref(), bill.as_os_str()])
        .output()
        .expect("the program starts");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (output.status.success(), text)
}

/// The digest as the second implementation has it; `None` where there is no Python.
fn by_another_hand(evidence: &[u8]) -> Option<String> {
    use std::io::Write as _;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/evidence_digest.py");
    let mut child = Command::new("python3")
        .arg(script)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().expect("a pipe").write_all(evidence).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).expect("text").trim().to_owned())
}

async fn evidence_is_of_ones_own_account(backend: Backend) {
    let engine = furnished(backend).await;
    let api = &engine.admin;
    made(api.account("other", true).await);
    let other = engine.customer("other", "k", false).await;
    let missing = other.get("/v1/accounts/nobody/invoices/2026-10/evidence").await;
    assert_eq!(missing.0, 404);
    assert_eq!(other.get("/v1/accounts/acme/invoices/2026-10/evidence").await, missing);
    assert_eq!(api.get("/v1/accounts/other/invoices/2026-10/evidence").await.0, 404);
    assert_eq!(api.get("/v1/accounts/acme/invoices/2026-10/evidence?x=1").await.0, 422);
}

async fn a_changed_database_is_found_by_its_digest(backend: Backend) {
    let engine = three_months(backend).await;
    // What no sum of usage has in it: the start of a grant that pays all the same, and when an end was told.
    let changes = [
        ("UPDATE grants SET starts_on = starts_on - 1 WHERE grant_id = 'g'", "terms_digest"),
        ("UPDATE leases SET end_month = 9999 WHERE lease_id = 'm'", "evidence_digest"),
    ];
    for (change, column) in changes {
        run_sql(engine.database(), change).await.unwrap();
        let (agrees, text) = engine.verify(&[]);
        assert!(!agrees && text.contains(column), "{change}: {text}");
    }
}

fn archive(engine: &Engine, month: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_runtab"))
        .args(["archive", month, "--database", engine.database()])
        .output()
        .expect("the program starts");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (output.status.success(), text)
}

/// What an operator does with tables of months, on either back end.
async fn drop_evidence(backend: Backend, engine: &Engine, before: Time) {
    let delete = |table: &str| format!("DELETE FROM {table} WHERE first_at < {}", before.0);
    let statements = match backend {
        Backend::Sqlite => vec!["DROP TRIGGER sample_pages_no_delete".to_owned(), delete("sample_pages")],
        Backend::Postgres => vec![
            "ALTER TABLE evidence.sample_pages_any DISABLE TRIGGER USER".to_owned(),
            delete("evidence.sample_pages_any"),
        ],
    };
    for statement in statements {
        run_sql(engine.database(), &statement).await.unwrap();
    }
}

async fn archived_evidence_is_told_apart_from_wrong_evidence(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-10-25T00:00:00Z")).await;
    let api = &engine.admin;
    let boundary = time("2026-11-01T00:00:00Z");
    made(api.admit("acme", "ci", &[lease("on", "s-on", 2, 1_000, 20 * 24 * HOUR_S)]).await);
    done(api.put("/v1/accounts/acme/sandboxes/image", &json!({"key": "ci"})).await);
    let seen = |at: Time, cpu: i64| sample("acme", "s-on", "on", at, cpu);
    engine.set_clock(boundary.plus_h(30)).await;
    api.accepted(&[at_rest("acme", "image", time("2026-10-26T00:00:00Z"), 700)]).await;
    api.accepted(&[with(seen(boundary.plus_h(-2), 1_000_000_000), "storage_mib", 500)]).await;
    api.accepted(&[with(seen(boundary.plus_h(-1), 2_000_000_000), "memory_mib", 300)]).await;
    api.accepted(&[seen(boundary.plus_h(5), 30_000_000_000)]).await;
    api.accepted(&[at_rest("acme", "image", boundary.plus_h(10), 800)]).await;
    let (archived, text) = archive(&engine, "2026-10");
    assert!(!archived && text.contains("once it is closed"), "{text}");
    assert_eq!(api.post("/v1/months/2026-10/close", &json!({})).await.0, 200);
    let october = evidence(api, "acme", "2026-10").await;
    // Late usage that the open month is still to bill needs the evidence.
    api.accepted(&[seen(boundary.plus_h(-3), 900_000_000)]).await;
    let (archived, text) = archive(&engine, "2026-10");
    assert!(!archived && text.contains("2026-11 bills late usage of it"), "{text}");
    let rejected = done(api.samples(&[seen(boundary.plus_h(-4), 800_000_000)]).await);
    assert_eq!(rejected["rejected"][0]["code"], "archived", "{rejected}");
    let rejected = done(api.samples(&[at_rest("acme", "image", time("2026-10-27T00:00:00Z"), 9)]).await);
    assert_eq!(rejected["rejected"][0]["code"], "archived", "{rejected}");
    refused(api.end("acme", "on", Some(boundary.plus_h(-5)), "stop").await, 409, "month_closed");
    // At hand still, but no longer promised.
    assert_eq!(api.get("/v1/accounts/acme/invoices/2026-10/evidence").await.0, 404);
    assert_equal(&october, &invoice(api, "acme", "2026-10").await);
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    assert_eq!(api.post("/v1/months/2026-11/close", &json!({})).await.0, 200);
    let (archived, text) = archive(&engine, "2026-10");
    assert!(archived && text.contains("may be dumped and dropped"), "{text}");
    let seen_before = engine.seen("acme").await;
    drop_evidence(backend, &engine, boundary).await;
    assert_eq!(engine.seen("acme").await, seen_before);
    // What crosses the boundary goes on from what was kept: the disk before its next report, and the lease.
    api.accepted(&[at_rest("acme", "image", boundary.plus_h(8), 750)]).await;
    api.accepted(&[seen(boundary.plus_h(90), 40_000_000_000), seen(boundary.plus_h(50), 35_000_000_000)]).await;
    done(api.end("acme", "on", Some(boundary.plus_h(100)), "stop").await);
    let (agrees, text) = engine.verify(&[]);
    assert!(agrees && text.contains(" not at hand in the evidence, 0 differences"), "{text}");
    engine.set_clock(time("2027-01-01T00:00:00Z")).await;
    assert_eq!(api.post("/v1/months/2026-12/close", &json!({})).await.0, 200);
    let (file, bill) = (evidence(api, "acme", "2026-12").await, invoice(api, "acme", "2026-12").await);
    assert_equal(&file, &bill);
    assert!(bill["lines"].as_array().unwrap().iter().any(|line| line["month_of_use"] == "2026-11"), "{bill}");
    // A late step over the boundary changes the archived month: it is billed, but nobody can prove it any more.
    api.accepted(&[seen(boundary.plus_h(2), 20_000_000_000)]).await;
    engine.set_clock(time("2027-02-01T00:00:00Z")).await;
    assert_eq!(api.post("/v1/months/2027-01/close", &json!({})).await.0, 200);
    let bill = invoice(api, "acme", "2027-01").await;
    assert!(bill["number"].is_string() && bill["evidence_digest"].is_null(), "{bill}");
    assert_eq!(api.get("/v1/accounts/acme/invoices/2027-01/evidence").await.0, 404);
    let (agrees, text) = engine.verify(&[]);
    assert!(agrees, "{text}");
    // A figure that is wrong is told all the same.
    let change = "UPDATE usage_hours SET cpu_us = cpu_us + 1 WHERE lease_id = 'on'";
    run_sql(engine.database(), change).await.unwrap();
    assert!(!engine.verify(&[]).0);
}

/// A seeded generator of small numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(end).unwrap()).unwrap()
    }
}

/// Changes one value of a line: a digit becomes another one, or a letter.
fn change_line(line: &str, dice: &mut Dice) -> Option<String> {
    let places: Vec<usize> =
        line.char_indices().filter(|(_, letter)| letter.is_ascii_digit()).map(|(at, _)| at).collect();
    if places.is_empty() {
        return None;
    }
    let place = places[dice.below(places.len())];
    let old = line.as_bytes()[place] - b'0';
    let new = (old + 1 + u8::try_from(dice.below(9)).unwrap()) % 10;
    let mut bytes = line.as_bytes().to_vec();
    bytes[place] = b'0' + new;
    String::from_utf8(bytes).ok()
}

/// Lines of the file by what they are of, so that every kind has its turn.
fn kind_of(line: &str) -> &'static str {
    let kinds = [
        "\"evidence\"",
        "\"card\"",
        "\"grant\"",
        "\"credit\"",
        "\"credit_day\"",
        "\"reports\"",
        "\"readings\"",
        "\"drawn\"",
        "\"late\"",
        "\"voided\"",
        "\"vcpus\"",
        "\"deleted_at\"",
    ];
    kinds.into_iter().find(|kind| line.contains(kind)).expect("a known line")
}

fn changed_file(text: &str, dice: &mut Dice) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    let mut kinds: Vec<&str> = lines.iter().map(|line| kind_of(line)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kind = kinds[dice.below(kinds.len())];
    let of_kind: Vec<usize> = (0..lines.len()).filter(|place| kind_of(lines[*place]) == kind).collect();
    let place = of_kind[dice.below(of_kind.len())];
    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
    let what = match dice.below(10) {
        0 => {
            lines.remove(place);
            "left out"
        }
        1 => {
            lines.insert(place, lines[place].clone());
            "twice"
        }
        2 if place + 1 < lines.len() => {
            lines.swap(place, place + 1);
            "out of order"
        }
        _ => {
            lines[place] = change_line(&lines[place], dice).unwrap_or_default();
            "changed"
        }
    };
    (lines.join("\n") + "\n", format!("{kind} line {place} {what}"))
}

/// Changes one value of an invoice: of a line, or of its head.
fn changed_invoice(bill: &Value, dice: &mut Dice) -> (Value, String) {
    let mut changed = bill.clone();
    let count = bill["lines"].as_array().unwrap().len();
    let line = dice.below(count + 1);
    if line < count && dice.below(12) == 0 {
        changed["lines"].as_array_mut().unwrap().remove(line);
        return (changed, format!("line {line} left out"));
    }
    let fields = if line < count { &mut changed["lines"][line] } else { &mut changed };
    let fields = fields.as_object_mut().unwrap();
    let names: Vec<String> = fields.keys().filter(|name| *name != "lines").cloned().collect();
    let name = &names[dice.below(names.len())];
    let value = match &fields[name] {
        Value::Number(number) => json!(number.as_i64().unwrap() + 1 - 2 * i64::try_from(dice.below(2)).unwrap()),
        Value::String(text) => json!(change_line(text, dice).unwrap_or_else(|| format!("{text}x"))),
        other => json!([other]),
    };
    fields.insert(name.clone(), value);
    (changed, format!("line {line} {name}"))
}

#[tokio::test]
async fn a_thousand_single_changes_are_all_found() {
    let engine = three_months(Backend::Sqlite).await;
    let mut dice = Dice(20_261_130);
    let mut bills = Vec::new();
    for month in ["2026-10", "2026-11", "2026-12"] {
        let file = String::from_utf8(evidence(&engine.admin, "acme", month).await).unwrap();
        bills.push((file, invoice(&engine.admin, "acme", month).await));
    }
    let mut seen: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for round in 0..1_000 {
        let (file, bill) = &bills[dice.below(bills.len())];
        let (verdict, what) = if round % 3 == 0 {
            let (bill, what) = changed_invoice(bill, &mut dice);
            (checked(file.as_bytes(), &bill), what)
        } else {
            let (file, what) = changed_file(file, &mut dice);
            (checked(file.as_bytes(), bill), what)
        };
        assert!(!verdict.found.is_empty(), "round {round}: {what} is not found");
        *seen.entry(what.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    // Every kind of record was changed, many times.
    assert!(seen.len() >= 9 && seen.values().all(|count| *count > 10), "{seen:?}");
}

#[tokio::test]
async fn a_bill_with_a_digest_made_to_fit_is_found_by_its_lines() {
    let engine = three_months(Backend::Sqlite).await;
    let bill = invoice(&engine.admin, "acme", "2026-11").await;
    let file = String::from_utf8(evidence(&engine.admin, "acme", "2026-11").await).unwrap();
    // An operator who changes a reading and digests anew: the lines tell.
    let forged = file.replacen(",7000000,100,", ",8000000,100,", 1);
    assert_ne!(forged, file);
    let digest = by_another_hand(forged.as_bytes());
    let Some(digest) = digest else { return };
    let verdict = checked(forged.as_bytes(), &with(bill.clone(), "evidence_digest", digest));
    assert_eq!(verdict.found.len(), verdict.found.iter().filter(|found| !found.contains("digest")).count());
    assert!(verdict.found[0].contains("of the invoice (cpu 2026-11): measured_quantity is "), "{:?}", verdict.found);
    assert!(int(&bill, "total_micros") > 0);
}

/// The example of docs/EVIDENCE.md: an account with a free hour, two hours of a sandbox over the month's end, a disk.
#[tokio::test]
async fn the_documented_example_is_what_the_engine_makes() {
    let engine =
        Engine::start_with(Backend::Sqlite, time("2026-11-30T21:30:00Z"), &[("RUNTAB_LEDGER_WELCOME_HOURS", "1")])
            .await;
    let api = &engine.admin;
    made(api.account("acme", true).await);
    made(api.key("acme", "ci", None).await);
    made(api.admit("acme", "ci", &[lease("l-1", "s-1", 2, 4_096, 4 * HOUR_S)]).await);
    engine.set_clock(time("2026-12-01T00:30:00Z")).await;
    let seen = |at: &str, cpu: i64| sample("acme", "s-1", "l-1", time(at), cpu);
    api.accepted(&[
        with(seen("2026-11-30T22:00:00Z", 90_000_000), "storage_mib", 812),
        seen("2026-11-30T23:00:00Z", 7_290_000_000),
        with(seen("2026-12-01T00:00:00Z", 7_300_000_000), "storage_mib", 900),
    ])
    .await;
    engine.set_clock(time("2026-12-04T00:00:00Z")).await;
    assert_eq!(api.post("/v1/months/2026-11/close", &json!({})).await.0, 200);
    let file = evidence(api, "acme", "2026-11").await;
    let bill = invoice(api, "acme", "2026-11").await;
    assert_equal(&file, &bill);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/evidence");
    let shown = serde_json::to_string_pretty(&bill).unwrap() + "\n";
    if std::env::var_os("RUNTAB_UPDATE_EXAMPLES").is_some() {
        std::fs::write(folder.join("example.ndjson"), &file).unwrap();
        std::fs::write(folder.join("example-invoice.json"), &shown).unwrap();
    }
    assert_eq!(std::fs::read(folder.join("example.ndjson")).unwrap(), file);
    assert_eq!(std::fs::read_to_string(folder.join("example-invoice.json")).unwrap(), shown);
    let page = std::fs::read_to_string(folder.join("../EVIDENCE.md")).unwrap();
    for digest in ["evidence_digest", "terms_digest"] {
        assert!(page.contains(bill[digest].as_str().unwrap()), "{digest} {}", bill[digest]);
    }
}

#[tokio::test]
async fn a_sample_of_accounts_is_verified() {
    let engine = Engine::start(Backend::Sqlite, time("2026-11-10T00:00:00Z")).await;
    for number in 0..7 {
        made(engine.admin.account(&format!("a-{number}"), true).await);
    }
    for (count, verified) in [("0", "0 accounts"), ("3", "3 accounts"), ("50", "7 accounts")] {
        let (agrees, text) = engine.verify(&["--sample", count]);
        assert!(agrees && text.starts_with(verified), "{text}");
    }
    assert!(!engine.verify(&["--sample", "3", "--account", "a-1"]).0);
    let metrics = engine.admin.raw("GET", "/metrics", &[], Vec::new()).await;
    let metrics = String::from_utf8(metrics.body).unwrap();
    for name in ["accounts_total", "differences_total", "last_run_timestamp_seconds"] {
        assert!(metrics.contains(&format!("\nruntab_verify_{name} 0\n")), "{metrics}");
    }
}
