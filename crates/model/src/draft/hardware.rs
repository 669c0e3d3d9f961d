//! A node's hardware, put together from its layers key by key.

use super::Said;
use super::layers::{Form, Layers};
use crate::diagnostic::Path;
use crate::forms;
use crate::spec::{
    Bios, BootDisk, BootDiskDetails, Bus, Cache, Cpu, CpuDetails, DataDisk, Hardware, Memory, Pci, Startup,
    Written,
};

/// A node's hardware, as far as it can be understood.
#[derive(Debug)]
pub(crate) struct DraftHardware<'s> {
    pub(crate) cores: Said<u32>,
    pub(crate) cpu_type: Option<Said<&'s str>>,
    pub(crate) cpu_units: Option<u32>,
    pub(crate) memory_mib: Option<Said<u64>>,
    pub(crate) balloon_mib: Option<Said<u64>>,
    pub(crate) memory_hotplug: bool,
    pub(crate) disk_gib: Option<Said<u64>>,
    pub(crate) boot_bus: Bus,
    pub(crate) boot: Options,
    pub(crate) boot_datastore: Option<Said<&'s str>>,
    pub(crate) datastore: Option<Said<&'s str>>,
    pub(crate) disks: Vec<DraftDisk<'s>>,
    pub(crate) pci: Option<Said<&'s [Pci]>>,
    pub(crate) bios: Option<Said<Bios>>,
    pub(crate) tpm: Option<Said<bool>>,
    pub(crate) machine: Option<&'s str>,
    pub(crate) display: Option<&'s str>,
    pub(crate) start_on_boot: bool,
    pub(crate) startup: Option<Startup>,
}

/// What the file says about what Proxmox does with a disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) cache: Option<Cache>,
    pub(crate) discard: Option<bool>,
    pub(crate) iothread: Option<bool>,
    pub(crate) ssd: Option<bool>,
    pub(crate) backup: Option<bool>,
}

/// One data disk.
#[derive(Debug)]
pub(crate) struct DraftDisk<'s> {
    pub(crate) name: &'s str,
    /// The nearest path that speaks of it.
    pub(crate) path: Path,
    /// `None` where it is not set; `Some(None)` where it has no usable form.
    pub(crate) size_gib: Option<Option<Said<u64>>>,
    pub(crate) slot: Said<u32>,
    pub(crate) bus: Bus,
    pub(crate) datastore: Option<Said<&'s str>>,
    pub(crate) options: Options,
    pub(crate) mount: Option<Said<&'s str>>,
}

impl<'s> DraftHardware<'s> {
    pub(crate) fn new(layers: &Layers<'s>, path: &Path) -> Self {
        Self {
            cores: layers
                .inside("cpu", "cores", |h| match h.cpu.as_ref()? {
                    Cpu::Cores(cores) => Some((*cores, Form::Short)),
                    Cpu::Details(details) => Some((details.cores?, Form::Long)),
                })
                .unwrap_or(Said { value: 0, path: path.clone() }),
            cpu_type: layers.inside("cpu", "type", |h| Some((cpu(h)?.kind.as_deref()?, Form::Long))),
            cpu_units: layers.first("cpu", |h| cpu(h)?.units).map(|said| said.value),
            memory_mib: layers
                .inside("memory", "size", |h| match h.memory.as_ref()? {
                    Memory::Size(size) => Some((size, Form::Short)),
                    Memory::Details(details) => Some((details.size.as_ref()?, Form::Long)),
                })
                .and_then(|said| read(said, forms::memory_mib)),
            balloon_mib: layers
                .inside("memory", "balloon", |h| match h.memory.as_ref()? {
                    Memory::Size(_) => None,
                    Memory::Details(details) => Some((details.balloon.as_ref()?, Form::Long)),
                })
                .and_then(|said| read(said, forms::memory_mib)),
            memory_hotplug: layers
                .inside("memory", "hotplug", |h| match h.memory.as_ref()? {
                    Memory::Size(_) => None,
                    Memory::Details(details) => Some((details.hotplug?, Form::Long)),
                })
                .is_some_and(|said| said.value),
            disk_gib: layers
                .inside("disk", "size", |h| match h.disk.as_ref()? {
                    BootDisk::Size(size) => Some((size, Form::Short)),
                    BootDisk::Details(details) => Some((details.size.as_ref()?, Form::Long)),
                })
                .and_then(|said| read(said, forms::disk_gib)),
            boot_bus: of_boot(layers, |d| d.bus).unwrap_or_default(),
            boot: Options {
                cache: of_boot(layers, |d| d.cache),
                discard: of_boot(layers, |d| d.discard),
                iothread: of_boot(layers, |d| d.iothread),
                ssd: of_boot(layers, |d| d.ssd),
                backup: of_boot(layers, |d| d.backup),
            },
            boot_datastore: layers
                .inside("disk", "datastore", |h| Some((boot(h)?.datastore.as_deref()?, Form::Long))),
            datastore: layers.first("datastore", |h| h.datastore.as_deref()),
            disks: layers.disk_names().into_iter().map(|(name, path)| disk(layers, name, path)).collect(),
            pci: layers.first("pci", |h| h.pci.as_deref()),
            bios: layers.first("bios", |h| h.bios),
            tpm: layers.first("tpm", |h| h.tpm),
            machine: layers.first("machine", |h| h.machine.as_deref()).map(|said| said.value),
            display: layers.first("display", |h| h.display.as_deref()).map(|said| said.value),
            start_on_boot: layers.first("start_on_boot", |h| h.start_on_boot).is_none_or(|said| said.value),
            startup: layers.first("startup", |h| h.startup).map(|said| said.value),
        }
    }
}

fn disk<'s>(layers: &Layers<'s>, name: &'s str, path: Path) -> DraftDisk<'s> {
    fn of<'s, T>(layers: &Layers<'s>, name: &str, get: fn(&'s DataDisk) -> Option<T>) -> Option<T> {
        layers.of_disk(name, "", get).map(|said| said.value)
    }
    DraftDisk {
        name,
        size_gib: layers.of_disk(name, "size", |d| d.size.as_ref()).map(|said| read(said, forms::disk_gib)),
        slot: layers
            .of_disk(name, "slot", |d| d.slot)
            .unwrap_or_else(|| Said { value: 1, path: path.clone() }),
        bus: of(layers, name, |d| d.bus).unwrap_or_default(),
        datastore: layers.of_disk(name, "datastore", |d| d.datastore.as_deref()),
        options: Options {
            cache: of(layers, name, |d| d.cache),
            discard: of(layers, name, |d| d.discard),
            iothread: of(layers, name, |d| d.iothread),
            ssd: of(layers, name, |d| d.ssd),
            backup: of(layers, name, |d| d.backup),
        },
        mount: layers.of_disk(name, "mount", |d| d.mount.as_deref()),
        path,
    }
}

fn cpu(hardware: &Hardware) -> Option<&CpuDetails> {
    match hardware.cpu.as_ref()? {
        Cpu::Cores(_) => None,
        Cpu::Details(details) => Some(details),
    }
}

fn boot(hardware: &Hardware) -> Option<&BootDiskDetails> {
    match hardware.disk.as_ref()? {
        BootDisk::Size(_) => None,
        BootDisk::Details(details) => Some(details),
    }
}

fn of_boot<T>(layers: &Layers<'_>, get: fn(&BootDiskDetails) -> Option<T>) -> Option<T> {
    layers.first("disk", |hardware| get(boot(hardware)?)).map(|said| said.value)
}

fn read(said: Said<&Written>, form: impl Fn(&str) -> Option<u64>) -> Option<Said<u64>> {
    Some(Said { value: form(&said.value.0)?, path: said.path })
}
