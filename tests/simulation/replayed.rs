//! The same history again, its samples apart: sent at the end, shuffled, some twice, in other batches.

use runtab::clock::Clock;
use runtab::ledger::Ledger;
use runtab::ledger::command::{CreateAccount, CreateKey, Ingest, Page, SampleOutcome, SecretDigest};
use runtab::ledger::view::LeaseFilter;

use crate::driver::{Deed, Driver, open};
use crate::send::{self, ts};

impl Driver {
    /// Does everything again on an empty ledger, and compares the usage of every lease and sandbox.
    pub(crate) async fn again(&mut self, welcome: i64) {
        let clock = Clock::test(ts(self.began));
        let ledger = open(&clock, welcome).await;
        self.customers_again(&ledger).await;
        for (at, deed) in self.deeds.clone() {
            assert!(clock.advance_to(ts(at)));
            redo(&ledger, deed).await;
        }
        assert!(clock.advance_to(ts(self.now)));
        let mut samples = self.taken.clone();
        samples.extend(self.taken.iter().filter(|_| self.rng.clone().chance(10)).cloned());
        self.rng.shuffle(&mut samples);
        while !samples.is_empty() {
            let most = i64::try_from(samples.len()).unwrap();
            let count = self.rng.within(1, most.min(40));
            let batch: Vec<_> = samples.drain(..usize::try_from(count).unwrap()).collect();
            let command = Ingest { host: None, samples: batch.iter().map(send::Sent::sample).collect() };
            for (sent, outcome) in batch.iter().zip(ledger.ingest(command).await.unwrap()) {
                let gone = sent.lease.is_none() && outcome != SampleOutcome::Accepted;
                assert!(gone || !matches!(outcome, SampleOutcome::Rejected(_)), "{sent:?}: {outcome:?}");
            }
        }
        for owner in self.accounts.keys() {
            let page = || Page { after: None, limit: 1_000 };
            let owner = send::account(owner);
            let mine = self.ledger.leases(&owner, LeaseFilter::default(), page()).await.unwrap().items;
            let other = ledger.leases(&owner, LeaseFilter::default(), page()).await.unwrap().items;
            assert_eq!(mine.len(), other.len());
            for (mine, other) in mine.into_iter().zip(other) {
                assert_eq!((&mine.lease.id, mine.usage), (&other.lease.id, other.usage));
            }
            let mine = self.ledger.sandboxes(&owner, page()).await.unwrap().items;
            let other = ledger.sandboxes(&owner, page()).await.unwrap().items;
            for (mine, other) in mine.into_iter().zip(other) {
                assert_eq!((mine.id, mine.month_usage), (other.id, other.month_usage));
            }
        }
        ledger.close().await;
    }

    async fn customers_again(&self, ledger: &Ledger) {
        for (name, account) in &self.accounts {
            let command = CreateAccount { id: send::account(name), name: name.clone(), card_on_file: true, tax: None };
            ledger.create_account(command).await.unwrap();
            for (id, key) in &account.keys {
                let mut sha256 = [0; 32];
                sha256[..id.len()].copy_from_slice(id.as_bytes());
                sha256[16..16 + name.len()].copy_from_slice(name.as_bytes());
                let command = CreateKey {
                    account: send::account(name),
                    id: send::key(id),
                    name: id.clone(),
                    read_only: key.read_only,
                    daily_limit: None,
                    secret: SecretDigest { sha256 },
                };
                ledger.create_key(command).await.unwrap();
            }
        }
    }
}

async fn redo(ledger: &Ledger, deed: Deed) {
    match deed {
        Deed::Admit(owner, key, mut asked) => {
            for one in &mut asked {
                one.max_cost = None;
            }
            drop(ledger.admit(send::request(&owner, &key, &asked)).await.unwrap());
        }
        Deed::Extend(command) => drop(ledger.extend(command).await.unwrap()),
        Deed::End(command) => drop(ledger.end(command).await.unwrap()),
        Deed::Put(command) => ledger.put_sandbox(command).await.unwrap(),
        Deed::Delete(command) => ledger.delete_sandbox(command).await.unwrap(),
    }
}
