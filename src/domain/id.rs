//! Identifiers: parsed, bounded, ordered; one type a kind, so that a key can't be passed for a lease.
//!
//! An id is 1 to 64 characters of `A-Z a-z 0-9 . _ : -` (API.md), but not `.` or `..`, which clients take out of a path. Ids come from callers and make commands idempotent.

use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Most characters of an id.
pub const ID_CHARS_MAX: usize = 64;

/// Why a text is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadId;

impl fmt::Display for BadId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an id has 1 to 64 characters of A-Z a-z 0-9 . _ : -, and is not . or ..")
    }
}

impl Error for BadId {}

fn parse(text: &str) -> Result<Arc<str>, BadId> {
    let fits = (1..=ID_CHARS_MAX).contains(&text.len());
    let clean = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
    if fits && clean && !matches!(text, "." | "..") { Ok(Arc::from(text)) } else { Err(BadId) }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Arc<str>);

        /// By its text. Ids that share it, as those of one account in a batch do, need not be looked at.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $name {
            /// Reads an id; [`BadId`] when the length or a character is outside the rule of this module.
            pub fn parse(text: &str) -> Result<Self, BadId> {
                parse(text).map(Self)
            }

            /// The id as its owner wrote it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:?}", &*self.0)
            }
        }
    };
}

id!(/// A customer: who is billed.
    AccountId);
id!(/// An API key of an account: what a daily spending limit hangs on.
    KeyId);
id!(/// A sandbox of an account; the same id after a deletion is a new life.
    SandboxId);
id!(/// A lease of an account: one continuous right to run one sandbox.
    LeaseId);
id!(/// An extension of a lease; makes extending idempotent.
    ExtendId);
id!(/// A host: a machine that runs sandboxes and reports samples.
    HostId);
id!(/// A grant of free time of an account.
    GrantId);
id!(/// A voided sample's record of an account; makes voiding idempotent.
    VoidId);
id!(/// What happened to an invoice; makes recording it idempotent.
    EventId);
id!(/// A credit note or debit note of an account; makes issuing it idempotent.
    NoteId);
id!(/// A rate card.
    RateCardId);
id!(/// An operator token.
    TokenId);

#[cfg(test)]
mod tests {
    use super::{AccountId, BadId};

    #[test]
    fn only_the_documented_alphabet_and_length_pass() {
        for good in ["a", "A.b_c:d-9", "...", ".a", &"x".repeat(64)] {
            assert_eq!(AccountId::parse(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", ".", "..", " ", "a b", "ä", "a/b", "a\u{0}", &"x".repeat(65)] {
            assert_eq!(AccountId::parse(bad), Err(BadId), "{bad:?}");
        }
    }
}
