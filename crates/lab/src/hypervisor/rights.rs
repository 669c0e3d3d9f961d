//! Which privilege each part of a VM's configuration needs, and whether a caller has it.

use std::collections::BTreeMap;

use crate::hypervisor::access::{Access, ROOT};
use crate::hypervisor::drive::{self, Source};
use crate::hypervisor::options;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::vm::is_numbered;

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

/// The privilege on the VM that an option needs, drives and the values of cloud-init aside.
fn privilege(key: &str) -> &'static str {
    match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "cores" | "cpu" | "cpulimit" | "cpuunits" | "numa" | "smp" | "sockets" | "vcpus" => "VM.Config.CPU",
        "memory" | "balloon" | "shares" | "allow-ksm" => "VM.Config.Memory",
        "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "smbios" | "tablet" | "vga" | "watchdog"
        | "audio" | "rng" | "serial" | "usb" | "hostpci" => "VM.Config.HWType",
        "net" => "VM.Config.Network",
        "boot" | "bootdisk" | "vmstatestorage" | "virtiofs" | "unused" => "VM.Config.Disk",
        "cdrom" => "VM.Config.CDROM",
        "freeze" => "VM.PowerMgmt",
        _ => "VM.Config.Options",
    }
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

/// What is asked for, apart from the options themselves.
pub(crate) struct Asked<'a> {
    pub(crate) access: &'a Access,
    pub(crate) caller: &'a str,
    pub(crate) vmid: u32,
    /// The pool that the VM will be in, whose rights count as well.
    pub(crate) pool: Option<&'a str>,
    /// At creation, drives need rights on their storage only.
    pub(crate) creation: bool,
}

impl Asked<'_> {
    fn vm(&self, any: &[&str]) -> Result<(), Refusal> {
        let pool = self.pool.map(|pool| format!("/pool/{pool}"));
        if pool.is_some_and(|path| any.iter().any(|privilege| self.access.may(self.caller, &path, privilege)))
        {
            return Ok(());
        }
        need_any(self.access, self.caller, &format!("/vms/{}", self.vmid), any)
    }

    /// Checks every option that is set or deleted.
    pub(crate) fn check(&self, set: &BTreeMap<String, String>, delete: &[String]) -> Result<(), Refusal> {
        if self.caller == ROOT {
            return Ok(());
        }
        for (key, value) in set {
            if options::drive_props(key).is_some() {
                self.drive(key, value)?;
            } else {
                self.option(key)?;
            }
            if is_numbered(key, "net") {
                self.bridge(key, value)?;
            }
            if is_numbered(key, "hostpci")
                && let Some(name) = value.split(',').find_map(|part| part.strip_prefix("mapping="))
            {
                need(self.access, self.caller, &format!("/mapping/pci/{name}"), "Mapping.Use")?;
            }
        }
        delete.iter().try_for_each(|key| match options::drive_props(key) {
            Some(_) => self.vm(&["VM.Config.Disk"]),
            None => self.option(key),
        })
    }

    fn option(&self, key: &str) -> Result<(), Refusal> {
        if is_cloudinit_value(key) {
            return self.vm(&["VM.Config.Cloudinit", "VM.Config.Network"]);
        }
        if key == "boot" && self.creation {
            return Ok(());
        }
        self.vm(&[privilege(key)])?;
        if key == "startup" { need(self.access, self.caller, "/", "Sys.Modify") } else { Ok(()) }
    }

    fn drive(&self, key: &str, value: &str) -> Result<(), Refusal> {
        let Some(parts) = drive::parts(key, value) else { return Ok(()) };
        let source = Source::of(&parts).map_err(|text| Refusal::parameter(key, text))?;
        if !self.creation {
            match &source {
                Source::CloudInit { .. } => {
                    self.vm(&["VM.Config.Cloudinit"])?;
                    self.vm(&["VM.Config.CDROM"])?;
                }
                _ if drive::is_cdrom(&parts) => self.vm(&["VM.Config.CDROM"])?,
                _ => self.vm(&["VM.Config.Disk"])?,
            }
        }
        if let Some(storage) = source.target() {
            need(self.access, self.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
        }
        if let Source::Import { from, .. } = &source
            && let Some((storage, _)) = from.split_once(':').filter(|_| !from.starts_with('/'))
        {
            let any = ["Datastore.AllocateSpace", "Datastore.Audit"];
            need_any(self.access, self.caller, &format!("/storage/{storage}"), &any)?;
        }
        Ok(())
    }

    fn bridge(&self, key: &str, value: &str) -> Result<(), Refusal> {
        let Ok(parts) = options::net().parse(key, value) else { return Ok(()) };
        let Some(bridge) = parts.get("bridge") else { return Ok(()) };
        let tag = parts.get("tag").map(|tag| format!("/{tag}")).unwrap_or_default();
        need(self.access, self.caller, &format!("/sdn/zones/localnetwork/{bridge}{tag}"), "SDN.Use")
    }
}
