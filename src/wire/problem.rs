//! Problem documents (RFC 9457): what every refusal and error looks like on the wire.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, NotJson};
use super::schema::{DayText, Id, MicrosCount, MillisCount, TimeText};
use super::time::{show_day, show_time};
use crate::domain::admission::{LimitReached, Refusal, Scope};
use crate::domain::id::LeaseId;

/// What the `type` of a problem begins with; its code follows.
const TYPE_BASE: &str = "https://runtab.dev/problems/";

/// What kind of problem it is. The code is stable; two kinds share `invalid_request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A daily limit would be passed.
    SpendingLimitReached,
    /// The account has no card on file.
    CardRequired,
    /// The worst case costs more than the request allows.
    MaxCostExceeded,
    /// The free time does not cover it.
    FreeHoursExhausted,
    /// Free time and credit do not cover it.
    CreditExhausted,
    /// The account is suspended.
    AccountSuspended,
    /// The key was revoked.
    KeyRevoked,
    /// The key may only read.
    ReadOnlyKey,
    /// The token may not do this.
    Forbidden,
    /// There is no valid token.
    Unauthorized,
    /// There is no such thing.
    NotFound,
    /// Another lease of the sandbox is on.
    LeaseRunning,
    /// The id of a lease or an extension has other content.
    LeaseConflict,
    /// Any other id has other content.
    Conflict,
    /// The month has not ended.
    MonthOpen,
    /// The month is closed.
    MonthClosed,
    /// The route has other methods.
    MethodNotAllowed,
    /// The body is of another type.
    UnsupportedMediaType,
    /// The body is too large.
    PayloadTooLarge,
    /// The body is not JSON.
    NotJson,
    /// A field can't be taken.
    InvalidRequest,
    /// Trouble that passes.
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// The code on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpendingLimitReached => "spending_limit_reached",
            Self::CardRequired => "card_required",
            Self::MaxCostExceeded => "max_cost_exceeded",
            Self::FreeHoursExhausted => "free_hours_exhausted",
            Self::CreditExhausted => "credit_exhausted",
            Self::AccountSuspended => "account_suspended",
            Self::KeyRevoked => "key_revoked",
            Self::ReadOnlyKey => "read_only_key",
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::LeaseRunning => "lease_running",
            Self::LeaseConflict => "lease_conflict",
            Self::Conflict => "conflict",
            Self::MonthOpen => "month_open",
            Self::MonthClosed => "month_closed",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::PayloadTooLarge => "payload_too_large",
            Self::NotJson | Self::InvalidRequest => "invalid_request",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::NotJson => 400,
            Self::Unauthorized => 401,
            Self::SpendingLimitReached
            | Self::CardRequired
            | Self::MaxCostExceeded
            | Self::FreeHoursExhausted
            | Self::CreditExhausted => 402,
            Self::AccountSuspended | Self::KeyRevoked | Self::ReadOnlyKey | Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::LeaseRunning | Self::LeaseConflict | Self::Conflict | Self::MonthOpen | Self::MonthClosed => 409,
            Self::PayloadTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::InvalidRequest => 422,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// The same for every problem of this code.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::SpendingLimitReached => "A daily spending limit would be passed",
            Self::CardRequired => "A payment card is required",
            Self::MaxCostExceeded => "The worst case costs more than max_cost_micros",
            Self::FreeHoursExhausted => "The free hours are used up",
            Self::CreditExhausted => "Free hours and credit do not cover the worst case",
            Self::AccountSuspended => "The account is suspended",
            Self::KeyRevoked => "The key is revoked",
            Self::ReadOnlyKey => "The key may only read",
            Self::Forbidden => "Not allowed with this token",
            Self::Unauthorized => "A valid bearer token is required",
            Self::NotFound => "Not found",
            Self::LeaseRunning => "Another lease of the sandbox is on",
            Self::LeaseConflict => "The lease is known with other content",
            Self::Conflict => "The id is known with other content",
            Self::MonthOpen => "The month has not ended",
            Self::MonthClosed => "The month is closed",
            Self::MethodNotAllowed => "The route has no such method",
            Self::UnsupportedMediaType => "The body's type is not taken here",
            Self::PayloadTooLarge => "The body is too large",
            Self::NotJson => "The body is not JSON",
            Self::InvalidRequest => "The request is invalid",
            Self::Unavailable => "Not available now; try again",
            Self::Internal => "Something went wrong here",
        }
    }
}

/// A problem document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// A URI that names the kind of problem; ends with the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// The stable code to branch on.
    pub code: Cow<'static, str>,
    /// What happened here and what to do, for people.
    pub detail: Cow<'static, str>,
    /// The field that can't be taken: a JSON pointer into the body, or `?name` of a query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pointer: Option<String>,
    /// Whose limit binds: `key` or `account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scope: Option<&'static str>,
    /// The key that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub key: Option<String>,
    /// The lease that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub lease: Option<String>,
    /// The day on which it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DayText, required = false)]
    pub day: Option<String>,
    /// The limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub limit_micros: Option<i64>,
    /// Used on that day, rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub used_micros: Option<i64>,
    /// Held on that day, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub reserved_micros: Option<i64>,
    /// What this request needs on that day, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub needed_micros: Option<i64>,
    /// What the limit leaves, rounded down, never below zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub available_micros: Option<i64>,
    /// When the day ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TimeText, required = false)]
    pub resets_at: Option<String>,
    /// The longest timeout with which this lease would fit, in seconds; 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub longest_timeout_seconds: Option<i64>,
    /// The worst case, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub worst_case_micros: Option<i64>,
    /// The most that it may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub max_cost_micros: Option<i64>,
    /// Free time needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MillisCount, required = false)]
    pub needed_ms: Option<i64>,
    /// Free time that is there for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MillisCount, required = false)]
    pub available_ms: Option<i64>,
}

impl Problem {
    /// A problem without extra members.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: format!("{TYPE_BASE}{}", code.as_str()),
            title: Cow::Borrowed(code.title()),
            status: code.status(),
            code: Cow::Borrowed(code.as_str()),
            detail: detail.into(),
            ..Self::default()
        }
    }

    /// There is no such thing, or it is another account's: always the very same document.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "there is no such thing in this account")
    }

    /// About a lease.
    #[must_use]
    pub fn about(mut self, lease: &LeaseId) -> Self {
        self.lease = Some(lease.to_string());
        self
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let at = if invalid.pointer.is_empty() { "the body" } else { &invalid.pointer };
        let detail = format!("{at}: {}", invalid.detail);
        Self { pointer: Some(invalid.pointer), ..Self::new(Code::InvalidRequest, detail) }
    }
}

impl From<NotJson> for Problem {
    fn from(fault: NotJson) -> Self {
        Self::new(Code::NotJson, fault.detail)
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::AccountSuspended => Self::new(Code::AccountSuspended, "a suspended account starts no leases"),
            Refusal::UnknownKey => Self::not_found(),
            Refusal::KeyRevoked => Self::new(Code::KeyRevoked, "a revoked key starts no leases"),
            Refusal::ReadOnlyKey => Self::new(Code::ReadOnlyKey, "a read-only key starts no leases"),
            Refusal::LeaseRunning { lease } => {
                Self::new(Code::LeaseRunning, "end that lease first, or name it in replaces").about(lease)
            }
            Refusal::MaxCostExceeded { lease, worst_case, max_cost } => Self {
                worst_case_micros: Some(worst_case.count()),
                max_cost_micros: Some(max_cost.count()),
                ..Self::new(Code::MaxCostExceeded, "ask for a smaller shape or a shorter timeout").about(lease)
            },
            Refusal::CardRequired { lease } => {
                let detail = "this shape or disk is beyond what free hours cover; put a card on file";
                Self::new(Code::CardRequired, detail).about(lease)
            }
            Refusal::FreeHoursExhausted { needed_ms, available_ms } => Self {
                needed_ms: Some(*needed_ms),
                available_ms: Some(*available_ms),
                ..Self::new(Code::FreeHoursExhausted, "ask for a shorter timeout, or put a card on file")
            },
            Refusal::CreditExhausted { lease, needed, available } => Self {
                needed_micros: Some(needed.count()),
                available_micros: Some(available.count()),
                ..Self::new(
                    Code::CreditExhausted,
                    "ask for a smaller shape or a shorter timeout, or put a card on file",
                )
                .about(lease)
            },
            Refusal::SpendingLimitReached(limit) => Self::from(&**limit),
        }
    }
}

impl From<&LimitReached> for Problem {
    fn from(limit: &LimitReached) -> Self {
        let scope = match limit.scope {
            Scope::Key => "key",
            Scope::Account => "account",
        };
        let detail = format!(
            "the {scope}'s daily limit leaves {} microdollars on {}, and {} are needed",
            limit.available.count(),
            show_day(limit.day),
            limit.needed.count(),
        );
        Self {
            scope: Some(scope),
            key: Some(limit.key.to_string()),
            day: Some(show_day(limit.day)),
            limit_micros: Some(limit.limit.count()),
            used_micros: Some(limit.used.count()),
            reserved_micros: Some(limit.reserved.count()),
            needed_micros: Some(limit.needed.count()),
            available_micros: Some(limit.available.count()),
            resets_at: Some(show_time(limit.resets_at)),
            longest_timeout_seconds: Some(limit.longest_timeout_s),
            ..Self::new(Code::SpendingLimitReached, detail).about(&limit.lease)
        }
    }
}
