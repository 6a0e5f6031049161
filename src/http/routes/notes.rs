//! Beside final invoices: events of their life, credit notes and debit notes.

use axum::extract::State;
use axum::http::Uri;
use utoipa::IntoParams;

use super::invoices::{MonthParams, disposition, file};
use super::{PageParams, made, ok};
use crate::http::Shared;
use crate::http::auth::{Admin, Reader};
use crate::http::extract::{AccountPath, JsonBody, List, MonthPath, NoQuery, Query};
use crate::http::invoice_path::{InvoiceFormat, NotePath};
use crate::http::problem::{Answer, Failure};
use crate::report;
use crate::wire::note::{InvoiceEvent, NewInvoiceEvent, NewNote, Note};
use crate::wire::page::Page;

/// Which note.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents what NotePath reads")]
struct NoteParams {
    /// Its number, such as `CN-000001`.
    number: String,
}

/// Records what happened to a final invoice: sent, paid, overdue, written off. The invoice itself never changes.
#[utoipa::path(post, path = "/v1/accounts/{account}/invoices/{month}/events", operation_id = "record_invoice_event",
    tag = "customers", params(AccountPath, MonthParams), request_body = NewInvoiceEvent,
    responses((status = 201, description = "Recorded.", body = InvoiceEvent), (status = 200, description = "Recorded before.", body = InvoiceEvent)))]
pub(in crate::http) async fn record(
    _: Admin,
    path: AccountPath,
    month: MonthPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| NewInvoiceEvent::read(path.account, month.month, value))?;
    let event = state.ledger.record_event(command).await?;
    made(event.fresh, InvoiceEvent::from(&event.value))
}

/// Issues a credit note or debit note on a final invoice. It is final at once.
#[utoipa::path(post, path = "/v1/accounts/{account}/invoices/{month}/notes", operation_id = "issue_note",
    tag = "customers", params(AccountPath, MonthParams), request_body = NewNote,
    responses((status = 201, description = "Issued.", body = Note), (status = 200, description = "Issued before.", body = Note)))]
pub(in crate::http) async fn issue(
    _: Admin,
    path: AccountPath,
    month: MonthPath,
    _: NoQuery,
    State(state): State<Shared>,
    body: JsonBody,
) -> Answer {
    let command = body.read(|value| NewNote::read(path.account, month.month, value))?;
    let note = state.ledger.issue_note(command).await?;
    made(note.fresh, Note::new(&note.value).map_err(|error| Failure::internal(&error))?)
}

/// Lists the credit notes and debit notes of an account by month of the invoice, kind and number.
#[utoipa::path(get, path = "/v1/accounts/{account}/notes", operation_id = "list_notes", tag = "reading",
    params(AccountPath, PageParams), responses((status = 200, description = "A page.", body = Page<Note>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "notes", account: Some(&path.account) };
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&list)?;
    let found = state.ledger.notes(&path.account, asked).await?;
    let items = found.items.iter().map(Note::new).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|error| Failure::internal(&error))?;
    ok(Page { items, next_cursor: found.next.as_deref().map(|key| list.seal(key)) })
}

/// A credit note or debit note. With `.csv`, `.html` or `.pdf` after the number: as such a file.
#[utoipa::path(get, path = "/v1/accounts/{account}/notes/{number}", operation_id = "get_note", tag = "reading",
    params(AccountPath, NoteParams), responses((status = 200, description = "The note.", body = Note)))]
pub(in crate::http) async fn get(_: Reader, path: NotePath, _: NoQuery, State(state): State<Shared>) -> Answer {
    let note = state.ledger.note(&path.account, path.number).await?.ok_or_else(Failure::not_found)?;
    let name = |how: &str, end: &str| disposition(how, &path.account, &path.number.to_string(), end);
    let shared = Shared::clone(&state);
    match path.format {
        InvoiceFormat::Json => ok(Note::new(&note).map_err(|error| Failure::internal(&error))?),
        InvoiceFormat::Csv => {
            let made = state.press.run(move || report::note::csv(&note)).await?;
            file(made, "text/csv; charset=utf-8; header=present", name("attachment", "csv"))
        }
        InvoiceFormat::Html => {
            let made = state.press.run(move || report::note::page(&note, &shared.seller)).await?;
            file(made, "text/html; charset=utf-8", name("inline", "html"))
        }
        #[cfg(feature = "pdf")]
        InvoiceFormat::Pdf => {
            let made = state.press.run(move || report::note::paper(&note, &shared.seller)).await?;
            file(made, "application/pdf", name("inline", "pdf"))
        }
        // A note has no usage behind it.
        InvoiceFormat::Focus(_) => Err(Failure::not_found()),
    }
}
