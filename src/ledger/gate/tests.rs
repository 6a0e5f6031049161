//! Batches that take requests for new answer what batches answer that look everything up.

use std::sync::Arc;

use super::super::alone::Alone;
use super::super::batch::{AtGate, BatchLimits, Engine, Gate, Passed};
use super::super::command::{
    AdmitRequest, CreateAccount, CreateKey, EndLease, ExtendLease, LeaseRequest, SecretDigest,
};
use super::super::lives::Life;
use super::super::onward::Onward;
use super::super::working_set::Rules;
use super::Answer;
use crate::clock::Clock;
use crate::domain::admission::FreeCover;
use crate::domain::id::{AccountId, ExtendId, KeyId, LeaseId, RateCardId, SandboxId};
use crate::domain::lease::{EndReason, Lease, LeaseKind, Shape};
use crate::domain::money::{Micros, PriceMicros};
use crate::domain::rate_card::RateCard;
use crate::domain::time::Timestamp;
use crate::domain::units::{MebiBytes, Millicores, Vcpus};
use crate::store::changes::Changes;
use crate::store::{Lane, Options, Store};

const NOW_MS: i64 = 1_800_000_000_000;

/// A generator; see Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn account(number: u64) -> AccountId {
    AccountId::parse(&format!("a-{number}")).unwrap()
}

fn key() -> KeyId {
    KeyId::parse("k").unwrap()
}

fn lease_id(number: u64) -> LeaseId {
    LeaseId::parse(&format!("l-{number}")).unwrap()
}

/// An engine in memory with two accounts, of which the second may spend little a day.
async fn engine() -> Engine {
    engine_on("sqlite::memory:").await
}

async fn engine_on(url: &str) -> Engine {
    let store = Store::open(url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    let price = PriceMicros::new(1_000_000).unwrap();
    let id = RateCardId::parse("list").unwrap();
    let list = RateCard { id, cpu: price, memory: price, storage: price, floor: Millicores::new(50).unwrap() };
    let cover = FreeCover { vcpus: Vcpus::new(1).unwrap(), memory: MebiBytes::ZERO, disk: MebiBytes::ZERO };
    let rules = Rules { settle_after_ms: 1_000, cover, welcome_ms: 0, list, stale_after_ms: 1, rejected_kept: 0 };
    let engine = Engine {
        store,
        clock: Clock::test(Timestamp::from_ms(NOW_MS).unwrap()),
        rules: Arc::new(rules),
        limits: BatchLimits::default(),
        tally: Arc::default(),
        recall: Arc::default(),
        doubts: Arc::default(),
    };
    for number in 0..2 {
        let made = CreateAccount { id: account(number), name: String::new(), card_on_file: true, tax: None };
        engine.alone(&Alone::CreateAccount(made)).await.unwrap();
        let daily_limit = Micros::new(if number == 0 { 900_000_000 } else { 4_000_000 });
        let secret = SecretDigest { sha256: [u8::try_from(number).unwrap(); 32] };
        let made = CreateKey {
            account: account(number),
            id: key(),
            name: String::new(),
            read_only: false,
            daily_limit,
            secret,
        };
        engine.alone(&Alone::CreateKey(made)).await.unwrap();
    }
    engine
}

fn ask(random: &mut Random, newest: &mut u64) -> LeaseRequest {
    // Mostly new ids; now and then one that was there before, of either.
    *newest += 1;
    let mut of = |often: u64| if random.below(often) == 0 { random.below(*newest) } else { *newest };
    let (lease, sandbox) = (of(6), of(6));
    let kind = match random.below(8) {
        0 => LeaseKind::Wake,
        1 => LeaseKind::Fork,
        _ => LeaseKind::Create,
    };
    LeaseRequest {
        id: lease_id(lease),
        sandbox: SandboxId::parse(&format!("s-{sandbox}")).unwrap(),
        kind,
        shape: Shape { vcpus: Vcpus::new(1).unwrap(), memory: MebiBytes::new(1_024).unwrap() },
        timeout_ms: 600_000,
        max_cost: Micros::new(if random.below(20) == 0 { 1 } else { 10_000_000 }),
        host: None,
        starts_at: (random.below(10) == 0).then(|| Timestamp::from_ms(NOW_MS - 60_000).unwrap()),
        replaces: (random.below(12) == 0).then(|| lease_id(random.below(*newest))),
    }
}

fn command(random: &mut Random, newest: &mut u64) -> AtGate {
    // Now and then one that is not there.
    let account = account(if random.below(20) == 0 { 2 } else { random.below(2) });
    let command = if random.below(10) == 0 {
        let id = ExtendId::parse(&format!("x-{}", random.below(20))).unwrap();
        Gate::Extend(ExtendLease {
            account,
            lease: lease_id(random.below(*newest + 1)),
            id,
            timeout_ms: 60_000,
            max_cost: None,
        })
    } else {
        let leases = (0..=random.below(3)).map(|_| ask(random, newest)).collect();
        Gate::Admit(AdmitRequest { account, key: key(), leases })
    };
    AtGate { command, by: None }
}

/// Carries out a batch that is on its own.
async fn pass(engine: &Engine, commands: &[AtGate]) -> Vec<Answer<Passed>> {
    engine.pass(commands, &mut Onward::default(), &|| false).await.unwrap()
}

async fn lease(engine: &Engine, account: &AccountId, id: &LeaseId) -> Option<Lease> {
    let mut tx = engine.store.read().await.unwrap();
    tx.leases(&[(account.clone(), id.clone())].into()).await.unwrap().pop()
}

/// All that admissions leave behind.
async fn left_behind(engine: &Engine, newest: u64) -> String {
    let mut tx = engine.store.read().await.unwrap();
    let ids = (0..=newest).flat_map(|number| (0..2).map(move |owner| (account(owner), lease_id(number))));
    let leases = tx.leases(&ids.collect()).await.unwrap();
    let lives = leases.iter().map(|lease| (lease.account.clone(), lease.sandbox.clone(), Timestamp::EPOCH));
    let lives = tx.sandboxes(&lives.collect::<Vec<_>>()).await.unwrap();
    let day = Timestamp::from_ms(NOW_MS).unwrap().day();
    let days = [day, day.next()].into_iter().flat_map(|day| (0..2).map(move |owner| (account(owner), key(), day)));
    let days = tx.key_days(&days.collect()).await.unwrap();
    format!("{leases:#?} {lives:#?} {days:#?}")
}

#[tokio::test]
async fn what_is_taken_for_new_is_answered_as_if_it_were_looked_up() {
    let (mut right, mut in_vain) = (0, 0);
    for seed in 0..40 {
        let mut random = Random(seed);
        let (takes, looks) = (engine().await, engine().await);
        let (mut newest, mut onward) = (0, Onward::default());
        for batch in 0..12 {
            let commands: Vec<AtGate> = (0..=random.below(6)).map(|_| command(&mut random, &mut newest)).collect();
            // One trusts all accounts, the other none.
            *takes.doubts.accounts() = std::collections::BTreeMap::new();
            *looks.doubts.accounts() = (0..3).map(|number| (account(number), 2)).collect();
            // And begins the next batch with the commit, which may need something else then.
            let taken = takes.pass(&commands, &mut onward, &|| true).await.unwrap();
            let looked_up = pass(&looks, &commands).await;
            assert_eq!(format!("{taken:#?}"), format!("{looked_up:#?}"), "seed {seed}, batch {batch}: {commands:#?}");
            let any_new = commands.iter().any(|one| {
                matches!(&one.command, Gate::Admit(request)
                if request.leases.iter().all(|asked| asked.kind != LeaseKind::Wake && asked.replaces.is_none()))
            });
            *(if takes.doubts.accounts().is_empty() { &mut right } else { &mut in_vain }) += usize::from(any_new);
            if random.below(3) == 0 {
                // In memory there is one connection.
                onward.let_go();
                let (owner, id) = (account(random.below(2)), lease_id(random.below(newest + 1)));
                let reason = if random.below(2) == 0 { EndReason::Pause } else { EndReason::Delete };
                let end = EndLease { account: owner.clone(), lease: id.clone(), ended_at: None, reason };
                for engine in [&takes, &looks] {
                    if lease(engine, &owner, &id).await.is_some_and(|lease| lease.end.is_none()) {
                        drop(engine.live(&[Life::End(end.clone())]).await.unwrap());
                    }
                }
            }
        }
        onward.let_go();
        assert_eq!(left_behind(&takes, newest).await, left_behind(&looks, newest).await, "seed {seed}");
    }
    assert!(right > 50 && in_vain > 50, "{right} batches were right, {in_vain} in vain");
}

/// What another program has changed counts for whoever asks afterwards, though the batch began before and writes nothing.
#[tokio::test]
async fn who_writes_nothing_reads_what_others_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("x.db").display());
    let engine = engine_on(&url).await;
    let (mut random, mut newest, mut onward) = (Random(1), 0, Onward::default());
    let asked =
        LeaseRequest { kind: LeaseKind::Create, replaces: None, max_cost: None, ..ask(&mut random, &mut newest) };
    let request = AdmitRequest { account: account(0), key: key(), leases: vec![asked] };
    let known = AtGate { command: Gate::Admit(request), by: None };
    engine.pass(std::slice::from_ref(&known), &mut onward, &|| true).await.unwrap();
    assert!(onward.has_begun());
    let other = Store::open(&url, Options::default()).await.unwrap();
    let mut tx = other.begin(Lane::Decision).await.unwrap();
    let mut changed = tx.leases(&[(account(0), lease_id(1))].into()).await.unwrap();
    let mut changes = Changes::default();
    for lease in &mut changed {
        lease.settles_at = Timestamp::from_ms(NOW_MS + 7).unwrap();
        changes.leases_changed.insert((lease.account.clone(), lease.id.clone()), Arc::new(lease.clone()));
    }
    tx.save(&changes).await.unwrap();
    tx.commit().await.unwrap();
    // Looked up in the transaction that has begun; taken for new, it would be decided again for that.
    engine.doubts.accounts().insert(account(0), 2);
    let answers = engine.pass(&[known], &mut onward, &|| true).await.unwrap();
    let Ok(Passed::Admitted(admitted)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!((admitted.fresh, &*admitted.leases[0]), (false, &changed[0]));
}

#[tokio::test]
async fn who_is_not_new_is_looked_up_for_a_while() {
    let engine = engine().await;
    let request = |number: u64, owner: u64| {
        let (mut random, mut newest) = (Random(1), number);
        let asked = ask(&mut random, &mut newest);
        let asked =
            LeaseRequest { id: lease_id(number), kind: LeaseKind::Create, replaces: None, starts_at: None, ..asked };
        let sandbox = SandboxId::parse(&format!("s-{number}")).unwrap();
        let leases = vec![LeaseRequest { sandbox, max_cost: None, ..asked }];
        AtGate { command: Gate::Admit(AdmitRequest { account: account(owner), key: key(), leases }), by: None }
    };
    let fresh = |passed: Vec<Answer<Passed>>| -> Vec<Option<bool>> {
        let fresh = |answer: Answer<Passed>| match answer {
            Ok(Passed::Admitted(admitted)) => Some(admitted.fresh),
            _ => None,
        };
        passed.into_iter().map(fresh).collect()
    };
    assert_eq!(fresh(pass(&engine, &[request(1, 0), request(2, 0)]).await), [Some(true), Some(true)]);
    assert!(engine.doubts.accounts().is_empty());
    // The same twice in one batch is new once, and the batch proves it.
    assert_eq!(fresh(pass(&engine, &[request(3, 0), request(3, 0)]).await), [Some(true), Some(false)]);
    assert!(engine.doubts.accounts().is_empty());
    // Only whoever repeats itself is doubted, and not for ever.
    let passed = pass(&engine, &[request(1, 0), request(4, 1)]).await;
    assert_eq!(fresh(passed), [Some(false), Some(true)]);
    assert_eq!(engine.doubts.accounts().keys().cloned().collect::<Vec<_>>(), [account(0)]);
    engine.doubts.accounts().insert(account(0), 2);
    assert_eq!(fresh(pass(&engine, &[request(5, 0), request(6, 0)]).await), [Some(true), Some(true)]);
    assert_eq!(engine.doubts.accounts().get(&account(0)), Some(&1));
    assert_eq!(fresh(pass(&engine, &[request(7, 0)]).await), [Some(true)]);
    assert!(engine.doubts.accounts().is_empty());
}
