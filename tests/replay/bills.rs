//! The bills of traces: what the ledger says of them equals what the naive model says, to the unit.

use std::path::PathBuf;

use num_bigint::BigInt;
use runtab::cli::replay::play::{self, Outcome, Payer};
use runtab::cli::serve;
use runtab::clock::Clock;
use runtab::config::Settings;
use runtab::config::store::DatabaseUrl;
use runtab::domain::id::{AccountId, KeyId};

use crate::naive::{self, Bill};
use crate::steps::{own, read, real};

async fn replay(files: &[PathBuf]) -> Outcome {
    let vms: Vec<_> = files.iter().map(|path| read(path)).collect();
    let directory = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.store.database = DatabaseUrl::sqlite(&directory.path().join("replay.db"));
    let clock = Clock::test(play::span(&vms).unwrap().start);
    let ledger = serve::open(&settings, clock.clone()).await.unwrap();
    let payer = Payer { account: AccountId::parse("replay").unwrap(), key: KeyId::parse("replay").unwrap() };
    play::play(&ledger, &clock, &payer, vms, &|_| ()).await.unwrap()
}

fn agree(files: &[PathBuf], outcome: &Outcome) {
    let mut sum: Option<Bill> = None;
    for path in files {
        let bill = naive::bill(&naive::read(path));
        let vm = read(path);
        let tally = &outcome.tallies[&vm.sandbox];
        let refused: Vec<_> = tally.refused.iter().map(|(code, refused)| (*code, refused.count)).collect();
        assert_eq!(refused, bill.refused.clone().into_iter().collect::<Vec<_>>(), "{}", vm.sandbox);
        assert_eq!((tally.accepted, tally.duplicates), (bill.accepted, bill.duplicates), "{}", vm.sandbox);
        let row = outcome.by_sandbox.rows.iter().find(|row| row.group.as_deref() == Some(vm.sandbox.as_str()));
        let usage = row.map(|row| row.usage).unwrap_or_default();
        assert_eq!(
            (usage.run_ms, usage.cpu_used_us, usage.cpu_us, usage.memory_mib_ms),
            (bill.run_ms, bill.cpu_used_us, bill.cpu_us, bill.memory_mib_ms),
            "{}",
            vm.sandbox
        );
        if let Some(row) = row {
            let shown = num_rational::BigRational::from_integer(BigInt::from(row.amounts.list.count()));
            let off = shown - &bill.list_micros;
            // A row's list is the sum of two apportioned parts: within one microdollar each.
            assert!(off.numer().bits() == 0 || off.floor().to_integer().bits() <= 2, "{}: {off}", vm.sandbox);
        }
        sum = Some(match sum {
            None => bill,
            Some(sum) => Bill { list_micros: sum.list_micros + bill.list_micros, ..bill },
        });
    }
    let total = outcome.by_sandbox.amounts.list.count();
    assert_eq!(BigInt::from(total), sum.unwrap().list_micros.floor().to_integer());
    let rows: i64 = outcome.by_sandbox.rows.iter().map(|row| row.amounts.list.count()).sum();
    let resources: i64 = outcome.by_resource.rows.iter().map(|row| row.amounts.list.count()).sum();
    assert_eq!((rows, resources), (total, total));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_traces_cost_what_the_naive_model_says() {
    let files = own();
    agree(&files, &replay(&files).await);
}

/// Every fourth of the real traces, so that the four tests run side by side.
async fn a_quarter_agrees(which: usize) {
    let files: Vec<PathBuf> = real().into_iter().skip(which).step_by(4).collect();
    if !files.is_empty() {
        agree(&files, &replay(&files).await);
    }
}

#[tokio::test]
async fn s15_real_traces_cost_what_the_naive_model_says_1_of_4() {
    a_quarter_agrees(0).await;
}

#[tokio::test]
async fn s15_real_traces_cost_what_the_naive_model_says_2_of_4() {
    a_quarter_agrees(1).await;
}

#[tokio::test]
async fn s15_real_traces_cost_what_the_naive_model_says_3_of_4() {
    a_quarter_agrees(2).await;
}

#[tokio::test]
async fn s15_real_traces_cost_what_the_naive_model_says_4_of_4() {
    a_quarter_agrees(3).await;
}
