//! Whose secrets are presented: questions that wait are answered together, by one statement begun after all of them.
//!
//! Nothing is remembered from one statement to the next, so a revoked secret stops at once, with any number of engines;
//! and a busy engine asks the database once for hundreds of requests, most of which present the same secret.

use std::collections::BTreeSet;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::batch::told;
use super::command::Principal;
use super::lanes::Job;
use crate::store::Store;
use crate::store::shapes::{Bearer, TokenRecord, TokenRole};

/// Most questions answered by one statement.
const QUESTIONS_MAX: usize = 1_024;

/// Whose secret has this SHA-256?
pub(super) type Question = Job<[u8; 32], Option<Principal>>;

/// Starts the worker that answers. It ends when `stop` is cancelled and all that were asked are answered.
pub(super) fn start(
    store: Store,
    queue_max: usize,
    stop: CancellationToken,
) -> (mpsc::Sender<Question>, JoinHandle<()>) {
    let (ask, inbox) = mpsc::channel(queue_max);
    (ask, tokio::spawn(work(store, inbox, stop)))
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
