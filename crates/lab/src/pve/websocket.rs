//! The server's side of a WebSocket, as far as Proxmox speaks it: whole frames only, masked by the client, up to 128 KiB.
//!
//! Written out because the lab must also break the rules on purpose (frames cut anywhere, connections that end without a
//! close frame), and because its clients may use a library for the same.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// No frame of a client may be larger.
const LARGEST: usize = 128 * 1024;
/// What RFC 6455 appends to the key of a handshake.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The answer to the key of a handshake.
pub(super) fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// One open WebSocket.
pub(super) struct Socket<S> {
    stream: S,
    /// What was received and is no whole frame yet.
    received: Vec<u8>,
}

struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// What the client sends next. `None` when it is gone, or sends what it may not. Nothing is lost where this is not
    /// awaited to its end.
    pub(super) async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            let frame = match self.take_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => match self.stream.read_buf(&mut self.received).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => continue,
                },
                Err(()) => return None,
            };
            match frame.kind {
                TEXT | BINARY => return Some(frame.payload),
                PING => self.send_frame(PONG, &frame.payload).await.ok()?,
                PONG => {}
                CLOSE => {
                    let _ = self.send_frame(CLOSE, &frame.payload).await;
                    return None;
                }
                _ => return None,
            }
        }
    }

    /// Sends bytes in one frame.
    pub(super) async fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.send_frame(BINARY, payload).await
    }

    async fn send_frame(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            short @ 0..126 => frame.push(u8::try_from(short).unwrap_or(125)),
            length => match u16::try_from(length) {
                Ok(length) => {
                    frame.push(126);
                    frame.extend(length.to_be_bytes());
                }
                Err(_) => {
                    frame.push(127);
                    frame.extend(u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
                }
            },
        }
        frame.extend(payload);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }

    /// The first whole frame of what was received. An error is a frame that a client may not send.
    fn take_frame(&mut self) -> Result<Option<Frame>, ()> {
        let [first, second, ..] = *self.received.as_slice() else { return Ok(None) };
        let (whole, kind, masked) = (first & 0x80 != 0, first & 0x0f, second & 0x80 != 0);
        if !whole || first & 0x70 != 0 || !masked || kind == 0 {
            return Err(());
        }
        let (length, head) = match second & 0x7f {
            126 => match self.received.get(2..4) {
                Some(bytes) => (number(bytes), 4),
                None => return Ok(None),
            },
            127 => match self.received.get(2..10) {
                Some(bytes) => (number(bytes), 10),
                None => return Ok(None),
            },
            short => (usize::from(short), 2),
        };
        if length > LARGEST {
            return Err(());
        }
        let Some(payload) = self.received.get(head + 4..head + 4 + length) else { return Ok(None) };
        let mask = self.received.get(head..head + 4).unwrap_or_default();
        let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        self.received.drain(..head + 4 + length);
        Ok(Some(Frame { kind, payload }))
    }
}

fn number(bytes: &[u8]) -> usize {
    let value = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a client, masked.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = vec![first];
        match payload.len() {
            short @ 0..126 => bytes.push(0x80 | u8::try_from(short).unwrap()),
            length @ 126..65536 => {
                bytes.push(0x80 | 126);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                bytes.push(0x80 | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    #[test]
    fn the_key_of_the_standard_has_the_answer_of_the_standard() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn frames_are_read_whole_however_they_arrive() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let mut socket = Socket::new(server);
        let long = vec![b'x'; 70_000];
        let all = [frame(0x82, b"2"), frame(0x89, b"hm"), frame(0x81, &long[..300]), frame(0x82, &long)];
        let all = all.concat();
        let (one, two) = all.split_at(150);
        client.write_all(one).await.unwrap();
        assert_eq!(socket.receive().await.unwrap(), b"2");
        client.write_all(two).await.unwrap();
        assert_eq!(socket.receive().await.unwrap(), &long[..300]);
        assert_eq!(socket.receive().await.unwrap(), long);
        let mut pong = [0; 4];
        client.read_exact(&mut pong).await.unwrap();
        assert_eq!(pong, [0x8a, 2, b'h', b'm']);
        drop(client);
        assert_eq!(socket.receive().await, None);
    }

    #[tokio::test]
    async fn what_a_client_may_not_send_ends_it() {
        let fragmented = frame(0x02, b"part");
        let unmasked = vec![0x82, 1, b'2'];
        let too_large = frame(0x82, &vec![0; LARGEST + 1]);
        for bytes in [fragmented, unmasked, too_large, frame(0x88, b"")] {
            let (mut client, server) = tokio::io::duplex(1 << 20);
            client.write_all(&bytes).await.unwrap();
            assert_eq!(Socket::new(server).receive().await, None);
        }
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(&frame(0x82, &vec![0; LARGEST])).await.unwrap();
        assert!(Socket::new(server).receive().await.is_some());
    }
}
