//! The real Prometheus, in agent mode, in this machine's own time: cut off, its receiver stopped, itself killed; and the
//! bill is what the counters prove.
//!
//! Nothing here waits for a time: it asks until what must come has come, within a bound.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::exporter::{Exporter, now};
use super::payload::rejected;
use crate::harness::{Backend, Engine, HOUR_S, Mode, Proxy, Time, int, made, on_each_backend, quantity, shape, time};

on_each_backend!(r5_the_bill_is_what_the_counters_prove);

/// Longest that what must come may take, on a busy machine.
const BOUND: Duration = Duration::from_mins(2);
/// Between two questions whether it has come.
const PAUSE: Duration = Duration::from_millis(100);

/// The program, where it is installed.
fn program() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join("prometheus")).find(|path| path.is_file())
}

/// A running Prometheus; killed on drop.
struct Prometheus(Child);

impl Prometheus {
    fn start(program: &Path, home: &TempDir) -> Self {
        let path = |name: &str| home.path().join(name);
        let log = std::fs::File::options().create(true).append(true).open(path("log")).expect("a log");
        let child = Command::new(program)
            .arg("--enable-feature=agent")
            .arg(format!("--config.file={}", path("prometheus.yml").display()))
            .arg(format!("--storage.agent.path={}", path("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        Self(child)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }
}

fn configuration(exporter: &Exporter, proxy: &Proxy, token: &str) -> String {
    format!(
        "global: {{scrape_interval: 300ms, scrape_timeout: 300ms, external_labels: {{replica: one}}}}\n\
         scrape_configs: [{{job_name: hosts, static_configs: [{{targets: ['{}']}}]}}]\n\
         remote_write:\n\
         - url: http://{}/v1/remote-write\n\
         \x20 authorization: {{credentials: {token}}}\n\
         \x20 remote_timeout: 5s\n\
         \x20 queue_config: {{max_samples_per_send: 7, batch_send_deadline: 200ms, min_backoff: 30ms, max_backoff: 300ms}}\n",
        exporter.address,
        proxy.address(),
    )
}

/// An engine whose clock is kept at the machine's time.
struct Rig {
    engine: Engine,
    exporter: Exporter,
    home: TempDir,
}

impl Rig {
    /// When the lease was sampled last.
    async fn last_sample(&self) -> Option<Time> {
        self.engine.set_clock(now()).await;
        let lease = self.engine.admin.lease("acme", "l").await;
        lease["last_sample_at"].as_str().map(time)
    }

    /// Waits until a sample of after `since` is in the ledger.
    async fn sampled_after(&self, since: Time, what: &str) {
        let come = async {
            while self.last_sample().await.is_none_or(|last| last <= since) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        if tokio::time::timeout(BOUND, come).await.is_err() {
            let log = std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
            panic!("{what}: nothing came; set aside: {:?}; {log}", rejected(&self.engine.admin, "?limit=5").await);
        }
    }

    async fn scraped(&self, more: u64) {
        tokio::time::timeout(BOUND, self.exporter.scraped(more)).await.expect("Prometheus scrapes");
    }
}

fn target(engine: &Engine) -> String {
    engine.admin.base().trim_start_matches("http://").to_owned()
}

async fn r5_the_bill_is_what_the_counters_prove(backend: Backend) {
    #[expect(clippy::print_stdout, reason = "says what was not tested")]
    let Some(program) = program() else {
        println!("skipped: no prometheus is installed");
        return;
    };
    let began = now();
    let engine = Engine::with_customer(backend, began).await;
    made(engine.admin.admit("acme", "ci", &[shape("l", HOUR_S)]).await);
    let exporter = Exporter::start().await;
    let proxy = Proxy::before(target(&engine)).await;
    let home = tempfile::tempdir().expect("a temporary folder");
    let configuration = configuration(&exporter, &proxy, &engine.host_token("h-1"));
    std::fs::write(home.path().join("prometheus.yml"), configuration).expect("a file");
    let mut rig = Rig { engine, exporter, home };
    let prometheus = Prometheus::start(&program, &rig.home);
    rig.sampled_after(began, "at first").await;

    // The connection is cut, with what is under way on it; then every one that is tried.
    proxy.set(Mode::Cut);
    rig.scraped(5).await;
    proxy.set(Mode::Pass);
    rig.sampled_after(now(), "after the cut").await;

    // The engine is killed and away for a while, and comes back somewhere else.
    proxy.set(Mode::Hang);
    rig.scraped(2).await;
    rig.engine.crash_and_restart();
    proxy.set(Mode::Cut);
    rig.scraped(10).await;
    proxy.retarget(target(&rig.engine));
    proxy.set(Mode::Pass);
    rig.sampled_after(now(), "after the engine was away").await;

    // Another counter: the container was started again.
    rig.exporter.restart_counter();
    rig.scraped(2).await;
    rig.sampled_after(now(), "after a new counter").await;

    // Prometheus is killed, with what it had not sent, and started on what it had written.
    drop(prometheus);
    let _prometheus = Prometheus::start(&program, &rig.home);
    rig.sampled_after(now(), "after Prometheus was killed").await;

    let truth_us = rig.exporter.freeze();
    rig.scraped(1).await;
    rig.sampled_after(now(), "at the end").await;
    let lease = rig.engine.admin.lease("acme", "l").await;
    let last = time(lease["last_sample_at"].as_str().expect("a time"));
    assert_eq!(quantity(&lease, "cpu_used_us"), i128::from(truth_us), "{lease}");
    let run_ms = i128::from(last.0 - time(lease["starts_at"].as_str().expect("a time")).0);
    assert_eq!((quantity(&lease, "run_ms"), quantity(&lease, "memory_mib_ms")), (run_ms, run_ms * 4_096), "{lease}");
    assert!(int(&lease, "list_micros") > 0);
    assert_eq!(rig.engine.admin.sandbox("acme", "s-l").await["storage_mib"], 3);
    assert_eq!(rejected(&rig.engine.admin, "").await, []);
    rig.engine.assert_verified();
}
