//! `runtab serve`, and the one place where an engine is put together: store, ledger, jobs, HTTP.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

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
use crate::config::store::DatabaseUrl;
use crate::domain::admission::FreeCover;
use crate::domain::time::Timestamp;
use crate::http::{self, AppState, HttpSettings, Press};
use crate::ingest::remote_write::mapping::Mapping;
use crate::jobs;
use crate::ledger::Ledger;
use crate::ledger::batch::BatchLimits;
use crate::ledger::working_set::Rules;
#[cfg(feature = "pdf")]
use crate::report::pdf;
use crate::report::{FontFile, Seller};
use crate::store::Store;
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;

/// The flags of `runtab serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Prints one line, `listening on http://ADDRESS:PORT`, on standard output when it
is ready. Logs go to standard error.

Try a day's limit or a month's invoice in seconds with
--test-clock 2026-11-01T00:00:00Z: the clock then stands still until
PUT /v1/test-clock {\"now\":\"...\"} (admin) moves it forward.")]
pub struct ServeArgs {
    #[command(flatten)]
    common: Common,
    /// A read replica of the database, for lists, costs and balances
    #[arg(long, value_name = "postgres://...")]
    read_database: Option<DatabaseUrl>,
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
    let store = store(settings).await?;
    let seller = seller(settings)?;
    let ledger = over(store.clone(), settings, clock.clone()).await?;
    let listener = TcpListener::bind(settings.server.listen)
        .await
        .with_context(|| format!("can't listen on {}", settings.server.listen))?;
    let address = listener.local_addr().context("no local address")?;
    let stop = CancellationToken::new();
    // Ends with `stop`, like the rest.
    drop(tokio::spawn(jobs::evidence::run(store, stop.clone())));
    let server = tokio::spawn(serve_http(listener, ledger.clone(), clock, seller, settings.clone(), stop.clone()));
    Ok((Running { address, stop, server }, ledger))
}

// The adapters: the only lines that name the store, the ledger's start, the jobs and the HTTP edge.

/// Opens the database that the settings name, brings its tables up to date, and starts the ledger over it.
pub async fn open(settings: &Settings, clock: Clock) -> anyhow::Result<Ledger> {
    over(store(settings).await?, settings, clock).await
}

/// [`open`] for commands that look at what is there or change it: a file that is not there is told, and not made.
pub async fn open_known(settings: &Settings, clock: Clock) -> anyhow::Result<Ledger> {
    if let Some(file) = settings.store.database.file()
        && !file.exists()
    {
        let file = file.display();
        anyhow::bail!(
            "there is no database {file}: name one by --database or RUNTAB_DATABASE (`runtab migrate` makes it)"
        );
    }
    open(settings, clock).await
}

async fn over(store: Store, settings: &Settings, clock: Clock) -> anyhow::Result<Ledger> {
    store.migrate().await.context("the tables could not be brought up to date")?;
    let rules = rules(settings).context("the settings were not checked")?;
    let count = |setting: i64| usize::try_from(setting).unwrap_or(usize::MAX);
    let limits = BatchLimits {
        commands_max: count(settings.ledger.batch_commands_max),
        slice_samples_max: count(settings.ledger.batch_samples_max),
        queue_max: count(settings.ledger.queue_commands_max),
        sample_batches_max: count(settings.store.sample_writers),
        batch_ms_max: settings.store.batch_ms_max(),
    };
    Ok(Ledger::start(store, clock, rules, limits))
}

async fn store(settings: &Settings) -> anyhow::Result<Store> {
    let options = settings.store.options();
    let database = &settings.store.database;
    let store = Store::open(database.expose(), options).await;
    let store = store.with_context(|| format!("can't open the database {database}"))?;
    Ok(match settings.store.reports() {
        Some(replica) => store.with_reports(replica.expose(), options),
        None => store,
    })
}

fn rules(settings: &Settings) -> Option<Rules> {
    let shape = settings.ledger.free_shape()?;
    Some(Rules {
        settle_after_ms: settings.ledger.settle_after_ms(),
        cover: FreeCover { vcpus: shape.vcpus, memory: shape.memory, disk: settings.ledger.free_disk()? },
        welcome_ms: settings.ledger.welcome_hours.checked_mul(3_600_000)?,
        list: settings.rates.list_card()?,
        stale_after_ms: settings.ledger.stale_after_ms(),
        rejected_kept: settings.ledger.rejected_kept,
    })
}

/// Who sends invoices, with the fonts that the settings name.
pub fn seller(settings: &Settings) -> anyhow::Result<Seller> {
    let mut fonts = Vec::new();
    for path in settings.invoice.fonts() {
        let bytes = std::fs::read(path).with_context(|| format!("can't read the font {}", path.display()))?;
        #[cfg(feature = "pdf")]
        anyhow::ensure!(pdf::is_font(&bytes), "{} is neither a TrueType nor an OpenType font", path.display());
        fonts.push(FontFile(Arc::new(bytes)));
    }
    Ok(settings.invoice.seller(fonts))
}

/// Brings the tables of the database that the settings name up to date.
pub async fn migrate(settings: &Settings) -> anyhow::Result<()> {
    let store = store(settings).await?;
    store.migrate().await.context("the tables could not be brought up to date")?;
    store.close().await;
    Ok(())
}

/// The OpenAPI document of the HTTP edge, as JSON text.
#[must_use]
pub fn openapi_json() -> String {
    http::openapi_json()
}

async fn serve_http(
    listener: TcpListener,
    ledger: Ledger,
    clock: Clock,
    seller: Seller,
    settings: Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let sweeper = tokio::spawn(jobs::settle::run(ledger.clone(), stop.clone()));
    let close_after_ms = settings.ledger.close_after_ms();
    let closer = tokio::spawn(jobs::close_month::run(ledger.clone(), clock.clone(), close_after_ms, stop.clone()));
    let mapping = Arc::new(Mapping::new(settings.remote_write.clone()));
    let metrics = Metrics::new().context("the metrics can't be registered")?;
    let every = settings.remote_write.watch_interval();
    let watcher = jobs::watch::run(ledger.clone(), mapping.rules(), metrics.clone(), every, stop.clone());
    let watcher = tokio::spawn(watcher);
    let verifier = tokio::spawn(jobs::verify::run(ledger.clone(), settings.ledger.verify_daily(), stop.clone()));
    let state = AppState {
        ledger: ledger.clone(),
        clock,
        seller,
        press: Press::default(),
        metrics,
        remote_write: mapping,
        settings: HttpSettings {
            requests_in_flight_max: settings.server.request_limit(),
            request_timeout: settings.server.request_timeout(),
            body_bytes_max: settings.server.body_limit(),
            samples_bytes_max: settings.server.samples_limit(),
        },
    };
    http::serve(listener, state, stop.clone(), settings.server.drain_deadline()).await;
    stop.cancel();
    sweeper.await.context("the settling job broke off")?;
    closer.await.context("the closing job broke off")?;
    watcher.await.context("the watching job broke off")?;
    verifier.await.context("the verifying job broke off")?;
    ledger.close().await;
    Ok(())
}

// The command.

pub(super) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let mut settings = args.common.settings(args.listen)?;
    if let Some(replica) = args.read_database {
        anyhow::ensure!(replica.is_known(), "--read-database {replica} is neither sqlite:PATH nor postgres://...");
        settings.store.read_database = replica;
    }
    logging::init(settings.telemetry.log_format, &settings.telemetry.log_level)?;
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
