//! A TCP proxy before a database: it passes, hangs, delays, cuts, half-closes, or loses the answer of a commit.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What it does with connections, those that are open too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Hands everything on.
    Pass,
    /// Takes everything and hands nothing on, while connections stay open.
    Hang,
    /// Hands each piece on so much later.
    Delay(Duration),
    /// Closes every connection.
    Cut,
    /// Tells clients that nothing more comes, while it goes on taking what they send.
    HalfClose,
    /// Hands on the next commit, cuts that connection when its answer comes, and passes from then on.
    LoseCommit,
}

/// A running proxy; it ends with the test.
pub(crate) struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    target: watch::Sender<String>,
}

impl Proxy {
    /// A proxy before `host:port`.
    pub(crate) async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (mode, modes) = watch::channel(Mode::Pass);
        let (target, targets) = watch::channel(target);
        let setter = mode.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = targets.borrow().clone();
                if let Ok(server) = TcpStream::connect(target).await {
                    client.set_nodelay(true).ok();
                    server.set_nodelay(true).ok();
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let (losing, lost) = watch::channel(false);
                    tokio::spawn(upwards(from_client, to_server, modes.clone(), losing));
                    tokio::spawn(downwards(from_server, to_client, modes.clone(), lost, setter.clone()));
                }
            }
        });
        Self { address, mode, target }
    }

    /// The database's address through the proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        let (start, rest) = url.split_once('@').expect("a user");
        let (_, name) = rest.split_once('/').expect("a database");
        format!("{start}@{}/{name}", self.address)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// New connections go to another `host:port` from now on.
    pub(crate) fn retarget(&self, target: String) {
        self.target.send_replace(target);
    }

    /// From now on.
    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

/// Waits until a piece may be handed on; `false`: never.
async fn may_pass(modes: &mut watch::Receiver<Mode>) -> bool {
    loop {
        let mode = *modes.borrow_and_update();
        match mode {
            Mode::Pass | Mode::HalfClose | Mode::LoseCommit => return true,
            Mode::Delay(time) => {
                tokio::time::sleep(time).await;
                return true;
            }
            Mode::Cut => return false,
            Mode::Hang => {}
        }
        if modes.changed().await.is_err() {
            return false;
        }
    }
}

async fn upwards(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    losing: watch::Sender<bool>,
) {
    let mut piece = vec![0; 65_536];
    loop {
        let read = tokio::select! {
            read = from.read(&mut piece) => read.unwrap_or(0),
            // Nothing to lose any more: the other direction was cut.
            () = losing.closed() => return,
            _ = modes.changed() => {
                if *modes.borrow() == Mode::Cut {
                    return;
                }
                continue;
            }
        };
        if read == 0 || !may_pass(&mut modes).await {
            return;
        }
        if *modes.borrow() == Mode::LoseCommit && piece[..read].windows(6).any(|word| word == b"COMMIT") {
            losing.send_replace(true);
        }
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}

async fn downwards(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    lost: watch::Receiver<bool>,
    setter: watch::Sender<Mode>,
) {
    let mut piece = vec![0; 65_536];
    loop {
        if *modes.borrow_and_update() == Mode::HalfClose {
            to.shutdown().await.ok();
            // Stay, so that what the client sends is still taken.
            while modes.changed().await.is_ok() && *modes.borrow() == Mode::HalfClose {}
            return;
        }
        let read = tokio::select! {
            read = from.read(&mut piece) => read.unwrap_or(0),
            _ = modes.changed() => {
                if *modes.borrow() == Mode::Cut {
                    return;
                }
                continue;
            }
        };
        if *lost.borrow() {
            setter.send_replace(Mode::Pass);
            return;
        }
        if read == 0 || !may_pass(&mut modes).await || to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}
