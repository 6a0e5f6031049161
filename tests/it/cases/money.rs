//! Exact money: nothing is lost by rounding, order, overflow, a new price, or a key that is gone.

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_once, done, int, lease, made, on_each_backend, quantity, refused,
    rejections, sample, time, with,
};

on_each_backend!(
    m1_no_rounding_of_each_record,
    m2_any_order_and_any_number_of_workers,
    m3_absurd_input_of_one_account,
    m3_the_largest_bill,
    m3_a_quantity_beyond_64_bits,
    m3_a_cost_that_no_amount_can_say,
    m7_a_price_change_inside_a_lease,
    m7_a_card_of_an_account,
    m8_a_deleted_key,
    m9_nothing_is_zero,
);

fn midnight() -> Time {
    time("2026-11-10T00:00:00Z")
}

/// 86,400 samples, a second apart.
async fn m1_no_rounding_of_each_record(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 128, 24 * HOUR_S)]).await);
    engine.set_clock(midnight().plus_h(24)).await;
    let seconds: Vec<i64> = (1..=86_400).collect();
    for batch in seconds.chunks(9_600) {
        let batch: Vec<Value> =
            batch.iter().map(|second| sample("acme", "s", "l", midnight().plus_s(*second), 0)).collect();
        api.accepted(&batch).await;
    }
    assert_eq!(engine.list("l").await, 52_500);
    let costs = api.costs("acme", midnight(), midnight().plus_h(24), "granularity=hour&group_by=resource").await;
    let rows = costs["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 72);
    assert_eq!(rows.iter().map(|row| int(row, "list_micros")).sum::<i64>(), 52_500);
}

/// 3,600 samples of 1 s instead of 3,600,000 of 1 ms: an hour at 1,000 millicores, in an order of no meaning.
async fn m2_any_order_and_any_number_of_workers(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    let lanes = [1_usize, 4, 16];
    for lane in lanes {
        let id = format!("l-{lane}");
        made(api.admit("acme", "ci", &[lease(&id, &id, 2, 1_024, HOUR_S)]).await);
    }
    engine.set_clock(midnight().plus_h(1)).await;
    for lane in lanes {
        let id = format!("l-{lane}");
        // 1,009 has no factor in common with 3,600, so this passes through every second once.
        let seconds: Vec<i64> = (0..3_600).map(|index| index * 1_009 % 3_600 + 1).collect();
        let rows: Vec<Value> = seconds
            .iter()
            .map(|second| sample("acme", &id, &id, midnight().plus_s(*second), second * 1_000_000))
            .collect();
        let batches: Vec<Vec<Value>> = rows.chunks(3_600 / lane).map(<[Value]>::to_vec).collect();
        at_once(lane, |worker| {
            let (api, batch) = (api.clone(), batches[worker].clone());
            async move { api.accepted(&batch).await }
        })
        .await;
        let body = api.lease("acme", &id).await;
        assert_eq!(quantity(&body, "cpu_us"), 3_600_000_000, "25,000 microdollars with {lane} workers");
        assert_eq!(int(&body, "list_micros"), 25_000 + 7_500, "{lane} workers");
    }
}

async fn m3_absurd_input_of_one_account(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    made(api.account("other", true).await);
    made(api.key("other", "ci", None).await);
    for account in ["acme", "other"] {
        made(api.admit(account, "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    }
    engine.set_clock(midnight().plus_h(1)).await;
    let at = |account: &str| sample(account, "s", "l", engine.now(), 3_600_000_000);
    let rows = [
        with(at("acme"), "memory_mib", u64::MAX),
        with(at("acme"), "cpu_usage_usec", 1_u64 << 63),
        with(at("acme"), "storage_mib", 9_007_199_254_740_991_u64),
        with(at("acme"), "epoch", 1_u64 << 53),
        at("other"),
    ];
    let body = done(api.samples(&rows).await);
    assert_eq!(rejections(&body), [0, 1, 2, 3].map(|index| (index, "invalid_sample".to_owned())));
    assert_eq!(int(&body, "accepted"), 1);
    assert_eq!(int(&done(api.get("/v1/accounts/other/leases/l").await), "list_micros"), 32_500);
    assert_eq!(engine.list("l").await, 0);
    for (member, value) in [
        ("vcpus", json!(0)),
        ("vcpus", json!(1_025)),
        ("memory_mib", json!(0)),
        ("memory_mib", json!(64 * 1_024 * 1_024 + 1)),
        ("memory_mib", json!(u64::MAX)),
        ("timeout_seconds", json!(0)),
        ("timeout_seconds", json!(31 * 86_400 + 1)),
    ] {
        let ask = with(lease("m", "m", 1, 1_024, HOUR_S), member, value);
        crate::harness::invalid(api.admit("acme", "ci", &[ask]).await, &format!("/leases/0/{member}"));
    }
}

/// Ten leases of 96 vCPU and one of the largest shape, 744 h, busy.
async fn m3_the_largest_bill(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-10-01T00:00:00Z")).await;
    let api = &engine.admin;
    let mut leases: Vec<Value> =
        (0..10).map(|index| lease(&format!("l-{index}"), &format!("l-{index}"), 96, 1_024, 744 * HOUR_S)).collect();
    leases.push(lease("max", "max", 1_024, 64 * 1_024 * 1_024, 744 * HOUR_S));
    made(api.admit("acme", "ci", &leases).await);
    let (start, end) = (engine.now(), engine.now().plus_h(744));
    engine.set_clock(end).await;
    let busy = |id: &str, vcpus: i64| sample("acme", id, id, end, vcpus * 744 * 3_600_000_000);
    let mut rows: Vec<Value> = (0..10).map(|index| busy(&format!("l-{index}"), 96)).collect();
    rows.push(busy("max", 1_024));
    api.accepted(&rows).await;
    // CPU: 96 x 744 x 25,000 = 1,785,600,000; memory: 744 x 7,500 = 5,580,000.
    assert_eq!(engine.list("l-0").await, 1_785_600_000 + 5_580_000);
    // CPU: 1,024 x 744 x 25,000; memory: 65,536 x 744 x 7,500.
    assert_eq!(engine.list("max").await, 19_046_400_000 + 365_690_880_000);
    let costs = api.costs("acme", start, end, "granularity=total&group_by=resource").await;
    let shown: Vec<i64> = costs["rows"].as_array().unwrap().iter().map(|row| int(row, "list_micros")).collect();
    assert_eq!(shown, [17_856_000_000 + 19_046_400_000, 55_800_000 + 365_690_880_000, 0]);
}

/// 52 leases of 64 TiB for a month pass 2^63 MiB-ms in one line of an invoice.
async fn m3_a_quantity_beyond_64_bits(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-12-01T00:00:00Z")).await;
    let api = &engine.admin;
    made(api.account("small", true).await);
    made(api.key("small", "ci", None).await);
    let names: Vec<String> = (0..52).map(|index| format!("l-{index}")).collect();
    let leases: Vec<Value> = names.iter().map(|id| lease(id, id, 1, 64 * 1_024 * 1_024, 744 * HOUR_S)).collect();
    made(api.admit("acme", "ci", &leases).await);
    made(api.admit("small", "ci", &[lease("s", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2027-01-01T00:00:00Z")).await;
    let end = engine.now();
    api.accepted(&names.iter().map(|id| sample("acme", id, id, end, 0)).collect::<Vec<_>>()).await;
    api.accepted(&[sample("small", "s", "s", time("2026-12-01T01:00:00Z"), 0)]).await;
    done(api.post("/v1/months/2026-12/close", &json!({})).await);
    let invoice = |account: &str| format!("/v1/accounts/{account}/invoices/2026-12");
    assert_eq!(done(api.get(&invoice("small")).await)["status"], "final");
    let large = done(api.get(&invoice("acme")).await);
    let memory = large["lines"].as_array().unwrap().iter().find(|line| line["resource"] == "memory").unwrap();
    // 52 x 65,536 GiB x 744 h, at 7,500 microdollars.
    assert_eq!(memory["quantity"], "2535456768.000000000000");
    assert_eq!(int(memory, "amount_micros"), 52 * 65_536 * 744 * 7_500);
    engine.assert_verified();
}

async fn m3_a_cost_that_no_amount_can_say(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight().plus_h(-2)).await;
    let api = &engine.admin;
    let dear = json!({"id": "dear", "effective_on": "2026-11-10", "cpu_micros_per_vcpu_hour": 1_000_000_000,
                      "memory_micros_per_gib_hour": 1_000_000_000, "storage_micros_per_gib_hour": 108,
                      "cpu_floor_millicores": 50, "account": "acme"});
    made(api.post("/v1/rate-cards", &dear).await);
    engine.set_clock(midnight()).await;
    let before = engine.seen("acme").await;
    let ask = [lease("l", "s", 1_024, 64 * 1_024 * 1_024, 744 * HOUR_S)];
    refused(api.admit("acme", "ci", &ask).await, 422, "invalid_request");
    assert_eq!(engine.seen("acme").await, before, "nothing was admitted");
}

/// List costs of the two days around midnight.
async fn two_days(api: &Api, account: &str) -> Vec<i64> {
    let costs =
        api.costs(account, midnight().plus_h(-24), midnight().plus_h(24), "granularity=day&group_by=none").await;
    let days: Vec<i64> = costs["rows"].as_array().unwrap().iter().map(|row| int(row, "list_micros")).collect();
    assert_eq!(days.iter().sum::<i64>(), int(&costs["total"], "list_micros"));
    days
}

/// A rate card whose CPU is dearer than the list's.
fn card(id: &str, day: Time, cpu: i64, account: Option<&str>) -> Value {
    json!({"id": id, "effective_on": day.day(), "cpu_micros_per_vcpu_hour": cpu, "memory_micros_per_gib_hour": 7_500,
           "storage_micros_per_gib_hour": 108, "cpu_floor_millicores": 50, "account": account})
}

async fn m7_a_price_change_inside_a_lease(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight().plus_h(-2)).await;
    let api = &engine.admin;
    made(api.post("/v1/rate-cards", &card("dearer", midnight(), 30_000, None)).await);
    refused(api.post("/v1/rate-cards", &card("second", midnight(), 31_000, None)).await, 409, "conflict");
    made(api.account("late", true).await);
    made(api.key("late", "ci", None).await);
    engine.set_clock(midnight().plus_h(-1)).await;
    for account in ["acme", "late"] {
        let body = made(api.admit(account, "ci", &[lease("l", "s", 1, 1_024, 2 * HOUR_S)]).await);
        assert_eq!(int(&body["leases"][0], "worst_case_micros"), 70_000, "each day at its own card");
    }
    let at = |account: &str, hour: i64| sample(account, "s", "l", midnight().plus_h(hour), (hour + 1) * 3_600_000_000);
    engine.set_clock(midnight()).await;
    api.accepted(&[at("acme", 0)]).await;
    engine.set_clock(midnight().plus_h(1)).await;
    api.accepted(&[at("acme", 1), at("late", 1), at("late", 0)]).await;
    for account in ["acme", "late"] {
        assert_eq!(two_days(api, account).await, [32_500, 37_500], "{account}");
    }
    // What has taken effect is immutable.
    refused(api.delete("/v1/rate-cards/dearer").await, 409, "conflict");
    let today = card("today", midnight(), 1, Some("acme"));
    let (status, body) = api.post("/v1/rate-cards", &today).await;
    assert!([409, 422].contains(&status), "{status} {body}");
}

async fn m7_a_card_of_an_account(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight().plus_h(-25)).await;
    let api = &engine.admin;
    let yesterday = midnight().plus_h(-24);
    made(api.post("/v1/rate-cards", &card("own", yesterday, 50_000, Some("acme"))).await);
    made(api.post("/v1/rate-cards", &card("default", yesterday, 30_000, None)).await);
    let back = json!({"effective_on": midnight().day(), "card": null});
    let (status, body) = api.post("/v1/accounts/acme/rate-card", &back).await;
    assert!([200, 201].contains(&status), "{status} {body}");
    engine.set_clock(midnight().plus_h(-1)).await;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 2 * HOUR_S)]).await);
    engine.set_clock(midnight().plus_h(1)).await;
    api.accepted(&[sample("acme", "s", "l", engine.now(), 7_200_000_000)]).await;
    assert_eq!(two_days(api, "acme").await, [57_500, 37_500]);
}

async fn m8_a_deleted_key(backend: Backend) {
    let engine = Engine::with_payer(backend, midnight()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 20 * HOUR_S)]).await);
    let busy = |hours: i64| sample("acme", "s", "l", midnight().plus_h(hours), hours * 3_600_000_000);
    engine.set_clock(midnight().plus_h(10)).await;
    api.accepted(&[busy(10)]).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (325_000, 325_000));
    assert_eq!(api.delete("/v1/accounts/acme/keys/ci").await.0, 204);
    refused(api.admit("acme", "ci", &[lease("m", "m", 1, 1, 1)]).await, 403, "key_revoked");
    refused(api.extend("acme", "l", "x", 1).await, 403, "key_revoked");
    engine.set_clock(midnight().plus_h(11)).await;
    api.accepted(&[busy(11)]).await;
    let costs = api.costs("acme", midnight(), midnight().plus_h(24), "granularity=total&group_by=key").await;
    assert_eq!((&costs["rows"][0]["key"], int(&costs["rows"][0], "net_micros")), (&json!("ci"), 357_500));
    assert_eq!(api.used_and_reserved("acme", "ci").await.0, 357_500, "its usage stays");
}

/// A key without usage, a lease of no length, a month before the account: zeros, not nothing and not NaN.
async fn m9_nothing_is_zero(backend: Backend) {
    let engine = Engine::with_customer(backend, midnight()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    done(api.end("acme", "l", None, "cancel").await);
    let body = api.lease("acme", "l").await;
    assert_eq!(["list_micros", "free_micros", "net_micros"].map(|name| int(&body, name)), [0, 0, 0]);
    let empty = json!({"run_ms": "0", "cpu_used_us": "0", "cpu_us": "0", "memory_mib_ms": "0", "storage_mib_ms": "0"});
    assert_eq!(body["usage"], empty);
    let (from, to) = (time("2025-01-01T00:00:00Z"), time("2025-02-01T00:00:00Z"));
    let costs = api.costs("acme", from, to, "granularity=month&group_by=none").await;
    assert_eq!(costs["total"], json!({"usage": empty, "list_micros": 0, "free_micros": 0, "net_micros": 0}));
    assert_eq!(costs["rows"].as_array().unwrap().len(), 1);
    let balance = api.balance("acme").await;
    assert_eq!(int(&balance["month"], "forecast_micros"), 0);
}
