//! Promotional credit and tax: what they pay and add, on drafts, balances and final invoices, and at the gate.

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_once, at_rest, done, int, lease, made, on_each_backend, refused, run_sql,
    sample, time, with,
};

on_each_backend!(
    f1_credit_that_expires_at_midnight_pays_until_then,
    f2_credit_that_lapsed_before_the_invoice_pays_for_its_days,
    f3_credit_is_granted_once,
    credit_pays_for_everything_after_free_time,
    credit_lets_an_account_without_a_card_start,
    a1_concurrent_admissions_on_credit,
    credit_that_paid_too_much_is_given_back,
    m6_credit_pays_late_usage_of_its_days,
    tax_is_shown_and_rounded_once,
    draws_are_facts_that_are_verified,
);

/// An hour of 1 vCPU, 1 GiB, busy.
const BUSY: i64 = 32_500;

async fn credit(api: &Api, id: &str, micros: i64, starts: &str, expires: Option<&str>) -> Value {
    let body = json!({"id": id, "credit_micros": micros, "starts_on": starts, "expires_on": expires});
    made(api.post("/v1/accounts/acme/grants", &body).await)
}

async fn invoice(api: &Api, month: &str) -> Value {
    let invoice = done(api.get(&format!("/v1/accounts/acme/invoices/{month}")).await);
    let sum: i64 = invoice["lines"].as_array().unwrap().iter().map(|line| int(line, "amount_micros")).sum();
    assert_eq!(sum, int(&invoice, "total_micros"), "{invoice}");
    assert_eq!(int(&invoice, "amount_due_cents"), (sum + 5_000) / 10_000, "{invoice}");
    invoice
}

/// Amounts of lines of a resource.
fn amounts(invoice: &Value, resource: &str) -> Vec<i64> {
    let lines = invoice["lines"].as_array().unwrap().iter().filter(|line| line["resource"] == resource);
    lines.map(|line| int(line, "amount_micros")).collect()
}

async fn close(api: &Api, month: &str) {
    done(api.post(&format!("/v1/months/{month}/close"), &json!({})).await);
}

/// Granted, used, expired and remaining credit.
async fn standing(api: &Api) -> [i64; 4] {
    let credit = api.balance("acme").await["credit"].clone();
    ["granted_micros", "used_micros", "expired_micros", "remaining_micros"].map(|name| int(&credit, name))
}

/// A sample at the end of so many busy hours of one vCPU.
fn busy(id: &str, at: Time, hours: i64) -> Value {
    sample("acme", id, id, at, hours * 3_600_000_000)
}

async fn f1_credit_that_expires_at_midnight_pays_until_then(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T23:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    credit(api, "promo", 1_000_000, "2026-11-01", Some("2026-11-11")).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, 2 * HOUR_S)]).await);
    engine.set_clock(start.plus_h(2)).await;
    api.accepted(&[busy("l", engine.now(), 2)]).await;
    let draft = invoice(api, "2026-11").await;
    assert_eq!((amounts(&draft, "credit"), int(&draft, "total_micros")), (vec![-BUSY], BUSY));
    assert_eq!(draft["credit_draws"], json!([{"day": "2026-11-10", "grant": "promo", "amount_micros": BUSY}]));
    assert_eq!(standing(api).await, [1_000_000, BUSY, 1_000_000 - BUSY, 0]);
    assert_eq!(int(&api.balance("acme").await["month"], "credit_micros"), BUSY);
}

async fn f2_credit_that_lapsed_before_the_invoice_pays_for_its_days(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-18T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    credit(api, "promo", 10 * BUSY, "2026-02-01", Some("2026-02-20")).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, 4 * HOUR_S)]).await);
    engine.set_clock(time("2026-02-25T00:00:00Z")).await;
    api.accepted(&[busy("l", start.plus_h(4), 4)]).await;
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    let draft = invoice(api, "2026-02").await;
    close(api, "2026-02").await;
    let made = invoice(api, "2026-02").await;
    assert_eq!((amounts(&made, "credit"), int(&made, "total_micros")), (vec![-4 * BUSY], 0));
    assert_eq!(made["lines"], draft["lines"]);
    assert_eq!(standing(api).await, [10 * BUSY, 4 * BUSY, 6 * BUSY, 0]);
    let grants = done(api.get("/v1/accounts/acme/grants").await);
    let promo = grants["items"].as_array().unwrap().iter().find(|grant| grant["id"] == "promo").unwrap();
    assert_eq!((int(promo, "credit_micros"), int(promo, "credit_used_micros")), (10 * BUSY, 4 * BUSY));
    engine.assert_verified();
}

async fn f3_credit_is_granted_once(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let api = &engine.admin;
    let first = credit(api, "promo", 5, "2026-11-01", None).await;
    let body = json!({"id": "promo", "credit_micros": 5, "starts_on": "2026-11-01"});
    for _ in 0..4 {
        assert_eq!(api.post("/v1/accounts/acme/grants", &body).await, (200, first.clone()));
    }
    assert_eq!(standing(api).await, [5, 0, 0, 5]);
    let other = |field: &str, value: Value| with(body.clone(), field, value);
    refused(api.post("/v1/accounts/acme/grants", &other("credit_micros", json!(6))).await, 409, "conflict");
    let hours = json!({"id": "promo", "sandbox_hours": 5});
    refused(api.post("/v1/accounts/acme/grants", &hours).await, 409, "conflict");
    made(api.post("/v1/accounts/acme/grants", &json!({"id": "hours", "sandbox_hours": 5})).await);
    refused(api.post("/v1/accounts/acme/grants", &other("id", json!("hours"))).await, 409, "conflict");
    for bad in [json!(0), json!(-1), json!(1.5), json!(1_000_000_000_001_i64), Value::Null] {
        let body = with(json!({"id": "bad"}), "credit_micros", bad);
        assert_eq!(
            refused(api.post("/v1/accounts/acme/grants", &body).await, 422, "invalid_request")["pointer"],
            "/credit_micros"
        );
    }
    let both = json!({"id": "bad", "credit_micros": 1, "sandbox_hours": 1});
    refused(api.post("/v1/accounts/acme/grants", &both).await, 422, "invalid_request");
    refused(api.post("/v1/accounts/nobody/grants", &body).await, 404, "not_found");
    let page = done(api.get("/v1/accounts/acme/grants?limit=2").await);
    let ids = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|grant| grant["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&page), ["hours", "promo"]);
    let next = done(
        api.get(&format!("/v1/accounts/acme/grants?limit=2&cursor={}", page["next_cursor"].as_str().unwrap())).await,
    );
    assert_eq!(ids(&next), ["welcome"]);
    assert!(run_sql(engine.database(), "UPDATE credits SET granted_micros = 7").await.is_err());
    assert!(run_sql(engine.database(), "DELETE FROM credits").await.is_err());
}

async fn credit_pays_for_everything_after_free_time(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.post("/v1/accounts/acme/grants", &json!({"id": "hour", "sandbox_hours": 1})).await);
    // The payer's welcome hours were used up in this month.
    let welcome: i64 = amounts(&invoice(api, "2026-11").await, "free_hours").iter().sum();
    credit(api, "late", 1_000_000, "2026-11-01", None).await;
    credit(api, "soon", 20_000, "2026-11-01", Some("2026-12-01")).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, 2 * HOUR_S)]).await);
    engine.set_clock(start.plus_h(24)).await;
    // Two hours, one of them free; then 10 GiB at rest for 22 hours: 23,760.
    api.accepted(&[with(busy("l", start.plus_h(2), 2), "storage_mib", 10_240)]).await;
    api.accepted(&[at_rest("acme", "l", start.plus_h(24), 0)]).await;
    let draft = invoice(api, "2026-11").await;
    assert_eq!(amounts(&draft, "free_hours"), [welcome - BUSY]);
    let credits: Vec<(&str, i64)> = draft["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["resource"] == "credit")
        .map(|line| (line["grant"].as_str().unwrap(), int(line, "amount_micros")))
        .collect();
    assert_eq!(credits, [("soon", -20_000), ("late", -(BUSY + 23_760 - 20_000))]);
    assert_eq!((int(&draft, "credit_micros"), int(&draft, "total_micros")), (BUSY + 23_760, 0));
    // Usage agrees with the cost API, which knows no credit.
    let costs = api
        .costs("acme", time("2026-11-01T00:00:00Z"), time("2026-12-01T00:00:00Z"), "granularity=total&group_by=none")
        .await;
    let total = &costs["total"];
    assert_eq!(
        [int(&draft, "list_micros"), int(&draft, "free_micros")],
        [int(total, "list_micros"), int(total, "free_micros")]
    );
    let (csv, html) = (".csv", ".html");
    for end in [csv, html] {
        let raw = api.raw("GET", &format!("/v1/accounts/acme/invoices/2026-11{end}"), &[], Vec::new()).await;
        assert!(String::from_utf8(raw.body).unwrap().contains("-0.020000"));
    }
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    close(api, "2026-11").await;
    engine.assert_verified();
}

async fn credit_lets_an_account_without_a_card_start(backend: Backend) {
    let engine = Engine::start(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.account("acme", false).await);
    made(api.key("acme", "ci", None).await);
    let big = |id: &str, hours: i64| lease(id, id, 16, 16_384, hours * HOUR_S);
    refused(api.admit("acme", "ci", &[big("l", 1)]).await, 402, "card_required");
    // 16 vCPU, 16 GiB: 520,000 an hour at worst. Credit for two of them.
    credit(api, "promo", 1_040_000, "2026-11-01", Some("2026-11-12")).await;
    let body = refused(api.admit("acme", "ci", &[big("l", 3)]).await, 402, "credit_exhausted");
    assert_eq!((int(&body, "needed_micros"), int(&body, "available_micros")), (1_560_000, 1_040_000));
    assert_eq!(body["lease"], "l");
    made(api.admit("acme", "ci", &[big("l", 1)]).await);
    refused(api.admit("acme", "ci", &[big("m", 1), big("n", 1)]).await, 402, "credit_exhausted");
    made(api.admit("acme", "ci", &[big("m", 1)]).await);
    refused(api.extend("acme", "m", "x", 1).await, 402, "credit_exhausted");
    // What free time covers is admitted all the same.
    made(api.admit("acme", "ci", &[lease("small", "small", 1, 1_024, 20 * HOUR_S)]).await);
    // Idle, they give most of it back; the welcome hours pay what they used.
    engine.set_clock(start.plus_h(1)).await;
    api.accepted(&[busy("l", engine.now(), 0), busy("m", engine.now(), 0)]).await;
    made(api.admit("acme", "ci", &[big("n", 2)]).await);
    done(api.end("acme", "n", None, "cancel").await);
    // It pays on its days only.
    engine.set_clock(time("2026-11-11T23:00:00Z")).await;
    let body = refused(api.admit("acme", "ci", &[big("o", 2)]).await, 402, "credit_exhausted");
    assert_eq!((int(&body, "needed_micros"), int(&body, "available_micros")), (1_040_000, 520_000));
    engine.set_clock(time("2026-11-12T01:00:00Z")).await;
    refused(api.admit("acme", "ci", &[big("o", 1)]).await, 402, "card_required");
    engine.assert_verified();
}

/// Credit for five at worst: of twenty at once through two engines exactly five start, and so it is bit for bit when
/// the month closes meanwhile.
async fn a1_concurrent_admissions_on_credit(backend: Backend) {
    let engine = Engine::start(backend, time("2026-11-30T22:00:00Z")).await;
    let api = &engine.admin;
    made(api.account("acme", false).await);
    made(api.key("acme", "ci", None).await);
    // 16 vCPU, 16 GiB: beyond the free shape, 520,000 an hour at worst.
    let big = |id: &str| lease(id, id, 16, 16_384, HOUR_S);
    credit(api, "promo", 6 * 520_000 + 400_000, "2026-11-01", None).await;
    // One runs busy in November: its welcome hour pays.
    made(api.admit("acme", "ci", &[big("first")]).await);
    engine.set_clock(time("2026-11-30T23:00:00Z")).await;
    api.accepted(&[busy("first", engine.now(), 16)]).await;
    // Storage is not free: 10 TiB for half an hour take 552,960.
    api.accepted(&[at_rest("acme", "first", time("2026-11-30T23:00:00Z"), 10_485_760)]).await;
    engine.set_clock(time("2026-11-30T23:30:00Z")).await;
    api.accepted(&[at_rest("acme", "first", engine.now(), 0)]).await;
    engine.set_clock(time("2026-12-01T01:00:00Z")).await;
    let (second, _process) = engine.beside();
    let told = at_once(21, |caller| {
        let api = if caller % 2 == 0 { api.clone() } else { second.clone() };
        let asked = big(&format!("l-{caller}"));
        async move {
            if caller == 7 {
                close(&api, "2026-11").await;
                return 0;
            }
            let (status, body) = api.admit("acme", "ci", &[asked]).await;
            assert!(status == 201 || body["code"] == "credit_exhausted", "{body}");
            status
        }
    })
    .await;
    assert_eq!(told.iter().filter(|status| **status == 201).count(), 5, "{told:?}");
    engine.assert_verified();
}

/// A busy hour is paid by credit; then its end is told to have been half an hour earlier, after the month is closed.
async fn credit_that_paid_too_much_is_given_back(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-10-31T22:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    credit(api, "promo", BUSY, "2026-10-01", Some("2026-12-01")).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-11-02T00:00:00Z")).await;
    api.accepted(&[busy("l", start.plus_h(1), 1)]).await;
    close(api, "2026-10").await;
    assert_eq!(amounts(&invoice(api, "2026-10").await, "credit"), [-BUSY]);
    assert_eq!(standing(api).await, [BUSY, BUSY, 0, 0]);
    // The first end of a lease is always taken.
    done(api.end("acme", "l", Some(start.plus_s(1_800)), "stop").await);
    let draft = invoice(api, "2026-11").await;
    assert_eq!((amounts(&draft, "cpu"), amounts(&draft, "credit")), (vec![-12_500], vec![BUSY / 2]));
    assert_eq!((int(&draft, "total_micros"), amounts(&draft, "carried_forward")), (0, vec![]));
    assert_eq!(standing(api).await, [BUSY, BUSY / 2, 0, BUSY / 2]);
    // What came back pays for other usage of its days.
    made(api.admit("acme", "ci", &[lease("m", "m", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    api.accepted(&[busy("m", time("2026-11-02T01:00:00Z"), 1)]).await;
    close(api, "2026-11").await;
    let november = invoice(api, "2026-11").await;
    assert_eq!((int(&november, "total_micros"), int(&november, "credit_micros")), (BUSY / 2, 0));
    let draws: Vec<(&str, i64)> = november["credit_draws"]
        .as_array()
        .unwrap()
        .iter()
        .map(|draw| (draw["day"].as_str().unwrap(), int(draw, "amount_micros")))
        .collect();
    assert_eq!(draws, [("2026-10-31", -BUSY / 2), ("2026-11-02", BUSY / 2)]);
    assert_eq!(standing(api).await, [BUSY, BUSY, 0, 0]);
    engine.assert_verified();
}

async fn m6_credit_pays_late_usage_of_its_days(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-28T20:00:00Z")).await;
    let api = &engine.admin;
    credit(api, "february", 1_000_000, "2026-02-01", Some("2026-03-01")).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    close(api, "2026-02").await;
    let before = invoice(api, "2026-02").await;
    api.accepted(&[busy("l", time("2026-02-28T21:00:00Z"), 1)]).await;
    assert_eq!(invoice(api, "2026-02").await, before);
    let draft = invoice(api, "2026-03").await;
    assert_eq!((amounts(&draft, "credit"), int(&draft, "total_micros")), (vec![-BUSY], 0));
    engine.set_clock(time("2026-04-01T00:00:00Z")).await;
    close(api, "2026-03").await;
    assert_eq!(invoice(api, "2026-03").await["lines"], draft["lines"]);
    engine.assert_verified();
}

async fn tax_is_shown_and_rounded_once(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    let account = done(api.patch("/v1/accounts/acme", &json!({"tax_rate_bps": 1_933})).await);
    assert_eq!(int(&account, "tax_rate_bps"), 1_933);
    credit(api, "promo", 1, "2026-11-01", None).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(start.plus_h(1)).await;
    api.accepted(&[busy("l", engine.now(), 1)]).await;
    // 32,499 at 19.33 %: 6,282.06 microdollars.
    let draft = invoice(api, "2026-11").await;
    let tax = draft["lines"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        tax,
        json!({"resource": "tax", "tax_rate_bps": 1_933, "taxable_micros": 32_499, "amount_micros": 6_282})
    );
    assert_eq!((int(&draft, "tax_micros"), int(&draft, "total_micros")), (6_282, 38_781));
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    close(api, "2026-11").await;
    // The rate of the closing stays, whatever comes.
    done(api.patch("/v1/accounts/acme", &json!({"tax_rate_bps": null})).await);
    assert_eq!(invoice(api, "2026-11").await["lines"], draft["lines"]);
    assert!(amounts(&invoice(api, "2026-12").await, "tax").is_empty());
    for bad in [json!(-1), json!(10_001), json!(1.5), json!("19")] {
        let answer = api.patch("/v1/accounts/acme", &json!({"tax_rate_bps": bad})).await;
        assert_eq!(refused(answer, 422, "invalid_request")["pointer"], "/tax_rate_bps");
    }
    made(api.post("/v1/accounts", &json!({"id": "taxed", "tax_rate_bps": 700})).await);
    assert_eq!(int(&done(api.get("/v1/accounts/taxed").await), "tax_rate_bps"), 700);
    engine.assert_verified();
}

async fn draws_are_facts_that_are_verified(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    credit(api, "promo", 10_000, "2026-11-01", None).await;
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(start.plus_h(1)).await;
    api.accepted(&[busy("l", engine.now(), 1)]).await;
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    close(api, "2026-11").await;
    engine.assert_verified();
    // Credit that is granted afterwards did not have to pay.
    engine.set_clock(time("2026-12-02T00:00:00Z")).await;
    credit(api, "more", 10_000, "2026-11-01", None).await;
    engine.assert_verified();
    for change in [
        "UPDATE credit_draws SET drawn_micros = 1",
        "DELETE FROM credit_draws",
        "INSERT INTO credit_draws (account_id, month, seq, day, credit_id, drawn_micros) SELECT account_id, month, 9, day, credit_id, 1 FROM credit_draws",
    ] {
        assert!(run_sql(engine.database(), change).await.is_err(), "{change}");
    }
    // A draw in a month without an invoice of its own is nobody's fact.
    let forged = "INSERT INTO credit_draws (account_id, month, seq, day, credit_id, drawn_micros)
        SELECT account_id, month + 5, 0, day, credit_id, 7 FROM credit_draws";
    run_sql(engine.database(), forged).await.unwrap();
    let (agrees, text) = engine.verify(&[]);
    assert!(!agrees && text.contains("drawn_micros"), "{text}");
}
