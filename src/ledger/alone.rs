//! Commands that are carried out alone, each in a transaction of its own: customers, tokens, and quotes.
//!
//! They are rare, and some begin counters from what is stored; so no other command shares their working set.

use std::collections::BTreeSet;

use super::batch::{Engine, told};
use super::command::{
    AddRateCard, AdmitRequest, CommandError, CreateAccount, CreateCredit, CreateGrant, CreateKey, IssueNote, Made,
    Quote, RecordEvent, RemoveRateCard, ReturnToDefault, Role, SecretDigest, Token, UpdateAccount, UpdateKey,
    VoidSample,
};
use super::retry::{Attempts, Failed};
use super::working_set::WorkingSet;
use super::{Answer, gate, load};
use crate::domain::credit::Credit;
use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, KeyId, RateCardId, TokenId};
use crate::domain::invoice_life::InvoiceEvent;
use crate::domain::money::Micros;
use crate::domain::note::Note;
use crate::domain::rate_card::RateCardEntry;
use crate::domain::time::Day;
use crate::domain::void::Void;
use crate::store::shapes::{Bearer, TokenRecord, TokenRole};
use crate::store::{Lane, StoreError, Tx};

/// A command that is carried out alone.
#[derive(Clone, Debug)]
pub enum Alone {
    /// Makes an account.
    CreateAccount(CreateAccount),
    /// Changes an account.
    UpdateAccount(UpdateAccount),
    /// Makes a key.
    CreateKey(CreateKey),
    /// Changes a key.
    UpdateKey(UpdateKey),
    /// Gives a key another secret.
    RotateKey(AccountId, KeyId, SecretDigest),
    /// Revokes a key.
    RevokeKey(AccountId, KeyId),
    /// Grants free time.
    CreateGrant(CreateGrant),
    /// Grants promotional credit.
    CreateCredit(CreateCredit),
    /// Voids a sample.
    VoidSample(VoidSample),
    /// Records what happened to an invoice.
    RecordEvent(RecordEvent),
    /// Issues a note on an invoice.
    IssueNote(IssueNote),
    /// Adds a rate card.
    AddRateCard(AddRateCard),
    /// Returns an account to the default card.
    ReturnToDefault(ReturnToDefault),
    /// Removes a rate card.
    RemoveRateCard(RemoveRateCard),
    /// Makes an operator token.
    CreateToken(TokenId, Role, String, SecretDigest),
    /// Revokes an operator token.
    RevokeToken(TokenId),
    /// Asks what an admission would answer.
    Quote(AdmitRequest),
}

/// What such a command answers.
#[derive(Clone, Debug)]
pub enum AloneAnswer {
    /// An account.
    Account(Made<Account>),
    /// A key.
    Key(Made<Key>),
    /// A grant.
    Grant(Made<Grant>),
    /// A grant of credit.
    Credit(Made<(Credit, Micros)>),
    /// A void.
    Void(Box<Made<Void>>),
    /// An event of an invoice.
    Event(Made<InvoiceEvent>),
    /// A note on an invoice.
    Note(Box<Made<Note>>),
    /// A rate card's entry.
    RateCard(Box<Made<RateCardEntry>>),
    /// A token.
    Token(Token),
    /// A quote.
    Quote(Quote),
    /// Done.
    Done,
}

impl Engine {
    /// Carries out one such command in a transaction of its own.
    pub(super) async fn alone(&self, command: &Alone) -> Answer<AloneAnswer> {
        self.in_time(self.carry_out_alone(command)).await.unwrap_or_else(|error| Err(told(error)))
    }

    async fn carry_out_alone(&self, command: &Alone) -> Result<Answer<AloneAnswer>, StoreError> {
        let mut attempts = Attempts::new();
        loop {
            if let Some(answer) = attempts.after(Box::pin(self.try_alone(command)).await).await {
                return answer;
            }
        }
    }

    async fn try_alone(&self, command: &Alone) -> Result<Answer<AloneAnswer>, Failed<Answer<AloneAnswer>>> {
        if let Alone::Quote(request) = command {
            return Ok(gate::quote(self, request).await?.map(AloneAnswer::Quote));
        }
        let (mut tx, mut set) = self.begin(Lane::Decision).await?;
        let answer = match command {
            Alone::CreateToken(id, role, name, secret) => {
                let answer = Ok(create_token(&mut tx, &set, id, role, name, secret).await?);
                return committed(tx, answer).await;
            }
            Alone::RevokeToken(id) => {
                let known = tx.delete_token(id).await?;
                let answer = if known { Ok(AloneAnswer::Done) } else { Err(CommandError::NotFound("token")) };
                return committed(tx, answer).await;
            }
            other => carry_out(&mut tx, &mut set, other).await?,
        };
        if answer.is_ok() { self.finish(tx, &set, answer).await.map_err(Failed::of_one) } else { Ok(answer) }
    }
}

async fn committed(tx: Tx, answer: Answer<AloneAnswer>) -> Result<Answer<AloneAnswer>, Failed<Answer<AloneAnswer>>> {
    match tx.commit().await {
        Ok(()) => Ok(answer),
        Err(error) => Err(Failed::at_commit(error, answer)),
    }
}

async fn create_token(
    tx: &mut Tx,
    set: &WorkingSet,
    id: &TokenId,
    role: &Role,
    name: &str,
    secret: &SecretDigest,
) -> Result<AloneAnswer, StoreError> {
    let kept = match role {
        Role::Admin => TokenRole::Admin,
        Role::ControlPlane => TokenRole::ControlPlane,
        Role::Host(host) => TokenRole::Host(host.clone()),
    };
    let token = |created_at| {
        AloneAnswer::Token(Token { id: id.clone(), role: role.clone(), name: name.to_owned(), created_at })
    };
    // A secret is nobody else's: this very command has made it, and was not told so.
    if let Some(Bearer::Token(known)) = tx.bearers(&[secret.sha256]).await?.pop().flatten() {
        return Ok(token(known.created_at));
    }
    let record = TokenRecord { id: id.clone(), role: kept, name: name.to_owned(), created_at: set.now };
    tx.insert_token(&record, &secret.sha256).await?;
    Ok(token(set.now))
}

async fn carry_out(tx: &mut Tx, set: &mut WorkingSet, command: &Alone) -> Result<Answer<AloneAnswer>, StoreError> {
    if let Some(account) = account_of(command) {
        load_customer(tx, set, account, begins_counters(command)).await?;
        if matches!(command, Alone::CreateGrant(_) | Alone::CreateCredit(_)) {
            set.credits = tx.credit_books(&[account.clone()].into()).await?;
        }
    }
    load::tell_time(tx, set).await?;
    let done = |()| AloneAnswer::Done;
    let known = |key: Key| AloneAnswer::Key(Made { value: key, fresh: false });
    let card = |made: Made<RateCardEntry>| AloneAnswer::RateCard(Box::new(made));
    Ok(match command {
        Alone::CreateAccount(command) => set.create_account(command).map(AloneAnswer::Account),
        Alone::UpdateAccount(command) => {
            set.update_account(command).map(|account| AloneAnswer::Account(Made { value: account, fresh: false }))
        }
        Alone::CreateKey(command) => {
            load_key(tx, set, &command.account, &command.id).await?;
            let made = set.create_key(command);
            let own =
                Bearer::Key { account: command.account.clone(), key: command.id.clone(), read_only: command.read_only };
            // Its secret tells that this very command has made it, and was not told so.
            let ours = made.as_ref().is_ok_and(|made| !made.fresh)
                && tx.bearers(&[command.secret.sha256]).await?.contains(&Some(own));
            made.map(|made| AloneAnswer::Key(Made { fresh: made.fresh || ours, ..made }))
        }
        Alone::UpdateKey(command) => {
            load_key(tx, set, &command.account, &command.id).await?;
            set.update_key(command).map(known)
        }
        Alone::RotateKey(account, key, secret) => {
            load_key(tx, set, account, key).await?;
            set.rotate_key(account, key, secret).map(known)
        }
        Alone::RevokeKey(account, key) => {
            load_key(tx, set, account, key).await?;
            set.revoke_key(account, key).map(known)
        }
        Alone::CreateGrant(command) => set.create_grant(command).map(AloneAnswer::Grant),
        Alone::CreateCredit(command) => set.create_credit(command).map(AloneAnswer::Credit),
        Alone::RecordEvent(command) => super::notes::record(tx, set, command).await?,
        Alone::IssueNote(command) => super::notes::issue(tx, set, command).await?,
        Alone::VoidSample(command) => {
            let known = tx.void(&command.account, &command.id).await?;
            let evidence = if known.is_none() { super::voids::load(tx, set, command).await? } else { None };
            load::tell_time(tx, set).await?;
            let made = set.void_sample(command, known.as_ref(), evidence.as_ref());
            made.map(|made| AloneAnswer::Void(Box::new(made)))
        }
        Alone::AddRateCard(command) => {
            let same_id = entry_of(tx, &command.card.id).await?;
            let same_day = entry_on(tx, command.account.as_ref(), command.effective_on).await?;
            set.add_rate_card(command, same_id.as_ref(), same_day.as_ref()).map(card)
        }
        Alone::ReturnToDefault(command) => {
            let same_day = entry_on(tx, Some(&command.account), command.effective_on).await?;
            set.return_to_default(command, same_day.as_ref()).map(card)
        }
        Alone::RemoveRateCard(command) => {
            let entry = entry_of(tx, &command.id).await?;
            set.remove_rate_card(command, entry.as_ref()).map(done)
        }
        Alone::CreateToken(..) | Alone::RevokeToken(_) | Alone::Quote(_) => Ok(AloneAnswer::Done),
    })
}

fn account_of(command: &Alone) -> Option<&AccountId> {
    match command {
        Alone::CreateAccount(command) => Some(&command.id),
        Alone::UpdateAccount(command) => Some(&command.id),
        Alone::CreateKey(command) => Some(&command.account),
        Alone::UpdateKey(command) => Some(&command.account),
        Alone::RotateKey(account, ..) | Alone::RevokeKey(account, _) => Some(account),
        Alone::CreateGrant(command) => Some(&command.account),
        Alone::CreateCredit(command) => Some(&command.account),
        Alone::VoidSample(command) => Some(&command.account),
        Alone::RecordEvent(command) => Some(&command.account),
        Alone::IssueNote(command) => Some(&command.account),
        Alone::AddRateCard(command) => command.account.as_ref(),
        Alone::ReturnToDefault(command) => Some(&command.account),
        Alone::RemoveRateCard(_) | Alone::CreateToken(..) | Alone::RevokeToken(_) | Alone::Quote(_) => None,
    }
}

/// Whether a command may be the one that sets an account's first limit.
fn begins_counters(command: &Alone) -> bool {
    matches!(command, Alone::UpdateAccount(UpdateAccount { daily_limit: Some(Some(_)), .. }))
}

async fn load_customer(tx: &mut Tx, set: &mut WorkingSet, account: &AccountId, alone: bool) -> Result<(), StoreError> {
    let ids: BTreeSet<AccountId> = [account.clone()].into();
    let found = if alone { tx.lock_accounts_alone(&ids).await? } else { tx.lock_accounts(&ids).await? };
    set.accounts.extend(found.into_iter().map(|account| (account.id.clone(), account)));
    set.take_grants(tx.grants(&ids).await?);
    Ok(())
}

async fn load_key(tx: &mut Tx, set: &mut WorkingSet, account: &AccountId, key: &KeyId) -> Result<(), StoreError> {
    let keys = tx.keys(&[(account.clone(), key.clone())].into()).await?;
    set.keys.extend(keys.into_iter().map(|key| ((key.account.clone(), key.id.clone()), key)));
    Ok(())
}

async fn entry_of(tx: &mut Tx, id: &RateCardId) -> Result<Option<RateCardEntry>, StoreError> {
    Ok(tx.rate_cards_by_id(&[id.clone()].into()).await?.pop())
}

async fn entry_on(tx: &mut Tx, scope: Option<&AccountId>, day: Day) -> Result<Option<RateCardEntry>, StoreError> {
    let entries = tx.rate_card_entries(&scope.cloned().into_iter().collect()).await?;
    Ok(entries.into_iter().find(|entry| entry.account.as_ref() == scope && entry.effective_on == day))
}
