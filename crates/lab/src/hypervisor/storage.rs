//! Storages and their volumes. A storage is defined once for the cluster; a local one has volumes of its own on each host.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hypervisor::refusal::Refusal;
use crate::machine::BootImage;
use crate::{StorageConfig, StorageKind};

/// Where the volumes of a shared storage are kept: beside those of the hosts, under a name no host can have.
const EVERYWHERE: &str = "*";

/// All storages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Storages {
    pub(crate) defined: BTreeMap<String, Storage>,
    /// Place (host, or everywhere), then volume id.
    volumes: BTreeMap<String, BTreeMap<String, Volume>>,
    #[serde(default)]
    pub(crate) leftovers: Vec<Leftover>,
    /// Hosts on which no storage has any room left.
    #[serde(default)]
    pub(crate) full: BTreeSet<String>,
}

/// One storage definition.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Storage {
    pub(crate) id: String,
    pub(crate) kind: StorageKind,
    pub(crate) content: BTreeSet<String>,
    pub(crate) shared: bool,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) bytes: u64,
    /// Whether the definition itself names the hosts.
    #[serde(default)]
    pub(crate) restricted: bool,
    #[serde(default)]
    pub(crate) disabled: bool,
    /// Everything else in the definition, the path of a directory for one.
    #[serde(default)]
    pub(crate) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) volid: String,
    /// `images`, `import`, `iso` and so on.
    pub(crate) content: String,
    pub(crate) format: String,
    /// What a guest would see.
    pub(crate) size: u64,
    /// What it takes on the storage.
    pub(crate) used: u64,
    pub(crate) vmid: Option<u32>,
    pub(crate) ctime: Timestamp,
    /// The Talos image that its content came from.
    pub(crate) origin: Option<BootImage>,
    /// The volume of a template that it only holds the differences from.
    #[serde(default)]
    pub(crate) parent: Option<String>,
}

/// What lies in a directory that is no storage yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Leftover {
    pub(crate) folder: String,
    /// Below the folder, such as `images/120/base-120-disk-0.qcow2`.
    pub(crate) file: String,
    pub(crate) size: u64,
}

impl Storage {
    /// The directory of a storage that keeps files.
    pub(crate) fn path(&self) -> String {
        if let Some(path) = self.options.get("path") {
            return path.clone();
        }
        match self.kind {
            kind if kind.is_shared() => format!("/mnt/pve/{}", self.id),
            _ if self.id == "local" => "/var/lib/vz".to_owned(),
            _ => format!("/var/lib/{}", self.id),
        }
    }

    /// The file or device of a volume.
    pub(crate) fn path_of(&self, volid: &str) -> String {
        let name = volid.split_once(':').map_or(volid, |(_, name)| name);
        if !self.kind.keeps_files() {
            return format!("/dev/{}/{name}", self.group());
        }
        let folder = self.path();
        // A linked clone is named after its base as well.
        let name = match name.split('/').collect::<Vec<_>>().as_slice() {
            [_, base, owner, own] if base.starts_with("base-") => format!("{owner}/{own}"),
            _ => name.to_owned(),
        };
        let name = name.as_str();
        match name.split_once('/') {
            Some(("snippets", _)) => format!("{folder}/{name}"),
            Some(("import", _)) => format!("{folder}/{name}"),
            Some(("iso" | "vztmpl", file)) => {
                let kind = if name.starts_with("iso") { "iso" } else { "cache" };
                format!("{folder}/template/{kind}/{file}")
            }
            _ => format!("{folder}/images/{name}"),
        }
    }

    /// The volume group or pool.
    pub(crate) fn group(&self) -> &str {
        if self.id == "local-lvm" { "pve" } else { &self.id }
    }

    fn place<'a>(&self, node: &'a str) -> &'a str {
        if self.shared { EVERYWHERE } else { node }
    }

    /// The content types, as one text.
    pub(crate) fn content_list(&self) -> String {
        self.content.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

impl Storages {
    pub(crate) fn add_missing(&mut self, node: &str, config: &StorageConfig) {
        let storage = self.defined.entry(config.id.clone()).or_insert_with(|| Storage {
            id: config.id.clone(),
            kind: config.kind,
            content: config.content.iter().cloned().collect(),
            shared: config.shared || config.kind.is_shared(),
            nodes: BTreeSet::new(),
            bytes: config.bytes,
            restricted: false,
            disabled: false,
            options: BTreeMap::new(),
        });
        storage.nodes.insert(node.to_owned());
    }

    /// The storage, if it can be used on `node`; else Proxmox' words.
    pub(crate) fn usable(&self, node: &str, id: &str) -> Result<&Storage, String> {
        let storage = self.defined.get(id).ok_or_else(|| format!("storage '{id}' does not exist"))?;
        if storage.disabled {
            Err(format!("storage '{id}' is disabled"))
        } else if storage.nodes.contains(node) {
            Ok(storage)
        } else {
            Err(format!("storage '{id}' is not available on node '{node}'"))
        }
    }

    /// Refuses a storage that is not there or may not hold disks.
    pub(crate) fn takes_images(&self, id: &str) -> Result<(), Refusal> {
        match self.defined.get(id) {
            None => Err(Refusal::failed(format!("storage '{id}' does not exist"))),
            Some(storage) if !storage.content.contains("images") => {
                Err(Refusal::parameter("storage", format!("storage '{id}' does not support vm images")))
            }
            Some(_) => Ok(()),
        }
    }

    /// Defines a storage; what lies in its directory already is there at once.
    pub(crate) fn define(&mut self, storage: Storage, now: Timestamp) {
        let path = storage.path();
        let (id, nodes) = (storage.id.clone(), storage.nodes.clone());
        let files = storage.kind.keeps_files();
        self.defined.insert(id.clone(), storage);
        for left in self.leftovers.clone().into_iter().filter(|left| files && left.folder == path) {
            let Some(name) = left.file.strip_prefix("images/") else { continue };
            let volid = format!("{id}:{name}");
            for node in
                nodes.iter().filter(|node| self.volume(node, &volid).is_none()).cloned().collect::<Vec<_>>()
            {
                let vmid = name.split('/').next().and_then(|id| id.parse().ok());
                let volume = Volume {
                    volid: volid.clone(),
                    content: "images".to_owned(),
                    format: name.rsplit('.').next().unwrap_or("raw").to_owned(),
                    size: left.size,
                    used: 0,
                    vmid,
                    ctime: now,
                    origin: None,
                    parent: None,
                };
                self.insert(&node, volume);
            }
        }
    }

    /// Whether a linked clone needs this volume.
    pub(crate) fn is_base(&self, volid: &str) -> bool {
        self.volumes.values().flat_map(BTreeMap::values).any(|volume| volume.parent.as_deref() == Some(volid))
    }

    /// Moves a volume of a local storage from one host to another.
    pub(crate) fn carry(&mut self, volid: &str, from: &str, to: &str) {
        if self.storage_of(volid).is_some_and(|storage| !storage.shared)
            && let Some(volume) = self.volumes.get_mut(from).and_then(|volumes| volumes.remove(volid))
        {
            self.volumes.entry(to.to_owned()).or_default().insert(volid.to_owned(), volume);
        }
    }

    /// The volume `volid` as seen from `node`.
    pub(crate) fn volume(&self, node: &str, volid: &str) -> Option<&Volume> {
        let place = self.storage_of(volid)?.place(node);
        self.volumes.get(place)?.get(volid)
    }

    /// The volume `source`, an id or the path of its file, as seen from `node`.
    pub(crate) fn volume_or_path(&self, node: &str, source: &str) -> Option<&Volume> {
        if !source.starts_with('/') {
            return self.volume(node, source);
        }
        let here = self.defined.values().filter(|storage| storage.nodes.contains(node));
        let mut volumes =
            here.flat_map(|storage| self.volumes(node, storage).map(move |volume| (storage, volume)));
        volumes.find(|(storage, volume)| storage.path_of(&volume.volid) == source).map(|(_, volume)| volume)
    }

    pub(crate) fn volume_mut(&mut self, node: &str, volid: &str) -> Option<&mut Volume> {
        let place = self.storage_of(volid)?.place(node).to_owned();
        self.volumes.get_mut(&place)?.get_mut(volid)
    }

    pub(crate) fn storage_of(&self, volid: &str) -> Option<&Storage> {
        self.defined.get(volid.split_once(':')?.0)
    }

    /// The volumes of one storage as seen from `node`, by id.
    pub(crate) fn volumes<'a>(
        &'a self,
        node: &str,
        storage: &'a Storage,
    ) -> impl Iterator<Item = &'a Volume> {
        let volumes = self.volumes.get(storage.place(node)).into_iter().flat_map(BTreeMap::values);
        volumes.filter(|volume| volume.volid.split_once(':').is_some_and(|(id, _)| id == storage.id))
    }

    /// All volumes of all storages on all hosts.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.values().flat_map(BTreeMap::values)
    }

    /// The volumes that belong to a VM, wherever they are.
    pub(crate) fn owned_by(&self, vmid: u32) -> impl Iterator<Item = &Volume> {
        self.all().filter(move |volume| volume.vmid == Some(vmid))
    }

    /// What is in use of a storage, as seen from `node`.
    pub(crate) fn used(&self, node: &str, storage: &Storage) -> u64 {
        if self.full.contains(node) {
            return storage.bytes;
        }
        self.volumes(node, storage).map(|volume| volume.used).sum()
    }

    pub(crate) fn insert(&mut self, node: &str, volume: Volume) {
        let place = self.storage_of(&volume.volid).map_or(node, |storage| storage.place(node)).to_owned();
        self.volumes.entry(place).or_default().insert(volume.volid.clone(), volume);
    }

    /// Removes a volume; says whether it was there.
    pub(crate) fn remove(&mut self, node: &str, volid: &str) -> bool {
        let place = self.storage_of(volid).map_or(node, |storage| storage.place(node)).to_owned();
        self.volumes.get_mut(&place).is_some_and(|volumes| volumes.remove(volid).is_some())
    }

    /// Gives a volume to another VM, under the next free name of that VM.
    pub(crate) fn rename(&mut self, node: &str, mut volume: Volume, vmid: u32) -> Volume {
        let (id, name) = volume.volid.split_once(':').unwrap_or(("", &volume.volid));
        let ending = name.rsplit_once('.').map(|(_, ending)| format!(".{ending}")).unwrap_or_default();
        let folder = if name.contains('/') { format!("{vmid}/") } else { String::new() };
        let named = |number: u32| format!("{id}:{folder}vm-{vmid}-disk-{number}{ending}");
        let free = (0..1000).map(named).find(|volid| self.volume(node, volid).is_none()).unwrap_or_default();
        self.remove(node, &volume.volid);
        volume.volid = free;
        volume.vmid = Some(vmid);
        self.insert(node, volume.clone());
        volume
    }

    /// Makes an image volume for a VM under the next free name. `what` is `disk` or `cloudinit`.
    pub(crate) fn allocate(&mut self, node: &str, wish: Wish<'_>, now: Timestamp) -> Result<Volume, String> {
        let storage = self.usable(node, wish.storage)?;
        let files = storage.kind.keeps_files();
        let format = if files { wish.format.unwrap_or("raw") } else { "raw" };
        let vmid = wish.vmid;
        let stem = |number: Option<u32>| match number {
            Some(number) => format!("vm-{vmid}-disk-{number}"),
            None => format!("vm-{vmid}-cloudinit"),
        };
        let volid = |stem: &str| {
            if !files {
                format!("{}:{stem}", wish.storage)
            } else {
                format!("{}:{vmid}/{stem}.{format}", wish.storage)
            }
        };
        let taken = |number: u32| {
            let start = format!("vm-{vmid}-disk-{number}");
            self.volumes(node, storage).any(|volume| {
                let name = volume.volid.rsplit([':', '/']).next().unwrap_or_default();
                name == start || name.strip_prefix(&start).is_some_and(|rest| rest.starts_with('.'))
            })
        };
        let name = if wish.cloudinit { stem(None) } else { stem((0..1000).find(|number| !taken(*number))) };
        let volid = volid(&name);
        let free = storage.bytes.saturating_sub(self.used(node, storage));
        if wish.used > free || self.full.contains(node) {
            return Err(no_space(storage, &name, free, wish.used));
        }
        let volume = Volume {
            volid,
            content: "images".to_owned(),
            format: format.to_owned(),
            size: wish.size,
            used: wish.used,
            vmid: Some(vmid),
            ctime: now,
            origin: wish.origin,
            parent: None,
        };
        self.insert(node, volume.clone());
        Ok(volume)
    }
}

/// What is asked of [`Storages::allocate`].
pub(crate) struct Wish<'a> {
    pub(crate) storage: &'a str,
    pub(crate) vmid: u32,
    pub(crate) size: u64,
    pub(crate) used: u64,
    pub(crate) format: Option<&'a str>,
    pub(crate) cloudinit: bool,
    pub(crate) origin: Option<BootImage>,
}

fn no_space(storage: &Storage, name: &str, free: u64, wanted: u64) -> String {
    if storage.kind.keeps_files() {
        let path = storage.path_of(&format!("{}:{name}", storage.id));
        format!("unable to create image: qemu-img: {path}: Could not resize file: No space left on device")
    } else if storage.kind == StorageKind::Lvm {
        format!("not enough free space ({free} < {wanted})")
    } else {
        let group = storage.group();
        format!(
            "lvcreate '{group}/{name}' error:   Cannot create new thin volume, free space in thin pool {group}/data reached threshold."
        )
    }
}
