//! The databases that engines run on, and the macro that makes every case run on each.

use std::any::Any;

use crate::postgres::Server;

/// Which database an engine runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// One file, in a folder of its own.
    Sqlite,
    /// A database of its own on a temporary server.
    Postgres,
}

/// An empty database; gone when it is dropped.
pub(crate) struct Database {
    /// As `--database` takes it.
    pub(crate) url: String,
    _keep: Box<dyn Any + Send>,
}

impl Database {
    /// One that somebody else keeps.
    pub(crate) fn at(url: String) -> Self {
        Self { url, _keep: Box::new(()) }
    }
}

impl Backend {
    /// A new empty database.
    pub(crate) async fn database(self) -> Database {
        match self {
            Self::Sqlite => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let url = format!("sqlite:{}", folder.path().join("x.db").display());
                Database { url, _keep: Box::new(folder) }
            }
            Self::Postgres => {
                let server = Server::shared();
                Database { url: server.database().await, _keep: Box::new(server) }
            }
        }
    }
}

/// Makes of each named `async fn CASE(backend: Backend)` the tests `CASE::sqlite` and `CASE::postgres`.
macro_rules! on_each_backend {
    ($($case:ident),+ $(,)?) => { $(
        mod $case {
            use crate::harness::Backend;

            #[tokio::test]
            async fn sqlite() {
                super::$case(Backend::Sqlite).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$case(Backend::Postgres).await;
            }
        }
    )+ };
}
pub(crate) use on_each_backend;
