//! Snapshots of etcd as files in a folder, encrypted like the secrets bundle: a snapshot holds every secret of the cluster.
//!
//! A snapshot is written under a temporary name, flushed, and gets its own name only once it was found sound. So a file without
//! `.new` at its end is whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use age::stream::StreamWriter;
use futures::future::BoxFuture;
use tokio::io::AsyncWrite;

use super::{NewSnapshot, SnapshotOf, SnapshotStore};
use crate::error::{Error, Kind, Result};
use crate::files;
use crate::secrets::{self, AtRest};

/// With this ends the name of a snapshot that is being written.
const TEMPORARY: &str = ".new";

/// A folder for snapshots of etcd.
#[derive(Debug, Clone)]
pub struct SnapshotFolder {
    folder: PathBuf,
    at_rest: AtRest,
}

impl SnapshotFolder {
    /// This folder, which is created once it is needed.
    pub fn at(folder: impl Into<PathBuf>, at_rest: AtRest) -> Self {
        Self { folder: folder.into(), at_rest }
    }

    fn open(&self, of: &SnapshotOf) -> Result<FileSnapshot> {
        let end = if self.at_rest == AtRest::Plain { "" } else { ".age" };
        let name = format!("{}-{}-{}.etcd{end}", of.cluster, of.at.strftime("%Y%m%d-%H%M%S"), of.node);
        let path = self.folder.join(name);
        let attempt = || failed(&path);
        make_private(&self.folder).map_err(|e| attempt().because(e))?;
        let temporary = PathBuf::from(format!("{}{TEMPORARY}", path.display()));
        let mut options = OpenOptions::new();
        // What an earlier process of this moment left is not whole.
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&temporary).map_err(|e| attempt().because(e))?;
        let text = match &self.at_rest {
            AtRest::Plain => Body::Plain(file),
            AtRest::Encrypted(recipients) => {
                let writer = secrets::encryptor(recipients)?.wrap_output(file);
                Body::Encrypted(Box::new(writer.map_err(|e| attempt().because(e))?))
            }
        };
        Ok(FileSnapshot { path, temporary, body: Some(text) })
    }
}

fn failed(path: &Path) -> Error {
    Error::new(Kind::Systems, format!("could not write the snapshot {}", path.display()))
        .hint("what follows cannot be undone without one, so it was not started")
}

/// A folder that only its owner can read, and that version control leaves alone.
fn make_private(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    files::create_private_folder(folder)?;
    std::fs::write(folder.join(".gitignore"), "*\n")
}

impl SnapshotStore for SnapshotFolder {
    fn create<'a>(&'a self, of: &'a SnapshotOf) -> BoxFuture<'a, Result<Box<dyn NewSnapshot>>> {
        let opened = self.open(of).map(|file| -> Box<dyn NewSnapshot> { Box::new(file) });
        Box::pin(std::future::ready(opened))
    }
}

/// A snapshot that is being written.
struct FileSnapshot {
    path: PathBuf,
    temporary: PathBuf,
    /// Gone once it is kept.
    body: Option<Body>,
}

enum Body {
    Plain(File),
    Encrypted(Box<StreamWriter<File>>),
}

impl Body {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(file) => file,
            Self::Encrypted(writer) => writer,
        }
    }

    fn finish(self) -> io::Result<File> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Encrypted(writer) => writer.finish(),
        }
    }
}

impl FileSnapshot {
    /// Writes go to the system's memory and do not block for long.
    fn writing<T>(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Poll<io::Result<T>> {
        Poll::Ready(match &mut self.body {
            Some(body) => write(body.writer()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }
}

impl AsyncWrite for FileSnapshot {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().writing(|writer| writer.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writing(|writer| writer.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writing(|writer| writer.flush())
    }
}

impl NewSnapshot for FileSnapshot {
    fn keep(mut self: Box<Self>, _: talos_client::Snapshot) -> BoxFuture<'static, Result<String>> {
        let keep = |this: &mut Self| -> io::Result<()> {
            let body = this.body.take().ok_or(io::ErrorKind::BrokenPipe)?;
            body.finish()?.sync_all()?;
            std::fs::rename(&this.temporary, &this.path)?;
            match this.path.parent() {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            }
        };
        let kept = keep(&mut self);
        let place = self.path.display().to_string();
        let kept = kept.map(|()| place).map_err(|e| {
            let _ = std::fs::remove_file(&self.temporary);
            failed(&self.path).because(e)
        });
        Box::pin(std::future::ready(kept))
    }
}

impl Drop for FileSnapshot {
    fn drop(&mut self) {
        if self.body.take().is_some() {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::snapshots::Facts;

    fn of() -> SnapshotOf {
        let at = "2026-03-01T10:00:00Z".parse().unwrap();
        let (cluster, node) = ("home".to_owned(), "home-control-1".to_owned());
        SnapshotOf { cluster, node, at, facts: Facts::default() }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_snapshot_has_its_name_only_once_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("backups");
        let store = SnapshotFolder::at(&inner, AtRest::Plain);
        let mut new = store.create(&of()).await.unwrap();
        new.write_all(b"half").await.unwrap();
        drop(new);
        assert_eq!(names(&inner), [".gitignore"], "nothing is left of it");
        let mut new = store.create(&of()).await.unwrap();
        new.write_all(b"whole").await.unwrap();
        let place = new.keep(talos_client::Snapshot { bytes: 5, sha256: String::new() }).await.unwrap();
        assert_eq!(std::fs::read(&place).unwrap(), b"whole");
        assert_eq!(names(&inner), [".gitignore", "home-20260301-100000-home-control-1.etcd"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[tokio::test]
    async fn a_snapshot_is_encrypted_like_the_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let identity = secrets::Identity::generate();
        let store = SnapshotFolder::at(folder.path(), AtRest::Encrypted(identity.recipients()));
        let mut new = store.create(&of()).await.unwrap();
        new.write_all(b"every secret").await.unwrap();
        let place = new.keep(talos_client::Snapshot { bytes: 12, sha256: String::new() }).await.unwrap();
        assert!(place.ends_with(".etcd.age"), "{place}");
        let bytes = std::fs::read(&place).unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1"), "as age writes it");
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
        assert_eq!(*secrets::decrypted(&identity, &bytes).unwrap(), b"every secret");
    }
}
