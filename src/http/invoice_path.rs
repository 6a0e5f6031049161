//! Which invoice or note a path names, and as what it is sent: the month, or the number, may have the end of a file.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use super::Shared;
use super::extract::AccountPath;
use super::problem::Failure;
use crate::domain::id::AccountId;
use crate::domain::note::NoteNumber;
use crate::domain::time::Month;
use crate::report::focus::Format;
use crate::wire::time::parse_month;

/// What an invoice is sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvoiceFormat {
    /// The API's own.
    Json,
    /// `.csv`.
    Csv,
    /// `.html`.
    Html,
    /// `.pdf`.
    #[cfg(feature = "pdf")]
    Pdf,
    /// `.focus.csv` or `.focus.parquet`.
    Focus(Format),
}

/// The end of an invoice's path, and its format; the one without an end last.
const INVOICE_FORMATS: &[(&str, InvoiceFormat)] = &[
    (".focus.csv", InvoiceFormat::Focus(Format::Csv)),
    #[cfg(feature = "parquet")]
    (".focus.parquet", InvoiceFormat::Focus(Format::Parquet)),
    (".csv", InvoiceFormat::Csv),
    (".html", InvoiceFormat::Html),
    #[cfg(feature = "pdf")]
    (".pdf", InvoiceFormat::Pdf),
    ("", InvoiceFormat::Json),
];

/// An account's invoice of a month.
pub(super) struct InvoicePath {
    /// The account.
    pub(super) account: AccountId,
    /// The month.
    pub(super) month: Month,
    /// As what.
    pub(super) format: InvoiceFormat,
}

/// A parameter of a path without the end that says a format, and the format.
async fn with_end(parts: &mut Parts, state: &Shared, name: &str) -> Result<(String, InvoiceFormat), Failure> {
    let path = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Failure::not_found())?;
    let text = path.iter().find(|(known, _)| *known == name).map(|(_, text)| text);
    let text = text.ok_or_else(Failure::not_found)?;
    let found = INVOICE_FORMATS.iter().find_map(|(end, format)| Some((text.strip_suffix(end)?, *format)));
    let (text, format) = found.ok_or_else(Failure::not_found)?;
    Ok((text.to_owned(), format))
}

impl FromRequestParts<Shared> for InvoicePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        let AccountPath { account } = AccountPath::from_request_parts(parts, state).await?;
        let (month, format) = with_end(parts, state, "month").await?;
        Ok(Self { account, month: parse_month(&month).ok_or_else(Failure::not_found)?, format })
    }
}

/// A note of an account by its number.
pub(super) struct NotePath {
    /// The account.
    pub(super) account: AccountId,
    /// The number.
    pub(super) number: NoteNumber,
    /// As what.
    pub(super) format: InvoiceFormat,
}

impl FromRequestParts<Shared> for NotePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        let AccountPath { account } = AccountPath::from_request_parts(parts, state).await?;
        let (number, format) = with_end(parts, state, "number").await?;
        Ok(Self { account, number: NoteNumber::parse(&number).ok_or_else(Failure::not_found)?, format })
    }
}
