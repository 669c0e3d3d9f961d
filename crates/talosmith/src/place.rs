//! Where things are kept on this machine.
//!
//! ```text
//! cluster.yaml                          the file
//! CLUSTER.secrets.age                   the bundle, encrypted; the one thing to back up (and the identity that opens it)
//! .talosmith/CLUSTER/journal.jsonl      what happened
//! .talosmith/CLUSTER/lock, place        this working folder, for the lease
//! .talosmith/lab/CLUSTER/…              the same for the lab, with its world, bundle and identity
//! ```
//!
//! Nothing in `.talosmith` is needed to go on; it may be deleted, except that the lab's world is gone then.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use engine::record::Operator;
use engine::secrets::{Identity, Store, write_private};
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// The folders of one cluster.
#[derive(Debug, Clone)]
pub struct Place {
    folder: PathBuf,
    bundle: PathBuf,
    identity: IdentityPlace,
    file: PathBuf,
}

#[derive(Debug, Clone)]
enum IdentityPlace {
    /// A file of ours, made at first use.
    Ours(PathBuf),
    /// A file that the operator named.
    Named(PathBuf),
    /// No home, no name.
    Nowhere,
}

/// Held for as long as this process changes the cluster from this folder. The system lets go of it when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct LocalLock(#[expect(dead_code, reason = "held, not used")] File);

impl Place {
    /// Beside the real file.
    pub fn real(file: &Path, cluster: &str) -> Self {
        let beside = parent(file);
        let identity = match std::env::var_os("TALOSMITH_IDENTITY").filter(|v| !v.is_empty()) {
            Some(path) => IdentityPlace::Named(PathBuf::from(path)),
            None => config_folder()
                .map_or(IdentityPlace::Nowhere, |f| IdentityPlace::Ours(f.join("identity.txt"))),
        };
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

    /// The folder of a lab that is served on loopback. Its twin file has secrets of its own beside it.
    pub fn served(file: &Path, cluster: &str) -> Self {
        let folder = parent(file).join(".talosmith").join("served").join(cluster);
        Self {
            bundle: folder.join("unused"),
            identity: IdentityPlace::Nowhere,
            folder,
            file: file.to_owned(),
        }
    }

    /// The folder of ours.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder. What is in it is nobody else's business, version control's least of all.
    pub fn make(&self) -> Result<(), Problem> {
        let problem = |e: io::Error| {
            Problem::of(Exit::World, &e)
                .within(format!("could not make the folder {}", self.folder.display()))
        };
        std::fs::create_dir_all(&self.folder).map_err(problem)?;
        let root = self.folder.ancestors().find(|p| p.ends_with(".talosmith")).unwrap_or(&self.folder);
        let ignore = root.join(".gitignore");
        if !ignore.exists() {
            std::fs::write(ignore, "*\n").map_err(problem)?;
        }
        Ok(())
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal.jsonl")
    }

    /// The bundle, if there is one. An identity is only asked for when there is something to open.
    pub fn load_bundle(&self) -> Result<Option<talos::secrets::Bundle>, Problem> {
        if !self.bundle.exists() {
            return Ok(None);
        }
        let identity = self.read_identity()?.ok_or_else(|| {
            Problem::new(
                Exit::Secrets,
                format!("there is no identity to open the bundle {}", self.bundle.display()),
            )
            .remedy(match &self.identity {
                IdentityPlace::Ours(path) => {
                    format!(
                        "restore {} from your backup, or name another file with TALOSMITH_IDENTITY",
                        path.display()
                    )
                }
                _ => "name the file that holds it with TALOSMITH_IDENTITY".to_owned(),
            })
        })?;
        Store::new(self.bundle.clone(), identity).load().map_err(|e| Problem::from(&e))
    }

    /// Where a new bundle goes, with the identity that opens it, which is made if there is none.
    pub fn new_store(&self, printer: &Printer, loud: bool) -> Result<Store, Problem> {
        let identity = match (self.read_identity()?, &self.identity) {
            (Some(identity), _) => identity,
            (None, IdentityPlace::Ours(path)) => {
                let identity = Identity::generate();
                write_private(path, identity.to_text().expose_secret().as_bytes(), true).map_err(|e| {
                    Problem::of(Exit::Secrets, &e)
                        .within(format!("could not write the identity {}", path.display()))
                })?;
                if loud {
                    printer.note(&format!(
                        "A new identity was made: {}. BACK IT UP: without it the secrets of your clusters cannot be opened.",
                        path.display()
                    ));
                }
                identity
            }
            (None, IdentityPlace::Named(path)) => {
                return Err(Problem::new(
                    Exit::Secrets,
                    format!("TALOSMITH_IDENTITY names {}, which is not there", path.display()),
                )
                .remedy("make one with `age-keygen -o FILE`, or unset the variable to have one made"));
            }
            (None, IdentityPlace::Nowhere) => {
                return Err(Problem::new(Exit::Secrets, "there is no home folder to keep an identity in")
                    .remedy("set HOME, or name a file with TALOSMITH_IDENTITY"));
            }
        };
        Ok(Store::new(self.bundle.clone(), identity))
    }

    fn read_identity(&self) -> Result<Option<Identity>, Problem> {
        let (IdentityPlace::Ours(path) | IdentityPlace::Named(path)) = &self.identity else {
            return Ok(None);
        };
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let text = secrecy::SecretString::from(text);
                let identity = Identity::parse(text.expose_secret());
                identity
                    .map(Some)
                    .map_err(|e| Problem::from(&e).within(format!("could not use {}", path.display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Problem::of(Exit::Secrets, &error)
                .within(format!("could not read the identity {}", path.display()))),
        }
    }

    /// Takes this folder for one process.
    pub fn lock(&self) -> Result<LocalLock, Problem> {
        let path = self.folder.join("lock");
        let problem =
            |e: &io::Error| Problem::of(Exit::World, e).within(format!("could not lock {}", path.display()));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| problem(&e))?;
        match file.try_lock() {
            Ok(()) => Ok(LocalLock(file)),
            Err(TryLockError::WouldBlock) => Err(Problem::new(
                Exit::Busy,
                "another talosmith on this machine is at work with this cluster",
            )
            .remedy("wait until it is done")),
            Err(TryLockError::Error(error)) => Err(problem(&error)),
        }
    }

    /// Who we are, for the lease. The place is drawn once and kept; whoever uses it holds the local lock. A copy of the
    /// folder, on this machine or another, is another place: its lock is another one.
    pub fn operator(&self, take_over: bool) -> Result<Operator, Problem> {
        let path = self.folder.join("place");
        let place = match std::fs::read_to_string(&path).ok().and_then(|t| t.trim().parse::<Uuid>().ok()) {
            Some(place) => place,
            None => {
                let place = Uuid::from_bytes(rand::random());
                write_private(&path, format!("{place}\n").as_bytes(), false).map_err(|e| {
                    Problem::of(Exit::World, &e).within(format!("could not write {}", path.display()))
                })?;
                place
            }
        };
        let user = std::env::var("USER")
            .or_else(|_| std::env::var("LOGNAME"))
            .unwrap_or_else(|_| "somebody".to_owned());
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|t| t.trim().to_owned())
            .or_else(|| std::env::var("HOSTNAME").ok())
            .unwrap_or_else(|| "some machine".to_owned());
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let folder = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let machine_id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let here = format!("{machine}/{}/{}", machine_id.trim(), folder.display());
        Ok(Operator {
            name: format!("{user}@{machine} ({})", file.display()),
            place: Uuid::new_v5(&place, here.as_bytes()).to_string(),
            take_over,
        })
    }
}

fn parent(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn config_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|h| h.join(".config"))).map(|f| f.join("talosmith"))
}
