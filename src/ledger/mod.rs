//! The ledger: takes commands, groups those that wait into one batch, and for each batch loads the rows that it
//! touches, applies the commands one after another with the pure core, saves what changed, commits, and only then
//! answers.

pub mod apply;
pub mod command;
pub mod evidence;
pub mod load;
pub mod post;
pub mod view;
pub mod working_set;

use command::{
    AddRateCard, AdmitRequest, Admitted, CommandError, CreateAccount, CreateGrant, CreateKey, DeleteSandbox, EndLease,
    ExtendLease, Ingest, Made, MoveLease, Page, Principal, PutSandbox, Quote, RemoveRateCard, ReturnToDefault, Role,
    SampleOutcome, SecretDigest, Token, UpdateAccount, UpdateKey,
};
use view::{Balance, CardsInForce, CostQuery, CostTable, LeaseFilter, LeaseView, Listed, SandboxView};

use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId, TokenId};
use crate::domain::lease::Lease;
use crate::domain::rate_card::RateCardEntry;

/// The handle that edges hold: cheap to clone, one a process.
#[derive(Clone)]
pub struct Ledger {}

/// What every call answers.
pub type Answer<T> = Result<T, CommandError>;

fn later<T>() -> Answer<T> {
    Err(CommandError::Unavailable("not yet".to_owned()))
}

#[expect(missing_docs, clippy::unused_async, unused_variables, reason = "the shape only")]
impl Ledger {
    // Commands.
    pub async fn create_account(&self, command: CreateAccount) -> Answer<Made<Account>> {
        later()
    }
    pub async fn update_account(&self, command: UpdateAccount) -> Answer<Account> {
        later()
    }
    pub async fn create_key(&self, command: CreateKey) -> Answer<Made<Key>> {
        later()
    }
    pub async fn update_key(&self, command: UpdateKey) -> Answer<Key> {
        later()
    }
    pub async fn rotate_key(&self, account: AccountId, key: KeyId, secret: SecretDigest) -> Answer<Key> {
        later()
    }
    pub async fn revoke_key(&self, account: AccountId, key: KeyId) -> Answer<Key> {
        later()
    }
    pub async fn create_grant(&self, command: CreateGrant) -> Answer<Made<Grant>> {
        later()
    }
    pub async fn add_rate_card(&self, command: AddRateCard) -> Answer<Made<RateCardEntry>> {
        later()
    }
    pub async fn return_to_default(&self, command: ReturnToDefault) -> Answer<Made<RateCardEntry>> {
        later()
    }
    pub async fn remove_rate_card(&self, command: RemoveRateCard) -> Answer<()> {
        later()
    }
    pub async fn create_token(&self, role: Role, name: String, secret: SecretDigest) -> Answer<Token> {
        later()
    }
    pub async fn revoke_token(&self, id: TokenId) -> Answer<()> {
        later()
    }
    pub async fn admit(&self, request: AdmitRequest) -> Answer<Admitted> {
        later()
    }
    pub async fn quote(&self, request: AdmitRequest) -> Answer<Quote> {
        later()
    }
    pub async fn extend(&self, command: ExtendLease) -> Answer<Lease> {
        later()
    }
    pub async fn end(&self, command: EndLease) -> Answer<Lease> {
        later()
    }
    pub async fn move_lease(&self, command: MoveLease) -> Answer<Lease> {
        later()
    }
    pub async fn put_sandbox(&self, command: PutSandbox) -> Answer<()> {
        later()
    }
    pub async fn delete_sandbox(&self, command: DeleteSandbox) -> Answer<()> {
        later()
    }
    /// One outcome a sample, in the order of the request.
    pub async fn ingest(&self, command: Ingest) -> Answer<Vec<SampleOutcome>> {
        later()
    }

    // Reads: each is a consistent snapshot.
    pub async fn ready(&self) -> Answer<()> {
        later()
    }
    pub async fn authenticate(&self, sha256: [u8; 32]) -> Answer<Option<Principal>> {
        later()
    }
    pub async fn accounts(&self, page: Page) -> Answer<Listed<Account>> {
        later()
    }
    pub async fn account(&self, id: &AccountId) -> Answer<Option<Account>> {
        later()
    }
    pub async fn keys(&self, account: &AccountId, page: Page) -> Answer<Listed<Key>> {
        later()
    }
    pub async fn key(&self, account: &AccountId, key: &KeyId) -> Answer<Option<Key>> {
        later()
    }
    pub async fn grants(&self, account: &AccountId, page: Page) -> Answer<Listed<Grant>> {
        later()
    }
    pub async fn rate_cards(&self, page: Page) -> Answer<Listed<RateCardEntry>> {
        later()
    }
    pub async fn cards_in_force(&self, account: &AccountId) -> Answer<CardsInForce> {
        later()
    }
    pub async fn tokens(&self, page: Page) -> Answer<Listed<Token>> {
        later()
    }
    pub async fn leases(&self, account: &AccountId, filter: LeaseFilter, page: Page) -> Answer<Listed<LeaseView>> {
        later()
    }
    pub async fn lease(&self, account: &AccountId, lease: &LeaseId) -> Answer<Option<LeaseView>> {
        later()
    }
    /// Views of leases that a command just answered, in that order.
    pub async fn views_of(&self, leases: Vec<Lease>) -> Answer<Vec<LeaseView>> {
        later()
    }
    pub async fn sandboxes(&self, account: &AccountId, page: Page) -> Answer<Listed<SandboxView>> {
        later()
    }
    pub async fn sandbox(&self, account: &AccountId, sandbox: &SandboxId) -> Answer<Option<SandboxView>> {
        later()
    }
    pub async fn costs(&self, query: CostQuery) -> Answer<CostTable> {
        later()
    }
    pub async fn balance(&self, account: &AccountId) -> Answer<Option<Balance>> {
        later()
    }
}
