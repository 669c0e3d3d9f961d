//! What people and programs see: the only place that prints.
//!
//! Each view is a function from data to text on a given writer, so that tests can hold it against a snapshot. The
//! [`Printer`] is made once, from what is known about the terminal, and decides which form goes where:
//!
//! - for people, results go to stdout; progress, problems and questions go to stderr, so that a pipe holds results only;
//! - for programs (`--json`), stdout carries JSON, one document a line, and nothing else.
//!
//! A reader that went away is no reason to stop in the middle of an apply, so errors of writing are dropped here.

pub mod backup;
pub mod changed;
mod cordons;
pub mod diagnostics;
pub mod error;
mod findings;
mod harmless;
pub mod health;
pub mod import;
mod ink;
pub mod markdown;
mod next;
pub mod plan;
pub mod run;
pub mod show;
pub mod status;
mod table;
mod window;

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use ::import::Imported;
use engine::backup::{Backups, Entry, Name, Prunable, Seen, Verified};
use engine::doctor::Finding;
use model::blueprint::Blueprint;
use model::diagnostic::{Diagnostic, Source};
use model::observed::Observed;
use model::plan::Plan;
use serde::Serialize;

/// The version of what `--json` prints. Keys are added within a version; one that is renamed or changes its meaning raises it.
const JSON_SCHEMA: u32 = 1;

pub use error::Problem;
pub use ink::Ink;
pub use plan::Verb;
pub use run::RunView;

/// What is known about where the text goes.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whether stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether stderr is a terminal that can move its cursor.
    pub stderr_is_terminal: bool,
    /// Whether colours are wanted where there is a terminal.
    pub colour: bool,
    /// How many columns the terminal has.
    pub width: usize,
    /// How many lines the terminal has.
    pub height: usize,
    /// Whether a terminal shows no letters but those of ASCII.
    pub ascii: bool,
    /// Whether a program reads the output.
    pub json: bool,
    /// Whether progress is unwanted.
    pub quiet: bool,
}

/// What is watched: the cluster, or why it cannot be seen.
type Watched<'a> = Result<(&'a Blueprint, &'a Observed, &'a Plan), &'a Problem>;

type Sink = Arc<Mutex<Box<dyn Write + Send>>>;

/// Columns that text aims for at most.
const WIDEST: usize = 160;

/// Prints. Cheap to clone; all clones print to the same place.
#[derive(Clone)]
pub struct Printer {
    settings: Settings,
    out: Sink,
    err: Sink,
    /// Why something did not reach stdout.
    failed: Arc<Mutex<Option<io::Error>>>,
    /// Options that commands in the text need to mean the same cluster as this one.
    flags: Arc<str>,
}

impl Printer {
    /// A printer on the program's own stdout and stderr.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::onto(settings, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// A printer on other writers.
    #[must_use]
    pub fn onto(settings: Settings, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let (out, err) = (Arc::new(Mutex::new(out)), Arc::new(Mutex::new(err)));
        Self { settings, out, err, failed: Arc::default(), flags: Arc::from("") }
    }

    /// The same printer for a command line with these options, each with a space before it: commands that people are told to type get
    /// them, too.
    #[must_use]
    pub fn with_flags(self, flags: &str) -> Self {
        Self { flags: Arc::from(flags), ..self }
    }

    /// Why not everything reached stdout, if so. A reader that has enough, as `head`, is not a failure.
    #[must_use]
    pub fn failure(&self) -> Option<Problem> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let error = failed.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
        Some(Problem::of(crate::exit::Exit::Systems, error).within("could not write to stdout"))
    }

    /// Whether the reader of stdout went away, as `head` does when it has enough. It shows when something is written.
    #[must_use]
    pub fn has_no_reader(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether a program reads the output.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.settings.json
    }

    /// Problems of a file. That there are none is a result.
    pub fn diagnostics(&self, sources: &[Source], diagnostics: &[Diagnostic]) {
        if self.settings.json {
            self.data(&serde_json::json!({ "problems": diagnostics::json(diagnostics) }));
        } else if diagnostics.is_empty() {
            self.to_out(|w, ink| diagnostics::human(w, ink, sources, diagnostics));
        } else {
            let ink = self.ink(self.settings.stderr_is_terminal);
            print(&self.err, ink, |w, ink| diagnostics::human(w, ink, sources, diagnostics));
        }
    }

    /// What the file decides.
    pub fn blueprint(&self, blueprint: &Blueprint) {
        if self.settings.json {
            self.data(blueprint);
        } else {
            // A list of decisions is read to its end, so it is never cut.
            self.to_out(|w, ink| show::human(w, Ink { limit: usize::MAX, ..ink }, blueprint));
        }
    }

    /// What became of another tool's files. `written` says where the result is; without it, the result is printed too.
    pub fn imported(&self, imported: &Imported, written: Option<&std::path::Path>) {
        if self.settings.json {
            self.data(&import::json(imported, written));
            return;
        }
        if written.is_none() {
            self.verbatim(&imported.yaml);
        }
        self.to_err(|w, ink| import::human(w, ink, imported, written));
    }

    /// What would be done.
    pub fn plan(&self, plan: &Plan, verb: Verb) {
        if self.settings.json {
            self.data(&plan::json(plan, verb));
        } else {
            let plan = harmless::data(plan);
            self.to_window(|w, ink| plan::human(w, ink, &plan, verb));
        }
    }

    /// What would be done, for a pull request.
    pub fn markdown(&self, plan: &Plan, verb: Verb) {
        let plan = harmless::data(plan);
        self.to_out(|w, _| markdown::write(w, &plan, verb));
    }

    /// The conditions of health.
    pub fn health(&self, cluster: &str, health: &engine::health::Health) {
        if self.settings.json {
            self.data(&health::json(cluster, health));
        } else {
            self.to_window(|w, ink| health::human(w, ink, cluster, health));
        }
    }

    /// How the cluster is.
    pub fn status(&self, blueprint: &Blueprint, observed: &Observed, plan: &Plan, backup: Option<&Seen>) {
        if self.settings.json {
            let document = status::json(blueprint, observed, plan);
            match backup.map(backup::seen_json) {
                Some(backup) => self.data(&status::WithBackup { document, backup }),
                None => self.data(&document),
            }
        } else {
            let (observed, plan) = (harmless::data(observed), harmless::data(plan));
            self.to_window(|w, ink| {
                status::human(w, ink, blueprint, &observed, &plan)?;
                backup.map_or(Ok(()), |seen| backup::line(w, ink, seen))
            });
        }
    }

    /// How the cluster is, or why that is not known, again and again, with a last line of its own. In a window each page takes
    /// the place of the one before and is as tall as the window, which may have `size` now; elsewhere a line is left free
    /// between two.
    pub fn watched(
        &self,
        seen: Watched<'_>,
        backup: Option<&Seen>,
        size: Option<(usize, usize)>,
        first: bool,
        last: &str,
    ) {
        let mut settings = self.settings;
        (settings.width, settings.height) = size.unwrap_or((settings.width, settings.height));
        let sized = Self { settings, ..self.clone() };
        if settings.json || !settings.stdout_is_terminal || !settings.stderr_is_terminal {
            if !settings.json && !first {
                self.to_out(|w, _| writeln!(w));
            }
            return match seen {
                Ok((blueprint, observed, plan)) => self.status(blueprint, observed, plan, backup),
                Err(problem) => self.problem(problem),
            };
        }
        let ink = sized.ink(true);
        let seen = seen
            .map(|(blueprint, observed, plan)| (blueprint, harmless::data(observed), harmless::data(plan)));
        let page = written(ink, |w, ink| {
            self.wrapped(w, ink, |w, ink| {
                match &seen {
                    // Of the window, the last line and the one of the cursor are taken.
                    Ok((blueprint, observed, plan)) => {
                        let room = settings.height.saturating_sub(2 + usize::from(backup.is_some()));
                        status::within(w, ink, (blueprint, observed, plan), room)?;
                        backup.map_or(Ok(()), |seen| backup::line(w, ink, seen))?;
                    }
                    Err(problem) => error::human(w, ink, problem)?,
                }
                writeln!(w, "{}", ink.dim(last))
            })
        });
        // The page is harmless; only now the cursor is moved.
        self.emit(window::page(&page, settings.height, first).as_bytes());
    }

    /// What was found out about Proxmox.
    pub fn findings(&self, caller: &str, found: &[Finding]) {
        if self.settings.json {
            self.data(&findings::json(caller, found));
        } else {
            self.to_window(|w, ink| findings::human(w, ink, caller, found));
        }
    }

    /// The backups of a cluster.
    pub fn backups(&self, backups: &Backups, entries: &[Entry]) {
        if self.settings.json {
            let entries: Vec<serde_json::Value> = entries.iter().map(backup::entry).collect();
            self.data(&serde_json::json!({ "folder": backups.folder(), "backups": entries }));
        } else {
            self.to_window(|w, ink| backup::list(w, ink, backups.folder(), entries));
        }
    }

    /// A backup that was just made.
    pub fn backup_made(&self, backups: &Backups, entry: &Entry) {
        if self.settings.json {
            self.data(&serde_json::json!({ "folder": backups.folder(), "backup": backup::entry(entry) }));
        } else {
            let recipients = backups.recipients().len();
            self.to_window(|w, ink| backup::made(w, ink, backups.folder(), recipients, entry));
        }
    }

    /// A backup that was found sound.
    pub fn backup_verified(&self, verified: &Verified) {
        if self.settings.json {
            self.data(&backup::sound_json(verified));
        } else {
            self.to_window(|w, ink| backup::sound(w, ink, verified));
        }
    }

    /// A backup that was not found sound.
    pub fn backup_damaged(&self, name: &Name, problem: &Problem) {
        if self.settings.json {
            self.data(&backup::damaged_json(name, problem));
        } else {
            self.to_window(|w, ink| backup::damaged(w, ink, name, problem));
        }
    }

    /// Backups that would be deleted, or were.
    pub fn prunable(&self, found: &Prunable, deleted: bool) {
        if self.settings.json {
            self.data(&backup::prunable_json(found, deleted));
        } else {
            self.to_window(|w, ink| backup::prunable(w, ink, found));
        }
    }

    /// Why the program ends without having done what was asked.
    pub fn problem(&self, problem: &Problem) {
        if self.settings.json {
            self.data(&error::json(problem));
        } else {
            self.to_err(|w, ink| error::human(w, ink, problem));
        }
    }

    /// A view of a run that carries out `plan`.
    #[must_use]
    pub fn run(&self, plan: &Plan, saved: bool) -> RunView {
        RunView::new(self.clone(), &harmless::data(plan), saved)
    }

    /// A result in words. Says nothing when a program reads the output.
    pub fn say(&self, text: &str) {
        if !self.settings.json {
            self.to_window(|w, _| writeln!(w, "{text}"));
        }
    }

    /// Commands to type, each with what it is for: beside it where the window is wide enough, else above it, so that no
    /// command is broken.
    pub fn commands(&self, lines: &[(String, &str)]) {
        if !self.settings.json {
            self.to_out(|w, ink| commands(w, ink, lines));
        }
    }

    /// Something to know that is no result. Says nothing when it is unwanted or a program reads the output.
    pub fn note(&self, text: &str) {
        if !self.settings.json && !self.settings.quiet {
            self.to_err(|w, _| writeln!(w, "{text}"));
        }
    }

    /// A question, without the end of the line. The answer is the caller's to read.
    pub fn ask(&self, question: &str) {
        self.to_err(|w, _| write!(w, "{question} "));
    }

    /// A result as it stands, for people. Nothing in it may come from a server.
    pub fn verbatim(&self, text: &str) {
        self.emit(text.as_bytes());
    }

    /// A result that is a text, such as a kubeconfig; for programs as one document with that text.
    pub fn document(&self, text: &str) {
        match self.settings.json {
            true => self.data(&serde_json::json!({ "text": text })),
            false => self.verbatim(text),
        }
    }

    /// What a machine printed, wherever its lines were cut.
    pub fn printed(&self, text: &str) {
        let text = harmless::for_people(text, false);
        self.emit(text.as_bytes());
    }

    /// A result as one line of JSON, for any reader.
    pub fn data(&self, value: &impl Serialize) {
        // What cannot be turned into JSON is left out.
        if let Ok(json) = serde_json::to_string(value) {
            let json = match json.strip_prefix('{') {
                Some(rest) if !rest.starts_with('}') => format!("{{\"schema\":{JSON_SCHEMA},{rest}"),
                _ => json,
            };
            self.emit(format!("{}\n", harmless::for_programs(&json)).as_bytes());
        }
    }

    fn emit(&self, text: &[u8]) {
        if let Err(error) = emit(&self.out, text) {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    pub(crate) fn to_out(&self, write: impl FnOnce(&mut dyn Write, Ink) -> io::Result<()>) {
        self.emit(written(self.ink(self.settings.stdout_is_terminal), write).as_bytes());
    }

    /// As [`Self::to_out`], for text that people read.
    fn to_window(&self, write: impl FnOnce(&mut dyn Write, Ink) -> io::Result<()>) {
        self.to_out(|w, ink| self.wrapped(w, ink, write));
    }

    pub(crate) fn to_err(&self, write: impl FnOnce(&mut dyn Write, Ink) -> io::Result<()>) {
        print(&self.err, self.ink(self.settings.stderr_is_terminal), |w, ink| self.wrapped(w, ink, write));
    }

    /// Writes a view so that in a window its lines end between words.
    fn wrapped(
        &self,
        w: &mut dyn Write,
        ink: Ink,
        write: impl FnOnce(&mut dyn Write, Ink) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        write(&mut text, ink)?;
        let text = String::from_utf8_lossy(&text);
        let text = next::with_flags(&text, &self.flags);
        let text = window::wrap(&text, ink.limit);
        let text = if ink.ascii { window::plain_letters(&text) } else { text };
        w.write_all(text.as_bytes())
    }

    fn ink(&self, is_terminal: bool) -> Ink {
        let limit = if is_terminal { self.settings.width } else { usize::MAX };
        // What is not read in a window is as wide as most windows are; beyond some width lines get harder to read.
        let width = if is_terminal { self.settings.width.min(WIDEST) } else { 100 };
        let ascii = self.settings.ascii && is_terminal;
        Ink { colour: self.settings.colour && is_terminal, width, limit, ascii }
    }
}

fn commands(w: &mut dyn Write, ink: Ink, lines: &[(String, &str)]) -> io::Result<()> {
    let width = lines.iter().map(|(command, _)| window::columns(command)).max().unwrap_or(0);
    let fits = lines.iter().all(|(_, what)| width + window::columns(what) + 5 <= ink.limit);
    for (command, what) in lines {
        if fits {
            writeln!(w, "  {command:width$}   {what}")?;
        } else {
            writeln!(w, "  {}\n    {command}", ink.dim(what))?;
        }
    }
    Ok(())
}

/// Writes a view in one piece, so that lines of different tasks never mix.
fn print(sink: &Sink, ink: Ink, write: impl FnOnce(&mut dyn Write, Ink) -> io::Result<()>) {
    // What cannot be said on stderr has no other place.
    let _ = emit(sink, written(ink, write).as_bytes());
}

/// What a view writes, without anything that came from outside and that a terminal would obey.
fn written(ink: Ink, write: impl FnOnce(&mut dyn Write, Ink) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail; what a view could not turn into text is left out.
    let _ = write(&mut text, ink);
    harmless::for_people(&String::from_utf8_lossy(&text), ink.colour).into_owned()
}

fn emit(sink: &Sink, text: &[u8]) -> io::Result<()> {
    let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
    sink.write_all(text).and_then(|()| sink.flush())
}

#[cfg(test)]
mod tests;
