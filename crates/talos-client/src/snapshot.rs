//! Snapshots of etcd: streamed out, checked, and streamed back in.
//!
//! A snapshot is the database followed by its SHA-256. The machine checks neither what it sends nor what it is given
//! (seven bytes of nonsense are taken with thanks, and the cluster is gone afterwards), so both are checked here.

use std::io::{self, SeekFrom};
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;
use sha2::{Digest as _, Sha256};
use talos::wire::common;
use talos::wire::machine as wire;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeek, AsyncSeekExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::api::{LONG, WORK};
use crate::error::{Kind, Result};
use crate::machine::Machine;

const DIGEST: usize = 32;
/// The database is made of pages, each a multiple of this.
const PAGE: u64 = 512;
const CHUNK: usize = 64 << 10;

/// A snapshot that was found sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its length in bytes, with the digest at its end.
    pub bytes: u64,
    /// The SHA-256 of the database in it, in hex.
    pub sha256: String,
}

/// Why something is not a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSound {
    /// Too short, or no digest at its end.
    #[error("it is not a snapshot of etcd, or was cut off")]
    Shape,
    /// The digest is another.
    #[error("its checksum is wrong: it was damaged")]
    Checksum,
}

/// Checks a snapshot while it passes. Digests what comes, except for the last bytes, which may be the digest itself.
#[derive(Debug, Clone, Default)]
pub struct SnapshotCheck {
    hash: Sha256,
    tail: Vec<u8>,
    bytes: u64,
}

impl SnapshotCheck {
    /// The next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes += u64::try_from(bytes.len()).unwrap_or(0);
        // All but the last bytes of both together: first of those that were held back, then of the new ones.
        let done = (self.tail.len() + bytes.len()).saturating_sub(DIGEST);
        let held = done.min(self.tail.len());
        let new = done - held;
        self.hash.update(self.tail.get(..held).unwrap_or_default());
        self.hash.update(bytes.get(..new).unwrap_or_default());
        self.tail.drain(..held);
        self.tail.extend_from_slice(bytes.get(new..).unwrap_or_default());
    }

    /// What passed, now that nothing more comes.
    ///
    /// # Errors
    ///
    /// Why it is not a snapshot.
    pub fn end(self) -> std::result::Result<Snapshot, NotSound> {
        let digest = u64::try_from(DIGEST).unwrap_or(0);
        if self.bytes <= digest || self.bytes % PAGE != digest {
            return Err(NotSound::Shape);
        }
        let found = self.hash.finalize();
        if found.as_slice() != self.tail {
            return Err(NotSound::Checksum);
        }
        Ok(Snapshot { bytes: self.bytes, sha256: found.iter().map(|byte| format!("{byte:02x}")).collect() })
    }
}

/// Reads a snapshot to its end and checks it.
///
/// # Errors
///
/// When it cannot be read; the error's source is a [`NotSound`] when it could, but is not sound.
pub async fn check_snapshot(mut from: impl AsyncRead + Unpin) -> io::Result<Snapshot> {
    let mut check = SnapshotCheck::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return check.end().map_err(io::Error::other);
        }
        check.take(chunk.get(..count).unwrap_or_default());
    }
}

impl Machine {
    /// Writes a snapshot of this machine's etcd to `to`, and checks it on the way. A machine gives one also when etcd has
    /// lost its quorum.
    ///
    /// # Errors
    ///
    /// [`Kind::Failed`] when it came damaged or could not be written; what was written then is worth nothing.
    pub async fn etcd_snapshot(&self, to: &mut (impl AsyncWrite + Unpin)) -> Result<Snapshot> {
        let attempt = "taking a snapshot of etcd";
        let failed = |why: String| self.api.failure(attempt, Kind::Failed, why);
        let request = wire::EtcdSnapshotRequest {};
        let answer = self.api.limited(attempt, WORK, self.api.services().etcd_snapshot(request)).await?;
        let mut stream = answer.into_inner();
        let mut check = SnapshotCheck::default();
        while let Some(data) = self.api.limited(attempt, WORK, stream.message()).await? {
            check.take(&data.bytes);
            to.write_all(&data.bytes).await.map_err(|e| failed(format!("it could not be written: {e}")))?;
        }
        to.flush().await.map_err(|e| failed(format!("it could not be written: {e}")))?;
        check.end().map_err(|why| failed(format!("what came is not sound: {why}")))
    }

    /// Hands over a snapshot, for the bootstrap that follows to start with. It is checked before a byte is sent.
    ///
    /// # Errors
    ///
    /// [`Kind::Failed`] when the snapshot is not sound; [`Kind::NotReady`] when etcd on this machine does not wait for one.
    pub async fn etcd_recover<R>(&self, mut from: R) -> Result<Snapshot>
    where
        R: AsyncRead + AsyncSeek + Unpin + Send + 'static,
    {
        let attempt = "handing over a snapshot of etcd";
        let failed = |why: &io::Error| self.api.failure(attempt, Kind::Failed, why.to_string());
        let snapshot = check_snapshot(&mut from).await.map_err(|e| failed(&e))?;
        from.seek(SeekFrom::Start(0)).await.map_err(|e| failed(&e))?;
        // A stream that just ended would look whole to the machine: when reading fails, the call is dropped instead.
        let (broke, broken) = oneshot::channel();
        let stream = chunks(from, Arc::new(Mutex::new(Some(broke))));
        let mut services = self.api.services();
        // The sender goes with the stream when that has come to its end.
        let broken = async {
            match broken.await {
                Ok(error) => error,
                Err(_) => futures::future::pending().await,
            }
        };
        let call = async {
            tokio::select! {
                biased;
                error = broken => Err(failed(&error)),
                answer = self.api.limited(attempt, LONG, services.etcd_recover(stream)) => answer,
            }
        };
        let answer: tonic::Response<wire::EtcdRecoverResponse> = call.await?;
        self.api.one(attempt, answer.into_inner())?;
        Ok(snapshot)
    }
}

type Broke = Arc<Mutex<Option<oneshot::Sender<io::Error>>>>;

fn chunks<R>(from: R, broke: Broke) -> impl futures::Stream<Item = common::Data> + Send + 'static
where
    R: AsyncRead + Unpin + Send + 'static,
{
    futures::stream::unfold(from, move |mut from| {
        let broke = broke.clone();
        async move {
            let mut chunk = vec![0; CHUNK];
            match from.read(&mut chunk).await {
                Ok(0) => None,
                Ok(count) => {
                    chunk.truncate(count);
                    Some((common::Data { bytes: chunk, ..Default::default() }, from))
                }
                Err(error) => {
                    let sender = broke.lock().ok().and_then(|mut sender| sender.take());
                    if let Some(sender) = sender {
                        // There is no listener any more when the call has ended, and then it does not matter.
                        let _ = sender.send(error);
                    }
                    futures::future::pending().await
                }
            }
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A snapshot of nothing much.
    pub(crate) fn sample(pages: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..pages * 512).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    #[test]
    fn the_pieces_of_a_snapshot_may_have_any_size() {
        let whole = sample(3);
        for size in [1, 7, 31, 32, 33, 500, whole.len()] {
            let mut check = SnapshotCheck::default();
            whole.chunks(size).for_each(|piece| check.take(piece));
            assert_eq!(check.end().map(|found| found.bytes), Ok(3 * 512 + 32), "in pieces of {size}");
        }
    }

    #[tokio::test]
    async fn a_snapshot_is_known_by_its_end() {
        let whole = sample(300);
        let found = check_snapshot(whole.as_slice()).await.unwrap();
        assert_eq!(found.bytes, 300 * 512 + 32);
        let not = |error: io::Error| *error.get_ref().unwrap().downcast_ref::<NotSound>().unwrap();
        let mut damaged = whole.clone();
        damaged[70_000] ^= 1;
        assert_eq!(not(check_snapshot(damaged.as_slice()).await.unwrap_err()), NotSound::Checksum);
        for cut in [&whole[..1000], &b"garbage"[..], &[]] {
            assert_eq!(not(check_snapshot(cut).await.unwrap_err()), NotSound::Shape);
        }
    }
}
