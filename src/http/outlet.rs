//! A body that comes piece by piece. It is whole only if its sender says so: what breaks off breaks the answer off, so
//! that nobody takes what came for all of it. And it stays at its end however often it is asked, which compression does.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::Frame;
use tokio::sync::mpsc;

/// How long a reader may take for a piece before the rest is given up.
const WAIT: Duration = Duration::from_mins(1);

/// The sending end.
pub(super) struct Outlet(mpsc::Sender<Option<Bytes>>);

/// Makes a body of which at most `pieces_max` pieces wait for the reader.
pub(super) fn outlet(pieces_max: usize) -> (Outlet, Body) {
    let (out, rest) = mpsc::channel(pieces_max);
    (Outlet(out), Body::new(Pieces(Some(rest))))
}

impl Outlet {
    /// Sends a piece; `false` when the reader went away or takes too long.
    pub(super) async fn send(&self, piece: Bytes) -> bool {
        self.pass_on(Some(piece)).await
    }

    /// Says that this was all; `false` as before.
    pub(super) async fn end(self) -> bool {
        self.pass_on(None).await
    }

    async fn pass_on(&self, piece: Option<Bytes>) -> bool {
        matches!(tokio::time::timeout(WAIT, self.0.send(piece)).await, Ok(Ok(())))
    }
}

/// What comes, until its end.
struct Pieces(Option<mpsc::Receiver<Option<Bytes>>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(rest) = &mut self.0 else { return Poll::Ready(None) };
        let came = ready!(rest.poll_recv(context));
        if let Some(Some(piece)) = came {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        self.0 = None;
        Poll::Ready(came.is_none().then(|| Err(io::Error::other("the answer broke off before its end"))))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use http_body_util::BodyExt as _;

    use super::outlet;

    #[tokio::test]
    async fn pieces_come_in_order_and_the_end_stays_the_end() {
        let (out, mut body) = outlet(2);
        assert!(out.send(Bytes::from_static(b"one")).await && out.send(Bytes::from_static(b"two")).await);
        for piece in ["one", "two"] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), piece);
        }
        assert!(out.end().await);
        assert!(body.frame().await.is_none() && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn what_is_not_ended_breaks_off() {
        let (out, mut body) = outlet(1);
        assert!(out.send(Bytes::from_static(b"one")).await);
        drop(out);
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
        let (out, body) = outlet(1);
        drop(body);
        assert!(!out.send(Bytes::new()).await);
    }
}
