//! Engines on one database that are killed and started again while clients ask them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::history::Ask;
use super::random::Random;
use crate::harness::{Answer, Api, Process, Time};

/// Most attempts of one request: far more than there are kills.
const ATTEMPTS_MAX: usize = 10_000;
/// Few samples a commit, so that one request takes several and can be cut between them.
const ENVIRONMENT: [(&str, &str); 1] = [("RUNTAB_LEDGER_BATCH_SAMPLES_MAX", "12")];

/// What the keeper of the engines is told.
enum Order {
    /// Kill the engine of a number, after giving way to others so many times.
    Kill(usize, u64),
    /// Move all clocks.
    Clock(Time, oneshot::Sender<()>),
    /// Do nothing more; say how many kills there were.
    Stop(oneshot::Sender<usize>),
}

/// Running engines, as clients see them.
#[derive(Clone)]
pub(crate) struct Fleet {
    /// The engine of each number; none while it is down.
    engines: Arc<Vec<watch::Receiver<Option<Api>>>>,
    orders: mpsc::UnboundedSender<Order>,
    /// At which requests, counted by their first attempts, an engine is killed, and after how many yields.
    kills: Arc<Vec<(u64, u64)>>,
    sent: Arc<AtomicU64>,
}

/// Kills at `count` of the first `requests` requests.
pub(crate) fn kills(seed: u64, count: usize, requests: usize) -> Vec<(u64, u64)> {
    let mut random = Random::new(seed ^ 0x6b69_6c6c);
    let mut places: Vec<u64> = (1..=u64::try_from(requests).expect("a count")).collect();
    random.shuffle(&mut places);
    places.truncate(count);
    // From at once to well after the answer, more often early: a commit takes a few hundred turns.
    places.into_iter().map(|place| (place, 1 << random.below(12))).collect()
}

impl Fleet {
    /// Starts engines on a database; kills are at the requests given.
    pub(crate) fn start(
        database: &str,
        token: &str,
        now: Time,
        count: usize,
        kills: Vec<(u64, u64)>,
    ) -> (Self, JoinHandle<()>) {
        let processes: Vec<Process> = (0..count).map(|_| Process::start(database, now, &ENVIRONMENT)).collect();
        let (senders, receivers) =
            processes.iter().map(|process| watch::channel(Some(Api::new(process.base(), Some(token))))).unzip();
        let (orders, inbox) = mpsc::unbounded_channel();
        let keeper = Keeper { database: database.to_owned(), token: token.to_owned(), now, processes, seen: senders };
        let keeper = tokio::spawn(keeper.run(inbox));
        let (kills, sent) = (Arc::new(kills), Arc::new(AtomicU64::new(0)));
        (Self { engines: Arc::new(receivers), orders, kills, sent }, keeper)
    }

    /// A running engine's client.
    pub(crate) async fn engine(&self, number: usize) -> Api {
        let mut engine = self.engines[number % self.engines.len()].clone();
        let up = engine.wait_for(Option::is_some).await.expect("the keeper runs");
        up.clone().expect("an engine that is up")
    }

    /// Asks until there is an answer that says what is known: not broken off, and not unavailable. `first` is the
    /// engine that is asked first.
    pub(crate) async fn ask(&self, ask: &Ask, first: usize) -> Answer {
        let place = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((_, turns)) = self.kills.iter().find(|(at, _)| *at == place) {
            self.orders.send(Order::Kill(first % self.engines.len(), *turns)).ok();
        }
        for attempt in 0..ATTEMPTS_MAX {
            let api = self.engine(first + attempt).await;
            match api.attempt("POST", &ask.path, &ask.body).await {
                Some((503, _)) | None => tokio::task::yield_now().await,
                Some(answer) => return answer,
            }
        }
        panic!("{}: no answer", ask.path);
    }

    /// Moves the clocks of all engines.
    pub(crate) async fn set_clock(&self, now: Time) {
        let (done, wait) = oneshot::channel();
        self.orders.send(Order::Clock(now, done)).ok();
        wait.await.expect("the keeper runs");
    }

    /// Kills nothing more; how many kills there were.
    pub(crate) async fn stop(&self) -> usize {
        let (done, wait) = oneshot::channel();
        self.orders.send(Order::Stop(done)).ok();
        wait.await.expect("the keeper runs")
    }

    /// What a reader sees.
    pub(crate) async fn get(&self, path: &str) -> Value {
        crate::harness::done(self.engine(0).await.get(path).await)
    }
}

/// Who holds the processes.
struct Keeper {
    database: String,
    token: String,
    now: Time,
    processes: Vec<Process>,
    seen: Vec<watch::Sender<Option<Api>>>,
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        let mut killed = 0;
        while let Some(order) = inbox.recv().await {
            match order {
                Order::Kill(number, turns) => {
                    for _ in 0..turns {
                        tokio::task::yield_now().await;
                    }
                    self.kill(number).await;
                    killed += 1;
                }
                Order::Clock(now, done) => {
                    self.now = now;
                    for engine in &self.seen {
                        let api = engine.borrow().clone().expect("an engine that is up");
                        crate::harness::done(api.set_clock(now).await);
                    }
                    done.send(()).ok();
                }
                Order::Stop(done) => {
                    done.send(killed).ok();
                }
            }
        }
    }

    /// SIGKILL, and another process on the same database.
    async fn kill(&mut self, number: usize) {
        // Clients that fail from here on wait for the next process.
        self.seen[number].send_replace(None);
        drop(self.processes.remove(number));
        let (database, now) = (self.database.clone(), self.now);
        let process = tokio::task::spawn_blocking(move || Process::start(&database, now, &ENVIRONMENT));
        self.processes.insert(number, process.await.expect("an engine"));
        self.seen[number].send_replace(Some(Api::new(self.processes[number].base(), Some(&self.token))));
    }
}
