//! Where things are kept on this machine.
//!
//! ```text
//! cluster.yaml                          the file
//! CLUSTER.secrets.age                   the bundle, encrypted; the one thing to back up (and the identity that opens it)
//! .talosmith/CLUSTER/journal.jsonl      what happened
//! .talosmith/CLUSTER/lock, place        this working folder, for the lease
//! .talosmith/lab/CLUSTER/…              the same for the lab, with its state, bundle and identity
//! ```
//!
//! Nothing in `.talosmith` is needed to go on; it may be deleted, except that the lab's state is gone then.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use engine::files::remove_abandoned;
use engine::lease::Operator;
use engine::secrets::{self, AtRest, Identity, Kept, write_private};
use model::mark::Mark;
use talos::secrets::Bundle;
use uuid::Uuid;

use crate::exit::Exit;
use crate::identity::IdentityPlace;
use crate::secret_command::Commands;
use crate::view::Problem;

/// The folders of one cluster.
#[derive(Debug, Clone)]
pub struct Place {
    folder: PathBuf,
    /// Of the bundle, encrypted; `.yaml` in place of `.age` where it is plain.
    bundle: PathBuf,
    identity: IdentityPlace,
    file: PathBuf,
}

/// Held for as long as this process changes the cluster from this folder. The system lets go of it when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct LocalLock(#[expect(dead_code, reason = "held, not used")] File);

impl Place {
    /// Beside the real file.
    pub fn real(file: &Path, cluster: &str, commands: Commands) -> Self {
        let beside = parent(file);
        let identity = IdentityPlace::from_environment(commands);
        Self {
            folder: beside.join(".talosmith").join(cluster),
            bundle: beside.join(format!("{cluster}.secrets.age")),
            identity,
            file: file.to_owned(),
        }
    }

    /// In the lab's own folder: real secrets are not touched.
    pub fn lab(file: &Path, cluster: &str) -> Self {
        let folder = parent(file).join(".talosmith").join("lab").join(cluster);
        Self {
            bundle: folder.join("secrets.age"),
            identity: IdentityPlace::Ours(folder.join("identity.txt")),
            folder,
            file: file.to_owned(),
        }
    }

    /// The folder of a lab that is served on loopback. Its lab copy of the file has secrets of its own beside it.
    #[cfg(feature = "lab")]
    pub fn served(file: &Path, cluster: &str) -> Self {
        let folder = parent(file).join(".talosmith").join("served").join(cluster);
        Self {
            bundle: folder.join("unused"),
            identity: IdentityPlace::Nowhere,
            folder,
            file: file.to_owned(),
        }
    }

    /// The same with another folder.
    #[cfg(feature = "lab")]
    pub fn at(self, folder: PathBuf) -> Self {
        Self { folder, ..self }
    }

    /// The folder of ours.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder. What is in it is for this user only, and not for version control.
    pub fn make(&self) -> Result<(), Problem> {
        let problem = |e: io::Error| {
            Problem::of(Exit::Systems, &e)
                .within(format!("could not create the folder {}", self.folder.display()))
        };
        std::fs::create_dir_all(&self.folder).map_err(problem)?;
        let root = self.folder.ancestors().find(|p| p.ends_with(".talosmith")).unwrap_or(&self.folder);
        let ignore = root.join(".gitignore");
        if !ignore.exists() {
            std::fs::write(ignore, "*\n").map_err(problem)?;
        }
        Ok(())
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal.jsonl")
    }

    /// The bundle, if there is one.
    pub fn load_bundle(&self) -> Result<Option<Bundle>, Problem> {
        Ok(self.kept()?.map(|kept| kept.bundle))
    }

    /// The bundle with how it lies on the disk. An identity is only asked for when there is something to open.
    pub fn kept(&self) -> Result<Option<Kept>, Problem> {
        Ok(self.opened()?.map(|(kept, _)| kept))
    }

    /// The same, with the identity that opened it. A plain bundle needs none.
    pub fn opened(&self) -> Result<Option<(Kept, Option<Identity>)>, Problem> {
        let (encrypted, plain) = (self.bundle_path(false), self.bundle_path(true));
        match (encrypted.exists(), plain.exists()) {
            (false, false) => Ok(None),
            (true, true) => Err(Problem::new(
                Exit::Secrets,
                format!("there are two bundles: {} and {}", encrypted.display(), plain.display()),
            )
            .hint("move the one that does not belong to the cluster to another folder")),
            (false, true) => {
                let kept = secrets::load(&plain, None).map_err(|e| Problem::from(&e))?;
                Ok(kept.map(|kept| (kept, None)))
            }
            (true, false) => {
                let identity = self.identity.read()?.ok_or_else(|| {
                    let what = format!("there is no identity to decrypt the bundle {}", encrypted.display());
                    Problem::new(Exit::Secrets, what).hint(self.identity.hint())
                })?;
                let kept = secrets::load(&encrypted, Some(&identity)).map_err(|e| Problem::from(&e))?;
                Ok(kept.map(|kept| (kept, Some(identity))))
            }
        }
    }

    /// Where the bundle is, or would be.
    pub fn bundle_path(&self, plain: bool) -> PathBuf {
        if plain { self.bundle.with_extension("yaml") } else { self.bundle.clone() }
    }

    /// Where the bundle was searched, or which file was read, in words for people.
    pub fn bundle_at(&self) -> String {
        let paths = [false, true].map(|plain| {
            let path = self.bundle_path(plain);
            std::path::absolute(&path).unwrap_or(path)
        });
        match paths.iter().find(|path| path.exists()) {
            Some(found) => format!("the bundle is {}", found.display()),
            None => format!("the bundle was searched at {} and {}", paths[0].display(), paths[1].display()),
        }
    }

    /// Refuses when there is a bundle already.
    pub fn no_bundle_yet(&self) -> Result<(), Problem> {
        let there = [false, true].map(|plain| self.bundle_path(plain)).into_iter().find(|path| path.exists());
        match there {
            None => Ok(()),
            Some(path) => Err(Problem::new(
                Exit::Secrets,
                format!("the cluster has secrets already: {}", path.display()),
            )
            .hint(
                "Talosmith never overwrites a bundle; move it to another folder if its cluster was deleted",
            )),
        }
    }

    /// Writes a new bundle; says where. It is opened with the identity as it is kept, read again for this: whatever was made
    /// or read before, only that one opens the bundle tomorrow.
    pub fn create_bundle(&self, bundle: &Bundle, at_rest: &AtRest) -> Result<PathBuf, Problem> {
        self.no_bundle_yet()?;
        let plain = *at_rest == AtRest::Plain;
        let path = self.bundle_path(plain);
        let identity = if plain { None } else { self.identity.read()? };
        secrets::create(&path, bundle, at_rest, identity.as_ref()).map_err(|e| Problem::from(&e))?;
        Ok(path)
    }

    /// Where the identity is.
    pub fn identity(&self) -> &IdentityPlace {
        &self.identity
    }

    /// Takes this folder for one process, and removes what a dead one left while it wrote an identity or a bundle.
    pub fn lock(&self) -> Result<LocalLock, Problem> {
        let taken = lock(&self.folder.join("lock"))?;
        remove_abandoned(&self.bundle);
        if let IdentityPlace::Ours(path) = &self.identity {
            remove_abandoned(path);
        }
        Ok(taken)
    }

    /// Takes this cluster for one process of this user on this machine, whichever folder it runs from. It is the one guard that there
    /// is before a cluster has a place for its lease; two machines are not kept apart by it. `None` where there is no home.
    pub fn lock_cluster(&self, cluster_id: &str) -> Result<Option<LocalLock>, Problem> {
        let IdentityPlace::Ours(identity) = IdentityPlace::default_file() else { return Ok(None) };
        let folder = parent(&identity).join("locks");
        let problem = |e: &io::Error| {
            Problem::of(Exit::Systems, e).within(format!("could not create the folder {}", folder.display()))
        };
        std::fs::create_dir_all(&folder).map_err(|e| problem(&e))?;
        lock(&folder.join(Mark::owner_of(cluster_id).to_string())).map(Some)
    }

    /// Who we are, for the lease. The place is drawn once and kept; a run that uses it holds the local lock. A copy of the
    /// folder, on this machine or another, is another place: its lock is another one.
    pub fn operator(&self, take_over: bool) -> Result<Operator, Problem> {
        let path = self.folder.join("place");
        let place = match std::fs::read_to_string(&path).ok().and_then(|t| t.trim().parse::<Uuid>().ok()) {
            Some(place) => place,
            None => {
                let place = Uuid::from_bytes(rand::random());
                write_private(&path, format!("{place}\n").as_bytes(), false).map_err(|e| {
                    Problem::of(Exit::Systems, &e).within(format!("could not write {}", path.display()))
                })?;
                place
            }
        };
        let named = |name: &str| std::env::var(name).ok().filter(|user| !user.trim().is_empty());
        let user = named("USER")
            .or_else(|| named("LOGNAME"))
            .or_else(|| owner(&path))
            .unwrap_or_else(|| "unknown user".to_owned());
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|t| t.trim().to_owned())
            .or_else(|| std::env::var("HOSTNAME").ok())
            .unwrap_or_else(|| "some machine".to_owned());
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let folder = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let machine_id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        // The lock that is held is part of it: where it was deleted and made again, an earlier process may still hold the old one.
        let lock = inode(&self.folder.join("lock")).unwrap_or_default();
        let here = format!("{machine}/{}/{}/{lock}", machine_id.trim(), folder.display());
        Ok(Operator {
            name: format!("{user}@{machine} ({})", file.display()),
            person: format!("{user}@{machine}"),
            place: Uuid::new_v5(&place, here.as_bytes()).to_string(),
            take_over,
        })
    }
}

/// The number of a file, which is no other's while it is open.
fn inode(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).ok()?).into();
    #[cfg(not(unix))]
    return None;
}

/// Opens or makes a file that only its owner can read and lock. One of an earlier version becomes so.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// Locks a file for as long as this process lives.
fn lock(path: &Path) -> Result<LocalLock, Problem> {
    let problem =
        |e: &io::Error| Problem::of(Exit::Systems, e).within(format!("could not lock {}", path.display()));
    let file = open_private(path).map_err(|e| problem(&e))?;
    match file.try_lock() {
        Ok(()) => Ok(LocalLock(file)),
        Err(TryLockError::WouldBlock) => {
            Err(Problem::new(Exit::Busy, "another talosmith on this machine is changing this cluster")
                .hint("wait until it is done"))
        }
        Err(TryLockError::Error(error)) => Err(problem(&error)),
    }
}

/// The number of the user whose file this is, in words. A file that was just written is its writer's.
fn owner(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|found| format!("user {}", found.uid()))
    }
    #[cfg(not(unix))]
    None
}

fn parent(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn by_reading_7_only_its_owner_can_open_the_lock() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        super::open_private(&path).unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        super::open_private(&path).unwrap();
        assert_eq!(mode(), 0o600, "one that an earlier version made");
    }

    /// A run whose lock file was deleted still holds the old one: who makes it again is another operator, and is told to wait.
    #[cfg(unix)]
    #[test]
    fn a_lock_that_was_made_again_is_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = super::Place::lab(&folder.path().join("cluster.yaml"), "home");
        place.make().unwrap();
        let held = place.lock().unwrap();
        let first = place.operator(false).unwrap().place;
        assert_eq!(
            place.operator(false).unwrap().place,
            first,
            "the same run, and the next one after a crash"
        );
        std::fs::remove_file(place.folder().join("lock")).unwrap();
        let _again = place.lock().unwrap();
        assert_ne!(place.operator(false).unwrap().place, first);
        drop(held);
    }
}
