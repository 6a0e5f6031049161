//! A PostgreSQL of several servers: which one to write to, and how it is found again.
//!
//! `postgres://USER:PASSWORD@HOST1:PORT1,HOST2:PORT2/NAME?target_session_attrs=read-write` names them all. Connections
//! go to the first that takes writes (without `target_session_attrs`, or with `any`: to the first that answers). One
//! connection asks it twice a second; when it no longer answers, or no longer takes writes, the others are asked, and
//! new connections go to the one that does. A connection is checked before each use, so none to a server that became
//! a standby is used on.
//!
//! Two servers that both take writes are beyond what a client can see: synchronous replication keeps the old one from
//! committing alone, and whoever promotes a standby fences the old primary.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{Connection, Row};
use tokio::time::timeout;

use super::super::error::StoreError;
use super::failed;

/// How often the server that is written to is asked.
const ASKED_EVERY: Duration = Duration::from_millis(500);
/// How long a server may take to answer before it counts as gone: a failover should be found within seconds.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Most servers of one address.
const HOSTS_MAX: usize = 16;

/// The servers of an address, in its order.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    each: Vec<PgConnectOptions>,
    /// Only one that takes writes will do.
    read_write: bool,
}

impl Hosts {
    /// Reads an address of one server or several; `configure` sets what is the same for all.
    pub(super) fn parse(
        url: &str,
        configure: impl Fn(PgConnectOptions) -> PgConnectOptions,
    ) -> Result<Self, StoreError> {
        let bad = |detail: &str| StoreError::Unavailable(detail.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("an address is postgres://..."))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
        let mut read_write = false;
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("target_session_attrs", "read-write" | "primary")) => read_write = true,
                Some(("target_session_attrs", "any")) => {}
                Some(("target_session_attrs", _)) => {
                    return Err(bad("target_session_attrs is read-write, primary or any"));
                }
                _ => kept.push(pair),
            }
        }
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let mut each = Vec::new();
        for host in hosts.split(',').take(HOSTS_MAX) {
            let url = format!("{scheme}://{user}{host}/{name}?{}", kept.join("&"));
            each.push(configure(PgConnectOptions::from_str(&url).map_err(|error| failed(&error))?));
        }
        Ok(Self { each, read_write })
    }

    /// Whether connections have to take writes.
    pub(super) fn read_write(&self) -> bool {
        self.read_write
    }

    /// Whether a server has to be looked for.
    pub(super) fn several(&self) -> bool {
        self.each.len() > 1
    }

    /// The first server, found or not.
    pub(super) fn first(&self) -> Result<PgConnectOptions, StoreError> {
        self.each.first().cloned().ok_or_else(|| StoreError::Unavailable("an address without a host".to_owned()))
    }

    /// The first server that will do, with a connection to it.
    async fn find(&self) -> Option<(&PgConnectOptions, PgConnection)> {
        for options in &self.each {
            let Ok(Ok(mut connection)) = timeout(ANSWER_MAX, PgConnection::connect_with(options)).await else {
                continue;
            };
            if self.will_do(&mut connection).await {
                return Some((options, connection));
            }
        }
        None
    }

    async fn will_do(&self, connection: &mut PgConnection) -> bool {
        let asked = timeout(ANSWER_MAX, takes_writes(connection)).await;
        matches!(asked, Ok(Ok(takes_writes)) if takes_writes || !self.read_write)
    }

    /// The server to begin with; the first one when none will do yet, so that connecting says why.
    pub(super) async fn begin(&self) -> Result<PgConnectOptions, StoreError> {
        match self.find().await {
            Some((options, connection)) => {
                connection.close().await.ok();
                Ok(options.clone())
            }
            None => self.first(),
        }
    }

    /// Keeps pools connecting to the server that will do, until they are closed.
    pub(super) async fn watch(self, pools: Vec<PgPool>) {
        let Some(first) = pools.first() else { return };
        let closed = first.close_event();
        let mut closed = std::pin::pin!(closed);
        let mut watched: Option<PgConnection> = None;
        loop {
            tokio::select! {
                () = &mut closed => return,
                () = tokio::time::sleep(ASKED_EVERY) => {}
            }
            if let Some(connection) = &mut watched
                && self.will_do(connection).await
            {
                continue;
            }
            watched = None;
            let Some((options, connection)) = self.find().await else { continue };
            tracing::info!(host = options.get_host(), port = options.get_port(), "writing to this database server");
            for pool in &pools {
                pool.set_connect_options(options.clone());
            }
            watched = Some(connection);
        }
    }
}

/// Whether the server takes writes on this connection: no standby, and not set to read only.
pub(super) async fn takes_writes(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::raw_sql("SHOW transaction_read_only").fetch_one(connection).await?;
    Ok(row.try_get::<&str, _>(0)? == "off")
}

#[cfg(test)]
mod tests {
    use super::Hosts;

    fn places(url: &str) -> Vec<(String, u16, bool)> {
        let hosts = Hosts::parse(url, |options| options).unwrap();
        hosts.each.iter().map(|one| (one.get_host().to_owned(), one.get_port(), hosts.read_write)).collect()
    }

    #[test]
    fn an_address_names_one_server_or_several() {
        assert_eq!(places("postgres://me@db.example/runtab"), [("db.example".to_owned(), 5_432, false)]);
        assert_eq!(
            places("postgres://me:p%40ss@h1:1,h2/runtab?sslmode=disable&target_session_attrs=read-write"),
            [("h1".to_owned(), 1, true), ("h2".to_owned(), 5_432, true)]
        );
        let hosts = Hosts::parse("postgres://me:p%2Css@h1,h2/tab?target_session_attrs=any", |one| one).unwrap();
        assert!(hosts.several() && hosts.each.iter().all(|one| one.get_database() == Some("tab")));
        assert!(Hosts::parse("postgres://h1,h2/x?target_session_attrs=standby", |one| one).is_err());
    }
}
