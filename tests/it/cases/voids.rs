//! Voids: a wrong sample counts no more, wherever it stands, before and after its month is closed.

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, Time, at_rest, done, int, lease, made, on_each_backend, refused, run_sql, sample,
    time, with,
};

on_each_backend!(
    a_voided_sample_is_as_if_it_had_never_been_sent,
    what_comes_after_a_void_counts_as_ever,
    a_void_of_a_closed_month_is_late_usage,
    storage_is_voided_with_its_report,
    voids_are_facts,
);

fn void(id: &str, lease: &str, at: Time) -> Value {
    json!({"id": id, "lease": lease, "at": at.to_string(), "reason": "the host's clock was broken"})
}

async fn voided(api: &Api, body: &Value) -> Value {
    made(api.post("/v1/accounts/acme/voids", body).await)
}

/// Usage and costs of a lease.
async fn bill(api: &Api, lease: &str) -> Value {
    let lease = api.lease("acme", lease).await;
    json!([lease["usage"], lease["list_micros"], lease["free_micros"], lease["net_micros"]])
}

/// Readings of a lease with uneven steps over three hours, some with memory.
fn readings(id: &str, start: Time) -> Vec<Value> {
    let steps = [(0, 5), (90, 60), (1_800, 900), (3_500, 1_000), (3_700, 1_300), (7_000, 2_000), (9_000, 5_500)];
    let row = |(index, (at, cpu)): (usize, (i64, i64))| {
        let row = sample("acme", id, id, start.plus_s(at), cpu * 1_000_000);
        if index % 3 == 1 { with(row, "memory_mib", 700 + at) } else { row }
    };
    steps.into_iter().enumerate().map(row).collect()
}

/// Of two equal leases one never gets a sample that the other gets and has voided: they cost the same, whichever it is,
/// whether they run, have ended, or have settled; and what they hold is the same.
async fn a_voided_sample_is_as_if_it_had_never_been_sent(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    for key in ["voided", "never"] {
        made(api.key("acme", key, None).await);
    }
    let count = readings("x", start).len();
    for key in ["voided", "never"] {
        let asked: Vec<Value> = (0..count)
            .map(|place| {
                let id = format!("{key}-{place}");
                lease(&id, &id, 1, 2_048, 3 * HOUR_S)
            })
            .collect();
        made(api.admit("acme", key, &asked).await);
    }
    engine.set_clock(start.plus_s(9_000)).await;
    for place in 0..count {
        let (all, mut some) = (readings(&format!("voided-{place}"), start), readings(&format!("never-{place}"), start));
        some.remove(place);
        api.accepted(&all).await;
        api.accepted(&some).await;
    }
    let at = |place: usize| time(readings("x", start)[place]["at"].as_str().unwrap());
    let compare = async |when: &str| {
        for place in 0..count {
            let (left, right) =
                (bill(api, &format!("voided-{place}")).await, bill(api, &format!("never-{place}")).await);
            assert_eq!(left, right, "{when}: sample {place}");
        }
        let held = [api.used_and_reserved("acme", "voided").await, api.used_and_reserved("acme", "never").await];
        assert_eq!(held[0], held[1], "{when}");
        engine.assert_verified();
    };
    for place in 0..3 {
        voided(api, &void(&format!("v-{place}"), &format!("voided-{place}"), at(place))).await;
    }
    voided(api, &void("v-6", "voided-6", at(6))).await;
    for key in ["voided", "never"] {
        done(api.end("acme", &format!("{key}-3"), Some(start.plus_s(8_000)), "stop").await);
        done(api.end("acme", &format!("{key}-4"), None, "pause").await);
    }
    voided(api, &void("v-3", "voided-3", at(3))).await;
    engine.set_clock(start.plus_h(4)).await;
    for place in 4..6 {
        voided(api, &void(&format!("v-{place}"), &format!("voided-{place}"), at(place))).await;
    }
    compare("each one voided").await;
    // The sample again is a duplicate, another one of its instant a conflict; both change nothing.
    for place in 0..count {
        let again = readings(&format!("voided-{place}"), start)[place].clone();
        let told = done(api.samples(std::slice::from_ref(&again)).await);
        assert_eq!(told, json!({"accepted": 0, "duplicates": 1, "rejected": []}));
        let other = with(again, "cpu_usage_usec", 7);
        assert_eq!(done(api.samples(&[other]).await)["rejected"][0]["code"], "conflict", "{place}");
    }
    compare("and sent again").await;
}

/// The latest reading, a spike in a later hour, is voided while the lease runs: what comes goes on from the one before,
/// over the hours that the spike had passed.
async fn what_comes_after_a_void_counts_as_ever(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    for id in ["voided", "never"] {
        made(api.admit("acme", "ci", &[lease(id, id, 2, 1_024, 6 * HOUR_S)]).await);
    }
    engine.set_clock(start.plus_h(5)).await;
    let row = |id: &str, at: i64, cpu: i64| sample("acme", id, id, start.plus_s(at), cpu * 1_000_000);
    api.accepted(&[row("voided", 600, 100), row("never", 600, 100)]).await;
    api.accepted(&[row("voided", 6_000, 9_000)]).await;
    voided(api, &void("spike", "voided", start.plus_s(6_000))).await;
    assert_eq!(bill(api, "voided").await, bill(api, "never").await);
    // Before it, after it, at first late and then in order; at last a higher counter than the spike's is no matter.
    for (at, cpu) in
        [(4_000, 300), (5_000, 350), (2_000, 200), (5_999, 400), (6_001, 401), (9_000, 800), (14_000, 9_100)]
    {
        for id in ["voided", "never"] {
            api.accepted(&[row(id, at, cpu)]).await;
        }
        assert_eq!(bill(api, "voided").await, bill(api, "never").await, "{at}");
    }
    engine.assert_verified();
    // Neighbours are judged without it: its counter was higher than those after it.
    assert_eq!(done(api.samples(&[row("voided", 6_000, 8_999)]).await)["rejected"][0]["code"], "conflict");
}

async fn a_void_of_a_closed_month_is_late_usage(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-28T20:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, HOUR_S)]).await);
    made(api.admit("acme", "ci", &[lease("m", "m", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    let half = start.plus_s(1_800);
    for id in ["l", "m"] {
        let first = sample("acme", id, id, half, 90_000_000);
        api.accepted(&[first, sample("acme", id, id, start.plus_h(1), 3_600_000_000)]).await;
    }
    // Before the month is closed it is not late at all.
    voided(api, &void("v-m", "m", start.plus_h(1))).await;
    done(api.post("/v1/months/2026-02/close", &json!({})).await);
    let path = "/v1/accounts/acme/invoices/2026-02";
    let february = api.raw("GET", path, &[], Vec::new()).await.body;
    engine.set_clock(time("2026-03-05T00:00:00Z")).await;
    voided(api, &void("v-l", "l", start.plus_h(1))).await;
    assert_eq!(api.raw("GET", path, &[], Vec::new()).await.body, february, "not a byte");
    assert_eq!(bill(api, "l").await, bill(api, "m").await);
    let draft = done(api.get("/v1/accounts/acme/invoices/2026-03").await);
    let lines: Vec<(&str, &str, i64)> = draft["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default();
            (text("resource"), text("month_of_use"), int(line, "amount_micros"))
        })
        .collect();
    // The lease's half hour, busy, is gone: 12,500 of CPU and 3,750 of memory.
    assert_eq!(lines, [("cpu", "2026-02", -12_500), ("memory", "2026-02", -3_750), ("carried_forward", "", 16_250)]);
    engine.set_clock(time("2026-04-01T00:00:00Z")).await;
    done(api.post("/v1/months/2026-03/close", &json!({})).await);
    engine.assert_verified();
}

async fn storage_is_voided_with_its_report(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    for id in ["voided", "never"] {
        made(api.admit("acme", "ci", &[lease(id, id, 1, 1_024, HOUR_S)]).await);
    }
    engine.set_clock(start.plus_h(40)).await;
    let disk = |id: &str| {
        let first = with(sample("acme", id, id, start.plus_s(1_800), 0), "storage_mib", 1_000);
        vec![first, at_rest("acme", id, start.plus_h(10), 3_000), at_rest("acme", id, start.plus_h(30), 2_000)]
    };
    api.accepted(&disk("voided")).await;
    api.accepted(&disk("never")).await;
    let wrong = at_rest("acme", "voided", start.plus_h(20), 900_000);
    let ahead = at_rest("acme", "voided", start.plus_h(39), 800_000);
    api.accepted(&[wrong.clone(), ahead.clone()]).await;
    let of = |id: &str, hours: i64| {
        let at = start.plus_h(hours).to_string();
        json!({"id": id, "sandbox": "voided", "at": at, "reason": "a disk of another machine"})
    };
    voided(api, &of("v-1", 39)).await;
    voided(api, &of("v-2", 20)).await;
    let storage = async |id: &str| api.sandbox("acme", id).await["month"]["usage"]["storage_mib_ms"].clone();
    assert_eq!(storage("voided").await, storage("never").await);
    for row in [&wrong, &ahead] {
        let told = done(api.samples(std::slice::from_ref(row)).await);
        assert_eq!((int(&told, "duplicates"), int(&told, "accepted")), (1, 0));
        let other = with(row.clone(), "storage_mib", 5);
        assert_eq!(done(api.samples(&[other]).await)["rejected"][0]["code"], "conflict");
    }
    // A reading's report goes with the reading; what comes next counts, between and after.
    voided(api, &void("v-3", "voided", start.plus_s(1_800))).await;
    let without = |id: &str| [at_rest("acme", id, start.plus_h(35), 7_000), at_rest("acme", id, start.plus_h(40), 0)];
    api.accepted(&without("voided")).await;
    api.accepted(&without("never")).await;
    let early: i64 = 1_000 * (10 * 3_600_000 - 1_800_000);
    let count = |value: Value| value.as_str().unwrap().parse::<i64>().unwrap();
    assert_eq!(count(storage("voided").await), count(storage("never").await) - early);
    engine.assert_verified();
}

async fn voids_are_facts(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.admit("acme", "ci", &[lease("l", "l", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(start.plus_h(2)).await;
    api.accepted(&[sample("acme", "l", "l", start.plus_h(1), 0)]).await;
    let (path, body) = ("/v1/accounts/acme/voids", void("v", "l", start.plus_h(1)));
    let first = voided(api, &body).await;
    assert_eq!((first["sandbox"].as_str(), first["lease"].as_str()), (Some("l"), Some("l")));
    assert_eq!(api.post(path, &body).await, (200, first.clone()));
    refused(api.post(path, &with(body.clone(), "reason", "another")).await, 409, "conflict");
    refused(api.post(path, &with(body.clone(), "id", "w")).await, 409, "conflict");
    for (member, value) in [("at", start.plus_s(1).to_string()), ("lease", "nobody".to_owned())] {
        refused(api.post(path, &with(with(body.clone(), "id", "x"), member, value)).await, 404, "not_found");
    }
    for (member, value) in
        [("reason", json!(" ")), ("reason", Value::Null), ("at", json!("2026-11-10")), ("sandbox", json!("l"))]
    {
        let answer = api.post(path, &with(body.clone(), member, value)).await;
        assert_eq!(refused(answer, 422, "invalid_request")["pointer"], format!("/{member}"));
    }
    assert_eq!(done(api.get(path).await), json!({"items": [first]}));
    for change in ["UPDATE voids SET reason = 'x'", "DELETE FROM voids"] {
        assert!(run_sql(engine.database(), change).await.is_err());
    }
    engine.assert_verified();
    // A void that is not told of is found: the evidence says other usage than what is kept.
    let forged =
        "INSERT INTO voids (account_id, sandbox_id, life, lease_id, at, void_id, reason, voided_at, open_month)
        SELECT account_id, sandbox_id, life, lease_id, last_at, 'forged', 'x', 0, 0 FROM leases
        WHERE account_id = 'acme' AND lease_id <> 'l' AND last_at IS NOT NULL";
    run_sql(engine.database(), forged).await.unwrap();
    assert!(!engine.verify(&[]).0);
}
