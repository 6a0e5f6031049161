//! Settings say what a series is: labels, paths, units, sums; here on engines that are told so by their environment.

use super::payload::{Series, rejected, send_v2};
use crate::harness::{Backend, Engine, HOUR_S, Time, made, on_each_backend, quantity, shape, time};

on_each_backend!(paths_of_groups_name_leases, cpus_are_summed, an_epoch_may_be_a_label);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

async fn engine_with(backend: Backend, settings: &[(&str, &str)]) -> Engine {
    let engine = Engine::start_with(backend, noon(), settings).await;
    made(engine.admin.account("acme", true).await);
    made(engine.admin.key("acme", "ci", None).await);
    made(engine.admin.admit("acme", "ci", &[shape("l", HOUR_S)]).await);
    engine.set_clock(noon().plus_h(1)).await;
    engine
}

fn at(minute: i64) -> Time {
    noon().plus_s(60 * minute)
}

async fn paths_of_groups_name_leases(backend: Backend) {
    let settings = [
        ("RUNTAB_REMOTE_WRITE_CPU_METRIC", "cgroup_cpu_nanoseconds"),
        ("RUNTAB_REMOTE_WRITE_CPU_UNIT", "nanoseconds"),
        ("RUNTAB_REMOTE_WRITE_MEMORY_METRIC", ""),
        ("RUNTAB_REMOTE_WRITE_EPOCH_METRIC", ""),
        ("RUNTAB_REMOTE_WRITE_STORAGE_METRIC", "disk"),
        ("RUNTAB_REMOTE_WRITE_STORAGE_SUM", "false"),
        ("RUNTAB_REMOTE_WRITE_ACCOUNT", "acme"),
        ("RUNTAB_REMOTE_WRITE_SANDBOX", "s-${id/2}"),
        ("RUNTAB_REMOTE_WRITE_LEASE", "${id/2}"),
        ("RUNTAB_REMOTE_WRITE_ONLY", "id=/firecracker/*"),
    ];
    let engine = engine_with(backend, &settings).await;
    let api = &engine.admin;
    let series = |metric: &str, id: &str, value: f64| {
        Series::default().label("__name__", metric).label("id", id).at(at(1), value)
    };
    // The parent and the child of the group are exported too.
    let cpu = ["/firecracker/l", "/firecracker", "/firecracker/l/child", "/"]
        .map(|id| series("cgroup_cpu_nanoseconds", id, 1_234_567_499.0));
    assert_eq!(send_v2(api, &cpu).await, 1);
    assert_eq!(quantity(&api.lease("acme", "l").await, "cpu_used_us"), 1_234_567);
    // One disk; two that claim to be the one are told apart by nothing.
    let disk = |minute, device: &str, bytes: f64| {
        Series::default()
            .label("__name__", "disk")
            .label("id", "/firecracker/l")
            .label("d", device)
            .at(at(minute), bytes)
    };
    assert_eq!(send_v2(api, &[disk(1, "a", 1_048_577.0)]).await, 1);
    assert_eq!(api.sandbox("acme", "s-l").await["storage_mib"], 2);
    assert_eq!(send_v2(api, &[disk(2, "a", 1.0), disk(2, "b", 1.0)]).await, 0);
    let codes: Vec<String> = rejected(api, "").await.into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, ["ambiguous_series"; 2]);
    engine.assert_verified();
}

async fn cpus_are_summed(backend: Backend) {
    let settings = [
        ("RUNTAB_REMOTE_WRITE_CPU_SUM", "true"),
        ("RUNTAB_REMOTE_WRITE_MEMORY_METRIC", ""),
        ("RUNTAB_REMOTE_WRITE_EPOCH_METRIC", ""),
        ("RUNTAB_REMOTE_WRITE_WATCH_INTERVAL_MS", "20"),
    ];
    let engine = engine_with(backend, &settings).await;
    let api = &engine.admin;
    let cpu = |name: &str, minute: i64, seconds: f64| {
        Series::of("container_cpu_usage_seconds_total", "l").label("cpu", name).at(at(minute), seconds)
    };
    // The whole is none of ours now, and a sum is cut into two requests.
    assert_eq!(send_v2(api, &[cpu("total", 1, 40.0), cpu("cpu00", 1, 10.0)]).await, 1);
    assert_eq!(send_v2(api, &[cpu("cpu01", 1, 5.0), cpu("cpu00", 2, 11.0)]).await, 2);
    let used = async || quantity(&api.lease("acme", "l").await, "cpu_used_us");
    assert_eq!(used().await, 0, "a CPU of the first minute may still be on its way");
    assert_eq!(send_v2(api, &[cpu("cpu01", 2, 6.0)]).await, 1);
    assert_eq!(used().await, 15_000_000);
    // Nothing more comes: the last sum is taken when it has waited long enough.
    engine.set_clock(engine.now().plus_s(121)).await;
    while used().await != 17_000_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rejected(api, "").await, []);
    engine.assert_verified();
}

async fn an_epoch_may_be_a_label(backend: Backend) {
    let settings = [
        ("RUNTAB_REMOTE_WRITE_EPOCH_METRIC", ""),
        ("RUNTAB_REMOTE_WRITE_EPOCH", "${boot}"),
        ("RUNTAB_REMOTE_WRITE_MEMORY_METRIC", ""),
    ];
    let engine = engine_with(backend, &settings).await;
    let api = &engine.admin;
    let cpu = |boot: &str, minute: i64, seconds: f64| {
        let series = Series::of("container_cpu_usage_seconds_total", "l").label("boot", boot);
        series.label("cpu", "total").at(at(minute), seconds)
    };
    assert_eq!(send_v2(api, &[cpu("1", 1, 10.0), cpu("2", 2, 4.0), cpu("2", 3, 5.0)]).await, 3);
    assert_eq!(quantity(&api.lease("acme", "l").await, "cpu_used_us"), 15_000_000);
    assert_eq!(send_v2(api, &[cpu("x", 4, 6.0), cpu("-1", 4, 6.0)]).await, 0);
    let all = rejected(api, "").await;
    assert!(all.iter().all(|(code, _, detail)| code == "invalid_sample" && detail.contains("epoch")), "{all:?}");
    assert_eq!(all.len(), 2);
    engine.assert_verified();
}
