//! A random history: commands to the ledger and to the auditor, each sent twice.

use std::collections::BTreeMap;

use runtab::clock::Clock;
use runtab::domain::admission::FreeCover;
use runtab::domain::id::{ExtendId, RateCardId};
use runtab::domain::lease::EndReason;
use runtab::domain::money::PriceMicros;
use runtab::domain::rate_card::RateCard;
use runtab::domain::units::{MebiBytes, Millicores, Vcpus};
use runtab::ledger::Ledger;
use runtab::ledger::batch::BatchLimits;
use runtab::ledger::command::{DeleteSandbox, EndLease, ExtendLease, MoveLease, PutSandbox};
use runtab::ledger::working_set::Rules;
use runtab::store::{Options, Store};

use crate::model::gate::{Asked, Verdict};
use crate::model::{Account, COVER, Card, DAY, HOUR, MINUTE, SECOND, SETTLE_AFTER};
use crate::rng::Rng;
use crate::send::{self, ts};

/// What a history is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything.
    Any,
    /// Samples in order, no changed limits, no corrections: then no limit is ever passed.
    Orderly,
    /// No limits; all its samples are sent again to another ledger in another order.
    Replayed,
    /// A year of months that are closed, some days after their end; everything else as in any history.
    Year,
}

impl Kind {
    pub(crate) fn is_any(self) -> bool {
        matches!(self, Self::Any | Self::Year)
    }
}

/// What was done, for doing it again with the samples apart.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Admit(String, String, Vec<Asked>),
    Extend(ExtendLease),
    End(EndLease),
    Put(PutSandbox),
    Delete(DeleteSandbox),
}

pub(crate) struct Driver {
    pub(crate) kind: Kind,
    pub(crate) rng: Rng,
    pub(crate) now: i64,
    pub(crate) began: i64,
    pub(crate) clock: Clock,
    pub(crate) ledger: Ledger,
    pub(crate) accounts: BTreeMap<String, Account>,
    pub(crate) ids: u64,
    /// Samples that were made but not sent yet.
    pub(crate) delayed: Vec<send::Sent>,
    /// Samples that were accepted.
    pub(crate) taken: Vec<send::Sent>,
    pub(crate) deeds: Vec<(i64, Deed)>,
    pub(crate) verbose: bool,
}

pub(crate) fn rate_card(card: &Card) -> RateCard {
    let price = |micros| PriceMicros::new(micros).unwrap();
    RateCard {
        id: RateCardId::parse(&card.id).unwrap(),
        cpu: price(card.cpu),
        memory: price(card.memory),
        storage: price(card.storage),
        floor: Millicores::new(card.floor).unwrap(),
    }
}

pub(crate) fn list() -> Card {
    Card { id: "list".to_owned(), cpu: 25_000, memory: 7_500, storage: 108, floor: 50 }
}

pub(crate) async fn open(clock: &Clock, welcome_ms: i64) -> Ledger {
    let store = Store::open("sqlite::memory:", Options { wait_ms_max: 120_000, ..Options::default() }).await.unwrap();
    store.migrate().await.unwrap();
    let cover = FreeCover {
        vcpus: Vcpus::new(COVER.0).unwrap(),
        memory: MebiBytes::new(COVER.1).unwrap(),
        disk: MebiBytes::new(COVER.2).unwrap(),
    };
    let list = rate_card(&list());
    let rules =
        Rules { settle_after_ms: SETTLE_AFTER, cover, welcome_ms, list, stale_after_ms: 300_000, rejected_kept: 100 };
    Ledger::start(store, clock.clone(), rules, BatchLimits::default())
}

impl Driver {
    /// Lives through a history and checks it.
    pub(crate) async fn history(kind: Kind, seed: u64, steps: u64) {
        let mut rng = Rng::new(seed);
        // Near a month's end, a midnight, or anywhere.
        let midnight = 20_757 * DAY + rng.within(0, 8) * DAY;
        let now = if rng.chance(60) { midnight - rng.within(0, 2 * HOUR) } else { midnight + rng.within(0, DAY) };
        let clock = Clock::test(ts(now));
        let welcome = *rng.pick(&[0, HOUR / 2, 3 * HOUR, 50 * HOUR]).unwrap();
        let ledger = open(&clock, welcome).await;
        let mut driver = Self {
            kind,
            rng,
            now,
            began: now,
            clock,
            ledger,
            accounts: BTreeMap::new(),
            ids: 0,
            delayed: Vec::new(),
            taken: Vec::new(),
            deeds: Vec::new(),
            verbose: std::env::var_os("RUNTAB_SIM_VERBOSE").is_some(),
        };
        driver.make_customers(welcome).await;
        if kind == Kind::Year {
            driver.year(steps).await;
            driver.ledger.close().await;
            return;
        }
        for step in 0..steps {
            driver.step().await;
            if step % 16 == 15 {
                driver.check().await;
            }
        }
        driver.check().await;
        driver.advance(DAY);
        driver.check().await;
        if kind == Kind::Replayed {
            driver.again(welcome).await;
        }
        driver.ledger.close().await;
    }

    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{} {}", self.now - self.began, what());
        }
    }

    pub(crate) fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}{}", self.ids)
    }

    pub(crate) fn any_account(&mut self) -> String {
        let all: Vec<String> = self.accounts.keys().cloned().collect();
        self.rng.pick(&all).unwrap().clone()
    }

    pub(crate) fn any_key(&mut self, account: &str) -> String {
        let unusable = self.rng.chance(5);
        let keys = self.accounts[account].keys.iter().filter(|(_, key)| unusable || !(key.read_only || key.revoked));
        let all: Vec<String> = keys.map(|(id, _)| id.clone()).collect();
        self.rng.pick(&all).unwrap().clone()
    }

    fn any_running(&mut self, account: &str) -> Option<String> {
        let now = self.now;
        let leases = self.accounts[account].leases.values();
        let running = leases.filter(|lease| lease.end.is_none() && lease.start <= now && now < lease.granted_end);
        let all: Vec<String> = running.map(|lease| lease.id.clone()).collect();
        self.rng.pick(&all).cloned()
    }

    /// Most often one of the newest leases.
    pub(crate) fn any_lease(&mut self, account: &str) -> Option<String> {
        let mut all: Vec<(i64, String)> =
            self.accounts[account].leases.values().map(|lease| (lease.start, lease.id.clone())).collect();
        all.sort();
        let old = self.rng.chance(25);
        let from = if old { 0 } else { all.len().saturating_sub(5) };
        self.rng.pick(&all[from..]).map(|(_, id)| id.clone())
    }

    /// A known sandbox or a new one.
    pub(crate) fn any_sandbox(&mut self, account: &str) -> String {
        let all: Vec<String> = self.accounts[account].sandboxes.keys().cloned().collect();
        let known = all.len() > 5 || self.rng.chance(60);
        match self.rng.pick(&all).filter(|_| known) {
            Some(sandbox) => sandbox.clone(),
            None => self.id("s"),
        }
    }

    pub(crate) async fn step(&mut self) {
        let orderly = !self.kind.is_any();
        match self.rng.within(0, 99) {
            18..36 => self.admit().await,
            36..38 => self.concurrent().await,
            38..66 => self.samples().await,
            66..71 => self.at_rest().await,
            71..79 => self.end().await,
            79..85 => self.extend().await,
            85 => self.move_lease().await,
            86 => self.put().await,
            87..89 => self.delete().await,
            89..92 => drop(self.ledger.settle_due(1_000).await.unwrap()),
            92..95 if self.kind != Kind::Replayed => self.card().await,
            95 => self.grant().await,
            96..99 if !orderly => self.change_customer().await,
            // Also all below 18.
            _ => self.pass_time(),
        }
    }

    /// Moves the clock.
    pub(crate) fn advance(&mut self, by: i64) {
        self.now += by;
        assert!(self.clock.advance_to(ts(self.now)));
        for account in self.accounts.values_mut() {
            account.settle_due(self.now);
        }
        self.say(|| "clock".to_owned());
    }

    fn pass_time(&mut self) {
        let to_midnight = DAY - self.now % DAY;
        let by = match self.rng.within(0, 19) {
            0..4 if self.kind == Kind::Year => self.rng.within(HOUR, DAY),
            0..4 => self.rng.within(1, 10 * SECOND),
            4..7 => MINUTE - self.now % MINUTE,
            7..12 => self.rng.within(MINUTE, 10 * MINUTE),
            12..14 => SETTLE_AFTER,
            14..16 => self.rng.within(HOUR / 2, 2 * HOUR),
            16 if self.rng.chance(40) => to_midnight + self.rng.within(-1, 1),
            17 if self.rng.chance(30) => to_midnight,
            18 if self.rng.chance(50) => self.rng.within(2 * HOUR, 12 * HOUR),
            _ if self.rng.chance(10) => self.rng.within(DAY, 9 * DAY),
            _ => HOUR - self.now % HOUR,
        };
        self.advance(by.max(1));
    }

    fn asked(&mut self, account: &str) -> Vec<Asked> {
        let count = if self.rng.chance(75) { 1 } else { self.rng.within(2, 4) };
        let mut all = Vec::new();
        for _ in 0..count {
            let replaces = match self.rng.within(0, 19) {
                0..5 => self.any_running(account),
                5 => self.any_lease(account),
                _ => None,
            };
            let old = replaces.as_ref().map(|id| self.accounts[account].leases[id].sandbox.clone());
            let sandbox = old.filter(|_| self.rng.chance(95)).unwrap_or_else(|| self.any_sandbox(account));
            let starts_at = match self.rng.within(0, 9) {
                0 => Some(self.now - self.rng.within(0, HOUR + MINUTE)),
                1 => Some(self.now + self.rng.within(0, MINUTE)),
                _ => None,
            };
            let timeout = match self.rng.within(0, 9) {
                0 => SECOND * self.rng.within(1, 120),
                1 => SECOND * self.rng.within(1, 3 * 86_400),
                2 if self.rng.chance(10) => 31 * DAY,
                _ => SECOND * self.rng.within(60, 3 * 3_600),
            };
            let big = self.rng.chance(5);
            all.push(Asked {
                id: self.id("l"),
                sandbox,
                vcpus: if big { self.rng.within(5, 64) } else { self.rng.within(1, 4) },
                memory: if big { 4_097 } else { *self.rng.pick(&[1, 128, 512, 1_024, 4_096]).unwrap() },
                timeout,
                max_cost: self.rng.chance(10).then(|| self.rng.within(0, 500_000)),
                host: self.rng.chance(30).then(|| format!("h{}", self.rng.within(1, 2))),
                starts_at,
                replaces,
            });
        }
        all
    }

    async fn admit(&mut self) {
        let owner = self.any_account();
        let key = if self.rng.chance(98) { self.any_key(&owner) } else { "nobody".to_owned() };
        let mut asked = self.asked(&owner);
        if !self.kind.is_any() {
            for one in &mut asked {
                one.host = None;
            }
        }
        if self.rng.chance(15) {
            self.quote(&owner, &key, &asked).await;
        }
        for _ in 0..2 {
            self.ask(&owner, &key, &asked).await;
        }
    }

    async fn ask(&mut self, owner: &str, key: &str, asked: &[Asked]) {
        let expected = self.accounts.get_mut(owner).unwrap().admit(self.now, key, asked);
        self.say(|| format!("admit {owner} {key} {asked:?}: {expected:?}"));
        let answer = self.ledger.admit(send::request(owner, key, asked)).await;
        let got = match &answer {
            Ok(admitted) => Verdict::Yes(admitted.fresh),
            Err(error) => send::verdict(error),
        };
        assert_eq!(got, expected, "{asked:?}: {answer:?}");
        if got == Verdict::Yes(true) {
            self.deeds.push((self.now, Deed::Admit(owner.to_owned(), key.to_owned(), asked.to_vec())));
        }
    }

    async fn quote(&mut self, owner: &str, key: &str, asked: &[Asked]) {
        let expected = self.accounts[owner].clone().admit(self.now, key, asked);
        let got = match self.ledger.quote(send::request(owner, key, asked)).await {
            Ok(Ok(_)) => Verdict::Yes(true),
            Ok(Err(refusal)) => send::verdict(&runtab::ledger::command::CommandError::Refused(refusal)),
            Err(error) => send::verdict(&error),
        };
        assert_eq!(got, expected, "quote of {asked:?}");
    }

    /// Many requests of one key in one batch: decided as if one after another.
    async fn concurrent(&mut self) {
        let owner = self.any_account();
        self.ledger.settle_due(1_000).await.unwrap();
        let mut requests = Vec::new();
        for _ in 0..self.rng.within(2, 12) {
            let asked = Asked {
                id: self.id("l"),
                sandbox: self.id("s"),
                vcpus: self.rng.within(1, 4),
                memory: 512,
                timeout: SECOND * self.rng.within(60, 3_600),
                max_cost: None,
                host: None,
                starts_at: None,
                replaces: None,
            };
            requests.push((self.any_key(&owner), vec![asked]));
        }
        let mut expected = Vec::new();
        for (key, asked) in &requests {
            let account = self.accounts.get_mut(&owner).unwrap();
            expected.push(matches!(account.admit(self.now, key, asked), Verdict::Yes(true)));
        }
        let calls: Vec<_> = requests
            .iter()
            .map(|(key, asked)| {
                let (ledger, request) = (self.ledger.clone(), send::request(&owner, key, asked));
                tokio::spawn(async move { ledger.admit(request).await.is_ok_and(|admitted| admitted.fresh) })
            })
            .collect();
        let mut got = Vec::new();
        for call in calls {
            got.push(call.await.unwrap());
        }
        self.say(|| format!("together {owner}: {got:?}"));
        assert_eq!(got, expected, "{requests:?}");
        for ((key, asked), _) in requests.into_iter().zip(got).filter(|(_, yes)| *yes) {
            self.deeds.push((self.now, Deed::Admit(owner.clone(), key, asked)));
        }
    }

    async fn extend(&mut self) {
        let owner = self.any_account();
        let over = self.rng.chance(20);
        let lease = if over { self.any_lease(&owner) } else { self.any_running(&owner) };
        let Some(lease) = lease else { return };
        let id = if self.rng.chance(90) { self.id("x") } else { "x".to_owned() };
        let timeout = SECOND * if self.rng.chance(95) { self.rng.within(1, 7_200) } else { 31 * 86_400 };
        let max_cost = self.rng.chance(15).then(|| self.rng.within(0, 100_000));
        let command = ExtendLease {
            account: send::account(&owner),
            lease: send::lease(&lease),
            id: ExtendId::parse(&id).unwrap(),
            timeout_ms: timeout,
            max_cost: max_cost.map(send::micros),
        };
        for _ in 0..2 {
            let account = self.accounts.get_mut(&owner).unwrap();
            let expected = account.extend(self.now, &lease, &id, timeout, max_cost);
            self.say(|| format!("extend {owner} {lease} {id} {timeout}: {expected:?}"));
            let answer = self.ledger.extend(command.clone()).await;
            match (&answer, &expected) {
                (Ok(_), Verdict::Yes(_)) => {}
                (Err(error), _) => assert_eq!(send::verdict(error), expected),
                (Ok(_), _) => panic!("{answer:?}, not {expected:?}"),
            }
            if expected == Verdict::Yes(true) {
                self.deeds.push((self.now, Deed::Extend(command.clone())));
            }
        }
    }

    async fn end(&mut self) {
        let owner = self.any_account();
        let Some(lease) = self.any_lease(&owner) else { return };
        let known = &self.accounts[&owner].leases[&lease];
        let (start, last) = (known.start, known.last_sample().unwrap_or(known.start));
        if self.kind == Kind::Orderly && (known.settled || known.end.is_some()) {
            return;
        }
        let reasons: &[EndReason] = match self.kind {
            Kind::Replayed => &[EndReason::Stop, EndReason::Pause, EndReason::Delete],
            Kind::Any | Kind::Orderly | Kind::Year => &[
                EndReason::Stop,
                EndReason::Stop,
                EndReason::Pause,
                EndReason::Delete,
                EndReason::Cancel,
                EndReason::HostLost,
            ],
        };
        let reason = *self.rng.pick(reasons).unwrap();
        let ended_at = match self.rng.within(0, 9) {
            0 if self.kind != Kind::Orderly => Some(self.rng.within(start - MINUTE, self.now + 2 * MINUTE)),
            1 => Some(self.rng.within(last, self.now.max(last))),
            2 => Some(last),
            _ => None,
        };
        let command =
            EndLease { account: send::account(&owner), lease: send::lease(&lease), ended_at: ended_at.map(ts), reason };
        for _ in 0..2 {
            let expected = self.accounts.get_mut(&owner).unwrap().end(self.now, &lease, ended_at, reason);
            self.say(|| format!("end {owner} {lease} {ended_at:?} {reason:?}: {expected:?}"));
            let answer = self.ledger.end(command.clone()).await;
            assert_eq!(answer.as_ref().map(drop).map_err(send::code), expected, "{command:?}: {answer:?}");
            if expected.is_ok() {
                self.deeds.push((self.now, Deed::End(EndLease { ended_at: ended_at.map(ts), ..command.clone() })));
            }
        }
    }

    async fn move_lease(&mut self) {
        let owner = self.any_account();
        let Some(lease) = self.any_lease(&owner).filter(|_| self.kind.is_any()) else { return };
        let host = format!("h{}", self.rng.within(1, 2));
        self.say(|| format!("move {owner} {lease} {host}"));
        for _ in 0..2 {
            let expected = self.accounts.get_mut(&owner).unwrap().move_lease(&lease, &host);
            let command =
                MoveLease { account: send::account(&owner), lease: send::lease(&lease), host: send::host(&host) };
            let answer = self.ledger.move_lease(command).await;
            assert_eq!(answer.map(drop).map_err(|error| send::code(&error)), expected);
        }
    }

    async fn put(&mut self) {
        let (owner, now) = (self.any_account(), self.now);
        let (sandbox, key) = (self.any_sandbox(&owner), self.any_key(&owner));
        let command =
            PutSandbox { account: send::account(&owner), sandbox: send::sandbox(&sandbox), key: send::key(&key) };
        for _ in 0..2 {
            let expected = self.accounts.get_mut(&owner).unwrap().put_sandbox(now, &sandbox, &key);
            self.say(|| format!("put {owner} {sandbox} {key}: {expected:?}"));
            let answer = self.ledger.put_sandbox(command.clone()).await;
            assert_eq!(answer.map_err(|error| send::code(&error)), expected);
            if expected.is_ok() {
                self.deeds.push((now, Deed::Put(command.clone())));
            }
        }
    }

    async fn delete(&mut self) {
        let (owner, now) = (self.any_account(), self.now);
        let sandbox = self.any_sandbox(&owner);
        let command = DeleteSandbox { account: send::account(&owner), sandbox: send::sandbox(&sandbox) };
        for _ in 0..2 {
            let expected = self.accounts.get_mut(&owner).unwrap().delete_sandbox(now, &sandbox);
            self.say(|| format!("delete {owner} {sandbox}: {expected:?}"));
            let answer = self.ledger.delete_sandbox(command.clone()).await;
            assert_eq!(answer.map_err(|error| send::code(&error)), expected);
            if expected.is_ok() {
                self.deeds.push((now, Deed::Delete(command.clone())));
            }
        }
    }
}
