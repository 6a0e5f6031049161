//! Failures of a request, and how they are answered: always as a problem document.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::json;
use crate::domain::admission::Refusal;
use crate::ledger::command::{CommandError, ConflictCode};
use crate::wire::problem::{Code, Problem};
use crate::wire::reader::{Invalid, NotJson};

/// The content type of every failure.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";
/// How long a caller waits before it tries again, in seconds: trouble that passes mostly passes at once.
const RETRY_AFTER_SECONDS: &str = "1";

/// Why a request is not carried out. Boxed: a problem is large, and most requests have none.
#[derive(Debug)]
pub(super) struct Failure(Box<Problem>);

/// What every route answers.
pub(super) type Answer = Result<Response, Failure>;

impl Failure {
    /// A failure without extra members.
    pub(super) fn new(code: Code, detail: &'static str) -> Self {
        Problem::new(code, detail).into()
    }

    /// There is no such thing, or it is another account's.
    pub(super) fn not_found() -> Self {
        Problem::not_found().into()
    }

    /// A fault of ours; the cause goes to the log only.
    pub(super) fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed by a fault of ours");
        Self::new(Code::Internal, "the fault is in the log, by the request's id")
    }

    /// The stable code.
    pub(super) fn code(&self) -> &str {
        &self.0.code
    }

    /// For a status that a layer answered without a document.
    pub(super) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::not_found(),
            StatusCode::METHOD_NOT_ALLOWED => Self::new(Code::MethodNotAllowed, "see Allow for the methods"),
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(Code::PayloadTooLarge, "send a smaller body"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::new(Code::UnsupportedMediaType, "the body's encoding is not one that is taken here")
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                Self::new(Code::Unavailable, "the request took too long; repeat it with the same ids")
            }
            status if status.is_client_error() => Self::new(Code::NotJson, "the request can't be read"),
            _ => Self::new(Code::Internal, "the fault is in the log, by the request's id"),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Problem::from(invalid).into()
    }
}

impl From<NotJson> for Failure {
    fn from(fault: NotJson) -> Self {
        Problem::from(fault).into()
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        Problem::from(refusal).into()
    }
}

impl Failure {
    /// Its document.
    pub(super) fn into_problem(self) -> Box<Problem> {
        self.0
    }
}

impl Failure {
    /// Nobody is known by what was presented.
    pub(super) fn unauthorized() -> Self {
        Self::new(Code::Unauthorized, "send Authorization: Bearer with a token that is not revoked")
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Refused(refusal) => Self::from(&refusal),
            CommandError::NotFound(_) => Self::not_found(),
            CommandError::Conflict { code, detail, lease } => {
                let code = match code {
                    ConflictCode::LeaseRunning => Code::LeaseRunning,
                    ConflictCode::LeaseConflict => Code::LeaseConflict,
                    ConflictCode::Conflict => Code::Conflict,
                    ConflictCode::MonthOpen => Code::MonthOpen,
                    ConflictCode::MonthClosed => Code::MonthClosed,
                };
                let problem = Problem::new(code, detail);
                lease.iter().fold(problem, Problem::about).into()
            }
            CommandError::Invalid { pointer, detail } => Invalid { pointer, detail }.into(),
            CommandError::Unauthorized => Self::unauthorized(),
            CommandError::Unavailable(cause) => {
                tracing::warn!(%cause, "the ledger does not answer");
                Self::new(Code::Unavailable, "not known to be done; repeat the same request with the same ids")
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(status, &*self.0);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}
