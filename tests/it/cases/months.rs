//! Months and invoices: they tile the time, are made once, never change, and all together equal the ledger.

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_once, at_rest, done, dump, int, lease, made, on_each_backend, refused,
    run_sql, sample, time, with,
};

on_each_backend!(
    m4_sixteen_months_tile_the_time,
    m5_invoices_are_made_once,
    m6_late_usage_is_billed_in_the_open_month,
    m8_a_deleted_key_is_invoiced,
    m9_nothing_is_shown_as_zero,
    m10_names_are_harmless_in_every_format,
    f2_lapsed_before_the_invoice,
    a_lease_that_runs_while_its_month_closes,
    below_zero_is_carried_forward,
    final_invoices_are_frozen,
    drafts_and_lists,
);

/// An hour of 1 vCPU, 1 GiB, busy.
const BUSY: i64 = 32_500;

async fn invoice(api: &Api, account: &str, month: &str) -> Value {
    let invoice = done(api.get(&format!("/v1/accounts/{account}/invoices/{month}")).await);
    let lines = invoice["lines"].as_array().unwrap();
    let sum: i64 = lines.iter().map(|line| int(line, "amount_micros")).sum();
    assert_eq!(sum, int(&invoice, "total_micros"), "{invoice}");
    assert_eq!(int(&invoice, "amount_due_cents"), (sum + 5_000) / 10_000, "{invoice}");
    for line in lines.iter().filter(|line| line["unit_price_micros"].is_number()) {
        // Quantity times unit price is the amount, to the microdollar.
        let digits: i128 = line["quantity"].as_str().unwrap().replace('.', "").parse().unwrap();
        let exact = digits * i128::from(int(line, "unit_price_micros"));
        let off = exact - i128::from(int(line, "amount_micros")) * 1_000_000_000_000;
        assert!(off.abs() < 1_001_000_000_000, "{line}");
    }
    invoice
}

async fn close(api: &Api, month: &str) -> Value {
    done(api.post(&format!("/v1/months/{month}/close"), &json!({})).await)
}

/// Amounts of the lines of a resource and a month of use.
fn amounts(invoice: &Value, resource: &str, month_of_use: &str) -> Vec<i64> {
    let lines = invoice["lines"].as_array().unwrap().iter();
    let lines = lines.filter(|line| line["resource"] == resource && line["month_of_use"] == month_of_use);
    lines.map(|line| int(line, "amount_micros")).collect()
}

async fn net(api: &Api, account: &str, from: Time, to: Time) -> i64 {
    int(&api.costs(account, from, to, "granularity=total&group_by=none").await["total"], "net_micros")
}

/// A sample at the end of so many busy hours of one vCPU.
fn busy(sandbox: &str, lease: &str, at: Time, hours: i64) -> Value {
    sample("acme", sandbox, lease, at, hours * 3_600_000_000)
}

fn month_at(index: i64) -> (String, Time) {
    let (year, month) = (2026 + index / 12, index % 12 + 1);
    (format!("{year:04}-{month:02}"), time(&format!("{year:04}-{month:02}-01T00:00:00Z")))
}

async fn m4_sixteen_months_tile_the_time(backend: Backend) {
    let engine = Engine::with_payer(backend, month_at(11).1).await;
    let api = &engine.admin;
    let (mut sum, mut hours_in_all) = (0, 0);
    for index in 11..27 {
        let ((month, from), (next, to)) = (month_at(index), month_at(index + 1));
        let hours = (to.0 - from.0) / 3_600_000;
        let id = format!("l-{index}");
        made(api.admit("acme", "ci", &[with(lease(&id, "s", 1, 1_024, hours * HOUR_S), "kind", "wake")]).await);
        refused(api.post(&format!("/v1/months/{month}/close"), &json!({})).await, 409, "month_open");
        engine.set_clock(to).await;
        api.accepted(&[busy("s", &id, to, hours)]).await;
        let closed = close(api, &month).await;
        assert_eq!(closed, json!({"month": month, "invoices": 1}));
        let invoice = invoice(api, "acme", &month).await;
        assert_eq!(int(&invoice, "total_micros"), hours * BUSY, "{month}");
        assert_eq!(invoice["status"], "final");
        for line in invoice["lines"].as_array().unwrap() {
            let span = [&line["from"], &line["to"], &line["month_of_use"]].map(|text| text.as_str().unwrap());
            assert_eq!(span, [format!("{month}-01"), format!("{next}-01"), month.clone()]);
        }
        sum += int(&invoice, "total_micros");
        hours_in_all += hours;
    }
    assert_eq!(sum, hours_in_all * BUSY);
    assert_eq!(sum, net(api, "acme", month_at(11).1, month_at(27).1).await);
    let leap = invoice(api, "acme", "2028-02").await;
    assert_eq!(int(&leap, "total_micros"), 22_620_000);
    assert_eq!(leap["lines"][0]["quantity"], "696.000000000000");
    assert_eq!(leap["lines"][0]["measured_quantity"], "696.000000000000");
    // The payer's free month before, and these sixteen.
    let list = done(api.get("/v1/accounts/acme/invoices").await);
    let numbers: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|item| item["number"].as_str()).collect();
    assert_eq!(numbers.len(), 17);
    assert_eq!((numbers[0], numbers[16]), ("RT-000001", "RT-000017"));
}

async fn m5_invoices_are_made_once(backend: Backend) {
    let engine = Engine::start(backend, time("2026-02-10T00:00:00Z")).await;
    let (second, _process) = engine.beside();
    let api = &engine.admin;
    let mut rows = Vec::new();
    for account in 0..20 {
        let account = format!("a-{account:02}");
        made(api.account(&account, true).await);
        made(api.key(&account, "ci", None).await);
        made(api.admit(&account, "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
        rows.push(sample(&account, "s", "l", engine.now().plus_h(1), 0));
    }
    made(api.account("idle", true).await);
    engine.set_clock(time("2026-02-11T00:00:00Z")).await;
    api.accepted(&rows).await;
    assert_eq!(invoice(api, "a-00", "2026-02").await["status"], "draft");
    assert_eq!(invoice(api, "a-00", "2026-02").await["number"], Value::Null);
    let march = time("2026-03-01T00:00:00Z");
    refused(api.post("/v1/months/2026-02/close", &json!({})).await, 409, "month_open");
    engine.set_clock(march).await;
    assert_eq!(second.set_clock(march).await.0, 200);
    let mut first: Option<Vec<String>> = None;
    for _ in 0..2 {
        let closed = at_once(8, |caller| {
            let api = if caller % 2 == 0 { api.clone() } else { second.clone() };
            async move { close(&api, "2026-02").await }
        })
        .await;
        assert!(closed.iter().all(|closed| *closed == json!({"month": "2026-02", "invoices": 20})), "{closed:?}");
        let mut bytes = Vec::new();
        let mut numbers = Vec::new();
        for account in 0..20 {
            let path = format!("/v1/accounts/a-{account:02}/invoices/2026-02");
            let raw = api.raw("GET", &path, &[], Vec::new()).await;
            let text = String::from_utf8(raw.body).unwrap();
            numbers.push(serde_json::from_str::<Value>(&text).unwrap()["number"].as_str().unwrap().to_owned());
            bytes.push(text);
        }
        numbers.sort();
        assert_eq!(numbers, (1..=20).map(|number| format!("RT-{number:06}")).collect::<Vec<_>>());
        assert_eq!(first.get_or_insert_with(|| bytes.clone()), &bytes);
    }
    let idle = done(api.get("/v1/accounts/idle/invoices").await);
    assert!(idle["items"].as_array().unwrap().iter().all(|item| item["status"] == "draft"), "{idle}");
    refused(api.post("/v1/months/2026-13/close", &json!({})).await, 404, "not_found");
}

async fn m6_late_usage_is_billed_in_the_open_month(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-28T20:00:00Z")).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    close(api, "2026-02").await;
    let path = "/v1/accounts/acme/invoices/2026-02";
    let before = api.raw("GET", path, &[], Vec::new()).await.body;
    engine.set_clock(time("2026-03-05T12:00:00Z")).await;
    api.accepted(&[busy("s", "l", time("2026-02-28T21:00:00Z"), 1)]).await;
    assert_eq!(api.raw("GET", path, &[], Vec::new()).await.body, before, "not a byte");
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 0), "today's limit is untouched");
    let draft = invoice(api, "acme", "2026-03").await;
    assert_eq!((draft["status"].as_str(), int(&draft, "total_micros")), (Some("draft"), BUSY));
    assert_eq!(amounts(&draft, "cpu", "2026-02"), [25_000]);
    assert_eq!(amounts(&draft, "memory", "2026-02"), [7_500]);
    engine.set_clock(time("2026-04-01T00:00:00Z")).await;
    close(api, "2026-03").await;
    let march = invoice(api, "acme", "2026-03").await;
    assert_eq!((march["status"].as_str(), &march["lines"]), (Some("final"), &draft["lines"]));
    let february = invoice(api, "acme", "2026-02").await;
    let all = net(api, "acme", time("2026-02-01T00:00:00Z"), time("2026-04-01T00:00:00Z")).await;
    assert_eq!(int(&february, "total_micros") + int(&march, "total_micros"), all);
    engine.assert_verified();
}

async fn m8_a_deleted_key_is_invoiced(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 20 * HOUR_S)]).await);
    engine.set_clock(start.plus_h(10)).await;
    api.accepted(&[busy("s", "l", engine.now(), 10)]).await;
    assert_eq!(api.delete("/v1/accounts/acme/keys/ci").await.0, 204);
    engine.set_clock(start.plus_h(11)).await;
    api.accepted(&[busy("s", "l", engine.now(), 11)]).await;
    refused(api.admit("acme", "ci", &[lease("m", "m", 1, 1, 1)]).await, 403, "key_revoked");
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    close(api, "2026-11").await;
    let invoice = invoice(api, "acme", "2026-11").await;
    assert_eq!(int(&invoice, "total_micros"), 11 * BUSY);
    assert_eq!(int(&invoice, "amount_due_cents"), 36);
}

async fn m9_nothing_is_shown_as_zero(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.admit("acme", "ci", &[lease("zero", "zero", 1, 1_024, HOUR_S)]).await);
    done(api.end("acme", "zero", None, "cancel").await);
    made(api.account("idle", true).await);
    made(api.key("idle", "ci", None).await);
    let figures = |invoice: &Value| {
        ["list_micros", "free_micros", "total_micros", "amount_due_cents"].map(|name| int(invoice, name))
    };
    for (account, month) in [("acme", "2026-11"), ("acme", "2025-01"), ("idle", "2026-11"), ("acme", "1970-01")] {
        let nothing = invoice(api, account, month).await;
        assert_eq!((figures(&nothing), nothing["lines"].as_array().unwrap().len()), ([0; 4], 0), "{nothing}");
    }
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(start.plus_h(1)).await;
    api.accepted(&[busy("s", "l", engine.now(), 1)]).await;
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    close(api, "2026-11").await;
    let free = invoice(api, "acme", "2026-11").await;
    assert_eq!(figures(&free), [BUSY, BUSY, 0, 0]);
    assert_eq!(amounts(&free, "free_hours", "2026-11"), [-BUSY]);
    assert!(!free.to_string().contains("null") || free["number"].is_string());
    for (account, month) in [("acme", "2026-10"), ("idle", "2026-11")] {
        let nothing = invoice(api, account, month).await;
        let closed = (nothing["status"].as_str(), nothing["number"].is_null(), figures(&nothing));
        assert_eq!(closed, (Some("final"), true, [0; 4]), "{nothing}");
    }
    refused(api.get("/v1/accounts/acme/invoices/2027-01").await, 404, "not_found");
    refused(api.get("/v1/accounts/nobody/invoices/2026-11").await, 404, "not_found");
    refused(api.get("/v1/accounts/acme/invoices/2026-00").await, 404, "not_found");
}

/// An invoice in a format: content type and text.
async fn file(api: &Api, account: &str, end: &str) -> (String, String) {
    let raw = api.raw("GET", &format!("/v1/accounts/{account}/invoices/{end}"), &[], Vec::new()).await;
    assert_eq!(raw.status, 200);
    (raw.content_type, String::from_utf8(raw.body).unwrap())
}

/// The PDF of an account is there, and the same each time.
#[cfg(feature = "pdf")]
async fn assert_paper(api: &Api, account: &str) {
    let path = format!("/v1/accounts/{account}/invoices/2026-11.pdf");
    let paper = api.raw("GET", &path, &[], Vec::new()).await;
    assert_eq!((paper.status, paper.content_type.as_str()), (200, "application/pdf"));
    assert!(paper.body.starts_with(b"%PDF-1.7"));
    assert_eq!(api.raw("GET", &path, &[], Vec::new()).await.body, paper.body);
}

async fn m10_names_are_harmless_in_every_format(backend: Backend) {
    let engine = Engine::start(backend, time("2026-11-10T00:00:00Z")).await;
    let api = &engine.admin;
    let names = [
        ("=HYPERLINK(\"http://x\";\"y\")", "\"'=HYPERLINK(\"\"http://x\"\";\"\"y\"\")\""),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("a,b\r\nc", "\"a,b\r\nc\""),
        ("\u{202e}=1", "'\u{202e}=1"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ];
    for (index, (name, cell)) in names.into_iter().enumerate() {
        let account = format!("-a{index}");
        made(api.post("/v1/accounts", &json!({"id": account, "name": name, "card_on_file": true})).await);
        let (content_type, text) = file(api, &account, "2026-11.csv").await;
        assert!(content_type.starts_with("text/csv"), "{content_type}");
        assert!(text.contains(&format!(",'{account},{cell},2026-11,total,")), "{text}");
        assert!(
            text.contains(",total,,,,,,,,,,,0,0.000000\r\n") && text.contains(",amount_due,,,,,,,,,,,0,0.00\r\n"),
            "{text}"
        );
        let (content_type, page) = file(api, &account, "2026-11.html").await;
        assert!(content_type.starts_with("text/html"), "{content_type}");
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("USD 0.00") && page.contains(">Draft<"), "{page}");
        assert!(!page.contains("http") || page.contains("&quot;http:"), "nothing is loaded from elsewhere: {page}");
        #[cfg(feature = "pdf")]
        assert_paper(api, &account).await;
    }
    made(api.key("-a1", "ci", None).await);
    made(api.admit("-a1", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    api.accepted(&[sample("-a1", "s", "l", time("2026-11-10T01:00:00Z"), 0)]).await;
    close(api, "2026-11").await;
    let (_, text) = file(api, "-a1", "2026-11.csv").await;
    let free = "free_hours,2026-11,2026-11-01,2026-12-01,list,1.000000000000,,sandbox-hour,,,,-8750,-0.008750\r\n";
    assert!(text.contains(free), "numbers stay numbers: {text}");
    let (_, page) = file(api, "-a1", "2026-11.html").await;
    assert!(page.contains("RT-000001") && page.contains("2026-11-10") && !page.contains(">Draft<"), "{page}");
    assert_eq!(file(api, "-a1", "2026-11.html").await.1, page);
    refused(api.get("/v1/accounts/-a1/invoices/2026-11.exe").await, 404, "not_found");
}

async fn f2_lapsed_before_the_invoice(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-18T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    let grant = json!({"id": "g", "sandbox_hours": 4, "starts_on": "2026-02-01", "expires_on": "2026-02-20"});
    made(api.post("/v1/accounts/acme/grants", &grant).await);
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 4 * HOUR_S)]).await);
    engine.set_clock(time("2026-02-25T00:00:00Z")).await;
    api.accepted(&[busy("s", "l", start.plus_h(4), 4)]).await;
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    close(api, "2026-02").await;
    let invoice = invoice(api, "acme", "2026-02").await;
    assert_eq!(int(&invoice, "total_micros"), 0);
    // The payer's 50 idle hours of 128 MiB are free as well.
    assert_eq!(amounts(&invoice, "free_hours", "2026-02"), [-(4 * BUSY + 50 * (1_250 + 937) + 25)]);
}

/// Half an hour before midnight is still in the lease's row when the month closes.
async fn a_lease_that_runs_while_its_month_closes(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2027-01-31T20:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    let grant = json!({"id": "g", "sandbox_hours": 4, "starts_on": "2027-01-01"});
    made(api.post("/v1/accounts/acme/grants", &grant).await);
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 10 * HOUR_S)]).await);
    engine.set_clock(start.plus_s(3 * HOUR_S + 1_800)).await;
    api.accepted(&[with(busy("s", "l", engine.now(), 3), "storage_mib", 10_240)]).await;
    let (midnight, january) = (start.plus_h(4), time("2027-01-01T00:00:00Z"));
    engine.set_clock(midnight).await;
    api.accepted(&[]).await;
    close(api, "2027-01").await;
    let closed = invoice(api, "acme", "2027-01").await;
    assert_eq!(int(&closed, "total_micros"), 0, "free hours pay for all of it");
    engine.set_clock(start.plus_h(5)).await;
    // Idle from 23:30 on, and over midnight: half an hour of the last free hour is left.
    api.accepted(&[with(busy("s", "l", engine.now(), 3), "storage_mib", 10_240)]).await;
    let draft = invoice(api, "acme", "2027-02").await;
    assert_eq!(amounts(&draft, "cpu", "2027-01"), [625]);
    assert_eq!(amounts(&draft, "memory", "2027-01"), [3_750]);
    assert_eq!(amounts(&draft, "free_hours", "2027-01"), [-4_375]);
    assert_eq!(amounts(&draft, "storage", "2027-01"), [540]);
    assert_eq!(amounts(&draft, "cpu", "2027-02"), [1_250]);
    assert_eq!(amounts(&draft, "storage", "2027-02"), [1_080]);
    // The next month closes before anything more is heard of the sandbox, and so does the one after it.
    for (month, next) in [("2027-02", "2027-03-01T00:00:00Z"), ("2027-03", "2027-04-01T00:00:00Z")] {
        engine.set_clock(time(next)).await;
        close(api, month).await;
    }
    let list = done(api.get("/v1/accounts/acme/invoices").await);
    let totals: Vec<i64> = list["items"].as_array().unwrap().iter().map(|item| int(item, "total_micros")).collect();
    let all = net(api, "acme", january, time("2027-04-01T00:00:00Z")).await;
    assert_eq!((totals.iter().sum::<i64>(), totals.len()), (all, 3), "{list}");
    // Months of rest are reported at last: they are late usage of April.
    engine.set_clock(time("2027-04-02T00:00:00Z")).await;
    api.accepted(&[at_rest("acme", "s", engine.now(), 0)]).await;
    let draft = invoice(api, "acme", "2027-04").await;
    let from_one = 28 * 24 - 1;
    assert_eq!(amounts(&draft, "storage", "2027-02"), [from_one * 1_080]);
    assert_eq!(amounts(&draft, "storage", "2027-03"), [31 * 24 * 1_080]);
    assert_eq!(amounts(&draft, "storage", "2027-04"), [24 * 1_080]);
    let all_of_it = net(api, "acme", january, time("2027-05-01T00:00:00Z")).await;
    assert_eq!(all + int(&draft, "total_micros"), all_of_it);
    engine.assert_verified();
}

/// The first end that is told of a lease is always taken: here after its month is closed, and for less than was billed.
async fn below_zero_is_carried_forward(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-27T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 4 * HOUR_S)]).await);
    engine.set_clock(start.plus_h(2)).await;
    api.accepted(&[busy("s", "l", engine.now(), 2)]).await;
    engine.set_clock(time("2026-03-02T00:00:00Z")).await;
    close(api, "2026-02").await;
    assert_eq!(int(&invoice(api, "acme", "2026-02").await, "total_micros"), 2 * BUSY);
    let end = api.end("acme", "l", Some(start.plus_h(1)), "stop").await;
    assert_eq!(end.0, 200, "{}", end.1);
    let march = invoice(api, "acme", "2026-03").await;
    assert_eq!((int(&march, "total_micros"), int(&march, "amount_due_cents")), (0, 0));
    let carried = |invoice: &Value| -> Vec<(String, i64)> {
        let lines = invoice["lines"].as_array().unwrap().iter();
        let lines = lines.filter(|line| line["resource"].as_str().unwrap().starts_with("carried"));
        lines.map(|line| (line["resource"].as_str().unwrap().to_owned(), int(line, "amount_micros"))).collect()
    };
    assert_eq!(carried(&march), [("carried_forward".to_owned(), BUSY)]);
    // April bills before March is closed, and after it: both begin with what March carries forward.
    engine.set_clock(time("2026-04-01T00:00:00Z")).await;
    made(api.admit("acme", "ci", &[with(lease("m", "s", 1, 1_024, 2 * HOUR_S), "kind", "wake")]).await);
    engine.set_clock(time("2026-04-01T02:00:00Z")).await;
    api.accepted(&[busy("s", "m", engine.now(), 2)]).await;
    for _ in 0..2 {
        let april = invoice(api, "acme", "2026-04").await;
        assert_eq!(carried(&april), [("carried_over".to_owned(), -BUSY)]);
        assert_eq!(int(&april, "total_micros"), BUSY);
        close(api, "2026-03").await;
    }
    engine.assert_verified();
}

async fn final_invoices_are_frozen(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-29T00:00:00Z")).await;
    let api = &engine.admin;
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    close(api, "2026-11").await;
    let before = dump(engine.database()).await;
    for table in ["invoices", "invoice_lines"] {
        for change in [format!("DELETE FROM {table}"), format!("UPDATE {table} SET month = month + 1")] {
            assert!(run_sql(engine.database(), &change).await.is_err(), "{change}");
        }
    }
    let line = "INSERT INTO invoice_lines (account_id, month, line, item, amount_micros) \
                SELECT account_id, month, 99, 'carried_over', 1 FROM invoices";
    assert!(run_sql(engine.database(), line).await.is_err());
    assert_eq!(dump(engine.database()).await, before);
}

async fn drafts_and_lists(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-09-30T00:00:00Z")).await;
    let api = &engine.admin;
    let reader = engine.customer("acme", "reader", true).await;
    let before = dump(engine.database()).await;
    for path in ["/v1/accounts/acme/invoices", "/v1/accounts/acme/invoices/2026-09"] {
        assert_eq!(done(reader.get(path).await), done(api.get(path).await));
    }
    assert_eq!(dump(engine.database()).await, before, "reading changes nothing");
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    // November has no usage and is not the current month.
    let months = async |path: &str| -> (Vec<String>, Option<String>) {
        let page = done(api.get(path).await);
        let months = page["items"].as_array().unwrap().iter().map(|item| item["month"].as_str().unwrap().to_owned());
        (months.collect(), page["next_cursor"].as_str().map(str::to_owned))
    };
    let (all, none) = months("/v1/accounts/acme/invoices").await;
    assert_eq!((all, none), (vec!["2026-09".to_owned(), "2026-12".to_owned()], None));
    close(api, "2026-11").await;
    let (first, cursor) = months("/v1/accounts/acme/invoices?limit=1").await;
    assert_eq!(first, ["2026-09"]);
    let (second, end) = months(&format!("/v1/accounts/acme/invoices?limit=1&cursor={}", cursor.unwrap())).await;
    assert_eq!((second, end), (vec!["2026-12".to_owned()], None));
    assert_eq!(close(api, "2026-10").await, json!({"month": "2026-10", "invoices": 0}));
    assert_eq!(close(api, "2026-09").await, json!({"month": "2026-09", "invoices": 1}));
    refused(reader.get("/v1/accounts/other/invoices").await, 404, "not_found");
}
