//! The end of a machine's patience with pings.
//!
//! Talos' server sets no rules of its own for HTTP/2 pings, so those of its library hold: a ping within five minutes of the
//! one before (or of the beginning) is early, the third early one without anything said in between ends the connection, with
//! the words `too_many_pings`. The HTTP/2 library of the lab answers every ping, so the frames are counted below it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ambient::Clock;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Pings should be this far apart.
const APART: Duration = Duration::from_secs(5 * 60);
/// So many early ones are too many.
const TOO_MANY: u32 = 3;
/// What a client says before its first frame.
const PREFACE: usize = 24;
/// A frame's length, kind, flags and stream.
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const ACK: u8 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;
const WORDS: &[u8] = b"too_many_pings";

/// A connection that ends when it is pinged too often.
pub(super) struct Patient<S> {
    stream: S,
    clock: Clock,
    from_client: Frames,
    to_client: Frames,
    last: Timestamp,
    early: u32,
    /// What is left to be said of the last words, once they are due.
    go_away: Option<Vec<u8>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, clock: Clock) -> Self {
        let last = clock.now();
        let from_client = Frames { left: PREFACE, ..Frames::default() };
        Self { stream, clock, from_client, to_client: Frames::default(), last, early: 0, go_away: None }
    }

    fn heard(&mut self, bytes: &[u8]) {
        let mut pings = 0;
        self.from_client.pass(bytes, |kind, flags| pings += u32::from(kind == PING && flags & ACK == 0));
        if pings == 0 {
            return;
        }
        let now = self.clock.now();
        let early = now.duration_since(self.last) < APART.try_into().unwrap_or_default();
        self.last = now;
        self.early = if early { self.early + pings } else { 0 };
        if self.early >= TOO_MANY {
            self.go_away = Some(go_away());
        }
    }

    fn said(&mut self, bytes: &[u8]) {
        let mut something = false;
        self.to_client.pass(bytes, |kind, _| something |= matches!(kind, DATA | HEADERS));
        if something {
            self.early = 0;
        }
    }
}

fn go_away() -> Vec<u8> {
    let length = 8 + WORDS.len();
    let mut frame = vec![0, 0, u8::try_from(length).unwrap_or(u8::MAX), GO_AWAY, 0, 0, 0, 0, 0];
    frame.extend(0x7fff_ffff_u32.to_be_bytes());
    frame.extend(ENHANCE_YOUR_CALM.to_be_bytes());
    frame.extend(WORDS);
    frame
}

/// Where one direction of a connection stands between its frames.
#[derive(Default)]
struct Frames {
    header: [u8; HEADER],
    filled: usize,
    /// Bytes of the frame's content that are still to come.
    left: usize,
}

impl Frames {
    fn between(&self) -> bool {
        self.filled == 0 && self.left == 0
    }

    /// Goes over `bytes` and tells the kind and flags of each frame that starts in them.
    fn pass(&mut self, mut bytes: &[u8], mut begins: impl FnMut(u8, u8)) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.header[self.filled] = bytes[0];
            self.filled += 1;
            bytes = &bytes[1..];
            if self.filled == HEADER {
                self.filled = 0;
                let [a, b, c, kind, flags, ..] = self.header;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                begins(kind, flags);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(words) = &mut this.go_away {
            // In the middle of a frame nothing else can be said: then the connection only ends.
            while !words.is_empty() && this.to_client.between() {
                let said = ready!(Pin::new(&mut this.stream).poll_write(cx, words))?;
                words.drain(..said);
            }
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.heard(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let said = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.said(&bytes[..said]);
        Poll::Ready(Ok(said))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
