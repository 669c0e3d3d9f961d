//! A backup that is read: decrypted, decompressed and checked while it passes. What layers it has is told by how each starts, so
//! backups of talos-backup are read, too, whatever it was told to leave out.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use talos_client::{Snapshot, SnapshotCheck};

use crate::secrets::{self, Identity};

const BUFFER: usize = 128 << 10;
const AGE: &[u8] = b"age-encryption.org/";
const ARMOR: &[u8] = b"-----BEGIN AGE";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Closed {
    #[error("it is encrypted, and there is no identity")]
    NoIdentity,
    #[error("it was encrypted to other recipients")]
    OtherIdentity,
    /// It could not be read from the store.
    #[error("it cannot be read")]
    Unread(#[source] io::Error),
    /// It was read, and is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// What a backup was found to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// The snapshot, which is sound.
    pub snapshot: Snapshot,
    /// The length of what is stored.
    pub bytes: u64,
    /// The SHA-256 of what is stored.
    pub sha256: String,
}

/// Counts and digests what is read.
struct Hashed<R> {
    from: R,
    read: Arc<Mutex<(Sha256, u64)>>,
    /// An error of the store, which the layers above would take for damage.
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.from.read(buffer) {
            Ok(count) => count,
            Err(error) => {
                let kind = error.kind();
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return Err(kind.into());
            }
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.0.update(buffer.get(..count).unwrap_or_default());
        read.1 += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }
}

/// Reads a backup to its end and checks it.
pub(super) fn check(
    stored: impl Read + Send + 'static,
    identity: Option<&Identity>,
) -> Result<Content, Closed> {
    copy(stored, identity, &mut io::sink()).map_err(|error| match error {
        Stopped::Closed(closed) => closed,
        Stopped::Unwritten(error) => Closed::Unread(error),
    })
}

/// Why a snapshot was not copied out of a backup.
pub(super) enum Stopped {
    Closed(Closed),
    /// The copy could not be written.
    Unwritten(io::Error),
}

impl From<Closed> for Stopped {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

/// Writes the snapshot in a backup to `to`. What was written counts only if it was found sound in the end.
pub(super) fn copy(
    stored: impl Read + Send + 'static,
    identity: Option<&Identity>,
    to: &mut dyn Write,
) -> Result<Content, Stopped> {
    let read = Arc::new(Mutex::new((Sha256::new(), 0)));
    let failed: Arc<Mutex<Option<io::Error>>> = Arc::default();
    let hashed = Hashed { from: stored, read: read.clone(), failed: failed.clone() };
    let why =
        |what: &dyn std::fmt::Display| match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Closed::Unread(error),
            None => Closed::Damaged(what.to_string()),
        };
    let mut plain = layers(hashed, identity).map_err(|closed| match closed {
        Closed::Damaged(text) => why(&text),
        other => other,
    })?;
    let mut check = SnapshotCheck::default();
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = plain.read(&mut buffer).map_err(|e| why(&e))?;
        if count == 0 {
            break;
        }
        let piece = buffer.get(..count).unwrap_or_default();
        check.take(piece);
        to.write_all(piece).map_err(Stopped::Unwritten)?;
    }
    let snapshot = check.end().map_err(|e| why(&e))?;
    drop(plain);
    let read = read.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Content { snapshot, bytes: read.1, sha256: hex::encode(read.0.clone().finalize()) })
}

/// The length and the SHA-256 of what is stored.
pub(super) fn digest(mut stored: impl Read) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    loop {
        let count = stored.read(&mut buffer)?;
        if count == 0 {
            return Ok((bytes, hex::encode(hash.finalize())));
        }
        hash.update(buffer.get(..count).unwrap_or_default());
        bytes += u64::try_from(count).unwrap_or(0);
    }
}

/// What is below encryption and compression.
fn layers(stored: impl Read + Send + 'static, identity: Option<&Identity>) -> Result<Box<dyn Read>, Closed> {
    let damaged = |e: &dyn std::fmt::Display| Closed::Damaged(e.to_string());
    let mut outer = BufReader::with_capacity(BUFFER, stored);
    let start = outer.fill_buf().map_err(|e| damaged(&e))?;
    let inner: Box<dyn Read> = if start.starts_with(AGE) || start.starts_with(ARMOR) {
        let identity = identity.ok_or(Closed::NoIdentity)?;
        let armor = age::armor::ArmoredReader::new(outer);
        let opened = secrets::decrypting(identity, BufReader::with_capacity(BUFFER, armor));
        Box::new(opened.map_err(|e| match e {
            age::DecryptError::NoMatchingKeys => Closed::OtherIdentity,
            other => damaged(&other),
        })?)
    } else {
        Box::new(outer)
    };
    let mut inner = BufReader::with_capacity(BUFFER, inner);
    let start = inner.fill_buf().map_err(|e| damaged(&e))?;
    if start.starts_with(ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(inner).map_err(|e| damaged(&e))?;
        return Ok(Box::new(decoder));
    }
    Ok(Box::new(inner))
}
