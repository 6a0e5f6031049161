//! `runtab report`: an operator's month.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::close::month;
use super::export::progress;
use super::format::{Align, Table, grouped};
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::month_report::MonthReport;
use crate::domain::time::Month;
use crate::report::month::{Section, render_csv, render_html, sections, summary};
use crate::wire;

/// Accounts that a terminal shows.
const ACCOUNTS_MAX: usize = 20;

/// The flags of `runtab report`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Revenue by resource and account beside the month before, free hours and credit
given and used, time that nobody pays for and why, late usage, the keys that
cost most, and what was refused. A month that is not closed is shown as it
stands. It changes nothing and may run beside engines.")]
pub struct ReportArgs {
    /// Which month, such as 2026-11
    #[arg(value_name = "MONTH", value_parser = month)]
    month: Month,
    /// As what
    #[arg(long, value_enum, default_value_t = FormatWord::Table)]
    format: FormatWord,
    /// Where to [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// The formats by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatWord {
    /// Tables for a terminal
    Table,
    /// One document
    Json,
    /// A row a figure
    Csv,
    /// One self-contained page
    Html,
}

pub(super) async fn run(args: ReportArgs) -> anyhow::Result<()> {
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let bar = progress();
    let outcome = ledger.month_report(args.month, &|done| bar.set_message(format!("{} accounts", grouped(done)))).await;
    bar.finish_and_clear();
    ledger.close().await;
    let report = outcome?;
    let bytes = match args.format {
        FormatWord::Table => tables(&report)?.into_bytes(),
        FormatWord::Json => {
            let mut json = serde_json::to_vec_pretty(&wire::month_report::MonthReport::new(&report)?)?;
            json.push(b'\n');
            json
        }
        FormatWord::Csv => render_csv(&report)?,
        FormatWord::Html => render_html(&report)?,
    };
    match args.output {
        None => std::io::stdout().write_all(&bytes)?,
        Some(path) => std::fs::write(&path, bytes).with_context(|| format!("can't write {}", path.display()))?,
    }
    Ok(())
}

/// The report as text.
fn tables(report: &MonthReport) -> anyhow::Result<String> {
    let mut lines: Vec<String> =
        summary(report).into_iter().map(|(name, text)| format!("{:<14}{text}", format!("{name}:"))).collect();
    for section in sections(report, ACCOUNTS_MAX)? {
        lines.push(String::new());
        lines.push(section.title.to_owned());
        lines.extend(table(section));
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

fn table(section: Section) -> Vec<String> {
    if section.rows.is_empty() {
        return vec!["  none".to_owned()];
    }
    let align = |number: bool| if number { Align::Right } else { Align::Left };
    let columns: Vec<(&str, Align)> = section.columns.iter().map(|(name, number)| (*name, align(*number))).collect();
    let mut table = Table::new(&columns);
    for row in section.rows {
        // What people wrote can't move the cursor or the columns.
        table.row(row.into_iter().map(|cell| cell.replace(|char: char| char.is_control(), " ")).collect());
    }
    table.footing(section.sum);
    let mut lines = table.lines();
    if section.more > 0 {
        lines.push(format!("  and {} more; --format csv has all", section.more));
    }
    lines
}
