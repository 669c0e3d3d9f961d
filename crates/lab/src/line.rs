//! One connection to a machine, and what goes wrong on it: the faults that were ordered meet its calls here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

use crate::faults::Wire;
use crate::shared::Shared;

/// How long the beginning of an answer that breaks off is given to leave.
const TO_LEAVE: Duration = Duration::from_millis(50);

/// One connection to a machine, and what becomes of the calls on it.
#[derive(Clone)]
pub(crate) struct Line {
    shared: Arc<Shared>,
    /// Address and port, as they were dialled.
    at: Arc<str>,
    /// Whose connection it is.
    origin: Arc<str>,
    /// Broken on purpose.
    broken: CancellationToken,
    /// What it leads to is about to end.
    ending: CancellationToken,
}

impl Line {
    pub(crate) fn new(shared: Arc<Shared>, at: &str, origin: &Arc<str>) -> Self {
        Self {
            shared,
            at: at.into(),
            origin: origin.clone(),
            broken: CancellationToken::new(),
            ending: CancellationToken::new(),
        }
    }

    /// Whose connection it is.
    pub(crate) fn origin(&self) -> &Arc<str> {
        &self.origin
    }

    /// Cancelled when what it leads to ends: answers may still leave, and nothing new is started.
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// What is to go wrong with the connection itself.
    pub(crate) fn dialled(&self) -> Option<Wire> {
        self.shared.with_quiet(|world| world.faults.meet_wire("DIAL", &self.at))
    }

    /// Serves the connection until it ends or breaks.
    pub(crate) async fn serve(&self, serving: impl Future) {
        tokio::select! {
            biased;
            () = self.broken.cancelled() => {}
            _ = serving => {}
        }
    }

    /// Lets one call be answered, unless something is to go wrong with it.
    pub(crate) async fn call<B>(
        &self,
        method: &str,
        path: &str,
        answer: impl Future<Output = Response<B>>,
    ) -> Response<Breaking<B>> {
        let place = format!("{}{path}", self.at);
        match self.shared.with_quiet(|world| world.faults.meet_wire(method, &place)) {
            None => answer.await.map(Breaking::not),
            Some(Wire::Refused | Wire::Reset) => self.hang_up().await,
            Some(Wire::Lost) => {
                answer.await;
                self.hang_up().await
            }
            Some(Wire::Cut) => answer.await.map(|body| Breaking::soon(body, self.clone())),
            Some(Wire::BlackHole) => std::future::pending().await,
            Some(Wire::Slow(by)) => {
                let answer = answer.await;
                self.shared.clock().sleep(by).await;
                answer.map(Breaking::not)
            }
        }
    }

    /// Breaks the connection; a client that waits for an answer on it is gone with it.
    async fn hang_up<T>(&self) -> T {
        self.broken.cancel();
        std::future::pending().await
    }
}

/// The body of an answer, which may break off after its first half.
pub(crate) struct Breaking<B> {
    body: B,
    breaks: Option<Break>,
}

struct Break {
    line: Line,
    /// Set once something has left.
    leaving: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<B> Breaking<B> {
    fn not(body: B) -> Self {
        Self { body, breaks: None }
    }

    fn soon(body: B, line: Line) -> Self {
        Self { body, breaks: Some(Break { line, leaving: None }) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Breaking<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let Some(breaks) = &mut this.breaks else { return Pin::new(&mut this.body).poll_frame(cx) };
        if let Some(leaving) = &mut breaks.leaving {
            ready!(leaving.as_mut().poll(cx));
            breaks.line.broken.cancel();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let clock = breaks.line.shared.clock().clone();
        breaks.leaving = Some(Box::pin(async move { clock.sleep(TO_LEAVE).await }));
        let half = match frame {
            Some(Ok(frame)) => frame.into_data().ok().map(|mut data| data.split_to(data.len() / 2)),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => None,
        };
        match half {
            Some(half) => Poll::Ready(Some(Ok(Frame::data(half)))),
            // Nothing but an end would have come: it does not.
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.breaks.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
