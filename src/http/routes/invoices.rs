//! Invoices, and closing months.

use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::response::IntoResponse as _;
use utoipa::IntoParams;

use super::{PageParams, focus, ok};
use crate::domain::breakdown::Breakdown;
use crate::domain::id::AccountId;
use crate::domain::invoice;
use crate::http::Shared;
use crate::http::auth::{Admin, Reader};
use crate::http::extract::{AccountPath, List, MonthPath, NoBody, NoQuery, Query};
use crate::http::invoice_path::{InvoiceFormat, InvoicePath};
use crate::http::problem::{Answer, Failure};
use crate::report::{self, Document, ReportError};
use crate::wire::invoice::{Invoice, MonthClosed};
use crate::wire::page::Page;
use crate::wire::schema::MonthText;
use crate::wire::time::show_month;

/// Which month.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents what extract::MonthPath reads")]
pub(super) struct MonthParams {
    /// The month.
    #[param(value_type = MonthText)]
    month: String,
}

/// Lists invoices by month: the final ones, then drafts of months that are not closed.
#[utoipa::path(get, path = "/v1/accounts/{account}/invoices", operation_id = "list_invoices", tag = "reading",
    params(AccountPath, PageParams), responses((status = 200, description = "A page.", body = Page<Invoice>)))]
pub(in crate::http) async fn list(_: Reader, path: AccountPath, State(state): State<Shared>, uri: Uri) -> Answer {
    let list = List { name: "invoices", account: Some(&path.account) };
    let asked = Query::of(&uri, &["limit", "cursor"])?.page(&list)?;
    let found = state.ledger.invoices(&path.account, asked).await?;
    let months = found.items.iter().map(|invoice| invoice.month).collect();
    let lives = state.ledger.afterlives(&path.account, &months).await?;
    let shown = |invoice: &invoice::Invoice| Invoice::with_life(invoice, lives.get(&invoice.month));
    let items = found.items.iter().map(shown).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|error| Failure::internal(&error))?;
    ok(Page { items, next_cursor: found.next.as_deref().map(|key| list.seal(key)) })
}

/// An invoice: final, or a draft while its month is not closed. With `.csv`, `.html` or `.pdf` after the month: as such
/// a file; with `.focus.csv` or `.focus.parquet`: all usage behind it, by the hour, as FOCUS rows.
#[utoipa::path(get, path = "/v1/accounts/{account}/invoices/{month}", operation_id = "get_invoice", tag = "reading",
    params(AccountPath, MonthParams), responses((status = 200, description = "The invoice.", body = Invoice)))]
pub(in crate::http) async fn get(_: Reader, path: InvoicePath, _: NoQuery, State(state): State<Shared>) -> Answer {
    let (account, month) = (&path.account, path.month);
    let name = |how: &str, end: &str| disposition(how, account, &show_month(month), end);
    match path.format {
        InvoiceFormat::Json => {
            let invoice = state.ledger.invoice(account, month).await?.ok_or_else(Failure::not_found)?;
            let lives = state.ledger.afterlives(account, &[month].into()).await?;
            let shown = Invoice::with_life(&invoice, lives.get(&month));
            ok(shown.map_err(|error| Failure::internal(&error))?)
        }
        InvoiceFormat::Csv => {
            let invoice = state.ledger.invoice(account, month).await?.ok_or_else(Failure::not_found)?;
            let made = state.press.run(move || report::csv::render(&invoice)).await?;
            file(made, "text/csv; charset=utf-8; header=present", name("attachment", "csv"))
        }
        InvoiceFormat::Html => {
            let found = state.ledger.invoice_with_breakdown(account, month).await?;
            let made = drawn(&state, found, report::html::render).await?;
            file(made, "text/html; charset=utf-8", name("inline", "html"))
        }
        #[cfg(feature = "pdf")]
        InvoiceFormat::Pdf => {
            let found = state.ledger.invoice_with_breakdown(account, month).await?;
            let made = drawn(&state, found, report::pdf::render).await?;
            file(made, "application/pdf", name("inline", "pdf"))
        }
        InvoiceFormat::Focus(format) => focus::send(&state, account, month, format).await,
    }
}

/// A document that is laid out.
async fn drawn(
    state: &Shared,
    found: Option<(invoice::Invoice, Breakdown)>,
    render: fn(&Document<'_>) -> Result<Vec<u8>, ReportError>,
) -> Result<Result<Vec<u8>, ReportError>, Failure> {
    let (invoice, breakdown) = found.ok_or_else(Failure::not_found)?;
    let shared = Shared::clone(state);
    let work = move || render(&Document { invoice: &invoice, breakdown: &breakdown, seller: &shared.seller });
    state.press.run(work).await
}

/// Scripts and anything from elsewhere are off: a page of ours needs neither.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(super) fn file(
    bytes: Result<Vec<u8>, ReportError>,
    content_type: &'static str,
    (name, disposition): (HeaderName, String),
) -> Answer {
    let bytes = bytes.map_err(|error| Failure::internal(&error))?;
    let head = [(CONTENT_TYPE, content_type), (CONTENT_SECURITY_POLICY, PAGE_POLICY)];
    Ok((head, [(name, disposition)], bytes).into_response())
}

/// Under which name a file is kept. An id has no character that a header or a path could trip over but the colon.
pub(super) fn disposition(how: &str, account: &AccountId, name: &str, end: &str) -> (HeaderName, String) {
    let account = account.as_str().replace(':', "_");
    (CONTENT_DISPOSITION, format!("{how}; filename=\"{account}-{name}.{end}\""))
}

/// Closes a month and all before it: their invoices become final.
#[utoipa::path(post, path = "/v1/months/{month}/close", operation_id = "close_month", tag = "customers",
    params(MonthParams), responses((status = 200, description = "It is closed.", body = MonthClosed)))]
pub(in crate::http) async fn close(
    _: Admin,
    path: MonthPath,
    _: NoQuery,
    State(state): State<Shared>,
    _: NoBody,
) -> Answer {
    let (ledger, month) = (state.ledger.clone(), path.month);
    // A task of its own: a caller that stops waiting does not stop it, and asks again for the same result.
    let closing = tokio::spawn(async move { ledger.close_month(month, &|_| {}).await });
    ok(MonthClosed::from(closing.await.map_err(|error| Failure::internal(&error))??))
}
