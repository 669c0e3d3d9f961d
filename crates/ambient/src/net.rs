//! Connections: a host and a port in, a stream of bytes out.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A way to reach hosts. The real one is TCP; the lab's is a table of in-memory pipes.
pub trait Dial: Send + Sync + 'static {
    /// Opens a connection to `port` of `host`, which is a name or an address without brackets.
    fn dial(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>>;
}

/// The network, as far as this program can see it. Cheap to clone.
#[derive(Clone)]
pub struct Net(Arc<dyn Dial>);

impl Net {
    /// The real network.
    #[must_use]
    pub fn tcp() -> Self {
        Self::of(Tcp)
    }

    /// A network that reaches hosts in its own way.
    pub fn of(dial: impl Dial) -> Self {
        Self(Arc::new(dial))
    }

    /// Opens a connection. It may take as long as the network likes: the caller sets the limit.
    ///
    /// # Errors
    ///
    /// Whatever the network says: refused, unreachable, no such name.
    pub async fn dial(&self, host: &str, port: u16) -> io::Result<Stream> {
        self.0.dial(host, port).await
    }
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Net")
    }
}

/// How long the system keeps bytes that the other side did not acknowledge, where it can be told so. Without a limit, a call that
/// was sent into a broken network has its effect a quarter of an hour later, when it is no longer expected.
pub const DELIVERY_LIMIT: Duration = Duration::from_secs(15);

struct Tcp;

impl Dial for Tcp {
    fn dial(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let target = (host.to_owned(), port);
        Box::pin(async move {
            #[expect(clippy::disallowed_methods, reason = "this is the one place that opens connections")]
            let stream = tokio::net::TcpStream::connect(target).await?;
            stream.set_nodelay(true)?;
            give_up_undelivered(&stream)?;
            Ok(Stream::new(stream))
        })
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn give_up_undelivered(stream: &tokio::net::TcpStream) -> io::Result<()> {
    let millis = u32::try_from(DELIVERY_LIMIT.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, millis)?)
}

/// Other systems have no such limit for one connection.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn give_up_undelivered(_: &tokio::net::TcpStream) -> io::Result<()> {
    Ok(())
}

/// One open connection.
pub struct Stream(Pin<Box<dyn Io>>);

trait Io: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

impl Stream {
    /// Wraps whatever carries the bytes.
    pub fn new(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(Box::pin(io))
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(cx)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a7_bytes_that_are_not_acknowledged_are_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        #[expect(clippy::disallowed_methods, reason = "the socket itself is looked at")]
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        give_up_undelivered(&stream).unwrap();
        let limit = rustix::net::sockopt::tcp_user_timeout(&stream).unwrap();
        assert_eq!(Duration::from_millis(limit.into()), DELIVERY_LIMIT);
    }
}
