//! TLS over a [`Net`], as the connector that hyper and tonic want.
//!
//! What to trust is the caller's business: it brings a finished [`rustls::ClientConfig`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio_rustls::client::TlsStream;

use crate::{Net, Stream};

/// Dials the host and port of a URI and speaks TLS with it. A tower service, so hyper-util and tonic take it as it is.
#[derive(Debug, Clone)]
pub struct Connector {
    net: Net,
    config: Arc<ClientConfig>,
    default_port: u16,
}

impl Connector {
    /// A connector that uses `default_port` where the URI names none.
    #[must_use]
    pub fn new(net: Net, config: Arc<ClientConfig>, default_port: u16) -> Self {
        Self { net, config, default_port }
    }

    /// Opens one connection to `host` and finishes the handshake.
    ///
    /// # Errors
    ///
    /// What the network says, or what either side found wrong with the other's certificate (a [`rustls::Error`] inside).
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TlsIo> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let stream = self.net.dial(host, port).await?;
        let stream = tokio_rustls::TlsConnector::from(self.config.clone()).connect(name, stream).await?;
        Ok(TlsIo(TokioIo::new(stream)))
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TlsIo;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsIo>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let host = uri
                .host()
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no host in the address"))?;
            this.connect(host, uri.port_u16().unwrap_or(this.default_port)).await
        })
    }
}

/// A TLS connection in the shape that hyper wants.
pub struct TlsIo(TokioIo<TlsStream<Stream>>);

impl TlsIo {
    /// The certificate that the other side showed, in DER.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.0.inner().get_ref().1.peer_certificates().and_then(|c| c.first()).map(AsRef::as_ref)
    }
}

impl std::fmt::Debug for TlsIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsIo")
    }
}

impl Connection for TlsIo {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.0.inner().get_ref().1.alpn_protocol() == Some(b"h2") {
            connected.negotiated_h2()
        } else {
            connected
        }
    }
}

impl Read for TlsIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for TlsIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
