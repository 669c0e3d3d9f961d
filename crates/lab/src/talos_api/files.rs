//! Files: the few that the lab knows, and the folders that people look into.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, stream};
use talos::wire::machine as wire;
use tonic::codegen::BoxStream;
use tonic::{Response, Status};

use super::Caller;
use super::kubeconfig::header;
use super::machine_service::Answer;

/// Mode bits as Go writes them: a folder, and a symbolic link.
const FOLDER: u32 = 1 << 31;
const LINK: u32 = 1 << 27;

/// The folders at the root, and the links to others.
const ROOT: &[(&str, &str)] = &[
    (".extra", ""),
    ("bin", "usr/bin"),
    ("boot", ""),
    ("dev", ""),
    ("etc", ""),
    ("lib", "usr/lib"),
    ("mnt", ""),
    ("opt", ""),
    ("proc", ""),
    ("run", ""),
    ("sbin", "usr/sbin"),
    ("sys", ""),
    ("system", ""),
    ("tmp", ""),
    ("usr", ""),
    ("var", ""),
];

impl Caller {
    /// The content of a file.
    pub(super) fn file(&self, path: &str) -> Result<Vec<u8>, Status> {
        let path = format!("/{}", path.trim_start_matches('/'));
        let content = self.read(|machines, now| {
            let machine = machines.get(self.vmid)?;
            let uptime = now.duration_since(machine.network_since().unwrap_or(now)).as_secs();
            match path.as_str() {
                "/proc/sys/kernel/random/boot_id" => Some(format!("{}\n", machine.boot_id())),
                "/etc/hostname" => Some(format!("{}\n", machine.hostname())),
                "/etc/os-release" => {
                    let talos = machine.talos();
                    Some(format!(
                        "NAME=\"Talos\"\nID=talos\nVERSION_ID={talos}\nPRETTY_NAME=\"Talos ({talos})\"\n"
                    ))
                }
                "/etc/resolv.conf" => {
                    Some(machine.resolvers().iter().map(|ip| format!("nameserver {ip}\n")).collect())
                }
                "/proc/uptime" => Some(format!("{uptime}.00 {uptime}.00\n")),
                "/proc/cmdline" => Some("talos.platform=nocloud console=tty1 net.ifnames=0\n".to_owned()),
                _ => None,
            }
        });
        match content {
            Some(text) => Ok(text.into_bytes()),
            None if self.entries(&path).is_some() => Err(Status::unknown("path must be a regular file")),
            None => Err(Status::not_found(format!("stat {path}: no such file or directory"))),
        }
    }

    /// The folders in a folder, and where links lead; `None` when there is no such folder.
    fn entries(&self, path: &str) -> Option<Vec<(String, String)>> {
        let names =
            |list: &[&str]| Some(list.iter().map(|name| ((*name).to_owned(), String::new())).collect());
        let has_etcd = self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.has_etcd_data()));
        match path {
            "/" => Some(ROOT.iter().map(|(name, link)| ((*name).to_owned(), (*link).to_owned())).collect()),
            "/var" => names(&["lib", "log", "mnt", "run"]),
            "/var/lib" if has_etcd => names(&["cni", "containerd", "etcd", "kubelet"]),
            "/var/lib" => names(&["cni", "containerd", "kubelet"]),
            "/var/lib/etcd" if has_etcd => names(&["member"]),
            "/var/lib/etcd/member" if has_etcd => names(&["snap", "wal"]),
            "/var/lib/etcd/member/snap" | "/var/lib/etcd/member/wal" if has_etcd => names(&[]),
            "/var/log" => names(&["audit", "containers", "pods"]),
            "/etc" => names(&["cni", "cri", "kubernetes", "ssl"]),
            _ if ROOT.iter().any(|(name, _)| path == format!("/{name}")) => names(&[]),
            _ => None,
        }
    }

    pub(super) fn list_files(&self, request: &wire::ListRequest) -> Answer<BoxStream<wire::FileInfo>> {
        let root = format!("/{}", request.root.trim_matches('/'));
        let missing = || Status::unknown(format!("lstat {root}: no such file or directory"));
        let depth = match (request.recurse, request.recursion_depth) {
            (false, _) => 1,
            (true, ..=0) => 16,
            (true, depth) => depth,
        };
        let modified = self.shared.clock().now().as_second();
        let etcd = |path: &str| if path.contains("/etcd") { 60 } else { 0 };
        let entry = |path: &str, link: &str| {
            let relative = path.strip_prefix(&root).unwrap_or(path).trim_start_matches('/');
            wire::FileInfo {
                name: path.to_owned(),
                size: if link.is_empty() { 4096 } else { i64::try_from(link.len()).unwrap_or(0) },
                mode: if link.is_empty() { FOLDER | 0o700 } else { LINK | 0o777 },
                modified,
                is_dir: link.is_empty(),
                link: link.to_owned(),
                relative_name: if relative.is_empty() { ".".to_owned() } else { relative.to_owned() },
                uid: etcd(path),
                gid: etcd(path),
                ..wire::FileInfo::default()
            }
        };
        let mut found = vec![entry(&root, "")];
        let mut below = vec![(root.clone(), self.entries(&root).ok_or_else(missing)?, 1)];
        while let Some((folder, names, level)) = below.pop() {
            for (name, link) in names {
                let path = format!("{}/{name}", folder.trim_end_matches('/'));
                found.push(entry(&path, &link));
                if level < depth && link.is_empty() {
                    below.extend(self.entries(&path).map(|names| (path, names, level + 1)));
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Response::new(stream::iter(found.into_iter().map(Ok).collect::<Vec<_>>()).boxed()))
    }

    pub(super) fn disk_usages(&self, paths: &[String]) -> Answer<BoxStream<wire::DiskUsageInfo>> {
        let usages = paths.iter().map(|path| {
            let known = self.entries(path).is_some();
            let error =
                if known { String::new() } else { format!("lstat {path}: no such file or directory") };
            let size = if known { 4096 } else { 0 };
            Ok(wire::DiskUsageInfo {
                metadata: None,
                name: path.clone(),
                size,
                error,
                relative_name: path.clone(),
            })
        });
        Ok(Response::new(stream::iter(usages.collect::<Vec<_>>()).boxed()))
    }

    /// A file as an archive; nothing at all where there is none.
    pub(super) fn archive(&self, path: &str) -> Vec<Vec<u8>> {
        let Ok(content) = self.file(path) else { return vec![] };
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut gzip = GzEncoder::new(vec![], Compression::default());
        let padding = vec![0; content.len().next_multiple_of(512) - content.len() + 1024];
        let written = gzip
            .write_all(&header(name, content.len(), self.shared.clock().now()))
            .and_then(|()| gzip.write_all(&content))
            .and_then(|()| gzip.write_all(&padding));
        written.and_then(|()| gzip.finish()).map(|bytes| vec![bytes]).unwrap_or_default()
    }
}
