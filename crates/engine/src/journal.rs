//! Events on disk, one JSON object a line, appended before anybody else hears of them.
//!
//! The journal is for people and for support: what was done, when, and how it ended. Nothing is ever decided from it, so
//! it may be deleted at any time. For the same reason a write that fails does not stop an apply; it is remembered and
//! told at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use model::event::Event;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    failed: Option<io::Error>,
}

impl Journal {
    /// Opens the journal at `path` for appending, readable by its owner only. The folder is made if needed.
    ///
    /// # Errors
    ///
    /// When the folder or the file cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self { path: path.to_owned(), file: options.open(path)?, failed: None })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first write that failed, if one did.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    pub(crate) fn append(&mut self, event: &Event) {
        let written = serde_json::to_string(event)
            .map_err(io::Error::other)
            .and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}
