//! The secrets bundle at rest: one file, encrypted with age, never overwritten.
//!
//! The bundle is the only thing that Talosmith must keep: everything else is derived from the file or read from the
//! world. So it is on disk, flushed, before the first machine sees any of it. Plain bundles of talosctl are read as they
//! are.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use talos::secrets::Bundle;
use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};

/// An age identity: opens what was encrypted to it.
#[derive(Clone)]
pub struct Identity(age::x25519::Identity);

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.0.to_public())
    }
}

impl Identity {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self(age::x25519::Identity::generate())
    }

    /// The first identity in a text such as age-keygen writes: comments, then `AGE-SECRET-KEY-1…`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn parse(text: &str) -> Result<Self> {
        let line = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#'));
        line.and_then(|l| age::x25519::Identity::from_str(l).ok()).map(Self).ok_or_else(|| {
            Error::new(Kind::Secrets, "this is not an age identity")
                .remedy("it is a line that begins with AGE-SECRET-KEY-1, as age-keygen writes it")
        })
    }

    /// The public half, which may be shown.
    #[must_use]
    pub fn recipient(&self) -> String {
        self.0.to_public().to_string()
    }

    /// The text to keep in a file.
    #[must_use]
    pub fn to_text(&self) -> SecretString {
        let text = format!("# public key: {}\n{}\n", self.recipient(), self.0.to_string().expose_secret());
        SecretString::from(text)
    }
}

/// Where the bundle of one cluster is.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    identity: Identity,
}

impl Store {
    /// A bundle at `path`, opened with `identity`.
    #[must_use]
    pub fn new(path: PathBuf, identity: Identity) -> Self {
        Self { path, identity }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the bundle. `None` when there is no file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, opened with this identity, or understood.
    pub fn load(&self) -> Result<Option<Bundle>> {
        let attempt = |what: &str| {
            Error::new(Kind::Secrets, format!("could not {what} the bundle {}", self.path.display()))
        };
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(attempt("read").because(error)),
        };
        let plain = if is_age(&bytes) {
            let opened = age::decrypt(&self.identity.0, &bytes).map_err(|e| {
                attempt("open")
                    .remedy(format!(
                        "it was encrypted to another identity than {}; give the right one with TALOSMITH_IDENTITY",
                        self.identity.recipient()
                    ))
                    .because(e)
            })?;
            Zeroizing::new(opened)
        } else {
            bytes
        };
        let text = std::str::from_utf8(&plain).map_err(|e| attempt("read").because(e))?;
        let bundle = Bundle::parse(text).map_err(|e| {
            attempt("understand")
                .remedy("restore it from your backup, or import a secrets.yaml of talosctl")
                .because(e)
        })?;
        Ok(Some(bundle))
    }

    /// Writes a new bundle, encrypted and flushed to the disk. An existing file is never overwritten.
    ///
    /// # Errors
    ///
    /// When there is one already, or it cannot be written.
    pub fn create(&self, bundle: &Bundle) -> Result<()> {
        let attempt =
            || Error::new(Kind::Secrets, format!("could not write the bundle {}", self.path.display()));
        let plain = bundle.to_yaml();
        let armored = age::encrypt_and_armor(&self.identity.0.to_public(), plain.as_bytes())
            .map_err(|e| attempt().because(e))?;
        write_private(&self.path, armored.as_bytes(), true).map_err(|e| attempt().because(e))
    }
}

fn is_age(bytes: &[u8]) -> bool {
    bytes.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") || bytes.starts_with(b"age-encryption.org/")
}

/// Writes a file that only its owner may read, flushed together with its folder. With `new`, an existing file is an
/// error; otherwise it is replaced in one step.
///
/// # Errors
///
/// What the file system says.
pub fn write_private(path: &Path, bytes: &[u8], new: bool) -> std::io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = folder.join(name);
    // What an interrupted run left behind was never moved into place, so nobody relies on it.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    if new {
        // A link fails where the name exists, a rename would replace it.
        let linked = std::fs::hard_link(&temporary, path);
        std::fs::remove_file(&temporary)?;
        linked?;
    } else {
        std::fs::rename(&temporary, path)?;
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_are_private_and_new_ones_never_replace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write_private(&path, b"one", true).unwrap();
        assert_eq!(write_private(&path, b"two", true).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write_private(&path, b"three", false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary stays");
    }

    #[test]
    fn a_bundle_comes_back_and_another_identity_does_not_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home.secrets.age");
        let store = Store::new(path.clone(), Identity::generate());
        assert!(store.load().unwrap().is_none());
        let contract = talos::config::Contract::parse("v1.13.9").unwrap();
        let bundle = Bundle::generate(contract, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        store.create(&bundle).unwrap();
        assert_eq!(store.load().unwrap().unwrap().cluster_id(), bundle.cluster_id());
        let on_disk = std::fs::read_to_string(&path).unwrap();
        assert!(on_disk.starts_with("-----BEGIN AGE ENCRYPTED FILE-----"));
        assert!(store.create(&bundle).is_err(), "never overwritten");
        let error = Store::new(path, Identity::generate()).load().unwrap_err();
        assert_eq!(error.kind(), Kind::Secrets);
        assert!(error.advice().unwrap().contains("TALOSMITH_IDENTITY"));
    }

    #[test]
    fn an_identity_survives_its_text() {
        let identity = Identity::generate();
        let again = Identity::parse(identity.to_text().expose_secret()).unwrap();
        assert_eq!(again.recipient(), identity.recipient());
        assert!(Identity::parse("hello").is_err());
        assert!(!format!("{identity:?}").contains("SECRET"));
    }
}
