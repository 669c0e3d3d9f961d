//! HTTP/1.1 over TLS on one stream, with the lab's clock behind its timeouts.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ambient::{Clock, Stream};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsAcceptor;

/// A request that is not answered: the connection is cut.
#[derive(Debug, thiserror::Error)]
#[error("the connection was cut on purpose")]
pub(crate) struct Cut;

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// What every server here answers with.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Serves requests on `stream` until either side closes it or it becomes something else; closes it itself after `idle`
/// without a request.
pub(crate) async fn serve<H, F>(
    clock: Clock,
    tls: Arc<rustls::ServerConfig>,
    stream: Stream,
    idle: Duration,
    handle: H,
) where
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Answer, Cut>>,
{
    // A failed handshake or a broken connection is the client's affair: it has seen the same error.
    let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else { return };
    let mut builder = http1::Builder::new();
    builder.timer(ClockTimer(clock)).header_read_timeout(idle).title_case_headers(true);
    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(handle)).with_upgrades().await;
}

/// hyper's timers on the lab's clock.
#[derive(Debug, Clone)]
struct ClockTimer(Clock);

impl Timer for ClockTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let clock = self.0.clone();
        Box::pin(ClockSleep(Box::pin(async move { clock.sleep(duration).await })))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.now()))
    }

    fn now(&self) -> std::time::Instant {
        tokio_now()
    }
}

/// The runtime's time, which stands still where a test paused it. Only differences of it are used.
#[expect(clippy::disallowed_methods, reason = "hyper's timers are told in instants of the runtime")]
fn tokio_now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

struct ClockSleep(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Future for ClockSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for ClockSleep {}
