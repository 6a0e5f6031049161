//! A PostgreSQL server for tests: that of `RUNTAB_TEST_POSTGRES` (an administrator's `postgres://` address without a
//! database), or one of our own in a temporary directory, shared by the tests of this process and stopped with the
//! last of them.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// Longest wait for a new server, in tenths of a second: two minutes on a busy machine.
const START_TENTHS_MAX: u32 = 1_200;

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A running server.
pub(crate) struct Server {
    /// `postgres://user@host:port`, without a database.
    address: String,
    own: Option<(Child, tempfile::TempDir)>,
}

impl Server {
    /// The server that tests of this process share; started if it does not run.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(match std::env::var("RUNTAB_TEST_POSTGRES") {
            Ok(address) => Self { address: address.trim_end_matches('/').to_owned(), own: None },
            Err(_) => Self::start(),
        });
        *shared = Arc::downgrade(&server);
        server
    }

    /// A server of the test's own, to be stopped and started again.
    pub(crate) fn own() -> Self {
        Self::start()
    }

    /// Its `host:port`.
    pub(crate) fn host(&self) -> String {
        self.address.split_once('@').map_or_else(String::new, |(_, host)| host.to_owned())
    }

    /// Stops it as an administrator does in a hurry: every session is ended.
    pub(crate) fn stop(&mut self) {
        if let Some((child, _)) = &mut self.own {
            // SIGINT is PostgreSQL's fast shutdown.
            let pid = rustix::process::Pid::from_child(child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).ok();
            child.wait().ok();
        }
    }

    /// Starts it again after [`Server::stop`], on the same port; returns when it answers.
    pub(crate) async fn start_again(&mut self) {
        let port = self.address.rsplit_once(':').unwrap().1.to_owned();
        let (child, home) = self.own.as_mut().unwrap();
        *child = run(&home.path().join("data"), &port);
        self.connect().await;
    }

    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let user = other_user();
        if let Some((user, group)) = user {
            chown(home.path(), Some(user), Some(group)).unwrap();
        }
        let init = ["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"];
        let made = command("initdb", user).arg("-D").arg(&data).args(init).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = run(&data, &port.to_string());
        Self { address: format!("postgres://postgres@127.0.0.1:{port}"), own: Some((child, home)) }
    }

    async fn connect(&self) -> PgConnection {
        let address = format!("{}/postgres", self.address);
        for _ in 0..START_TENTHS_MAX {
            if let Ok(connection) = PgConnection::connect(&address).await {
                return connection;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        PgConnection::connect(&address).await.unwrap()
    }

    /// The address of a new, empty database.
    pub(crate) async fn database(&self) -> String {
        let number = DATABASES.fetch_add(1, Ordering::SeqCst);
        let name = format!("runtab_{}_{number}", std::process::id());
        let mut connection = self.connect().await;
        connection.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await.unwrap();
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
        format!("{}/{name}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(data: &Path, port: &str) -> Child {
    let mut server = command("postgres", other_user());
    server.arg("-D").arg(data).args(["-p", port]).stdout(Stdio::null()).stderr(Stdio::null());
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "fsync=off",
        "full_page_writes=off",
        "synchronous_commit=off",
        "shared_buffers=32MB",
        "max_connections=100",
    ] {
        server.args(["-c", setting]);
    }
    server.spawn().unwrap()
}

/// User and group to run the server as, when this is root: PostgreSQL refuses to run as root.
pub(crate) fn other_user() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user to run PostgreSQL as"))
}

/// A program of the newest PostgreSQL installed, else whatever the path finds.
pub(crate) fn command(program: &str, user: Option<(u32, u32)>) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(program)).collect();
    found.retain(|path| path.exists());
    found.sort();
    let mut command = Command::new(found.last().map_or(Path::new(program), PathBuf::as_path));
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command.current_dir("/");
    command
}
