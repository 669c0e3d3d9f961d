//! The few WebSocket frames (RFC 6455) that a console needs. Payloads are passed on as they come and never collected, so a frame
//! that claims any length costs nothing.

use bytes::{BufMut as _, BytesMut};

/// A control frame carries no more.
const CONTROL_LIMIT: u64 = 125;
/// Proxmox refuses longer frames. Ours are much shorter.
const PAYLOAD_LIMIT: usize = 64 << 10;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opcode {
    Data,
    Close,
    Ping,
    Pong,
}

/// What the bytes of a connection meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A part of the stream, wherever frames cut it.
    Data(Vec<u8>),
    /// To be answered with the same bytes.
    Ping(Vec<u8>),
    /// The other side ends the connection.
    Close,
}

/// The other side does not speak the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a WebSocket stream: {0}")]
pub(super) struct Malformed(&'static str);

/// Reads frames from pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: Vec<u8>,
    /// The frame that is being read: its kind and how many bytes are left of it.
    open: Option<(Opcode, u64)>,
    control: Vec<u8>,
}

impl Frames {
    /// Takes the next bytes of the connection.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Piece>, Malformed> {
        let mut pieces = vec![];
        loop {
            if self.open.is_none() {
                self.open = self.read_header(&mut bytes)?;
            }
            let Some((opcode, left)) = self.open else { return Ok(pieces) };
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let (payload, rest) = bytes.split_at(take);
            bytes = rest;
            let left = left - take as u64;
            match opcode {
                Opcode::Data if payload.is_empty() => {}
                Opcode::Data => pieces.push(Piece::Data(payload.to_vec())),
                Opcode::Close | Opcode::Ping | Opcode::Pong => self.control.extend_from_slice(payload),
            }
            if left > 0 {
                self.open = Some((opcode, left));
                return Ok(pieces);
            }
            self.open = None;
            let control = std::mem::take(&mut self.control);
            match opcode {
                Opcode::Ping => pieces.push(Piece::Ping(control)),
                Opcode::Close => pieces.push(Piece::Close),
                Opcode::Data | Opcode::Pong => {}
            }
        }
    }

    /// Moves bytes into the header until it is whole.
    fn read_header(&mut self, bytes: &mut &[u8]) -> Result<Option<(Opcode, u64)>, Malformed> {
        while let Some((first, rest)) = bytes.split_first() {
            self.header.push(*first);
            *bytes = rest;
            let Some(header) = header(&self.header)? else { continue };
            self.header.clear();
            return Ok(Some(header));
        }
        Ok(None)
    }
}

/// The kind and length of a frame, once its header is whole.
fn header(bytes: &[u8]) -> Result<Option<(Opcode, u64)>, Malformed> {
    let [flags, length, more @ ..] = bytes else { return Ok(None) };
    if flags & 0x70 != 0 {
        return Err(Malformed("it uses an extension"));
    }
    if length & 0x80 != 0 {
        return Err(Malformed("a server masks nothing"));
    }
    let length = match (length & 0x7f, more) {
        (126, [a, b]) => u64::from(u16::from_be_bytes([*a, *b])),
        (127, more) => match <[u8; 8]>::try_from(more) {
            Ok(length) => u64::from_be_bytes(length),
            Err(_) => return Ok(None),
        },
        (126, _) => return Ok(None),
        (short, _) => u64::from(short),
    };
    let opcode = match flags & 0x0f {
        0..=2 => Opcode::Data,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(Malformed("a frame of an unknown kind")),
    };
    if opcode != Opcode::Data && (length > CONTROL_LIMIT || flags & 0x80 == 0) {
        return Err(Malformed("a control frame is too long"));
    }
    Ok(Some((opcode, length)))
}

/// Writes a binary message, in as many messages as its length needs.
pub(super) fn write_data(out: &mut BytesMut, payload: &[u8]) {
    for part in payload.chunks(PAYLOAD_LIMIT - 1) {
        write(out, 0x82, part);
    }
}

/// Writes the answer to a ping.
pub(super) fn write_pong(out: &mut BytesMut, payload: &[u8]) {
    write(out, 0x8a, payload);
}

/// Writes the end of the connection.
pub(super) fn write_close(out: &mut BytesMut) {
    write(out, 0x88, &[]);
}

fn write(out: &mut BytesMut, flags: u8, payload: &[u8]) {
    out.put_u8(flags);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => out.put_u8(0x80 | length),
        (_, Ok(length)) => {
            out.put_u8(0x80 | 126);
            out.put_u16(length);
        }
        (_, Err(_)) => {
            out.put_u8(0x80 | 127);
            out.put_u64(payload.len() as u64);
        }
    }
    let mask: [u8; 4] = rand::random();
    out.put_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Result<Vec<Piece>, Malformed> {
        Frames::default().push(bytes)
    }

    #[test]
    fn frames_of_all_lengths_are_read_however_they_are_cut() {
        let mut wire = vec![0x82, 2, b'O', b'K', 0x89, 1, b'p', 0x82, 126, 1, 0];
        wire.extend([b'a'; 256]);
        wire.extend([0x8a, 0, 0x81, 127, 0, 0, 0, 0, 0, 0, 0, 3, b'x', b'y', b'z', 0x88, 0]);
        let all = whole(&wire).unwrap();
        let data = |pieces: &[Piece]| {
            let data = pieces.iter().filter_map(|piece| match piece {
                Piece::Data(data) => Some(data.clone()),
                Piece::Ping(_) | Piece::Close => None,
            });
            data.flatten().collect::<Vec<u8>>()
        };
        let mut text = b"OK".to_vec();
        text.extend([b'a'; 256]);
        text.extend(b"xyz");
        assert_eq!(data(&all), text);
        assert!(all.contains(&Piece::Ping(vec![b'p'])) && all.last() == Some(&Piece::Close));
        for size in 1..wire.len() {
            let mut frames = Frames::default();
            let pieces: Vec<Piece> =
                wire.chunks(size).flat_map(|bytes| frames.push(bytes).unwrap()).collect();
            assert_eq!(data(&pieces), text, "cut every {size} bytes");
            assert_eq!(pieces.last(), Some(&Piece::Close));
        }
    }

    #[test]
    fn what_is_no_frame_of_a_server_is_refused() {
        for wire in [&[0xc2, 0][..], &[0x82, 0x82], &[0x83, 0], &[0x89, 126, 0, 200], &[0x08, 0]] {
            assert!(whole(wire).is_err(), "{wire:?}");
        }
    }

    #[test]
    fn a_length_that_is_only_claimed_costs_nothing() {
        let mut frames = Frames::default();
        let mut pieces = frames.push(&[0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap();
        pieces.extend(frames.push(b"hello").unwrap());
        assert_eq!(pieces, [Piece::Data(b"hello".to_vec())]);
        assert!(frames.header.capacity() < 64 && frames.control.capacity() == 0);
    }

    #[test]
    fn what_is_sent_is_masked_and_short() {
        let mut out = BytesMut::new();
        write_data(&mut out, b"2");
        assert_eq!((out[0], out[1], out.len()), (0x82, 0x81, 7));
        assert_eq!(out[6] ^ out[2], b'2');
        let mut long = BytesMut::new();
        write_data(&mut long, &[0; 100_000]);
        assert_eq!((long[0], long[1]), (0x82, 0x80 | 126));
        assert_eq!(long.len(), 100_000 + 2 * 8, "two frames");
    }
}
