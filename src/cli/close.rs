//! `runtab close`: closes a month and makes its invoices final.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::format::grouped;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::time::Month;
use crate::wire::time::{parse_month, show_month};

/// The flags of `runtab close`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Months before it that are not closed are closed with it. It can be stopped at
any time and run again: it goes on where it was, and a month that is closed
stays as it is. Engines may serve the same database meanwhile.")]
pub struct CloseArgs {
    /// Which month, such as 2026-11; it must have ended
    #[arg(value_name = "MONTH", value_parser = month)]
    month: Month,
    #[command(flatten)]
    common: Common,
}

/// Reads a month of the command line.
pub(super) fn month(text: &str) -> Result<Month, String> {
    parse_month(text).ok_or_else(|| "must be a month such as 2026-11".to_owned())
}

pub(super) async fn run(args: CloseArgs) -> anyhow::Result<()> {
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(100));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let count = |count: usize| grouped(u64::try_from(count).unwrap_or(u64::MAX));
    let outcome = ledger
        .close_month(args.month, &|now| {
            let (accounts, invoices) = (count(now.accounts), count(now.invoices));
            bar.set_message(format!("{}: {accounts} accounts, {invoices} new invoices", show_month(now.month)));
        })
        .await;
    bar.finish_and_clear();
    ledger.close().await;
    let closed = outcome?;
    writeln!(std::io::stdout(), "{} is closed: {} invoices", show_month(closed.month), closed.invoices)?;
    Ok(())
}
