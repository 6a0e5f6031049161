//! Recording beside final invoices: events of their life, credit notes and debit notes; and reading them.
//!
//! The account is locked first, so that the events of an invoice are in one order and its notes never give back more
//! than it comes to; then the numbers, as closing does.

use std::collections::{BTreeMap, BTreeSet};

use super::alone::{Alone, AloneAnswer};
use super::apply::notes::known_note;
use super::batch::told;
use super::command::{CommandError, ConflictCode, IssueNote, Made, Page, RecordEvent};
use super::load::Loaded;
use super::queries::{listed, one_more};
use super::view::Listed;
use super::working_set::WorkingSet;
use super::{Answer, Ledger, mismatched};
use crate::domain::id::AccountId;
use crate::domain::invoice::Invoice;
use crate::domain::invoice_life::InvoiceEvent;
use crate::domain::note::{Note, NoteNumber};
use crate::domain::time::Month;
use crate::store::Tx;

/// What is recorded beside one invoice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Afterlife {
    /// In order.
    pub events: Vec<InvoiceEvent>,
    /// In the order of issue; those of one instant by number.
    pub notes: Vec<Note>,
}

/// The final invoice that a command is about.
async fn final_invoice(tx: &mut Tx, account: &AccountId, month: Month) -> Loaded<Answer<Invoice>> {
    if let Some(invoice) = tx.invoice(account, month).await? {
        return Ok(Ok(invoice));
    }
    if tx.last_closed_month().await?.is_some_and(|last| month <= last) {
        return Ok(Err(CommandError::NotFound("invoice")));
    }
    let detail = "only a final invoice has a life and notes; close its month first".to_owned();
    Ok(Err(CommandError::Conflict { code: ConflictCode::MonthOpen, detail, lease: None }))
}

/// Carries out [`Alone::RecordEvent`]; the account is locked and loaded.
pub(super) async fn record(tx: &mut Tx, set: &mut WorkingSet, command: &RecordEvent) -> Loaded<Answer<AloneAnswer>> {
    if !set.accounts.contains_key(&command.account) {
        return Ok(Err(CommandError::NotFound("account")));
    }
    if let Err(refusal) = final_invoice(tx, &command.account, command.month).await? {
        return Ok(Err(refusal));
    }
    let known = tx.invoice_event(&command.account, &command.id).await?;
    let life = tx.invoice_events(&command.account, &[command.month].into()).await?;
    Ok(set.record_event(command, known.as_ref(), &life).map(AloneAnswer::Event))
}

/// Carries out [`Alone::IssueNote`]; the account is locked and loaded.
pub(super) async fn issue(tx: &mut Tx, set: &mut WorkingSet, command: &IssueNote) -> Loaded<Answer<AloneAnswer>> {
    if !set.accounts.contains_key(&command.account) {
        return Ok(Err(CommandError::NotFound("account")));
    }
    let invoice = match final_invoice(tx, &command.account, command.month).await? {
        Ok(invoice) => invoice,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let answer = |made: Made<Note>| AloneAnswer::Note(Box::new(made));
    if let Some(known) = tx.note_by_id(&command.account, &command.id).await? {
        return Ok(known_note(command, known).map(answer));
    }
    let before = tx.notes_of_invoices(&command.account, &[command.month].into()).await?;
    let number = tx.lock_note_numbers(command.kind).await?;
    let issued = set.issue_note(command, &invoice, &before, number);
    Ok(issued.map(|value| answer(Made { value, fresh: true })))
}

impl Ledger {
    /// Records an event of a final invoice.
    pub async fn record_event(&self, command: RecordEvent) -> Answer<Made<InvoiceEvent>> {
        match self.alone(Alone::RecordEvent(command)).await? {
            AloneAnswer::Event(made) => Ok(made),
            _ => mismatched(),
        }
    }

    /// Issues a credit note or debit note on a final invoice: final at once.
    pub async fn issue_note(&self, command: IssueNote) -> Answer<Made<Note>> {
        match self.alone(Alone::IssueNote(command)).await? {
            AloneAnswer::Note(made) => Ok(*made),
            _ => mismatched(),
        }
    }

    /// What is recorded beside invoices of an account, by month; months without anything are left out.
    pub async fn afterlives(
        &self,
        account: &AccountId,
        months: &BTreeSet<Month>,
    ) -> Answer<BTreeMap<Month, Afterlife>> {
        let mut tx = self.engine.store.read().await.map_err(told)?;
        let mut found: BTreeMap<Month, Afterlife> = BTreeMap::new();
        for event in tx.invoice_events(account, months).await.map_err(told)? {
            found.entry(event.month).or_default().events.push(event);
        }
        for note in tx.notes_of_invoices(account, months).await.map_err(told)? {
            found.entry(note.month).or_default().notes.push(note);
        }
        Ok(found)
    }

    /// A note of an account by its number.
    pub async fn note(&self, account: &AccountId, number: NoteNumber) -> Answer<Option<Note>> {
        let mut tx = self.engine.store.read().await.map_err(told)?;
        tx.note(account, number).await.map_err(told)
    }

    /// Notes of an account, by month of the invoice, kind and number.
    pub async fn notes(&self, account: &AccountId, page: Page) -> Answer<Listed<Note>> {
        let mut tx = self.snapshot_of(account).await?;
        let after = page.after.as_deref().and_then(|text| text.split_once('/'));
        let after = after
            .and_then(|(month, number)| Some((Month::from_index(month.parse().ok()?)?, NoteNumber::parse(number)?)));
        let found = tx.list_notes(account, after, one_more(&page)).await.map_err(told)?;
        Ok(listed(found, page.limit, |note| format!("{}/{}", note.month.index(), note.number)))
    }
}
