//! A large file, written piece by piece under a temporary name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{TEMPORARY, folder_of, temporary_name};

/// A file that is being written. Dropped before it has its name, it leaves nothing; a process that dies leaves a temporary file at most.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    placed: bool,
}

impl NewFile {
    /// Starts a file that only its owner can read. A folder that does not exist is created, for its owner only.
    ///
    /// # Errors
    ///
    /// What the file system says; [`ErrorKind::AlreadyExists`] when there is a file with this name.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Self::beside(path)
    }

    /// The same beside a file that may exist.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn beside(path: &Path) -> io::Result<Self> {
        let folder = folder_of(path);
        create_private_folder(folder)?;
        let temporary = folder.join(temporary_name(path));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&temporary)?;
        // Shows the next writer that it is not abandoned. Some network file systems have no locks: there, nothing is ever removed as
        // abandoned.
        let _ = file.try_lock();
        Ok(Self { path: path.to_owned(), temporary, file, placed: false })
    }

    /// Flushes what was written to the disk.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Opens what was written, to read it back.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn reopen(&self) -> io::Result<File> {
        File::open(&self.temporary)
    }

    /// Gives the file its name, after everything is on the disk. A file that has it already is not replaced.
    ///
    /// # Errors
    ///
    /// What the file system says; [`ErrorKind::AlreadyExists`].
    pub fn place(self) -> io::Result<()> {
        self.named(false)
    }

    /// The same; a file that has the name already is replaced in one step.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn replace(self) -> io::Result<()> {
        self.named(true)
    }

    /// Writes to another file from now on, which stands for a disk that fails.
    #[cfg(test)]
    pub(crate) fn on(self, file: File) -> Self {
        let (path, temporary) = (self.path.clone(), self.temporary.clone());
        // The first one must not be removed with its guard.
        std::mem::forget(self);
        Self { path, temporary, file, placed: false }
    }

    fn named(mut self, replace: bool) -> io::Result<()> {
        self.sync()?;
        let linked = match replace {
            true => Err(ErrorKind::Unsupported.into()),
            false => std::fs::hard_link(&self.temporary, &self.path),
        };
        match linked {
            Ok(()) => std::fs::remove_file(&self.temporary)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
            // A file system without links, such as that of many network shares.
            Err(_) => {
                if !replace && self.path.try_exists()? {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                std::fs::rename(&self.temporary, &self.path)?;
            }
        }
        self.placed = true;
        File::open(folder_of(&self.path))?.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.placed {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Creates a folder, if there is none, that only its owner can read.
///
/// # Errors
///
/// What the file system says.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Removes what dead processes left of files whose names start so. What another process still writes is locked, and stays. That it cannot
/// be removed harms nothing.
pub fn remove_abandoned_of(folder: &Path, start: &str) {
    let is_temporary = |name: &str| {
        let rest = name.strip_prefix('.').filter(|rest| rest.starts_with(start));
        let rest = rest.and_then(|rest| rest.strip_suffix(TEMPORARY));
        rest.and_then(|rest| rest.rsplit_once('.')).is_some_and(|(_, id)| id.parse::<Uuid>().is_ok())
    };
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in found.filter(|entry| is_temporary(&entry.file_name().to_string_lossy())) {
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_only_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner").join("home-1.snap");
        let mut half = NewFile::create(&path).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(names(path.parent().unwrap()), [] as [&str; 0], "nothing is left of it");
        let mut whole = NewFile::create(&path).unwrap();
        let mut other = NewFile::create(&path).unwrap();
        whole.write_all(b"whole").unwrap();
        other.write_all(b"other").unwrap();
        whole.place().unwrap();
        assert_eq!(other.place().unwrap_err().kind(), ErrorKind::AlreadyExists, "it is not replaced");
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(path.parent().unwrap()), ["home-1.snap"]);
        assert_eq!(NewFile::create(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
    }

    #[test]
    fn only_what_is_abandoned_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let held = NewFile::create(&folder.path().join("home-1.snap")).unwrap();
        let id = Uuid::from_bytes([7; 16]);
        let dead = format!(".home-2.snap.{id}.new");
        for name in [&dead, ".home-3.snap.new", "home-4.snap", &format!(".office-1.snap.{id}.new")] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let before = names(folder.path()).len();
        remove_abandoned_of(folder.path(), "home-");
        let after = names(folder.path());
        assert_eq!((before - 1, after.contains(&dead)), (after.len(), false), "{after:?}");
        drop(held);
    }
}
