//! runtab on PostgreSQL beside what one would write by hand, in one run: `cargo bench --bench postgres`.
//!
//! `RUNTAB_BENCH_POSTGRES` names a server (`postgres://USER@HOST:PORT`, an administrator, without a database). Two
//! databases are made there and dropped. The yardsticks are raw SQL without HTTP: the careful counter row, a
//! transaction a decision; and the bare insert of the same samples, a thousand a statement. Decisions are measured both
//! ways: by the ledger itself, called without HTTP as the yardstick is, and over HTTP.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use runtab::clock::Clock;
use runtab::domain::admission::{AdmitRequest, FreeCover, LeaseRequest};
use runtab::domain::id::{AccountId, KeyId, LeaseId, RateCardId, SandboxId};
use runtab::domain::lease::{LeaseKind, Shape};
use runtab::domain::money::{Micros, PriceMicros};
use runtab::domain::rate_card::RateCard;
use runtab::domain::units::{MebiBytes, Millicores, Vcpus};
use runtab::ledger::Ledger;
use runtab::ledger::batch::BatchLimits;
use runtab::ledger::command::{CreateAccount, CreateKey, SecretDigest};
use runtab::ledger::working_set::Rules;
use runtab::store::{Options, Store};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// How long each yardstick is measured in a round, and how often.
const TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// Samples of a statement.
const BATCH: i64 = 1_000;
/// Connections that insert samples, as many as the bench of the engine has.
const WRITERS: usize = 4;

const TABLES: &str = "
    CREATE TABLE limits (key TEXT PRIMARY KEY, spent BIGINT NOT NULL, lim BIGINT NOT NULL) WITH (fillfactor = 50);
    CREATE TABLE decisions (id BIGINT PRIMARY KEY, key TEXT NOT NULL, cost BIGINT NOT NULL);
    CREATE TABLE samples (account TEXT NOT NULL, lease TEXT NOT NULL, at BIGINT NOT NULL, cpu_us BIGINT NOT NULL,
        PRIMARY KEY (account, lease, at));
    INSERT INTO limits VALUES ('hot', 0, 9000000000000000);";
const SPEND: &str = "UPDATE limits SET spent = spent + $2 WHERE key = $1 AND spent + $2 <= lim";
const DECIDE: &str = "INSERT INTO decisions (id, key, cost) VALUES ($1, $2, $3)";
const INSERT: &str = "INSERT INTO samples (account, lease, at, cpu_us)
    SELECT * FROM UNNEST($1::text[], $2::text[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING";

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let Ok(server) = std::env::var("RUNTAB_BENCH_POSTGRES") else {
        writeln!(out, "set RUNTAB_BENCH_POSTGRES to postgres://USER@HOST:PORT")?;
        return Ok(());
    };
    let server = server.trim_end_matches('/').to_owned();
    let mut admin = PgConnection::connect(&format!("{server}/postgres")).await.context("no server there")?;
    for name in ["runtab_bench_raw", "runtab_bench"] {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")))
            .execute(&mut admin)
            .await?;
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut admin).await?;
    }
    let raw = format!("{server}/runtab_bench_raw");
    let mut connection = PgConnection::connect(&raw).await?;
    sqlx::raw_sql(TABLES).execute(&mut connection).await?;
    let mut next = 0_i64;
    let counter_1 = median(&raw, 1, Yardstick::Counter, &mut next).await?;
    let counter_64 = median(&raw, 64, Yardstick::Counter, &mut next).await?;
    let insert = median(&raw, WRITERS, Yardstick::Insert, &mut next).await?.saturating_mul(BATCH.unsigned_abs());
    writeln!(out, "counter row, one hot key, 1 client      {counter_1} decisions a second")?;
    writeln!(out, "counter row, one hot key, 64 clients    {counter_64} decisions a second")?;
    writeln!(out, "bare insert, batches of {BATCH}, {WRITERS} writers  {insert} samples a second")?;

    let ledger_64 = ledger(&format!("{server}/runtab_bench")).await?;
    writeln!(out, "ledger, one hot key, 64 callers         {ledger_64} decisions a second")?;
    let report = engine(&format!("{server}/runtab_bench")).await?;
    writeln!(out, "{report:#}")?;
    let hot = rate(&report, "admissions, one hot key", 64)?;
    let samples = rate(&report, "samples, no free time", 4)?;
    writeln!(out, "hot key, 64 callers, without HTTP       {} times the counter row", tenths(ledger_64, counter_64))?;
    writeln!(out, "hot key, 64 connections, over HTTP      {} times the counter row", tenths(hot, counter_64))?;
    writeln!(out, "samples, over HTTP                      {} times the bare insert", tenths(samples, insert))?;
    for name in ["runtab_bench_raw", "runtab_bench"] {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut admin).await?;
    }
    Ok(())
}

/// Runs `runtab bench` on a database.
async fn engine(database: &str) -> anyhow::Result<Value> {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_runtab"));
    command.args(["bench", "--json", "--only", "admissions", "--only", "samples", "--database", database]);
    let done = command.stderr(std::process::Stdio::inherit()).output().await?;
    if !done.status.success() {
        bail!("runtab bench failed");
    }
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn rate(report: &Value, what: &str, connections: u64) -> anyhow::Result<u64> {
    let rows = report.get("rows").and_then(Value::as_array).context("no rows")?;
    let is = |row: &&Value| {
        let number = |name| row.get(name).and_then(Value::as_u64);
        row.get("what").and_then(Value::as_str) == Some(what)
            && number("connections") == Some(connections)
            && number("engines") == Some(1)
    };
    rows.iter().find(is).and_then(|row| row.get("per_second")).and_then(Value::as_u64).context("no such row")
}

/// A ratio with two decimals.
fn tenths(part: u64, whole: u64) -> String {
    let hundredths = part.saturating_mul(100).checked_div(whole).unwrap_or_default();
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[derive(Clone, Copy)]
enum Yardstick {
    /// The careful counter row and a record of the decision, in one transaction.
    Counter,
    /// Samples by arrays.
    Insert,
}

/// The median over rounds of admissions a second that the ledger decides for 64 callers of one key.
async fn ledger(url: &str) -> anyhow::Result<u64> {
    let store = Store::open(url, Options::default()).await?;
    store.migrate().await?;
    let ledger = Ledger::start(store, Clock::system(), rules().context("rules")?, BatchLimits::default());
    let (account, key) = (AccountId::parse("direct")?, KeyId::parse("hot")?);
    let (name, tax) = (String::new(), None);
    ledger.create_account(CreateAccount { id: account.clone(), name, card_on_file: true, tax }).await?;
    let (id, name) = (key.clone(), String::new());
    let (daily_limit, secret) = (Micros::new(9_000_000_000_000_000), SecretDigest { sha256: [7; 32] });
    let made = CreateKey { account: account.clone(), id, name, read_only: false, daily_limit, secret };
    ledger.create_key(made).await?;
    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        let mut tasks = Vec::new();
        let began = now();
        for caller in 0..64 {
            let (ledger, account, key) = (ledger.clone(), account.clone(), key.clone());
            tasks.push(tokio::spawn(async move {
                let mut count = 0_u64;
                while began.elapsed() < TIME {
                    let lease = new_lease(&format!("{round}-{caller}-{count:012}")).context("a lease")?;
                    let leases = vec![lease];
                    ledger.admit(AdmitRequest { account: account.clone(), key: key.clone(), leases }).await?;
                    count = count.saturating_add(1);
                }
                anyhow::Ok(count)
            }));
        }
        let mut count = 0_u64;
        for task in tasks {
            count = count.saturating_add(task.await??);
        }
        rates.push(per_second(count, began.elapsed())?);
    }
    ledger.close().await;
    rates.sort_unstable();
    rates.get(ROUNDS / 2).copied().context("no rounds")
}

fn rules() -> Option<Rules> {
    let (cpu, memory) = (PriceMicros::new(25_000)?, PriceMicros::new(7_500)?);
    let (storage, floor) = (PriceMicros::new(108)?, Millicores::new(50)?);
    let list = RateCard { id: RateCardId::parse("list").ok()?, cpu, memory, storage, floor };
    let cover = FreeCover { vcpus: Vcpus::new(8)?, memory: MebiBytes::new(16_384)?, disk: MebiBytes::new(20_480)? };
    Some(Rules { settle_after_ms: 900_000, cover, welcome_ms: 0, list, stale_after_ms: 300_000, rejected_kept: 10 })
}

/// What `runtab bench` asks for, too: 1 vCPU and 512 MiB for an hour, of a new sandbox.
fn new_lease(id: &str) -> Option<LeaseRequest> {
    Some(LeaseRequest {
        id: LeaseId::parse(id).ok()?,
        sandbox: SandboxId::parse(id).ok()?,
        kind: LeaseKind::Create,
        shape: Shape { vcpus: Vcpus::new(1)?, memory: MebiBytes::new(512)? },
        timeout_ms: 3_600_000,
        max_cost: None,
        host: None,
        starts_at: None,
        replaces: None,
    })
}

fn per_second(count: u64, took: Duration) -> anyhow::Result<u64> {
    let us = u64::try_from(took.as_micros())?.max(1);
    Ok(count.saturating_mul(1_000_000).checked_div(us).unwrap_or_default())
}

/// The median over rounds of transactions a second; ids begin at `next` and go on.
async fn median(url: &str, clients: usize, yardstick: Yardstick, next: &mut i64) -> anyhow::Result<u64> {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let mut tasks = Vec::new();
        let began = now();
        for _ in 0..clients {
            // Room enough for what one client does in a round.
            *next = next.saturating_add(10_000_000);
            tasks.push(tokio::spawn(client(url.to_owned(), yardstick, *next)));
        }
        let (mut count, mut slowest) = (0_u64, began.elapsed());
        for task in tasks {
            let (done, took) = task.await??;
            count = count.saturating_add(done);
            slowest = slowest.max(took);
        }
        rates.push(per_second(count, slowest)?);
    }
    rates.sort_unstable();
    rates.get(ROUNDS / 2).copied().context("no rounds")
}

#[expect(clippy::disallowed_methods, reason = "measuring")]
fn now() -> Instant {
    Instant::now()
}

async fn client(url: String, yardstick: Yardstick, mut next: i64) -> anyhow::Result<(u64, Duration)> {
    let mut connection = PgConnection::connect(&url).await?;
    let accounts: Vec<String> = (0..BATCH).map(|_| format!("a-{next}")).collect();
    let leases: Vec<String> = (0..BATCH).map(|lease| format!("l-{lease:012}")).collect();
    let began = now();
    let mut count = 0_u64;
    while began.elapsed() < TIME {
        next = next.saturating_add(1);
        match yardstick {
            Yardstick::Counter => {
                let mut tx = connection.begin().await?;
                let spent = sqlx::query(SPEND).bind("hot").bind(7_i64).execute(&mut *tx).await?;
                if spent.rows_affected() != 1 {
                    bail!("the limit is reached");
                }
                sqlx::query(DECIDE).bind(next).bind("hot").bind(7_i64).execute(&mut *tx).await?;
                tx.commit().await?;
            }
            Yardstick::Insert => {
                let (at, cpu) = (vec![next; leases.len()], vec![next; leases.len()]);
                let insert = sqlx::query(INSERT).bind(&accounts).bind(&leases).bind(&at).bind(&cpu);
                insert.execute(&mut connection).await?;
            }
        }
        count = count.saturating_add(1);
    }
    Ok((count, began.elapsed()))
}
