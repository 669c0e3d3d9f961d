//! Cores, memory, disks, devices and firmware.

use std::collections::BTreeMap;

use crate::blueprint::Role;
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::{Draft, DraftNode};
use crate::forms;
use crate::images;
use crate::spec::{Bios, BootDisk, Bus, Cpu, Hardware, Memory, Written};

/// What Talos wants of a machine, in MiB.
const CONTROL_PLANE_MEMORY: u64 = 1698;
const WORKER_MEMORY: u64 = 874;
/// The smallest boot disk, in GiB.
const DISK: u64 = 6;
/// The longest name of a volume that Talos takes.
const VOLUME_NAME: usize = 34;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    for (hardware, path) in written_hardware(draft) {
        written(hardware, &path, found);
        disks(hardware, &path, found);
        devices(hardware, &path, found);
    }
    for (name, host) in &draft.spec.hosts {
        let path = Path::of(&["hosts", name, "datastores"]);
        let stores = &host.datastores;
        for (key, store) in
            [("image", &stores.image), ("disks", &stores.disks), ("cloudinit", &stores.cloudinit)]
        {
            datastore(store.as_ref(), path.key(key), found);
        }
    }
    for node in draft.nodes.iter().filter(|node| !node.external) {
        floors(node, found);
        slots(node, found);
        firmware(draft, node, found);
    }
}

/// All hardware as it is written, where it is written.
fn written_hardware<'s>(draft: &Draft<'s>) -> Vec<(&'s Hardware, Path)> {
    let spec = draft.spec;
    let mut all: Vec<(&Hardware, Path)> = Vec::new();
    all.extend(spec.sizes.iter().map(|(name, size)| (size, Path::of(&["sizes", name]))));
    for role in [Role::ControlPlane, Role::Worker] {
        all.push((&spec.defaults.of(role).hardware, Path::of(&["defaults", &role.to_string()])));
    }
    all.extend(spec.pools.iter().map(|(name, pool)| (&pool.hardware, Path::of(&["pools", name]))));
    all.extend(spec.nodes.iter().map(|(name, node)| (&node.hardware, Path::of(&["nodes", name]))));
    all
}

/// The forms of cores, memory and boot disk.
fn written(hardware: &Hardware, path: &Path, found: &mut Vec<Diagnostic>) {
    let short_or_long = |key: &str, sub: &str, short: bool| {
        if short { path.key(key) } else { path.key(key).key(sub) }
    };
    if let Some(cpu) = &hardware.cpu {
        let details = cpu.details();
        let short = matches!(cpu, Cpu::Cores(_));
        if let Some(cores) = details.cores.filter(|cores| !(1..=512).contains(cores)) {
            let problem = Diagnostic::error(codes::CPU_COUNT, format!("a VM cannot have {cores} cores"));
            let problem = problem.at(short_or_long("cpu", "cores", short), "");
            found.push(problem.help("use a number from 1 to 512"));
        }
        if let Some(units) = details.units.filter(|units| !(1..=10_000).contains(units)) {
            let problem =
                Diagnostic::error(codes::BAD_WORD, format!("{units} cannot be the weight of a CPU"));
            found.push(problem.at(path.key("cpu").key("units"), "").help("use a number from 1 to 10000"));
        }
        if let Some(kind) = details.kind.as_ref().filter(|kind| !forms::is_word(kind)) {
            found.push(bad_word(
                kind,
                "a CPU type",
                "`host` or `x86-64-v2-AES`",
                path.key("cpu").key("type"),
            ));
        }
    }
    if let Some(memory) = &hardware.memory {
        let details = memory.details();
        let at = short_or_long("memory", "size", matches!(memory, Memory::Size(_)));
        memory_size(details.size.as_ref(), at, found);
        memory_size(details.balloon.as_ref(), path.key("memory").key("balloon"), found);
    }
    if let Some(disk) = &hardware.disk {
        let details = disk.details();
        let at = short_or_long("disk", "size", matches!(disk, BootDisk::Size(_)));
        disk_size(details.size.as_ref(), at, found);
        let path = path.key("disk");
        datastore(details.datastore.as_ref(), path.key("datastore"), found);
        bus_options(details.bus, details.iothread, details.ssd, &path, found);
    }
    datastore(hardware.datastore.as_ref(), path.key("datastore"), found);
}

fn memory_size(text: Option<&Written>, path: Path, found: &mut Vec<Diagnostic>) {
    if let Some(text) = text.filter(|text| forms::memory_mib(&text.0).is_none()) {
        let problem = Diagnostic::error(codes::BAD_SIZE, format!("`{}` is not a size of memory", text.0));
        found.push(problem.at(path, "").help("write `8G`, `8192M`, or a plain number of MiB"));
    }
}

fn disk_size(text: Option<&Written>, path: Path, found: &mut Vec<Diagnostic>) {
    if let Some(text) = text.filter(|text| forms::disk_gib(&text.0).is_none()) {
        let problem = Diagnostic::error(codes::BAD_SIZE, format!("`{}` is not the size of a disk", text.0));
        found.push(problem.at(path, "").help("write `32G`, `1T`, or a plain number of GiB"));
    }
}

fn datastore(name: Option<&String>, path: Path, found: &mut Vec<Diagnostic>) {
    if let Some(name) = name.filter(|name| !forms::is_datastore(name)) {
        let problem = Diagnostic::error(codes::BAD_DATASTORE, format!("`{name}` cannot be a datastore"));
        found.push(problem.at(path, "").help("give the name that Proxmox shows, for example `local-lvm`"));
    }
}

/// What a bus cannot do is refused rather than dropped.
fn bus_options(
    bus: Option<Bus>,
    iothread: Option<bool>,
    ssd: Option<bool>,
    path: &Path,
    found: &mut Vec<Diagnostic>,
) {
    let wrong = match bus {
        Some(Bus::Sata) if iothread == Some(true) => ("iothread", "sata"),
        Some(Bus::Virtio) if ssd == Some(true) => ("ssd", "virtio"),
        _ => return,
    };
    let message = format!("a disk on {} has no `{}`", wrong.1, wrong.0);
    let problem = Diagnostic::error(codes::DISK_OPTION, message).at(path.key(wrong.0), "");
    found.push(problem.at(path.key("bus"), "").help("leave it out, or use `bus: scsi`"));
}

/// The forms of data disks.
fn disks(hardware: &Hardware, path: &Path, found: &mut Vec<Diagnostic>) {
    for (name, disk) in &hardware.disks {
        let path = path.key("disks").key(name);
        if !forms::is_dns_label(name) || name.len() > VOLUME_NAME {
            let problem =
                Diagnostic::error(codes::BAD_NAME, format!("`{name}` cannot be the name of a disk"));
            let help = format!("use lower case letters, digits and `-`, {VOLUME_NAME} characters at most");
            found.push(problem.at_key(path.clone(), "").help(help));
        }
        disk_size(disk.size.as_ref(), path.key("size"), found);
        datastore(disk.datastore.as_ref(), path.key("datastore"), found);
        bus_options(disk.bus, disk.iothread, disk.ssd, &path, found);
        if let Some(mount) = disk.mount.as_ref().filter(|mount| !forms::is_mount(mount)) {
            let problem =
                Diagnostic::error(codes::BAD_MOUNT, format!("a disk cannot be mounted at `{mount}`"));
            found.push(
                problem
                    .at(path.key("mount"), "")
                    .help("give a folder below /var, for example `/var/lib/longhorn`"),
            );
        }
    }
}

/// Devices by mapping, machine type and screen.
fn devices(hardware: &Hardware, path: &Path, found: &mut Vec<Diagnostic>) {
    for (index, one) in hardware.pci.iter().flatten().enumerate() {
        let path = path.key("pci").index(index);
        let mapping = one.mapping();
        if forms::is_pci_address(mapping) {
            let message = format!("`{mapping}` is the address of a device, not the name of a mapping");
            let help = "run `talosmith proxmox setup`: it creates a mapping for this device and prints the name to write here; a token may not pass through a bare address";
            found.push(Diagnostic::error(codes::PCI_ADDRESS, message).at(path, "").help(help));
        } else if !forms::is_datastore(mapping) {
            let message = format!("`{mapping}` cannot be the name of a mapping");
            let help = "give the name that Proxmox shows under Resource Mappings";
            found.push(Diagnostic::error(codes::PCI_ADDRESS, message).at(path, "").help(help));
        }
    }
    if hardware.pci.as_ref().is_some_and(|pci| pci.len() > 16) {
        let problem = Diagnostic::error(codes::PCI_ADDRESS, "a VM has room for 16 devices");
        found.push(problem.at_key(path.key("pci"), "").help("hand fewer through"));
    }
    if let Some(machine) = hardware.machine.as_ref().filter(|machine| !forms::is_machine(machine)) {
        found.push(bad_word(machine, "a machine type", "`q35` or `pc`", path.key("machine")));
    }
    let screens = ["std", "virtio", "virtio-gl", "qxl", "vmware", "cirrus", "serial0", "none"];
    if let Some(display) = hardware.display.as_ref().filter(|display| !screens.contains(&display.as_str())) {
        found.push(bad_word(
            display,
            "a screen",
            "`std`, `virtio`, `serial0` or `none`",
            path.key("display"),
        ));
    }
}

fn bad_word(text: &str, what: &str, known: &str, path: Path) -> Diagnostic {
    Diagnostic::error(codes::BAD_WORD, format!("`{text}` cannot be {what}"))
        .at(path, "")
        .help(format!("use what Proxmox knows, for example {known}"))
}

/// The floors, for the nodes that the values reach. A value may be fine for a worker and too low for a control plane.
fn floors(node: &DraftNode<'_>, found: &mut Vec<Diagnostic>) {
    let hardware = &node.hardware;
    let floor = match node.role {
        Role::ControlPlane => CONTROL_PLANE_MEMORY,
        Role::Worker => WORKER_MEMORY,
    };
    if let Some(memory) = hardware.memory_mib.as_ref().filter(|memory| memory.value < floor) {
        let role = match node.role {
            Role::ControlPlane => "control plane",
            Role::Worker => "worker",
        };
        let message =
            format!("`{}` has {} MiB of memory, too little for a {role} node", node.name, memory.value);
        let problem = Diagnostic::error(codes::MEMORY_LOW, message).at(memory.path.clone(), "");
        found.push(problem.help(format!("Talos wants {floor} MiB at least; a plain number counts MiB")));
    }
    if let Some(disk) = hardware.disk_gib.as_ref().filter(|disk| disk.value < DISK) {
        let message = format!("`{}` has a boot disk of {} GiB, which is too small", node.name, disk.value);
        let problem = Diagnostic::error(codes::DISK_SMALL, message).at(disk.path.clone(), "");
        found.push(problem.help(format!("Talos wants {DISK} GiB at least")));
    }
    if node.role == Role::ControlPlane && hardware.cores.value == 1 {
        let message = format!("`{}` has one core, which is little for a control plane", node.name);
        let problem = Diagnostic::warning(codes::CPU_COUNT, message).at(hardware.cores.path.clone(), "");
        found.push(problem.help("give it 2 at least"));
    }
    if let (Some(memory), Some(balloon)) = (&hardware.memory_mib, &hardware.balloon_mib)
        && balloon.value > memory.value
    {
        let message =
            format!("`{}` may shrink to {} MiB, but has only {}", node.name, balloon.value, memory.value);
        let problem = Diagnostic::error(codes::BALLOON, message).at(balloon.path.clone(), "");
        found.push(problem.at(memory.path.clone(), "").help("`balloon` is the least that is left to it"));
    }
    if let Some(memory) = hardware.memory_mib.as_ref().filter(|_| hardware.memory_hotplug)
        && in_modules(memory.value) != memory.value
    {
        let message = format!(
            "`{}` has {} MiB of memory, which is no size of memory that can be added while it runs",
            node.name, memory.value
        );
        let problem = Diagnostic::error(codes::MEMORY_MODULES, message).at(memory.path.clone(), "");
        found.push(problem.help(format!("`{}M` is the next one", in_modules(memory.value))));
    }
}

/// The next size that can be made of modules. A VM with memory that can be added starts with 1 GiB; its modules have 512 MiB, and every
/// 33rd is twice as large as those before.
fn in_modules(mib: u64) -> u64 {
    let mut size = 1024;
    for module in (0..8).map(|doubled| 512_u64 << doubled) {
        for _ in 0..32 {
            if size >= mib {
                return size;
            }
            size += module;
        }
    }
    size
}

/// Each data disk has a size, and a slot and a mount of its own.
fn slots(node: &DraftNode<'_>, found: &mut Vec<Diagnostic>) {
    let mut taken: BTreeMap<(Bus, u32), (&str, &Path)> = BTreeMap::new();
    let mut mounts: BTreeMap<String, (&str, &Path)> = BTreeMap::new();
    for disk in &node.hardware.disks {
        if disk.size_gib.is_none() {
            let message = format!("the disk `{}` of `{}` has no size", disk.name, node.name);
            let problem = Diagnostic::error(codes::DISK_SIZE, message).at_key(disk.path.clone(), "");
            found.push(problem.help("add `size: 100G`, here or where it is inherited from"));
        }
        if let Some(Some(size)) =
            disk.size_gib.as_ref().filter(|size| size.as_ref().is_some_and(|s| s.value == 0))
        {
            let problem =
                Diagnostic::error(codes::DISK_SIZE, format!("the disk `{}` has no room", disk.name));
            found.push(problem.at(size.path.clone(), "").help("give it 1G at least"));
        }
        let slot = disk.slot.value;
        let boot = disk.bus == node.hardware.boot_bus && slot == 0;
        if boot || slot >= disk.bus.slots() {
            let message = match boot {
                true => format!("{}0 is the boot disk of `{}`", disk.bus, node.name),
                false => format!("there is no {}{slot}", disk.bus),
            };
            let first = u32::from(disk.bus == node.hardware.boot_bus);
            let problem = Diagnostic::error(codes::SLOT_TAKEN, message).at(disk.slot.path.clone(), "");
            found.push(problem.help(format!("use a slot from {first} to {}", disk.bus.slots() - 1)));
        } else if let Some((other, first)) = taken.insert((disk.bus, slot), (disk.name, &disk.slot.path)) {
            let message = format!(
                "the disks `{other}` and `{}` of `{}` are both {}{slot}",
                disk.name, node.name, disk.bus
            );
            let problem = Diagnostic::error(codes::SLOT_TAKEN, message).at(disk.slot.path.clone(), "");
            found.push(problem.at(first.clone(), "").help("give all but one of them a `slot`"));
        }
        let mount = disk.mount.as_ref();
        let at = mount
            .map_or_else(|| format!("/var/mnt/{}", disk.name), |m| m.value.trim_end_matches('/').to_owned());
        let path = mount.map_or(&disk.path, |mount| &mount.path);
        if let Some((other, first)) = mounts.insert(at.clone(), (disk.name, path)) {
            let message = format!("the disks `{other}` and `{}` are both mounted at {at}", disk.name);
            let problem = Diagnostic::error(codes::MOUNT_TWICE, message).at(path.clone(), "");
            found.push(problem.at(first.clone(), "").help("mount one of them elsewhere"));
        }
    }
}

/// Secure boot needs UEFI.
fn firmware(draft: &Draft<'_>, node: &DraftNode<'_>, found: &mut Vec<Diagnostic>) {
    let Some(bios) = node.hardware.bios.as_ref().filter(|bios| bios.value == Bios::Seabios) else { return };
    if !images::effective(draft.spec, node).secure_boot {
        return;
    }
    let by_traits = node
        .traits
        .iter()
        .rev()
        .find(|(traits, _)| traits.image.as_ref().is_some_and(|image| image.secure_boot.is_some()));
    let image = by_traits.map_or_else(|| Path::of(&["image"]), |(_, path)| path.key("image"));
    let message = format!("`{}` boots by SeaBIOS, which knows no secure boot", node.name);
    let problem = Diagnostic::error(codes::SECURE_BOOT, message).at(bios.path.clone(), "");
    found.push(problem.at(image.key("secure_boot"), "").help("use `bios: ovmf`, or leave `bios` out"));
}
