//! `runtab verify`: computes from the evidence everything that can be, and compares it with what is kept.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::close::month;
use super::format::grouped;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::id::AccountId;
use crate::domain::time::Month;
use crate::ledger::verify::{Difference, Sampled, Scope, Told, Verified};
use crate::secret;
use crate::wire::proof;

/// The flags of `runtab verify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Hours of usage, days of keys and accounts, free hours and invoices are computed
again from samples, leases, grants, draws and rate cards, and compared to the
unit. Each figure that differs is a line on standard output; the exit status is
1 when there is one. It changes nothing and may run beside engines.

With --evidence and --invoice no database is opened: every line of the invoice
(its JSON) is worked out from the file that `runtab evidence` wrote, and its
digest; it says `equal`, or the first line that differs.")]
pub struct VerifyArgs {
    /// One account only
    #[arg(long, value_name = "ID", value_parser = account)]
    account: Option<AccountId>,
    /// Usage, days and the invoice of one month only, such as 2026-11
    #[arg(long, value_name = "MONTH", value_parser = month)]
    month: Option<Month>,
    /// So many accounts only, chosen at random
    #[arg(long, value_name = "COUNT", conflicts_with = "account")]
    sample: Option<u32>,
    /// Check an invoice against this evidence, without a database
    #[arg(long, value_name = "FILE", requires = "invoice", conflicts_with_all = ["account", "month", "sample"])]
    evidence: Option<PathBuf>,
    /// The invoice to check, as JSON
    #[arg(long, value_name = "FILE", requires = "evidence")]
    invoice: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Reads an account's id of the command line.
pub(super) fn account(text: &str) -> Result<AccountId, String> {
    AccountId::parse(text).map_err(|bad| bad.to_string())
}

pub(super) async fn run(args: VerifyArgs) -> anyhow::Result<()> {
    if let (Some(evidence), Some(invoice)) = (&args.evidence, &args.invoice) {
        return offline(evidence, invoice);
    }
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(100));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let broken: Mutex<Option<std::io::Error>> = Mutex::new(None);
    let seed = secret::random_seed().map_err(|error| anyhow!("no random numbers: {error}"))?;
    let sample = args.sample.map(|accounts| Sampled { accounts, seed });
    let scope = Scope { account: args.account, month: args.month, sample };
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

/// Checks an invoice against its evidence: two files, no database.
fn offline(evidence: &Path, invoice: &Path) -> anyhow::Result<()> {
    let open = |path: &Path| format!("can't read {}", path.display());
    let file = File::open(evidence).with_context(|| open(evidence))?;
    let invoice = std::fs::read(invoice).with_context(|| open(invoice))?;
    let verdict = proof::check(&mut BufReader::new(file), &invoice).with_context(|| open(evidence))?;
    let mut out = std::io::stdout();
    for found in &verdict.found {
        writeln!(out, "{found}")?;
    }
    let checked = verdict.checked;
    anyhow::ensure!(verdict.found.is_empty(), "the invoice is not what the evidence makes");
    let (records, samples) = (grouped(checked.records), grouped(checked.samples));
    writeln!(out, "equal: {} lines of the invoice, {records} records, {samples} samples", checked.lines)?;
    Ok(())
}

fn print(found: &Difference) -> std::io::Result<()> {
    let Difference { account, table, row, column, kept, computed } = found;
    let off = kept.saturating_sub(*computed);
    writeln!(std::io::stdout(), "{account}: {table}: {row}: {column} is {kept}, should be {computed} (off by {off})")
}

fn counted(verified: &Verified) -> String {
    let unchecked = match verified.unchecked {
        0 => String::new(),
        rows => format!("{} not at hand in the evidence, ", grouped(rows)),
    };
    format!(
        "{} accounts, {} leases, {} samples, {} rows compared, {}{} differences",
        grouped(verified.accounts),
        grouped(verified.leases),
        grouped(verified.samples),
        grouped(verified.rows),
        unchecked,
        grouped(verified.differences),
    )
}
