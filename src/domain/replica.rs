//! Replicas: of several senders that report the same, one is listened to for each sandbox, until it falls silent.

use super::id::{AccountId, SandboxId};
use super::time::Timestamp;

/// Most characters of a replica's name; a longer one is cut.
pub const REPLICA_CHARS_MAX: usize = 64;

/// Who is listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The replica's name.
    pub replica: String,
    /// When it was last heard of, within a third of the time after which it counts as silent.
    pub seen_at: Timestamp,
}

/// Whether a replica is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is; `note`: it is to be noted that it was heard.
    Heard {
        /// Whether what is kept of it has become old, or names another.
        note: bool,
    },
    /// Another one is.
    Another,
}

/// Chooses between the one that was listened to so far and the one that speaks at `now`. It is silent after
/// `silent_ms` milliseconds.
#[must_use]
pub fn choose(so_far: Option<&Chosen>, speaks: &str, now: Timestamp, silent_ms: i64) -> Choice {
    let Some(chosen) = so_far else { return Choice::Heard { note: true } };
    let since = now.since(chosen.seen_at);
    if chosen.replica == speaks {
        Choice::Heard { note: since.saturating_mul(3) >= silent_ms }
    } else if since >= silent_ms {
        Choice::Heard { note: true }
    } else {
        Choice::Another
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Chosen, choose};
    use crate::domain::id::{AccountId, SandboxId};
    use crate::domain::time::Timestamp;

    #[test]
    fn one_is_heard_until_it_is_silent() {
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        let chosen = Chosen {
            account: AccountId::parse("a").unwrap(),
            sandbox: SandboxId::parse("s").unwrap(),
            replica: "one".to_owned(),
            seen_at: at(100_000),
        };
        let heard = |replica, ms| choose(Some(&chosen), replica, at(ms), 30_000);
        assert_eq!(choose(None, "two", at(0), 30_000), Choice::Heard { note: true });
        assert_eq!(heard("one", 109_999), Choice::Heard { note: false });
        assert_eq!(heard("one", 110_000), Choice::Heard { note: true });
        assert_eq!(heard("two", 129_999), Choice::Another);
        assert_eq!(heard("two", 130_000), Choice::Heard { note: true });
    }
}
