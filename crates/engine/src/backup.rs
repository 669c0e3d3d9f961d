//! Backups of etcd in a store: a snapshot, the card that describes it, and a copy of the secrets bundle.
//!
//! ```text
//! FOLDER/CLUSTER/CLUSTER-TIME.snap.zst.age   the snapshot, compressed with zstd, encrypted with age
//! FOLDER/CLUSTER/CLUSTER-TIME.card.age       what is in it: JSON, encrypted to the same recipients
//! FOLDER/CLUSTER/CLUSTER-TIME.secrets.age    the bundle: without its keys, the Secrets in the snapshot cannot be read
//! ```
//!
//! Names and layers of the snapshot are those of talos-backup. The snapshot gets its name last and loses it first: what has a name is
//! whole. Nothing is deleted but by [`Backups::delete`], which deletes what [`Backups::prunable`] found.

mod card;
mod name;
mod opened;
mod prune;
mod sealed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ambient::Clock;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use self::name::Object;
use self::opened::{Closed, Stopped};
use self::sealed::NewBackup;
use crate::error::{Error, Kind, Result};
use crate::files::{self, NewFile};
use crate::secrets::{self, Identity, Kept};
use crate::snapshots::{NewSnapshot, SnapshotOf, SnapshotStore};

pub use card::{Card, CardError};
pub use name::Name;
pub use prune::Prunable;

/// The code of a backup that was read and is not what was written.
const DAMAGED: &str = "backup-damaged";

/// Backups of one cluster in a folder.
#[derive(Clone)]
pub struct Backups {
    /// With the name of the cluster.
    folder: PathBuf,
    cluster: String,
    recipients: Vec<String>,
    identity: Option<Identity>,
    bundle: Option<Arc<Kept>>,
    clock: Clock,
}

/// A backup in a store.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// How many bytes the stored snapshot has.
    pub bytes: u64,
    /// Its card.
    pub card: CardState,
}

/// What is known of the card of a backup.
#[derive(Debug, Clone)]
pub enum CardState {
    /// It was read.
    Read(Box<Card>),
    /// There is none: another program made the backup.
    Missing,
    /// It cannot be read, and why.
    Unreadable(String),
}

/// What a verification found.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The backup, with a card that says when it was verified.
    pub entry: Entry,
    /// The snapshot in it.
    pub snapshot: talos_client::Snapshot,
    /// What is not as it should be and does not harm the snapshot.
    pub warnings: Vec<String>,
}

/// How the backups of a cluster stand, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// How many there are.
    pub count: usize,
    /// When the newest one was made.
    pub newest: Option<Timestamp>,
    /// When the newest one was made that was verified.
    pub verified: Option<Timestamp>,
}

/// What is known of the backups of a cluster at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When it was asked for.
    pub at: Timestamp,
    /// How they stand, or why that is not known.
    pub summary: std::result::Result<Summary, String>,
}

impl Entry {
    /// The card, if it could be read and is of this backup.
    #[must_use]
    pub fn card(&self) -> Option<&Card> {
        match &self.card {
            CardState::Read(card) => Some(card),
            CardState::Missing | CardState::Unreadable(_) => None,
        }
    }

    /// When it was verified. A file of another size than the card says is another file.
    #[must_use]
    pub fn verified_at(&self) -> Option<Timestamp> {
        self.card().filter(|card| card.snapshot.object.bytes == self.bytes)?.verified_at
    }
}

/// An attempt that failed on an object.
fn failed(what: &str, path: &Path) -> Error {
    Error::new(Kind::Systems, format!("could not {what} {}", path.display())).coded("backup-store").hint(
        "nothing was deleted, and no incomplete backup is left; correct the cause and run the command again",
    )
}

impl Backups {
    /// Backups in this folder, which is created once it is needed. Each cluster has a folder of its own in it.
    pub fn at(folder: &Path, cluster: &str, clock: Clock) -> Self {
        Self {
            folder: folder.join(cluster),
            cluster: cluster.to_owned(),
            recipients: vec![],
            identity: None,
            bundle: None,
            clock,
        }
    }

    /// The same, with the bundle that new backups hold and those who can open them.
    #[must_use]
    pub fn with_bundle(self, bundle: Kept, recipients: Vec<String>) -> Self {
        Self { bundle: Some(Arc::new(bundle)), recipients, ..self }
    }

    /// The same, with the identity that opens backups.
    #[must_use]
    pub fn with_identity(self, identity: Option<Identity>) -> Self {
        Self { identity, ..self }
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Who can open new ones.
    #[must_use]
    pub fn recipients(&self) -> &[String] {
        &self.recipients
    }

    /// Makes the folder, for its owner only, and removes what dead processes left there.
    fn prepare(&self) -> io::Result<()> {
        files::remove_abandoned_of(&self.folder, &format!("{}-", self.cluster));
        let above = self.folder.parent().unwrap_or(&self.folder);
        if above.is_dir() {
            return Ok(());
        }
        files::create_private_folder(above)?;
        // Backups do not belong into version control.
        std::fs::write(above.join(".gitignore"), "*\n")
    }

    /// A name that no backup has. Two that start in one second are a second apart.
    fn free_name(&self, at: Timestamp) -> Result<Name> {
        let taken: BTreeSet<String> = self.objects()?.iter().map(|(stem, _)| stem.clone()).collect();
        let mut name = Name::new(&self.cluster, at);
        while taken.contains(name.stem()) {
            let next = name.at.checked_add(SignedDuration::from_secs(1));
            name = Name::new(
                &self.cluster,
                next.map_err(|e| failed("name a backup in", &self.folder).because(e))?,
            );
        }
        Ok(name)
    }

    /// Every object of this cluster, with the stem of its name. A folder that does not exist has none.
    fn objects(&self) -> Result<Vec<(String, Found)>> {
        let attempt = || failed("list the backups in", &self.folder);
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(attempt().because(error)),
        };
        let mut found = vec![];
        for entry in entries {
            let entry = entry.map_err(|e| attempt().because(e))?;
            let Some(file) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let Some(object) = Name::read(&self.cluster, &file) else { continue };
            let metadata = entry.metadata().map_err(|e| attempt().because(e))?;
            if !metadata.is_file() {
                continue;
            }
            found.push(match object {
                Object::Snapshot(name) => {
                    (name.stem().to_owned(), Found::Snapshot { name, bytes: metadata.len() })
                }
                Object::Beside { at, stem } => (stem, Found::Beside { at, file }),
            });
        }
        Ok(found)
    }

    /// All backups, the newest first.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>> {
        Ok(self.names()?.into_iter().map(|(name, bytes)| self.entry(name, bytes)).collect())
    }

    fn names(&self) -> Result<Vec<(Name, u64)>> {
        let mut names: Vec<(Name, u64)> = self
            .objects()?
            .into_iter()
            .filter_map(|(_, found)| match found {
                Found::Snapshot { name, bytes } => Some((name, bytes)),
                Found::Beside { .. } => None,
            })
            .collect();
        names.sort_by(|one, other| other.cmp(one));
        Ok(names)
    }

    fn entry(&self, name: Name, bytes: u64) -> Entry {
        let card = self.card(&name);
        Entry { name, bytes, card }
    }

    fn card(&self, name: &Name) -> CardState {
        let unreadable = |why: &dyn std::fmt::Display| CardState::Unreadable(why.to_string());
        let text = match std::fs::read(self.folder.join(name.card())) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return CardState::Missing,
            Err(error) => return unreadable(&error),
        };
        let Some(identity) = &self.identity else { return unreadable(&Closed::NoIdentity) };
        let plain = match secrets::decrypted(identity, &text) {
            Ok(plain) => plain,
            Err(age::DecryptError::NoMatchingKeys) => return unreadable(&Closed::OtherIdentity),
            Err(error) => return unreadable(&error),
        };
        match Card::read(&plain) {
            Ok(card) if card.snapshot.object.name == name.snapshot() => CardState::Read(Box::new(card)),
            Ok(card) => unreadable(&format!("it describes {}", card.snapshot.object.name)),
            Err(error) => unreadable(&error),
        }
    }

    /// The backup that a person means: by file name or by time; the newest one if nothing is said.
    ///
    /// # Errors
    ///
    /// When there is none, or the store cannot be read.
    pub fn find(&self, meant: Option<&str>) -> Result<Entry> {
        let mut names = self.names()?.into_iter();
        let found = match meant {
            None | Some("latest") => names.next(),
            Some(text) => names.find(|(name, _)| name.is_meant(text)),
        };
        let (name, bytes) = found.ok_or_else(|| {
            let what = match meant {
                None | Some("latest") => format!("there is no backup in {}", self.folder.display()),
                Some(text) => format!("there is no backup {text} in {}", self.folder.display()),
            };
            Error::new(Kind::Input, what)
                .coded("backup-missing")
                .hint("`talosmith backup list` lists them; `talosmith backup create` makes one")
        })?;
        Ok(self.entry(name, bytes))
    }

    /// Reads a backup to its end: decrypts and decompresses it, compares it with its checksums and its card, and opens the copy of the
    /// bundle. The card then says when that was.
    ///
    /// # Errors
    ///
    /// When it is damaged, cannot be opened, or cannot be read.
    pub fn verify(&self, entry: Entry) -> Result<Verified> {
        let path = self.folder.join(entry.name.snapshot());
        let attempt = || failed("verify the backup", &path);
        let damaged = |why: String| {
            attempt()
                .coded(DAMAGED)
                .hint("use another backup; `talosmith backup list` lists them. This one was not deleted")
                .because(io::Error::new(ErrorKind::InvalidData, why))
        };
        if let CardState::Unreadable(why) = &entry.card
            && self.identity.is_some()
        {
            return Err(damaged(format!("its card cannot be read: {why}")));
        }
        let file = File::open(&path).map_err(|e| attempt().because(e))?;
        let found = opened::check(file, self.identity.as_ref()).map_err(|e| self.closed(attempt(), e))?;
        let mut warnings = vec![];
        let Some(card) = entry.card().cloned() else {
            warnings.push("it has no card: another program made it, so nothing says which cluster and versions it is of".to_owned());
            return Ok(Verified { entry, snapshot: found.snapshot, warnings });
        };
        let stored = &card.snapshot.object;
        if (found.bytes, &found.sha256) != (stored.bytes, &stored.sha256) {
            return Err(damaged("it is not the file that its card describes".to_owned()));
        }
        if (found.snapshot.bytes, &found.snapshot.sha256) != (card.snapshot.bytes, &card.snapshot.sha256) {
            return Err(damaged("its snapshot is not the one that its card describes".to_owned()));
        }
        let copy = self.folder.join(&card.bundle.name);
        let bundle = secrets::load(&copy, self.identity.as_ref())?
            .ok_or_else(|| damaged(format!("the secrets bundle beside it is missing: {}", copy.display())))?;
        if bundle.digest() != card.bundle.sha256 || bundle.bundle.cluster_id() != card.facts.cluster_id {
            return Err(damaged(format!("the secrets bundle beside it is another one: {}", copy.display())));
        }
        if self.bundle.as_ref().is_some_and(|own| own.digest() != card.bundle.sha256) {
            warnings.push(
                "the secrets bundle has changed since; the backup holds the one of its time".to_owned(),
            );
        }
        let card = card.verified(self.clock.now());
        if let Err(error) = self.write_card(&entry.name, &card) {
            warnings.push(format!("its card was not updated: {}", error.causes().join(": ")));
        }
        Ok(Verified {
            entry: Entry { card: CardState::Read(Box::new(card)), ..entry },
            snapshot: found.snapshot,
            warnings,
        })
    }

    /// Replaces a card in one step. Without recipients it stays as it is.
    fn write_card(&self, name: &Name, card: &Card) -> Result<()> {
        let path = self.folder.join(name.card());
        let attempt = || failed("write", &path);
        let text = secrets::encrypted_text(&self.recipients, &card.write())?;
        let mut file = NewFile::beside(&path).map_err(|e| attempt().because(e))?;
        io::Write::write_all(&mut file, text.as_bytes()).map_err(|e| attempt().because(e))?;
        file.replace().map_err(|e| attempt().because(e))
    }

    /// Writes the snapshot in a backup to a file, unencrypted, readable by its owner only: what `talosctl bootstrap --recover-from`
    /// takes. The file must not exist; it has its name only once the snapshot was found sound.
    ///
    /// # Errors
    ///
    /// When it is damaged, cannot be opened, read or written.
    pub fn get(&self, entry: &Entry, to: &Path) -> Result<talos_client::Snapshot> {
        let path = self.folder.join(entry.name.snapshot());
        let attempt = || failed("read the backup", &path);
        let unwritten = |e: io::Error| {
            let exists = e.kind() == ErrorKind::AlreadyExists;
            let error = failed("write the snapshot", to).because(e);
            if exists { error.hint("name a file that does not exist yet") } else { error }
        };
        let stored = File::open(&path).map_err(|e| attempt().because(e))?;
        let mut file = NewFile::create(to).map_err(unwritten)?;
        let found =
            opened::copy(stored, self.identity.as_ref(), &mut file).map_err(|stopped| match stopped {
                Stopped::Closed(closed) => self.closed(attempt(), closed),
                Stopped::Unwritten(error) => unwritten(error),
            })?;
        if entry.card().is_some_and(|card| card.snapshot.sha256 != found.snapshot.sha256) {
            let why =
                io::Error::new(ErrorKind::InvalidData, "its snapshot is not the one that its card describes");
            return Err(attempt().coded(DAMAGED).because(why));
        }
        file.place().map_err(unwritten)?;
        Ok(found.snapshot)
    }

    /// Why a backup does not open, with what helps.
    fn closed(&self, attempt: Error, closed: Closed) -> Error {
        let attempt = match &closed {
            Closed::NoIdentity => attempt
                .coded("backup-closed")
                .hint("name the file with the identity of one of its recipients with TALOSMITH_IDENTITY"),
            Closed::OtherIdentity => attempt.coded("backup-closed").hint(format!(
                "the identity here is {}; name the file with that of a recipient with TALOSMITH_IDENTITY",
                self.identity.as_ref().map(Identity::recipients).unwrap_or_default().join(", ")
            )),
            Closed::Damaged(_) => attempt
                .coded(DAMAGED)
                .hint("use another backup; `talosmith backup list` lists them. This one was not deleted"),
            Closed::Unread(_) => attempt,
        };
        attempt.because(closed)
    }

    /// How the backups stand, asked on another thread: a store that does not answer, such as a network share that is gone, must not hold
    /// up anything else. The future that is given back waits for the answer, for a limited time if there is a limit.
    pub fn look(&self, limit: Option<Duration>) -> impl Future<Output = Seen> + use<> {
        let this = self.clone();
        let clock = self.clock.clone();
        let asked = tokio::task::spawn_blocking(move || this.summary());
        async move {
            let answer = match limit {
                None => Ok(asked.await),
                Some(limit) => clock.timeout(limit, asked).await,
            };
            let summary = match answer {
                Ok(Ok(Ok(summary))) => Ok(summary),
                Ok(Ok(Err(error))) => Err(error.causes().join(": ")),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the folder of the backups did not answer in time".to_owned()),
            };
            Seen { at: clock.now(), summary }
        }
    }

    /// How the backups stand. Only as many cards are read as it takes to find one that was verified.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn summary(&self) -> Result<Summary> {
        let names = self.names()?;
        let (count, newest) = (names.len(), names.first().map(|(name, _)| name.at));
        let mut entries = names.into_iter().map(|(name, bytes)| self.entry(name, bytes));
        let verified = entries.find(|entry| entry.verified_at().is_some()).map(|entry| entry.name.at);
        Ok(Summary { count, newest, verified })
    }
}

/// What an object is.
enum Found {
    Snapshot { name: Name, bytes: u64 },
    Beside { at: Timestamp, file: String },
}

impl SnapshotStore for Backups {
    fn create<'a>(&'a self, of: &'a SnapshotOf) -> BoxFuture<'a, Result<Box<dyn NewSnapshot>>> {
        let created = NewBackup::create(self, of).map(|new| -> Box<dyn NewSnapshot> { Box::new(new) });
        Box::pin(std::future::ready(created))
    }
}

/// Everything that belongs to no snapshot, by stem.
fn leftovers(objects: &[(String, Found)]) -> BTreeMap<&str, (Timestamp, Vec<&str>)> {
    let whole: BTreeSet<&str> = objects
        .iter()
        .filter(|(_, found)| matches!(found, Found::Snapshot { .. }))
        .map(|(stem, _)| stem.as_str())
        .collect();
    let mut left: BTreeMap<&str, (Timestamp, Vec<&str>)> = BTreeMap::new();
    for (stem, found) in objects {
        if let Found::Beside { at, file } = found
            && !whole.contains(stem.as_str())
        {
            left.entry(stem).or_insert((*at, vec![])).1.push(file);
        }
    }
    left
}
