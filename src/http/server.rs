//! Serving on a listener, and stopping: accepted requests are finished, up to a hard deadline.

use std::io;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{AppState, router};

/// Serves until `shutdown` is cancelled; then takes no more connections, finishes the requests that it has, and
/// returns when they are done, at the latest after `drain`.
pub async fn serve(
    listener: TcpListener,
    state: AppState,
    shutdown: CancellationToken,
    drain: Duration,
) -> io::Result<()> {
    // Answers are small and complete: waiting to fill a packet would only delay them.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY can't be set");
        }
    });
    let server = axum::serve(listener, router(state)).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        result = server => result,
        () = deadline => {
            tracing::warn!(drain_ms = drain.as_millis(), "requests that were still running have been cut off");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    use super::serve;
    use crate::http::tests::state;

    /// Sends the head of a request whose body is still to come, and stops the server.
    async fn stopped_amid_a_request(drain: Duration) -> (TcpStream, tokio::task::JoinHandle<std::io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(serve(listener, state(), shutdown.clone(), drain));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        shutdown.cancel();
        tokio::time::sleep(Duration::from_millis(50)).await;
        (stream, server)
    }

    #[tokio::test]
    async fn a_request_that_was_begun_is_finished() {
        let (mut stream, server) = stopped_amid_a_request(Duration::from_secs(10)).await;
        stream.write_all(b"\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"), "{answer}");
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_that_never_ends_is_cut_off_at_the_deadline() {
        let (_stream, server) = stopped_amid_a_request(Duration::from_millis(100)).await;
        tokio::time::timeout(Duration::from_secs(5), server).await.unwrap().unwrap().unwrap();
    }
}
