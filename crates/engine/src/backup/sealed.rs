//! A backup that is being written: the snapshot is compressed with zstd and encrypted with age while it comes, and is never in memory as a
//! whole.
//!
//! ```text
//! snapshot ──► zstd ──► age ──► SHA-256 ──► temporary file
//! ```
//!
//! Once the snapshot was found sound, it is read back from the disk. Then the copy of the bundle, the card and at last the snapshot get
//! their names. So a snapshot with its name has everything beside it, and a run that dies leaves no snapshot that is not whole.

use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use age::stream::StreamWriter;
use futures::future::BoxFuture;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWrite;
use zstd::stream::write::Encoder;

use super::card::{BundleFacts, Card, SnapshotFacts, StoredObject};
use super::name::Name;
use super::opened::{self, Closed, Content};
use super::{Backups, failed};
use crate::error::{Error, Kind, Result};
use crate::files::NewFile;
use crate::secrets;
use crate::snapshots::{NewSnapshot, SnapshotOf};

/// What zstd itself uses if it is not told otherwise.
const LEVEL: i32 = 3;

/// Counts and digests what is written.
struct Hashed<W> {
    to: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        self.bytes += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A backup that is being written.
pub(super) struct NewBackup {
    backups: Backups,
    of: SnapshotOf,
    name: Name,
    /// Gone once it is kept.
    layers: Option<Encoder<'static, StreamWriter<Hashed<NewFile>>>>,
}

impl NewBackup {
    /// Starts a backup. Without recipients there would be no one to open it.
    pub(super) fn create(backups: &Backups, of: &SnapshotOf) -> Result<Self> {
        if backups.recipients.is_empty() {
            return Err(Error::new(Kind::Refused, "could not make a backup: no one could open it")
                .coded("backup-no-recipients")
                .hint("the secrets bundle is not encrypted, so add a public key to `backup.recipients` in the file"));
        }
        let name = backups.free_name(of.at)?;
        let path = backups.folder.join(name.snapshot());
        let attempt = || failed("write the backup", &path);
        backups.prepare().map_err(|e| attempt().because(e))?;
        let file = NewFile::create(&path).map_err(|e| attempt().because(e))?;
        Self::onto(backups, of, name, file)
    }

    /// A backup that is written to this file.
    pub(super) fn onto(backups: &Backups, of: &SnapshotOf, name: Name, file: NewFile) -> Result<Self> {
        let path = backups.folder.join(name.snapshot());
        let attempt = || failed("write the backup", &path);
        let hashed = Hashed { to: file, hash: Sha256::new(), bytes: 0 };
        let sealed = secrets::encryptor(&backups.recipients)?.wrap_output(hashed);
        let sealed = sealed.map_err(|e| attempt().because(e))?;
        let mut layers = Encoder::new(sealed, LEVEL).map_err(|e| attempt().because(e))?;
        // The zstd program then sees damage, too.
        layers.include_checksum(true).map_err(|e| attempt().because(e))?;
        Ok(Self { backups: backups.clone(), of: of.clone(), name, layers: Some(layers) })
    }

    fn writing<T>(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Poll<io::Result<T>> {
        Poll::Ready(match &mut self.layers {
            Some(layers) => write(layers),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }

    /// Ends the layers, reads everything back, and gives all parts their names.
    fn finish(mut self, checked: &talos_client::Snapshot, now: Timestamp) -> Result<String> {
        let folder = &self.backups.folder;
        let path = folder.join(self.name.snapshot());
        let attempt = || failed("write the backup", &path);
        let layers = self.layers.take().ok_or_else(attempt)?;
        let sealed = layers.finish().and_then(StreamWriter::finish).map_err(|e| attempt().because(e))?;
        let object = StoredObject {
            name: self.name.snapshot(),
            bytes: sealed.bytes,
            sha256: hex::encode(sealed.hash.finalize()),
        };
        let file = sealed.to;
        file.sync().map_err(|e| attempt().because(e))?;
        let verified = self.read_back(&file, &object, checked, &path)?;

        let bundle = self.backups.bundle.as_ref().ok_or_else(attempt)?;
        let of_bundle = BundleFacts { sha256: bundle.digest(), name: self.name.bundle() };
        let snapshot = SnapshotFacts { bytes: checked.bytes, sha256: checked.sha256.clone(), object };
        let card = Card::new(&self.of.cluster, self.of.at, &self.of.facts, snapshot, of_bundle);
        let card = if verified { card.verified(now) } else { card };
        let copy = bundle.copy_for(&self.backups.recipients)?;
        let text = secrets::encrypted_text(&self.backups.recipients, &card.write())?;
        let beside = [(self.name.bundle(), copy.as_bytes()), (self.name.card(), text.as_bytes())];
        let beside = beside.map(|(name, bytes)| {
            let path = folder.join(name);
            whole(&path, bytes).map_err(|e| failed("write", &path).because(e))
        });
        let [copy, card] = beside;
        let (copy, card) = (copy?, card?);
        copy.place().map_err(|e| attempt().because(e))?;
        card.place().and_then(|()| file.place()).map_err(|e| {
            // Without a snapshot they are of no use. The name was free, so they are ours.
            for name in [self.name.bundle(), self.name.card()] {
                let _ = std::fs::remove_file(folder.join(name));
            }
            attempt().because(e)
        })?;
        Ok(path.display().to_string())
    }

    /// Reads back what is on the disk. Says whether it was opened; without an identity it is compared as it is stored.
    fn read_back(
        &self,
        file: &NewFile,
        object: &StoredObject,
        checked: &talos_client::Snapshot,
        path: &Path,
    ) -> Result<bool> {
        let attempt = || failed("write the backup", path);
        let damaged = || {
            attempt()
                .coded("backup-damaged")
                .hint("what was read back is not what was written: check the disk")
        };
        let stored = file.reopen().map_err(|e| attempt().because(e))?;
        let found = match opened::check(stored, self.backups.identity.as_ref()) {
            Ok(found) => found,
            Err(Closed::NoIdentity | Closed::OtherIdentity) => {
                let stored = file.reopen().map_err(|e| attempt().because(e))?;
                let (bytes, sha256) = opened::digest(stored).map_err(|e| attempt().because(e))?;
                return if (bytes, &sha256) == (object.bytes, &object.sha256) {
                    Ok(false)
                } else {
                    Err(damaged())
                };
            }
            Err(other) => return Err(damaged().because(other)),
        };
        let whole = Content { snapshot: checked.clone(), bytes: object.bytes, sha256: object.sha256.clone() };
        if found == whole { Ok(true) } else { Err(damaged()) }
    }
}

/// A small file that is on the disk and has no name yet.
pub(super) fn whole(path: &Path, bytes: &[u8]) -> io::Result<NewFile> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.sync()?;
    Ok(file)
}

impl AsyncWrite for NewBackup {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().writing(|writer| writer.write(bytes))
    }

    /// What zstd still holds stays there: a flush would only make the file larger. All of it is written when the backup is kept.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl NewSnapshot for NewBackup {
    fn keep(self: Box<Self>, checked: talos_client::Snapshot) -> BoxFuture<'static, Result<String>> {
        let now = self.backups.clock.now();
        let path = self.backups.folder.join(self.name.snapshot());
        // Flushing and reading back a large file takes seconds, in which leases are renewed.
        let finished = tokio::task::spawn_blocking(move || self.finish(&checked, now));
        Box::pin(async move {
            finished.await.unwrap_or_else(|e| Err(failed("write the backup", &path).because(e)))
        })
    }
}
