//! Failures of the agent, of its host and of its disk: killed, booted, full; nothing is lost and nothing billed twice.

use serde_json::Value;

use super::cases::{agent, at, begin, engine, figures, noon, run};
use super::faults::FaultProxy;
use super::rig::{Rig, document};
use crate::harness::{Backend, done, int, on_each_backend, quantity};

on_each_backend!(
    r5_an_agent_killed_again_and_again,
    r5_a_kill_between_the_rows_and_the_state,
    a_host_that_boots,
    storage_of_a_running_and_a_resting_sandbox,
    a_spool_that_is_full,
);

/// Killed at every moment: before and after a reading, before and after a request, with the answer lost.
async fn r5_an_agent_killed_again_and_again(backend: Backend) {
    let engine = engine(backend, &["l"], 1, 1).await;
    let proxy = FaultProxy::before(engine.admin.base(), 5, 2).await;
    let mut rig = agent(&engine, "h-1");
    proxy.url.clone_into(&mut rig.server);
    begin(&mut rig, "l");
    for step in 1..=60 {
        rig.world.set_s("l", step * 30);
        if step % 2 == 0 {
            rig.restart();
        }
        rig.read_at(at(step * 60));
        if step % 3 == 0 {
            rig.restart();
        }
        rig.push_once().await;
        if step % 5 == 0 {
            rig.restart();
        }
    }
    proxy.heal();
    rig.push_all().await;
    assert_eq!(figures(&engine, "l").await, (1_800_000_000, 1_800_000_000, 3_600_000));
    assert_eq!(rig.set_aside(), Vec::<String>::new());
    engine.assert_verified();
}

/// The rows of a round are on disk, and what is remembered of counters is from before them.
async fn r5_a_kill_between_the_rows_and_the_state(backend: Backend) {
    let engine = engine(backend, &["l"], 1, 1).await;
    let mut rig = agent(&engine, "h-1");
    let before_all = rig.state();
    begin(&mut rig, "l");
    run(&mut rig, "l", &[(60, 30)]);
    rig.kill();
    rig.set_state(&before_all);
    rig.restart();
    run(&mut rig, "l", &[(120, 60)]);
    let between = rig.state();
    run(&mut rig, "l", &[(180, 90)]);
    rig.push_all().await;
    rig.kill();
    rig.set_state(&between);
    rig.restart();
    run(&mut rig, "l", &[(240, 120)]);
    rig.push_all().await;
    assert_eq!(figures(&engine, "l").await, (120_000_000, 120_000_000, 240_000));
    // And when it is lost altogether: the same epoch again; only the baseline, told again, is another one.
    rig.kill();
    rig.set_state("broken");
    rig.restart();
    run(&mut rig, "l", &[(300, 150)]);
    rig.push_all().await;
    assert_eq!(figures(&engine, "l").await, (150_000_000, 150_000_000, 300_000));
    assert_eq!((rig.metric("runtab_agent_epochs_total"), rig.set_aside()), (0, vec!["conflict".to_owned()]));
}

async fn a_host_that_boots(backend: Backend) {
    let engine = engine(backend, &["l"], 2, 1).await;
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    run(&mut rig, "l", &[(300, 200)]);
    rig.reboot();
    // The supervisor starts it again under the same lease; even the number of the group is the same.
    run(&mut rig, "l", &[(600, 250), (900, 300)]);
    rig.push_all().await;
    assert_eq!((figures(&engine, "l").await.0, rig.set_aside()), (500_000_000, Vec::new()));
}

async fn storage_of_a_running_and_a_resting_sandbox(backend: Backend) {
    let engine = engine(backend, &["s"], 1, 1).await;
    let mut rig = agent(&engine, "h-1");
    rig.world.set_disk_mib(100);
    begin(&mut rig, "s");
    rig.world.set_disk_mib(300);
    run(&mut rig, "s", &[(1_800, 0)]);
    rig.write(&document("s", None));
    rig.world.set_disk_mib(200);
    rig.read_at(at(1_860));
    rig.read_at(at(3_600));
    rig.push_all().await;
    let month = done(engine.admin.get("/v1/accounts/acme/sandboxes/s").await);
    let expected = 100 * 1_800_000 + 300 * 60_000 + 200 * 1_740_000;
    assert_eq!(quantity(&month["month"], "storage_mib_ms"), i128::from(expected), "{month}");
    let sandbox: Value = engine.admin.sandbox("acme", "s").await;
    assert_eq!(int(&sandbox, "storage_mib"), 200);
}

/// Nothing is dropped when the spool is full: the latest reading of each lease waits, sampling slows, and all is counted.
async fn a_spool_that_is_full(backend: Backend) {
    let engine = engine(backend, &["l"], 1, 1).await;
    let mut rig = Rig::with_spool(engine.admin.base(), &engine.host_token("h-1"), noon(), 65_536);
    begin(&mut rig, "l");
    let mut second = 0;
    let mut waits = Vec::new();
    // A reading a second, until the spool has taken none for a while.
    while rig.metric("runtab_agent_samples_thinned_total") < 60 {
        second += 1;
        assert!(second < 3_500, "it never filled");
        run(&mut rig, "l", &[(second, second / 2)]);
        waits.push(rig.until_round());
    }
    assert!(rig.metric("runtab_agent_spool_bytes") <= 65_536);
    assert_eq!((rig.metric("runtab_agent_samples_unwritten"), rig.metric("runtab_agent_slowed")), (1, 3));
    assert!(waits[0] <= 10_000 && waits.last().is_some_and(|wait| *wait > 10_000), "{waits:?}");
    let unanswered = rig.unanswered_rows();
    rig.push_all().await;
    assert_eq!(
        rig.metric("runtab_agent_samples_answered_total{outcome=\"accepted\"}"),
        i64::try_from(unanswered).unwrap()
    );
    // What was answered makes room, oldest first, and what waited is written.
    second += 1;
    run(&mut rig, "l", &[(second, second / 2)]);
    assert_eq!((rig.metric("runtab_agent_samples_unwritten"), rig.metric("runtab_agent_slowed")), (0, 0));
    rig.push_all().await;
    let (used, _, run_ms) = figures(&engine, "l").await;
    assert_eq!((used, run_ms), (i128::from(second / 2) * 1_000_000, i128::from(second) * 1_000));
}
