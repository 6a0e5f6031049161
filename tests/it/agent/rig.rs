//! The agent's real pieces on a pretend host, driven step by step: meter, spool, pusher and HTTP client, without waiting.

use std::path::{Path, PathBuf};
use std::time::Duration;

use runtab::agent::meter::{Meter, MeterSettings, locked};
use runtab::agent::push::{Next, Outcome, Pusher};
use runtab::agent::schedule::Backoff;
use runtab::agent::spool::{self, Batch, Limits, Rejected};
use runtab::agent::transport::Transport;
use runtab::config::agent::Push;
use runtab::domain::time::Timestamp;
use runtab::telemetry::agent::AgentMetrics;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::world::{World, instants};
use crate::harness::Time;

/// A document of a sandbox: its group has its name, its disk one file.
pub(crate) fn document(sandbox: &str, lease: Option<(&str, Time)>) -> Value {
    let mut document = json!({"account": "acme", "sandbox": sandbox, "files": ["/disk"]});
    if let Some((lease, starts_at)) = lease {
        document["lease"] = lease.into();
        document["starts_at"] = starts_at.to_string().into();
    }
    document
}

/// An agent.
pub(crate) struct Rig {
    /// The host that it reads.
    pub(crate) world: World,
    folder: TempDir,
    /// The meter and the pusher; none while the agent is down.
    pieces: Option<(Meter<World>, Pusher)>,
    transport: Transport,
    /// The server's address.
    pub(crate) server: String,
    boot: u32,
    metrics: AgentMetrics,
    now: Time,
    /// How far the calendar's clock is from the truth, in milliseconds.
    pub(crate) clock_off_ms: i64,
    spool_bytes_max: u64,
}

impl Rig {
    /// An agent that sends to a server (`http://ADDRESS:PORT`) with a token.
    pub(crate) fn start(server: &str, token: &str, now: Time) -> Self {
        Self::with_spool(server, token, now, 1 << 24)
    }

    /// The same with a spool of so many bytes.
    pub(crate) fn with_spool(server: &str, token: &str, now: Time, spool_bytes_max: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, token).expect("a token");
        let transport = transport(&token_file);
        let mut rig = Self {
            world: World::default(),
            folder,
            pieces: None,
            transport,
            server: server.to_owned(),
            boot: 0,
            metrics: AgentMetrics::new().expect("metrics"),
            now,
            clock_off_ms: 0,
            spool_bytes_max,
        };
        rig.open();
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&mut self) {
        let settings = MeterSettings {
            sandboxes_dir: self.path("sandboxes"),
            state_dir: self.path("state"),
            interval_ms: 10_000,
            storage_interval_ms: 60_000,
            sandboxes_max: 100,
            spool: Limits {
                bytes_max: self.spool_bytes_max,
                segment_bytes_max: self.spool_bytes_max / 8,
                unanswered_ms_max: 35 * 86_400_000,
                answered_ms: 0,
            },
        };
        self.metrics = AgentMetrics::new().expect("metrics");
        let boot = format!("boot-{}", self.boot);
        let now = instants(self.now);
        let meter = Meter::open(settings, self.world.clone(), &boot, self.metrics.clone(), now).expect("a meter");
        let rejected = Rejected::new(&spool::directory(&self.path("state")), 1 << 20);
        let backoff = Backoff::new(1, 1, 7);
        // The address is filled in when it is sent: an engine that is started again has another.
        let pusher = Pusher::new(meter.spool(), rejected, vec![String::new()], backoff, 10_000, self.metrics.clone());
        self.pieces = Some((meter, pusher));
    }

    fn meter(&mut self) -> &mut Meter<World> {
        &mut self.pieces.as_mut().expect("the agent is up").0
    }

    /// Kills the agent: nothing is written any more.
    pub(crate) fn kill(&mut self) {
        self.pieces = None;
    }

    /// Kills the agent if it is up, and starts it with what is on disk.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.open();
    }

    /// What is remembered of counters now.
    pub(crate) fn state(&self) -> String {
        std::fs::read_to_string(self.path("state").join("state.json")).expect("a state")
    }

    /// Puts another in its place.
    pub(crate) fn set_state(&self, state: &str) {
        std::fs::write(self.path("state").join("state.json"), state).expect("a state");
    }

    /// The host boots: every counter is another one.
    pub(crate) fn reboot(&mut self) {
        self.boot += 1;
        self.restart();
    }

    /// Writes a sandbox's document as a supervisor does.
    pub(crate) fn write(&self, document: &Value) {
        let name = format!("{}.json", document["sandbox"].as_str().expect("a name"));
        let draft = self.path("sandboxes").join(".draft");
        std::fs::write(&draft, document.to_string()).expect("a draft");
        std::fs::rename(draft, self.path("sandboxes").join(name)).expect("a document");
    }

    /// Removes a sandbox's document.
    pub(crate) fn unwrite(&self, sandbox: &str) {
        std::fs::remove_file(self.path("sandboxes").join(format!("{sandbox}.json"))).expect("a document");
    }

    /// It becomes later; all sandboxes are read.
    pub(crate) fn read_at(&mut self, now: Time) {
        self.now = now;
        let mut instants = instants(now);
        instants.real = Timestamp::from_ms(now.0 + self.clock_off_ms).expect("a time");
        self.meter().round(None, instants);
    }

    /// Milliseconds until the next reading is due.
    pub(crate) fn until_round(&mut self) -> i64 {
        let now = instants(self.now);
        self.meter().until_round(now)
    }

    /// Sends one batch; what became of it, and nothing when everything is answered.
    pub(crate) async fn push_once(&mut self) -> Option<Next> {
        let now = Timestamp::from_ms(self.now.0).expect("a time");
        let (_, pusher) = self.pieces.as_mut().expect("the agent is up");
        let (_, batch) = pusher.take().expect("the spool reads")?;
        let outcome = self.transport.send(&self.server, batch.body.clone()).await;
        let next = pusher.sent(&batch, outcome, now).expect("the spool writes");
        if next.future {
            self.meter().release_labels();
        }
        Some(next)
    }

    /// Sends until everything is answered; at most so often.
    pub(crate) async fn push_all(&mut self) {
        for _ in 0..200 {
            if self.push_once().await.is_none() {
                return;
            }
        }
        panic!("never all answered: {:?}", self.pieces.as_ref().and_then(|(_, pusher)| pusher.trouble()));
    }

    /// What would be sent now.
    pub(crate) fn batch(&mut self) -> Option<Batch> {
        let (_, pusher) = self.pieces.as_mut().expect("the agent is up");
        pusher.take().expect("the spool reads").map(|(_, batch)| batch)
    }

    /// Tells the agent that its batch was not answered.
    pub(crate) fn unanswered(&mut self, batch: &Batch) {
        let now = Timestamp::from_ms(self.now.0).expect("a time");
        let outcome = Outcome::Later { why: "no answer".to_owned(), retry_after_ms: None };
        let (_, pusher) = self.pieces.as_mut().expect("the agent is up");
        pusher.sent(batch, outcome, now).expect("the spool writes");
    }

    /// Rows that no server has answered.
    pub(crate) fn unanswered_rows(&self) -> u64 {
        locked(&self.pieces.as_ref().expect("the agent is up").0.spool()).unanswered_rows()
    }

    /// Codes of the rows that were set aside, in order.
    pub(crate) fn set_aside(&self) -> Vec<String> {
        let path = spool::directory(&self.path("state")).join("rejected.ndjson");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        rows.map(|row| row["code"].as_str().expect("a code").to_owned()).collect()
    }

    /// A metric, by the beginning of its line.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let text = String::from_utf8(self.metrics.exposition().expect("metrics")).expect("text");
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }
}

/// The agent's own client, with a token in a file.
pub(crate) fn transport(token_file: &Path) -> Transport {
    let timeout_ms = i64::try_from(Duration::from_secs(20).as_millis()).expect("short");
    let push = Push { token_file: token_file.to_owned(), timeout_ms, ..Push::default() };
    Transport::new(&push).expect("a client")
}
