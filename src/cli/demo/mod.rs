//! `runtab demo`: a whole tab in half a minute, with nothing to set up and without root.
//!
//! An engine on a file of its own in a temporary folder, three child processes as pretend sandboxes, metered as a host
//! meters real ones, and every step over HTTP with the token of the caller whose step it is.

pub mod client;
pub mod loads;
mod scenario;
pub mod screen;

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::Args;

use super::serve::{self, Signals};
use crate::clock::Clock;
use crate::config::Settings;
use crate::config::store::DatabaseUrl;
use scenario::Scenario;
use screen::{Mark, Screen};

/// The flags of `runtab demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Starts an engine on a free port of this machine and three child processes as
pretend sandboxes, meters them for half a minute, is refused on purpose, pauses
and wakes one, and ends with a statement in which every row adds up. Nothing is
left behind: the processes end with the demo, and its folder goes.")]
pub struct DemoArgs {
    /// End after the statement instead of serving on until Ctrl-C
    #[arg(long)]
    once: bool,
}

pub(super) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let folder = tempfile::Builder::new().prefix("runtab-demo-").tempdir().context("no temporary folder")?;
    let mut settings = Settings::default();
    settings.store.database = DatabaseUrl::sqlite(&folder.path().join("runtab.db"));
    settings.server.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let clock = Clock::system();
    let (running, ledger) = serve::start(&settings, clock.clone()).await?;
    let terminal = std::io::stdout().is_terminal();
    let mut screen = Screen::new(std::io::stdout(), terminal);
    let url = running.url();
    let played = tokio::select! {
        played = play(&mut screen, &url, ledger, clock, folder.path(), !args.once) => Some(played),
        _ = signals.next() => None,
    };
    // The pretend sandboxes are gone by here, however it ended.
    screen.close()?;
    match played {
        Some(Ok(())) if !args.once => {
            screen.event(Mark::Note, "serving on; Ctrl-C ends it")?;
            signals.next().await;
        }
        Some(Ok(())) => {}
        None => screen.event(Mark::Note, "stopped")?,
        Some(Err(error)) => {
            running.shutdown().await?;
            return Err(error);
        }
    }
    running.shutdown().await
}

async fn play(
    screen: &mut Screen<std::io::Stdout>,
    url: &str,
    ledger: crate::ledger::Ledger,
    clock: Clock,
    folder: &std::path::Path,
    serves_on: bool,
) -> anyhow::Result<()> {
    let mut scenario = Scenario::new(screen, url, &ledger, clock).await?;
    scenario.customers().await?;
    scenario.play(folder).await?;
    scenario.tab(serves_on).await
}
