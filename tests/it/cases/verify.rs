//! `runtab verify`: it agrees with whatever the engine did, and finds any figure that somebody changed.

use serde_json::{Value, json};

use crate::harness::{
    Backend, Engine, HOUR_S, at_rest, done, lease, made, on_each_backend, run_sql, sample, time, with,
};

on_each_backend!(a_busy_account_agrees, every_change_is_found);

/// A little of everything: free hours that run out in the middle of an hour, late and repeated samples, storage, a
/// resize, ends of all kinds, limits, a new card, a closed month, and leases that run on.
pub(super) async fn furnished(backend: Backend) -> Engine {
    let engine = Engine::with_customer(backend, time("2026-10-30T20:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    made(api.key("acme", "other", Some(50_000_000)).await);
    let limit = json!({"daily_limit_micros": 500_000_000});
    done(api.patch("/v1/accounts/acme", &limit).await);
    let card = json!({"id": "dearer", "effective_on": "2026-11-01", "cpu_micros_per_vcpu_hour": 31_337,
                      "memory_micros_per_gib_hour": 7_501, "storage_micros_per_gib_hour": 109,
                      "cpu_floor_millicores": 70, "account": null});
    made(api.post("/v1/rate-cards", &card).await);
    let grant = json!({"id": "g", "sandbox_hours": 3, "starts_on": "2026-10-31", "expires_on": "2026-11-02"});
    made(api.post("/v1/accounts/acme/grants", &grant).await);
    let mut asked = Vec::new();
    for index in 0..4 {
        asked.push(lease(&format!("l-{index}"), &format!("s-{index}"), 2, 3_000, 60 * HOUR_S));
    }
    made(api.admit("acme", "ci", &asked).await);
    made(api.admit("acme", "other", &[lease("m", "m", 1, 777, 2 * HOUR_S)]).await);
    let mut rows: Vec<Value> = Vec::new();
    for index in 0..4_i64 {
        let (id, sandbox) = (format!("l-{index}"), format!("s-{index}"));
        for step in 1..=40_i64 {
            let at = start.plus_s(step * 2_017 + index);
            let row = sample("acme", &sandbox, &id, at, step * 300_000_007 * (index + 1));
            rows.push(if step % 7 == 0 { with(row, "storage_mib", 1_000 + step) } else { row });
        }
    }
    engine.set_clock(start.plus_h(26)).await;
    // The second half first, then all: late samples and duplicates.
    done(api.samples(&rows[80..]).await);
    done(api.samples(&rows[..120]).await);
    done(api.samples(&rows).await);
    done(api.end("acme", "l-0", Some(start.plus_h(20)), "pause").await);
    done(api.end("acme", "l-1", None, "delete").await);
    made(api.admit("acme", "other", &[with(lease("r", "s-2", 4, 5_000, HOUR_S), "replaces", "l-2")]).await);
    done(api.end("acme", "m", None, "host_lost").await);
    done(api.samples(&[at_rest("acme", "s-0", start.plus_h(25), 5_000)]).await);
    engine.set_clock(time("2026-11-02T00:30:00Z")).await;
    assert_eq!(api.post("/v1/months/2026-10/close", &json!({})).await.0, 200);
    done(api.samples(&[sample("acme", "s-3", "l-3", engine.now(), 60_000_000_000)]).await);
    done(api.samples(&[at_rest("acme", "s-0", engine.now(), 4_000)]).await);
    // Late usage of the closed month.
    done(api.samples(&[sample("acme", "m", "m", start.plus_s(1_800), 900_000_000)]).await);
    done(api.samples(&[sample("acme", "s-3", "l-3", start.plus_h(25), 50_000_000_000)]).await);
    engine
}

async fn a_busy_account_agrees(backend: Backend) {
    let engine = furnished(backend).await;
    made(engine.admin.account("idle", false).await);
    let (agrees, text) = engine.verify(&[]);
    assert!(agrees, "{text}");
    assert!(text.starts_with("2 accounts, 6 leases, ") && text.contains(" 0 differences"), "{text}");
    for more in [&["--month", "2026-10"][..], &["--account", "acme"], &["--account", "idle", "--month", "2026-11"]] {
        let (agrees, text) = engine.verify(more);
        assert!(agrees, "{more:?}: {text}");
    }
    assert!(!engine.verify(&["--account", "nobody"]).0);
}

async fn every_change_is_found(backend: Backend) {
    let engine = furnished(backend).await;
    let changes = [
        ("usage_hours", "cpu_us", "cpu_us", "lease_id = 'l-0'"),
        ("usage_hours", "storage_mib_ms", "storage_mib_ms", "lease_id = ''"),
        ("usage_hours", "free_memory_mib_ms", "free_memory_mib_ms", "lease_id = 'l-1'"),
        ("key_days", "used_memory_mib_ms", "memory_mib_ms", "key_id = 'ci'"),
        ("key_days", "reserved_cpu_us", "reserved_cpu_us", "key_id = 'ci'"),
        ("account_days", "used_run_ms", "run_ms", "day > 0"),
        ("draws", "drawn_ms", "free_ms", "drawn_ms > 0"),
        ("grants", "used_ms", "used_ms", "grant_id = 'g'"),
        ("leases", "cpu_us", "cpu_us", "lease_id = 'l-3'"),
        ("sandboxes", "storage_hour_mib_ms", "storage_mib_ms", "storage_hour IS NOT NULL"),
    ];
    for (table, column, named, rows) in changes {
        let change = |by: &str| format!("UPDATE {table} SET {column} = {column} {by} WHERE {rows}");
        run_sql(engine.database(), &change("+ 1")).await.unwrap();
        let (agrees, text) = engine.verify(&[]);
        assert!(!agrees && text.contains(&format!(": {named} is ")), "{table}.{column}: {text}");
        assert!(text.contains("(off by 1)") || text.contains("(off by -1)"), "{table}.{column}: {text}");
        run_sql(engine.database(), &change("- 1")).await.unwrap();
    }
    engine.assert_verified();
}
