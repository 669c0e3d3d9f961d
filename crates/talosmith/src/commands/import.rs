//! `import`: another tool's files, read as they stand.
//!
//! Which files belong to an input is decided here, because it takes looking at folders; everything else is
//! [`::import`].

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use ::import::{Imported, Input, Reach, is_wanted};
use model::diagnostic::{Diagnostic, Source};

use super::setup::read_text;
use crate::args::ImportArgs;
use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// A folder with more files than this is not the folder of a cluster.
const MAX_FILES: usize = 5_000;
/// All that is read, in bytes.
const MAX_TOTAL: usize = 64 << 20;

/// Imports, and says what became of it.
pub fn import(args: &ImportArgs, printer: &Printer) -> Result<Exit, Problem> {
    if let Some(path) = &args.output {
        refuse_existing(path, args.force)?;
    }
    let mut gathered = Gathered::default();
    for path in &args.paths {
        gathered.add(path)?;
    }
    let reach = if args.paths.iter().any(|path| path.is_dir()) { Reach::Folder } else { Reach::Files };
    let folder = args.output.as_deref().and_then(Path::parent).unwrap_or_else(|| Path::new(""));
    let input =
        Input { sources: &gathered.sources, reach, here: &whole(Path::new("."))?, result: &whole(folder)? };
    match ::import::import(&input) {
        Err(failed) => {
            printer.diagnostics(&failed.sources, &failed.diagnostics);
            Ok(Exit::Input)
        }
        Ok(imported) => {
            if let Some(path) = &args.output {
                write_new(path, &imported.yaml, args.force)?;
            }
            printer.imported(&imported, args.output.as_deref());
            Ok(exit(&imported))
        }
    }
}

/// A result that cannot be applied as it stands is wrong input to whatever comes next.
fn exit(imported: &Imported) -> Exit {
    if imported.checks.iter().any(Diagnostic::is_error) { Exit::Input } else { Exit::Done }
}

#[derive(Default)]
struct Gathered {
    sources: Vec<Source>,
    total: usize,
}

impl Gathered {
    /// Adds a file that was named, or all that may matter in a folder.
    fn add(&mut self, path: &Path) -> Result<(), Problem> {
        if path.is_dir() {
            return self.folder(path);
        }
        let text = read_text(path)
            .map_err(|problem| problem.within(format!("could not read {}", path.display())))?;
        self.push(path, text)
    }

    fn folder(&mut self, folder: &Path) -> Result<(), Problem> {
        let problem = |e: std::io::Error| {
            Problem::of(Exit::Input, &e).within(format!("could not read the folder {}", folder.display()))
        };
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(problem)? {
            let entry = entry.map_err(problem)?;
            inside.push((entry.file_name(), entry.file_type().map_err(problem)?));
        }
        inside.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in inside {
            let name = name.to_string_lossy();
            let path = folder.join(&*name);
            // What tools keep for themselves (.git, .terraform), and links that may lead in circles.
            if kind.is_dir() && !name.starts_with('.') && name != "node_modules" {
                self.folder(&path)?;
            } else if !kind.is_dir() && is_wanted(&name) && path.is_file() {
                // A text that cannot be read may lie here for any reason; one that is needed will be missed by name.
                if let Ok(text) = read_text(&path) {
                    self.push(&path, text)?;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, path: &Path, text: String) -> Result<(), Problem> {
        self.total += text.len();
        self.sources.push(Source::new(as_seen_from_here(path), text));
        if self.sources.len() > MAX_FILES || self.total > MAX_TOTAL {
            return Err(Problem::new(Exit::Input, "there are more files than any cluster has")
                .hint("name the folder that holds the cluster's own files"));
        }
        Ok(())
    }
}

/// A folder as seen from the root.
fn whole(folder: &Path) -> Result<String, Problem> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let path = std::path::absolute(folder)
        .map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not find {}", folder.display())))?;
    Ok(as_seen_from_here(&path))
}

/// A path as text with `/`, so that it compares with what stands in files.
fn as_seen_from_here(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    text.strip_prefix("./").map_or_else(|| text.clone(), str::to_owned)
}

/// Refuses early to write over something.
pub fn refuse_existing(path: &Path, force: bool) -> Result<(), Problem> {
    if path.exists() && !force {
        return Err(Problem::new(Exit::Usage, format!("{} already exists", path.display()))
            .hint("name another file, or add `--force` to write over it"));
    }
    Ok(())
}

/// Writes a file, over an old one only when that is wanted.
pub fn write_new(path: &Path, text: &str, force: bool) -> Result<(), Problem> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not write {}", path.display())))
}
