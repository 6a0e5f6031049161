//! Serving HTTP/1 on a listener, and stopping: accepted requests are finished, up to a hard deadline.
//!
//! A connection is not read while its request is being answered: looking whether the caller is still there would cost a
//! system call and a buffer for each. So a caller that has sent all it had and closed its side is answered, and what one
//! asked for that goes away is carried out all the same, within the time that every request has and in the place that it
//! takes among the requests in flight. That it is gone shows when the answer is written; a long one stops there.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use super::{AppState, router};

/// How long nothing is accepted when no connection can be: mostly for want of file descriptors, which others give back.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is cancelled; then takes no more connections, finishes the requests that it has, and
/// returns when they are done, at the latest after `drain`.
pub async fn serve(listener: TcpListener, state: AppState, shutdown: CancellationToken, drain: Duration) {
    serve_routes(listener, router(state), shutdown, drain).await;
}

async fn serve_routes(listener: TcpListener, routes: Router, shutdown: CancellationToken, drain: Duration) {
    let mut http = http1::Builder::new();
    http.half_close(true);
    let connections = TaskTracker::new();
    while let Some(stream) = shutdown.run_until_cancelled(accepted(&listener)).await {
        // A token each: they are looked at whenever a connection goes on, and one for all would be fought over.
        connections.spawn(connection(http.clone(), stream, routes.clone(), shutdown.child_token()));
    }
    drop(listener);
    connections.close();
    if timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!(drain_ms = drain.as_millis(), "requests that were still running have been cut off");
    }
}

/// The next connection.
async fn accepted(listener: &TcpListener) -> TcpStream {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // It was gone before it was taken.
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers what comes on a connection until it ends, or is told to after the request that it has.
async fn connection(http: http1::Builder, stream: TcpStream, routes: Router, shutdown: CancellationToken) {
    // Answers are small and complete: waiting to fill a packet would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY can't be set");
    }
    let service = service_fn(|request: Request<Incoming>| routes.clone().call(request.map(Body::new)));
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke off");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use axum::body::Bytes;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;

    use super::serve_routes;
    use crate::http::outlet::outlet;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// A request whose handler runs, and waits, while the server is told to stop.
    struct Stopped {
        stream: TcpStream,
        finish: Arc<Notify>,
        server: JoinHandle<()>,
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
        stream.write_all(REQUEST).await.unwrap();
        begun.notified().await;
        shutdown.cancel();
        Stopped { stream, finish, server }
    }

    /// A server of routes, and a connection to it. It runs as long as the test.
    async fn connected(routes: Router) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_routes(listener, routes, CancellationToken::new(), Duration::ZERO));
        TcpStream::connect(address).await.unwrap()
    }

    /// A request whose caller is gone, or has closed its side, while it is answered.
    struct Left {
        stream: Option<TcpStream>,
        finish: Arc<Notify>,
        finished: Arc<Notify>,
    }

    async fn left_amid_a_request(wholly: bool) -> Left {
        let notify = || Arc::new(Notify::new());
        let (begun, finish, finished) = (notify(), notify(), notify());
        let (tell, wait, done) = (Arc::clone(&begun), Arc::clone(&finish), Arc::clone(&finished));
        let handler = async move || {
            tell.notify_one();
            wait.notified().await;
            done.notify_one();
            "done"
        };
        let mut stream = connected(Router::new().route("/", get(handler))).await;
        stream.write_all(REQUEST).await.unwrap();
        begun.notified().await;
        stream.shutdown().await.unwrap();
        Left { stream: (!wholly).then_some(stream), finish, finished }
    }

    #[tokio::test]
    async fn who_has_closed_its_side_is_answered() {
        let left = left_amid_a_request(false).await;
        left.finish.notify_one();
        let mut answer = String::new();
        left.stream.unwrap().read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
    }

    #[tokio::test]
    async fn what_was_asked_for_by_one_who_is_gone_is_carried_out() {
        let left = left_amid_a_request(true).await;
        left.finish.notify_one();
        left.finished.notified().await;
    }

    #[tokio::test]
    async fn a_connection_that_rests_ends_with_its_caller() {
        let mut stream = connected(Router::new().route("/", get(async || "done"))).await;
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"done") {
            stream.read_buf(&mut answer).await.unwrap();
        }
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_long_answer_stops_when_its_caller_is_gone() {
        let stopped = Arc::new(Notify::new());
        let tell = Arc::clone(&stopped);
        let handler = async move || {
            let (out, body) = outlet(1);
            tokio::spawn(async move {
                while out.send(Bytes::from_static(&[0; 1_024])).await {}
                tell.notify_one();
            });
            body
        };
        let mut stream = connected(Router::new().route("/", get(handler))).await;
        stream.write_all(REQUEST).await.unwrap();
        stream.read_u8().await.unwrap();
        drop(stream);
        stopped.notified().await;
    }

    #[tokio::test]
    async fn a_request_that_was_begun_is_finished() {
        let mut stopped = stopped_amid_a_request(Duration::from_mins(1)).await;
        stopped.finish.notify_one();
        let mut answer = String::new();
        stopped.stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("done"), "{answer}");
        stopped.server.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_that_never_ends_is_cut_off_at_the_deadline() {
        let stopped = stopped_amid_a_request(Duration::from_millis(1)).await;
        stopped.server.await.unwrap();
    }
}
