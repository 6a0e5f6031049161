//! What was received and is not used: kept for people with its reason, in bounded number.

use super::id::{AccountId, HostId};
use super::time::Timestamp;

/// Most characters of a detail or of what a sender wrote; more is cut.
pub const ASIDE_CHARS_MAX: usize = 200;

/// By which door it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `POST /v1/samples`.
    Samples,
    /// `POST /v1/remote-write`.
    RemoteWrite,
}

impl Door {
    /// Both with their stable names.
    pub const ALL: [(Self, &str); 2] = [(Self::Samples, "samples"), (Self::RemoteWrite, "remote_write")];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(door, _)| *door == self).map_or("", |(_, name)| name)
    }
}

/// A sample, or what should have become one, that is not used. Ids are as the sender wrote them: they may be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The account that it names; it may not be there.
    pub account: Option<AccountId>,
    /// By which door it came.
    pub door: Door,
    /// Whose token sent it; `None`: an operator's.
    pub host: Option<HostId>,
    /// The sandbox that it names.
    pub sandbox: Option<String>,
    /// The lease that it names.
    pub lease: Option<String>,
    /// The instant that it names.
    pub at: Option<Timestamp>,
    /// The stable code of the reason.
    pub code: &'static str,
    /// The reason, for people.
    pub detail: String,
}

/// At most so many characters of a text.
#[must_use]
pub fn cut(text: &str, chars_max: usize) -> String {
    text.chars().filter(|letter| *letter != '\u{0}').take(chars_max).collect()
}
