//! Serving on a listener, and stopping: accepted requests are finished, up to a hard deadline.

use std::io;
use std::time::Duration;

use axum::Router;
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
    serve_routes(listener, router(state), shutdown, drain).await
}

async fn serve_routes(
    listener: TcpListener,
    routes: Router,
    shutdown: CancellationToken,
    drain: Duration,
) -> io::Result<()> {
    // Answers are small and complete: waiting to fill a packet would only delay them.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY can't be set");
        }
    });
    // As a service that makes services, connections share the routes; a bare router would be copied for each.
    let server =
        axum::serve(listener, routes.into_make_service()).with_graceful_shutdown(shutdown.clone().cancelled_owned());
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
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;
    use tokio_util::sync::CancellationToken;

    use super::serve_routes;

    /// A request whose handler runs, and waits, while the server is told to stop.
    struct Stopped {
        stream: TcpStream,
        finish: Arc<Notify>,
        server: tokio::task::JoinHandle<std::io::Result<()>>,
    }

    async fn stopped_amid_a_request(drain: Duration) -> Stopped {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (Arc::clone(&begun), Arc::clone(&finish));
        let handler = async move || {
            tell.notify_one();
            wait.notified().await;
            "done"
        };
        let routes = Router::new().route("/", get(handler));
        let server = tokio::spawn(serve_routes(listener, routes, shutdown.clone(), drain));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        begun.notified().await;
        shutdown.cancel();
        Stopped { stream, finish, server }
    }

    #[tokio::test]
    async fn a_request_that_was_begun_is_finished() {
        let mut stopped = stopped_amid_a_request(Duration::from_mins(1)).await;
        stopped.finish.notify_one();
        let mut answer = String::new();
        stopped.stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("done"), "{answer}");
        stopped.server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_that_never_ends_is_cut_off_at_the_deadline() {
        let stopped = stopped_amid_a_request(Duration::from_millis(1)).await;
        stopped.server.await.unwrap().unwrap();
    }
}
