//! The agent put together: the meter's thread, the loop that sends, the watcher, and the two addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::api::{self, PushHealth, Shared};
use super::clock::{HostTime, Time};
use super::host::Machine;
use super::meter::{Meter, MeterSettings};
use super::orders::{self, Order};
use super::push::Pusher;
use super::sandbox::{Key, Place};
use super::schedule::{Backoff, phase_ms, until_push};
use super::spool::{self, Rejected};
use super::transport::Transport;
use super::watch::{Seen, Watcher};
use crate::config::agent::{AgentSettings, SourceKind};
use crate::telemetry::agent::AgentMetrics;

/// Where the agent can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Metrics and health.
    pub loopback: Option<SocketAddr>,
    /// Sandboxes, metrics and health.
    pub socket: Option<PathBuf>,
}

/// The bounds of the meter and its spool, as the settings say them.
#[must_use]
pub fn meter_settings(settings: &AgentSettings) -> MeterSettings {
    let hours = |hours: i64| hours.saturating_mul(3_600_000);
    MeterSettings {
        sandboxes_dir: settings.agent.sandboxes_dir.clone(),
        state_dir: settings.agent.state_dir.clone(),
        interval_ms: settings.agent.interval_ms,
        storage_interval_ms: settings.agent.storage_interval_ms,
        sandboxes_max: usize::try_from(settings.agent.sandboxes_max).unwrap_or(usize::MAX),
        spool: spool::Limits {
            bytes_max: settings.spool.bytes_max.unsigned_abs(),
            segment_bytes_max: settings.spool.segment_bytes_max.unsigned_abs(),
            unanswered_ms_max: hours(settings.spool.unanswered_hours_max),
            answered_ms: hours(settings.spool.answered_hours),
        },
    }
}

/// The host's id: as the settings say, or the machine's name.
fn host_id(settings: &AgentSettings) -> String {
    if !settings.agent.host.is_empty() {
        return settings.agent.host.clone();
    }
    std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}

fn boot_id() -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    std::fs::read_to_string(path).map(|id| id.trim().to_owned()).context(path)
}

/// Runs until `stop`; `ready` is told where it can be asked. Then a last reading is taken, and everything is on disk.
pub async fn run(
    settings: &AgentSettings,
    stop: CancellationToken,
    ready: impl FnOnce(&Addresses) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let time: Arc<dyn Time> = Arc::new(HostTime::new());
    let metrics = AgentMetrics::new().context("the metrics can't be registered")?;
    let transport = Transport::new(&settings.push)?;
    let source = &settings.source;
    let machine = Machine::new(source.kind, &source.root, &source.pattern);
    let meter = Meter::open(meter_settings(settings), machine, &boot_id()?, metrics.clone(), time.now())
        .context("the agent's directories can't be used")?;
    let host = host_id(settings);
    let pusher = pusher(settings, &host, &meter, &metrics);
    let watcher = watcher(&meter, source.kind, &source.root);
    let (sender, inbox) = channel();

    let push = PushHealth::default();
    let shared = Shared { orders: sender.clone(), metrics, push: push.clone(), time: Arc::clone(&time) };
    let addresses = listen(settings, &shared, &stop).await?;
    let (their_time, their_watcher) = (Arc::clone(&time), watcher.clone());
    let thread = std::thread::Builder::new().name("meter".to_owned()).spawn(move || {
        let mut places = |machine: &mut Machine, places| follow(their_watcher.as_ref(), machine, places);
        orders::run(meter, their_time.as_ref(), &inbox, &mut places);
    })?;
    if let Some(watcher) = watcher {
        let orders = sender.clone();
        drop(std::thread::Builder::new().name("watch".to_owned()).spawn(move || notice(&watcher, &orders))?);
    }
    ready(&addresses)?;
    tracing::info!(host, servers = ?settings.push.servers.addresses(), "the agent reads and sends");
    let sending = Sending { pusher, transport, time, push, orders: sender.clone() };
    tokio::select! {
        () = sending.run(settings.push.period_ms, phase_ms(&host, settings.push.period_ms)) => {}
        () = stop.cancelled() => {}
    }
    // The thread has gone only if it broke off, which the join tells.
    drop(sender.send(Order::Stop));
    let joined = tokio::task::spawn_blocking(move || thread.join()).await.context("the last reading broke off")?;
    if let Some(path) = addresses.socket {
        drop(std::fs::remove_file(path));
    }
    joined.map_err(|_| anyhow::anyhow!("the meter's thread broke off"))
}

fn pusher(settings: &AgentSettings, host: &str, meter: &Meter<Machine>, metrics: &AgentMetrics) -> Pusher {
    let directory = spool::directory(&settings.agent.state_dir);
    let rejected = Rejected::new(&directory, settings.spool.rejected_bytes_max.unsigned_abs());
    let push = &settings.push;
    let seed = phase_ms(host, i64::MAX).unsigned_abs();
    let backoff = Backoff::new(push.backoff_ms, push.backoff_ms_max, seed);
    let servers = push.servers.addresses().to_vec();
    Pusher::new(meter.spool(), rejected, servers, backoff, push.samples_max.unsigned_abs(), metrics.clone())
}

fn watcher(meter: &Meter<Machine>, kind: SourceKind, root: &Path) -> Option<Watcher> {
    // Only cgroup v2 tells ends; of the others the documents are watched alone.
    let root = if kind == SourceKind::Cgroup2 { root } else { Path::new("") };
    match Watcher::new(meter.directory(), root) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "changes can't be watched: they are seen at the next round");
            None
        }
    }
}

fn follow(watcher: Option<&Watcher>, machine: &mut Machine, places: BTreeMap<Key, Place>) {
    if let Some(watcher) = watcher {
        let events = places.into_iter().filter_map(|(key, place)| Some((key, machine.events(&place)?)));
        watcher.follow(&events.collect());
    }
}

/// Hands on what the watcher sees, on a thread of its own, for it waits blocking; it ends with the process.
fn notice(watcher: &Watcher, orders: &Sender<Order>) {
    loop {
        let seen = match watcher.next() {
            Ok(seen) => seen,
            Err(error) => {
                tracing::error!(%error, "changes are not watched any more: they are seen at the next round");
                return;
            }
        };
        for one in seen {
            let order = match one {
                Seen::Documents => Order::Documents,
                Seen::Groups(keys) => Order::Groups(keys),
            };
            if orders.send(order).is_err() {
                return;
            }
        }
    }
}

/// Listens on the addresses that the settings name.
async fn listen(settings: &AgentSettings, shared: &Shared, stop: &CancellationToken) -> anyhow::Result<Addresses> {
    let mut addresses = Addresses { loopback: None, socket: None };
    let wanted = settings.agent.loopback().map_err(|bad| anyhow::anyhow!("{}: {}", bad.key, bad.detail))?;
    if let Some(address) = wanted {
        let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?;
        addresses.loopback = Some(listener.local_addr()?);
        let server = axum::serve(listener, api::watching(shared.clone()));
        drop(tokio::spawn(server.with_graceful_shutdown(stop.clone().cancelled_owned()).into_future()));
    }
    let path = &settings.agent.socket;
    if !path.as_os_str().is_empty() {
        let listener = bind(path).await.with_context(|| format!("can't listen on {}", path.display()))?;
        addresses.socket = Some(path.clone());
        let server = axum::serve(listener, api::socket(shared.clone()));
        drop(tokio::spawn(server.with_graceful_shutdown(stop.clone().cancelled_owned()).into_future()));
    }
    Ok(addresses)
}

/// Takes over the socket of a process that is gone, but not of one that answers.
async fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if path.exists() {
        anyhow::ensure!(UnixStream::connect(path).await.is_err(), "another agent listens there");
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// The loop that sends.
struct Sending {
    pusher: Pusher,
    transport: Transport,
    time: Arc<dyn Time>,
    push: PushHealth,
    orders: Sender<Order>,
}

impl Sending {
    async fn run(mut self, period_ms: i64, phase_ms: i64) {
        loop {
            let wait_ms = match self.once().await {
                Ok(wait_ms) => wait_ms,
                Err(error) => {
                    tracing::error!(%error, "the spool can't be read");
                    self.push.set(Some(&format!("the spool can't be read: {error}")), self.time.now().real);
                    Some(period_ms)
                }
            };
            let wait_ms = wait_ms.unwrap_or_else(|| until_push(self.time.now().real, period_ms, phase_ms));
            tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs())).await;
        }
    }

    /// Sends what is there; how long to wait then, or until the host's moment.
    async fn once(&mut self) -> std::io::Result<Option<i64>> {
        let Some((server, batch)) = self.pusher.take()? else { return Ok(None) };
        let outcome = self.transport.send(&server, batch.body.clone()).await;
        let now = self.time.now().real;
        let next = self.pusher.sent(&batch, outcome, now)?;
        self.push.set(self.pusher.trouble(), now);
        if next.future {
            tracing::warn!("a server calls our samples future ones: this host's clock is ahead of its");
            // When the meter has gone, so have its labels.
            drop(self.orders.send(Order::ReleaseLabels));
        }
        Ok(next.wait_ms)
    }
}
