//! A row as it is sent: one JSON object of `POST /v1/samples`.

use std::fmt;

use super::sandbox::Key;
use crate::domain::id::LeaseId;
use crate::domain::sample::{Sample, Seen};
use crate::domain::time::Timestamp;
use crate::domain::units::MebiBytes;
use crate::wire::sample::read_fast;
use crate::wire::time::show_time;

/// A reading of a running sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The lease.
    pub lease: LeaseId,
    /// CPU since the counter began, in microseconds.
    pub cpu_usage_us: i64,
    /// Which counter.
    pub epoch: i64,
    /// Memory reserved, where it is not the lease's.
    pub memory: Option<MebiBytes>,
    /// Whether it is where the lease's counter begins.
    pub baseline: bool,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which sandbox.
    pub key: Key,
    /// Its label.
    pub at: Timestamp,
    /// `None`: it rests, and `storage_mib` is there.
    pub running: Option<Running>,
    /// The disk that it takes, in MiB.
    pub storage_mib: Option<i64>,
}

impl Row {
    /// Which rows a later one makes needless, where there is room for the latest only: counters are cumulative, so of one
    /// lease the latest reading of each epoch and its baseline tell what was used.
    #[must_use]
    pub fn thinned_by(&self) -> (Key, Option<(LeaseId, i64, bool)>) {
        let running = self.running.as_ref();
        (self.key.clone(), running.map(|running| (running.lease.clone(), running.epoch, running.baseline)))
    }
}

impl fmt::Display for Row {
    /// The row as JSON text. Ids have no character that JSON would escape.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { account, sandbox } = &self.key;
        write!(out, r#"{{"account":"{account}","sandbox":"{sandbox}","#)?;
        if let Some(running) = &self.running {
            write!(out, r#""lease":"{}","#, running.lease)?;
        }
        write!(out, r#""at":"{}""#, show_time(self.at))?;
        if let Some(running) = &self.running {
            write!(out, r#","cpu_usage_usec":{},"epoch":{}"#, running.cpu_usage_us, running.epoch)?;
            if let Some(memory) = running.memory {
                write!(out, r#","memory_mib":{}"#, memory.mib())?;
            }
        }
        if let Some(storage_mib) = self.storage_mib {
            write!(out, r#","storage_mib":{storage_mib}"#)?;
        }
        out.write_str("}")
    }
}

/// Reads a row of a lease again; `None`: it is of a sandbox at rest, or no row of ours.
#[must_use]
pub fn read_running(text: &str) -> Option<(Key, LeaseId, crate::domain::sample::Reading)> {
    let Sample { account, sandbox, seen } = read_fast(text)?;
    match seen {
        Seen::Running(lease, reading) => Some((Key { account, sandbox }, lease, reading)),
        Seen::AtRest(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Running, read_running};
    use crate::agent::sandbox::Key;
    use crate::domain::id::{AccountId, LeaseId, SandboxId};
    use crate::domain::time::Timestamp;
    use crate::domain::units::MebiBytes;
    use crate::wire::sample::read_fast;

    #[test]
    fn a_row_is_what_the_server_reads() {
        let key = Key { account: AccountId::parse("acme").unwrap(), sandbox: SandboxId::parse("s-1").unwrap() };
        let at = Timestamp::from_ms(1_777_777_777_123).unwrap();
        let running = Running {
            lease: LeaseId::parse("l-1").unwrap(),
            cpu_usage_us: 5,
            epoch: 9,
            memory: MebiBytes::new(512),
            baseline: false,
        };
        let row = Row { key: key.clone(), at, running: Some(running), storage_mib: Some(812) };
        assert_eq!(
            row.to_string(),
            r#"{"account":"acme","sandbox":"s-1","lease":"l-1","at":"2026-05-03T03:09:37.123Z","cpu_usage_usec":5,"epoch":9,"memory_mib":512,"storage_mib":812}"#
        );
        let (read_key, lease, reading) = read_running(&row.to_string()).unwrap();
        assert_eq!(
            (read_key, lease.as_str(), reading.at, reading.epoch, reading.cpu_usage_us),
            (key.clone(), "l-1", at, 9, 5)
        );
        let resting = Row { key, at, running: None, storage_mib: Some(0) };
        assert!(read_fast(&resting.to_string()).is_some() && read_running(&resting.to_string()).is_none());
    }
}
