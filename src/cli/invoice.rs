//! `runtab invoice`: corrects final invoices by notes, and records what becomes of them.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};

use super::close::month;
use super::{Common, serve};
use crate::clock::Clock;
use crate::domain::id::{AccountId, EventId, NoteId};
use crate::domain::invoice_life::EventKind;
use crate::domain::money::{MICROS_MAX, Micros};
use crate::domain::note::{NOTE_LINES_MAX, NoteKind, NoteLine};
use crate::domain::time::Month;
use crate::ledger::command::{IssueNote, RecordEvent};
use crate::report::dollars_of_cents;
use crate::wire::schema::{NAME_CHARS_MAX, NOTE_CHARS_MAX};

/// The flags of `runtab invoice`.
#[derive(Clone, Debug, Args)]
pub struct InvoiceArgs {
    #[command(subcommand)]
    command: InvoiceCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum InvoiceCommand {
    /// Issue a credit note or debit note on a final invoice
    Correct(CorrectArgs),
    /// Record that a final invoice was sent, paid, is overdue or written off
    Record(RecordArgs),
}

/// The flags of `runtab invoice correct`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A note is final at once, with the next number of its kind. The same id again
issues nothing new. Usage is not corrected by notes: void the wrong sample, and
the next invoice has the difference.")]
struct CorrectArgs {
    #[command(flatten)]
    of: Of,
    /// Which way: the customer owes less, or more
    #[arg(long, value_enum)]
    kind: KindWord,
    /// The note's id, chosen by you: it makes a repetition safe
    #[arg(long, value_parser = note_id)]
    id: NoteId,
    /// Why
    #[arg(long, value_parser = reason)]
    reason: String,
    /// What is corrected and by how many microdollars before tax; may be given several times
    #[arg(long = "line", value_name = "DESCRIPTION=MICROS", required = true, value_parser = line)]
    lines: Vec<NoteLine>,
    #[command(flatten)]
    common: Common,
}

/// The flags of `runtab invoice record`.
#[derive(Clone, Debug, Args)]
struct RecordArgs {
    #[command(flatten)]
    of: Of,
    /// What happened
    #[arg(long, value_enum)]
    event: EventWord,
    /// The event's id, chosen by you: it makes a repetition safe
    #[arg(long, value_parser = event_id)]
    id: EventId,
    /// What it refers to; a payment needs one
    #[arg(long, default_value = "", value_parser = name)]
    reference: String,
    #[command(flatten)]
    common: Common,
}

/// Which invoice.
#[derive(Clone, Debug, Args)]
struct Of {
    /// Whose invoice
    #[arg(value_name = "ACCOUNT", value_parser = account_id)]
    account: AccountId,
    /// Of which month, such as 2026-11; it must be closed
    #[arg(value_name = "MONTH", value_parser = month)]
    month: Month,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindWord {
    /// The customer owes less
    Credit,
    /// The customer owes more
    Debit,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EventWord {
    /// It was sent to the customer
    Sent,
    /// It was paid
    Paid,
    /// It was not paid in time
    Overdue,
    /// Nobody expects that it will be paid
    WrittenOff,
}

fn account_id(text: &str) -> Result<AccountId, String> {
    AccountId::parse(text).map_err(|bad| bad.to_string())
}

fn note_id(text: &str) -> Result<NoteId, String> {
    NoteId::parse(text).map_err(|bad| bad.to_string())
}

fn event_id(text: &str) -> Result<EventId, String> {
    EventId::parse(text).map_err(|bad| bad.to_string())
}

fn name(text: &str) -> Result<String, String> {
    let fits = crate::wire::reader::plain_text(text, NAME_CHARS_MAX);
    if fits { Ok(text.to_owned()) } else { Err(format!("must have at most {NAME_CHARS_MAX} characters")) }
}

fn reason(text: &str) -> Result<String, String> {
    let fits = crate::wire::reader::plain_text(text, NOTE_CHARS_MAX) && !text.trim().is_empty();
    if fits { Ok(text.to_owned()) } else { Err(format!("must say why, in at most {NOTE_CHARS_MAX} characters")) }
}

fn line(text: &str) -> Result<NoteLine, String> {
    let (description, micros) = text.rsplit_once('=').ok_or("must be a description, = and microdollars")?;
    if description.trim().is_empty() {
        return Err("must say what is corrected".to_owned());
    }
    let amount = micros.parse().ok().filter(|micros: &i64| *micros >= 1).and_then(Micros::new);
    let amount = amount.ok_or_else(|| format!("must be 1 to {MICROS_MAX} microdollars"))?;
    Ok(NoteLine { description: name(description)?, amount })
}

pub(super) async fn run(args: InvoiceArgs) -> anyhow::Result<()> {
    match args.command {
        InvoiceCommand::Correct(args) => correct(args).await,
        InvoiceCommand::Record(args) => record(args).await,
    }
}

async fn correct(args: CorrectArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.lines.len() <= NOTE_LINES_MAX, "a note has at most {NOTE_LINES_MAX} lines");
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let kind = match args.kind {
        KindWord::Credit => NoteKind::Credit,
        KindWord::Debit => NoteKind::Debit,
    };
    let Of { account, month } = args.of;
    let command = IssueNote { account, month, id: args.id, kind, reason: args.reason, lines: args.lines };
    let issued = ledger.issue_note(command).await;
    ledger.close().await;
    let note = issued?.value;
    let total = dollars_of_cents(note.total_cents()?);
    writeln!(std::io::stdout(), "{} on {}: USD {total}", note.number, note.invoice)?;
    Ok(())
}

async fn record(args: RecordArgs) -> anyhow::Result<()> {
    let ledger = serve::open_known(&args.common.settings(None)?, Clock::system()).await?;
    let kind = match args.event {
        EventWord::Sent => EventKind::Sent,
        EventWord::Paid => EventKind::Paid,
        EventWord::Overdue => EventKind::Overdue,
        EventWord::WrittenOff => EventKind::WrittenOff,
    };
    let Of { account, month } = args.of;
    let (reference, note) = (args.reference, String::new());
    let recorded = ledger.record_event(RecordEvent { account, month, id: args.id, kind, reference, note }).await;
    ledger.close().await;
    writeln!(std::io::stdout(), "{}", recorded?.value.kind.name())?;
    Ok(())
}
