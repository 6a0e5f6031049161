//! `runtab evidence`: writes the evidence of a final invoice as one file, which `runtab verify` checks without a
//! database.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::close::month;
use super::verify::account;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::id::AccountId;
use crate::domain::proof::{ProofHead, Record};
use crate::domain::time::Month;
use crate::ledger::proof::Sink;
use crate::report::evidence::{head_line, record_line, tree};

/// The flags of `runtab evidence`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file is lines of JSON: samples, leases, free hours and rate cards that the
invoice was made from (docs/EVIDENCE.md). Check it with
runtab verify --evidence FILE --invoice FILE, anywhere, without a database.")]
pub struct EvidenceArgs {
    /// Whose
    #[arg(value_name = "ACCOUNT", value_parser = account)]
    account: AccountId,
    /// Which month's final invoice, such as 2026-11
    #[arg(value_name = "MONTH", value_parser = month)]
    month: Month,
    /// Where to write it [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Writes lines.
struct Lines<W> {
    out: W,
    line: String,
    failed: Option<std::io::Error>,
}

impl<W: Write> Lines<W> {
    fn write(&mut self) {
        self.line.push('\n');
        if self.failed.is_none() {
            self.failed = self.out.write_all(self.line.as_bytes()).err();
        }
    }
}

impl<W: Write + Send> Sink for Lines<W> {
    fn head(&mut self, head: &ProofHead) {
        self.line.clear();
        head_line(&mut self.line, head);
        self.write();
    }

    fn record(&mut self, record: &Record) {
        self.line.clear();
        record_line(&mut self.line, record);
        self.write();
    }

    async fn pass_on(&mut self) -> Result<(), String> {
        // The cause is told by the caller.
        if self.failed.is_some() { Err("the evidence can't be written".to_owned()) } else { Ok(()) }
    }
}

pub(super) async fn run(args: EvidenceArgs) -> anyhow::Result<()> {
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let out: Box<dyn Write + Send> = match &args.output {
        Some(path) => Box::new(File::create(path).with_context(|| format!("can't write {}", path.display()))?),
        None => Box::new(std::io::stdout()),
    };
    let mut lines = Lines { out: BufWriter::new(out), line: String::new(), failed: None };
    let read = ledger.evidence(&args.account, args.month, &mut lines).await;
    ledger.close().await;
    if let Some(error) = lines.failed {
        return Err(error.into());
    }
    let invoice = read?;
    lines.out.flush()?;
    if args.output.is_some() {
        let number = invoice.number().map(|number| number.to_string()).unwrap_or_default();
        let digest = invoice.digests.map_or_else(|| "none".to_owned(), |digests| tree::hex(&digests.evidence));
        writeln!(std::io::stdout(), "evidence of {number}, digest {digest}")?;
    }
    Ok(())
}
