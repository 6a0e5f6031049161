//! `[store]`: where the ledger is kept.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::section::{OutOfBounds, bounded, section};

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

    fn is_known(&self) -> bool {
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
        /// Connections that read, beside those that write. A dashboard's read should not wait for another's.
        read_connections: i64 = 8, "RUNTAB_STORE_READ_CONNECTIONS";
        /// Longest wait for a free connection, in milliseconds; then the answer is 503.
        acquire_timeout_ms: i64 = 5_000, "RUNTAB_STORE_ACQUIRE_TIMEOUT_MS";
        /// Longest time of one statement or lock, in milliseconds; then the batch is undone and answered 503.
        statement_timeout_ms: i64 = 10_000, "RUNTAB_STORE_STATEMENT_TIMEOUT_MS";
    }
}

impl Store {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        if !self.database.is_known() {
            let detail = format!("{:?} is neither sqlite:PATH nor postgres://...", self.database);
            return Err(OutOfBounds { key: "database", detail });
        }
        bounded("read_connections", self.read_connections, 1, 1_000)?;
        bounded("acquire_timeout_ms", self.acquire_timeout_ms, 10, 600_000)?;
        bounded("statement_timeout_ms", self.statement_timeout_ms, 10, 600_000)
    }

    /// [`Store::read_connections`] as a count.
    #[must_use]
    pub fn read_pool(&self) -> u32 {
        u32::try_from(self.read_connections).unwrap_or(1)
    }

    /// [`Store::acquire_timeout_ms`] as a duration.
    #[must_use]
    pub fn acquire_timeout(&self) -> Duration {
        Duration::from_millis(self.acquire_timeout_ms.unsigned_abs())
    }

    /// [`Store::statement_timeout_ms`] as a duration.
    #[must_use]
    pub fn statement_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms.unsigned_abs())
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
