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
