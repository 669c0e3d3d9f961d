//! The secrets bundle at rest: one file, encrypted with age, never overwritten.
//!
//! The bundle is the only thing that Talosmith must keep: everything else is derived from the file or read from the
//! world. So it is on disk, flushed, before the first machine sees any of it. Plain bundles of talosctl are read as they
//! are.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::str::FromStr;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use secrecy::{ExposeSecret, SecretString};
use talos::secrets::Bundle;
use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};

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
                .remedy("it is a line that begins with AGE-SECRET-KEY-1, as age-keygen writes it")
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
        Error::new(Kind::Input, "this is not an age recipient").remedy(
            "it is the public key of an identity and begins with age1; `age-keygen -y FILE` prints it",
        )
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
    /// The bundle.
    pub bundle: Bundle,
    /// How it lies there. The recipients are those that the file itself remembers: age does not tell.
    pub at_rest: AtRest,
}

/// The line of the encrypted text that remembers for whom it is.
const RECIPIENT: &str = "# recipient: ";

/// Reads a bundle. `None` when there is no file. A plain one needs no identity.
///
/// # Errors
///
/// When the file cannot be read, opened with this identity, or understood.
pub fn load(path: &Path, identity: Option<&Identity>) -> Result<Option<Kept>> {
    let attempt =
        |what: &str| Error::new(Kind::Secrets, format!("could not {what} the bundle {}", path.display()));
    let bytes = match std::fs::read(path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(attempt("read").because(error)),
    };
    let encrypted = is_age(&bytes);
    let plain = match (encrypted, identity) {
        (false, _) => bytes,
        (true, None) => return Err(attempt("open").remedy("there is no identity that opens it")),
        (true, Some(identity)) => {
            let other = identity.recipients().join(", ");
            let remedy = format!(
                "it was encrypted to another identity than {other}; give the right one with TALOSMITH_IDENTITY"
            );
            decrypt(identity, &bytes).map_err(|e| attempt("open").remedy(remedy).because(e))?
        }
    };
    let text = std::str::from_utf8(&plain).map_err(|e| attempt("read").because(e))?;
    let bundle = Bundle::parse(text).map_err(|e| {
        attempt("understand")
            .remedy("restore it from your backup, or import a secrets.yaml of talosctl")
            .because(e)
    })?;
    let at_rest = match encrypted {
        true => AtRest::Encrypted(remembered(text, identity)),
        false => AtRest::Plain,
    };
    Ok(Some(Kept { bundle, at_rest }))
}

/// Whom the text says that it was encrypted to; one that says nothing was encrypted to the identity that opened it.
fn remembered(text: &str, identity: Option<&Identity>) -> Vec<String> {
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    let found: Vec<String> =
        lines.filter_map(|line| line.strip_prefix(RECIPIENT)).map(str::to_owned).collect();
    if found.is_empty() { identity.map(Identity::recipients).unwrap_or_default() } else { found }
}

/// Writes a new bundle, flushed to the disk. An existing file is never overwritten.
///
/// # Errors
///
/// When there is one already, or it cannot be written.
pub fn create(path: &Path, bundle: &Bundle, at_rest: &AtRest) -> Result<()> {
    write(path, bundle, at_rest, true)
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
            .remedy("do it with an identity that stays, or add another one of yours first"));
    }
    let at_rest = AtRest::Encrypted(recipients.to_vec());
    let attempt =
        || Error::new(Kind::Secrets, "the bundle could not be encrypted for them, nothing was changed");
    let text = text_of(&kept.bundle, &at_rest)?;
    let opened = decrypt(identity, text.as_bytes()).map_err(|e| attempt().because(e))?;
    let same = std::str::from_utf8(&opened).ok().and_then(|text| Bundle::parse(text).ok());
    if same.is_none_or(|same| *Zeroizing::new(same.to_yaml()) != *Zeroizing::new(kept.bundle.to_yaml())) {
        return Err(attempt());
    }
    write(path, &kept.bundle, &at_rest, false)
}

fn write(path: &Path, bundle: &Bundle, at_rest: &AtRest, new: bool) -> Result<()> {
    let attempt = || Error::new(Kind::Secrets, format!("could not write the bundle {}", path.display()));
    let text = text_of(bundle, at_rest)?;
    write_private(path, text.as_bytes(), new).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            attempt().remedy("there is one already, and a bundle is never overwritten").because(e)
        }
        _ => attempt().because(e),
    })
}

/// What stands in the file.
fn text_of(bundle: &Bundle, at_rest: &AtRest) -> Result<Zeroizing<String>> {
    let plain = Zeroizing::new(bundle.to_yaml());
    let AtRest::Encrypted(recipients) = at_rest else { return Ok(plain) };
    let header: String = recipients.iter().map(|one| format!("{RECIPIENT}{one}\n")).collect();
    let keys: Vec<age::x25519::Recipient> =
        recipients.iter().map(|one| recipient(one)).collect::<Result<_>>()?;
    let plain = Zeroizing::new(format!("{header}{}", *plain));
    encrypt(&keys, plain.as_bytes())
        .map(Zeroizing::new)
        .map_err(|e| Error::new(Kind::Secrets, "could not encrypt the bundle").because(e))
}

fn encrypt(recipients: &[age::x25519::Recipient], plain: &[u8]) -> std::io::Result<String> {
    let recipients = recipients.iter().map(|one| -> &dyn age::Recipient { one });
    let encryptor = age::Encryptor::with_recipients(recipients).map_err(std::io::Error::other)?;
    let mut text = Vec::new();
    let armor = ArmoredWriter::wrap_output(&mut text, Format::AsciiArmor)?;
    let mut writer = encryptor.wrap_output(armor)?;
    writer.write_all(plain)?;
    writer.finish()?.finish()?;
    String::from_utf8(text).map_err(std::io::Error::other)
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
    // A state is JSON, a bundle of talosctl is YAML and never begins so.
    let read = match text.trim_start().starts_with('{') {
        true => Bundle::from_tofu_state(text),
        false => Bundle::parse(text),
    };
    read.map_err(|e| {
        attempt()
            .remedy("give a secrets.yaml of talosctl, or an OpenTofu state that holds talos_machine_secrets")
            .because(e)
    })
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

    fn bundle() -> Bundle {
        let contract = talos::config::Contract::parse("v1.13.9").unwrap();
        Bundle::placeholder(contract, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap()
    }

    fn encrypted(to: &[&Identity]) -> AtRest {
        AtRest::Encrypted(to.iter().flat_map(|identity| identity.recipients()).collect())
    }

    #[test]
    fn a_bundle_comes_back_and_another_identity_does_not_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home.secrets.age");
        let identity = Identity::generate();
        assert!(load(&path, Some(&identity)).unwrap().is_none());
        let bundle = bundle();
        create(&path, &bundle, &encrypted(&[&identity])).unwrap();
        let kept = load(&path, Some(&identity)).unwrap().unwrap();
        assert_eq!(kept.bundle.to_yaml(), bundle.to_yaml());
        assert_eq!(kept.at_rest, encrypted(&[&identity]));
        let on_disk = std::fs::read_to_string(&path).unwrap();
        assert!(on_disk.starts_with("-----BEGIN AGE ENCRYPTED FILE-----"));
        let error = create(&path, &bundle, &AtRest::Plain).unwrap_err();
        assert!(error.advice().unwrap().contains("never overwritten"), "{error}");
        let error = load(&path, Some(&Identity::generate())).unwrap_err();
        assert_eq!(error.kind(), Kind::Secrets);
        assert!(error.advice().unwrap().contains("TALOSMITH_IDENTITY"));
        assert!(load(&path, None).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), on_disk, "nothing of this changed it");
    }

    #[test]
    fn several_may_open_it_and_nobody_locks_himself_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home.secrets.age");
        let (eva, tom) = (Identity::generate(), Identity::generate());
        create(&path, &bundle(), &encrypted(&[&eva])).unwrap();
        let kept = load(&path, Some(&eva)).unwrap().unwrap();
        let both: Vec<String> = [&eva, &tom].iter().flat_map(|one| one.recipients()).collect();
        encrypt_again(&path, &kept, &eva, &both).unwrap();
        let kept = load(&path, Some(&tom)).unwrap().unwrap();
        assert_eq!(kept.at_rest, AtRest::Encrypted(both));
        let error = encrypt_again(&path, &kept, &eva, &tom.recipients()).unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
        assert!(load(&path, Some(&eva)).is_ok(), "nothing was changed");
        encrypt_again(&path, &kept, &tom, &tom.recipients()).unwrap();
        assert!(load(&path, Some(&eva)).is_err());
    }

    #[test]
    fn a_plain_bundle_needs_no_identity_and_what_others_made_is_imported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home.secrets.yaml");
        let bundle = bundle();
        create(&path, &bundle, &AtRest::Plain).unwrap();
        assert_eq!(load(&path, None).unwrap().unwrap().at_rest, AtRest::Plain);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(import(&text, "x").unwrap().cluster_id(), bundle.cluster_id());
        for wrong in ["{}", "a: b", "", "AGE-SECRET-KEY-1"] {
            let error = import(wrong, "x").unwrap_err();
            assert!(error.advice().unwrap().contains("secrets.yaml"), "{wrong}");
        }
    }

    #[test]
    fn an_identity_survives_its_text() {
        let identity = Identity::generate();
        let again = Identity::parse(identity.to_text().expose_secret()).unwrap();
        assert_eq!(again.recipients(), identity.recipients());
        let two = format!(
            "{}{}",
            identity.to_text().expose_secret(),
            Identity::generate().to_text().expose_secret()
        );
        assert_eq!(Identity::parse(&two).unwrap().recipients().len(), 2);
        assert!(Identity::parse("hello").is_err() && Identity::parse("# nothing\n").is_err());
        assert!(!format!("{identity:?}").contains("SECRET"));
        let error = check_recipient(identity.to_text().expose_secret()).unwrap_err();
        assert!(!format!("{error:?}").contains("SECRET-KEY-1"), "not repeated");
    }
}
