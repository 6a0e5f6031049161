//! `runtab archive`: says that the evidence of closed months is no longer at hand, before it is dropped.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::close::month;
use super::format::grouped;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::time::Month;
use crate::wire::time::show_month;

/// The flags of `runtab archive`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
From then on late samples of that month and of those before it are rejected as
`archived`, verify leaves them out, and what later months go on from is kept.
When it says so, the month's evidence may be dumped and dropped
(docs/OPERATIONS.md). It can be stopped and run again; it is not taken back.")]
pub struct ArchiveArgs {
    /// Which month, such as 2026-01; it must be closed
    #[arg(value_name = "MONTH", value_parser = month)]
    month: Month,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn run(args: ArchiveArgs) -> anyhow::Result<()> {
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(100));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let count = |count: usize| grouped(u64::try_from(count).unwrap_or(u64::MAX));
    let outcome =
        ledger.archive(args.month, &|accounts| bar.set_message(format!("{} accounts", count(accounts)))).await;
    bar.finish_and_clear();
    ledger.close().await;
    let archived = outcome?;
    let (from, kept) = (show_month(archived.evidence_from), count(archived.kept));
    let mut out = std::io::stdout();
    writeln!(out, "evidence is at hand from {from} on; {kept} samples kept that later months go on from")?;
    if let Some(month) = archived.needed_by {
        bail!("not to be dropped yet: {0} bills late usage of it; close {0}, then run this again", show_month(month));
    }
    writeln!(out, "the evidence of {} and before may be dumped and dropped", show_month(args.month))?;
    Ok(())
}
