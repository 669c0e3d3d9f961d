//! Files that must not be lost or seen: written whole or not at all, readable by their owner only, flushed with their folder.
//!
//! A file is written under a random temporary name that no other process uses, flushed, read back, and only then gets its own
//! name: by a link, which never replaces a file, or by a rename, which does. A process that dies in between leaves a
//! temporary file at most. Its owner held a lock on it, so the next writer sees that it is abandoned, and removes it.

mod streamed;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;
use zeroize::Zeroizing;

pub use streamed::{NewFile, create_private_folder, remove_abandoned_of};

/// With this ends the name of a file that is being written.
const TEMPORARY: &str = ".new";
/// How often another process may take a temporary file for abandoned before that is an error.
const ATTEMPTS: u32 = 5;

/// What becomes of a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and writing fails.
    Keep,
    /// It is replaced in one step.
    Replace,
}

/// The moments between two operations on the file system, for tests that end the process at each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The temporary file exists and is empty.
    Created,
    /// It has its content.
    Written,
    /// Its content is on the disk.
    Flushed,
    /// It was read back.
    Checked,
    /// The file has its name.
    Placed,
    /// The temporary file is gone.
    Removed,
    /// The folder is on the disk.
    FolderFlushed,
}

/// Is told each moment; an error ends the write there.
pub type At<'a> = dyn FnMut(Moment) -> io::Result<()> + 'a;

/// Writes a file that only its owner may read. With `new`, an existing file is an error; otherwise it is replaced in one step.
///
/// # Errors
///
/// What the file system says; [`ErrorKind::AlreadyExists`] where a file that exists is kept.
pub fn write_private(path: &Path, bytes: &[u8], new: bool) -> io::Result<()> {
    let existing = if new { Existing::Keep } else { Existing::Replace };
    write(path, bytes, existing, &|_| Ok(()), &mut |_| Ok(()))
}

/// The same, where `check` looks at what was read back from the disk before it gets its name. When it fails, there is no file.
/// `at` is told each moment.
///
/// # Errors
///
/// What the file system, `check` or `at` says.
pub fn write(
    path: &Path,
    bytes: &[u8],
    existing: Existing,
    check: &dyn Fn(&[u8]) -> io::Result<()>,
    at: &mut At<'_>,
) -> io::Result<()> {
    let folder = folder_of(path);
    std::fs::create_dir_all(folder)?;
    remove_abandoned(path);
    let mut attempt = 1;
    loop {
        match attempt_write(folder, path, bytes, existing, check, at) {
            // Another writer took our temporary file for abandoned in the moment before we had locked it.
            Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => attempt += 1,
            ended => return ended,
        }
    }
}

fn attempt_write(
    folder: &Path,
    path: &Path,
    bytes: &[u8],
    existing: Existing,
    check: &dyn Fn(&[u8]) -> io::Result<()>,
    at: &mut At<'_>,
) -> io::Result<()> {
    let temporary = folder.join(temporary_name(path));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    // Held until the process ends or the file has its name. One that is locked already is being removed by another process.
    file.try_lock().map_err(|_| io::Error::from(ErrorKind::NotFound))?;
    at(Moment::Created)?;
    let placed = place(&mut file, &temporary, path, bytes, existing, check, at);
    if placed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    placed?;
    at(Moment::Removed)?;
    File::open(folder)?.sync_all()?;
    at(Moment::FolderFlushed)
}

fn place(
    file: &mut File,
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
    existing: Existing,
    check: &dyn Fn(&[u8]) -> io::Result<()>,
    at: &mut At<'_>,
) -> io::Result<()> {
    file.write_all(bytes)?;
    at(Moment::Written)?;
    file.sync_all()?;
    at(Moment::Flushed)?;
    file.rewind()?;
    let mut back = Zeroizing::new(Vec::with_capacity(bytes.len()));
    file.read_to_end(&mut back)?;
    if *back != bytes {
        return Err(io::Error::new(ErrorKind::InvalidData, "what was read back is not what was written"));
    }
    check(&back)?;
    at(Moment::Checked)?;
    match existing {
        Existing::Keep => {
            std::fs::hard_link(temporary, path)?;
            at(Moment::Placed)?;
            std::fs::remove_file(temporary)
        }
        Existing::Replace => {
            std::fs::rename(temporary, path)?;
            at(Moment::Placed)
        }
    }
}

/// `.NAME.RANDOM.new`, so that it is beside the file, hidden, and of no other program.
fn temporary_name(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}{TEMPORARY}", Uuid::from_bytes(rand::random())));
    name
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Removes what dead processes left of this file. That it cannot be removed harms nothing. The next write does so, too; where the file
/// had its name when the process died, there is none.
pub fn remove_abandoned(path: &Path) {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    let is_temporary = |name: &OsString| {
        let (name, prefix) = (name.to_string_lossy(), prefix.to_string_lossy());
        let middle = name.strip_prefix(&*prefix).and_then(|rest| rest.strip_suffix(TEMPORARY));
        middle.is_some_and(|middle| middle.parse::<Uuid>().is_ok())
    };
    let found = std::fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> =
        found.filter(|entry| is_temporary(&entry.file_name())).map(|entry| entry.path()).collect();
    for path in paths {
        if let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests;
