//! One node of the map formats.

use model::blueprint::Role;
use model::forms;
use model::load::Tree;
use model::spec::{
    Bios, BootDisk, BootDiskDetails, Bus, Cache, Cpu, CpuDetails, DataDisk, Hardware, ImageOverride, Memory,
    NicOverride, Node, NodeVersions, Pci, PciDetails, Spec, Startup,
};
use serde_json::json;

use super::Ground;
use crate::Format;
use crate::bag::{At, Bag};
use crate::common::{name as folded, network_of, patch, written};
use crate::notes::Notes;

/// Extensions of nodes with an NVIDIA card.
const NVIDIA: &[&str] = &[
    "siderolabs/nvidia-open-gpu-kernel-modules-production",
    "siderolabs/nvidia-container-toolkit-production",
];

pub(super) fn translate(spec: &mut Spec, ground: &Ground, nodes: &Bag<'_>, notes: &mut Notes) {
    let mut made: Vec<(String, Node)> = Vec::new();
    let names: Vec<&str> = nodes.keys().collect();
    for (name, bag) in nodes.bags() {
        let name = &short(name, &names, &bag, notes);
        let node = one(spec, ground, name, &bag, notes);
        let host = node.host.clone().or_else(|| ground.host.clone()).filter(|_| !node.external);
        if let Some(host) = host {
            let entry = spec.hosts.entry(host.clone()).or_default();
            // These modules label each node with its host as zone.
            entry.zone = Some(host);
        }
        bag.finish(notes);
        made.push((name.to_owned(), node));
    }
    hoist(spec, &mut made);
    if let Some(host) = &ground.host
        && !made.iter().any(|(_, node)| node.host.as_ref() == Some(host))
    {
        notes.unused(&format!("`proxmox.name`, {host}, is not carried over: every node names its own host"));
    }
    let ahead = ground.update_talos.as_ref().filter(|version| **version != spec.versions.talos);
    if let Some(version) = ahead.filter(|_| !made.iter().any(|(_, node)| node.traits.versions.is_some())) {
        notes.unused(&format!("`update_version`, {version}, is not carried over: no node is marked for it"));
    }
    if made.iter().any(|(_, node)| node.mac.is_none() && !node.external) {
        notes.assumed("where no MAC address is given, Proxmox drew one; here it is derived, so set `mac` to keep one that exists");
    }
    for host in spec.hosts.values_mut() {
        host.datastores.image = Some(ground.image_store.clone().unwrap_or_else(|| "local".to_owned()));
    }
    spec.nodes.extend(made);
}

/// A node's name as ours are: one label, which names with a domain have in front.
fn short(name: &str, all: &[&str], bag: &Bag<'_>, notes: &mut Notes) -> String {
    if forms::is_dns_label(name) {
        return name.to_owned();
    }
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let label = first(name);
    let alone = all.iter().filter(|other| first(other) == label).count() == 1;
    let at = At { value: name.to_owned(), span: bag.span };
    if alone && forms::is_dns_label(&label) {
        notes.changed(bag.span, &format!("`{name}` is called `{label}` here"), "");
        return label;
    }
    folded(&at, notes)
}

/// What all nodes say about their card is the network's.
fn hoist(spec: &mut Spec, made: &mut [(String, Node)]) {
    let card = |node: &Node| node.traits.network.clone().unwrap_or_default();
    let Some(first) = made.first().map(|(_, node)| card(node)) else { return };
    let bridge = first.bridge.is_some() && made.iter().all(|(_, node)| card(node).bridge == first.bridge);
    let vlan = first.vlan.is_some() && made.iter().all(|(_, node)| card(node).vlan == first.vlan);
    for (_, node) in made {
        let Some(network) = &mut node.traits.network else { continue };
        network.bridge = network.bridge.take().filter(|_| !bridge);
        network.vlan = network.vlan.filter(|_| !vlan);
        node.traits.network = node.traits.network.take().filter(|network| *network != NicOverride::default());
    }
    if let Some(name) = first.bridge.filter(|_| bridge) {
        spec.network.bridge = name;
    }
    if vlan {
        spec.network.vlan = first.vlan;
    }
}

/// A node whose card stands in a mapping of its own; the first one says what the network is where the cluster does not.
fn own_card(spec: &mut Spec, node: &mut Node, bag: &Bag<'_>, name: &str, notes: &mut Notes) {
    let Some(card) = bag.bag("network") else { return };
    let text = |key: &str| card.text(key).map(|text| text.value);
    node.address = node.address.take().or_else(|| text("ip"));
    mac(node, &card, name, notes);
    let gateway = text("gateway");
    let prefix = text("subnet_mask").and_then(|text| text.parse().ok()).unwrap_or(24);
    if spec.network.gateway.is_empty()
        && let Some(gateway) = gateway
    {
        spec.network.cidr = network_of(&gateway, prefix).unwrap_or_default();
        spec.network.gateway = gateway;
    }
    if card.flag("dhcp") == Some(true) {
        notes.changed(
            card.span,
            &format!("`{name}` took its address from DHCP"),
            "reserve it there, and set `network.dhcp`",
        );
    }
    let own = NicOverride {
        bridge: text("device").or_else(|| text("bridge")),
        vlan: card.number("vlan_id").map(|number| number.value).filter(|vlan| *vlan != 0),
        dns: card.values("dns"),
        ..NicOverride::default()
    };
    node.traits.network =
        node.traits.network.take().or_else(|| Some(own).filter(|own| *own != NicOverride::default()));
    card.finish(notes);
}

/// A MAC address, unless it is a placeholder.
fn mac(node: &mut Node, bag: &Bag<'_>, name: &str, notes: &mut Notes) {
    let Some(mac) = bag.text("mac_address") else { return };
    match forms::mac(&mac.value) {
        Some(fine) => node.mac = Some(fine),
        None => {
            let message = format!(
                "`{}`, the MAC address of `{name}`, is a placeholder or a slip, and was left out",
                mac.value
            );
            notes.changed(mac.span, &message, "a MAC address is derived; set `mac` to keep one that exists");
        }
    }
}

fn one(spec: &mut Spec, ground: &Ground, name: &str, bag: &Bag<'_>, notes: &mut Notes) -> Node {
    let text = |key: &str| bag.text(key).map(|text| text.value);
    let number = |key: &str| bag.number(key).map(|number| number.value);
    let mut node = Node { address: text("ip"), ..Node::default() };
    node.role = match bag.text("machine_type") {
        Some(kind) if kind.value == "controlplane" => Some(Role::ControlPlane),
        Some(kind) if kind.value == "worker" => Some(Role::Worker),
        Some(kind) => {
            notes.changed(kind.span, &format!("`{}` is not a role", kind.value), "set `role` in the result");
            None
        }
        None => None,
    };
    node.external = bag.flag("is_external").unwrap_or(false);
    let host = text("host_node").or_else(|| text("proxmox_node"));
    if !node.external {
        node.host = host.or_else(|| ground.host.clone());
        node.vmid = number("vm_id");
    }
    mac(&mut node, bag, name, notes);
    hardware(&mut node.hardware, bag, notes);
    let dns = bag.values("dns_servers").into_iter().chain(bag.values("dns")).collect();
    let card = NicOverride {
        bridge: text("network_bridge").or_else(|| text("network_device")).or_else(|| text("bridge")),
        // For the provider, 0 is no VLAN.
        vlan: number("network_vlan_id").or_else(|| number("vlan_id")).filter(|vlan| *vlan != 0),
        dns,
        ..NicOverride::default()
    };
    node.traits.network = Some(card).filter(|card| *card != NicOverride::default());
    own_card(spec, &mut node, bag, name, notes);
    node.traits.description = text("description");
    node.traits.tags = bag.values("tags");
    let update = ["update", "upgrade"].iter().filter_map(|key| bag.flag(key)).any(|flag| flag);
    if update {
        let talos = ground.update_talos.clone().filter(|version| *version != spec.versions.talos);
        let kubernetes =
            ground.update_kubernetes.clone().filter(|version| *version != spec.versions.kubernetes);
        if talos.is_some() || kubernetes.is_some() {
            node.traits.versions = Some(NodeVersions { talos, kubernetes });
        }
    }
    gpu(spec, ground, &mut node, name, bag, notes);
    data_disks(&mut node.hardware, bag, notes);
    node
}

fn hardware(hardware: &mut Hardware, bag: &Bag<'_>, notes: &mut Notes) {
    let text = |key: &str| bag.text(key).map(|text| text.value);
    let number = |key: &str| bag.number(key).map(|number| number.value);
    let cpu = CpuDetails { cores: number("cpu"), kind: text("cpu_type"), units: number("cpu_units") };
    hardware.cpu = match cpu {
        CpuDetails { cores: Some(cores), kind: None, units: None } => Some(Cpu::Cores(cores)),
        other => Some(Cpu::Details(other)).filter(|cpu| cpu.details() != CpuDetails::default()),
    };
    hardware.memory = number("ram_dedicated").map(|mib| Memory::Size(written(format!("{mib}M"))));
    hardware.datastore = text("datastore_id");
    hardware.machine = text("machine");
    hardware.start_on_boot = bag.flag("on_boot");
    hardware.bios = match text("bios").as_deref() {
        Some("ovmf") => Some(Bios::Ovmf),
        Some("seabios") => Some(Bios::Seabios),
        _ => None,
    };
    if let Some(order) = number("startup_order") {
        hardware.startup = Some(Startup { order: Some(order), up: Some(10), down: None });
    }
    let size = ["root_disk_size", "os_disk_size", "disk_size", "disk"].iter().find_map(|key| number(key));
    let boot = BootDiskDetails {
        size: size.map(|gib| written(format!("{gib}G"))),
        datastore: None,
        bus: text("root_disk_interface").and_then(|interface| bus(&interface)),
        cache: text("root_disk_cache").and_then(|text| cache(&text)),
        discard: text("root_disk_discard").map(|text| text == "on" || text == "true"),
        iothread: bag.flag("root_disk_iothread"),
        ssd: bag.flag("root_disk_ssd"),
        backup: None,
    };
    hardware.disk = match boot {
        BootDiskDetails {
            size: Some(size),
            bus: None,
            cache: None,
            discard: None,
            iothread: None,
            ssd: None,
            ..
        } => Some(BootDisk::Size(size)),
        other => Some(BootDisk::Details(other)).filter(|disk| disk.details() != BootDiskDetails::default()),
    };
    for (key, usual) in
        [("scsi_hardware", "virtio-scsi-single"), ("os_type", "l26"), ("agent_enabled", "true")]
    {
        if let Some(other) = bag.text(key).filter(|text| text.value != usual) {
            notes.lost(other.span, &format!("`{}.{key}` is always `{usual}` here", bag.name));
        }
    }
    if let Some(Tree::List { span, items }) = bag.take("boot_order")
        && items.len() > 1
    {
        notes.lost(*span, "nodes boot from their first disk only");
    }
    let formats = ["root_disk_file_format", "additional_disk_file_format"];
    bag.lose(&formats, "the datastore decides it", notes);
}

/// Data disks of a node, or of the defaults. Options that stand beside them hold for all of them.
pub(super) fn data_disks(hardware: &mut Hardware, bag: &Bag<'_>, notes: &mut Notes) {
    let shared = DataDisk {
        cache: bag.text("additional_disk_cache").and_then(|text| cache(&text.value)),
        discard: bag.text("additional_disk_discard").map(|text| text.value == "on" || text.value == "true"),
        iothread: bag.flag("additional_disk_iothread"),
        ssd: bag.flag("additional_disk_ssd"),
        ..DataDisk::default()
    };
    let Some(disks) = bag.bag("disks") else { return };
    for (index, (name, disk)) in (1u32..).zip(disks.bags()) {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let mut one = shared.clone();
        one.size = disk.text("size").map(|text| written(text.value));
        one.mount = disk.text("mountpoint").map(|text| text.value);
        one.bus = disk.text("type").and_then(|text| bus(&text.value));
        one.slot = disk.number("unit_number").map(|number| number.value);
        // Without a number, the module counts: longhorn is the first, others follow their place.
        if one.slot.is_none() && one.size.is_some() && name != "longhorn" && index > 1 {
            one.slot = Some(index);
        }
        if one.size.is_none()
            && disk.has("mountpoint")
            && let Some(device) = disk.text("device")
        {
            let message =
                format!("the disk `{name}` has no size, so it is one that exists, found as {}", device.value);
            notes.changed(
                device.span,
                &message,
                "give it a `size`, or mount it by a patch with a `UserVolumeConfig`",
            );
        }
        disk.lose(&["device"], "Talos finds the disk by its WWN or serial number", notes);
        disk.finish(notes);
        hardware.disks.insert(name, one);
    }
}

/// The disk that workers of the first version of the module have.
pub(super) fn default_longhorn(hardware: &mut Hardware, notes: &mut Notes) {
    let disk = DataDisk {
        size: Some(written("220G")),
        slot: Some(1),
        cache: Some(Cache::Writethrough),
        mount: Some("/var/lib/longhorn".to_owned()),
        ..DataDisk::default()
    };
    hardware.disks.insert("longhorn".to_owned(), disk);
    notes.assumed("workers have the module's own disk `longhorn` of 220G");
}

fn gpu(spec: &Spec, ground: &Ground, node: &mut Node, name: &str, bag: &Bag<'_>, notes: &mut Notes) {
    let wanted = bag.flag("igpu").unwrap_or(false);
    let devices = bag.texts("gpu_devices");
    let meta = bag.bag("gpu_device_meta");
    let exclusive = bag.flag("gpu_node_exclusive").unwrap_or(true);
    if !wanted {
        if let Some(first) = devices.first() {
            notes.lost(
                first.span,
                &format!("`{name}` names devices, but `igpu` is not true, so the module ignores them"),
            );
        }
        return;
    }
    if ground.format != Format::NodesConfig {
        node.hardware.pci = Some(vec![Pci::Mapping("iGPU".to_owned())]);
        return;
    }
    let mut pci = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let mapping = format!("gpu-{name}-{index}");
        let known = meta.as_ref().and_then(|meta| meta.bag(&device.value));
        let message = match known.is_some() {
            true => format!("the device {} is passed through by the mapping `{mapping}`", device.value),
            false => format!("{} is not in `gpu_device_meta`, so the module itself refuses it", device.value),
        };
        let about = described(known, notes);
        notes.changed(
            device.span,
            &message,
            &format!("make the mapping `{mapping}` for it in Proxmox, Resource Mappings{about}"),
        );
        let details = PciDetails { mapping, pcie: None, rombar: None, primary: (index == 0).then_some(true) };
        pci.push(Pci::Details(details));
    }
    if devices.is_empty() {
        notes.changed(
            bag.span,
            &format!("`{name}` has `igpu`, but no `gpu_devices`"),
            "list mappings under `pci`",
        );
    }
    node.hardware.pci = Some(pci).filter(|pci| !pci.is_empty());
    node.hardware.display = Some("virtio".to_owned());
    node.traits.labels.insert("gpu".to_owned(), "true".to_owned());
    if exclusive {
        node.traits.taints.insert("gpu".to_owned(), "true:NoSchedule".to_owned());
    }
    let mut extensions = spec.image.extensions.clone();
    extensions.extend(NVIDIA.iter().map(|name| (*name).to_owned()));
    node.traits.image = Some(ImageOverride { extensions: Some(extensions), ..ImageOverride::default() });
    let modules =
        ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"].map(|name| json!({ "name": name }));
    node.traits.patches.extend(patch(json!({ "machine": { "kernel": { "modules": modules } } })));
    notes.assumed(&format!("`{name}` gets the NVIDIA extensions and modules that the module adds; its container runtime comes with them"));
}

/// What the input knows of a device, for comparison when the mapping is created.
fn described(meta: Option<Bag<'_>>, notes: &mut Notes) -> String {
    let Some(meta) = meta else { return String::new() };
    let known = [("id", "id"), ("subsystem_id", "subsystem"), ("iommu_group", "IOMMU group")];
    let known = known.iter().filter_map(|(key, name)| Some(format!("{name} {}", meta.text(key)?.value)));
    let known: Vec<String> = known.collect();
    meta.finish(notes);
    if known.is_empty() { String::new() } else { format!(": {}", known.join(", ")) }
}

fn bus(text: &str) -> Option<Bus> {
    match text.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "scsi" => Some(Bus::Scsi),
        "virtio" => Some(Bus::Virtio),
        "sata" => Some(Bus::Sata),
        _ => None,
    }
}

fn cache(text: &str) -> Option<Cache> {
    match text {
        "none" => Some(Cache::None),
        "writethrough" => Some(Cache::Writethrough),
        "writeback" => Some(Cache::Writeback),
        "directsync" => Some(Cache::Directsync),
        "unsafe" => Some(Cache::Unsafe),
        _ => None,
    }
}
