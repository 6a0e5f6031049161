//! A rolling upgrade: an engine works on over a schema that is ahead of it, and migrations only add.

use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::harness::{Backend, Engine, HOUR_S, made, on_each_backend, sample, shape, time};

on_each_backend!(an_old_engine_works_on_a_newer_schema);

/// What a newer program's migration may do: add columns that may be null or have a default, tables and indexes.
const NEWER: [&str; 5] = [
    "ALTER TABLE leases ADD COLUMN newer_note TEXT",
    "ALTER TABLE keys ADD COLUMN newer_count BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE usage_hours ADD COLUMN newer_us BIGINT NOT NULL DEFAULT 0",
    "CREATE TABLE newer (account_id TEXT NOT NULL PRIMARY KEY)",
    "INSERT INTO migrations (name, sha256) SELECT '9999_newer', sha256 FROM migrations WHERE name = '0001_ledger'",
];

/// Runs statements as a newer program's migration would.
async fn migrate(database: &str) {
    for sql in NEWER {
        // SQLite's STRICT tables know no BIGINT.
        let done = if let Some(path) = database.strip_prefix("sqlite:") {
            let sql = AssertSqlSafe(sql.replace("BIGINT", "INTEGER"));
            sqlx::SqliteConnection::connect(path).await.expect("a database").execute(sql).await.map(drop)
        } else {
            sqlx::PgConnection::connect(database).await.expect("a database").execute(sql).await.map(drop)
        };
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

async fn an_old_engine_works_on_a_newer_schema(backend: Backend) {
    let now = time("2026-11-10T00:00:00Z");
    let mut engine = Engine::with_payer(backend, now).await;
    // Every statement below has been prepared before the schema changes.
    for round in 0..3 {
        let name = format!("l-{round}");
        if round == 1 {
            migrate(engine.database()).await;
        }
        if round == 2 {
            // An old engine that starts again finds the schema ahead of it.
            engine.crash_and_restart();
        }
        let begin = engine.now();
        made(engine.admin.admit("acme", "ci", &[shape(&name, HOUR_S)]).await);
        crate::harness::done(engine.admin.extend("acme", &name, "x", 60).await);
        engine.set_clock(begin.plus_h(1)).await;
        let readings = [begin.plus_s(1_800), begin.plus_h(1)];
        let samples = readings.map(|at| sample("acme", &format!("s-{name}"), &name, at, (at.0 - begin.0) * 100));
        engine.admin.accepted(&samples).await;
        crate::harness::done(engine.admin.end("acme", &name, Some(begin.plus_h(1)), "stop").await);
        engine.seen("acme").await;
        assert_eq!(engine.list(&name).await, 32_500, "an hour at 100 millicores");
    }
}

/// Migrations after the first, by name, of both back ends.
fn migrations() -> Vec<(String, String)> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), std::path::PathBuf::from);
    let mut all = Vec::new();
    for folder in ["sqlite", "postgres"] {
        for entry in std::fs::read_dir(root.join("migrations").join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("a text");
            let code: Vec<&str> = text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
            all.push((format!("{folder}/{name}"), code.join("\n").to_uppercase()));
        }
    }
    all.sort();
    all
}

/// Moves that keep the name, columns and key that statements go by.
const SAME_AFTERWARDS: [(&str, &str); 1] = [("postgres/0002_evidence_by_month", "RENAME TO")];

#[test]
fn migrations_only_add() {
    let migrations = migrations();
    let names =
        |folder: &str| -> Vec<&str> { migrations.iter().filter_map(|(name, _)| name.strip_prefix(folder)).collect() };
    assert_eq!(names("sqlite/"), names("postgres/"), "equal names");
    let mut faults = Vec::new();
    for (name, text) in &migrations {
        if name.ends_with("/0001_ledger") || name.ends_with("_contract") {
            continue;
        }
        for word in ["DROP ", "RENAME TO", "RENAME COLUMN", "ALTER COLUMN", " TYPE ", "DELETE FROM"] {
            let same = SAME_AFTERWARDS.iter().any(|(known, move_of)| known == name && *move_of == word);
            if text.contains(word) && !same {
                faults.push(format!("{name}: {word}"));
            }
        }
        for statement in text.split(';').filter(|statement| statement.contains("ADD COLUMN")) {
            if statement.contains("NOT NULL") && !statement.contains("DEFAULT") {
                faults.push(format!("{name}: an added column that an older engine can't fill: {}", statement.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
