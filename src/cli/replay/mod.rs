//! `runtab replay`: bills recorded traces through the ledger itself, under a clock of their own.
//!
//! Nothing is computed here that the ledger computes: a trace becomes what a control plane and a host would have said
//! ([`steps`]), and that is said to a ledger ([`play`]) whose clock goes with the trace. The tests bill the same files
//! a second time by a slow and simple model, and both agree to the unit.

pub mod bitbrains;
pub mod decimal;
pub mod planetlab;
pub mod play;
pub mod report;
mod samples;
pub mod steps;
pub mod trace;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::format::parse_time;
use super::{Common, serve};
use crate::clock::Clock;
use crate::config::store::DatabaseUrl;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::time::Timestamp;
use play::Payer;
use steps::Vm;

/// The flags of `runtab replay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Formats are told by content, not by name; gzip is inflated:
  Bitbrains GWA-T-12   a VM a file: time, cores, CPU in per cent, memory
  PlanetLab            a VM a file: CPU in per cent each 5 minutes, a line each
  runtab samples       NDJSON as for POST /v1/samples

The counter that the ledger sees is the exact integral of the reported CPU. A
row counts to the next one, at most an hour; after a longer silence nothing is
billed until the next row. Another size is another lease; 0 cores is off. Every
row that is refused is counted by its code, and the first ones are named.")]
pub struct ReplayArgs {
    /// Trace files, or folders of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The account that is billed; it is made, with a card on file, where it is missing
    #[arg(long, default_value = "replay", value_parser = |text: &str| AccountId::parse(text))]
    account: AccountId,
    /// vCPUs of a VM whose trace does not say
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=1_024))]
    vcpus: i64,
    /// Memory in MiB of a VM whose trace does not say
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(i64).range(1..=67_108_864))]
    memory_mib: i64,
    /// When a trace without times starts [default: midnight of the day that its folder is named by]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    starts_at: Option<Timestamp>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// What is taken where a trace does not say.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// vCPUs: 1 to 1,024.
    pub vcpus: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// When a trace without times starts.
    pub starts_at: Option<Timestamp>,
}

/// Reads the files that the arguments name into VMs.
pub fn load(arguments: &[PathBuf], defaults: &Defaults) -> anyhow::Result<Vec<Vm>> {
    let mut vms = Vec::new();
    for path in trace::files(arguments)? {
        vms.extend(trace::load(&path, defaults)?);
    }
    Ok(vms)
}

pub(super) async fn run(args: ReplayArgs) -> anyhow::Result<()> {
    let defaults = Defaults { vcpus: args.vcpus, memory_mib: args.memory_mib, starts_at: args.starts_at };
    let vms = load(&args.files, &defaults)?;
    let start = play::span(&vms).context("no row of these traces makes a lease or a sample")?.start;
    let mut settings = args.common.settings(None)?;
    // A ledger of its own, unless one is named: a trace of another year has no place in the one that is in use.
    let directory = tempfile::tempdir().context("no temporary directory")?;
    if args.common.database.is_none() {
        settings.store.database = DatabaseUrl::sqlite(&directory.path().join("replay.db"));
    }
    let clock = Clock::test(start);
    let ledger = serve::open(&settings, clock.clone()).await?;
    let steps = vms.iter().map(|vm| vm.steps.len()).sum::<usize>();
    let bar = progress_bar(steps);
    let payer = Payer { account: args.account, key: KeyId::parse("replay")? };
    let outcome = play::play(&ledger, &clock, &payer, vms, &|done| bar.inc(u64::try_from(done).unwrap_or(0))).await;
    bar.finish_and_clear();
    let outcome = outcome?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", report::json(&outcome))?;
    } else {
        for line in report::text(&outcome) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// A bar on standard error; it is silent where that is no terminal.
fn progress_bar(steps: usize) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    match indicatif::ProgressStyle::with_template("{bar:40} {percent:>3} %  {human_pos} of {human_len} steps  {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
