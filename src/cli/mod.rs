//! The command line: choose and wire.
//!
//! What a person reads as a result goes to standard output; progress, logs and errors go to standard error. The exit
//! status is 0 when the command did what it says, 1 when it could not, 2 when the command line itself is wrong.

pub mod agent;
pub mod archive;
pub mod bench;
pub mod close;
pub mod demo;
pub mod evidence;
pub mod export;
pub mod format;
pub mod invoice;
pub mod migrate;
pub mod openapi;
pub mod replay;
pub mod report;
pub mod serve;
pub mod token;
pub mod verify;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::store::DatabaseUrl;
use crate::config::{ConfigError, Flags, Settings};

const ABOUT: &str = "Usage metering, spending limits and billing for a microVM sandbox cloud";

const LONG_ABOUT: &str = "runtab runs the tab of a microVM sandbox cloud.

The control plane asks it before every sandbox that starts: may this one run?
Hosts push CPU, memory and storage samples to it. Dashboards and people read
costs, balances and invoices from it, in whole microdollars that add up.";

const AFTER_HELP: &str = "\
Begin here:
  runtab demo                              see it work, in under a minute, with nothing to set up
  runtab token create --role admin         make a token in ./runtab.db
  runtab serve                             serve that database on http://127.0.0.1:8080
  runtab replay trace.csv                  bill a recorded trace

Settings come from a file (--config, TOML), environment variables
(RUNTAB_DATABASE, RUNTAB_LISTEN, ...) and flags; the later wins.
config/default.toml lists every setting with its unit, reason and variable.";

#[derive(Debug, Parser)]
#[command(name = "runtab", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API until SIGTERM or Ctrl-C, then finish what was accepted
    Serve(serve::ServeArgs),
    /// Read the sandboxes of this host and send their samples to a server
    Agent(agent::AgentArgs),
    /// Make, list and revoke operator tokens
    Token(token::TokenArgs),
    /// Bring a database's tables up to date
    Migrate(migrate::MigrateArgs),
    /// Close a month: make its invoices final
    Close(close::CloseArgs),
    /// Write a month's bills of all accounts, hour by hour, for cost tools (FOCUS)
    Export(export::ExportArgs),
    /// Show a month to its operator: revenue, what was given away, what nobody pays for
    Report(report::ReportArgs),
    /// Correct final invoices by notes, and record what becomes of them
    Invoice(invoice::InvoiceArgs),
    /// Compute everything again from the evidence, and say what differs
    Verify(verify::VerifyArgs),
    /// Say that evidence of closed months is archived, before it is dropped
    Archive(archive::ArchiveArgs),
    /// Write the evidence of a final invoice as a file that anyone can check
    Evidence(evidence::EvidenceArgs),
    /// Print the OpenAPI document of the API
    Openapi,
    /// Meter real processes on this machine and watch their tab, with nothing to set up
    Demo(demo::DemoArgs),
    /// Bill recorded traces through the ledger, under a clock of their own
    Replay(replay::ReplayArgs),
    /// Measure admissions, samples and memory on this machine, beside a hello-world server
    Bench(bench::BenchArgs),
    /// The hello-world server of the bench
    #[command(hide = true)]
    BenchHello,
    /// A pretend sandbox of the demo
    #[command(hide = true)]
    SandboxLoad(demo::loads::LoadArgs),
}

/// What every command that opens a database takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// A settings file (TOML); config/default.toml lists what can be in it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the ledger is kept, a SQLite file or a PostgreSQL database [default: sqlite:runtab.db]
    #[arg(long, value_name = "sqlite:PATH|postgres://...")]
    pub database: Option<DatabaseUrl>,
}

impl Common {
    /// The settings: file, then environment, then these flags.
    pub fn settings(&self, listen: Option<std::net::SocketAddr>) -> Result<Settings, ConfigError> {
        let flags = Flags { database: self.database.clone(), listen };
        Settings::load(self.config.as_deref(), &|name| std::env::var(name).ok(), flags)
    }
}

/// Reads the command line and runs it.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            // A closed standard error leaves nobody to tell.
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    // What TLS is made of, for clients of ours. Only a second call could fail.
    drop(rustls::crypto::ring::default_provider().install_default());
    match choose(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough (`runtab openapi | head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "runtab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn choose(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => block_on(serve::run(args)),
        Command::Agent(args) => alone(agent::run(args)),
        Command::Token(args) => block_on(token::run(args)),
        Command::Migrate(args) => block_on(migrate::run(args)),
        Command::Close(args) => block_on(close::run(args)),
        Command::Export(args) => block_on(export::run(args)),
        Command::Report(args) => block_on(report::run(args)),
        Command::Invoice(args) => block_on(invoice::run(args)),
        Command::Verify(args) => block_on(verify::run(args)),
        Command::Archive(args) => block_on(archive::run(args)),
        Command::Evidence(args) => block_on(evidence::run(args)),
        Command::Openapi => openapi::run(&mut std::io::stdout()),
        Command::Demo(args) => block_on(demo::run(args)),
        Command::Replay(args) => block_on(replay::run(args)),
        Command::Bench(args) => block_on(bench::run(args)),
        Command::BenchHello => block_on(bench::be_hello()),
        Command::SandboxLoad(args) => demo::loads::be_a_load(&args),
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// On one thread: an agent has little to do at a time, and should take little memory.
fn alone(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_says_how_to_begin_and_every_option_is_explained() {
        let mut command = Cli::command();
        let help = command.render_long_help().to_string();
        assert!(help.contains("Begin here:") && help.contains("runtab demo"), "{help}");
        assert!(!help.contains("sandbox-load"), "{help}");
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{} has no help", sub.get_name());
            for argument in sub.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {} has no help", sub.get_name(), argument.get_id());
            }
        }
    }
}
