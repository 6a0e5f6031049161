//! What is recorded beside final invoices: events of their life, credit notes and debit notes.

use super::super::command::{CommandError, IssueNote, Made, RecordEvent};
use super::super::working_set::WorkingSet;
use super::{Applied, id_conflict, invalid};
use crate::domain::invoice::Invoice;
use crate::domain::invoice_life::{EventKind, InvoiceEvent};
use crate::domain::money::Micros;
use crate::domain::note::{Note, NoteKind, NoteNumber, after_notes, cents_after_notes};

impl WorkingSet {
    /// Records an event of an invoice. `known`: the event that has its id; `life`: the invoice's events so far.
    pub fn record_event(
        &mut self,
        command: &RecordEvent,
        known: Option<&InvoiceEvent>,
        life: &[InvoiceEvent],
    ) -> Applied<Made<InvoiceEvent>> {
        if let Some(known) = known {
            let same = (known.month, known.kind, &known.reference, &known.note)
                == (command.month, command.kind, &command.reference, &command.note);
            let detail = || id_conflict(format!("event {} exists with other content", known.id));
            return if same { Ok(Made { value: known.clone(), fresh: false }) } else { Err(detail()) };
        }
        if command.kind == EventKind::Paid && command.reference.trim().is_empty() {
            return Err(invalid("/reference", "a payment has a reference"));
        }
        let last = life.last();
        if !command.kind.may_follow(last.map(|event| event.kind)) {
            let was = last.map_or("final", |event| event.kind.name());
            return Err(id_conflict(format!("this invoice is {was}; it can't be {} after that", command.kind.name())));
        }
        let event = InvoiceEvent {
            account: command.account.clone(),
            month: command.month,
            seq: i64::try_from(life.len()).map_err(|_| crate::domain::Overflow)?,
            id: command.id.clone(),
            kind: command.kind,
            reference: command.reference.clone(),
            note: command.note.clone(),
            at: self.now,
        };
        self.changes.invoice_events.push(event.clone());
        Ok(Made { value: event, fresh: true })
    }

    /// Issues a note on a final invoice. `before`: its notes so far; `number`: the next one of the kind.
    pub fn issue_note(
        &mut self,
        command: &IssueNote,
        invoice: &Invoice,
        before: &[Note],
        number: NoteNumber,
    ) -> Applied<Note> {
        let of = invoice.number().ok_or(CommandError::NotFound("invoice"))?;
        let (id, reason, lines) = (command.id.clone(), command.reason.clone(), command.lines.clone());
        let note = Note::on(invoice, of, number, id, reason, lines, self.now)?;
        let left = after_notes(invoice.total, before.iter().chain([&note]))?;
        // Many small notes, each rounded up to a cent, must not give back more than was asked for either.
        let cents_left = cents_after_notes(invoice.due_cents(), before.iter().chain([&note]))?;
        if note.kind() == NoteKind::Credit && (left < Micros::ZERO || cents_left < 0) {
            return Err(invalid(
                "/lines",
                "credit notes give back at most what the invoice and its debit notes come to",
            ));
        }
        self.changes.notes.push(note.clone());
        Ok(note)
    }
}

/// A note that has the id of a command: the same again, or a conflict.
pub fn known_note(command: &IssueNote, known: Note) -> Applied<Made<Note>> {
    let same = (known.month, known.kind(), &known.reason, &known.lines)
        == (command.month, command.kind, &command.reason, &command.lines);
    if same {
        Ok(Made { value: known, fresh: false })
    } else {
        Err(id_conflict(format!("note {} exists with other content", known.id)))
    }
}
