//! What rows take on PostgreSQL: measured and printed for docs/SCALING.md, and held within bounds.

use std::io::Write;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::crash::random::Random;
use crate::harness::{Backend, Engine, HOUR_S, made, sample, shape, time, with};

/// Leases that run side by side.
const LEASES: usize = 20;
/// How long they run, in hours.
const HOURS: i64 = 3;
/// Seconds from one sample to the next.
const STEP_S: i64 = 10;

/// One number.
async fn number(database: &mut PgConnection, question: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(question.to_owned())).fetch_one(database).await.unwrap()
}

#[tokio::test]
async fn of_rows_on_postgres() {
    let begin = time("2026-11-10T00:00:00Z");
    let engine = Engine::with_payer(Backend::Postgres, begin).await;
    let ids: Vec<String> = (0..LEASES).map(|number| format!("l-{number:04}-{:08x}", number * 7_919)).collect();
    let asks: Vec<Value> = ids.iter().map(|id| shape(id, HOURS * HOUR_S)).collect();
    made(engine.admin.admit("acme", "ci", &asks).await);
    let mut random = Random::new(7);
    let mut counters = [0_i64; LEASES];
    for hour in 0..HOURS {
        let mut samples = Vec::new();
        for step in hour * HOUR_S / STEP_S..(hour + 1) * HOUR_S / STEP_S {
            for (id, counter) in ids.iter().zip(&mut counters) {
                // Up to one CPU; sent within a tenth of a second of when it is due.
                *counter += i64::try_from(random.below(10_000_000)).unwrap();
                let jitter_ms = i64::try_from(random.below(100)).unwrap();
                let at = begin.plus_s((step + 1) * STEP_S).plus_ms(jitter_ms - 100);
                let one = sample("acme", &format!("s-{id}"), id, at, *counter);
                samples.push(if step % 6 == 0 { with(one, "storage_mib", 512 + step / 6) } else { one });
            }
        }
        engine.set_clock(begin.plus_h(hour + 1)).await;
        engine.admin.accepted(&samples).await;
    }
    let mut database = PgConnection::connect(engine.database()).await.unwrap();
    // As autovacuum leaves it, without the dead versions of hours that passed in seconds.
    database.execute("VACUUM FULL sample_pages").await.unwrap();
    let pages = number(&mut database, "SELECT COUNT(*) FROM sample_pages").await;
    let leases = i64::try_from(LEASES).unwrap();
    let samples = leases * HOURS * HOUR_S / STEP_S;
    // At most a page of each lease is still open.
    let closed = samples - leases * 64;
    let total = "SELECT CAST(SUM(pg_total_relation_size(relid)) AS BIGINT) FROM pg_partition_tree('sample_pages')";
    let mut out = std::io::stdout();
    let bytes = number(&mut database, total).await / closed;
    writeln!(out, "a sample: {bytes} bytes with indexes ({samples} samples, {pages} closed pages)").unwrap();
    assert!(bytes <= 24, "{bytes} bytes a sample");
    for (table, bytes_max) in [("sample_pages", 800), ("leases", 900), ("sandboxes", 400), ("usage_hours", 250)] {
        let average = format!("SELECT CAST(AVG(pg_column_size(t.*)) AS BIGINT) FROM {table} AS t");
        let bytes = number(&mut database, &average).await;
        writeln!(out, "{table}: {bytes} bytes a row").unwrap();
        assert!(bytes <= bytes_max, "{table}: {bytes}");
    }
}
