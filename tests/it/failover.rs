//! A primary that is killed and a standby that takes over: engines find it by themselves, and nothing acknowledged is
//! lost.
//!
//! PostgreSQL with a synchronous standby by streaming replication, both of our own; two engines that know both servers.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use crate::harness::{Api, HOUR_S, Process, Time, create_token, done, int, made, refused, sample, shape, time, with};
use crate::postgres::{command, other_user};

/// Clients, all on one key.
const CLIENTS: usize = 8;
/// Requests that are acknowledged before the primary is killed.
const BEFORE: usize = 80;
/// Requests that are acknowledged after that.
const AFTER: usize = 80;
/// The key's daily limit: it binds while the load runs.
const LIMIT: i64 = 20 * 80_000;

fn now() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// A server process; killed with its children when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(data: &Path, settings: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = command("postgres", other_user());
        server.arg("-D").arg(data).args(["-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=32MB"] {
            server.args(["-c", setting]);
        }
        for setting in settings {
            server.args(["-c", setting]);
        }
        Self { child: server.spawn().unwrap(), port }
    }

    fn address(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// SIGKILL to it and its children, which would else finish what they were at.
    fn kill(&mut self) {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        // It first, lest it should see its children die and end in good order.
        for id in std::iter::once(pid.to_string().as_str()).chain(children.split_whitespace()) {
            let pid = rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks until the answer is `true`; two minutes at most.
async fn until(address: &str, question: &str) -> PgConnection {
    for _ in 0..1_200 {
        if let Ok(mut connection) = PgConnection::connect(address).await {
            let answer: Result<bool, _> =
                sqlx::query_scalar(AssertSqlSafe(question.to_owned())).fetch_one(&mut connection).await;
            if matches!(answer, Ok(true)) {
                return connection;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{question}: never");
}

fn run(program: &str, arguments: &[&str]) {
    let output = command(program, other_user()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A primary and its synchronous standby.
async fn pair(home: &Path) -> (Server, Server) {
    if let Some((user, group)) = other_user() {
        chown(home, Some(user), Some(group)).unwrap();
    }
    let (first, second) = (home.join("first"), home.join("second"));
    let (first_text, second_text) = (first.to_str().unwrap(), second.to_str().unwrap());
    run(
        "initdb",
        &["-D", first_text, "--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"],
    );
    let primary = Server::start(&first, &[]);
    let mut connection = until(&primary.address("postgres"), "SELECT true").await;
    let port = primary.port.to_string();
    let from = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    run("pg_basebackup", &[&from[..], &["-D", second_text, "-R", "-X", "stream", "-c", "fast", "--no-sync"]].concat());
    let standby = Server::start(&second, &["cluster_name=standby"]);
    // Only now, and on the primary alone: a promoted standby must not wait for a standby of its own.
    connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'").await.unwrap();
    connection.execute("SELECT pg_reload_conf()").await.unwrap();
    let question = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";
    until(&primary.address("postgres"), question).await;
    connection.execute("CREATE DATABASE runtab").await.unwrap();
    until(&standby.address("runtab"), "SELECT pg_is_in_recovery()").await;
    (primary, standby)
}

/// What clients share.
struct Load {
    engines: Vec<Api>,
    acknowledged: AtomicUsize,
    stop: AtomicBool,
    /// Longest time between a request and its answer, in milliseconds.
    longest_ms: AtomicUsize,
}

/// A lease as a client knows it.
struct Known {
    lease: String,
    ended: bool,
}

#[expect(clippy::disallowed_methods, reason = "the time of refusal is what is measured")]
fn instant() -> Instant {
    Instant::now()
}

impl Load {
    /// Asks, one engine after another, until an answer says what is known.
    async fn ask(&self, client: usize, path: &str, body: &Value) -> (u16, Value) {
        let began = instant();
        for attempt in client.. {
            match self.engines[attempt % self.engines.len()].attempt("POST", path, body).await {
                Some((503, _)) | None => tokio::time::sleep(Duration::from_millis(20)).await,
                Some(answer) => {
                    let ms = usize::try_from(began.elapsed().as_millis()).unwrap();
                    self.longest_ms.fetch_max(ms, Ordering::SeqCst);
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    return answer;
                }
            }
        }
        unreachable!("attempts do not end")
    }

    /// Admits, samples and ends until it is told to stop; every other lease goes on running.
    async fn client(self: Arc<Self>, client: usize) -> Vec<Known> {
        let mut known = Vec::new();
        for number in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let lease = format!("l-{client}-{number}");
            let body = json!({"key": "ci", "leases": [shape(&lease, HOUR_S)]});
            let answer = self.ask(client, "/v1/accounts/acme/leases", &body).await;
            if answer.0 == 402 {
                refused(answer, 402, "spending_limit_reached");
                continue;
            }
            assert!(answer.0 == 200 || answer.0 == 201, "{answer:?}");
            done(self.ask(client, "/v1/samples", &json!(readings(&lease))).await);
            // Ends give back what the lease held, so that there is always something to admit.
            let ended = number % 8 != 0;
            if ended {
                let body = json!({"ended_at": now().plus_s(20).to_string(), "reason": "stop"});
                done(self.ask(client, &format!("/v1/accounts/acme/leases/{lease}/end"), &body).await);
            }
            known.push(Known { lease, ended });
        }
        known
    }
}

fn readings(lease: &str) -> [Value; 2] {
    let one = |seconds: i64| sample("acme", &format!("s-{lease}"), lease, now().plus_s(seconds), seconds * 100_000);
    [with(one(10), "storage_mib", 100), one(20)]
}

async fn wait_for(load: &Load, count: usize) {
    while load.acknowledged.load(Ordering::SeqCst) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A read, asked again while the engine still finds its way.
async fn read(api: &Api, path: &str) -> Value {
    for _ in 0..600 {
        match api.attempt("GET", path, &Value::Null).await {
            Some((503, _)) | None => tokio::time::sleep(Duration::from_millis(100)).await,
            Some(answer) => return done(answer),
        }
    }
    panic!("{path}: no answer");
}

/// Everything that was acknowledged is there, nothing else runs, and the limit holds.
async fn check(load: &Load, engine: usize, known: &[Known]) {
    let api = &load.engines[engine];
    let listed = read(api, "/v1/accounts/acme/leases?limit=1000").await;
    let listed = listed["items"].as_array().unwrap();
    for one in known {
        let lease = listed.iter().find(|lease| lease["id"] == one.lease).expect("an acknowledged lease is there");
        assert_eq!(lease["ended_at"].is_string(), one.ended, "{lease}");
    }
    let running = |lease: &&Value| lease["ended_at"].is_null();
    assert_eq!(listed.iter().filter(running).count(), known.iter().filter(|one| !one.ended).count());
    let samples: Vec<Value> = known.iter().flat_map(|one| readings(&one.lease)).collect();
    let body = done(load.ask(engine, "/v1/samples", &json!(samples)).await);
    assert_eq!((int(&body, "accepted"), &body["rejected"]), (0, &json!([])), "{body}");
    let balance = read(api, "/v1/accounts/acme/balance").await;
    let (used, reserved) = (int(&balance["keys"][0], "used_micros"), int(&balance["keys"][0], "reserved_micros"));
    assert!(used + reserved <= LIMIT, "{used} + {reserved}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over() {
    let home = tempfile::tempdir().unwrap();
    let (mut primary, standby) = pair(home.path()).await;
    let servers = format!("127.0.0.1:{},127.0.0.1:{}", primary.port, standby.port);
    let database = format!("postgres://postgres@{servers}/runtab?target_session_attrs=read-write");
    // Reports of the second engine come from the standby.
    let replica = standby.address("runtab");
    let first = Process::start(&database, now(), &[]);
    let second = Process::start(&database, now(), &[("RUNTAB_READ_DATABASE", &replica)]);
    let token = create_token(&database, &["--role", "admin"]);
    let engines = vec![Api::new(first.base(), Some(&token)), Api::new(second.base(), Some(&token))];
    made(engines[0].account("acme", true).await);
    made(engines[0].key("acme", "ci", Some(LIMIT)).await);
    until(&replica, "SELECT EXISTS (SELECT FROM keys)").await;
    engines[1].balance("acme").await;
    until(&replica, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'runtab')").await;

    let (acknowledged, longest_ms) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let load = Arc::new(Load { engines, acknowledged, stop: AtomicBool::new(false), longest_ms });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&load).client(client));
    }
    wait_for(&load, BEFORE).await;
    primary.kill();
    let killed = instant();
    let acknowledged = load.acknowledged.load(Ordering::SeqCst);
    run("pg_ctl", &["promote", "-w", "-D", home.path().join("second").to_str().unwrap()]);
    let promoted = killed.elapsed();
    // One answer a client may have been on its way when the primary died.
    wait_for(&load, acknowledged + CLIENTS + 1).await;
    let resumed = killed.elapsed();
    wait_for(&load, acknowledged + AFTER).await;
    load.stop.store(true, Ordering::SeqCst);
    let known: Vec<Known> = clients.join_all().await.into_iter().flatten().collect();
    for engine in 0..load.engines.len() {
        check(&load, engine, &known).await;
    }
    writeln!(
        std::io::stdout(),
        "failover: standby promoted after {} ms, answers again after {} ms, longest wait of a request {} ms; {} leases \
         kept",
        promoted.as_millis(),
        resumed.as_millis(),
        load.longest_ms.load(Ordering::SeqCst),
        known.len()
    )
    .unwrap();
}

/// A primary whose standby is gone has committed, and says so once its time is up; but nobody else has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_standby_has_is_not_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let (primary, mut standby) = pair(home.path()).await;
    let database = primary.address("runtab");
    let engine = Process::start(&database, now(), &[("RUNTAB_STORE_WAIT_MS_MAX", "400")]);
    let api = Api::new(engine.base(), Some(&create_token(&database, &["--role", "admin"])));
    made(api.account("acme", true).await);
    made(api.key("acme", "ci", None).await);
    made(api.admit("acme", "ci", &[shape("before", HOUR_S)]).await);
    standby.kill();
    let ask = [shape("after", HOUR_S)];
    refused(api.admit("acme", "ci", &ask).await, 503, "unavailable");
    // The rows are held until a standby has them, so that no repetition learns of them either.
    refused(api.admit("acme", "ci", &ask).await, 503, "unavailable");
    let standby = Server::start(&home.path().join("second"), &["cluster_name=standby"]);
    let question = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";
    until(&primary.address("postgres"), question).await;
    // Now it is there: admitted by the first request, or by this one.
    let (status, body) = loop {
        match api.admit("acme", "ci", &ask).await {
            (503, _) => tokio::time::sleep(Duration::from_millis(20)).await,
            answer => break answer,
        }
    };
    assert!([200, 201].contains(&status), "{status} {body}");
    drop(standby);
}
