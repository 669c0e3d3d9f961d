//! The serial console of a VM.
//!
//! `termproxy` makes Proxmox listen for ten seconds and gives a ticket; a second connection, to the same endpoint and with the same
//! trust, becomes a WebSocket; its first message carries the ticket, `OK` is the answer, and then the guest's bytes
//! follow, cut anywhere. Proxmox says nothing when a ticket is wrong and does not close the connection when the VM stops, so
//! the caller sets a timeout and asks [`Client::vm_status`] when it is quiet. What the guest printed before is
//! lost, and a second console of the same VM stays silent.

mod frames;
mod lines;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ambient::Clock;
use ambient::tls::TlsIo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::{Either, select};
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use hyper::rt::{Read as _, ReadBuf, Write as _};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};

use crate::client::{Call, Client};
use crate::error::{Error, Kind};
use crate::percent::encode;
use crate::scalar;
use crate::transport::{BoxError, Transport, read};
use crate::vm::machine;
use frames::{Frames, Piece};
pub use lines::Lines;

/// How long Proxmox may take from the second connection to `OK`. It gives up by itself after ten seconds.
const OPEN_LIMIT: Duration = Duration::from_secs(15);
/// Proxmox ends a console from which nothing was heard for long.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The serial port that Talos writes to.
const PORT: &str = "serial0";
/// What is read at a time.
const CHUNK: usize = 8 << 10;
/// What Proxmox itself says in front of the guest's bytes is no longer than this.
const GREETING: usize = 256;
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why there is no console, or none any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The token lacks VM.Console.
    #[error("the token may not open the console of VM {vmid}")]
    NoRight {
        /// The VM.
        vmid: u32,
        /// Proxmox's answer.
        #[source]
        source: Error,
    },
    /// The VM has no serial port.
    #[error("VM {vmid} has no serial port {PORT}")]
    NoSerialPort {
        /// The VM.
        vmid: u32,
    },
    /// Proxmox closed the connection before it accepted the ticket.
    #[error("Proxmox did not accept the ticket for the console of VM {vmid}")]
    NotAccepted {
        /// The VM.
        vmid: u32,
    },
    /// Proxmox did not answer in time.
    #[error("the console of VM {vmid} did not open within {} seconds", OPEN_LIMIT.as_secs())]
    NoAnswer {
        /// The VM.
        vmid: u32,
    },
    /// The connection ended.
    #[error("the console of VM {vmid} was closed")]
    Closed {
        /// The VM.
        vmid: u32,
        /// What broke it, where something did.
        #[source]
        source: Option<io::Error>,
    },
    /// Anything else that Proxmox or the network said.
    #[error("could not open the console of VM {vmid}")]
    Failed {
        /// The VM.
        vmid: u32,
        /// What was said.
        #[source]
        source: Error,
    },
}

impl ConsoleError {
    /// Whether it may work a little later without anyone doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NoRight { .. } | Self::NoSerialPort { .. } => false,
            Self::NotAccepted { .. } | Self::NoAnswer { .. } | Self::Closed { .. } => true,
            // A busy host answers a console that it could not start with words of many kinds.
            Self::Failed { .. } => true,
        }
    }

    /// What a person can do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRight { vmid, .. } => Some(format!(
                "give the token (and, with privilege separation, its user) VM.Console on /vms/{vmid}; `talosmith proxmox setup` does"
            )),
            Self::NoSerialPort { vmid } => {
                Some(format!("add one (`qm set {vmid} --serial0 socket`), then stop and start the VM"))
            }
            Self::NotAccepted { .. } | Self::NoAnswer { .. } | Self::Closed { .. } => {
                Some("try again; the task log of the host shows its `vncproxy` tasks".to_owned())
            }
            Self::Failed { source, .. } => source.hint(),
        }
    }
}

type Result<T> = std::result::Result<T, ConsoleError>;

#[derive(Deserialize)]
struct Ticket {
    user: String,
    ticket: String,
    #[serde(deserialize_with = "scalar::text")]
    port: Option<String>,
}

/// An open console. Reading is cancel safe: what was read and not handed out yet stays.
pub struct Console {
    io: TlsIo,
    vmid: u32,
    clock: Clock,
    frames: Frames,
    /// Frames that still go out.
    out: BytesMut,
    /// Data that was read and not handed out yet.
    data: BytesMut,
    /// What Proxmox says before the guest's first byte, until it is whole.
    greeting: Option<Vec<u8>>,
    keep_alive: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    closed: bool,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Console({})", self.vmid)
    }
}

impl Client {
    /// Opens the serial console of a VM on a node.
    ///
    /// # Errors
    ///
    /// [`ConsoleError`]. That the VM has no serial port shows only when the console is read.
    pub async fn console(&self, node: &str, vmid: u32) -> Result<Console> {
        let attempt = format!("opening the console of VM {vmid} on {node}");
        let of = |kind: Kind| match kind {
            Kind::Permission { .. } => {
                ConsoleError::NoRight { vmid, source: Error::new(attempt.clone(), kind) }
            }
            kind => ConsoleError::Failed { vmid, source: Error::new(attempt.clone(), kind) },
        };
        let Some(transport) = self.transport() else {
            let text = "this client has no connections of its own".to_owned();
            return Err(of(Kind::Protocol { text }));
        };
        let path = machine(node, vmid, "/termproxy");
        let call = Call::change(Method::POST, node, attempt.clone(), path).with("serial", PORT);
        let (endpoint, ticket) = self.call_at::<Ticket>(transport, call).await.map_err(&of)?;
        let port = ticket.port.clone().unwrap_or_default();
        let target = machine(node, vmid, "/vncwebsocket");
        let target =
            format!("/api2/json{target}?port={}&vncticket={}", encode(&port), encode(&ticket.ticket));
        let open = Box::pin(self.upgrade(transport, endpoint, vmid, &target, &ticket));
        match self.clock().timeout(OPEN_LIMIT, open).await {
            Ok(Ok(console)) => Ok(console),
            Ok(Err(Opening::Console(error))) => Err(error),
            Ok(Err(Opening::Answer(kind))) => Err(of(kind)),
            Err(_) => Err(ConsoleError::NoAnswer { vmid }),
        }
    }

    async fn upgrade(
        &self,
        transport: &Transport,
        endpoint: usize,
        vmid: u32,
        target: &str,
        ticket: &Ticket,
    ) -> std::result::Result<Console, Opening> {
        let refused = || Opening::Console(ConsoleError::NotAccepted { vmid });
        let protocol = |text: &str| Opening::Answer(Kind::Protocol { text: text.to_owned() });
        let (host, stream) = transport.connect_to(endpoint).await.map_err(|error| {
            let error: BoxError = error.into();
            Opening::Answer(Kind::of_transport(error, false))
        })?;
        let key = STANDARD.encode(rand::random::<[u8; 16]>());
        let mut request = Request::get(target)
            .header(HOST, host)
            .header(UPGRADE, "websocket")
            .header(CONNECTION, "Upgrade")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", &key)
            .body(Full::new(Bytes::new()))
            .map_err(|error| protocol(&error.to_string()))?;
        self.credentials().put(request.headers_mut(), false);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(|_| refused())?;
        // It ends when the connection is handed over, perhaps together with the answer.
        let mut connection = pin!(connection.with_upgrades().fuse());
        let response =
            driven(sender.send_request(request), connection.as_mut()).await.map_err(|_| refused())?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let response = driven(read(response), connection).await.map_err(|_| refused())?;
            return Err(match crate::client::decode::<serde_json::Value>(&response) {
                Ok(_) => protocol("Proxmox answered the request for a console with something else"),
                Err(kind) => Opening::Answer(kind),
            });
        }
        let expected = STANDARD.encode(Sha1::digest(format!("{key}{GUID}")));
        if response.headers().get("sec-websocket-accept").map(HeaderValue::as_bytes)
            != Some(expected.as_bytes())
        {
            return Err(protocol("what answered is not a WebSocket server"));
        }
        let upgraded = driven(hyper::upgrade::on(response), connection).await;
        let parts = upgraded.map_err(|_| refused())?.downcast::<TlsIo>();
        let parts = parts.map_err(|_| protocol("the connection was not handed over"))?;
        let mut console = Console::new(parts.io, vmid, self.clock().clone());
        console.receive(&parts.read_buf).map_err(Opening::Console)?;
        frames::write_data(&mut console.out, format!("{}:{}\n", ticket.user, ticket.ticket).as_bytes());
        console.expect_ok().await.map_err(|_| refused())?;
        Ok(console)
    }
}

/// Waits for something that a connection brings, which must be polled for that.
async fn driven<F: Future>(work: F, connection: impl Future + Unpin) -> F::Output {
    match select(pin!(work), connection).await {
        Either::Left((done, _)) => done,
        Either::Right((_, work)) => work.await,
    }
}

/// Why opening did not come to its end.
enum Opening {
    Console(ConsoleError),
    Answer(Kind),
}

impl Console {
    fn new(io: TlsIo, vmid: u32, clock: Clock) -> Self {
        let keep_alive = tick(&clock);
        let (frames, out, data) = (Frames::default(), BytesMut::new(), BytesMut::new());
        Self { io, vmid, clock, frames, out, data, greeting: Some(vec![]), keep_alive, closed: false }
    }

    /// The next bytes of the guest. Waits for as long as it is quiet.
    ///
    /// # Errors
    ///
    /// [`ConsoleError::NoSerialPort`], [`ConsoleError::Closed`].
    pub async fn read(&mut self) -> Result<Bytes> {
        loop {
            let bytes = std::future::poll_fn(|cx| self.poll_data(cx)).await?;
            let Some(greeting) = &mut self.greeting else { return Ok(bytes) };
            greeting.extend_from_slice(&bytes);
            if greeting.starts_with(format!("serial interface '{PORT}' is not configured").as_bytes()) {
                return Err(ConsoleError::NoSerialPort { vmid: self.vmid });
            }
            let end = greeting.iter().position(|byte| *byte == b'\n');
            if end.is_none() && greeting.len() < GREETING {
                continue;
            }
            let mut greeting = std::mem::take(greeting);
            self.greeting = None;
            if greeting.starts_with(b"starting serial terminal") {
                greeting.drain(..end.map_or(0, |end| end + 1));
            }
            if !greeting.is_empty() {
                return Ok(greeting.into());
            }
        }
    }

    /// Sends what a person typed to the guest.
    ///
    /// # Errors
    ///
    /// [`ConsoleError::Closed`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        // Short enough that length and bytes go into one frame, whatever Proxmox makes of its parts.
        for part in bytes.chunks(1 << 10) {
            let mut message = format!("0:{}:", part.len()).into_bytes();
            message.extend_from_slice(part);
            frames::write_data(&mut self.out, &message);
        }
        self.flush().await
    }

    /// Ends it. Dropping it does, too, but less politely.
    pub async fn close(mut self) {
        frames::write_close(&mut self.out);
        let _ = self.flush().await;
    }

    async fn flush(&mut self) -> Result<()> {
        std::future::poll_fn(|cx| self.poll_send(cx)).await
    }

    /// Whatever Proxmox said before it accepted the ticket, it must have been `OK`.
    async fn expect_ok(&mut self) -> Result<()> {
        let mut said = BytesMut::new();
        while said.len() < 2 {
            said.extend_from_slice(&std::future::poll_fn(|cx| self.poll_data(cx)).await?);
        }
        if !said.starts_with(b"OK") {
            return Err(ConsoleError::NotAccepted { vmid: self.vmid });
        }
        let mut rest = said.split_off(2);
        std::mem::swap(&mut rest, &mut self.data);
        self.data.extend_from_slice(&rest);
        Ok(())
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        loop {
            if !self.data.is_empty() {
                return Poll::Ready(Ok(self.data.split().freeze()));
            }
            if self.closed {
                return Poll::Ready(Err(self.broken(None)));
            }
            if self.keep_alive.as_mut().poll(cx).is_ready() {
                frames::write_data(&mut self.out, b"2");
                self.keep_alive = tick(&self.clock);
                continue;
            }
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            let mut chunk = [0; CHUNK];
            let mut buffer = ReadBuf::new(&mut chunk);
            match ready!(Pin::new(&mut self.io).poll_read(cx, buffer.unfilled())) {
                Ok(()) if buffer.filled().is_empty() => self.closed = true,
                Ok(()) => {
                    let filled = buffer.filled();
                    if let Err(error) = self.receive(filled) {
                        return Poll::Ready(Err(error));
                    }
                }
                // Proxmox ends the connection without the close_notify of TLS. That is an ordinary end.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.closed = true,
                Err(error) => {
                    self.closed = true;
                    return Poll::Ready(Err(self.broken(Some(error))));
                }
            }
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<()> {
        let pieces = self.frames.push(bytes).map_err(|malformed| {
            self.closed = true;
            self.broken(Some(io::Error::new(io::ErrorKind::InvalidData, malformed)))
        })?;
        for piece in pieces {
            match piece {
                Piece::Data(data) => self.data.extend_from_slice(&data),
                // A server that only asks and never takes an answer gets none, instead of all our memory.
                Piece::Ping(payload) if self.out.len() < CHUNK => {
                    frames::write_pong(&mut self.out, &payload);
                }
                Piece::Ping(_) => {}
                Piece::Close => self.closed = true,
            }
        }
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.out.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.out)) {
                Ok(0) => return Poll::Ready(Err(self.broken(None))),
                Ok(sent) => drop(self.out.split_to(sent)),
                Err(error) => return Poll::Ready(Err(self.broken(Some(error)))),
            }
        }
        let flushed = ready!(Pin::new(&mut self.io).poll_flush(cx));
        Poll::Ready(flushed.map_err(|error| self.broken(Some(error))))
    }

    fn broken(&self, source: Option<io::Error>) -> ConsoleError {
        ConsoleError::Closed { vmid: self.vmid, source }
    }
}

fn tick(clock: &Clock) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
    let clock = clock.clone();
    Box::pin(async move { clock.sleep(KEEP_ALIVE).await })
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
