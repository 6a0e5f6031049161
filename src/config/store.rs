//! `[store]`: where the ledger is kept.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::section::{OutOfBounds, bounded, section};
use crate::store::Options;

/// A database's address: `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/NAME`. It is never shown with its password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The whole address, password included: only to connect with.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A SQLite file.
    #[must_use]
    pub fn sqlite(path: &std::path::Path) -> Self {
        Self(format!("sqlite:{}", path.display()))
    }

    /// The file that it names, where it is one.
    #[must_use]
    pub fn file(&self) -> Option<&std::path::Path> {
        let path = self.0.strip_prefix("sqlite:")?.split('?').next()?;
        let path = path.strip_prefix("//").unwrap_or(path);
        (path != ":memory:" && !self.0.contains("mode=memory")).then(|| std::path::Path::new(path))
    }

    /// Whether it begins as an address of a database does.
    #[must_use]
    pub fn is_known(&self) -> bool {
        ["sqlite:", "postgres://", "postgresql://"]
            .iter()
            .any(|scheme| self.0.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
    }
}

impl FromStr for DatabaseUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.split_once("://"), self.0.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, place))) => write!(out, "{scheme}://...@{place}"),
            _ => out.write_str(&self.0),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

section! {
    /// The database.
    Store = "store" {
        /// `sqlite:PATH` or `postgres://...`.
        database: DatabaseUrl = DatabaseUrl("sqlite:runtab.db".to_owned()), "RUNTAB_DATABASE";
        /// A read replica of it for lists, costs and balances; empty: the database itself.
        read_database: DatabaseUrl = DatabaseUrl(String::new()), "RUNTAB_READ_DATABASE";
        /// Batches of samples that are written at once, accounts dealt out among them; each has two connections. PostgreSQL
        /// only: SQLite has one writer in all.
        sample_writers: i64 = 4, "RUNTAB_STORE_SAMPLE_WRITERS";
        /// Connections that read, beside those that write: one slow report should not hold up others.
        read_connections: i64 = 4, "RUNTAB_STORE_READ_CONNECTIONS";
        /// Longest wait for a connection, a lock or a statement, in milliseconds; then the batch is undone and 503.
        wait_ms_max: i64 = 5_000, "RUNTAB_STORE_WAIT_MS_MAX";
    }
}

impl Store {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        if !self.database.is_known() {
            let detail = format!("{:?} is neither sqlite:PATH nor postgres://...", self.database);
            return Err(OutOfBounds { key: "database", detail });
        }
        if !self.read_database.0.is_empty() && !self.read_database.is_known() {
            let detail = format!("{:?} is neither sqlite:PATH nor postgres://...", self.read_database);
            return Err(OutOfBounds { key: "read_database", detail });
        }
        bounded("sample_writers", self.sample_writers, 1, 64)?;
        bounded("read_connections", self.read_connections, 1, 1_000)?;
        bounded("wait_ms_max", self.wait_ms_max, 10, 600_000)
    }

    /// Longest time that a batch may take, in milliseconds: twice the longest wait, so that what was lost before its
    /// commit can be tried again.
    #[must_use]
    pub fn batch_ms_max(&self) -> u64 {
        self.wait_ms_max.unsigned_abs().saturating_mul(2)
    }

    /// The read replica, if there is one.
    #[must_use]
    pub fn reports(&self) -> Option<&DatabaseUrl> {
        Some(&self.read_database).filter(|url| !url.0.is_empty())
    }

    /// The bounds as the store takes them.
    #[must_use]
    pub fn options(&self) -> Options {
        let connections = |count: i64| u32::try_from(count).unwrap_or(1);
        Options {
            meters_max: connections(self.sample_writers),
            readers_max: connections(self.read_connections),
            wait_ms_max: self.wait_ms_max.unsigned_abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseUrl;

    #[test]
    fn a_password_is_never_shown() {
        let url: DatabaseUrl = "postgres://me:p@ss@db.example/runtab".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "postgres://...@db.example/runtab postgres://...@db.example/runtab");
        let file: DatabaseUrl = "sqlite:/tmp/x.db".parse().unwrap();
        assert_eq!(file.to_string(), "sqlite:/tmp/x.db");
    }
}
