//! `runtab serve`, and the one place where an engine is put together: store, ledger, jobs, HTTP.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Common;
use super::format::parse_time;
use crate::clock::Clock;
use crate::config::Settings;
use crate::config::telemetry::{LogFormat, Telemetry};
use crate::domain::time::Timestamp;
use crate::ledger::Ledger;

/// The flags of `runtab serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Prints one line, `listening on http://ADDRESS:PORT`, on standard output when it is ready. Logs go to standard error.
Try a day's limit or a month's invoice in seconds with --test-clock 2026-11-01T00:00:00Z: the clock then stands still
until PUT /v1/test-clock {\"now\":\"...\"} (admin) moves it forward.")]
pub struct ServeArgs {
    #[command(flatten)]
    common: Common,
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Start with a clock that stands still at this time, for tests
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    test_clock: Option<Timestamp>,
}

/// A running engine with its HTTP edge.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    stop: CancellationToken,
    server: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// `http://ADDRESS:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops listening, finishes what was accepted within the drain deadline, and closes the store.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.server.await.context("the server's task broke off")?
    }

    /// Waits until the server ends by itself, which is a fault.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.server).await.context("the server's task broke off")?
    }
}

/// Starts an engine: opens the database (bringing its tables up to date), starts the ledger and its jobs, and listens.
/// When it returns, requests are answered.
pub async fn start(settings: &Settings, clock: Clock) -> anyhow::Result<(Running, Ledger)> {
    let ledger = open(settings, clock.clone()).await?;
    let listener = TcpListener::bind(settings.server.listen)
        .await
        .with_context(|| format!("can't listen on {}", settings.server.listen))?;
    let address = listener.local_addr().context("no local address")?;
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve_http(listener, ledger.clone(), clock, settings.clone(), stop.clone()));
    Ok((Running { address, stop, server }, ledger))
}

// The adapters: the only lines that name the store, the ledger's start, the jobs and the HTTP edge.

/// Opens the database that the settings name, brings its tables up to date, and starts the ledger over it.
pub async fn open(settings: &Settings, clock: Clock) -> anyhow::Result<Ledger> {
    let _ = clock;
    migrate(settings).await?;
    anyhow::bail!("this build has no ledger")
}

/// Brings the tables of the database that the settings name up to date.
#[expect(clippy::unused_async, reason = "the store's migration is awaited here")]
pub async fn migrate(settings: &Settings) -> anyhow::Result<()> {
    anyhow::bail!("this build has no store for {}", settings.store.database)
}

/// The OpenAPI document of the HTTP edge, as JSON text.
pub fn openapi_json() -> anyhow::Result<String> {
    anyhow::bail!("this build has no HTTP edge")
}

#[expect(clippy::unused_async, reason = "the HTTP edge is awaited here")]
async fn serve_http(
    listener: TcpListener,
    ledger: Ledger,
    clock: Clock,
    settings: Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    drop((listener, ledger, clock, settings, stop));
    anyhow::bail!("this build has no HTTP edge")
}

// The command.

pub(super) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let settings = args.common.settings(args.listen)?;
    log_to_stderr(&settings.telemetry)?;
    let clock = args.test_clock.map_or_else(Clock::system, Clock::test);
    // Caught from here on, so that no signal falls between the start and the wait.
    let mut signals = Signals::new()?;
    let (mut running, _ledger) = start(&settings, clock).await?;
    {
        let mut out = std::io::stdout();
        writeln!(out, "listening on {}", running.url())?;
        out.flush()?;
    }
    tracing::info!(address = %running.address, database = %settings.store.database, "ready");
    tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "finishing what was accepted");
            running.shutdown().await
        }
        ended = running.ended() => ended,
    }
}

/// The two signals that ask a program to stop.
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Catches SIGINT and SIGTERM from now on.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them and says its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

fn log_to_stderr(telemetry: &Telemetry) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&telemetry.log_level)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let done = match telemetry.log_format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    done.map_err(|error| anyhow::anyhow!("can't start logging: {error}"))
}
