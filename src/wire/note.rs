//! Beside final invoices: events of their life, credit notes and debit notes.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::{
    Id, MicrosCount, MonthText, NAME_CHARS_MAX, NOTE_CHARS_MAX, Name, Note as NoteText, SignedMicrosCount, TaxRateBps,
    TimeText,
};
use super::time::{show_month, show_time};
use super::void::reason_of;
use crate::domain::Overflow;
use crate::domain::id::{AccountId, EventId, NoteId};
use crate::domain::invoice_life::{self, EventKind};
use crate::domain::money::{MICROS_MAX, Micros};
use crate::domain::note::{self, NOTE_LINES_MAX, NoteKind};
use crate::domain::time::Month;
use crate::ledger::command::{IssueNote, RecordEvent};
use crate::ledger::notes::Afterlife;

const EVENTS: [(&str, EventKind); 4] = [
    ("sent", EventKind::Sent),
    ("paid", EventKind::Paid),
    ("overdue", EventKind::Overdue),
    ("written_off", EventKind::WrittenOff),
];
const KINDS: [(&str, NoteKind); 2] = [("credit", NoteKind::Credit), ("debit", NoteKind::Debit)];

/// What happened to an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventWord {
    /// It was sent to the customer.
    Sent,
    /// It was paid.
    Paid,
    /// It was not paid in time.
    Overdue,
    /// Nobody expects that it will be paid.
    WrittenOff,
}

impl From<EventKind> for EventWord {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::Sent => Self::Sent,
            EventKind::Paid => Self::Paid,
            EventKind::Overdue => Self::Overdue,
            EventKind::WrittenOff => Self::WrittenOff,
        }
    }
}

/// Which way a note corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoteKindWord {
    /// The customer owes less.
    Credit,
    /// The customer owes more.
    Debit,
}

impl From<NoteKind> for NoteKindWord {
    fn from(kind: NoteKind) -> Self {
        match kind {
            NoteKind::Credit => Self::Credit,
            NoteKind::Debit => Self::Debit,
        }
    }
}

/// An event to record.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvoiceEvent {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: EventId,
    /// What happened.
    #[schema(value_type = EventWord)]
    pub event: EventKind,
    /// What it refers to; a payment needs one.
    #[schema(value_type = Name, required = false)]
    pub reference: String,
    /// Free text.
    #[schema(value_type = NoteText, required = false)]
    pub note: String,
}

impl NewInvoiceEvent {
    /// Reads the request.
    pub fn read(account: AccountId, month: Month, body: &Value<'_, '_>) -> Result<RecordEvent, Invalid> {
        let object = body.object(["id", "event", "reference", "note"])?;
        Ok(RecordEvent {
            account,
            month,
            id: object.required("id")?.id(EventId::parse)?,
            kind: object.required("event")?.choice(&EVENTS)?,
            reference: object.given("reference").map(|text| text.text(NAME_CHARS_MAX)).transpose()?.unwrap_or_default(),
            note: object.given("note").map(|text| text.text(NOTE_CHARS_MAX)).transpose()?.unwrap_or_default(),
        })
    }
}

/// A note to issue.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNote {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: NoteId,
    /// Which way it corrects.
    #[schema(value_type = NoteKindWord)]
    pub kind: NoteKind,
    /// Why.
    #[schema(value_type = NoteText)]
    pub reason: String,
    /// What it corrects.
    #[schema(min_items = 1, max_items = 100)]
    pub lines: Vec<NewNoteLine>,
}

/// A line of a note to issue.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNoteLine {
    /// What it corrects.
    #[schema(value_type = Name)]
    pub description: String,
    /// How much before tax, above zero whichever way the note corrects.
    #[schema(value_type = MicrosCount, minimum = 1)]
    pub amount_micros: i64,
}

impl NewNote {
    /// Reads the request.
    pub fn read(account: AccountId, month: Month, body: &Value<'_, '_>) -> Result<IssueNote, Invalid> {
        let object = body.object(["id", "kind", "reason", "lines"])?;
        let line = |value: Value<'_, '_>| {
            let line = value.object(["description", "amount_micros"])?;
            let described = line.required("description")?;
            let description = described.text(NAME_CHARS_MAX)?;
            if description.trim().is_empty() {
                return Err(described.refused("must say what is corrected"));
            }
            let amount = Micros::new(line.required("amount_micros")?.integer(1, MICROS_MAX)?);
            let amount = amount.ok_or_else(|| line.invalid("amount_micros", "is out of range"))?;
            Ok(note::NoteLine { description, amount })
        };
        Ok(IssueNote {
            account,
            month,
            id: object.required("id")?.id(NoteId::parse)?,
            kind: object.required("kind")?.choice(&KINDS)?,
            reason: reason_of(&object.required("reason")?)?,
            lines: object.required("lines")?.items(NOTE_LINES_MAX)?.map(line).collect::<Result<_, _>>()?,
        })
    }
}

/// An event of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InvoiceEvent {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// What happened.
    pub event: EventWord,
    /// What it refers to.
    #[schema(value_type = Name)]
    pub reference: String,
    /// Free text.
    #[schema(value_type = NoteText)]
    pub note: String,
    /// When it was recorded.
    #[schema(value_type = TimeText)]
    pub at: String,
}

impl From<&invoice_life::InvoiceEvent> for InvoiceEvent {
    fn from(event: &invoice_life::InvoiceEvent) -> Self {
        Self {
            id: event.id.to_string(),
            event: event.kind.into(),
            reference: event.reference.clone(),
            note: event.note.clone(),
            at: show_time(event.at),
        }
    }
}

/// What became of a final invoice, beside it: it never changes the invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InvoiceLife {
    /// What happened last; null: nothing but notes yet.
    #[schema(required = true)]
    pub state: Option<EventWord>,
    /// What happened, in order.
    pub events: Vec<InvoiceEvent>,
    /// Credit notes and debit notes on it, in the order of issue; those of one instant by number.
    pub notes: Vec<Note>,
    /// The invoice's total less credit notes, with debit notes.
    #[schema(value_type = MicrosCount)]
    pub corrected_total_micros: i64,
}

impl InvoiceLife {
    /// The life of an invoice of a total; an error only where a sum does not fit.
    pub fn new(total: Micros, life: &Afterlife) -> Result<Self, Overflow> {
        Ok(Self {
            state: life.events.last().map(|event| event.kind.into()),
            events: life.events.iter().map(InvoiceEvent::from).collect(),
            notes: life.notes.iter().map(Note::new).collect::<Result<_, _>>()?,
            corrected_total_micros: note::after_notes(total, &life.notes)?.count(),
        })
    }
}

/// A line of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NoteLine {
    /// What it corrects.
    #[schema(value_type = Name)]
    pub description: String,
    /// How much before tax, above zero whichever way the note corrects.
    #[schema(value_type = MicrosCount)]
    pub amount_micros: i64,
}

/// A credit note or debit note: final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = InvoiceNote)]
pub struct Note {
    /// Its number, of its kind's own series.
    pub number: String,
    /// Which way it corrects.
    pub kind: NoteKindWord,
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// Whose.
    #[schema(value_type = Id)]
    pub account: String,
    /// The account's name on the invoice.
    pub account_name: String,
    /// The month of the invoice that it corrects.
    #[schema(value_type = MonthText)]
    pub month: String,
    /// That invoice's number.
    pub invoice: String,
    /// Why.
    #[schema(value_type = NoteText)]
    pub reason: String,
    /// In order.
    pub lines: Vec<NoteLine>,
    /// The rate of its invoice, in basis points; null: that had no tax line.
    #[schema(value_type = Option<TaxRateBps>, required = true)]
    pub tax_rate_bps: Option<i64>,
    /// Tax on the sum of the lines, rounded once.
    #[schema(value_type = MicrosCount)]
    pub tax_micros: i64,
    /// The sum of the lines and the tax.
    #[schema(value_type = SignedMicrosCount)]
    pub total_micros: i64,
    /// The total, rounded half up to cents.
    #[schema(value_type = MicrosCount)]
    pub total_cents: i64,
    /// When it was issued.
    #[schema(value_type = TimeText)]
    pub issued_at: String,
}

impl Note {
    /// A note as it is shown; an error only where a sum does not fit.
    pub fn new(note: &note::Note) -> Result<Self, Overflow> {
        let line = |line: &note::NoteLine| NoteLine {
            description: line.description.clone(),
            amount_micros: line.amount.count(),
        };
        Ok(Self {
            number: note.number.to_string(),
            kind: note.kind().into(),
            id: note.id.to_string(),
            account: note.account.to_string(),
            account_name: note.name.clone(),
            month: show_month(note.month),
            invoice: note.invoice.to_string(),
            reason: note.reason.clone(),
            lines: note.lines.iter().map(line).collect(),
            tax_rate_bps: note.taxed.map(|taxed| taxed.rate.bps()),
            tax_micros: note.tax.count(),
            total_micros: note.total()?.count(),
            total_cents: note.total_cents()?,
            issued_at: show_time(note.issued_at),
        })
    }
}
