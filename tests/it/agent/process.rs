//! The program itself, `runtab agent`, in the host's own time: killed and started again with its spool; its socket.
//!
//! Nothing here waits for a time: it asks until what must come has come.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Backend, Engine, HOUR_S, Time, int, lease, made, on_each_backend, quantity, time};

on_each_backend!(r5_sigkill_of_the_agent, what_its_socket_answers);

/// The host's time now, to the millisecond.
pub(super) fn now() -> Time {
    Time(runtab::clock::Clock::system().now().ms())
}

/// A folder with everything that an agent has on its host.
pub(super) struct Home {
    folder: TempDir,
    /// Settings beyond those that every test has.
    pub(super) settings: Vec<(&'static str, String)>,
}

impl Home {
    pub(super) fn new(engine: &Engine) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["groups", "sandboxes"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        std::fs::write(folder.path().join("token"), engine.host_token("h-1")).expect("a token");
        let settings = vec![("RUNTAB_AGENT_SERVERS", engine.admin.base().to_owned())];
        Self { folder, settings }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets what a pretend group says.
    fn group(&self, name: &str, usage_us: i64, populated: bool) {
        let directory = self.path("groups").join(name);
        std::fs::create_dir_all(&directory).expect("a group");
        let write = |file: &str, text: String| {
            let draft = directory.join("draft");
            std::fs::write(&draft, text).expect("a draft");
            std::fs::rename(draft, directory.join(file)).expect("a file");
        };
        write("cpu.stat", format!("usage_usec {usage_us}\nuser_usec 1\n"));
        // In place, as the kernel changes it: that is what is watched.
        std::fs::write(directory.join("cgroup.events"), format!("populated {}\n", i32::from(populated)))
            .expect("a file");
    }

    pub(super) fn write(&self, name: &str, document: &Value) {
        let draft = self.path("sandboxes").join(".draft");
        std::fs::write(&draft, document.to_string()).expect("a draft");
        std::fs::rename(draft, self.path("sandboxes").join(name)).expect("a document");
    }

    /// Starts the agent and waits until it reads.
    pub(super) fn start(&self) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_runtab"))
            .arg("agent")
            .env("RUNTAB_AGENT_HOST", "h-1")
            .env("RUNTAB_AGENT_LISTEN", "127.0.0.1:0")
            .env("RUNTAB_AGENT_SANDBOXES_DIR", self.path("sandboxes"))
            .env("RUNTAB_AGENT_STATE_DIR", self.path("state"))
            .env("RUNTAB_AGENT_SOCKET", self.path("agent.sock"))
            .env("RUNTAB_AGENT_SOURCE_ROOT", self.path("groups"))
            .env("RUNTAB_AGENT_TOKEN_FILE", self.path("token"))
            .env("RUNTAB_AGENT_INTERVAL_MS", "100")
            .env("RUNTAB_AGENT_PUSH_PERIOD_MS", "100")
            .env("RUNTAB_AGENT_BACKOFF_MS", "10")
            .env("RUNTAB_LOG_LEVEL", "error")
            .envs(self.settings.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let base = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?} {:?}", child.wait()));
        Running { base: base.trim_end().to_owned(), child, _stdout: stdout }
    }
}

/// A running agent; killed (SIGKILL) on drop.
pub(super) struct Running {
    /// Where it can be watched: `http://ADDRESS:PORT`.
    pub(super) base: String,
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Asks it to stop (SIGTERM) and waits; whether it ended well.
    pub(super) fn stop(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child can be asked to stop");
        self.child.wait().expect("a child can be waited for").success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An engine with a lease `l` of sandbox `s` that has begun now; its clock is half an hour ahead of the host's, so that
/// nothing that the host says is of the future.
pub(super) async fn engine(backend: Backend) -> (Engine, Time) {
    let begin = now();
    let engine = Engine::with_customer(backend, begin).await;
    made(engine.admin.admit("acme", "ci", &[lease("l", "s", 2, 1_024, HOUR_S)]).await);
    engine.set_clock(begin.plus_s(HOUR_S / 2)).await;
    (engine, begin)
}

/// The document of that sandbox.
pub(super) fn document(begin: Time) -> Value {
    json!({"account": "acme", "sandbox": "s", "lease": "l", "starts_at": begin.to_string()})
}

/// Asks until a lease's measured CPU is what it must come to; half a minute is far more than it takes.
pub(super) async fn comes_to(engine: &Engine, cpu_used_us: i128) {
    let asking = async {
        loop {
            let used = quantity(&engine.admin.lease("acme", "l").await, "cpu_used_us");
            assert!(used <= cpu_used_us, "{used} of {cpu_used_us}: billed too much");
            if used == cpu_used_us {
                return;
            }
        }
    };
    let came = tokio::time::timeout(Duration::from_secs(30), asking).await;
    assert!(came.is_ok(), "it never came to {cpu_used_us}: {}", engine.admin.lease("acme", "l").await);
}

async fn r5_sigkill_of_the_agent(backend: Backend) {
    let (engine, begin) = engine(backend).await;
    let home = Home::new(&engine);
    home.group("s", 0, true);
    home.write("s.json", &document(begin));
    let mut cpu_us = 0;
    for round in 0..8 {
        let running = home.start();
        for _ in 0..=round % 3 {
            cpu_us += 1_000;
            home.group("s", cpu_us, true);
            if round % 2 == 0 {
                comes_to(&engine, i128::from(cpu_us)).await;
            }
        }
        // In odd rounds while it reads, writes or sends, whatever it does just then.
        drop(running);
    }
    let running = home.start();
    cpu_us += 1_000;
    home.group("s", cpu_us, false);
    comes_to(&engine, i128::from(cpu_us)).await;
    // It has ended: what the file says now is of nobody.
    home.group("s", cpu_us + 1_000_000, false);
    assert!(running.stop(), "SIGTERM is a good end");
    drop(home.start());
    comes_to(&engine, i128::from(cpu_us)).await;
    assert!(!home.path("state").join("spool/rejected.ndjson").exists());
    engine.assert_verified();
}

struct Socket {
    http: Client,
}

impl Socket {
    fn at(path: &Path) -> Self {
        Self { http: Client::builder().unix_socket(path).build().expect("a client") }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.http.request(method, format!("http://agent{path}")).body(body.to_owned());
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a text");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

async fn what_its_socket_answers(backend: Backend) {
    let (engine, begin) = engine(backend).await;
    let home = Home::new(&engine);
    home.group("s", 5_000, true);
    home.group("stranger", 1, true);
    let running = home.start();
    let socket = Socket::at(&home.path("agent.sock"));
    let (status, body) = socket.ask("POST", "/v1/sandboxes", &document(begin).to_string()).await;
    assert_eq!((status, &body["group"]), (200, &json!("s")), "{body}");
    comes_to(&engine, 5_000).await;
    let (_, list) = socket.ask("GET", "/v1/sandboxes", "").await;
    let item = &list["items"][0];
    assert_eq!((&item["state"], int(item, "cpu_usage_usec"), int(item, "epoch")), (&json!("running"), 5_000, begin.0));
    let (status, body) = socket.ask("POST", "/v1/sandboxes", r#"{"account":"acme","sandbox":"x","cpu":1}"#).await;
    assert_eq!((status, &body["pointer"]), (422, &json!("/cpu")));

    let http = Client::builder().no_proxy().build().expect("a client");
    let text =
        http.get(format!("{}/metrics", running.base)).send().await.expect("an answer").text().await.expect("text");
    assert!(text.contains("runtab_agent_sandboxes{state=\"running\"} 1"), "{text}");
    assert!(text.contains("runtab_agent_groups_unknown 1"), "{text}");
    let ready = http.get(format!("{}/readyz", running.base)).send().await.expect("an answer");
    assert_eq!(ready.status().as_u16(), 200);
    let changing = http.post(format!("{}/v1/sandboxes", running.base)).send().await.expect("an answer");
    assert_eq!(changing.status().as_u16(), 404, "nothing is changed over loopback");
    assert_eq!(socket.ask("GET", "/healthz", "").await, (200, json!("ok\n")));

    // A document that is broken is named, and what it said last holds.
    home.write("acme~s.json", &json!("nonsense"));
    let asking = async {
        loop {
            let (status, body) = socket.ask("GET", "/readyz", "").await;
            if status == 503 {
                return body;
            }
        }
    };
    let body = tokio::time::timeout(Duration::from_secs(30), asking).await.expect("it is seen");
    assert!(body["reasons"][0].as_str().is_some_and(|why| why.contains("1 faults")), "{body}");
    let (_, list) = socket.ask("GET", "/v1/sandboxes", "").await;
    assert!(list["faults"][0].as_str().is_some_and(|fault| fault.starts_with("acme~s.json: ")), "{list}");
    assert_eq!(list["items"][0]["state"], "running");

    // The supervisor saw it end: the last reading is on disk when that is answered, then the group may go.
    home.group("s", 9_000, false);
    assert_eq!(socket.ask("DELETE", "/v1/sandboxes/acme/s", "").await.0, 204);
    std::fs::remove_dir_all(home.path("groups").join("s")).expect("a group");
    assert_eq!(socket.ask("DELETE", "/v1/sandboxes/acme/s", "").await.0, 404);
    assert_eq!(socket.ask("DELETE", "/v1/sandboxes/acme/s%20s", "").await.0, 404);
    comes_to(&engine, 9_000).await;
    assert_eq!(socket.ask("GET", "/v1/sandboxes", "").await.1["items"], json!([]));
    assert!(running.stop());
    assert!(!home.path("agent.sock").exists());
    assert!(time("2026-01-01T00:00:00Z") < begin);
}

/// One spool, one agent.
#[tokio::test]
async fn a_second_agent_is_refused_and_a_check_names_what_is_wrong() {
    let (engine, begin) = engine(Backend::Sqlite).await;
    let home = Home::new(&engine);
    home.write("good.json", &document(begin));
    let running = home.start();
    let run = |more: &[&str], token: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_runtab"))
            .arg("agent")
            .args(more)
            .env("RUNTAB_AGENT_SANDBOXES_DIR", home.path("sandboxes"))
            .env("RUNTAB_AGENT_STATE_DIR", home.path("state"))
            .env("RUNTAB_AGENT_SOCKET", home.path("other.sock"))
            .env("RUNTAB_AGENT_LISTEN", "")
            .env("RUNTAB_AGENT_TOKEN_FILE", home.path(token))
            .output()
            .expect("the program starts");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        (output.status.success(), text)
    };
    let (good, text) = run(&[], "token");
    assert!(!good && text.contains("another agent has it"), "{text}");
    assert_eq!(run(&["--check"], "token"), (true, "good: 1 sandboxes\n".to_owned()));
    std::fs::write(home.path("bad-token"), "runtab_host_1").expect("a file");
    let (good, text) = run(&["--check"], "bad-token");
    assert!(!good && text.contains("not a token of runtab's") && !text.contains("host_1"), "{text}");
    home.write("bad.json", &json!({"account": "acme"}));
    let (good, text) = run(&["--check"], "token");
    assert!(!good && text.contains("bad.json: /sandbox is required"), "{text}");
    drop(running);
}
