//! The secrets bundle at rest: one file, encrypted with age, never overwritten.
//!
//! The bundle is the only thing that Talosmith must keep: everything else is derived from the file or read from the
//! world. So it is on disk, flushed, read back and opened, before the first machine sees any of it. Plain bundles of talosctl are
//! read as they are.
//!
//! The text is Talos' `secrets.yaml` with comments above it: the form of the file, and for whom it is encrypted. A file of a newer
//! form is refused. What this release does not know of the YAML is kept when the bundle is encrypted for others.

mod form;

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::path::Path;
use std::str::FromStr;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::stream::StreamReader;
use jiff::Timestamp;
use model::spec::Spec;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest as _, Sha256};
use talos::config::Contract;
use talos::secrets::Bundle;
use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};
use crate::files::{self, At, Existing};

pub use crate::files::write_private;

/// Age identities: they open what was encrypted to one of them.
#[derive(Clone)]
pub struct Identity(Vec<age::x25519::Identity>);

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.recipients().join(", "))
    }
}

impl Identity {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self(vec![age::x25519::Identity::generate()])
    }

    /// The identities in a text such as age-keygen writes: comments, and lines of `AGE-SECRET-KEY-1…`.
    ///
    /// # Errors
    ///
    /// When there is none, or a line that is something else.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        let read: std::result::Result<Vec<_>, _> = lines.map(age::x25519::Identity::from_str).collect();
        read.ok().filter(|all| !all.is_empty()).map(Self).ok_or_else(|| {
            Error::new(Kind::Secrets, "this is not an age identity")
                .hint("it is a line that starts with AGE-SECRET-KEY-1, as age-keygen writes it")
        })
    }

    /// The public halves, which may be shown.
    #[must_use]
    pub fn recipients(&self) -> Vec<String> {
        self.0.iter().map(|key| key.to_public().to_string()).collect()
    }

    /// The text to keep in a file.
    #[must_use]
    pub fn to_text(&self) -> SecretString {
        let one = |key: &age::x25519::Identity| {
            format!("# public key: {}\n{}\n", key.to_public(), key.to_string().expose_secret())
        };
        SecretString::from(self.0.iter().map(one).collect::<String>())
    }
}

/// Creates an identity, unless another process does so at the same time; `at` is told each moment of the write. What counts is the one
/// on the disk, so it is read from there. Says whether it is new.
///
/// # Errors
///
/// When it cannot be written, or not be read again.
pub fn create_identity(path: &Path, at: &mut At<'_>) -> Result<(Identity, bool)> {
    let attempt =
        |what: &str| Error::new(Kind::Secrets, format!("could not {what} the identity {}", path.display()));
    let text = Identity::generate().to_text();
    let is_new = match files::write(path, text.expose_secret().as_bytes(), Existing::Keep, &|_| Ok(()), at) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(attempt("write").because(error)),
    };
    let kept = std::fs::read_to_string(path).map(SecretString::from);
    let kept = kept.map_err(|e| attempt("read").hint("run the command again").because(e))?;
    Ok((Identity::parse(kept.expose_secret())?, is_new))
}

/// Checks that a text is an age recipient.
///
/// # Errors
///
/// When it is none.
pub fn check_recipient(text: &str) -> Result<()> {
    recipient(text).map(drop)
}

fn recipient(text: &str) -> Result<age::x25519::Recipient> {
    age::x25519::Recipient::from_str(text).map_err(|_| {
        // A secret key may have been given by mistake, so the text is not repeated.
        Error::new(Kind::Input, "this is not an age recipient")
            .hint("it is the public key of an identity and starts with age1; `age-keygen -y FILE` prints it")
    })
}

/// How a bundle lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtRest {
    /// Encrypted to these recipients.
    Encrypted(Vec<String>),
    /// As it is, readable by its owner only.
    Plain,
}

/// A bundle that was read, and how it lay on the disk.
#[derive(Debug, Clone)]
pub struct Kept {
    pub bundle: Bundle,
    /// How it lies there. The recipients are those that the file itself remembers: age does not tell.
    pub at_rest: AtRest,
    /// The YAML as it was read, with whatever another release wrote into it.
    body: SecretString,
}

/// Reads a bundle. `None` when there is no file. A plain one needs no identity.
///
/// # Errors
///
/// When the file cannot be read, opened with this identity, or understood, or is of a newer form.
pub fn load(path: &Path, identity: Option<&Identity>) -> Result<Option<Kept>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let attempt = format!("could not read the bundle {}", path.display());
            return Err(Error::new(Kind::Secrets, attempt).because(error));
        }
    };
    open(path, &bytes, identity).map(Some)
}

/// Opens what stands in the file of a bundle.
fn open(path: &Path, bytes: &[u8], identity: Option<&Identity>) -> Result<Kept> {
    let attempt =
        |what: &str| Error::new(Kind::Secrets, format!("could not {what} the bundle {}", path.display()));
    let encrypted = is_age(bytes);
    let plain = match (encrypted, identity) {
        (false, _) => Zeroizing::new(bytes.to_owned()),
        (true, None) => return Err(attempt("open").hint("there is no identity that opens it")),
        (true, Some(identity)) => {
            decrypt(identity, bytes).map_err(|e| attempt("open").hint(closed(&e, identity)).because(e))?
        }
    };
    let text = std::str::from_utf8(&plain).map_err(|e| attempt("read").because(e))?;
    let header = form::read(text)
        .map_err(|e| attempt("use").hint("upgrade Talosmith; the bundle is left as it is").because(e))?;
    let bundle = Bundle::parse(text).map_err(|e| {
        attempt("understand")
            .hint("restore it from your backup, or import a secrets.yaml of talosctl")
            .because(e)
    })?;
    let at_rest = match encrypted {
        // One that says nothing was encrypted to the identity that opened it.
        true if header.recipients.is_empty() => {
            AtRest::Encrypted(identity.map(Identity::recipients).unwrap_or_default())
        }
        true => AtRest::Encrypted(header.recipients),
        false => AtRest::Plain,
    };
    Ok(Kept { bundle, at_rest, body: SecretString::from(form::body(text)) })
}

/// What helps with a bundle that an identity does not open.
fn closed(why: &age::DecryptError, identity: &Identity) -> String {
    match why {
        age::DecryptError::NoMatchingKeys => format!(
            "it was encrypted to another identity than {}; give the right one with TALOSMITH_IDENTITY",
            identity.recipients().join(", ")
        ),
        _ => "the file is damaged or cut short: restore it from your backup".to_owned(),
    }
}

/// Writes a new bundle, flushed to the disk. An existing file is never overwritten. What was written is read back and opened with
/// `identity` before it gets its name, and once more afterwards; so that this proves something, `identity` is what was read from where
/// it is kept, not what was made a moment ago. A plain bundle needs none.
///
/// # Errors
///
/// When there is one already, it cannot be written, or `identity` does not open it. There is no new file then.
pub fn create(path: &Path, bundle: &Bundle, at_rest: &AtRest, identity: Option<&Identity>) -> Result<()> {
    create_at(path, bundle, at_rest, identity, &mut |_| Ok(()))
}

/// Creates the secrets of a new cluster in the form that its Talos version understands, beside other work: its RSA key takes seconds.
///
/// # Errors
///
/// When the file names a version that there is not, or the keys cannot be created.
pub async fn generate(spec: &Spec, now: Timestamp) -> Result<Bundle> {
    let attempt = |kind| Error::new(kind, "could not create the cluster's secrets");
    let version = spec.versions.contract.as_ref().unwrap_or(&spec.versions.talos);
    let contract = Contract::parse(version).map_err(|e| attempt(Kind::Input).because(e))?;
    let made = tokio::task::spawn_blocking(move || Bundle::generate(contract, now)).await;
    made.map_err(|e| attempt(Kind::Systems).because(e))?.map_err(|e| attempt(Kind::Secrets).because(e))
}

/// The same, where `at` is told each moment of the write.
///
/// # Errors
///
/// As [`create`].
pub fn create_at(
    path: &Path,
    bundle: &Bundle,
    at_rest: &AtRest,
    identity: Option<&Identity>,
    at: &mut At<'_>,
) -> Result<()> {
    let body = Zeroizing::new(bundle.to_yaml());
    write(path, &body, at_rest, identity, Existing::Keep, at)
}

/// Encrypts the same bundle for others. The old file is replaced in one step, after the new text was opened and found to
/// hold the same.
///
/// # Errors
///
/// When none of the recipients is `identity`, so that it would lock itself out, or the file cannot be written.
pub fn encrypt_again(path: &Path, kept: &Kept, identity: &Identity, recipients: &[String]) -> Result<()> {
    if !identity.recipients().iter().any(|own| recipients.contains(own)) {
        return Err(Error::new(Kind::Refused, "afterwards this identity could not open the bundle any more")
            .hint("do it with an identity that stays, or add another one of yours first"));
    }
    let at_rest = AtRest::Encrypted(recipients.to_vec());
    write(path, kept.body.expose_secret(), &at_rest, Some(identity), Existing::Replace, &mut |_| Ok(()))
}

fn write(
    path: &Path,
    body: &str,
    at_rest: &AtRest,
    identity: Option<&Identity>,
    existing: Existing,
    at: &mut At<'_>,
) -> Result<()> {
    let attempt = || Error::new(Kind::Secrets, format!("could not write the bundle {}", path.display()));
    let text = text_of(body, at_rest)?;
    let is_whole = |kept: &Kept| kept.body.expose_secret() == body && kept.at_rest == *at_rest;
    let check = |bytes: &[u8]| {
        let kept = open(path, bytes, identity).map_err(|e| io::Error::other(e.causes().join(": ")))?;
        if is_whole(&kept) { Ok(()) } else { Err(io::Error::other("it does not hold what was written")) }
    };
    files::write(path, text.as_bytes(), existing, &check, at).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            attempt().hint("there is one already, and a bundle is never overwritten").because(e)
        }
        _ => attempt().hint("nothing was changed; repair the cause and run the command again").because(e),
    })?;
    match load(path, identity)? {
        Some(kept) if is_whole(&kept) => Ok(()),
        _ => Err(attempt().hint("another program replaced it in this moment; look at the file")),
    }
}

/// What stands in the file.
fn text_of(body: &str, at_rest: &AtRest) -> Result<Zeroizing<String>> {
    let AtRest::Encrypted(recipients) = at_rest else {
        return Ok(Zeroizing::new(format!("{}{body}", form::header(&[]))));
    };
    let keys: Vec<age::x25519::Recipient> =
        recipients.iter().map(|one| recipient(one)).collect::<Result<_>>()?;
    let plain = Zeroizing::new(format!("{}{body}", form::header(recipients)));
    encrypt(&keys, plain.as_bytes())
        .map(Zeroizing::new)
        .map_err(|e| Error::new(Kind::Secrets, "could not encrypt the bundle").because(e))
}

/// Encrypts a stream so that these recipients can open it.
///
/// # Errors
///
/// When one of them is none, or there is none.
pub(crate) fn encryptor(recipients: &[String]) -> Result<age::Encryptor> {
    let keys: Vec<age::x25519::Recipient> =
        recipients.iter().map(|one| recipient(one)).collect::<Result<_>>()?;
    let keys = keys.iter().map(|one| -> &dyn age::Recipient { one });
    age::Encryptor::with_recipients(keys).map_err(|e| {
        Error::new(Kind::Secrets, "could not encrypt for the recipients of the bundle").because(e)
    })
}

/// A small text, encrypted so that these recipients can open it, in letters.
///
/// # Errors
///
/// When one of them is none, or there is none.
pub(crate) fn encrypted_text(recipients: &[String], plain: &[u8]) -> Result<String> {
    let keys: Vec<age::x25519::Recipient> =
        recipients.iter().map(|one| recipient(one)).collect::<Result<_>>()?;
    encrypt(&keys, plain)
        .map_err(|e| Error::new(Kind::Secrets, "could not encrypt for the recipients").because(e))
}

/// What a small file holds that was encrypted to this identity.
pub(crate) fn decrypted(
    identity: &Identity,
    bytes: &[u8],
) -> std::result::Result<Zeroizing<Vec<u8>>, age::DecryptError> {
    decrypt(identity, bytes)
}

/// What a stream holds that was encrypted to this identity, as it is read.
pub(crate) fn decrypting<R: BufRead>(
    identity: &Identity,
    stream: R,
) -> std::result::Result<StreamReader<R>, age::DecryptError> {
    let identities = identity.0.iter().map(|one| -> &dyn age::Identity { one });
    age::Decryptor::new_buffered(stream)?.decrypt(identities)
}

impl Kept {
    /// The same bundle as another file, encrypted to these recipients: what it is once it has the name of a bundle.
    pub(crate) fn copy_for(&self, recipients: &[String]) -> Result<Zeroizing<String>> {
        text_of(self.body.expose_secret(), &AtRest::Encrypted(recipients.to_vec()))
    }

    /// The SHA-256 of the bundle itself, in hex. It is the same however the bundle is encrypted.
    #[must_use]
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.body.expose_secret().as_bytes()))
    }
}

fn encrypt(recipients: &[age::x25519::Recipient], plain: &[u8]) -> io::Result<String> {
    let recipients = recipients.iter().map(|one| -> &dyn age::Recipient { one });
    let encryptor = age::Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
    let mut text = Vec::new();
    let armor = ArmoredWriter::wrap_output(&mut text, Format::AsciiArmor)?;
    let mut writer = encryptor.wrap_output(armor)?;
    writer.write_all(plain)?;
    writer.finish()?.finish()?;
    String::from_utf8(text).map_err(io::Error::other)
}

fn decrypt(identity: &Identity, bytes: &[u8]) -> std::result::Result<Zeroizing<Vec<u8>>, age::DecryptError> {
    let decryptor = age::Decryptor::new_buffered(ArmoredReader::new(bytes))?;
    let identities = identity.0.iter().map(|one| -> &dyn age::Identity { one });
    let mut reader = decryptor.decrypt(identities)?;
    let mut plain = Zeroizing::new(Vec::new());
    reader.read_to_end(&mut plain)?;
    Ok(plain)
}

/// Reads a bundle that another tool made: a `secrets.yaml` of talosctl, or an OpenTofu state.
///
/// # Errors
///
/// When it is neither, or parts of it are missing or unsound.
pub fn import(text: &str, from: &str) -> Result<Bundle> {
    let attempt = || Error::new(Kind::Secrets, format!("could not import the secrets in {from}"));
    // A state is JSON, a bundle of talosctl is YAML and never starts so.
    let read = match text.trim_start().starts_with('{') {
        true => Bundle::from_tofu_state(text),
        false => Bundle::parse(text),
    };
    read.map_err(|e| {
        attempt()
            .hint("give a secrets.yaml of talosctl, or an OpenTofu state that holds talos_machine_secrets")
            .because(e)
    })
}

fn is_age(bytes: &[u8]) -> bool {
    bytes.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") || bytes.starts_with(b"age-encryption.org/")
}

#[cfg(test)]
mod tests;
