//! Fetching images onto a storage, and removing volumes. The lab's hosts reach one place on the internet: its Image Factory.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::factory::Asset;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::Volume;
use crate::hypervisor::tasks::Task;
use crate::hypervisor::work::{Download, DownloadWish, Found, Remove, Work};
use crate::operations::import::is_image;
use crate::operations::tasks::{self, Next};
use crate::world::World;

/// Checks the wish and starts the download.
pub(crate) fn download(
    world: &mut World,
    node: &str,
    wish: DownloadWish,
    caller: &str,
) -> Result<String, Refusal> {
    let storage = world.hypervisor.storages.usable(node, &wish.storage).map_err(Refusal::Failed)?;
    if !storage.kind.keeps_files() {
        let kind = storage.kind.as_str();
        return Err(Refusal::failed(format!(
            "can't upload to storage type '{kind}', not a file based storage!"
        )));
    }
    if !storage.content.contains(&wish.content) {
        let text =
            format!("storage '{}' is not configured for content-type '{}'", wish.storage, wish.content);
        return Err(Refusal::failed(text));
    }
    let filename = normal_name(&wish.filename);
    ending(&wish.content, &filename)?;
    let volid = format!("{}:{}/{filename}", wish.storage, wish.content);
    let path = storage.path_of(&volid);
    let work =
        Work::Download(Box::new(Download { volid, content: wish.content.clone(), path, wish, found: None }));
    Ok(tasks::begin(world, node, "download", &filename, caller, work))
}

/// Refuses a file whose name does not end as its content type asks. Only for images to be imported does the case matter.
pub(crate) fn ending(content: &str, filename: &str) -> Result<(), Refusal> {
    let low = filename.to_lowercase();
    let (name, endings, words): (_, &[&str], _) = match content {
        "iso" => (low.as_str(), &[".iso", ".img"], "wrong file extension"),
        "import" => (filename, &[".qcow2", ".raw", ".vmdk", ".ova"], "invalid filename or wrong extension"),
        _ => (low.as_str(), &[".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tar"], "wrong file extension"),
    };
    match endings.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending)) {
        true => Ok(()),
        false => Err(Refusal::parameter("filename", words)),
    }
}

pub(crate) fn normal_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' })
        .collect()
}

impl Download {
    pub(crate) fn step(mut self, world: &mut World, task: &mut Task) -> Next {
        match task.stage {
            0 => self.connect(world, task),
            _ => Next::End(self.finish(world, task)),
        }
    }

    fn connect(&mut self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        match (self.content.as_str(), self.wish.compression.as_deref()) {
            (content @ ("import" | "vztmpl"), Some(_)) => {
                return Next::fail(format!("decompression not supported for {content}"));
            }
            (_, Some("gz" | "lzo" | "zst" | "bz2") | None) => {}
            (_, Some(_)) => return Next::fail("no decompression method found"),
        }
        if let Some(next) = self.already_there(world, task) {
            return next;
        }
        let url = self.wish.url.clone();
        task.log(now, format!("downloading {url} to {}", self.path));
        task.log(now, format!("--{}--  {url}", clock_face(now)));
        let Some((host, path)) = split_url(&url) else { return Next::fail("download failed: exit code 1") };
        if let Some(web) = world.hypervisor.web_at(&url) {
            task.log(now, format!("Connecting to {}... connected.", web.authority()));
            let Some(file) = web.files.get(path) else {
                task.log(now, format!("HTTP request sent, awaiting response... {}", web.otherwise));
                let (code, words) = web.otherwise.split_once(' ').unwrap_or((&web.otherwise, ""));
                task.log(now, format!("{} ERROR {code}: {words}.", clock_face(now)));
                return Next::fail("download failed: exit code 8");
            };
            let (bytes, disk_bytes, image) = (file.bytes, file.disk_bytes, file.image.clone());
            let sum = file.sums.get(&self.wish.algorithm).cloned().unwrap_or_default();
            let takes = Duration::from_millis(300);
            self.log_progress(task, now, Duration::ZERO, takes, bytes);
            self.found = Some(Found { bytes, disk_bytes, origin: None, sum, image });
            task.set_work(Work::Download(Box::new(self.clone())));
            return Next::After(takes);
        }
        let Some(path) = factory_path(world, host, path) else {
            let text = format!("wget: unable to resolve host address '{host}'");
            task.log(now, &text);
            return Next::fail(format!("download failed: {text}"));
        };
        let found = world.factory.asset(path);
        let builds = match &found {
            Ok(asset) => world.factory.still_builds(asset, now),
            Err(_) => Duration::ZERO,
        };
        let wait = Duration::from_millis(1500) + builds;
        task.log(now, format!("Connecting to {host}... connected."));
        match found {
            Err(fault) => {
                let status = fault.line();
                task.log(now, format!("HTTP request sent, awaiting response... {status}"));
                let (code, words) = status.split_once(' ').unwrap_or((status.as_str(), ""));
                task.log(now, format!("{} ERROR {code}: {words}.", clock_face(now)));
                Next::fail("download failed: exit code 8")
            }
            Ok(asset) => {
                let takes = world.rng.around(Duration::from_secs(19));
                self.log_progress(task, now, wait, takes, asset.bytes);
                let sum = hex::encode(Sha256::digest(path));
                let Asset { bytes, disk_bytes, image, .. } = asset;
                self.found = Some(Found { bytes, disk_bytes, origin: image, sum, image: None });
                task.set_work(Work::Download(Box::new(self.clone())));
                Next::After(wait + takes)
            }
        }
    }

    /// A file of that name is verified if a checksum was given, and else in the way.
    fn already_there(&self, world: &World, task: &mut Task) -> Option<Next> {
        let there = world.hypervisor.storages.volume(&task.node, &self.volid)?;
        let Some(expected) = &self.wish.checksum else {
            return Some(Next::fail(format!("refusing to override existing file '{}'", self.path)));
        };
        let path = split_url(&self.wish.url).map(|(_, path)| path).unwrap_or_default();
        let web = world.hypervisor.web_at(&self.wish.url);
        let got = match web.and_then(|web| web.files.get(path)) {
            Some(file) => file.sums.get(&self.wish.algorithm).cloned().unwrap_or_default(),
            None => hex::encode(Sha256::digest(path)),
        };
        task.log(world.now, format!("calculating checksum of existing file {} ...", there.volid));
        if got.eq_ignore_ascii_case(expected) {
            task.log(world.now, "OK, got correct file already, no need to download");
            return Some(Next::End(Ok(())));
        }
        Some(Next::fail(format!("checksum mismatch: got '{got}' != expect '{expected}', aborting")))
    }

    fn log_progress(&self, task: &mut Task, now: Timestamp, wait: Duration, takes: Duration, bytes: u64) {
        let temporary = format!("{}.tmp_dwnl.{}", self.path, task.pid);
        task.log_after(now, wait, "HTTP request sent, awaiting response... 200 OK");
        task.log_after(now, wait, format!("Length: {bytes} ({}M) [application/octet-stream]", bytes >> 20));
        task.log_after(now, wait, format!("Saving to: '{temporary}'"));
        for percent in (10..=100_u32).step_by(10) {
            let at = wait + takes.mul_f64(f64::from(percent) / 100.0);
            let done = bytes.saturating_mul(u64::from(percent)) / 100;
            let left = takes.mul_f64(f64::from(100 - percent) / 100.0).as_secs();
            task.log_after(
                now,
                at,
                format!("{:>6}K ........ ........ ........ ........ {percent}% {left}s", done >> 10),
            );
        }
    }

    fn finish(&self, world: &mut World, task: &mut Task) -> Result<(), String> {
        let now = world.now;
        let Some(found) = &self.found else { return Err("download failed: exit code 4".to_owned()) };
        let temporary = format!("{}.tmp_dwnl.{}", self.path, task.pid);
        task.log(now, format!("{} - '{temporary}' saved [{}/{}]", clock_face(now), found.bytes, found.bytes));
        if let Some(expected) = &self.wish.checksum {
            if !expected.eq_ignore_ascii_case(&found.sum) {
                task.log(now, "calculating checksum...");
                return Err(format!("checksum mismatch: got '{}' != expect '{expected}'", found.sum));
            }
            task.log(now, "calculating checksum...OK, checksum verified");
        }
        is_image(&self.content, &self.volid, found.image.as_deref())?;
        if self.wish.compression.is_some() {
            let unpacked = format!("{}.tmp_dcom.{}", self.path, task.pid);
            task.log(now, format!("decompressing {temporary} to {unpacked}"));
        }
        let storages = &mut world.hypervisor.storages;
        let free = storages
            .usable(&task.node, &self.wish.storage)
            .map(|s| s.bytes.saturating_sub(storages.used(&task.node, s)))?;
        if found.bytes > free {
            return Err("download failed: exit code 3".to_owned());
        }
        let format = self.volid.rsplit('.').next().unwrap_or("raw").to_owned();
        storages.insert(
            &task.node,
            Volume {
                volid: self.volid.clone(),
                content: self.content.clone(),
                format: if self.content == "iso" { "iso".to_owned() } else { format },
                size: found.disk_bytes,
                used: found.bytes,
                vmid: None,
                ctime: now,
                origin: found.origin.clone(),
                parent: None,
            },
        );
        task.log(now, format!("download of '{}' to '{}' finished", self.wish.url, self.path));
        Ok(())
    }
}

/// The path that the factory is asked for, at its own host or at a proxy, which names it in the first part of the path.
pub(crate) fn factory_path<'a>(world: &World, host: &str, path: &'a str) -> Option<&'a str> {
    if !world.machines.reaches(host) {
        return None;
    }
    if let Some((name, _)) = path.strip_prefix('/').and_then(|rest| rest.split_once('/'))
        && world.factory.is_called(name)
    {
        return path.get(name.len() + 1..);
    }
    world.factory.is_reached_at(host).then_some(path)
}

/// Host (without port) and path of a web address.
pub(crate) fn split_url(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let at = rest.find('/')?;
    let (authority, path) = rest.split_at(at);
    Some((authority.split(':').next().unwrap_or(authority), path.split('?').next().unwrap_or(path)))
}

fn clock_face(now: Timestamp) -> String {
    now.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

pub(crate) fn remove(world: &mut World, node: &str, volid: &str, caller: &str) -> String {
    let storage = volid.split_once(':').map_or(volid, |(storage, _)| storage);
    let owner = owner_of(volid);
    let id = owner.map_or_else(|| storage.to_owned(), |vmid| format!("{vmid}@{storage}"));
    tasks::begin(world, node, "imgdel", &id, caller, Work::Remove(Remove { volid: volid.to_owned() }))
}

/// The VM that a volume belongs to, by its name.
pub(crate) fn owner_of(volid: &str) -> Option<u32> {
    let name = volid.rsplit([':', '/']).next()?;
    name.strip_prefix("vm-").or_else(|| name.strip_prefix("base-"))?.split('-').next()?.parse().ok()
}

impl Remove {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return Next::After(world.rng.around(Duration::from_millis(500)));
        }
        let now = world.now;
        let path =
            world.hypervisor.storages.storage_of(&self.volid).map(|storage| storage.path_of(&self.volid));
        if !world.hypervisor.storages.remove(&task.node, &self.volid)
            && let Some(path) = path
        {
            task.log(now, format!("disk image '{path}' does not exist"));
        }
        task.log(now, format!("Removed volume '{}'", self.volid));
        Next::End(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabConfig;

    const EMPTY: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

    fn fetch(world: &mut World, base: &str) -> bool {
        let wish = DownloadWish {
            storage: "local".to_owned(),
            url: format!("{base}/image/{EMPTY}/v1.13.9/nocloud-amd64.qcow2"),
            content: "import".to_owned(),
            filename: format!("{}.qcow2", normal_name(&base.replace('/', "-"))),
            checksum: None,
            algorithm: "sha256".to_owned(),
            compression: None,
        };
        let volid = format!("local:import/{}", wish.filename);
        download(world, "pve1", wish, "root@pam").unwrap();
        world.advance(world.now.checked_add(jiff::SignedDuration::from_mins(5)).unwrap());
        world.hypervisor.storages.volume("pve1", &volid).is_some()
    }

    #[test]
    fn in_a_closed_world_images_come_through_a_proxy_only() {
        let config = LabConfig {
            outside: Some(vec!["proxy.lan".to_owned()]),
            schematics: vec!["customization: {}\n".to_owned()],
            ..LabConfig::default()
        };
        let mut world = World::new(&config, LabConfig::first_moment()).unwrap();
        assert!(!fetch(&mut world, "https://factory.talos.dev"));
        assert!(!fetch(&mut world, "https://other.lan/factory.talos.dev"));
        assert!(fetch(&mut world, "https://proxy.lan/factory.talos.dev"));
        world.machines.close_outside(None);
        assert!(fetch(&mut world, "https://factory.talos.dev"));
    }
}
