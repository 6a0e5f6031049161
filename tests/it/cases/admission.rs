//! The gate under concurrency, retries and lost ends: never one over the limit, never a hold that leaks.

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, Time, at_once, done, int, made, on_each_backend, refused, sample, shape, time,
};

on_each_backend!(
    a1_concurrent_admissions,
    a2_a_published_example,
    a3_no_hold_leaks,
    a5_a_retry_is_not_applied_twice,
    a5_a_retried_end_extension_and_grant,
    a6_counters_survive_a_crash,
    a9_the_hold_is_the_worst_case,
    a10_no_stale_aggregate_decides,
    a_fork_is_all_or_nothing,
    an_account_limit_binds_over_all_keys,
);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// How many were admitted; all others must be refused with `spending_limit_reached`.
#[track_caller]
fn admitted(answers: Vec<(u16, Value)>) -> usize {
    let (yes, no): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 201);
    for answer in no {
        refused(answer, 402, "spending_limit_reached");
    }
    yes.len()
}

async fn a1_concurrent_admissions(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    for round in 0..100 {
        let key = format!("k-{round}");
        made(api.key("acme", &key, Some(1_000_000)).await);
        let answers = at_once(50, |index| {
            let (api, key) = (api.clone(), key.clone());
            async move {
                let answer = api.admit("acme", &key, &[shape(&format!("l-{round}-{index}"), HOUR_S)]).await;
                if index % 10 == 0 {
                    let (used, reserved) = api.used_and_reserved("acme", &key).await;
                    assert!(used + reserved <= 1_000_000, "{used} + {reserved}");
                }
                answer
            }
        })
        .await;
        assert_eq!(admitted(answers), 12, "round {round}");
        assert_eq!(api.used_and_reserved("acme", &key).await, (0, 960_000));
    }
}

/// Several engines on one database are for PostgreSQL only.
#[tokio::test]
async fn a1_concurrent_admissions_through_two_engines() {
    let engine = Engine::with_customer(Backend::Postgres, noon()).await;
    let (other, _process) = engine.beside();
    let api = &engine.admin;
    for round in 0..20 {
        let key = format!("k-{round}");
        made(api.key("acme", &key, Some(1_000_000)).await);
        let answers = at_once(50, |index| {
            let (api, key) = (if index % 2 == 0 { api.clone() } else { other.clone() }, key.clone());
            async move { api.admit("acme", &key, &[shape(&format!("l-{round}-{index}"), HOUR_S)]).await }
        })
        .await;
        assert_eq!(admitted(answers), 12, "round {round}");
        assert_eq!(other.used_and_reserved("acme", &key).await, (0, 960_000));
    }
}

/// 75 against 500, in thousands: 3,375 s of 80,000 an hour are 75,000.
async fn a2_a_published_example(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(500_000)).await);
    let answers = at_once(20, |index| {
        let api = api.clone();
        async move { api.admit("acme", "ci", &[shape(&format!("l-{index}"), 3_375)]).await }
    })
    .await;
    assert_eq!(admitted(answers), 6);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 450_000));
}

/// 1,000 leases in requests of 100; a third is cancelled, the others expire with nobody to end them, as they do when
/// a control plane dies: no end, no sample.
async fn a3_no_hold_leaks(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(100_000_000)).await);
    for hundred in 0..10 {
        let leases: Vec<Value> = (0..100).map(|index| shape(&format!("l-{}", hundred * 100 + index), HOUR_S)).collect();
        made(api.admit("acme", "ci", &leases).await);
    }
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 80_000_000));
    let ends = at_once(334, |index| {
        let api = api.clone();
        async move { api.end("acme", &format!("l-{index}"), None, "cancel").await }
    })
    .await;
    for end in ends {
        assert_ne!(done(end)["state"], "running");
    }
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 53_280_000));
    let settles_at = noon().plus_s(HOUR_S + 15 * 60);
    engine.set_clock(settles_at.plus_ms(-1)).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 53_280_000));
    engine.set_clock(settles_at).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 0));
    assert_eq!(api.lease("acme", "l-999").await["state"], "settled");
    let costs = api.costs("acme", noon(), noon().plus_h(2), "granularity=total&group_by=lease").await;
    assert_eq!(costs["rows"], json!([]), "a lease that never ran has no line");
    made(api.admit("acme", "ci", &[shape("after", HOUR_S)]).await);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 80_000));
}

async fn a5_a_retry_is_not_applied_twice(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(100_000)).await);
    let ask = [shape("l-1", HOUR_S)];
    let first = made(api.admit("acme", "ci", &ask).await);
    assert_eq!(done(api.admit("acme", "ci", &ask).await), first);
    let both = at_once(2, |_| {
        let (api, ask) = (api.clone(), ask.clone());
        async move { api.admit("acme", "ci", &ask).await }
    })
    .await;
    for again in both {
        assert_eq!(done(again), first);
    }
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 80_000));

    // The first answer itself is lost: of four at once exactly one is told that it made the lease.
    done(api.set_limit("acme", "ci", None).await);
    let answers = at_once(4, |_| {
        let api = api.clone();
        async move { api.admit("acme", "ci", &[shape("l-2", HOUR_S)]).await }
    })
    .await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|(status, body)| [200, 201].contains(status) && *body == answers[0].1), "{answers:?}");
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 160_000));
}

async fn a5_a_retried_end_extension_and_grant(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("l-1", HOUR_S)]).await);
    let extended = at_once(4, |_| {
        let api = api.clone();
        async move { api.extend("acme", "l-1", "x-1", HOUR_S).await }
    })
    .await;
    for answer in extended {
        assert_eq!(done(answer)["ends_at"], noon().plus_h(2).to_string());
    }
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 160_000));
    engine.set_clock(noon().plus_s(600)).await;
    let ended = at_once(4, |_| {
        let api = api.clone();
        async move { api.end("acme", "l-1", None, "stop").await }
    })
    .await;
    let first = done(ended[0].clone());
    for answer in ended {
        assert_eq!(done(answer), first);
    }
    let ask = json!({"id": "sorry-1", "sandbox_hours": 5});
    let granted = at_once(4, |_| {
        let (api, ask) = (api.clone(), ask.clone());
        async move { api.post("/v1/accounts/acme/grants", &ask).await }
    })
    .await;
    assert_eq!(granted.iter().filter(|(status, _)| *status == 201).count(), 1, "{granted:?}");
    assert_eq!(int(&api.balance("acme").await["free"], "granted_ms"), 55 * 3_600_000);
}

/// Fifty keys here instead of ten thousand: 950,000 of 1,000,000 is used on each, and the engine is killed.
async fn a6_counters_survive_a_crash(backend: Backend) {
    let mut engine = Engine::with_payer(backend, time("2026-11-10T00:00:00Z")).await;
    let keys: Vec<String> = (0..50).map(|index| format!("k-{index}")).collect();
    for key in &keys {
        made(engine.admin.key("acme", key, Some(1_000_000)).await);
        made(engine.admin.admit("acme", key, &[shape(key, 42_750)]).await);
    }
    let end = time("2026-11-10T00:00:00Z").plus_s(42_750);
    engine.set_clock(end).await;
    let samples: Vec<Value> =
        keys.iter().map(|key| sample("acme", &format!("s-{key}"), key, end, 2 * 42_750_000_000)).collect();
    engine.admin.accepted(&samples).await;
    engine.crash_and_restart();
    for key in &keys {
        assert_eq!(engine.admin.used_and_reserved("acme", key).await, (950_000, 0));
        let too_much = engine.admin.admit("acme", key, &[shape(&format!("no-{key}"), HOUR_S)]).await;
        refused(too_much, 402, "spending_limit_reached");
        made(engine.admin.admit("acme", key, &[shape(&format!("fit-{key}"), 2_250)]).await);
    }
}

async fn a9_the_hold_is_the_worst_case(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(450_000)).await);
    let answers = at_once(14, |index| {
        let api = api.clone();
        async move { api.admit("acme", "ci", &[shape(&format!("l-{index}"), HOUR_S)]).await }
    })
    .await;
    let passed: Vec<usize> = (0..14).filter(|index| answers[*index].0 == 201).collect();
    assert_eq!((passed.len(), admitted(answers)), (5, 5));
    let end = noon().plus_h(1);
    engine.set_clock(end).await;
    let busy: Vec<Value> = passed
        .iter()
        .map(|index| sample("acme", &format!("s-l-{index}"), &format!("l-{index}"), end, 7_200_000_000))
        .collect();
    api.accepted(&busy).await;
    assert_eq!(api.used_and_reserved("acme", "ci").await, (400_000, 0));
}

/// Samples in time, late, and absent: what is held and what is used together decide, so the answer is the same.
async fn a10_no_stale_aggregate_decides(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    let ask = |key: &str, index: usize| {
        crate::harness::lease(&format!("{key}-{index}"), &format!("{key}-{index}"), 1, 1_024, HOUR_S)
    };
    let busy = |key: &str, minute: i64| -> Vec<Value> {
        let at = noon().plus_s(minute * 60);
        (0..5)
            .map(|index| sample("acme", &format!("{key}-{index}"), &format!("{key}-{index}"), at, minute * 60_000_000))
            .collect()
    };
    for key in ["in-time", "late", "absent"] {
        made(api.key("acme", key, Some(200_000)).await);
        let five: Vec<Value> = (0..5).map(|index| ask(key, index)).collect();
        made(api.admit("acme", key, &five).await);
    }
    for minute in [10, 20] {
        engine.set_clock(noon().plus_s(minute * 60)).await;
        api.accepted(&busy("in-time", minute)).await;
    }
    for key in ["in-time", "late", "absent"] {
        let answers = at_once(2, |index| {
            let (api, ask) = (api.clone(), ask(key, 5 + index));
            async move { api.admit("acme", key, &[ask]).await }
        })
        .await;
        assert_eq!(admitted(answers), 1, "{key}");
        let (used, reserved) = api.used_and_reserved("acme", key).await;
        assert_eq!(used + reserved, 195_000, "{key}: {used} + {reserved}");
    }
    assert_eq!(api.used_and_reserved("acme", "in-time").await.0, 54_166);
    engine.set_clock(noon().plus_s(50 * 60)).await;
    for minute in [10, 20, 30, 40, 50] {
        api.accepted(&busy("late", minute)).await;
    }
    let (used, reserved) = api.used_and_reserved("acme", "late").await;
    assert_eq!((used, reserved), (135_416, 59_584), "five sixths of 162,500; the rest and 32,500 held");
}

async fn a_fork_is_all_or_nothing(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", Some(200_000)).await);
    let three: Vec<Value> = (0..3).map(|index| shape(&format!("f-{index}"), HOUR_S)).collect();
    let body = refused(api.admit("acme", "ci", &three).await, 402, "spending_limit_reached");
    assert_eq!(body["lease"], "f-2");
    assert_eq!(int(&body, "needed_micros"), 240_000, "the leases before it included");
    assert_eq!(int(&body, "longest_timeout_seconds"), 1_800, "40,000 are left for it");
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 0));
    assert_eq!(done(api.get("/v1/accounts/acme/leases").await)["items"], json!([]));
    assert_eq!(done(api.get("/v1/accounts/acme/sandboxes").await)["items"], json!([]));
    made(api.admit("acme", "ci", &three[..2]).await);
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, 160_000));
}

async fn an_account_limit_binds_over_all_keys(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let api = &engine.admin;
    made(api.key("acme", "other", Some(80_000)).await);
    made(api.admit("acme", "ci", &[shape("before", HOUR_S)]).await);
    let body = done(api.patch("/v1/accounts/acme", &json!({"daily_limit_micros": 200_000})).await);
    assert_eq!(int(&body, "daily_limit_micros"), 200_000);
    made(api.admit("acme", "other", &[shape("l-1", HOUR_S)]).await);
    let body = refused(api.admit("acme", "ci", &[shape("l-2", HOUR_S)]).await, 402, "spending_limit_reached");
    assert_eq!((&body["scope"], &body["key"], &body["lease"]), (&json!("account"), &json!("ci"), &json!("l-2")));
    let figures = ["limit_micros", "used_micros", "reserved_micros", "needed_micros", "available_micros"];
    assert_eq!(figures.map(|name| int(&body, name)), [200_000, 0, 160_000, 80_000, 40_000]);
    // The key comes before the account.
    let body = refused(api.admit("acme", "other", &[shape("l-3", HOUR_S)]).await, 402, "spending_limit_reached");
    assert_eq!(body["scope"], "key");
    let day = api.balance("acme").await["account_day"].clone();
    assert_eq!((int(&day, "reserved_micros"), int(&day, "available_micros")), (160_000, 40_000));
    done(api.patch("/v1/accounts/acme", &json!({"daily_limit_micros": null})).await);
    made(api.admit("acme", "ci", &[shape("l-2", HOUR_S)]).await);
}
