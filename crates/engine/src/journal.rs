//! Events on disk, one JSON object a line, appended before anyone else hears of them.
//!
//! The journal is for people and for support: what was approved and done, by whom, when, and how it ended. Nothing is ever decided
//! from it, so it may be deleted at any time. For the same reason a write that fails does not stop an apply; the first one is
//! remembered and reported at the end.
//!
//! Where it is kept is the front end's choice: a file in a working folder, or anything else that is a [`JournalStore`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use model::event::Event;

/// A journal that is open for one run.
pub trait Log: Send {
    /// Appends an event.
    ///
    /// # Errors
    ///
    /// When it cannot be written. The run goes on.
    fn append(&mut self, event: &Event) -> io::Result<()>;
}

/// Where the journal of a cluster is kept.
pub trait JournalStore: Send + Sync {
    /// Opens it for appending.
    ///
    /// # Errors
    ///
    /// When it cannot be opened: then nothing is changed.
    fn open(&self) -> io::Result<Box<dyn Log>>;

    /// Its last lines.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn tail(&self, lines: usize) -> io::Result<Vec<String>>;

    /// What people call it.
    fn name(&self) -> String;
}

/// A journal in a file that only its owner can read. Its folder is created if needed.
#[derive(Debug, Clone)]
pub struct FileJournal {
    path: PathBuf,
}

impl FileJournal {
    /// The journal at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl JournalStore for FileJournal {
    fn open(&self) -> io::Result<Box<dyn Log>> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(options.open(&self.path)?))
    }

    fn tail(&self, lines: usize) -> io::Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.path)?;
        let all: Vec<&str> = text.lines().collect();
        let tail = &all[all.len().saturating_sub(lines)..];
        Ok(tail.iter().map(|line| (*line).to_owned()).collect())
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

impl Log for File {
    fn append(&mut self, event: &Event) -> io::Result<()> {
        let line = serde_json::to_string(event).map_err(io::Error::other)?;
        self.write_all(format!("{line}\n").as_bytes())
    }
}
