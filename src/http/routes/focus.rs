//! A month's bill as FOCUS rows: made into a temporary file at the database's pace, then sent at the caller's. So a slow
//! caller holds neither a snapshot nor a place in the press.

use std::io::{Read as _, Seek as _, Write as _};

use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use tempfile::SpooledTempFile;
use tokio::sync::OwnedSemaphorePermit;

use super::invoices::disposition;
use crate::domain::charge::BilledHour;
use crate::domain::id::AccountId;
use crate::domain::time::Month;
use crate::http::Shared;
use crate::http::outlet::{Outlet, outlet};
use crate::http::press::blocking;
use crate::http::problem::{Answer, Failure};
use crate::ledger::command::CommandError;
use crate::report::ReportError;
use crate::report::focus::{FocusFile, Format};
use crate::wire::time::show_month;

/// Most rows of a file that is made within a request; `runtab export` has no bound.
const ROWS_MAX: u64 = 1_000_000;
/// Bytes of a file that are kept in memory rather than on disk.
const MEMORY_BYTES_MAX: usize = 1_048_576;
/// Bytes that are sent at once.
const PIECE_BYTES: usize = 65_536;

/// A file under way.
struct Made {
    rows: FocusFile,
    file: SpooledTempFile,
}

impl Made {
    fn add(mut self, hours: &[BilledHour]) -> Result<Self, ReportError> {
        self.rows.hours(hours)?;
        let bytes = self.rows.take()?;
        self.keep(&bytes)
    }

    fn keep(mut self, bytes: &[u8]) -> Result<Self, ReportError> {
        self.file.write_all(bytes).map_err(|error| ReportError::Broken(error.to_string()))?;
        Ok(self)
    }

    /// The whole file, to be read from its beginning, and its length.
    fn finish(mut self) -> Result<(SpooledTempFile, u64), ReportError> {
        self.rows.end()?;
        let bytes = self.rows.take()?;
        let mut made = self.keep(&bytes)?;
        let last = made.rows.finish()?;
        let broken = |error: std::io::Error| ReportError::Broken(error.to_string());
        made.file.write_all(&last).map_err(broken)?;
        let length = made.file.stream_position().map_err(broken)?;
        made.file.rewind().map_err(broken)?;
        Ok((made.file, length))
    }
}

/// Answers with the file.
pub(super) async fn send(state: &Shared, account: &AccountId, month: Month, format: Format) -> Answer {
    let (end, content_type) = match format {
        Format::Csv => ("focus.csv", "text/csv; charset=utf-8; header=present"),
        #[cfg(feature = "parquet")]
        Format::Parquet => ("focus.parquet", "application/vnd.apache.parquet"),
    };
    let download = state.press.download()?;
    let (file, length) = make(state, account, month, format).await?;
    let (sender, body) = outlet(2);
    drop(tokio::spawn(pass_on(file, sender, download)));
    let head = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_LENGTH, length.to_string()),
        disposition("attachment", account, &show_month(month), end),
    ];
    Ok((head, body).into_response())
}

async fn make(
    state: &Shared,
    account: &AccountId,
    month: Month,
    format: Format,
) -> Result<(SpooledTempFile, u64), Failure> {
    let place = state.press.place().await?;
    let mut bill = state.ledger.bill(account, month).await?.ok_or_else(Failure::not_found)?;
    let internal = |error: ReportError| Failure::internal(&error);
    let mut rows = FocusFile::new(format, &state.seller.name).map_err(internal)?;
    rows.begin(bill.invoice().clone(), bill.book());
    let mut made = Made { rows, file: SpooledTempFile::new(MEMORY_BYTES_MAX) };
    loop {
        let hours = bill.next().await?;
        if hours.is_empty() {
            break;
        }
        made = blocking(move || made.add(&hours)).await?.map_err(internal)?;
        if made.rows.rows() > ROWS_MAX {
            let detail = format!("this bill has more than {ROWS_MAX} rows; `runtab export` writes it");
            return Err(CommandError::Invalid { pointer: String::new(), detail }.into());
        }
    }
    drop(bill);
    let made = blocking(move || made.finish()).await?.map_err(internal)?;
    drop(place);
    Ok(made)
}

/// Sends the file piece by piece, until the caller has it or stops taking it. Where it can't be read, the answer breaks
/// off.
async fn pass_on(mut file: SpooledTempFile, to: Outlet, _download: OwnedSemaphorePermit) {
    loop {
        let read = blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let length = file.read(&mut piece)?;
            piece.truncate(length);
            Ok::<_, std::io::Error>((file, piece))
        });
        match read.await {
            Ok(Ok((_, piece))) if piece.is_empty() => {
                to.end().await;
                return;
            }
            Ok(Ok((rest, piece))) => {
                file = rest;
                if !to.send(piece.into()).await {
                    return;
                }
            }
            Ok(Err(error)) => return tracing::error!(%error, "an export can't be read back"),
            Err(_) => return,
        }
    }
}
