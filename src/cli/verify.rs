//! `runtab verify`: computes from the evidence everything that can be, and compares it with what is kept.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::close::month;
use super::format::grouped;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::id::AccountId;
use crate::domain::time::Month;
use crate::ledger::verify::{Difference, Scope, Told, Verified};

/// The flags of `runtab verify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Hours of usage, days of keys and accounts, free hours and invoices are computed
again from samples, leases, grants, draws and rate cards, and compared to the
unit. Each figure that differs is a line on standard output; the exit status is
1 when there is one. It changes nothing and may run beside engines.")]
pub struct VerifyArgs {
    /// One account only
    #[arg(long, value_name = "ID", value_parser = account)]
    account: Option<AccountId>,
    /// Usage, days and the invoice of one month only, such as 2026-11
    #[arg(long, value_name = "MONTH", value_parser = month)]
    month: Option<Month>,
    #[command(flatten)]
    common: Common,
}

/// Reads an account's id of the command line.
pub(super) fn account(text: &str) -> Result<AccountId, String> {
    AccountId::parse(text).map_err(|bad| bad.to_string())
}

pub(super) async fn run(args: VerifyArgs) -> anyhow::Result<()> {
    let ledger = serve::open(&args.common.settings(None)?, Clock::system()).await?;
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(100));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let broken: Mutex<Option<std::io::Error>> = Mutex::new(None);
    let scope = Scope { account: args.account, month: args.month };
    let outcome = ledger
        .verify(&scope, &|told| match told {
            Told::Account(so_far) => bar.set_message(counted(&so_far)),
            Told::Difference(found) => {
                if let (Err(error), Ok(mut broken)) = (bar.suspend(|| print(&found)), broken.lock()) {
                    *broken = Some(error);
                }
            }
        })
        .await;
    bar.finish_and_clear();
    ledger.close().await;
    let verified = outcome?;
    if let Ok(Some(error)) = broken.into_inner() {
        return Err(error.into());
    }
    writeln!(std::io::stdout(), "{}", counted(&verified))?;
    if verified.differences > 0 {
        bail!("{} figures differ from the evidence", grouped(verified.differences));
    }
    Ok(())
}

fn print(found: &Difference) -> std::io::Result<()> {
    let Difference { account, table, row, column, kept, computed } = found;
    let off = kept.saturating_sub(*computed);
    writeln!(std::io::stdout(), "{account}: {table}: {row}: {column} is {kept}, should be {computed} (off by {off})")
}

fn counted(verified: &Verified) -> String {
    format!(
        "{} accounts, {} leases, {} samples, {} rows compared, {} differences",
        grouped(verified.accounts),
        grouped(verified.leases),
        grouped(verified.samples),
        grouped(verified.rows),
        grouped(verified.differences),
    )
}
