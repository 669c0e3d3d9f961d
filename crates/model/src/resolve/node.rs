//! From one node's draft to the node of the blueprint.

use ipnet::Ipv4Net;

use super::datastores::{Purpose, Stores};
use super::tags;
use crate::blueprint::{
    BootDisk, Disk, DiskOptions, Hardware, Nic, Node, NodePatch, NodeSettings, Pci, Route,
};
use crate::derived;
use crate::diagnostic::Path;
use crate::draft::{Draft, DraftDisk, DraftExtra, DraftNode, Options, Said, node_network};
use crate::forms::{self, Version};
use crate::images;
use crate::spec::{self, Arch, Bios, Bus};

/// Decides everything about a node; `None` when something that it needs has no usable form.
pub(super) fn decide(
    draft: &Draft<'_>,
    node: &DraftNode<'_>,
    image: String,
    host: Option<&String>,
    stores: &mut Stores<'_>,
    cluster_id: Option<&str>,
) -> Option<Node> {
    let spec = draft.spec;
    let mut labels = node.merged(|traits| &traits.labels);
    if let Some(zone) = host.and_then(|host| spec.hosts.get(host)).and_then(|host| host.zone.clone()) {
        labels.entry("topology.kubernetes.io/zone".to_owned()).or_insert(zone);
    }
    if let Some(region) = spec.proxmox.region.as_ref().filter(|_| !node.external) {
        labels.entry("topology.kubernetes.io/region".to_owned()).or_insert_with(|| region.clone());
    }
    let said = &node.hardware;
    Some(Node {
        name: node.name.as_str().into(),
        role: node.role,
        pool: node.pool.map(str::to_owned),
        host: host.cloned(),
        host_pinned: node.pinned.is_some(),
        vmid: node.vmid.as_ref()?.value,
        uuid: cluster_id.map(|id| derived::node_uuid(id, &node.name)),
        mac: match &node.mac {
            Some(mac) => mac.value.clone(),
            None if node.external => String::new(),
            None => return None,
        },
        address: Ipv4Net::new(node.address.as_ref()?.value, draft.network?.prefix_len()).ok()?,
        gateway: draft.gateway?,
        dns: node.card.dns.iter().filter_map(|server| server.parse().ok()).collect(),
        ntp: spec.network.ntp.clone(),
        bridge: node.card.bridge.to_owned(),
        vlan: node.card.vlan.and_then(|vlan| u16::try_from(vlan).ok()),
        mtu: node.card.mtu.and_then(|mtu| u16::try_from(mtu).ok()),
        cores: said.cores.value,
        cpu_type: match (&said.cpu_type, spec.image.arch) {
            (Some(kind), _) => kind.value.to_owned(),
            // Proxmox's own default is too old for Talos.
            (None, Arch::Amd64) => "x86-64-v2-AES".to_owned(),
            (None, Arch::Arm64) => "host".to_owned(),
        },
        memory_mib: said.memory_mib.as_ref()?.value,
        disk_gib: said.disk_gib.as_ref()?.value,
        disk_datastore: datastore(said.boot_datastore.as_ref(), node, host, stores),
        image_datastore: host.and_then(|host| stores.choose(host, Purpose::Image)),
        image,
        talos: Version::read(node.talos.value)?.to_string(),
        kubernetes: Version::read(node.kubernetes.value)?.to_string(),
        components: Default::default(),
        labels,
        external: node.external,
        hardware: hardware(draft, node, host, stores)?,
        settings: settings(draft, node),
    })
}

fn hardware(
    draft: &Draft<'_>,
    node: &DraftNode<'_>,
    host: Option<&String>,
    stores: &mut Stores<'_>,
) -> Option<Hardware> {
    let said = &node.hardware;
    let image = images::effective(draft.spec, node);
    let mut disks = Vec::new();
    for disk in &said.disks {
        disks.push(data_disk(&draft.spec.cluster, node, disk, host, stores)?);
    }
    disks.sort_by_key(|disk| (disk.bus, disk.slot));
    let lists = node.traits.iter().map(|(traits, _)| &traits.tags);
    let pci = |one: &spec::Pci| match one {
        spec::Pci::Mapping(mapping) => {
            Pci { mapping: mapping.clone(), pcie: true, rombar: true, primary: false }
        }
        spec::Pci::Details(details) => Pci {
            mapping: details.mapping.clone(),
            pcie: details.pcie.unwrap_or(true),
            rombar: details.rombar.unwrap_or(true),
            primary: details.primary.unwrap_or(false),
        },
    };
    let secure_bios = if image.secure_boot { Bios::Ovmf } else { Bios::Seabios };
    Some(Hardware {
        cpu_units: said.cpu_units,
        balloon_mib: said.balloon_mib.as_ref().map_or(0, |balloon| balloon.value),
        memory_hotplug: said.memory_hotplug,
        nic_model: node.card.model,
        boot: BootDisk { bus: said.boot_bus, options: options(&said.boot, said.boot_bus) },
        disks,
        pci: said.pci.iter().flat_map(|pci| pci.value).map(pci).collect(),
        bios: said.bios.as_ref().map_or(secure_bios, |bios| bios.value),
        secure_boot: image.secure_boot,
        tpm: said.tpm.as_ref().map_or(image.secure_boot, |tpm| tpm.value),
        machine: said.machine.unwrap_or("q35").to_owned(),
        display: said.display.map(str::to_owned),
        start_on_boot: said.start_on_boot,
        startup: said.startup,
        cloudinit_datastore: host.and_then(|host| stores.choose(host, Purpose::CloudInit)),
        tags: tags([&draft.spec.proxmox.tags].into_iter().chain(lists)),
        description: node.nearest(|traits| traits.description.clone()),
    })
}

fn data_disk(
    cluster: &str,
    node: &DraftNode<'_>,
    disk: &DraftDisk<'_>,
    host: Option<&String>,
    stores: &mut Stores<'_>,
) -> Option<Disk> {
    Some(Disk {
        name: disk.name.to_owned(),
        bus: disk.bus,
        slot: disk.slot.value,
        size_gib: disk.size_gib.as_ref()?.as_ref()?.value,
        datastore: datastore(disk.datastore.as_ref(), node, host, stores),
        options: options(&disk.options, disk.bus),
        wwn: derived::wwn(cluster, &node.name, disk.name),
        serial: derived::serial(cluster, &node.name, disk.name),
        mount: disk.mount.as_ref().map_or_else(|| format!("/var/mnt/{}", disk.name), |m| m.value.to_owned()),
    })
}

/// The disk's own datastore, the node's, or that of the host.
fn datastore(
    own: Option<&Said<&str>>,
    node: &DraftNode<'_>,
    host: Option<&String>,
    stores: &mut Stores<'_>,
) -> Option<String> {
    match own.or(node.hardware.datastore.as_ref()) {
        Some(said) => Some(stores.named(host, said)),
        None => host.and_then(|host| stores.choose(host, Purpose::Disks)),
    }
}

fn options(said: &Options, bus: Bus) -> DiskOptions {
    DiskOptions {
        cache: said.cache.unwrap_or_default(),
        discard: said.discard.unwrap_or(true),
        iothread: bus != Bus::Sata && said.iothread.unwrap_or(true),
        ssd: bus != Bus::Virtio && said.ssd.unwrap_or(true),
        backup: said.backup.unwrap_or(true),
    }
}

fn settings(draft: &Draft<'_>, node: &DraftNode<'_>) -> NodeSettings {
    let extra_nics = node.extra.iter().filter_map(nic).collect();
    let taints = node.merged(|traits| &traits.taints);
    let lists = node.traits.iter().map(|(traits, path)| (&traits.patches, path.key("patches")));
    let patches = [(&draft.spec.patches, Path::of(&["patches"]))].into_iter().chain(lists);
    let numbered = |(list, path): (&Vec<spec::Patch>, Path)| {
        let one = |(index, patch): (usize, &spec::Patch)| NodePatch {
            path: path.index(index),
            patch: patch.clone(),
        };
        list.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let own = draft.spec.nodes.get(&node.name);
    NodeSettings {
        hosts: node.hosts.to_vec(),
        dhcp: draft.spec.network.dhcp,
        routes: routes(&draft.spec.network.routes),
        extra_nics,
        annotations: node.merged(|traits| &traits.annotations),
        kubelet_args: node.merged(|traits| &traits.kubelet_args),
        taints: taints.into_iter().filter_map(|(key, text)| Some((key, forms::taint(&text)?))).collect(),
        install_disk: own.and_then(|own| own.install_disk.clone()),
        fingerprint: own.and_then(|own| own.identity.as_ref()).map(|identity| identity.fingerprint.clone()),
        unverified: own.is_some_and(|own| own.unverified),
        patches: patches.flat_map(numbered).collect(),
    }
}

fn nic(card: &DraftExtra<'_>) -> Option<Nic> {
    let prefix = card.about.cidr.as_deref().and_then(node_network).map(|net| net.prefix_len());
    let address = card.address.as_ref().zip(prefix);
    Some(Nic {
        network: card.network.to_owned(),
        mac: card.mac.as_ref()?.value.clone(),
        address: address.and_then(|(said, prefix)| Ipv4Net::new(said.value, prefix).ok()),
        bridge: card.about.bridge.clone(),
        vlan: card.about.vlan.and_then(|vlan| u16::try_from(vlan).ok()),
        mtu: card.about.mtu.and_then(|mtu| u16::try_from(mtu).ok()),
        model: card.about.model,
        routes: routes(&card.about.routes),
    })
}

fn routes(said: &[spec::Route]) -> Vec<Route> {
    let read = |route: &spec::Route| {
        Some(Route { to: route.to.parse().ok()?, via: route.via.parse().ok()?, metric: route.metric })
    };
    said.iter().filter_map(read).collect()
}
