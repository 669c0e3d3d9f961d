//! Which privilege each part of a VM's configuration needs, and whether a caller has it.
//!
//! What an option needs depends on its name alone, on the volume, device or bridge that its value names, or on what it
//! replaces. The last is asked only when the change is carried out, which may be in a task.

use std::collections::BTreeMap;

use crate::hypervisor::access::{Access, ROOT};
use crate::hypervisor::drive;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::Storages;
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::{Hypervisor, options};
use crate::schema::Parts;

/// Refuses a caller who lacks `privilege` at `path`.
pub(crate) fn need(access: &Access, caller: &str, path: &str, privilege: &str) -> Result<(), Refusal> {
    need_any(access, caller, path, &[privilege])
}

/// Refuses a caller who has none of these privileges at `path`.
pub(crate) fn need_any(access: &Access, caller: &str, path: &str, any: &[&str]) -> Result<(), Refusal> {
    if any.iter().any(|privilege| access.may(caller, path, privilege)) {
        return Ok(());
    }
    Err(Refusal::Forbidden(format!("Permission check failed ({path}, {})", any.join("|"))))
}

/// The privilege on the VM that an option needs by its name; nothing for one that only root may set.
fn privilege(key: &str) -> Option<&'static str> {
    if is_numbered(key, "numa") {
        return Some("VM.Config.CPU");
    }
    if is_numbered(key, "net") {
        return Some("VM.Config.Network");
    }
    Some(match key {
        "cores" | "cpu" | "cpulimit" | "cpuunits" | "numa" | "smp" | "sockets" | "vcpus" => "VM.Config.CPU",
        "memory" | "balloon" | "shares" | "allow-ksm" => "VM.Config.Memory",
        "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "smbios1" | "tablet" | "vga" | "watchdog"
        | "audio0" | "rng0" => "VM.Config.HWType",
        "agent" | "autostart" | "bios" | "description" | "keyboard" | "localtime" | "migrate_downtime"
        | "migrate_speed" | "name" | "onboot" | "ostype" | "protection" | "reboot" | "startdate"
        | "startup" | "tdf" | "template" => "VM.Config.Options",
        "boot" | "bootdisk" | "vmstatestorage" => "VM.Config.Disk",
        "freeze" => "VM.PowerMgmt",
        _ => return None,
    })
}

fn is_cloudinit_value(key: &str) -> bool {
    matches!(
        key,
        "ciuser"
            | "cipassword"
            | "citype"
            | "cicustom"
            | "ciupgrade"
            | "nameserver"
            | "searchdomain"
            | "sshkeys"
    ) || is_numbered(key, "ipconfig")
}

/// Options whose right depends on their value.
fn by_value(key: &str) -> bool {
    options::drive_props(key).is_some()
        || matches!(key, "cdrom" | "tags")
        || ["unused", "serial", "usb", "hostpci", "virtiofs"].iter().any(|kind| is_numbered(key, kind))
}

/// Whether `caller` may use the volume `volid` for the VM `vmid`.
pub(crate) fn volume(
    access: &Access,
    storages: &Storages,
    caller: &str,
    vmid: Option<u32>,
    volid: &str,
) -> Result<(), Refusal> {
    if volid.starts_with('/') {
        return match caller == ROOT {
            true => Ok(()),
            false => Err(Refusal::failed(
                "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.",
            )),
        };
    }
    let named = storages.named(volid).map_err(Refusal::Failed)?;
    let path = format!("/storage/{}", volid.split(':').next().unwrap_or_default());
    if access.may(caller, &path, "Datastore.Allocate") {
        return Ok(());
    }
    match (named.content, named.owner) {
        ("iso" | "vztmpl" | "import", _) => {
            need_any(access, caller, &path, &["Datastore.AllocateSpace", "Datastore.Audit"])
        }
        (_, Some(owner)) if Some(owner) == vmid => Ok(()),
        ("backup", Some(owner)) => {
            need(access, caller, &path, "Datastore.AllocateSpace")?;
            need(access, caller, &format!("/vms/{owner}"), "VM.Backup")
        }
        ("images", Some(owner)) => {
            need(access, caller, &path, "Datastore.Audit")?;
            need(access, caller, &format!("/vms/{owner}"), "VM.Config.Disk")
        }
        _ => Err(Refusal::failed(format!("missing privileges to access {volid}"))),
    }
}

/// Who asks, for which VM.
pub(crate) struct Asked<'a> {
    pub(crate) hypervisor: &'a Hypervisor,
    pub(crate) caller: &'a str,
    pub(crate) vmid: u32,
    /// The pool that a new VM will be in, whose rights count as well.
    pub(crate) pool: Option<&'a str>,
}

type Options = BTreeMap<String, String>;

impl Asked<'_> {
    fn need(&self, path: &str, privilege: &str) -> Result<(), Refusal> {
        need(&self.hypervisor.access, self.caller, path, privilege)
    }

    fn vm(&self, any: &[&str]) -> Result<(), Refusal> {
        let access = &self.hypervisor.access;
        let pool = self.pool.map(|pool| format!("/pool/{pool}"));
        if pool.is_some_and(|path| any.iter().any(|privilege| access.may(self.caller, &path, privilege))) {
            return Ok(());
        }
        need_any(access, self.caller, &format!("/vms/{}", self.vmid), any)
    }

    /// Checks everything that a new VM is to have.
    pub(crate) fn creation(&self, config: &Options) -> Result<(), Refusal> {
        self.storages(config)?;
        self.options(config.keys())?;
        for (key, value) in config.iter().filter(|(key, _)| by_value(key)) {
            self.device(key, value, "set")?;
        }
        self.random_source(config)?;
        self.bridges(config)
    }

    /// Checks a change by what it names, before anything that is there is looked at.
    pub(crate) fn change(&self, set: &Options, delete: &[String]) -> Result<(), Refusal> {
        self.options(delete.iter())?;
        self.options(set.keys())?;
        self.storages(set)?;
        self.bridges(set)
    }

    /// Checks a change by what it replaces and removes.
    pub(crate) fn replaced(&self, vm: &Vm, set: &Options, delete: &[String]) -> Result<(), Refusal> {
        for key in delete {
            let Some(value) = vm.get(key) else { continue };
            if is_numbered(key, "unused") {
                self.vm(&["VM.Config.Disk"])?;
            }
            self.drive(key, value)?;
            self.device(key, value, "delete")?;
            self.bridge(key, value)?;
        }
        for (key, value) in set {
            if let Some(old) = vm.get(key) {
                self.drive(key, old)?;
                self.device(key, old, "modify")?;
                self.bridge(key, old)?;
            }
            self.drive(key, value)?;
            self.device(key, value, "modify")?;
            if key == "tags" {
                self.vm(&["VM.Config.Options"])?;
            }
        }
        self.random_source(set)
    }

    /// What options need by their names.
    fn options<'b>(&self, keys: impl Iterator<Item = &'b String>) -> Result<(), Refusal> {
        if self.caller == ROOT {
            return Ok(());
        }
        for key in keys.filter(|key| !by_value(key)) {
            if is_cloudinit_value(key) {
                self.vm(&["VM.Config.Cloudinit", "VM.Config.Network"])?;
                continue;
            }
            let Some(privilege) = privilege(key) else {
                return Err(Refusal::failed(format!("only root can set '{key}' config")));
            };
            self.vm(&[privilege])?;
            if key == "startup" {
                self.need("/", "Sys.Modify")?;
            }
        }
        Ok(())
    }

    /// What a serial port, a USB or PCI device or a directory of the host needs.
    fn device(&self, key: &str, value: &str, verb: &str) -> Result<(), Refusal> {
        let kind = key.trim_end_matches(|c: char| c.is_ascii_digit());
        if self.caller == ROOT || kind.len() == key.len() {
            return Ok(());
        }
        let props = options::option(key).and_then(|rule| crate::schema::props(rule.format.as_deref()?));
        let parts = props.and_then(|props| props.parse(key, value).ok()).unwrap_or_default();
        // Of a serial port the server also says what is done to it.
        let real = || Err(Refusal::failed(format!("only root can {verb} '{key}' config for real devices")));
        let only_root =
            |what: &str| Err(Refusal::failed(format!("only root can set '{key}' config for {what}")));
        let neither = || Err(Refusal::failed("either 'host' or 'mapping' must be set."));
        let mapped = |what: &str| parts.get("mapping").map(|name| format!("/mapping/{what}/{name}"));
        match kind {
            "serial" if value == "socket" => self.vm(&["VM.Config.HWType"]),
            "serial" => real(),
            "usb" => {
                self.vm(&["VM.Config.HWType"])?;
                match (parts.get("host"), mapped("usb")) {
                    (Some(host), _) if host.eq_ignore_ascii_case("spice") => Ok(()),
                    (Some(_), _) => only_root("real devices"),
                    (None, Some(path)) => self.need(&path, "Mapping.Use"),
                    (None, None) => neither(),
                }
            }
            "hostpci" => match (parts.get("host"), mapped("pci")) {
                (Some(_), _) => only_root("non-mapped devices"),
                (None, Some(path)) => {
                    self.need(&path, "Mapping.Use")?;
                    self.vm(&["VM.Config.HWType"])
                }
                (None, None) => neither(),
            },
            "virtiofs" => {
                self.vm(&["VM.Config.Disk"])?;
                let name = parts.get("dirid").map_or("", String::as_str);
                self.need(&format!("/mapping/dir/{name}"), "Mapping.Use")
            }
            _ => Ok(()),
        }
    }

    /// The host's own source of random numbers is a device as well.
    fn random_source(&self, set: &Options) -> Result<(), Refusal> {
        match set.get("rng0") {
            Some(value) if value.contains("/dev/hwrng") => self.need("/mapping/hwrng", "Mapping.Use"),
            _ => Ok(()),
        }
    }

    /// What the storages of all drives need.
    fn storages(&self, set: &Options) -> Result<(), Refusal> {
        for (key, value) in set {
            if let Some(parts) = drive::parts(key, value) {
                self.storage(key, &parts)?;
            }
        }
        match set.get("vmstatestorage") {
            Some(storage) => self.need(&format!("/storage/{storage}"), "Datastore.AllocateSpace"),
            None => Ok(()),
        }
    }

    fn storage(&self, key: &str, parts: &Parts) -> Result<(), Refusal> {
        let Hypervisor { access, storages, .. } = self.hypervisor;
        let file = parts.get("file").map_or("none", String::as_str);
        let size = file.split_once(':').filter(|(_, rest)| drive::is_new(rest) && !drive::is_cdrom(parts));
        match (file, size) {
            ("none", _) => {}
            ("cdrom", _) => self.need("/", "Sys.Console")?,
            (file, _) if file.ends_with(":cloudinit") => {}
            (_, Some((storage, _))) => {
                self.need(&format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
                storages.takes_images(storage)?;
            }
            (file, None) => {
                volume(access, storages, self.caller, Some(self.vmid), file)?;
                if !file.starts_with('/') {
                    let content = storages.named(file).map_err(Refusal::Failed)?.content;
                    if !matches!(content, "images" | "iso") {
                        return Err(Refusal::parameter(key, "content type needs to be 'images' or 'iso'"));
                    }
                }
            }
        }
        let Some(from) = parts.get("import-from") else { return Ok(()) };
        let named = match from.starts_with('/') {
            true => None,
            false => Some(storages.named(from).map_err(Refusal::Failed)?),
        };
        match named {
            Some(named) if !matches!(named.content, "images" | "import") => {
                let words =
                    format!("{from} has wrong type '{}' - needs to be 'images' or 'import'", named.content);
                Err(Refusal::parameter(key, words))
            }
            Some(named) if named.owner.is_some() => {
                let owner = named.owner.unwrap_or_default();
                self.need(&format!("/vms/{owner}"), "VM.Clone")
            }
            _ => volume(access, storages, self.caller, Some(self.vmid), from),
        }
    }

    /// What a drive of an existing VM needs.
    fn drive(&self, key: &str, value: &str) -> Result<(), Refusal> {
        let Some(parts) = drive::parts(key, value) else { return Ok(()) };
        if drive::is_cloudinit(&parts) {
            self.vm(&["VM.Config.Cloudinit"])?;
            self.vm(&["VM.Config.CDROM"])
        } else if drive::is_cdrom(&parts) {
            self.vm(&["VM.Config.CDROM"])
        } else {
            self.vm(&["VM.Config.Disk"])
        }
    }

    fn bridges(&self, set: &Options) -> Result<(), Refusal> {
        set.iter().try_for_each(|(key, value)| self.bridge(key, value))
    }

    pub(crate) fn bridge(&self, key: &str, value: &str) -> Result<(), Refusal> {
        if self.caller == ROOT || !is_numbered(key, "net") {
            return Ok(());
        }
        let Ok(parts) = options::net().parse(key, value) else { return Ok(()) };
        let Some(bridge) = parts.get("bridge") else { return Ok(()) };
        let zone = self.hypervisor.zone_of(bridge).unwrap_or("localnetwork");
        let path = format!("/sdn/zones/{zone}/{bridge}");
        match parts.get("tag") {
            Some(tag) => self.need(&format!("{path}/{tag}"), "SDN.Use"),
            None => self.need(&path, "SDN.Use"),
        }
    }
}
