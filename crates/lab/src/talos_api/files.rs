//! Files: a small tree of what people and programs look for, and the calls that walk it.
//!
//! The tree is made again for each call from what the machine is now (`tree`); listing, reading, copying and measuring are rules
//! over it, with the words that Go's file functions have. Folders come before what is in them and names in order, as a walk
//! goes.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, stream};
use talos::wire::common::{Data, Metadata};
use talos::wire::machine as wire;
use tonic::codegen::BoxStream;
use tonic::{Response, Status};

use super::Caller;
use super::kubeconfig::header;
use super::machine_service::Answer;

mod tree;

/// Mode bits as Go writes them: a folder, and a symbolic link.
const FOLDER: u32 = 1 << 31;
const LINK: u32 = 1 << 27;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Folder,
    File(Vec<u8>),
    /// A symbolic link, relative to its own folder.
    Link(String),
}

impl Entry {
    fn bytes(&self) -> i64 {
        let bytes = match self {
            Self::Folder => 4096,
            Self::File(content) => content.len(),
            Self::Link(target) => target.len(),
        };
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// A path by its parts: a folder sorts before what is in it.
type Path = Vec<String>;

/// All there is, by path.
pub(super) struct Tree(BTreeMap<Path, Entry>);

/// Where a walk started, and what it went through.
type Walk<'a> = (Path, Vec<(&'a Path, &'a Entry)>);

/// Why a path leads nowhere, in the kernel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nowhere {
    Missing,
    /// Something on the way is not a folder.
    NoFolder,
}

impl Nowhere {
    fn words(self) -> &'static str {
        match self {
            Self::Missing => "no such file or directory",
            Self::NoFolder => "not a directory",
        }
    }
}

fn parts(path: &str) -> Path {
    let mut found: Path = vec![];
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(found.pop()),
            name => found.push(name.to_owned()),
        }
    }
    found
}

fn written(path: &[String]) -> String {
    format!("/{}", path.join("/"))
}

impl Tree {
    /// Puts something somewhere, and folders above it.
    fn put(&mut self, path: &str, entry: Entry) {
        let path = parts(path);
        for length in 0..path.len() {
            self.0.entry(path[..length].to_vec()).or_insert(Entry::Folder);
        }
        self.0.insert(path, entry);
    }

    /// The path with the links on its way followed, the last one only where `last` says so.
    fn resolve(&self, path: &str, last: bool) -> Result<Path, Nowhere> {
        let mut waiting: Vec<String> = parts(path).into_iter().rev().collect();
        let mut at: Path = vec![];
        // More links than any sound tree has in a row.
        for _ in 0..64 {
            let Some(name) = waiting.pop() else { return Ok(at) };
            at.push(name);
            match self.0.get(&at) {
                None => return Err(Nowhere::Missing),
                Some(Entry::File(_)) if !waiting.is_empty() => return Err(Nowhere::NoFolder),
                Some(Entry::Link(target)) if last || !waiting.is_empty() => {
                    at.pop();
                    let whole = if target.starts_with('/') {
                        target.clone()
                    } else {
                        format!("{}/{target}", written(&at))
                    };
                    waiting.extend(parts(&whole).into_iter().rev());
                    at.clear();
                }
                Some(_) => {}
            }
        }
        Err(Nowhere::Missing)
    }

    /// A path and everything below it, in the order of a walk. A link is followed where the walk starts.
    fn walk(&self, root: &str) -> Result<Walk<'_>, Nowhere> {
        let root = self.resolve(root, false).and_then(|_| self.resolve(root, true))?;
        let all = self.0.range(root.clone()..).take_while(|(path, _)| path.starts_with(&root)).collect();
        Ok((root, all))
    }
}

/// A path as the calls that walk take it: from the root, without a slash at its end.
fn rooted(path: &str) -> String {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let trimmed = path.strip_suffix('/').unwrap_or(&path);
    if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() }
}

/// What a path is called from where a walk started.
fn relative(root: &Path, path: &Path, entry: &Entry) -> String {
    match path.get(root.len()..) {
        Some([]) if *entry == Entry::Folder => ".".to_owned(),
        Some([]) | None => path.last().cloned().unwrap_or_default(),
        Some(rest) => rest.join("/"),
    }
}

impl Caller {
    /// The content of a file.
    pub(super) fn file(&self, path: &str) -> Result<Vec<u8>, Status> {
        let tree = self.tree();
        let found = tree.resolve(path, true).map(|path| tree.0.get(&path));
        match found {
            Ok(Some(Entry::File(content))) => Ok(content.clone()),
            Ok(_) => Err(Status::unknown("path must be a regular file")),
            Err(Nowhere::Missing) => {
                Err(Status::not_found(format!("stat {path}: {}", Nowhere::Missing.words())))
            }
            Err(why) => Err(Status::unknown(format!("stat {path}: {}", why.words()))),
        }
    }

    pub(super) fn list_files(&self, request: &wire::ListRequest) -> Answer<BoxStream<wire::FileInfo>> {
        use wire::list_request::Type;
        let (tree, asked) = (self.tree(), rooted(&request.root));
        let (root, all) =
            tree.walk(&asked).map_err(|why| Status::unknown(format!("lstat {asked}: {}", why.words())))?;
        let depth = match (request.recurse, usize::try_from(request.recursion_depth)) {
            (false, _) => 1,
            (true, Ok(0) | Err(_)) => usize::MAX,
            (true, Ok(depth)) => depth,
        };
        let types: Vec<Type> = request.types().collect();
        let wanted = |entry: &Entry| {
            let own = match entry {
                Entry::Folder => Type::Directory,
                Entry::File(_) => Type::Regular,
                Entry::Link(_) => Type::Symlink,
            };
            types.is_empty() || types.contains(&own)
        };
        let modified = self.shared.clock().now().as_second();
        let shown = all.into_iter().filter(|(path, entry)| path.len() <= root.len() + depth && wanted(entry));
        let found = shown.map(|(path, entry)| {
            let etcd = path.iter().any(|part| part == "etcd");
            let owner = if etcd { 60 } else { 0 };
            Ok(wire::FileInfo {
                name: written(path),
                size: entry.bytes(),
                mode: match entry {
                    Entry::Folder if etcd => FOLDER | 0o700,
                    Entry::Folder => FOLDER | 0o755,
                    Entry::File(_) => 0o644,
                    Entry::Link(_) => LINK | 0o777,
                },
                modified,
                is_dir: *entry == Entry::Folder,
                link: if let Entry::Link(target) = entry { target.clone() } else { String::new() },
                relative_name: relative(&root, path, entry),
                uid: owner,
                gid: owner,
                ..wire::FileInfo::default()
            })
        });
        Ok(Response::new(stream::iter(found.collect::<Vec<_>>()).boxed()))
    }

    /// What paths take. Of several, those up to the first that is there are told.
    pub(super) fn disk_usages(
        &self,
        request: &wire::DiskUsageRequest,
    ) -> Answer<BoxStream<wire::DiskUsageInfo>> {
        let tree = self.tree();
        let mut told = vec![];
        for asked in &request.paths {
            let asked = rooted(asked);
            match tree.walk(&asked) {
                Ok((root, all)) => {
                    told.extend(usages(&root, &all, request));
                    break;
                }
                Err(why) => told.push(wire::DiskUsageInfo {
                    name: asked.clone(),
                    error: format!("lstat {asked}: {}", why.words()),
                    relative_name: asked,
                    ..wire::DiskUsageInfo::default()
                }),
            }
        }
        Ok(Response::new(stream::iter(told.into_iter().map(Ok).collect::<Vec<_>>()).boxed()))
    }

    /// What is at a path, as an archive. Where there is nothing, the answer is well and says so in its metadata.
    pub(super) fn archive(&self, asked: &str) -> Result<Vec<Data>, Status> {
        if !asked.starts_with('/') {
            let clean = parts(asked).join("/");
            let clean = if clean.is_empty() { ".".to_owned() } else { clean };
            return Err(Status::unknown(format!("path is not absolute {clean}")));
        }
        let (tree, clean) = (self.tree(), written(&parts(asked)));
        let (root, all) = match tree.walk(&clean) {
            Ok(found) => found,
            Err(why) => {
                let error = format!("lstat {clean}: {}", why.words());
                let metadata = Some(Metadata { error, ..Metadata::default() });
                return Ok(vec![Data { metadata, bytes: vec![] }]);
            }
        };
        let now = self.shared.clock().now();
        let mut gzip = GzEncoder::new(vec![], Compression::default());
        let mut write = |bytes: &[u8]| {
            let outcome = gzip.write_all(bytes);
            outcome.map_err(|error| Status::internal(error.to_string()))
        };
        for (path, entry) in all {
            if *path == root && *entry == Entry::Folder {
                continue;
            }
            let name = relative(&root, path, entry);
            match entry {
                Entry::Folder => write(&header(&format!("{name}/"), 0, b'5', "", now))?,
                Entry::Link(target) => write(&header(&name, 0, b'2', target, now))?,
                Entry::File(content) => {
                    write(&header(&name, content.len(), b'0', "", now))?;
                    write(content)?;
                    write(&vec![0; content.len().next_multiple_of(512) - content.len()])?;
                }
            }
        }
        write(&[0; 1024])?;
        let bytes = gzip.finish().map_err(|error| Status::internal(error.to_string()))?;
        Ok(vec![Data { metadata: None, bytes }])
    }
}

/// The sizes of folders with all that is in them, deepest first; files too, where all are asked for.
fn usages(
    root: &Path,
    all: &[(&Path, &Entry)],
    request: &wire::DiskUsageRequest,
) -> Vec<wire::DiskUsageInfo> {
    let depth_limit = usize::try_from(request.recursion_depth).ok().filter(|depth| *depth > 0);
    let told = all.iter().rev().filter_map(|(path, entry)| {
        let size = match entry {
            Entry::Folder => {
                all.iter().filter(|(other, _)| other.starts_with(path)).map(|(_, entry)| entry.bytes()).sum()
            }
            _ => entry.bytes(),
        };
        let depth = path.len() - root.len();
        let hidden = depth_limit.is_some_and(|limit| depth >= limit)
            || **entry != Entry::Folder && !request.all
            || request.threshold > 0 && size < request.threshold
            || request.threshold < 0 && size > -request.threshold;
        (!hidden).then(|| wire::DiskUsageInfo {
            metadata: None,
            name: written(path),
            size,
            error: String::new(),
            relative_name: relative(root, path, entry),
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree(BTreeMap::new());
        tree.put("/usr/bin/init", Entry::File(vec![1; 10]));
        tree.put("/bin", Entry::Link("usr/bin".to_owned()));
        tree.put("/etc/a.b", Entry::File(vec![]));
        tree.put("/etc/a/c", Entry::File(vec![1; 4]));
        tree
    }

    fn names(root: &str) -> Result<Vec<String>, Nowhere> {
        let tree = tree();
        let (_, all) = tree.walk(root)?;
        Ok(all.into_iter().map(|(path, _)| written(path)).collect())
    }

    #[test]
    fn a_walk_follows_the_link_where_it_begins_and_knows_what_is_no_folder() {
        assert_eq!(names("/bin").unwrap(), ["/usr/bin", "/usr/bin/init"]);
        assert_eq!(names("/bin/init").unwrap(), ["/usr/bin/init"]);
        assert_eq!(names("/etc").unwrap(), ["/etc", "/etc/a", "/etc/a/c", "/etc/a.b"]);
        assert_eq!(names("/nope"), Err(Nowhere::Missing));
        assert_eq!(names("/etc/a.b/x"), Err(Nowhere::NoFolder));
    }

    #[test]
    fn a_folder_counts_all_that_is_in_it() {
        let tree = tree();
        let (root, all) = tree.walk("/etc").unwrap();
        let sizes = |all_files, depth| {
            let request =
                wire::DiskUsageRequest { all: all_files, recursion_depth: depth, ..Default::default() };
            let told = usages(&root, &all, &request).into_iter();
            told.map(|usage| (usage.relative_name, usage.size)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(false, 0), [("a".to_owned(), 4100), (".".to_owned(), 8196)]);
        assert_eq!(sizes(false, 1), [(".".to_owned(), 8196)]);
        assert_eq!(sizes(true, 0).len(), 4);
    }
}
