//! Connections that remember what broke them.
//!
//! A machine that does not want our certificate says so only after the handshake, as an alert that the layers above turn
//! into "connection closed". So the first fault of each connection is kept here, where it is still precise, and an error
//! that comes out at the top is explained by it.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ambient::Clock;
use ambient::tls::{Connector, TlsIo};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use tonic::transport::{Channel, Endpoint};

use crate::PORT;

/// How long dialling may take. A caller that gives up does not end a dial, because the channel outlives the call; so a
/// machine that was down would keep the calls waiting after it came back.
pub(crate) const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// What broke a connection.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Tls(rustls::Error),
    Io(io::ErrorKind),
}

impl Fault {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => Self::Tls(tls.clone()),
            None => Self::Io(error.kind()),
        }
    }
}

/// The first fault of the newest connection of a channel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<Fault>>>);

impl Faults {
    pub(crate) fn last(&self) -> Option<Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn note(&self, error: &io::Error) {
        let mut fault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A refusal by TLS explains more than the broken pipe that may be noticed before it.
        if fault.is_none() || matches!((&*fault, Fault::of(error)), (Some(Fault::Io(_)), Fault::Tls(_))) {
            *fault = Some(Fault::of(error));
        }
    }
}

/// A channel that dials when it must, and again after a connection broke.
pub(crate) fn renewing(
    connector: Connector,
    clock: Clock,
    address: IpAddr,
) -> Result<(Channel, Faults), tonic::transport::Error> {
    let faults = Faults::default();
    let dialler = Dialler { connector, clock, address, faults: faults.clone() };
    Ok((endpoint(address)?.connect_with_connector_lazy(dialler), faults))
}

/// A channel over one connection. When that breaks, so does the channel.
pub(crate) async fn single(
    stream: TlsIo,
    address: IpAddr,
) -> Result<(Channel, Faults), tonic::transport::Error> {
    let faults = Faults::default();
    let once = Once(Some(Watched { stream, faults: faults.clone() }));
    Ok((endpoint(address)?.connect_with_connector(once).await?, faults))
}

fn endpoint(address: IpAddr) -> Result<Endpoint, tonic::transport::Error> {
    Endpoint::from_shared(match address {
        IpAddr::V4(address) => format!("https://{address}:{PORT}"),
        IpAddr::V6(address) => format!("https://[{address}]:{PORT}"),
    })
}

type Dialling = Pin<Box<dyn Future<Output = io::Result<Watched>> + Send>>;

#[derive(Clone)]
struct Dialler {
    connector: Connector,
    clock: Clock,
    address: IpAddr,
    faults: Faults,
}

impl tower::Service<Uri> for Dialler {
    type Response = Watched;
    type Error = io::Error;
    type Future = Dialling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Dialling {
        let Self { connector, clock, address, faults } = self.clone();
        Box::pin(async move {
            faults.begin();
            let dial = clock.timeout(DIAL_LIMIT, connector.connect(&address.to_string(), PORT)).await;
            let stream = dial.unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)));
            let stream = stream.inspect_err(|e| faults.note(e))?;
            Ok(Watched { stream, faults })
        })
    }
}

struct Once(Option<Watched>);

impl tower::Service<Uri> for Once {
    type Response = Watched;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Watched>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let gone =
            || io::Error::new(io::ErrorKind::NotConnected, "the one connection to this machine is gone");
        std::future::ready(self.0.take().ok_or_else(gone))
    }
}

/// A connection that notes its first fault.
struct Watched {
    stream: TlsIo,
    faults: Faults,
}

impl Watched {
    fn note<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result {
            self.faults.note(error);
        }
        result
    }
}

impl Read for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.note(result)
    }
}

impl Write for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
