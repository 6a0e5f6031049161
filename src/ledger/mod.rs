//! The ledger: takes commands, groups those that wait into one batch, and for each batch loads the rows that it
//! touches, applies the commands one after another with the pure core, saves what changed, commits, and only then
//! answers.
//!
//! [`Ledger`] is the handle that edges hold. [`command`] says what can be asked, [`view`] what reads answer. A batch goes
//! through [`lanes`] (who waits where), [`batch`] (who is in it), [`load`] (its rows), [`apply`] (the pure part) and back
//! to [`batch`] (commit).

pub mod alone;
pub mod apply;
pub mod archive;
pub mod aside;
pub mod batch;
mod callers;
pub mod close;
pub mod command;
mod cut;
pub mod evidence;
pub mod gate;
pub mod ingest;
pub mod lanes;
pub mod lives;
pub mod load;
pub mod notes;
mod onward;
mod outbox;
pub mod parts;
pub mod post;
pub mod proof;
pub mod queries;
mod recall;
mod retry;
pub mod tally;
mod unseen;
pub mod verify;
pub mod view;
pub mod voids;
pub mod working_set;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use alone::{Alone, AloneAnswer};
use batch::{AtGate, BatchLimits, Engine, Gate, Passed, told};
use callers::Callers;
use command::{
    AddRateCard, AdmitRequest, Admitted, CommandError, CreateAccount, CreateCredit, CreateGrant, CreateKey,
    DeleteSandbox, EndLease, ExtendLease, Ingest, Made, MoveLease, Presented, PutSandbox, Quote, RemoveRateCard,
    ReturnToDefault, Role, SampleOutcome, SecretDigest, Token, UpdateAccount, UpdateKey, VoidSample,
};
use lanes::{Job, Lanes};
use lives::{Life, LifeAnswer};
use working_set::{LeaseKey, Rules};

use crate::clock::Clock;
use crate::domain::credit::Credit;
use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, KeyId, TokenId};
use crate::domain::lease::Lease;
use crate::domain::money::Micros;
use crate::domain::rate_card::RateCardEntry;
use crate::domain::void::Void;
use crate::store::Store;

/// What every call answers.
pub type Answer<T> = Result<T, CommandError>;

/// The handle that edges hold: cheap to clone; clones share one set of workers.
#[derive(Clone, Debug)]
pub struct Ledger {
    engine: Engine,
    lanes: Lanes,
    callers: Callers,
    stop: CancellationToken,
    workers: Arc<tokio::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>>,
}

/// An answer of the wrong kind: a bug, told as unavailable so that nobody takes it for a yes.
fn mismatched<T>() -> Answer<T> {
    Err(CommandError::Unavailable("the ledger gave an answer of another kind".to_owned()))
}

async fn ask<C, T>(lane: &mpsc::Sender<Job<C, T>>, command: C) -> Answer<T> {
    let (reply, answer) = oneshot::channel();
    lane.try_send(Job { command, reply })
        .map_err(|_| CommandError::Unavailable("too many commands wait, or the engine is stopping".to_owned()))?;
    answer.await.unwrap_or_else(|_| Err(CommandError::Unavailable("the engine is stopping".to_owned())))
}

impl Ledger {
    /// Starts the ledger's workers on a store whose schema is up to date. Needs a tokio runtime.
    #[must_use]
    pub fn start(store: Store, clock: Clock, rules: Rules, limits: BatchLimits) -> Self {
        let engine = Engine {
            store,
            clock,
            rules: Arc::new(rules),
            limits,
            tally: Arc::default(),
            recall: Arc::default(),
            doubts: Arc::default(),
        };
        let stop = CancellationToken::new();
        let (lanes, mut workers) = batch::start(&engine, &stop);
        let (callers, worker) = Callers::start(engine.store.clone(), limits.queue_max, stop.clone());
        workers.push(worker);
        Self { engine, lanes, callers, stop, workers: Arc::new(tokio::sync::Mutex::new(workers)) }
    }

    /// Takes no more commands, and returns when all that were accepted are answered.
    pub async fn close(&self) {
        self.stop.cancel();
        for worker in self.workers.lock().await.drain(..) {
            if let Err(error) = worker.await {
                tracing::error!(%error, "a ledger worker failed");
            }
        }
        self.engine.store.close().await;
    }

    /// Whether a worker has ended that was not told to: what waits for it is answered as unavailable.
    fn has_failed(&self) -> bool {
        // Whoever closes has the list until they all have ended.
        let workers = self.workers.try_lock();
        workers.is_ok_and(|workers| workers.iter().any(tokio::task::JoinHandle::is_finished))
    }

    /// What is counted for operators.
    #[must_use]
    pub fn tally(&self) -> &tally::Tally {
        &self.engine.tally
    }

    async fn alone(&self, command: Alone) -> Answer<AloneAnswer> {
        ask(&self.lanes.alone, command).await
    }

    async fn one_account(&self, command: Alone) -> Answer<Made<Account>> {
        match self.alone(command).await? {
            AloneAnswer::Account(made) => Ok(made),
            _ => mismatched(),
        }
    }

    async fn one_key(&self, command: Alone) -> Answer<Made<Key>> {
        match self.alone(command).await? {
            AloneAnswer::Key(made) => Ok(made),
            _ => mismatched(),
        }
    }

    async fn one_card(&self, command: Alone) -> Answer<Made<RateCardEntry>> {
        match self.alone(command).await? {
            AloneAnswer::RateCard(made) => Ok(*made),
            _ => mismatched(),
        }
    }

    async fn done(&self, command: Alone) -> Answer<()> {
        self.alone(command).await.map(drop)
    }

    async fn one_lease(&self, command: Life) -> Answer<Lease> {
        match ask(&self.lanes.lives, command).await? {
            LifeAnswer::Lease(lease) => Ok(*lease),
            LifeAnswer::Done => mismatched(),
        }
    }

    /// Makes an account, with the welcome free hours.
    pub async fn create_account(&self, command: CreateAccount) -> Answer<Made<Account>> {
        self.one_account(Alone::CreateAccount(command)).await
    }

    /// Changes what is given of an account.
    pub async fn update_account(&self, command: UpdateAccount) -> Answer<Account> {
        self.one_account(Alone::UpdateAccount(command)).await.map(|made| made.value)
    }

    /// Makes a key.
    pub async fn create_key(&self, command: CreateKey) -> Answer<Made<Key>> {
        self.one_key(Alone::CreateKey(command)).await
    }

    /// Changes what is given of a key.
    pub async fn update_key(&self, command: UpdateKey) -> Answer<Key> {
        self.one_key(Alone::UpdateKey(command)).await.map(|made| made.value)
    }

    /// Gives a key another secret; usage and limit go on.
    pub async fn rotate_key(&self, account: AccountId, key: KeyId, secret: SecretDigest) -> Answer<Key> {
        self.one_key(Alone::RotateKey(account, key, secret)).await.map(|made| made.value)
    }

    /// Revokes a key; its usage stays.
    pub async fn revoke_key(&self, account: AccountId, key: KeyId) -> Answer<Key> {
        self.one_key(Alone::RevokeKey(account, key)).await.map(|made| made.value)
    }

    /// Makes a grant of free time.
    pub async fn create_grant(&self, command: CreateGrant) -> Answer<Made<Grant>> {
        match self.alone(Alone::CreateGrant(command)).await? {
            AloneAnswer::Grant(made) => Ok(made),
            _ => mismatched(),
        }
    }

    /// Makes a grant of promotional credit. Answers what final invoices have drawn on it, too.
    pub async fn create_credit(&self, command: CreateCredit) -> Answer<Made<(Credit, Micros)>> {
        match self.alone(Alone::CreateCredit(command)).await? {
            AloneAnswer::Credit(made) => Ok(made),
            _ => mismatched(),
        }
    }

    /// Voids an accepted sample: it stays in the evidence and counts no more.
    pub async fn void_sample(&self, command: VoidSample) -> Answer<Made<Void>> {
        match self.alone(Alone::VoidSample(command)).await? {
            AloneAnswer::Void(made) => Ok(*made),
            _ => mismatched(),
        }
    }

    /// Adds a rate card.
    pub async fn add_rate_card(&self, command: AddRateCard) -> Answer<Made<RateCardEntry>> {
        self.one_card(Alone::AddRateCard(command)).await
    }

    /// Returns an account to the default card from a day on.
    pub async fn return_to_default(&self, command: ReturnToDefault) -> Answer<Made<RateCardEntry>> {
        self.one_card(Alone::ReturnToDefault(command)).await
    }

    /// Removes a rate card before its day.
    pub async fn remove_rate_card(&self, command: RemoveRateCard) -> Answer<()> {
        self.done(Alone::RemoveRateCard(command)).await
    }

    /// Makes an operator token. Its id is made of its secret's digest.
    pub async fn create_token(&self, role: Role, name: String, secret: SecretDigest) -> Answer<Token> {
        let digits = crate::secret::hex(secret.sha256.get(..6).unwrap_or_default());
        let id =
            TokenId::parse(&format!("token-{digits}")).map_err(|bad| CommandError::Unavailable(bad.to_string()))?;
        match self.alone(Alone::CreateToken(id, role, name, secret)).await? {
            AloneAnswer::Token(token) => Ok(token),
            _ => mismatched(),
        }
    }

    /// Revokes an operator token.
    pub async fn revoke_token(&self, id: TokenId) -> Answer<()> {
        self.done(Alone::RevokeToken(id)).await
    }

    /// Whose secret this was when it was last asked for, where it was an operator's: for [`Ledger::admit_by`] and
    /// [`Ledger::extend_by`], which confirm it. `None`: to be asked for.
    #[must_use]
    pub fn recognise(&self, sha256: [u8; 32]) -> Option<Presented> {
        self.callers.recognise(sha256)
    }

    async fn pass(&self, command: Gate, by: Option<Presented>) -> Answer<Passed> {
        ask(&self.lanes.gate, AtGate { command, by }).await
    }

    /// Asks the gate for leases: all or nothing.
    pub async fn admit(&self, request: AdmitRequest) -> Answer<Admitted> {
        self.admit_by(request, None).await
    }

    /// [`Ledger::admit`] for who presents a secret, if it is to be confirmed; [`CommandError::Unauthorized`] where it is not
    /// whose it was.
    pub async fn admit_by(&self, request: AdmitRequest, by: Option<Presented>) -> Answer<Admitted> {
        match self.pass(Gate::Admit(request), by).await? {
            Passed::Admitted(admitted) => Ok(admitted),
            Passed::Extended(_) => mismatched(),
        }
    }

    /// Answers what an admission would, and changes nothing.
    pub async fn quote(&self, request: AdmitRequest) -> Answer<Quote> {
        match self.alone(Alone::Quote(request)).await? {
            AloneAnswer::Quote(quote) => Ok(quote),
            _ => mismatched(),
        }
    }

    /// Adds time to a lease's end.
    pub async fn extend(&self, command: ExtendLease) -> Answer<Lease> {
        self.extend_by(command, None).await
    }

    /// [`Ledger::extend`], confirming a secret as [`Ledger::admit_by`] does.
    pub async fn extend_by(&self, command: ExtendLease, by: Option<Presented>) -> Answer<Lease> {
        match self.pass(Gate::Extend(command), by).await? {
            Passed::Extended(lease) => Ok(*lease),
            Passed::Admitted(_) => mismatched(),
        }
    }

    /// Ends a lease.
    pub async fn end(&self, command: EndLease) -> Answer<Lease> {
        self.one_lease(Life::End(command)).await
    }

    /// Names the host that runs a lease from now on.
    pub async fn move_lease(&self, command: MoveLease) -> Answer<Lease> {
        self.one_lease(Life::Move(command)).await
    }

    /// Registers a sandbox that has no lease.
    pub async fn put_sandbox(&self, command: PutSandbox) -> Answer<()> {
        ask(&self.lanes.lives, Life::Put(command)).await.map(drop)
    }

    /// Deletes a sandbox at rest.
    pub async fn delete_sandbox(&self, command: DeleteSandbox) -> Answer<()> {
        ask(&self.lanes.lives, Life::Delete(command)).await.map(drop)
    }

    /// Takes samples; answers when all are committed, one outcome each, in the order of the request. Trouble on the way
    /// is told as unavailable: the whole can be sent again, what was taken counts as duplicates then.
    pub async fn ingest(&self, command: Ingest) -> Answer<Vec<SampleOutcome>> {
        let count = command.samples.len();
        let sent = command.samples.into_iter().map(|sample| (command.host.clone(), sample)).collect();
        let mut waiting = Vec::new();
        for slice in self.lanes.samples.deal(sent, self.engine.limits.slice_samples_max) {
            let (reply, answer) = oneshot::channel();
            let job = Job { command: slice.sent, reply };
            self.lanes.samples.of(&slice.account).try_send(job).map_err(|_| {
                CommandError::Unavailable("too many samples wait, or the engine is stopping".to_owned())
            })?;
            waiting.push((slice.places, answer));
        }
        let mut outcomes = vec![SampleOutcome::Accepted; count];
        for (places, answer) in waiting {
            let slice = answer.await.map_err(|_| CommandError::Unavailable("the engine is stopping".to_owned()))??;
            for (outcome, place) in slice.into_iter().zip(places) {
                if let Some(kept) = outcomes.get_mut(place) {
                    *kept = outcome;
                }
            }
        }
        Ok(outcomes)
    }

    /// Settles leases whose time has come, at most `limit`; answers how many. Nothing depends on it being called: a
    /// lease counts as settled by the clock.
    pub async fn settle_due(&self, limit: i64) -> Answer<usize> {
        let mut tx = self.engine.store.read().await.map_err(told)?;
        let due: Vec<LeaseKey> = tx.due_anywhere(self.engine.clock.now(), limit).await.map_err(told)?;
        drop(tx);
        let count = due.len();
        if count > 0 {
            ask(&self.lanes.lives, Life::Settle(due.into_iter().collect())).await?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::Clock;
    use crate::domain::admission::FreeCover;
    use crate::domain::id::RateCardId;
    use crate::domain::money::PriceMicros;
    use crate::domain::rate_card::RateCard;
    use crate::domain::units::{MebiBytes, Millicores, Vcpus};
    use crate::store::{Options, Store};

    use super::Ledger;
    use super::batch::BatchLimits;
    use super::working_set::Rules;

    #[tokio::test]
    async fn a_worker_that_failed_is_told() {
        let price = PriceMicros::new(1).unwrap();
        let id = RateCardId::parse("list").unwrap();
        let list = RateCard { id, cpu: price, memory: price, storage: price, floor: Millicores::new(50).unwrap() };
        let cover = FreeCover { vcpus: Vcpus::new(1).unwrap(), memory: MebiBytes::ZERO, disk: MebiBytes::ZERO };
        let rules = Rules { settle_after_ms: 1, cover, welcome_ms: 0, list, stale_after_ms: 1, rejected_kept: 0 };
        let store = Store::open("sqlite::memory:", Options::default()).await.unwrap();
        store.migrate().await.unwrap();
        let ledger = Ledger::start(store, Clock::system(), rules, BatchLimits::default());
        ledger.ready().await.unwrap();
        ledger.workers.lock().await[0].abort();
        while !ledger.has_failed() {
            tokio::task::yield_now().await;
        }
        ledger.ready().await.unwrap_err();
        ledger.close().await;
    }
}
