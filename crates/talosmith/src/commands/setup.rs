//! What commands have in common: the file, the folders, the systems.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ambient::Clock;
use engine::backup::Backups;
use engine::secrets::{AtRest, Identity, Kept};
use engine::session::ObserveError;
use engine::snapshots::{SnapshotFolder, SnapshotStore};
use engine::{Session, Snapshot};
use model::attachments::Attachments;
use model::diagnostic::{Diagnostic, Source};
use model::load::{Loaded, MAX_BYTES, load};
use model::observed::Observed;
use model::plan::{Plan, RefusalCode};
use model::spec::Backup;
use secrecy::SecretString;

use crate::args::Global;
use crate::exit::Exit;
use crate::local::Local;
use crate::outside::{self, Administrator, Outside};
use crate::place::Place;
use crate::secret_command::Commands;
use crate::view::{Printer, Problem};

/// Where snapshots of etcd are kept that are no backups.
const SNAPSHOTS: &str = "backups";

/// How a command ends when the file is wrong: everything was shown already.
pub enum Wrong {
    /// Diagnostics were printed.
    Shown,
    /// Something else.
    Problem(Problem),
}

impl From<Problem> for Wrong {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// A file that is right, and where its things are.
pub struct Setup {
    pub loaded: Loaded,
    /// The folder of the cluster file, from which other files are named.
    pub folder: PathBuf,
    pub place: Place,
    /// The seed of a new lab, for commands with `--lab`.
    pub lab: Option<u64>,
    /// Whether commands may be run.
    pub commands: Commands,
    /// The backups, once the bundle was opened for them.
    backups: OnceLock<Backups>,
}

/// A bundle, with the identity that opened it.
type Opened = (Kept, Option<Identity>);

/// Reads and checks the file. Everything that is wrong with it is printed at once; warnings are printed, too.
pub fn load_file(global: &Global, printer: &Printer) -> Result<Loaded, Wrong> {
    let mut sources = vec![];
    for path in &global.files {
        let text = read_text(path).map_err(|problem| {
            problem
                .within(format!("could not read the cluster file {}", path.display()))
                .hint("name it with `-f FILE`; `talosmith init` writes one to start from")
        })?;
        sources.push(Source::new(path.display().to_string(), text));
    }
    let (loaded, found) = checked(&sources, printer)?;
    if !found.is_empty() && !printer.is_json() {
        printer.diagnostics(&loaded.sources, &found);
    }
    Ok(loaded)
}

/// What was read, with warnings. Where something is wrong with it, everything is shown.
pub fn checked(sources: &[Source], printer: &Printer) -> Result<(Loaded, Vec<Diagnostic>), Wrong> {
    let loaded = match load(sources) {
        Ok(loaded) => loaded,
        Err(failed) => {
            printer.diagnostics(&failed.sources, &failed.diagnostics);
            return Err(Wrong::Shown);
        }
    };
    let found = loaded.check();
    if found.iter().any(Diagnostic::is_error) {
        printer.diagnostics(&loaded.sources, &found);
        return Err(Wrong::Shown);
    }
    Ok((loaded, found))
}

/// Puts the YAML files of a folder, by name, in the place of the folder.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let problem = |e: std::io::Error| {
            Problem::of(Exit::Input, &e).within(format!("could not read the folder {}", path.display()))
        };
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(problem)? {
            let file = entry.map_err(problem)?.path();
            let is_yaml = file.extension().is_some_and(|end| end == "yaml" || end == "yml");
            if is_yaml && file.is_file() {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(Problem::new(
                Exit::Input,
                format!("there is no .yaml or .yml file in the folder {}", path.display()),
            )
            .hint("`talosmith init -f FOLDER` writes one to start from"));
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// The text of a file. One that is too large is cut just beyond the limit, so that reading it says so instead of filling
/// the memory.
pub fn read_text(path: &Path) -> Result<String, Problem> {
    let problem = |e: &std::io::Error| Problem::of(Exit::Input, e);
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(|e| problem(&e))?;
    if bytes.len() > MAX_BYTES {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|e| {
        Problem::new(
            Exit::Input,
            format!("it is no UTF-8 text (byte {} is not)", e.utf8_error().valid_up_to()),
        )
    })
}

impl Setup {
    /// The file of this command line.
    pub fn new(global: &Global, printer: &Printer) -> Result<Self, Wrong> {
        Ok(Self::of(global, load_file(global, printer)?))
    }

    /// A file that was read already.
    pub fn of(global: &Global, loaded: Loaded) -> Self {
        let file = global.files.first().map_or_else(|| Path::new("cluster.yaml"), |f| f.as_path());
        let cluster = &loaded.spec.cluster;
        let place = if global.lab {
            Place::lab(file, cluster)
        } else {
            Place::real(file, cluster, global.commands())
        };
        let lab = global.seed_of_lab();
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        Self { loaded, folder, place, lab, commands: global.commands(), backups: OnceLock::new() }
    }

    /// The files that the cluster file points to.
    pub fn attachments(&self, printer: &Printer) -> Result<Attachments, Wrong> {
        engine::attachments::read(&self.loaded.spec, &self.folder).map_err(|found| self.shown(found, printer))
    }

    /// A session with the cluster.
    pub fn session(&self, outside: &Outside, printer: &Printer) -> Result<Session, Wrong> {
        let attachments = self.attachments(printer)?;
        let opened = self.place.opened()?;
        let bundle = opened.as_ref().map(|(kept, _)| kept.bundle.clone());
        let session = Session::new(outside.systems.clone(), self.loaded.spec.clone(), bundle)
            .with_bundle_at(&self.place.bundle_at());
        let (folder, in_lab, commands) = (self.folder.clone(), self.lab.is_some(), self.commands);
        // Each is read once: what was there before the first change is there for the step, and a command may ask a person.
        let read: Mutex<BTreeMap<String, SecretString>> = Mutex::default();
        let references = move |reference: &str| {
            // Real secrets have no place in a lab.
            if in_lab {
                return Ok(SecretString::from("lab@pve!lab=00000000-0000-0000-0000-000000000000"));
            }
            let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = read.get(reference) {
                return Ok(known.clone());
            }
            let secret = outside::read_reference(reference, &folder, "credentials for the cluster", commands)
                .map_err(|problem| problem.causes.join(": "))?;
            read.insert(reference.to_owned(), secret.clone());
            Ok(secret)
        };
        let session = session
            .with_attachments(attachments)
            .with_references(Arc::new(references))
            .with_local(Arc::new(self.local()));
        Ok(match opened {
            Some(opened) => session.with_snapshots(self.snapshots(opened, &outside.systems.clock)?),
            None => session,
        })
    }

    /// The machine that this runs on.
    pub fn local(&self) -> Local {
        Local::new(&self.folder, self.commands, self.lab.is_some())
    }

    /// Where snapshots of etcd are kept: as backups, where the file has a place for them, else beside it.
    fn snapshots(&self, opened: Opened, clock: &Clock) -> Result<Arc<dyn SnapshotStore>, Problem> {
        Ok(match &self.loaded.spec.backup {
            Some(section) => Arc::new(self.backups_of(section, Some(opened), clock.clone())?),
            None => Arc::new(SnapshotFolder::at(self.kept_in(SNAPSHOTS), opened.0.at_rest)),
        })
    }

    /// A folder as the file means it. Those of the lab are with the lab.
    fn kept_in(&self, folder: &str) -> PathBuf {
        if self.lab.is_some() { self.place.folder().join(folder) } else { self.folder.join(folder) }
    }

    /// The backups of the cluster. Those of a session are the same: an identity that a command prints is asked for once.
    pub fn backups(&self, clock: Clock) -> Result<Backups, Problem> {
        let section = self.backup_section()?;
        match self.backups.get() {
            Some(known) => Ok(known.clone()),
            None => self.backups_of(section, self.place.opened()?, clock),
        }
    }

    /// What the file says about backups.
    pub fn backup_section(&self) -> Result<&Backup, Problem> {
        self.loaded.spec.backup.as_ref().ok_or_else(|| {
            Problem::new(Exit::Input, "the file has no `backup` section, so there is no place for backups")
                .hint("add `backup: { folder: backups }` to the file")
        })
    }

    fn backups_of(&self, section: &Backup, opened: Option<Opened>, clock: Clock) -> Result<Backups, Problem> {
        // In the lab, a folder anywhere else would mix with that of the real cluster.
        let folder = match self.lab {
            Some(_) => self.kept_in(SNAPSHOTS),
            None => self.kept_in(&section.folder),
        };
        let backups = Backups::at(&folder, &self.loaded.spec.cluster, clock);
        let Some((kept, identity)) = opened else {
            return Ok(backups.with_identity(self.place.identity().read()?));
        };
        let identity = match identity {
            Some(identity) => Some(identity),
            None => self.place.identity().read()?,
        };
        let mut recipients = match &kept.at_rest {
            AtRest::Encrypted(recipients) => recipients.clone(),
            AtRest::Plain => vec![],
        };
        recipients.extend(section.recipients.iter().cloned());
        let mut once = BTreeSet::new();
        recipients.retain(|one| once.insert(one.clone()));
        let backups = backups.with_bundle(kept, recipients).with_identity(identity);
        Ok(self.backups.get_or_init(|| backups).clone())
    }

    /// Shows problems of the file.
    pub fn shown(&self, found: Vec<Diagnostic>, printer: &Printer) -> Wrong {
        printer.diagnostics(&self.loaded.sources, &self.loaded.locate(found));
        Wrong::Shown
    }

    /// The systems with an administrator's login. The lab's is its own.
    pub async fn administered(
        &self,
        global: &Global,
        who: impl FnOnce() -> Result<Administrator, Problem>,
        second_factor: impl FnOnce(&str) -> Result<SecretString, Problem>,
    ) -> Result<Outside, Problem> {
        if let Some(seed) = self.lab {
            self.place.make()?;
            return outside::lab_as_root(&self.loaded.spec, self.place.folder(), seed);
        }
        let file = global.files.first().map_or_else(|| Path::new("cluster.yaml"), |f| f.as_path());
        outside::administered(&self.loaded.spec, file, who, second_factor).await
    }

    /// The systems that the file is about.
    pub async fn outside(&self, global: &Global) -> Result<Outside, Problem> {
        match self.lab {
            Some(seed) => {
                self.place.make()?;
                outside::lab(&self.loaded.spec, self.place.folder(), seed).await
            }
            None => {
                let file = global.files.first().map_or_else(|| Path::new("cluster.yaml"), |f| f.as_path());
                outside::real(&self.loaded.spec, file, self.commands)
            }
        }
    }

    /// Observes the cluster, and shows what the file asks for and Proxmox does not have.
    pub async fn observe(&self, session: &Session, printer: &Printer) -> Result<Snapshot, Wrong> {
        session.observe().await.map_err(|error| self.unobserved(error, printer))
    }

    /// Observes whatever answers.
    pub async fn refresh(&self, session: &Session, printer: &Printer) -> Result<Snapshot, Wrong> {
        session.refresh().await.map_err(|error| self.unobserved(error, printer))
    }

    /// Observes what must be known to delete the cluster.
    pub async fn observe_to_destroy(&self, session: &Session, printer: &Printer) -> Result<Snapshot, Wrong> {
        session.observe_to_destroy().await.map_err(|error| self.unobserved(error, printer))
    }

    /// Why the cluster could not be observed. Problems of the file are shown.
    pub fn unobserved(&self, error: ObserveError, printer: &Printer) -> Wrong {
        match error {
            ObserveError::Engine(error) => Wrong::Problem(Problem::from(&error)),
            ObserveError::File(found) => self.shown(found, printer),
        }
    }
}

/// Says that Proxmox rejected the token, where it did: what is shown is then only what machines and Kubernetes say.
pub fn rejected_token(observed: &Observed, plan: &Plan, printer: &Printer) -> bool {
    let refusal = plan.refusals.iter().find(|refusal| refusal.code == RefusalCode::NoProxmox);
    if let Some(refusal) = refusal.filter(|_| observed.proxmox.token_rejected) {
        printer.note(&format!("{}.\n  hint: {}", refusal.why, refusal.hint));
    }
    observed.proxmox.token_rejected
}

/// The options of this command line that another command needs to mean the same cluster, each with a space before it.
pub fn flags(global: &Global) -> String {
    let mut flags = String::new();
    for file in global.files.iter().filter(|f| f.as_os_str() != "cluster.yaml") {
        flags.push_str(&format!(" -f {}", file.display()));
    }
    if global.lab {
        flags.push_str(" --lab");
    }
    flags
}

/// The end of a command: diagnostics that were shown already count as wrong input.
pub fn ended(result: Result<Exit, Wrong>) -> Result<Exit, Problem> {
    match result {
        Ok(exit) => Ok(exit),
        Err(Wrong::Shown) => Ok(Exit::Input),
        Err(Wrong::Problem(problem)) => Err(problem),
    }
}

/// Asks the operator. Without a terminal to ask on, nothing is changed.
pub fn confirm(printer: &Printer, question: &str) -> Result<bool, Problem> {
    let answer = asked(printer, &format!("{question} [y/N]"))?;
    Ok(matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks before data is deleted: the whole word must be typed.
pub fn confirm_deletion(printer: &Printer, question: &str) -> Result<bool, Problem> {
    let answer = asked(printer, &format!("{question} Type `yes` to delete it:"))?;
    if answer.eq_ignore_ascii_case("y") {
        printer.note("`y` is not enough to delete data: type `yes`.");
    }
    Ok(answer == "yes")
}

/// Whether there is a person to ask.
pub fn can_ask(printer: &Printer) -> bool {
    use std::io::IsTerminal;
    std::io::stdin().is_terminal() && !printer.is_json()
}

/// There is no one to ask, and nothing was approved beforehand.
pub fn cannot_ask(printer: &Printer) -> Problem {
    let why = match printer.is_json() {
        true => "`--json` does not ask, and `--yes` was not given",
        false => "stdin is not a terminal, and `--yes` was not given",
    };
    Problem::new(Exit::Usage, why).hint("read the plan, then run the command again with `--yes`")
}

fn asked(printer: &Printer, question: &str) -> Result<String, Problem> {
    if !can_ask(printer) {
        return Err(cannot_ask(printer));
    }
    printer.ask(question);
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|e| Problem::of(Exit::Usage, &e).within("could not read your answer"))?;
    Ok(answer.trim().to_owned())
}
