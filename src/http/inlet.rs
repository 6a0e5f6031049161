//! The body of a request, and whether all of it was read.
//!
//! An answer that is given before that (no token, no place, too large) leaves the rest on the connection, which can't be
//! used again: the server closes it, and says so, or a caller would send its next request into the void
//! ([RFC 9112, 9.6](https://www.rfc-editor.org/rfc/rfc9112#section-9.6)).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http_body::{Body as _, Frame, SizeHint};

/// Whether something of a request's body was not read; a request without one has nothing.
pub(super) struct Rest(Option<Arc<AtomicBool>>);

impl Rest {
    /// Whether there is any.
    pub(super) fn is_left(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed))
    }
}

/// Watches the body of a request.
pub(super) fn watched(request: Request) -> (Request, Rest) {
    if request.body().is_end_stream() {
        return (request, Rest(None));
    }
    let left = Arc::new(AtomicBool::new(true));
    let rest = Rest(Some(Arc::clone(&left)));
    (request.map(|body| Body::new(Watched { body, left })), rest)
}

struct Watched {
    body: Body,
    left: Arc<AtomicBool>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.left.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
