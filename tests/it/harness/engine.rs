//! An engine as a process: the real program on a free port, with a clock that stands still. Killed on drop.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use super::api::Api;
use super::backend::{Backend, Database};
use super::json::{done, int, lease, made, sample};
use super::time::Time;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_runtab");

/// A running engine with a database of its own.
pub(crate) struct Engine {
    /// A client with an admin token.
    pub(crate) admin: Api,
    database: Database,
    process: Process,
    token: String,
    now_ms: AtomicI64,
}

/// One process; killed (SIGKILL) and waited for on drop.
pub(crate) struct Process {
    child: Child,
    base: String,
    /// Kept open, or the program's next line would fail.
    _stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts an engine and waits until it listens.
    pub(crate) fn start(database: &str, now: Time, environment: &[(&str, &str)]) -> Self {
        // A full disk is made by a limit on files, which is a signal to those that don't ignore it.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", PROGRAM])
            .args(["serve", "--listen", "127.0.0.1:0", "--database", database, "--test-clock", &now.to_string()])
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while line.is_empty() || !line.starts_with("listening on ") {
            line.clear();
            let read = stdout.read_line(&mut line).expect("a line");
            assert!(read > 0, "the engine ended before it listened: {:?}", child.wait());
        }
        let base = line.trim_start_matches("listening on ").trim_end().to_owned();
        Self { child, base, _stdout: stdout }
    }

    /// Where it listens: `http://ADDRESS:PORT`.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Asks it to stop (SIGTERM).
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child can be asked to stop");
    }

    /// Waits for its end; whether it ended well.
    pub(crate) fn wait(mut self) -> bool {
        self.child.wait().expect("a child can be waited for").success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Engine {
    /// An engine on an empty database, its clock at `now`.
    pub(crate) async fn start(backend: Backend, now: Time) -> Self {
        Self::start_with(backend, now, &[]).await
    }

    /// The same with environment variables set.
    pub(crate) async fn start_with(backend: Backend, now: Time, environment: &[(&str, &str)]) -> Self {
        Self::on(backend.database().await, now, environment)
    }

    /// The same on a given database.
    pub(crate) fn on(database: Database, now: Time, environment: &[(&str, &str)]) -> Self {
        let process = Process::start(&database.url, now, environment);
        let token = create_token(&database.url, &["--role", "admin"]);
        let admin = Api::new(&process.base, Some(&token));
        Self { admin, database, process, token, now_ms: AtomicI64::new(now.0) }
    }

    /// An engine with the account `acme` (a card on file, 50 free hours) and its key `ci` without a limit.
    pub(crate) async fn with_customer(backend: Backend, now: Time) -> Self {
        let engine = Self::start(backend, now).await;
        made(engine.admin.account("acme", true).await);
        made(engine.admin.key("acme", "ci", None).await);
        engine
    }

    /// The same, its free hours used up before `now` by a lease of another key (`burn`) that ended an hour ago.
    pub(crate) async fn with_payer(backend: Backend, now: Time) -> Self {
        let engine = Self::with_customer(backend, now.plus_h(-51)).await;
        let api = &engine.admin;
        made(api.key("acme", "burn", None).await);
        made(api.admit("acme", "burn", &[lease("burn", "burn", 1, 128, 50 * 3_600)]).await);
        engine.set_clock(now).await;
        api.accepted(&[sample("acme", "burn", "burn", now.plus_h(-1), 0)]).await;
        assert_eq!(int(&api.balance("acme").await["free"], "remaining_ms"), 0);
        engine
    }

    /// A second engine on the same database, its clock where this one's is.
    pub(crate) fn beside(&self) -> (Api, impl Drop + use<>) {
        let process = Process::start(&self.database.url, self.now(), &[]);
        (Api::new(&process.base, Some(&self.token)), process)
    }

    /// The time on the engine's clock.
    pub(crate) fn now(&self) -> Time {
        Time(self.now_ms.load(Ordering::SeqCst))
    }

    /// Moves the engine's clock forward.
    pub(crate) async fn set_clock(&self, now: Time) {
        let (status, body) = self.admin.set_clock(now).await;
        assert!((200..300).contains(&status), "{status} {body}");
        self.now_ms.store(now.0, Ordering::SeqCst);
    }

    /// SIGKILL, and another engine on the same database with the clock where it was.
    pub(crate) fn crash_and_restart(&mut self) {
        let now = self.now();
        self.process.child.kill().expect("a child can be killed");
        self.process.child.wait().expect("a child can be waited for");
        self.process = Process::start(&self.database.url, now, &[]);
        self.admin = Api::new(&self.process.base, Some(&self.token));
    }

    /// A client with a new token of a role.
    pub(crate) fn control_plane(&self) -> Api {
        self.admin.with_token(Some(&create_token(&self.database.url, &["--role", "control-plane"])))
    }

    /// A client with a new token of a host.
    pub(crate) fn host(&self, host: &str) -> Api {
        self.admin.with_token(Some(&self.host_token(host)))
    }

    /// A new token of a host.
    pub(crate) fn host_token(&self, host: &str) -> String {
        create_token(&self.database.url, &["--role", "host", "--host", host])
    }

    /// A client with the secret of a new customer key.
    pub(crate) async fn customer(&self, account: &str, key: &str, read_only: bool) -> Api {
        let body = serde_json::json!({"id": key, "name": key, "read_only": read_only});
        let key = made(self.admin.post(&format!("/v1/accounts/{account}/keys"), &body).await);
        self.admin.with_token(Some(key["secret"].as_str().expect("a secret")))
    }

    /// A client without a token.
    pub(crate) fn nobody(&self) -> Api {
        self.admin.with_token(None)
    }

    /// From now on files of the engine can't grow beyond so many bytes; `None`: without end again.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = rustix::process::Rlimit { current: bytes, maximum: None };
        let pid = rustix::process::Pid::from_child(&self.process.child);
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).expect("a limit");
    }

    /// The database, as `--database` takes it.
    pub(crate) fn database(&self) -> &str {
        &self.database.url
    }

    /// The list cost of a lease now.
    pub(crate) async fn list(&self, lease: &str) -> i64 {
        int(&self.admin.lease("acme", lease).await, "list_micros")
    }

    /// Runs `runtab verify` on the database beside the engine: whether it agrees, and what it says.
    pub(crate) fn verify(&self, more: &[&str]) -> (bool, String) {
        let output = Command::new(PROGRAM)
            .args(["verify", "--database", &self.database.url])
            .args(more)
            .output()
            .expect("the program starts");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        (output.status.success(), text)
    }

    /// Everything that is kept is what the evidence says.
    #[track_caller]
    pub(crate) fn assert_verified(&self) {
        let (agrees, text) = self.verify(&[]);
        assert!(agrees, "{text}");
    }

    /// The whole ledger as its readers see it: what must not change when nothing may.
    pub(crate) async fn seen(&self, account: &str) -> Vec<serde_json::Value> {
        let mut seen = Vec::new();
        for path in ["", "/keys", "/grants", "/leases", "/sandboxes", "/balance", "/rate-card"] {
            seen.push(done(self.admin.get(&format!("/v1/accounts/{account}{path}")).await));
        }
        seen
    }
}

/// Makes an operator token with the program's own command.
pub(crate) fn create_token(database: &str, role: &[&str]) -> String {
    let output = Command::new(PROGRAM)
        .args(["token", "create", "--database", database])
        .args(role)
        .stderr(Stdio::inherit())
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).expect("a token").trim_end().to_owned()
}
