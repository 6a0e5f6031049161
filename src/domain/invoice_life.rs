//! What becomes of a final invoice: recorded beside it, never changing it.

use super::id::{AccountId, EventId};
use super::time::{Month, Timestamp};

/// What happened to an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was sent to the customer.
    Sent,
    /// It was paid; the reference says how.
    Paid,
    /// It was not paid in time.
    Overdue,
    /// Nobody expects that it will be paid.
    WrittenOff,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sent, Self::Paid, Self::Overdue, Self::WrittenOff];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Paid => "paid",
            Self::Overdue => "overdue",
            Self::WrittenOff => "written_off",
        }
    }

    /// The kind of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it may follow on another (`None`: on nothing yet). Sent comes before all others or not at all (some pay before anything is sent); a payment is the end; what
    /// was written off may be paid after all.
    #[must_use]
    pub fn may_follow(self, last: Option<Self>) -> bool {
        match last {
            None => true,
            Some(Self::Paid) => false,
            Some(Self::Sent) => self != Self::Sent,
            Some(Self::Overdue) => matches!(self, Self::Paid | Self::WrittenOff),
            Some(Self::WrittenOff) => self == Self::Paid,
        }
    }
}

/// An event in an invoice's life; never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoiceEvent {
    /// Whose invoice.
    pub account: AccountId,
    /// Of which month.
    pub month: Month,
    /// Its place in the invoice's life: 0, 1, ...
    pub seq: i64,
    /// The event's id.
    pub id: EventId,
    /// What happened.
    pub kind: EventKind,
    /// What it refers to, such as a payment's reference; of a payment never empty.
    pub reference: String,
    /// Free text.
    pub note: String,
    /// When it was recorded.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::EventKind::{self, Overdue, Paid, Sent, WrittenOff};

    #[test]
    fn a_life_goes_forward() {
        let follow = |last, next: EventKind| next.may_follow(last);
        assert!(EventKind::ALL.into_iter().all(|kind| follow(None, kind)));
        assert!([Paid, Overdue, WrittenOff].into_iter().all(|kind| follow(Some(Sent), kind)));
        assert!([Paid, WrittenOff].into_iter().all(|kind| follow(Some(Overdue), kind)));
        assert!(follow(Some(WrittenOff), Paid));
        assert!(EventKind::ALL.into_iter().all(|kind| !follow(Some(kind), kind) && !follow(Some(Paid), kind)));
        assert!(!follow(Some(Overdue), Sent) && !follow(Some(WrittenOff), Overdue));
        assert!(EventKind::ALL.into_iter().all(|kind| EventKind::of_name(kind.name()) == Some(kind)));
    }
}
