//! What can be asked of the ledger, what it answers, and how it says no.

use std::sync::Arc;

use crate::domain::admission::Refusal;
use crate::domain::customer::AccountStatus;
use crate::domain::id::{
    AccountId, EventId, ExtendId, GrantId, HostId, KeyId, LeaseId, NoteId, RateCardId, SandboxId, VoidId,
};
use crate::domain::invoice_life::EventKind;
use crate::domain::lease::{EndReason, Lease};
use crate::domain::money::Micros;
use crate::domain::note::{NoteKind, NoteLine};
use crate::domain::rate_card::{PriceBook, RateCard};
use crate::domain::sample::{RejectCode, Sample};
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Month, Timestamp};

pub use crate::domain::admission::{AdmitRequest, LeaseRequest};
pub use crate::secret::SecretDigest;

/// Why a command changed nothing. Chosen by what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The gate said no.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// There is no such thing (or it is another account's).
    #[error("no such {0}")]
    NotFound(&'static str),
    /// It contradicts what is there.
    #[error("{detail}")]
    Conflict {
        /// Which problem code.
        code: ConflictCode,
        /// What is in the way and what to do.
        detail: String,
        /// The lease that it is about.
        lease: Option<LeaseId>,
    },
    /// A value that can't be taken, found only beside what is there.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer of the field, as in the request's body.
        pointer: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The secret that was presented is nobody's any more.
    #[error("the secret is nobody's")]
    Unauthorized,
    /// Not known to be done: the store did not answer, or too much waits. Repeating the same id is safe.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// The kinds of conflict that have a code of their own on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictCode {
    /// Another lease of the sandbox is on.
    LeaseRunning,
    /// Anything else about a lease, or an extension's id.
    LeaseConflict,
    /// Any other id.
    Conflict,
    /// The month has not ended.
    MonthOpen,
    /// The month is closed.
    MonthClosed,
}

/// What a command that makes something answers: the thing, and whether this command made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made<T> {
    /// The thing, as it is now.
    pub value: T,
    /// `false`: the same command had been carried out before.
    pub fresh: bool,
}

/// Makes an account, with the welcome free hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAccount {
    /// Its id.
    pub id: AccountId,
    /// Its name.
    pub name: String,
    /// Whether it can pay.
    pub card_on_file: bool,
    /// What is added to its invoices.
    pub tax: Option<TaxRate>,
}

/// Changes what is given of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateAccount {
    /// Which.
    pub id: AccountId,
    /// A new name.
    pub name: Option<String>,
    /// Whether it can pay.
    pub card_on_file: Option<bool>,
    /// Active or suspended.
    pub status: Option<AccountStatus>,
    /// `Some(None)` removes the limit.
    pub daily_limit: Option<Option<Micros>>,
    /// `Some(None)` removes the tax line.
    pub tax: Option<Option<TaxRate>>,
}

/// Makes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKey {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: KeyId,
    /// Its name.
    pub name: String,
    /// Whether it may only read.
    pub read_only: bool,
    /// Its daily limit.
    pub daily_limit: Option<Micros>,
    /// Its secret.
    pub secret: SecretDigest,
}

/// Changes what is given of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateKey {
    /// The account.
    pub account: AccountId,
    /// Which.
    pub id: KeyId,
    /// A new name.
    pub name: Option<String>,
    /// `Some(None)` removes the limit.
    pub daily_limit: Option<Option<Micros>>,
}

/// Makes a grant of free time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateGrant {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: GrantId,
    /// How much, in milliseconds.
    pub granted_ms: i64,
    /// The first day; `None`: today.
    pub starts_on: Option<Day>,
    /// The first day on which it pays no more; `None`: never.
    pub expires_on: Option<Day>,
    /// Free text.
    pub note: String,
}

/// Makes a grant of promotional credit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCredit {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: GrantId,
    /// How much.
    pub granted: Micros,
    /// The first day; `None`: today.
    pub starts_on: Option<Day>,
    /// The first day whose usage it pays for no more; `None`: never.
    pub expires_on: Option<Day>,
    /// Free text.
    pub note: String,
}

/// Records what happened to a final invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordEvent {
    /// Whose invoice.
    pub account: AccountId,
    /// Of which month.
    pub month: Month,
    /// The event's id.
    pub id: EventId,
    /// What happened.
    pub kind: EventKind,
    /// What it refers to; of a payment not empty.
    pub reference: String,
    /// Free text.
    pub note: String,
}

/// Issues a credit note or debit note on a final invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueNote {
    /// Whose invoice.
    pub account: AccountId,
    /// Of which month.
    pub month: Month,
    /// The note's id.
    pub id: NoteId,
    /// Which way it corrects.
    pub kind: NoteKind,
    /// Why.
    pub reason: String,
    /// 1 to 100 lines.
    pub lines: Vec<NoteLine>,
}

/// Whose sample is voided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A lease's.
    Lease(LeaseId),
    /// A sandbox's at rest.
    AtRest(SandboxId),
}

/// Voids an accepted sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoidSample {
    /// The account.
    pub account: AccountId,
    /// The void's id.
    pub id: VoidId,
    /// Whose sample.
    pub of: Target,
    /// Its instant.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// Adds a rate card to the default scope or to one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddRateCard {
    /// `None`: the default for all.
    pub account: Option<AccountId>,
    /// Its first day.
    pub effective_on: Day,
    /// The card.
    pub card: RateCard,
}

/// Returns an account to the default card from a day on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnToDefault {
    /// The account.
    pub account: AccountId,
    /// The first day.
    pub effective_on: Day,
}

/// Removes a rate card before its day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveRateCard {
    /// Which.
    pub id: RateCardId,
}

/// Adds time to a lease's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendLease {
    /// The account.
    pub account: AccountId,
    /// The lease.
    pub lease: LeaseId,
    /// The extension's id.
    pub id: ExtendId,
    /// How much, in milliseconds: whole seconds.
    pub timeout_ms: i64,
    /// The most that the worst case of the added window may cost.
    pub max_cost: Option<Micros>,
}

/// Tells that a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndLease {
    /// The account.
    pub account: AccountId,
    /// The lease.
    pub lease: LeaseId,
    /// When; `None`: now.
    pub ended_at: Option<Timestamp>,
    /// Why; never [`EndReason::Replaced`], which only an admission tells.
    pub reason: EndReason,
}

/// Tells that another host runs a lease from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveLease {
    /// The account.
    pub account: AccountId,
    /// The lease.
    pub lease: LeaseId,
    /// The host.
    pub host: HostId,
}

/// Registers a sandbox that has no lease: an image, a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutSandbox {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The key that its storage is attributed to.
    pub key: KeyId,
}

/// Deletes a sandbox at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteSandbox {
    /// The account.
    pub account: AccountId,
    /// The sandbox.
    pub sandbox: SandboxId,
}

/// Samples of one request, already parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The host whose token sent them; `None` for an operator, who may send for any host.
    pub host: Option<HostId>,
    /// The samples, in the order of the request.
    pub samples: Vec<Sample>,
}

/// What became of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleOutcome {
    /// It is in the ledger.
    Accepted,
    /// It was there already, with the same values.
    Duplicate,
    /// It is not used.
    Rejected(RejectCode),
}

/// What an admission answers.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The leases, in the order of the request, as they are now.
    pub leases: Vec<Arc<Lease>>,
    /// `false`: the same request had been carried out before.
    pub fresh: bool,
    /// The prices that they were admitted at.
    pub prices: Arc<PriceBook>,
}

/// What a quote answers: worst cases by lease, rounded up, or the refusal.
pub type Quote = Result<Vec<(LeaseId, Micros)>, Refusal>;

/// An instant range and paging for lists: ids after `after`, at most `limit`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// The last key of the page before.
    pub after: Option<String>,
    /// 1 to 1,000.
    pub limit: i64,
}

/// Who a bearer token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Everything.
    Admin,
    /// Leases and sandboxes; reads everything.
    ControlPlane,
    /// Samples of its own host only.
    Host(HostId),
    /// A customer's key; reads its own account.
    Customer {
        /// The account.
        account: AccountId,
        /// The key.
        key: KeyId,
        /// Whether it may only read.
        read_only: bool,
    },
}

/// A secret, and whose it was when it was last asked for: to be confirmed by the batch that does what its owner asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    /// Its SHA-256.
    pub sha256: [u8; 32],
    /// Whose it was.
    pub principal: Principal,
}

/// An operator token as it is kept (without its secret).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: crate::domain::id::TokenId,
    /// What it may do.
    pub role: Role,
    /// Free text of at most 200 characters.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Roles of operator tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Leases and sandboxes; reads everything.
    ControlPlane,
    /// Samples of one host.
    Host(HostId),
}
