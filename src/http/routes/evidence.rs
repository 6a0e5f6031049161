//! The evidence of a final invoice, as a stream: whoever reads slowly holds nothing but a snapshot, and not for long.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use tokio::sync::oneshot;
use utoipa::IntoParams;

use crate::domain::proof::{ProofHead, Record};
use crate::http::Shared;
use crate::http::auth::Reader;
use crate::http::extract::{AccountPath, MonthPath, NoQuery};
use crate::http::outlet::{Outlet, outlet};
use crate::http::problem::{Answer, Failure};
use crate::ledger::proof::Sink;
use crate::report::evidence::{head_line, record_line};
use crate::wire::schema::MonthText;
use crate::wire::time::show_month;

/// Bytes after which a piece is passed on.
const PIECE_BYTES: usize = 64 * 1_024;
/// Pieces that wait for the reader.
const PIECES_MAX: usize = 4;

/// Which month.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documents what extract::MonthPath reads")]
struct MonthParams {
    /// The month.
    #[param(value_type = MonthText)]
    month: String,
}

/// Gathers lines into pieces and sends them on; tells when the first line is there, for until then it may be not found.
struct Pieces {
    text: String,
    begun: Option<oneshot::Sender<()>>,
    out: Outlet,
}

impl Pieces {
    async fn send(&mut self) -> Result<(), String> {
        let piece = Bytes::from(std::mem::take(&mut self.text));
        if self.out.send(piece).await { Ok(()) } else { Err("the reader of evidence went away".to_owned()) }
    }
}

impl Sink for Pieces {
    fn head(&mut self, head: &ProofHead) {
        head_line(&mut self.text, head);
        self.text.push('\n');
        if let Some(begun) = self.begun.take() {
            // Whoever asked may be gone: then sending finds out.
            begun.send(()).unwrap_or_default();
        }
    }

    fn record(&mut self, record: &Record) {
        record_line(&mut self.text, record);
        self.text.push('\n');
    }

    async fn pass_on(&mut self) -> Result<(), String> {
        if self.text.len() < PIECE_BYTES { Ok(()) } else { self.send().await }
    }
}

/// What a final invoice was made from: samples, leases, free hours and rate cards, as lines of JSON (docs/EVIDENCE.md);
/// `runtab verify --evidence FILE --invoice FILE` checks the invoice against it.
#[utoipa::path(get, path = "/v1/accounts/{account}/invoices/{month}/evidence", operation_id = "get_evidence",
    tag = "reading", params(AccountPath, MonthParams),
    responses((status = 200, description = "The evidence.", body = String, content_type = "application/x-ndjson")))]
pub(in crate::http) async fn get(
    _: Reader,
    AccountPath { account }: AccountPath,
    MonthPath { month }: MonthPath,
    _: NoQuery,
    State(state): State<Shared>,
) -> Answer {
    let (out, body) = outlet(PIECES_MAX);
    let (begun, has_begun) = oneshot::channel();
    let name = format!("{}-{}.evidence.ndjson", account, show_month(month));
    let mut pieces = Pieces { text: String::new(), begun: Some(begun), out };
    let reading = tokio::spawn(async move {
        let read = state.ledger.evidence(&account, month, &mut pieces).await;
        // Not ended, it breaks off.
        if read.is_ok() && pieces.send().await.is_ok() {
            pieces.out.end().await;
        }
        read.map(drop)
    });
    if has_begun.await.is_err() {
        // It ended without a header.
        reading.await.map_err(|error| Failure::internal(&error))??;
        return Err(Failure::not_found());
    }
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [(CONTENT_TYPE, "application/x-ndjson".to_owned()), (CONTENT_DISPOSITION, disposition)];
    Ok((headers, body).into_response())
}
