//! Whose secrets are presented: questions that wait are answered together, from one snapshot begun after all of them.
//!
//! Nothing is remembered from one snapshot to the next, so a revoked secret stops at once, with any number of engines;
//! and a busy engine asks the database once for hundreds of requests, most of which present the same secret.

use std::collections::BTreeSet;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::batch::{Job, told};
use super::command::Principal;
use crate::store::shapes::{Bearer, TokenRecord, TokenRole};
use crate::store::{Store, StoreError};

/// Most questions answered from one snapshot.
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
        if !questions.is_empty() {
            answer(&store, std::mem::take(&mut questions)).await;
        }
    }
}

async fn answer(store: &Store, questions: Vec<Question>) {
    let asked: BTreeSet<[u8; 32]> = questions.iter().map(|question| question.command).collect();
    let asked: Vec<[u8; 32]> = asked.into_iter().collect();
    let found = look_up(store, &asked).await.map_err(told);
    for Job { command, reply } in questions {
        let answer = found.as_ref().map_err(Clone::clone).map(|found| {
            let place = asked.binary_search(&command).ok()?;
            found.get(place)?.as_ref().map(principal)
        });
        // A caller that went away needs no answer.
        drop(reply.send(answer));
    }
}

async fn look_up(store: &Store, digests: &[[u8; 32]]) -> Result<Vec<Option<Bearer>>, StoreError> {
    store.read().await?.bearers(digests).await
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
