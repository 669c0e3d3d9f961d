//! Which changes a running VM takes over at once; the others wait for its next start.
//!
//! Some options concern the running process not at all. Devices come and go where the VM's `hotplug` says so, and only on
//! buses that can do it. Of a disk that stays, only its limits change while it is in use.

use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::{drive, options};
use crate::schema::{Parts, formats};

/// Options of a disk that hold from when it was attached.
const OF_ATTACHED: &[&str] =
    &["aio", "cache", "discard", "iothread", "product", "queues", "ro", "ssd", "vendor"];
/// Options of a network card that make it another card.
const OF_CARD: &[&str] = &["macaddr", "model", "mtu", "queues"];

/// Whether the option `key` becomes `new` at once; nothing means that it goes.
pub(crate) fn applies(vm: &Vm, key: &str, new: Option<&str>) -> bool {
    if vm.running.is_none() || is_outside(key) {
        return true;
    }
    let old = vm.get(key);
    let plugs = |what: &str| features(vm).contains(&what);
    match key {
        "cpuunits" | "cpulimit" => true,
        "vcpus" => plugs("cpu"),
        "memory" => plugs("memory") && vm.flag("numa"),
        "tablet" => plugs("usb"),
        // It can be set, but not switched on or off.
        "balloon" => (old == Some("0")) == (new == Some("0")),
        "hotplug" => {
            let heavy = |text: &str| text.contains("cpu") || text.contains("memory");
            !old.is_some_and(heavy) && !new.is_some_and(heavy)
        }
        key if is_numbered(key, "usb") => plugs("usb"),
        key if is_numbered(key, "net") => {
            plugs("network") || stays(old, new, OF_CARD, |text| card(key, text))
        }
        key if options::drive_props(key).is_some() => disk(key, old, new, plugs("disk")),
        _ => false,
    }
}

/// Why a VM cannot start with the memory that it has, where memory can be plugged in: it is 1 GiB and modules, 32 of each size.
pub(crate) fn memory_fits(vm: &Vm) -> Result<(), String> {
    if !features(vm).contains(&"memory") {
        return Ok(());
    }
    if !vm.flag("numa") {
        return Err("NUMA needs to be enabled for memory hotplug".to_owned());
    }
    let memory = vm.memory_bytes() >> 20;
    if memory < 1024 {
        return Err("minimum memory must be 1024MB".to_owned());
    }
    let mut size = 1024;
    for module in (0..8).map(|doubled| 512_u64 << doubled) {
        for _ in 0..32 {
            if size >= memory {
                return Ok(());
            }
            size += module;
            if size > memory {
                return Err(format!("memory size ({memory}) must be aligned to {module} for hotplugging"));
            }
        }
    }
    Ok(())
}

fn disk(key: &str, old: Option<&str>, new: Option<&str>, plugs: bool) -> bool {
    let read = |text: Option<&str>| text.and_then(|text| drive::parts(key, text));
    let bus = is_numbered(key, "scsi") || is_numbered(key, "virtio");
    match (read(old), read(new)) {
        // The medium changes, the drive stays.
        (Some(old), Some(new)) if drive::is_cdrom(&old) && drive::is_cdrom(&new) => true,
        (Some(old), Some(new)) if old.get("file") == new.get("file") => {
            // Neither the firmware's variables nor the state of a TPM can be touched while they are in use.
            !matches!(key, "efidisk0" | "tpmstate0")
                && OF_ATTACHED.iter().all(|option| old.get(*option) == new.get(*option))
        }
        _ => plugs && bus,
    }
}

fn card(key: &str, text: &str) -> Option<Parts> {
    options::net().parse(key, text).ok()
}

/// Whether old and new are the same in these options.
fn stays(
    old: Option<&str>,
    new: Option<&str>,
    in_these: &[&str],
    read: impl Fn(&str) -> Option<Parts>,
) -> bool {
    match (old.and_then(&read), new.and_then(&read)) {
        (Some(old), Some(new)) => in_these.iter().all(|option| old.get(*option) == new.get(*option)),
        _ => false,
    }
}

/// What can be plugged in while the VM runs.
fn features(vm: &Vm) -> Vec<&str> {
    match vm.get("hotplug").unwrap_or("1") {
        "0" => Vec::new(),
        "1" => vec!["network", "disk", "usb"],
        list => formats::items(list),
    }
}

/// Options that the process itself knows nothing of.
fn is_outside(key: &str) -> bool {
    matches!(
        key,
        "description"
            | "name"
            | "tags"
            | "onboot"
            | "protection"
            | "startup"
            | "shares"
            | "hookscript"
            | "lock"
            | "vmstatestorage"
            | "migrate_speed"
            | "migrate_downtime"
            | "ciuser"
            | "cipassword"
            | "citype"
            | "ciupgrade"
            | "cicustom"
            | "nameserver"
            | "searchdomain"
            | "sshkeys"
    ) || is_numbered(key, "ipconfig")
        || is_numbered(key, "unused")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    #[test]
    fn memory_that_can_be_plugged_comes_in_modules() {
        let mut vm = Vm::new(100, "pve1");
        let mut fits = |rows: &[(&str, &str)]| {
            rows.iter()
                .for_each(|(key, value)| drop(vm.config.insert((*key).to_owned(), (*value).to_owned())));
            memory_fits(&vm).err().unwrap_or_default()
        };
        assert_eq!(fits(&[("memory", "5000")]), "");
        assert_eq!(fits(&[("hotplug", "disk,memory")]), "NUMA needs to be enabled for memory hotplug");
        assert_eq!(fits(&[("numa", "1")]), "memory size (5000) must be aligned to 512 for hotplugging");
        assert_eq!(fits(&[("memory", "512")]), "minimum memory must be 1024MB");
        assert_eq!(
            fits(&[("memory", "17920")]),
            "memory size (17920) must be aligned to 1024 for hotplugging"
        );
        for memory in ["1024", "1536", "17408", "18432", "50176", "52224"] {
            assert_eq!(fits(&[("memory", memory)]), "", "{memory}");
        }
    }

    use super::*;
    use crate::hypervisor::vm::Running;

    #[test]
    fn a_running_vm_takes_over_what_can_be_plugged() {
        let mut vm = Vm::new(100, "pve1");
        vm.running = Some(Running { since: Timestamp::UNIX_EPOCH, pid: 1 });
        for (key, value) in [
            ("scsi0", "local:100/vm-100-disk-0.raw,size=1G"),
            ("ide2", "none,media=cdrom"),
            ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
            ("balloon", "512"),
        ] {
            vm.config.insert(key.to_owned(), value.to_owned());
        }
        let at_once = |vm: &Vm, rows: &[(&str, Option<&str>, bool)]| {
            for (key, new, wanted) in rows {
                assert_eq!(applies(vm, key, *new), *wanted, "{key} {new:?}");
            }
        };
        at_once(
            &vm,
            &[
                ("scsi0", Some("local:100/vm-100-disk-0.raw,size=1G,iops=100"), true),
                ("scsi0", Some("local:100/vm-100-disk-0.raw,size=1G,discard=on"), false),
                ("scsi1", Some("local:1"), true),
                ("sata0", Some("local:1"), false),
                ("ide2", Some("local:iso/a.iso,media=cdrom"), true),
                ("ide2", None, false),
                ("net0", Some("virtio=BC:24:11:00:00:01,bridge=vmbr1"), true),
                ("balloon", Some("256"), true),
                ("balloon", Some("0"), false),
                ("memory", Some("4096"), false),
                ("cores", Some("4"), false),
                ("description", Some("x"), true),
            ],
        );
        vm.config.insert("hotplug".to_owned(), "memory,cpu".to_owned());
        at_once(&vm, &[("memory", Some("4096"), false)]);
        vm.config.insert("numa".to_owned(), "1".to_owned());
        at_once(
            &vm,
            &[
                ("memory", Some("4096"), true),
                ("vcpus", Some("2"), true),
                ("scsi1", Some("local:1"), false),
                ("net0", Some("virtio=BC:24:11:00:00:01,bridge=vmbr1"), true),
                ("net0", Some("e1000=BC:24:11:00:00:01,bridge=vmbr0"), false),
            ],
        );
    }
}
