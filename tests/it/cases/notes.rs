//! What comes after an invoice is final: events, credit notes and debit notes, beside it and never in it.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, at_once, done, int, lease, made, on_each_backend, refused, run_sql, sample, time,
    with,
};

on_each_backend!(
    an_invoice_lives_on_beside_itself,
    notes_correct_final_invoices,
    small_notes_give_back_no_more_cents,
    note_numbers_have_no_gaps,
    notes_are_harmless_in_every_format,
    the_command_line_corrects,
);

const INVOICES: &str = "/v1/accounts/acme/invoices";

/// An account with a final invoice of 325,000 for November, taxed at 10 % (357,500), on 3 December.
async fn invoiced(backend: Backend) -> Engine {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    done(api.patch("/v1/accounts/acme", &json!({"tax_rate_bps": 1_000})).await);
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, 10 * HOUR_S)]).await);
    engine.set_clock(start.plus_h(10)).await;
    api.accepted(&[sample("acme", "l", "l", engine.now(), 36_000_000_000)]).await;
    engine.set_clock(time("2026-12-03T00:00:00Z")).await;
    done(api.post("/v1/months/2026-11/close", &json!({})).await);
    engine
}

async fn event(api: &Api, id: &str, event: &str) -> (u16, Value) {
    let body = json!({"id": id, "event": event, "reference": "wire 42"});
    api.post(&format!("{INVOICES}/2026-11/events"), &body).await
}

fn note(id: &str, kind: &str, micros: &[i64]) -> Value {
    let line = |micros: &i64| json!({"description": "the outage of Tuesday", "amount_micros": micros});
    json!({"id": id, "kind": kind, "reason": "we promised", "lines": micros.iter().map(line).collect::<Vec<_>>()})
}

async fn issue(api: &Api, body: &Value) -> (u16, Value) {
    api.post(&format!("{INVOICES}/2026-11/notes"), body).await
}

async fn invoice(api: &Api) -> Value {
    done(api.get(&format!("{INVOICES}/2026-11")).await)
}

/// The invoice without what is beside it.
fn frozen(mut invoice: Value) -> Value {
    invoice.as_object_mut().unwrap().remove("life");
    invoice
}

async fn an_invoice_lives_on_beside_itself(backend: Backend) {
    let engine = invoiced(backend).await;
    let api = &engine.admin;
    let before = invoice(api).await;
    assert!(before.get("life").is_none(), "{before}");
    let sent = made(event(api, "e-1", "sent").await);
    assert_eq!(event(api, "e-1", "sent").await, (200, sent.clone()));
    refused(event(api, "e-1", "overdue").await, 409, "conflict");
    refused(event(api, "e-2", "sent").await, 409, "conflict");
    made(event(api, "e-2", "overdue").await);
    made(event(api, "e-3", "written_off").await);
    refused(event(api, "e-4", "overdue").await, 409, "conflict");
    let no_reference = json!({"id": "e-4", "event": "paid"});
    let answer = api.post(&format!("{INVOICES}/2026-11/events"), &no_reference).await;
    assert_eq!(refused(answer, 422, "invalid_request")["pointer"], "/reference");
    made(event(api, "e-4", "paid").await);
    for kind in ["sent", "paid", "overdue", "written_off"] {
        refused(event(api, "e-5", kind).await, 409, "conflict");
    }
    let after = invoice(api).await;
    assert_eq!((&after["life"]["state"], &after["life"]["events"][0]), (&json!("paid"), &sent));
    let kinds: Vec<&str> =
        after["life"]["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["sent", "overdue", "written_off", "paid"]);
    assert_eq!(frozen(after.clone()), before);
    let list = done(api.get(INVOICES).await);
    assert_eq!(list["items"][0], after);
    assert_eq!(list["items"][1]["status"], "draft");
    // Only what is final has a life.
    for (month, status, code) in [("2026-12", 409, "month_open"), ("2026-10", 404, "not_found")] {
        let path = format!("{INVOICES}/{month}/events");
        refused(api.post(&path, &json!({"id": "x", "event": "sent"})).await, status, code);
        refused(api.post(&format!("{INVOICES}/{month}/notes"), &note("x", "credit", &[1])).await, status, code);
    }
    refused(api.post("/v1/accounts/nobody/invoices/2026-11/events", &no_reference).await, 404, "not_found");
    for change in ["UPDATE invoice_events SET kind = 'sent'", "DELETE FROM invoice_events"] {
        assert!(run_sql(engine.database(), change).await.is_err());
    }
}

async fn notes_correct_final_invoices(backend: Backend) {
    let engine = invoiced(backend).await;
    let api = &engine.admin;
    let before = invoice(api).await;
    assert_eq!(int(&before, "total_micros"), 357_500);
    let credit = made(issue(api, &note("n-1", "credit", &[100_000, 5])).await);
    // 100,005 and 10 % of it: 10,000.5, rounded half up.
    let shown = ["number", "invoice", "kind", "month"].map(|name| credit[name].as_str().unwrap());
    assert_eq!(shown, ["CN-000001", "RT-000001", "credit", "2026-11"]);
    let figures = ["tax_rate_bps", "tax_micros", "total_micros", "total_cents"].map(|name| int(&credit, name));
    assert_eq!(figures, [1_000, 10_001, 110_006, 11]);
    assert_eq!(issue(api, &note("n-1", "credit", &[100_000, 5])).await, (200, credit.clone()));
    refused(issue(api, &note("n-1", "debit", &[100_000, 5])).await, 409, "conflict");
    refused(issue(api, &note("n-1", "credit", &[100_000])).await, 409, "conflict");
    // At most what is left can be given back: 247,494 with tax.
    assert_eq!(
        refused(issue(api, &note("n-2", "credit", &[224_996])).await, 422, "invalid_request")["pointer"],
        "/lines"
    );
    let debit = made(issue(api, &note("n-3", "debit", &[10])).await);
    assert_eq!((debit["number"].as_str(), int(&debit, "total_micros")), (Some("DN-000001"), 11));
    let second = made(issue(api, &note("n-2", "credit", &[224_995])).await);
    assert_eq!(second["number"], "CN-000002");
    let after = invoice(api).await;
    // All of one instant: by number.
    assert_eq!(after["life"]["notes"], json!([credit, second, debit]));
    assert_eq!(int(&after["life"], "corrected_total_micros"), 357_500 - 110_006 + 11 - 247_495);
    assert_eq!((&after["life"]["state"], frozen(after.clone())), (&Value::Null, before));
    assert_eq!(done(api.get("/v1/accounts/acme/notes").await)["items"], json!([credit, second, debit]));
    let page = done(api.get("/v1/accounts/acme/notes?limit=2").await);
    let next = format!("/v1/accounts/acme/notes?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(done(api.get(&next).await), json!({"items": [debit]}));
    assert_eq!(done(api.get("/v1/accounts/acme/notes/CN-000001").await), credit);
    for missing in ["CN-000009", "CN-1", "RT-000001", "CN-000001.exe"] {
        refused(api.get(&format!("/v1/accounts/acme/notes/{missing}")).await, 404, "not_found");
    }
    made(api.account("other", true).await);
    refused(api.get("/v1/accounts/other/notes/CN-000001").await, 404, "not_found");
    let no_lines = with(note("x", "credit", &[1]), "lines", json!([]));
    for (body, pointer) in [
        (no_lines, "/lines"),
        (note("x", "credit", &[0]), "/lines/0/amount_micros"),
        (with(note("x", "credit", &[1]), "reason", "  "), "/reason"),
        (with(note("x", "credit", &[1]), "kind", "gift"), "/kind"),
    ] {
        assert_eq!(refused(issue(api, &body).await, 422, "invalid_request")["pointer"], pointer);
    }
    for change in [
        "UPDATE notes SET base_micros = 1",
        "DELETE FROM note_lines",
        "INSERT INTO note_lines (account_id, month, kind, number, line, description, amount_micros)
            SELECT account_id, month, kind, number, 9, 'more', 1 FROM notes",
    ] {
        assert!(run_sql(engine.database(), change).await.is_err(), "{change}");
    }
    engine.assert_verified();
}

async fn note_numbers_have_no_gaps(backend: Backend) {
    let engine = invoiced(backend).await;
    let (second, _process) = engine.beside();
    let api = &engine.admin;
    let told = at_once(16, |caller| {
        let api = if caller % 2 == 0 { api.clone() } else { second.clone() };
        // Two callers an id, and one in four asks for too much.
        let micros = if caller % 8 < 2 { 900_000 } else { 10 };
        async move { issue(&api, &note(&format!("n-{}", caller / 2), "credit", &[micros])).await }
    })
    .await;
    let mut numbers: Vec<String> = told
        .iter()
        .filter(|(status, _)| *status != 422)
        .map(|(_, note)| note["number"].as_str().unwrap_or_else(|| panic!("{note}")).to_owned())
        .collect();
    numbers.sort();
    let expected: Vec<String> =
        (1..=6).flat_map(|count| [format!("CN-{count:06}"), format!("CN-{count:06}")]).collect();
    assert_eq!(numbers, expected);
}

async fn notes_are_harmless_in_every_format(backend: Backend) {
    let engine = invoiced(backend).await;
    let api = &engine.admin;
    let body = json!({"id": "n", "kind": "debit", "reason": "=1+1", "lines": [
        {"description": "<script>alert(1)</script>", "amount_micros": 7}, {"description": "@SUM(1)", "amount_micros": 8}]});
    made(issue(api, &body).await);
    let file = async |end: &str| {
        let raw = api.raw("GET", &format!("/v1/accounts/acme/notes/DN-000001{end}"), &[], Vec::new()).await;
        (raw.content_type, String::from_utf8(raw.body).unwrap())
    };
    let (content_type, csv) = file(".csv").await;
    assert!(content_type.starts_with("text/csv"), "{content_type}");
    let row = "DN-000001,debit,RT-000001,acme,acme,2026-11,'=1+1,'@SUM(1),8,0.000008\r\n";
    assert!(csv.contains(row), "{csv}");
    assert!(csv.contains(",tax,2,0.000002\r\n") && csv.contains(",total,17,0.000017\r\n"), "{csv}");
    assert!(csv.ends_with(",total_rounded,0,0.00\r\n"), "{csv}");
    let (content_type, page) = file(".html").await;
    assert!(content_type.starts_with("text/html"), "{content_type}");
    assert!(page.contains("Debit note") && page.contains("RT-000001") && page.contains("10.00 %"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http"), "{page}");
    if cfg!(feature = "pdf") {
        let paper = api.raw("GET", "/v1/accounts/acme/notes/DN-000001.pdf", &[], Vec::new()).await;
        assert_eq!((paper.status, paper.content_type.as_str()), (200, "application/pdf"));
        assert!(paper.body.starts_with(b"%PDF-1.7"));
    }
    refused(api.get("/v1/accounts/acme/notes/DN-000001.focus.csv").await, 404, "not_found");
}

async fn the_command_line_corrects(backend: Backend) {
    let engine = invoiced(backend).await;
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runtab"));
        command.arg("invoice").args(args).args(["--database", engine.database()]);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let correct = [
        "correct",
        "acme",
        "2026-11",
        "--kind",
        "credit",
        "--id",
        "n-1",
        "--reason",
        "we promised",
        "--line",
        "the outage = ours=40000",
        "--line",
        "and another=60000",
    ];
    for _ in 0..2 {
        let (done, out, error) = run(&correct);
        assert!(done && out == "CN-000001 on RT-000001: USD 0.11\n", "{out}{error}");
    }
    let note = done(engine.admin.get("/v1/accounts/acme/notes/CN-000001").await);
    assert_eq!(note["lines"][0], json!({"description": "the outage = ours", "amount_micros": 40_000}));
    let (done, out, error) =
        run(&["record", "acme", "2026-11", "--event", "paid", "--id", "e", "--reference", "wire 7"]);
    assert!(done && out == "paid\n", "{out}{error}");
    let (done, _, error) = run(&["record", "acme", "2026-11", "--event", "overdue", "--id", "f"]);
    assert!(!done && error.contains("this invoice is paid"), "{error}");
    let mut wrong = correct.to_vec();
    wrong[10] = "the outage=0";
    assert!(!run(&wrong).0);
}

async fn small_notes_give_back_no_more_cents(backend: Backend) {
    let engine = invoiced(backend).await;
    let api = &engine.admin;
    // 36 cents are due; 5,500 microdollars with tax are a cent each.
    assert_eq!(int(&invoice(api).await, "amount_due_cents"), 36);
    for place in 0..36 {
        let small = made(issue(api, &note(&format!("n-{place}"), "credit", &[5_000])).await);
        assert_eq!(int(&small, "total_cents"), 1);
    }
    refused(issue(api, &note("n-36", "credit", &[5_000])).await, 422, "invalid_request");
}
