//! Settings of `runtab agent`: a file of its own, `config/agent.toml`, read as strictly as the server's.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use super::section::{Known, OutOfBounds, bounded, section};
use super::telemetry::Telemetry;
use super::{ConfigError, Misfit, parse, read};

/// Where CPU readings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// cgroup v2: `cpu.stat`.
    Cgroup2,
    /// cgroup v1: `cpuacct.usage`.
    Cgroup1,
    /// `/proc` of a process and its descendants.
    Process,
    /// A directory of recorded readings, for tests and measurements.
    Replay,
}

impl FromStr for SourceKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "cgroup2" => Ok(Self::Cgroup2),
            "cgroup1" => Ok(Self::Cgroup1),
            "process" => Ok(Self::Process),
            "replay" => Ok(Self::Replay),
            _ => Err("a source is cgroup2, cgroup1, process or replay"),
        }
    }
}

/// Addresses of servers, `http://HOST:PORT` or `https://...`, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Servers(Vec<String>);

impl Servers {
    /// Each address, without a slash at its end.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.0
    }
}

impl From<String> for Servers {
    fn from(text: String) -> Self {
        let addresses = text.split(',').map(|address| address.trim().trim_end_matches('/').to_owned());
        Self(addresses.filter(|address| !address.is_empty()).collect())
    }
}

impl FromStr for Servers {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

section! {
    /// The agent itself.
    Agent = "agent" {
        /// The host's id, as its token says it; empty: the machine's name. Spreads the hosts' sending.
        host: String = String::new(), "RUNTAB_AGENT_HOST";
        /// The watched directory: a JSON file for each sandbox of this host.
        sandboxes_dir: PathBuf = PathBuf::from("/run/runtab/sandboxes"), "RUNTAB_AGENT_SANDBOXES_DIR";
        /// Where the spool and the counters' state are kept: on a local disk.
        state_dir: PathBuf = PathBuf::from("/var/lib/runtab-agent"), "RUNTAB_AGENT_STATE_DIR";
        /// The socket of sandboxes, metrics and health; empty: none.
        socket: PathBuf = PathBuf::from("/run/runtab/agent.sock"), "RUNTAB_AGENT_SOCKET";
        /// A loopback address for metrics and health alone; empty: none.
        listen: String = "127.0.0.1:9464".to_owned(), "RUNTAB_AGENT_LISTEN";
        /// Time between two readings of a sandbox, in milliseconds; each minute's boundary is read as well.
        interval_ms: i64 = 10_000, "RUNTAB_AGENT_INTERVAL_MS";
        /// Time between two looks at a sandbox's disk, in milliseconds.
        storage_interval_ms: i64 = 60_000, "RUNTAB_AGENT_STORAGE_INTERVAL_MS";
        /// Most sandboxes of this host; more are refused and reported, so that memory is bounded.
        sandboxes_max: i64 = 4_096, "RUNTAB_AGENT_SANDBOXES_MAX";
    }
}

section! {
    /// Where CPU readings come from.
    Source = "source" {
        /// `cgroup2`, `cgroup1`, `process` or `replay`.
        kind: SourceKind = SourceKind::Cgroup2, "RUNTAB_AGENT_SOURCE";
        /// The directory that the sandboxes' groups (or recorded readings) are in.
        root: PathBuf = PathBuf::from("/sys/fs/cgroup/firecracker"), "RUNTAB_AGENT_SOURCE_ROOT";
        /// What a group's name looks like; what `*` stands for is the name that a sandbox's file gives.
        pattern: String = "*".to_owned(), "RUNTAB_AGENT_SOURCE_PATTERN";
    }
}

section! {
    /// Sending.
    Push = "push" {
        /// The servers' addresses, separated by commas; the next is tried when one does not answer.
        servers: Servers = Servers(vec!["http://127.0.0.1:8080".to_owned()]), "RUNTAB_AGENT_SERVERS";
        /// A file with the host's token.
        token_file: PathBuf = PathBuf::from("/etc/runtab/host.token"), "RUNTAB_AGENT_TOKEN_FILE";
        /// PEM file with the certificates of the private CA to trust, and no other; empty: the system's.
        ca_file: PathBuf = PathBuf::new(), "RUNTAB_AGENT_CA_FILE";
        /// PEM file with a client certificate and its key; empty: none.
        client_file: PathBuf = PathBuf::new(), "RUNTAB_AGENT_CLIENT_FILE";
        /// Time between two requests, in milliseconds; a backlog is sent without waiting.
        period_ms: i64 = 10_000, "RUNTAB_AGENT_PUSH_PERIOD_MS";
        /// Longest wait for an answer, in milliseconds; the same is sent again after it.
        timeout_ms: i64 = 30_000, "RUNTAB_AGENT_PUSH_TIMEOUT_MS";
        /// Bound of the first wait after a failure, in milliseconds; it doubles.
        backoff_ms: i64 = 500, "RUNTAB_AGENT_BACKOFF_MS";
        /// Bound of the longest wait after failures, in milliseconds.
        backoff_ms_max: i64 = 60_000, "RUNTAB_AGENT_BACKOFF_MS_MAX";
        /// Most samples of one request; a server takes 10,000, half of them hold less memory here.
        samples_max: i64 = 5_000, "RUNTAB_AGENT_PUSH_SAMPLES_MAX";
    }
}

section! {
    /// The spool on disk.
    Spool = "spool" {
        /// Most bytes of the spool.
        bytes_max: i64 = 512 * 1_024 * 1_024, "RUNTAB_AGENT_SPOOL_BYTES_MAX";
        /// Size from which on a segment is closed, in bytes; one segment is held in memory while it is sent.
        segment_bytes_max: i64 = 1_024 * 1_024, "RUNTAB_AGENT_SPOOL_SEGMENT_BYTES_MAX";
        /// Age from which on unanswered samples are given up (counted and reported), in hours.
        unanswered_hours_max: i64 = 35 * 24, "RUNTAB_AGENT_SPOOL_UNANSWERED_HOURS_MAX";
        /// How long answered samples are kept, in hours, as long as there is room.
        answered_hours: i64 = 24, "RUNTAB_AGENT_SPOOL_ANSWERED_HOURS";
        /// Most bytes of the file of rejected samples; the file before it is kept too.
        rejected_bytes_max: i64 = 16 * 1_024 * 1_024, "RUNTAB_AGENT_SPOOL_REJECTED_BYTES_MAX";
    }
}

/// All settings of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// The agent itself.
    pub agent: Agent,
    /// Where CPU readings come from.
    pub source: Source,
    /// Sending.
    pub push: Push,
    /// The spool on disk.
    pub spool: Spool,
    /// Logs.
    pub telemetry: Telemetry,
}

impl AgentSettings {
    /// Reads the settings: `file` if there is one, then the environment through `variable`.
    pub fn load(file: Option<&Path>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let (name, text) = read(file)?;
        Self::from_text(&name, &text, variable)
    }

    /// [`AgentSettings::load`] on a text; `name` is what errors call it.
    pub fn from_text(name: &str, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut settings: Self = parse(name, text)?;
        settings.check().map_err(|bad| bad.in_file(name, text))?;
        let overlaid = settings
            .agent
            .overlay(variable)
            .and_then(|()| settings.source.overlay(variable))
            .and_then(|()| settings.push.overlay(variable))
            .and_then(|()| settings.spool.overlay(variable))
            .and_then(|()| settings.telemetry.overlay(variable));
        overlaid.map_err(ConfigError::Variable)?;
        settings.check().map_err(|bad| bad.in_variable(Self::known()))?;
        Ok(settings)
    }

    /// Every setting there is.
    pub fn known() -> impl Iterator<Item = &'static Known> {
        [Agent::KNOWN, Source::KNOWN, Push::KNOWN, Spool::KNOWN, Telemetry::KNOWN].into_iter().flatten()
    }

    fn check(&self) -> Result<(), Misfit> {
        let checks = [
            ("agent", self.agent.check()),
            ("source", self.source.check()),
            ("push", self.push.check()),
            ("spool", self.spool.check()),
            ("telemetry", self.telemetry.check()),
        ];
        checks.into_iter().try_for_each(|(section, checked)| checked.map_err(|bad| Misfit { section, bad }))
    }
}

fn refused(key: &'static str, detail: impl Into<String>) -> Result<(), OutOfBounds> {
    Err(OutOfBounds { key, detail: detail.into() })
}

impl Agent {
    fn check(&self) -> Result<(), OutOfBounds> {
        if self.socket.as_os_str().is_empty() && self.listen.is_empty() {
            return refused("socket", "without it and without `listen` nobody could see how the agent is");
        }
        self.loopback()?;
        bounded("interval_ms", self.interval_ms, 100, 600_000)?;
        bounded("storage_interval_ms", self.storage_interval_ms, 1_000, 86_400_000)?;
        bounded("sandboxes_max", self.sandboxes_max, 1, 100_000)
    }

    /// [`Agent::listen`] as an address, if there is one.
    pub fn loopback(&self) -> Result<Option<SocketAddr>, OutOfBounds> {
        let bad = |detail: &str| OutOfBounds { key: "listen", detail: format!("{:?} {detail}", self.listen) };
        match self.listen.as_str() {
            "" => Ok(None),
            text => match text.parse::<SocketAddr>() {
                Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
                Ok(_) => Err(bad("is not a loopback address: metrics name customers' sandboxes to nobody else")),
                Err(_) => Err(bad("is not ADDRESS:PORT")),
            },
        }
    }
}

impl Source {
    fn check(&self) -> Result<(), OutOfBounds> {
        if self.pattern.matches('*').count() != 1 || self.pattern.contains('/') {
            return refused("pattern", format!("{:?} does not have exactly one * and no /", self.pattern));
        }
        Ok(())
    }
}

impl Push {
    fn check(&self) -> Result<(), OutOfBounds> {
        let is_http = |address: &String| {
            ["http://", "https://"]
                .iter()
                .any(|scheme| address.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
        };
        if self.servers.0.is_empty() || !self.servers.0.iter().all(is_http) {
            return refused("servers", "must be addresses that begin with http:// or https://");
        }
        bounded("period_ms", self.period_ms, 100, 600_000)?;
        bounded("timeout_ms", self.timeout_ms, 100, 600_000)?;
        bounded("backoff_ms", self.backoff_ms, 1, 60_000)?;
        bounded("backoff_ms_max", self.backoff_ms_max, 1, 3_600_000)?;
        bounded("samples_max", self.samples_max, 1, 10_000)
    }
}

impl Spool {
    fn check(&self) -> Result<(), OutOfBounds> {
        bounded("bytes_max", self.bytes_max, 65_536, 1_099_511_627_776)?;
        bounded("segment_bytes_max", self.segment_bytes_max, 4_096, 16_777_216)?;
        if self.segment_bytes_max.saturating_mul(4) > self.bytes_max {
            return refused(
                "segment_bytes_max",
                "is more than a quarter of bytes_max: nothing could be let go in time",
            );
        }
        bounded("unanswered_hours_max", self.unanswered_hours_max, 1, 87_600)?;
        bounded("answered_hours", self.answered_hours, 0, 87_600)?;
        bounded("rejected_bytes_max", self.rejected_bytes_max, 4_096, 1_099_511_627_776)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::AgentSettings;
    use crate::config::line_of;

    const DEFAULT: &str = include_str!("../../config/agent.toml");

    fn none(_: &str) -> Option<String> {
        None
    }

    fn error(text: &str) -> String {
        AgentSettings::from_text("agent.toml", text, &none).unwrap_err().to_string()
    }

    #[test]
    fn the_default_file_says_the_defaults_and_explains_each() {
        assert_eq!(AgentSettings::from_text("agent.toml", DEFAULT, &none).unwrap(), AgentSettings::default());
        for known in AgentSettings::known() {
            assert!(line_of(DEFAULT, known.section, known.key).is_some(), "{}.{}", known.section, known.key);
            assert!(DEFAULT.contains(known.variable), "{} is not named", known.variable);
        }
        let lines: Vec<&str> = DEFAULT.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
            assert!(lines[index - 1].starts_with('#'), "{line:?} has no comment");
        }
        let variables: BTreeSet<_> = AgentSettings::known().map(|known| known.variable).collect();
        assert_eq!(variables.len(), AgentSettings::known().count());
    }

    #[test]
    fn errors_name_the_line_and_the_variable() {
        assert!(error("[agent]\nintervall = 1\n").starts_with("agent.toml:2: agent.intervall: unknown field"));
        assert_eq!(
            error("[agent]\ninterval_ms = 99\n"),
            "agent.toml:2: agent.interval_ms: 99 is not from 100 to 600000"
        );
        assert!(error("[agent]\nlisten = \"0.0.0.0:1\"\n").contains("is not a loopback address"));
        assert!(error("[push]\nservers = \"ftp://x\"\n").starts_with("agent.toml:2: push.servers: must be"));
        assert!(error("[push]\nservers = \"\"\n").starts_with("agent.toml:2: push.servers: must be"));
        assert!(error("[source]\npattern = \"a\"\n").contains("exactly one *"));
        assert!(error("[spool]\nsegment_bytes_max = 16_000_000\nbytes_max = 1_000_000\n").contains("a quarter"));
        let variable = |name: &str| (name == "RUNTAB_AGENT_INTERVAL_MS").then(|| "7".to_owned());
        let error = AgentSettings::from_text("", "", &variable).unwrap_err();
        assert_eq!(error.to_string(), "RUNTAB_AGENT_INTERVAL_MS: 7 is not from 100 to 600000");
    }

    #[test]
    fn servers_are_a_list_without_slashes_at_the_end() {
        let variable = |name: &str| (name == "RUNTAB_AGENT_SERVERS").then(|| "http://a:1/, https://b".to_owned());
        let settings = AgentSettings::from_text("", "", &variable).unwrap();
        assert_eq!(settings.push.servers.addresses(), ["http://a:1", "https://b"]);
    }
}
