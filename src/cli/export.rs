//! `runtab export`: a month's bills of all accounts as FOCUS rows, in constant memory.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::close::month;
use super::format::grouped;
use super::verify::account;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::id::AccountId;
use crate::domain::time::Month;
use crate::ledger::Ledger;
use crate::report::focus::{FocusFile, Format};

/// The flags of `runtab export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A row is what one sandbox used of one resource in one hour, at its price; the
rows of an account sum to its invoice's amount due. The columns are those of
FOCUS, the FinOps Open Cost and Usage Specification (docs/FOCUS.md). A month
that is not closed is exported as it stands. Engines may serve the same database
meanwhile: each account is read from one snapshot.")]
pub struct ExportArgs {
    /// Which month, such as 2026-11
    #[arg(value_name = "MONTH", value_parser = month)]
    month: Month,
    /// One account only
    #[arg(long, value_name = "ID", value_parser = account)]
    account: Option<AccountId>,
    /// As what [default: by the end of --output's name, else csv]
    #[arg(long, value_enum)]
    format: Option<FormatWord>,
    /// Where to: a file, which is there only once it is whole [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// The formats by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatWord {
    /// Comma-separated values (RFC 4180)
    Csv,
    /// Apache Parquet: typed columns
    #[cfg(feature = "parquet")]
    Parquet,
}

impl FormatWord {
    /// The format that the end of a file's name says.
    fn of_path(path: &Path) -> Self {
        match path.extension() {
            #[cfg(feature = "parquet")]
            Some(end) if end == "parquet" => Self::Parquet,
            _ => Self::Csv,
        }
    }

    fn format(self) -> Format {
        match self {
            Self::Csv => Format::Csv,
            #[cfg(feature = "parquet")]
            Self::Parquet => Format::Parquet,
        }
    }
}

/// Where the bytes go. A file has another name until it is whole.
enum Output {
    Standard(std::io::Stdout),
    File { out: BufWriter<File>, partial: PathBuf, whole: PathBuf },
}

impl Output {
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(whole) = path else { return Ok(Self::Standard(std::io::stdout())) };
        let mut name = whole.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let file = File::create(&partial).with_context(|| format!("can't write {}", partial.display()))?;
        Ok(Self::File { out: BufWriter::new(file), partial, whole: whole.to_owned() })
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Standard(out) => out.write_all(bytes),
            Self::File { out, .. } => out.write_all(bytes),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Standard(mut out) => Ok(out.flush()?),
            Self::File { mut out, partial, whole } => {
                out.flush()?;
                out.get_ref().sync_all()?;
                drop(out);
                std::fs::rename(&partial, &whole).with_context(|| format!("can't make {}", whole.display()))
            }
        }
    }
}

pub(super) async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let settings = args.common.settings(None)?;
    let word = args.format.or_else(|| args.output.as_deref().map(FormatWord::of_path)).unwrap_or(FormatWord::Csv);
    let mut file = FocusFile::new(word.format(), &settings.invoice.seller_name)?;
    let mut output = Output::open(args.output.as_deref())?;
    let ledger = serve::open_known(&settings, Clock::system()).await?;
    let bar = progress();
    let outcome = export(&ledger, args.month, args.account.as_ref(), &mut file, &mut output, &bar).await;
    bar.finish_and_clear();
    ledger.close().await;
    let accounts = outcome?;
    let rows = file.rows();
    output.write(&file.finish()?)?;
    output.finish()?;
    writeln!(std::io::stderr(), "{} rows of {} accounts", grouped(rows), grouped(accounts))?;
    Ok(())
}

/// A spinner on standard error, where somebody looks at it.
pub(super) fn progress() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if std::io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(100));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// Writes the bills of all accounts, or of one. Answers how many have something on them.
async fn export(
    ledger: &Ledger,
    month: Month,
    only: Option<&AccountId>,
    file: &mut FocusFile,
    output: &mut Output,
    bar: &ProgressBar,
) -> anyhow::Result<u64> {
    if let Some(account) = only {
        let found = one(ledger, month, account, file, output).await?;
        let found = found.with_context(|| format!("there is no bill of {account} in this month yet"))?;
        return Ok(u64::from(found));
    }
    let (mut after, mut billed) = (None, 0_u64);
    loop {
        let accounts = ledger.accounts_after(after.as_ref()).await?;
        for account in &accounts {
            if one(ledger, month, account, file, output).await? == Some(true) {
                billed = billed.saturating_add(1);
            }
            bar.set_message(format!("{account}: {} rows of {} accounts", grouped(file.rows()), grouped(billed)));
        }
        match accounts.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(billed),
        }
    }
}

/// Writes the bill of one account; answers whether it has lines, or `None` where there is none.
async fn one(
    ledger: &Ledger,
    month: Month,
    account: &AccountId,
    file: &mut FocusFile,
    output: &mut Output,
) -> anyhow::Result<Option<bool>> {
    let Some(mut bill) = ledger.bill(account, month).await? else { return Ok(None) };
    if bill.invoice().lines.is_empty() {
        return Ok(Some(false));
    }
    file.begin(bill.invoice().clone(), bill.book());
    loop {
        let hours = bill.next().await?;
        if hours.is_empty() {
            break;
        }
        file.hours(&hours)?;
        output.write(&file.take()?)?;
    }
    file.end()?;
    output.write(&file.take()?)?;
    Ok(Some(true))
}
