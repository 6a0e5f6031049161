//! The database fails at each write in turn: nothing of a batch is kept, and the client's repetition counts once.

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use crate::harness::{Backend, Engine, HOUR_S, Time, done, made, on_each_backend, refused, sample, shape, time};

on_each_backend!(a4_each_write_of_the_settling_fails);

/// Every table that a batch writes.
const TABLES: [&str; 11] = [
    "accounts",
    "keys",
    "grants",
    "leases",
    "sandboxes",
    "sample_pages",
    "usage_hours",
    "draws",
    "key_days",
    "account_days",
    "refusals",
];

/// Runs statements behind the engine's back.
pub(super) async fn run(database: &str, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    if database.starts_with("postgres") {
        PgConnection::connect(database).await.unwrap().execute(sql).await.unwrap();
    } else {
        SqliteConnection::connect(database).await.unwrap().execute(sql).await.unwrap();
    }
}

/// From now on every write to a table fails: PostgreSQL's disk is full, SQLite's schema is broken.
async fn break_writes(database: &str, table: &str) {
    let sql = if database.starts_with("postgres") {
        format!(
            "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END; $$;
            CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION fail()"
        )
    } else {
        format!(
            "CREATE TRIGGER fail_insert BEFORE INSERT ON {table} BEGIN INSERT INTO nowhere VALUES (1); END;
            CREATE TRIGGER fail_update BEFORE UPDATE ON {table} BEGIN INSERT INTO nowhere VALUES (1); END"
        )
    };
    run(database, &sql).await;
}

async fn mend_writes(database: &str, table: &str) {
    let sql = if database.starts_with("postgres") {
        format!("DROP TRIGGER fail ON {table}")
    } else {
        "DROP TRIGGER fail_insert; DROP TRIGGER fail_update".to_owned()
    };
    run(database, &sql).await;
}

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

async fn a4_each_write_of_the_settling_fails(backend: Backend) {
    let engine = Engine::with_payer(backend, noon()).await;
    let api = &engine.admin;
    done(api.patch("/v1/accounts/acme", &json!({"daily_limit_micros": 10_000_000})).await);
    for table in TABLES {
        made(api.key("acme", table, Some(80_000)).await);
        made(api.admit("acme", table, &[shape(table, HOUR_S)]).await);
    }
    let end = noon().plus_h(1);
    engine.set_clock(end).await;
    let mut failed = Vec::new();
    for table in TABLES {
        let last = [sample("acme", &format!("s-{table}"), table, end, 0)];
        break_writes(engine.database(), table).await;
        let (status, body) = api.samples(&last).await;
        if status == 503 {
            refused((status, body), 503, "unavailable");
            failed.push(table);
            assert_eq!(api.used_and_reserved("acme", table).await, (0, 80_000), "{table}: nothing is kept");
            assert_eq!(api.samples(&last).await.0, 503, "{table}: nor at the second time");
        }
        mend_writes(engine.database(), table).await;
        if failed.last() == Some(&table) {
            api.accepted(&last).await;
        }
        assert_eq!(api.used_and_reserved("acme", table).await, (31_250, 0), "{table}");
        assert_eq!(done(api.samples(&last).await)["duplicates"], 1, "{table}");
        assert_eq!(api.used_and_reserved("acme", table).await, (31_250, 0), "{table}");
    }
    assert_eq!(failed, ["leases", "sample_pages", "usage_hours", "key_days", "account_days"]);
}
