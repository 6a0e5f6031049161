//! The servers that are measured: this very program, as child processes, so that neither the client's memory nor its
//! runtime is theirs.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// A server as a child process; killed when it is dropped.
pub(super) struct Server {
    /// Where it listens.
    pub(super) address: SocketAddr,
    child: Child,
}

impl Server {
    /// An engine on a database, with no welcome hours: who gets free time is up to the bench.
    pub(super) async fn engine(database: &str) -> anyhow::Result<Self> {
        Self::start(&["serve", "--listen", "127.0.0.1:0", "--database", database]).await
    }

    /// The hello-world server.
    pub(super) async fn hello() -> anyhow::Result<Self> {
        Self::start(&["bench-hello"]).await
    }

    async fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .env("RUNTAB_LEDGER_WELCOME_HOURS", "0")
            .env("RUNTAB_LOG_LEVEL", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("a server can't be started")?;
        let out = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(out).lines();
        let Some(line) = lines.next_line().await? else { bail!("a server ended before it listened") };
        let address = line.strip_prefix("listening on http://").context("a server did not say where it listens")?;
        Ok(Self { address: address.parse()?, child })
    }

    /// Resident memory, in KiB (`VmRSS` of `/proc/PID/status`).
    pub(super) fn resident_kib(&self) -> anyhow::Result<u64> {
        let pid = self.child.id().context("the server has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }

    /// Ends it and waits until it is gone.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("a server can't be ended")
    }
}

/// An admin's token in a database.
pub(super) async fn token(database: &str) -> anyhow::Result<String> {
    let made = Command::new(std::env::current_exe()?)
        .args(["token", "create", "--role", "admin", "--database", database])
        .stderr(Stdio::inherit())
        .output()
        .await?;
    if !made.status.success() {
        bail!("no token could be made in this database");
    }
    Ok(String::from_utf8(made.stdout)?.trim().to_owned())
}

/// Serves `hello` on a free port until it is killed.
pub(in crate::cli) async fn be_hello() -> anyhow::Result<()> {
    use axum::serve::ListenerExt as _;
    use std::io::Write as _;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let router = axum::Router::new().route("/", axum::routing::get(async || "hello, world"));
    Ok(axum::serve(listener, router).await?)
}
