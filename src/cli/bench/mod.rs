//! `runtab bench`: how fast this machine admits and takes samples, beside a hello-world server in the same run.
//!
//! The servers are child processes of this very program; the client is this process. All share the machine's
//! processors, so the ratio to the hello-world server, which has the same client, says more than a figure alone.

mod load;
mod report;
mod server;
mod work;

pub(super) use server::be_hello;

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::format::rfc3339;
use crate::clock::Clock;
use crate::domain::time::Timestamp;
use load::{Pace, Work, drive};
use report::{Memory, Report, Round, Row};
use server::Server;
use work::{Admissions, BATCH_SAMPLES, Hello, Keys, Queue, SPREAD_ACCOUNTS, SPREAD_KEYS, Samples, post};

/// Connections that set things up.
const SETUP_CONNECTIONS: usize = 64;
/// Connections that send samples, each those of its own leases.
const SAMPLE_CONNECTIONS: usize = 4;
/// Leases of one request, and samples of one batch: [`BATCH_SAMPLES`], as a step.
const LEASES: usize = 1_000;
/// How long before now leases that are sampled start, in milliseconds: 59 minutes, for they may start an hour ago.
const SAMPLED_MS: i64 = 3_540_000;
/// Running leases when memory is measured.
const MEMORY_LEASES: u64 = 100_000;
/// Where the numbers of leases begin, so that those of two parts in one database differ: admissions begin at 0.
const PAYING_FROM: u64 = 900_000_000_000;
const FREE_FROM: u64 = 910_000_000_000;
const MEMORY_FROM: u64 = 920_000_000_000;
/// Setting up ends when it is done, at the latest after this.
const SETUP_TIME: Duration = Duration::from_mins(10);

/// The flags of `runtab bench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Admissions are of new leases of new sandboxes: on one hot key, and on 10,000
keys of 1,000 accounts in turn; every key has a daily limit. Samples come in
batches of 1,000, in order, from 4 connections. The servers are child processes
of this program, the client is this process, and all share the processors: read
the ratio to the hello-world server, and mind the load that is shown.")]
pub struct BenchArgs {
    /// An empty database, `sqlite:PATH` or `postgres://...`; without it, a fresh SQLite file in a temporary folder
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// What to measure; may be repeated [default: all]
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Rounds; figures are medians over them
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Seconds of each measurement in a round
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Connections for admissions [default: 1,32,256, and 1,16,64,256 on PostgreSQL]
    #[arg(long, value_delimiter = ',')]
    connections: Vec<u16>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Admissions, on one key and on many
    Admissions,
    /// Samples, of accounts with free time and without
    Samples,
    /// Resident memory with 100,000 running leases
    Memory,
}

/// What every part needs.
struct Bench {
    args: BenchArgs,
    folder: tempfile::TempDir,
    bar: ProgressBar,
}

pub(super) async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("runtab-bench-").tempdir().context("no temporary folder")?;
    let bench = Bench { args, folder, bar: ProgressBar::new_spinner() };
    bench.bar.enable_steady_tick(Duration::from_millis(200));
    let mut report = Report {
        database: if bench.is_postgres() { "PostgreSQL" } else { "SQLite, WAL, each answer synced before" }.to_owned(),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        load_before: load_average(),
        rounds: usize::from(bench.args.rounds),
        seconds: bench.args.seconds,
        ..Report::default()
    };
    if bench.wants(Part::Admissions) {
        bench.admissions(&mut report).await?;
    }
    if bench.wants(Part::Samples) {
        bench.samples(&mut report).await?;
    }
    if bench.wants(Part::Memory) {
        report.memory = Some(bench.memory().await?);
    }
    report.load_after = load_average();
    bench.bar.finish_and_clear();
    let mut out = std::io::stdout();
    if bench.args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        for line in report.lines() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The machine's load over the last minute, as it says itself.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

impl Bench {
    fn is_postgres(&self) -> bool {
        self.args.database.as_ref().is_some_and(|url| url.starts_with("postgres"))
    }

    fn wants(&self, part: Part) -> bool {
        self.args.only.is_empty() || self.args.only.contains(&part)
    }

    /// The database of a part: the given one, or a fresh file.
    fn database(&self, part: &str) -> String {
        let fresh = || format!("sqlite:{}", self.folder.path().join(part).with_extension("db").display());
        self.args.database.clone().unwrap_or_else(fresh)
    }

    /// Sends requests of setting up; each must succeed.
    async fn set_up(&self, what: &'static str, server: &Server, requests: &[String]) -> anyhow::Result<()> {
        self.bar.set_message(what);
        drive(&[server.address], Queue::deal(requests, SETUP_CONNECTIONS), SETUP_TIME).await.context(what)?;
        Ok(())
    }

    async fn hello(&self, hello: &Server, connections: u16) -> anyhow::Result<Pace> {
        self.bar.set_message(format!("hello, world on {connections} connections"));
        let works = (0..connections).map(|_| Hello).collect();
        Ok(self.measure(std::slice::from_ref(hello), works).await?.0)
    }

    /// Drives the work for the seconds of a measurement, and looks at the servers' processor time.
    async fn measure<W: Work>(&self, servers: &[Server], works: Vec<W>) -> anyhow::Result<(Pace, Vec<W>)> {
        let cpu_us = || servers.iter().map(Server::cpu_us).sum::<anyhow::Result<u64>>();
        let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        let before_us = cpu_us()?;
        let (mut pace, works) = drive(&addresses, works, Duration::from_secs(self.args.seconds)).await?;
        pace.cpu_us = cpu_us()?.saturating_sub(before_us);
        Ok((pace, works))
    }

    async fn admissions(&self, report: &mut Report) -> anyhow::Result<()> {
        let database = self.database("admissions");
        let mut engines = vec![Server::engine(&database).await?];
        if self.is_postgres() {
            engines.push(Server::engine(&database).await?);
        }
        let hello = Server::hello().await?;
        let token = server::token(&database).await?;
        if let Some(engine) = engines.first() {
            self.set_up("making 1,000 accounts", engine, &accounts("a", SPREAD_ACCOUNTS, &token)).await?;
            self.set_up("making 10,000 keys", engine, &keys("a", SPREAD_ACCOUNTS, SPREAD_KEYS, &token)).await?;
        }
        let default: &[u16] = if self.is_postgres() { &[1, 16, 64, 256] } else { &[1, 32, 256] };
        let counts = if self.args.connections.is_empty() { default } else { &self.args.connections };
        let mut next = 0;
        for connections in counts.iter().copied() {
            let mut hellos = Vec::new();
            let mut cells: Vec<(&str, Keys, usize, Vec<Round>)> = Vec::new();
            for engines in 1..=engines.len() {
                cells.push(("admissions, one hot key", Keys::Hot, engines, Vec::new()));
                cells.push(("admissions, 10,000 keys", Keys::Spread, engines, Vec::new()));
            }
            for _ in 0..self.args.rounds {
                let yardstick = self.hello(&hello, connections).await?;
                hellos.push(Round::of(yardstick, 1, None));
                for (what, keys, count, rounds) in &mut cells {
                    self.bar.set_message(format!("{what} on {connections} connections"));
                    let works = Admissions::of(&token, *keys, u64::from(connections), next);
                    let servers = engines.get(..*count).unwrap_or_default();
                    let (pace, works) = self.measure(servers, works).await?;
                    next = Admissions::highest(&works);
                    rounds.push(Round::of(pace, 1, Some(yardstick)));
                }
            }
            report.rows.push(Row::of("hello, world", usize::from(connections), 0, &hellos));
            let rows = cells.iter().map(|(what, _, engines, rounds)| (what, engines, rounds));
            let rows = rows.map(|(what, engines, rounds)| Row::of(what, usize::from(connections), *engines, rounds));
            report.rows.extend(rows);
        }
        for server in engines.into_iter().chain([hello]) {
            server.stop().await?;
        }
        Ok(())
    }

    async fn samples(&self, report: &mut Report) -> anyhow::Result<()> {
        let database = self.database("samples");
        let engine = Server::engine(&database).await?;
        let token = server::token(&database).await?;
        let variants = [("samples, no free time", "p", PAYING_FROM), ("samples, drawing free time", "f", FREE_FROM)];
        for (what, prefix, first) in variants {
            let count = u64::try_from(SAMPLE_CONNECTIONS)?;
            self.set_up("making accounts", &engine, &accounts(prefix, count, &token)).await?;
            self.set_up("making keys", &engine, &keys(prefix, count, 1, &token)).await?;
            if first == FREE_FROM {
                self.set_up("granting free time", &engine, &grants(prefix, count, &token)).await?;
            }
            let now = Clock::system().now();
            let start = now.near(-SAMPLED_MS);
            let owners = (first..).step_by(LEASES).zip(0..count);
            let owners = owners.map(|(first, owner)| (first, format!("{prefix}-{owner:04}")));
            let leases = owners.clone().map(|(first, account)| admission(&account, first, start, &token));
            self.set_up("admitting leases", &engine, &leases.collect::<Vec<_>>()).await?;
            let works = owners.map(|(first, account)| Samples::of(&token, &account, first, start, now));
            let mut works: Vec<Samples> = works.collect();
            let mut rounds = Vec::new();
            for _ in 0..self.args.rounds {
                self.bar.set_message(what);
                let (pace, went_on) = self.measure(std::slice::from_ref(&engine), works).await?;
                works = went_on;
                rounds.push(Round::of(pace, BATCH_SAMPLES, None));
            }
            report.rows.push(Row::of(what, SAMPLE_CONNECTIONS, 1, &rounds));
        }
        engine.stop().await
    }

    async fn memory(&self) -> anyhow::Result<Memory> {
        let database = self.database("memory");
        let engine = Server::engine(&database).await?;
        let token = server::token(&database).await?;
        let empty_kib = engine.resident_kib()?;
        self.set_up("making an account", &engine, &accounts("m", 1, &token)).await?;
        self.set_up("making a key", &engine, &keys("m", 1, 1, &token)).await?;
        let now = Clock::system().now();
        let until = MEMORY_FROM.saturating_add(MEMORY_LEASES);
        let numbers = (MEMORY_FROM..until).step_by(LEASES);
        let leases: Vec<String> = numbers.clone().map(|first| admission("m-0000", first, now, &token)).collect();
        self.set_up("admitting 100,000 leases", &engine, &leases).await?;
        let admitted_kib = engine.resident_kib()?;
        self.bar.set_message("a sample of each");
        let works: Vec<Samples> = numbers.map(|first| Samples::of(&token, "m-0000", first, now, now)).collect();
        drive(&[engine.address], works, SETUP_TIME).await?;
        let sampled_kib = engine.resident_kib()?;
        engine.stop().await?;
        Ok(Memory { leases: MEMORY_LEASES, empty_kib, admitted_kib, sampled_kib })
    }
}

fn accounts(prefix: &str, count: u64, token: &str) -> Vec<String> {
    let one = |account| {
        let body = format!("{{\"id\":\"{prefix}-{account:04}\",\"name\":\"bench\",\"card_on_file\":true}}");
        post("/v1/accounts", token, &body)
    };
    (0..count).map(one).collect()
}

fn keys(prefix: &str, accounts: u64, keys: u64, token: &str) -> Vec<String> {
    let one = |(account, key)| {
        let body = format!("{{\"id\":\"k-{key:04}\",\"name\":\"bench\",\"daily_limit_micros\":9000000000000000}}");
        post(&format!("/v1/accounts/{prefix}-{account:04}/keys"), token, &body)
    };
    (0..accounts).flat_map(|account| (0..keys).map(move |key| (account, key))).map(one).collect()
}

fn grants(prefix: &str, count: u64, token: &str) -> Vec<String> {
    let one = |account| {
        let body = "{\"id\":\"bench\",\"sandbox_hours\":10000,\"starts_on\":\"2020-01-01\"}";
        post(&format!("/v1/accounts/{prefix}-{account:04}/grants"), token, body)
    };
    (0..count).map(one).collect()
}

/// A request for a thousand leases of two hours.
fn admission(account: &str, first: u64, start: Timestamp, token: &str) -> String {
    let starts_at = rfc3339(start);
    let one = |number| {
        format!(
            "{{\"id\":\"l-{number:012}\",\"sandbox\":\"s-{number:012}\",\"kind\":\"create\",\"vcpus\":1,\"memory_mib\":512,\
             \"timeout_seconds\":7200,\"starts_at\":\"{starts_at}\"}}"
        )
    };
    let leases: Vec<String> = (first..first.saturating_add(BATCH_SAMPLES)).map(one).collect();
    let body = format!("{{\"key\":\"k-0000\",\"leases\":[{}]}}", leases.join(","));
    post(&format!("/v1/accounts/{account}/leases"), token, &body)
}
