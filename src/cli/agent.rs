//! `runtab agent`: reads the sandboxes of this host and sends what it read.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::serve::Signals;
use crate::agent::registry::Registry;
use crate::agent::run;
use crate::config::agent::AgentSettings;
use crate::telemetry::logging;

/// The flags of `runtab agent`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Every setting is in config/agent.toml, with its unit, reason and variable
(RUNTAB_AGENT_SERVERS, RUNTAB_AGENT_TOKEN_FILE, ...); docs/AGENT.md says what a
sandbox's document is, and what happens in each failure.

Prints one line, `listening on http://ADDRESS:PORT`, on standard output when it
reads (`listening on PATH` where there is only a socket). On SIGTERM it takes a
last reading and keeps what is not sent yet on disk.")]
pub struct AgentArgs {
    /// A settings file (TOML); config/agent.toml lists what can be in it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check settings, credentials and the sandboxes' documents, say what is wrong, and end
    #[arg(long)]
    check: bool,
}

pub(super) async fn run(args: AgentArgs) -> anyhow::Result<()> {
    let settings = AgentSettings::load(args.config.as_deref(), &|name| std::env::var(name).ok())?;
    if args.check {
        return check(&settings, &mut std::io::stdout());
    }
    logging::init(settings.telemetry.log_format, &settings.telemetry.log_level)?;
    // Caught from here on, so that no signal falls between the start and the wait.
    let mut signals = Signals::new()?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    drop(tokio::spawn(async move {
        let name = signals.next().await;
        tracing::info!(signal = name, "taking a last reading");
        told.cancel();
    }));
    run::run(&settings, stop, |addresses| {
        let mut out = std::io::stdout();
        match (addresses.loopback, &addresses.socket) {
            (Some(address), _) => writeln!(out, "listening on http://{address}")?,
            (None, Some(path)) => writeln!(out, "listening on {}", path.display())?,
            (None, None) => {}
        }
        out.flush().context("standard output")
    })
    .await
}

/// What would stop the agent, or make it send nothing.
fn check(settings: &AgentSettings, out: &mut dyn Write) -> anyhow::Result<()> {
    crate::agent::transport::Transport::new(&settings.push)?;
    let token = std::fs::read_to_string(&settings.push.token_file);
    let token = token.with_context(|| settings.push.token_file.display().to_string())?;
    anyhow::ensure!(
        crate::secret::digest_of(token.trim()).is_some(),
        "{}: not a token of runtab's",
        settings.push.token_file.display()
    );
    let count = usize::try_from(settings.agent.sandboxes_max).unwrap_or(usize::MAX);
    let mut registry = Registry::open(&settings.agent.sandboxes_dir, count)?;
    let sandboxes = registry.refresh();
    let faults: Vec<String> = registry.faults().collect();
    for fault in &faults {
        writeln!(out, "{fault}")?;
    }
    anyhow::ensure!(faults.is_empty(), "{} documents are refused", faults.len());
    writeln!(out, "good: {} sandboxes", sandboxes.len())?;
    Ok(())
}
