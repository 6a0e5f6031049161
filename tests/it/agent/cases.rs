//! Cases of samples, through the agent: what it reads, keeps and sends makes the same bill as samples that are right.

use super::rig::{Rig, document};
use crate::harness::{Backend, Engine, HOUR_S, Time, done, int, lease, made, on_each_backend, quantity, time, with};

on_each_backend!(
    s1_answers_lost_three_times,
    s2_an_engine_killed_amid_a_batch,
    s3_one_bad_row,
    s5_a_counter_that_starts_again,
    s5_a_glitch_to_zero,
    s6_short_lives,
    s7_readings_that_were_missed,
    s8_a_clock_ahead,
    s9_a_lease_that_moves,
    s12_suspended_time,
    s13_an_orphan,
    s14_an_end_told_late,
    s16_a_counter_that_goes_on_over_a_wake,
    s17_the_end_and_the_last_reading_race,
);

pub(super) fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

pub(super) fn at(seconds: i64) -> Time {
    noon().plus_s(seconds)
}

/// An engine whose clock is an hour later than the leases that it admitted: a lease of each name with these vCPUs and GiB.
pub(super) async fn engine(backend: Backend, names: &[&str], vcpus: i64, gib: i64) -> Engine {
    let engine = Engine::with_customer(backend, noon()).await;
    for name in names {
        made(engine.admin.admit("acme", "ci", &[lease(name, name, vcpus, gib * 1_024, HOUR_S)]).await);
    }
    engine.set_clock(noon().plus_h(1)).await;
    engine
}

pub(super) fn agent(engine: &Engine, host: &str) -> Rig {
    Rig::start(engine.admin.base(), &engine.host_token(host), noon())
}

/// A sandbox begins to run at noon under the lease of its name.
pub(super) fn begin(rig: &mut Rig, name: &str) {
    rig.world.set_s(name, 0);
    rig.write(&document(name, Some((name, noon()))));
    rig.read_at(noon());
}

/// It said so much at these seconds: (seconds, CPU seconds).
pub(super) fn run(rig: &mut Rig, name: &str, readings: &[(i64, i64)]) {
    for (seconds, cpu_s) in readings {
        rig.world.set_s(name, *cpu_s);
        rig.read_at(at(*seconds));
    }
}

pub(super) async fn figures(engine: &Engine, name: &str) -> (i128, i128, i128) {
    let bill = engine.admin.lease("acme", name).await;
    (quantity(&bill, "cpu_used_us"), quantity(&bill, "cpu_us"), quantity(&bill, "run_ms"))
}

async fn s1_answers_lost_three_times(backend: Backend) {
    let engine = engine(backend, &["l"], 1, 1).await;
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    let readings: Vec<(i64, i64)> = (1..=60).map(|step| (step * 10, step * 5)).collect();
    run(&mut rig, "l", &readings);
    let batch = rig.batch().expect("something to send");
    assert_eq!(batch.rows, 61);
    let host = engine.host("h-1");
    for outcome in ["accepted", "duplicates", "duplicates"] {
        // It arrives each time, but the agent never hears so.
        let headers = [("content-type", "application/x-ndjson"), ("content-encoding", "gzip")];
        let body = host.raw("POST", "/v1/samples", &headers, batch.body.clone()).await.json();
        assert_eq!(int(&done(body), outcome), 61);
        rig.unanswered(&batch);
        assert_eq!(rig.batch().as_ref(), Some(&batch), "the same bytes");
    }
    rig.restart();
    assert_eq!(rig.batch(), Some(batch), "after a restart too");
    run(&mut rig, "l", &[(610, 305), (620, 310)]);
    rig.push_all().await;
    assert_eq!(rig.metric("runtab_agent_samples_answered_total{outcome=\"duplicate\"}"), 61);
    assert_eq!(rig.metric("runtab_agent_samples_answered_total{outcome=\"accepted\"}"), 2);
    assert_eq!(figures(&engine, "l").await, (310_000_000, 310_000_000, 620_000));
}

async fn s2_an_engine_killed_amid_a_batch(backend: Backend) {
    let mut engine = engine(backend, &["l"], 1, 1).await;
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    for round in 0..5 {
        let readings: Vec<(i64, i64)> =
            (1..=30).map(|step| round * 30 + step).map(|step| (step * 10, step * 5)).collect();
        run(&mut rig, "l", &readings);
        let sending = async {
            rig.push_once().await;
        };
        tokio::select! {
            () = sending => {}
            () = give_way(round * 40) => {}
        }
        engine.crash_and_restart();
        engine.admin.base().clone_into(&mut rig.server);
        rig.push_all().await;
    }
    assert_eq!(figures(&engine, "l").await, (750_000_000, 750_000_000, 1_500_000));
    assert_eq!(rig.set_aside(), Vec::<String>::new());
}

/// Lets others go on so many times.
async fn give_way(times: i64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

async fn s3_one_bad_row(backend: Backend) {
    let engine = engine(backend, &["a", "b"], 1, 1).await;
    let mut rig = agent(&engine, "h-1");
    for name in ["a", "b", "unknown"] {
        rig.world.set_s(name, 0);
        rig.write(&document(name, Some((name, noon()))));
    }
    rig.read_at(noon());
    for name in ["a", "b", "unknown"] {
        rig.world.set_s(name, 300);
    }
    rig.read_at(at(600));
    rig.push_all().await;
    assert_eq!(rig.set_aside(), ["unknown_lease", "unknown_lease"], "its baseline and its reading");
    for name in ["a", "b"] {
        assert_eq!(figures(&engine, name).await, (300_000_000, 300_000_000, 600_000));
    }
    assert_eq!(
        (rig.unanswered_rows(), rig.metric("runtab_agent_samples_answered_total{outcome=\"unknown_lease\"}")),
        (0, 2)
    );
}

async fn s5_a_counter_that_starts_again(backend: Backend) {
    let engine = engine(backend, &["l"], 2, 1).await;
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    run(&mut rig, "l", &[(300, 100), (600, 350)]);
    rig.world.make_again("l");
    run(&mut rig, "l", &[(900, 50), (1_200, 90)]);
    rig.push_all().await;
    assert_eq!(figures(&engine, "l").await, (440_000_000, 440_000_000, 1_200_000));
    assert_eq!((rig.metric("runtab_agent_epochs_total"), rig.set_aside()), (1, Vec::new()));
}

async fn s5_a_glitch_to_zero(backend: Backend) {
    let engine = engine(backend, &["l", "restored"], 2, 1).await;
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    run(&mut rig, "l", &[(60, 100), (120, 0), (180, 103)]);
    rig.push_all().await;
    // What the glitch said is not sent, so nothing is refused.
    assert_eq!((figures(&engine, "l").await.0, figures(&engine, "l").await.1), (103_000_000, 106_000_000));
    assert_eq!((rig.metric("runtab_agent_readings_went_back_total"), rig.set_aside()), (1, Vec::new()));
    // One that goes on from there is a counter that was put back, as by a snapshot.
    rig.write(&document("restored", Some(("restored", noon()))));
    run(&mut rig, "restored", &[(240, 100), (300, 10), (360, 20)]);
    rig.push_all().await;
    assert_eq!((figures(&engine, "restored").await.0, rig.set_aside()), (120_000_000, Vec::new()));
}

async fn s6_short_lives(backend: Backend) {
    let engine = engine(backend, &["seen", "unseen", "told-first"], 1, 1).await;
    let mut rig = agent(&engine, "h-1");
    done(engine.admin.end("acme", "unseen", Some(at(3)), "stop").await);
    assert_eq!(engine.list("unseen").await, 7);
    done(engine.admin.end("acme", "told-first", Some(at(12)), "stop").await);
    for name in ["seen", "told-first"] {
        rig.world.set_s(name, 8);
        rig.write(&document(name, Some((name, noon()))));
    }
    rig.read_at(at(10));
    for name in ["seen", "told-first"] {
        rig.world.set_us(name, 9_500_000);
        rig.world.exit(name);
    }
    rig.read_at(at(12));
    // After the last reading nothing runs, and nothing is sent.
    rig.read_at(at(20));
    rig.push_all().await;
    done(engine.admin.end("acme", "seen", Some(at(12)), "stop").await);
    for name in ["seen", "told-first"] {
        assert_eq!(engine.list(name).await, 90, "{name}");
    }
}

async fn s7_readings_that_were_missed(backend: Backend) {
    let engine = engine(backend, &["all", "some"], 1, 4).await;
    let (mut all, mut some) = (agent(&engine, "h-1"), agent(&engine, "h-2"));
    begin(&mut all, "all");
    begin(&mut some, "some");
    for minute in 1..=60 {
        run(&mut all, "all", &[(minute * 60, minute * 30)]);
        // The other agent is down for ten minutes.
        match minute {
            21 => some.kill(),
            31 => some.restart(),
            _ => {}
        }
        if !(21..31).contains(&minute) {
            run(&mut some, "some", &[(minute * 60, minute * 30)]);
        }
    }
    all.push_all().await;
    some.push_all().await;
    let bills = [engine.admin.lease("acme", "all").await, engine.admin.lease("acme", "some").await];
    assert_eq!(bills[0]["usage"], bills[1]["usage"]);
    assert_eq!(int(&bills[1], "list_micros"), 30_000 + 12_500);
}

async fn s8_a_clock_ahead(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "l", 1, 1_024, 48 * HOUR_S)]).await);
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    rig.push_all().await;
    // 25 s ahead passes, ten minutes do not.
    rig.clock_off_ms = 25_000;
    engine.set_clock(at(60)).await;
    run(&mut rig, "l", &[(60, 10)]);
    rig.push_all().await;
    rig.clock_off_ms = 600_000;
    engine.set_clock(at(120)).await;
    run(&mut rig, "l", &[(120, 20)]);
    rig.push_all().await;
    assert_eq!(rig.set_aside(), ["future"]);
    assert_eq!(rig.metric("runtab_agent_clock_steps_total"), 2);
    // Set right again, it goes on at once.
    rig.clock_off_ms = 0;
    for minute in 3..=10 {
        engine.set_clock(at(minute * 60)).await;
        run(&mut rig, "l", &[(minute * 60, minute * 10)]);
        rig.push_all().await;
    }
    assert_eq!(rig.set_aside(), ["future"]);
    assert_eq!(figures(&engine, "l").await, (100_000_000, 100_000_000, 600_000));
    // Set back by ten minutes while the server's is right: labels go on in order, at half speed.
    rig.clock_off_ms = -30_000;
    for step in 61..=72 {
        engine.set_clock(at(step * 10)).await;
        run(&mut rig, "l", &[(step * 10, 100 + (step - 60))]);
        rig.push_all().await;
    }
    assert_eq!(rig.set_aside(), ["future"], "nothing of it is refused");
    let (used, _, run_ms) = figures(&engine, "l").await;
    assert_eq!((used, run_ms), (112_000_000, 690_000), "the label of the last reading is the calendar's again");
}

async fn s9_a_lease_that_moves(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[with(lease("l", "l", 1, 1_024, HOUR_S), "host", "h-a")]).await);
    let (mut a, mut b) = (agent(&engine, "h-a"), agent(&engine, "h-b"));
    begin(&mut a, "l");
    for minute in 1..=60 {
        engine.set_clock(at(minute * 60)).await;
        if minute == 30 {
            done(engine.admin.move_to("acme", "l", "h-b").await);
            b.world.set_s("l", 0);
            b.write(&document("l", Some(("l", at(29 * 60)))));
        }
        if minute <= 31 {
            run(&mut a, "l", &[(minute * 60, minute * 60)]);
            a.push_all().await;
        }
        if minute == 31 {
            a.unwrite("l");
        }
        if minute >= 30 {
            run(&mut b, "l", &[(minute * 60, (minute - 29) * 60)]);
            b.push_all().await;
        }
    }
    assert_eq!(engine.list("l").await, 32_500);
    assert_eq!(a.set_aside(), ["wrong_host", "wrong_host"]);
    // The new host's baseline is at the instant that the old one's last sample has.
    assert!(b.set_aside().iter().all(|code| code == "conflict") && b.set_aside().len() <= 1, "{:?}", b.set_aside());
}

async fn s12_suspended_time(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l-1", "s", 1, 4_096, 600)]).await);
    let mut rig = agent(&engine, "h-1");
    rig.world.set_s("s", 0);
    rig.world.set_disk_mib(1);
    rig.write(&document("s", Some(("l-1", noon()))));
    for minute in 0..=10 {
        rig.read_at(at(minute * 60));
    }
    engine.set_clock(at(600)).await;
    done(engine.admin.end("acme", "l-1", None, "pause").await);
    rig.write(&document("s", None));
    for minute in 11..=60 {
        rig.read_at(at(minute * 60));
    }
    engine.set_clock(at(3_600)).await;
    made(engine.admin.admit("acme", "ci", &[with(lease("l-2", "s", 1, 4_096, 600), "kind", "wake")]).await);
    rig.write(&document("s", Some(("l-2", at(3_600)))));
    rig.read_at(at(3_601));
    for minute in 61..=70 {
        rig.read_at(at(minute * 60));
    }
    engine.set_clock(at(4_200)).await;
    rig.push_all().await;
    done(engine.admin.end("acme", "l-2", None, "stop").await);
    let (from, to) = (noon(), noon().plus_h(2));
    let costs = engine.admin.costs("acme", from, to, "granularity=total&group_by=resource").await;
    let row = |resource: &str| {
        let rows = costs["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["resource"] == resource).expect("a row").clone()
    };
    assert_eq!(int(&row("cpu"), "list_micros") + int(&row("memory"), "list_micros"), 10_416);
    assert_eq!((quantity(&row("cpu"), "cpu_us"), rig.set_aside()), (60_000_000, Vec::new()));
    assert!(quantity(&row("storage"), "storage_mib_ms") >= 4_140_000, "{costs}");
}

async fn s13_an_orphan(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "l", 2, 4_096, HOUR_S)]).await);
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    engine.set_clock(at(1_200)).await;
    run(&mut rig, "l", &(1..=20).map(|minute| (minute * 60, 0)).collect::<Vec<_>>());
    rig.push_all().await;
    // The network goes, then the host; its disk is found 18 days later.
    run(&mut rig, "l", &(21..=60).map(|minute| (minute * 60, 0)).collect::<Vec<_>>());
    rig.kill();
    engine.set_clock(noon().plus_h(18 * 24)).await;
    assert_eq!(engine.list("l").await, 10_416);
    rig.reboot();
    rig.world.remove("l");
    rig.read_at(noon().plus_h(18 * 24));
    rig.push_all().await;
    assert_eq!(engine.list("l").await, 31_250);
    assert_eq!(
        (rig.set_aside(), rig.metric("runtab_agent_samples_answered_total{outcome=\"accepted\"}")),
        (Vec::new(), 41),
        "forty readings, and the disk that is still there"
    );
}

async fn s14_an_end_told_late(backend: Backend) {
    let engine = engine(backend, &["l"], 2, 4).await;
    let mut rig = agent(&engine, "h-1");
    begin(&mut rig, "l");
    run(&mut rig, "l", &(1..=20).map(|minute| (minute * 60, 0)).collect::<Vec<_>>());
    rig.push_all().await;
    done(engine.admin.end("acme", "l", Some(at(600)), "stop").await);
    assert_eq!(engine.list("l").await, 5_208);
}

async fn s16_a_counter_that_goes_on_over_a_wake(backend: Backend) {
    let engine = Engine::with_customer(backend, noon()).await;
    let mut rig = agent(&engine, "h-1");
    // It rests with a counter that stands at half an hour of CPU; one agent has seen it so, another comes new.
    rig.world.set_s("s", 1_800);
    rig.write(&document("s", None));
    rig.read_at(at(-10));
    made(
        engine.admin.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S), lease("m", "t", 1, 1_024, HOUR_S)]).await,
    );
    engine.set_clock(noon().plus_h(1)).await;
    rig.world.set_s("t", 1_800);
    rig.write(&document("s", Some(("l", noon()))));
    rig.write(&document("t", Some(("m", noon()))));
    for minute in 0..=60 {
        rig.read_at(at(minute * 60).plus_ms(if minute == 60 { 0 } else { 300 }));
    }
    rig.push_all().await;
    for name in ["l", "m"] {
        assert_eq!(figures(&engine, name).await, (0, 180_000_000, 3_600_000), "{name}");
    }
    assert_eq!(rig.set_aside(), Vec::<String>::new());
}

async fn s17_the_end_and_the_last_reading_race(backend: Backend) {
    let engine = engine(backend, &["end-first", "reading-first"], 1, 1).await;
    let mut bills = Vec::new();
    for (name, end_first) in [("end-first", true), ("reading-first", false)] {
        let mut lone = agent(&engine, "h-1");
        begin(&mut lone, name);
        run(&mut lone, name, &[(300, 150)]);
        lone.push_all().await;
        if end_first {
            done(engine.admin.end("acme", name, Some(at(500)), "stop").await);
        }
        // The host sees the end a moment later than the control plane tells it.
        lone.world.set_s(name, 330);
        lone.world.exit(name);
        lone.read_at(at(600));
        lone.unwrite(name);
        lone.read_at(at(610));
        lone.push_all().await;
        if !end_first {
            done(engine.admin.end("acme", name, Some(at(500)), "stop").await);
        }
        bills.push(engine.admin.lease("acme", name).await["usage"].clone());
    }
    assert_eq!(bills[0], bills[1]);
    assert_eq!(figures(&engine, "end-first").await, (270_000_000, 270_000_000, 500_000));
}
