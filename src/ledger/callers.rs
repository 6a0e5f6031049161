//! Whose secrets are presented: questions that wait are answered together, by one statement begun after all of them.
//!
//! No answer is used for the next question, so a revoked secret stops at once, with any number of engines; and a busy engine
//! asks the database once for hundreds of requests, most of which present the same secret.
//!
//! What passes the gate need not ask here: its batch asks in the transaction that decides, beside the lock on the account.
//! For that is remembered whose secrets operators' were; a batch that finds it otherwise answers so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::batch::told;
use super::command::{Presented, Principal};
use super::lanes::Job;
use super::{Answer, ask};
use crate::store::Store;
use crate::store::shapes::{Bearer, TokenRecord, TokenRole};

/// Most questions answered by one statement.
const QUESTIONS_MAX: usize = 1_024;

/// Whose secret has this SHA-256?
pub(super) type Question = Job<[u8; 32], Option<Principal>>;

/// Most secrets that are remembered; an installation has a few.
const KNOWN_MAX: usize = 1_024;

/// Where questions are asked; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    questions: mpsc::Sender<Question>,
    /// Whose secrets of operators were, as last answered.
    known: Arc<Mutex<BTreeMap<[u8; 32], Principal>>>,
}

impl Callers {
    /// Starts the worker that answers. It ends when `stop` is cancelled and all that were asked are answered.
    pub(super) fn start(store: Store, queue_max: usize, stop: CancellationToken) -> (Self, JoinHandle<()>) {
        let (questions, inbox) = mpsc::channel(queue_max);
        (Self { questions, known: Arc::default() }, tokio::spawn(work(store, inbox, stop)))
    }

    /// Whose secret it is now.
    pub(super) async fn ask(&self, sha256: [u8; 32]) -> Answer<Option<Principal>> {
        let answer = ask(&self.questions, sha256).await?;
        let mut known = self.known();
        match &answer {
            Some(operator @ (Principal::Admin | Principal::ControlPlane)) if known.get(&sha256) != Some(operator) => {
                if known.len() >= KNOWN_MAX {
                    known.clear();
                }
                known.insert(sha256, operator.clone());
            }
            Some(_) => {}
            None => drop(known.remove(&sha256)),
        }
        drop(known);
        Ok(answer)
    }

    /// Whose secret it was, where it was an operator's: to be confirmed.
    pub(super) fn recognise(&self, sha256: [u8; 32]) -> Option<Presented> {
        let principal = self.known().get(&sha256)?.clone();
        Some(Presented { sha256, principal })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Principal>> {
        // Each entry is whole whatever happened to who wrote it.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose secrets are, as a batch finds them.
#[derive(Debug, Default)]
pub(super) struct Confirmed(BTreeMap<[u8; 32], Principal>);

impl Confirmed {
    /// What was found of the secrets that were asked for, in their order.
    pub(super) fn of(asked: &[[u8; 32]], found: &[Option<Bearer>]) -> Self {
        let found = asked.iter().zip(found).filter_map(|(sha256, bearer)| Some((*sha256, principal(bearer.as_ref()?))));
        Self(found.collect())
    }

    /// Whether a secret still is whose it was; of one that was asked for before, nothing is to be confirmed.
    pub(super) fn confirms(&self, presented: Option<&Presented>) -> bool {
        presented.is_none_or(|presented| self.0.get(&presented.sha256) == Some(&presented.principal))
    }
}

async fn work(store: Store, mut inbox: mpsc::Receiver<Question>, stop: CancellationToken) {
    let mut questions = Vec::new();
    loop {
        tokio::select! {
            biased;
            got = inbox.recv_many(&mut questions, QUESTIONS_MAX) => if got == 0 {
                return;
            },
            () = stop.cancelled(), if !inbox.is_closed() => inbox.close(),
        }
        // Requests that are already being read come first: they ask with the others.
        tokio::task::yield_now().await;
        while questions.len() < QUESTIONS_MAX
            && let Ok(question) = inbox.try_recv()
        {
            questions.push(question);
        }
        if !questions.is_empty() {
            answer(&store, std::mem::take(&mut questions)).await;
        }
    }
}

async fn answer(store: &Store, questions: Vec<Question>) {
    let asked: BTreeSet<[u8; 32]> = questions.iter().map(|question| question.command).collect();
    let asked: Vec<[u8; 32]> = asked.into_iter().collect();
    let found = store.bearers(&asked).await.map_err(told);
    for Job { command, reply } in questions {
        let answer = found.as_ref().map_err(Clone::clone).map(|found| {
            let place = asked.binary_search(&command).ok()?;
            found.get(place)?.as_ref().map(principal)
        });
        // A caller that went away needs no answer.
        drop(reply.send(answer));
    }
}

fn principal(bearer: &Bearer) -> Principal {
    match bearer {
        Bearer::Token(TokenRecord { role: TokenRole::Admin, .. }) => Principal::Admin,
        Bearer::Token(TokenRecord { role: TokenRole::ControlPlane, .. }) => Principal::ControlPlane,
        Bearer::Token(TokenRecord { role: TokenRole::Host(host), .. }) => Principal::Host(host.clone()),
        Bearer::Key { account, key, read_only } => {
            Principal::Customer { account: account.clone(), key: key.clone(), read_only: *read_only }
        }
    }
}
