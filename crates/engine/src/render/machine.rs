//! What the blueprint says about one node, as Talos' own wishes. Which field or document holds each of them is decided in
//! `talos`, by the contract.

use model::blueprint::{Blueprint, Disk, Node, Role, Route, Taint};
use model::spec::{Bus, CniName};
use talos::config::{
    self, Cni, Contract, DiskId, ExtraMount, Input, KernelModule, MachineSettings, Mirror, NVIDIA_MODULES,
    Nic, UserVolume,
};
use talos::schematic::{ImageName, Platform};

use super::Schematic;

/// What all nodes of a role share. Nothing in it depends on which other nodes there are: adding one must not change the
/// configuration of another.
pub(super) fn input(
    blueprint: &Blueprint,
    node: &Node,
    contract: Contract,
    schematic: Option<&Schematic>,
) -> Input {
    let role = match node.role {
        Role::ControlPlane => config::Role::ControlPlane,
        Role::Worker => config::Role::Worker,
    };
    let kubernetes = &blueprint.options.kubernetes;
    let cni = kubernetes.cni.details();
    let sans = blueprint.vip.iter().map(ToString::to_string).chain(kubernetes.cert_sans.iter().cloned());
    let mut cert_sans: Vec<String> = Vec::new();
    for name in sans {
        if !cert_sans.contains(&name) {
            cert_sans.push(name);
        }
    }
    Input {
        install_image: installer(blueprint, node, schematic),
        install_disk: node.settings.install_disk.clone(),
        cert_sans,
        dns_domain: blueprint.dns_domain.clone(),
        pod_subnets: vec![blueprint.pod_cidr.to_string()],
        service_subnets: vec![blueprint.service_cidr.to_string()],
        cni: match cni.name {
            CniName::Flannel => Cni::Flannel,
            // Cilium comes by its chart, as a manifest.
            CniName::None | CniName::Cilium => Cni::None,
            CniName::Custom => Cni::Custom(cni.urls),
        },
        kube_proxy: kubernetes.kube_proxy,
        core_dns: kubernetes.coredns,
        allow_scheduling_on_control_planes: blueprint.schedule_on_control_planes,
        ..Input::new(contract, role, &blueprint.cluster, &blueprint.endpoint, &node.kubernetes)
    }
}

/// The installer of the node's image, from the factory or from the registry that stands in for it. A machine that is not ours to
/// create has no cloud that reports its network.
pub(super) fn installer(blueprint: &Blueprint, node: &Node, schematic: Option<&Schematic>) -> Option<String> {
    let image = blueprint.images.get(&node.image)?;
    let platform = if node.external { Platform::Metal } else { Platform::Nocloud };
    let name = ImageName { platform, secure_boot: image.secure_boot, ..ImageName::default() };
    let host = image.installer_mirror.as_deref().unwrap_or_else(|| without_scheme(&image.factory));
    Some(name.installer(host, schematic?.id.as_ref()?, &node.talos))
}

/// Image references have no scheme.
fn without_scheme(url: &str) -> &str {
    url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/')
}

/// What is special to one node.
pub(super) fn settings(blueprint: &Blueprint, node: &Node, schematic: Option<&Schematic>) -> MachineSettings {
    let kubernetes = &blueprint.options.kubernetes;
    let mirrors = kubernetes.registry_mirrors.iter().map(|(host, mirror)| {
        let mirror = Mirror {
            endpoints: mirror.endpoints.clone(),
            override_path: mirror.override_path,
            skip_fallback: mirror.skip_fallback,
        };
        (host.clone(), mirror)
    });
    let mounts = kubernetes.extra_mounts.iter().map(|mount| ExtraMount {
        destination: mount.destination.as_ref().unwrap_or(&mount.source).clone(),
        source: mount.source.clone(),
        kind: "bind".to_owned(),
        options: mount.options.clone(),
    });
    let mut mounts: Vec<ExtraMount> = mounts.collect();
    // What a disk is mounted at, or the file says itself, is there already.
    let disks: Vec<&str> = node.hardware.disks.iter().map(|disk| disk.mount.as_str()).collect();
    for folder in kubernetes.storage.iter().filter_map(|storage| storage.folder()) {
        if !disks.contains(&folder) && !mounts.iter().any(|mount| mount.destination == folder) {
            let options = ["bind", "rshared", "rw"].map(str::to_owned).to_vec();
            let (destination, source) = (folder.to_owned(), folder.to_owned());
            mounts.push(ExtraMount { destination, source, kind: "bind".to_owned(), options });
        }
    }
    let taint = |taint: &Taint| match taint.value.is_empty() {
        true => taint.effect.clone(),
        false => format!("{}:{}", taint.value, taint.effect),
    };
    let options = &blueprint.options;
    MachineSettings {
        hostname: node.name.to_string(),
        nics: nics(blueprint, node),
        nameservers: node.dns.iter().map(ToString::to_string).collect(),
        time_servers: node.ntp.clone(),
        labels: node.labels.clone(),
        annotations: node.settings.annotations.clone(),
        taints: node.settings.taints.iter().map(|(key, it)| (key.clone(), taint(it))).collect(),
        kubelet_args: node.settings.kubelet_args.clone(),
        kubelet_subnets: subnets(blueprint, node, options.kubelet_network),
        etcd_subnets: subnets(blueprint, node, options.etcd_network),
        volumes: node.hardware.disks.iter().map(volume).collect(),
        mounts,
        kernel_modules: modules(schematic),
        mirrors: mirrors.collect(),
    }
}

fn nics(blueprint: &Blueprint, node: &Node) -> Vec<Nic> {
    // The card of an external machine may be unknown; its network is then its owner's.
    if node.mac.is_empty() {
        return Vec::new();
    }
    let route = |route: &Route| config::Route {
        network: route.to.to_string(),
        gateway: Some(route.via.to_string()),
        metric: route.metric,
    };
    let dhcp = node.settings.dhcp;
    let first = Nic {
        mac: node.mac.clone(),
        addresses: if dhcp { Vec::new() } else { vec![node.address.to_string()] },
        gateway: (!dhcp).then(|| node.gateway.to_string()),
        routes: node.settings.routes.iter().map(route).collect(),
        mtu: node.mtu,
        vip: blueprint.vip.map(|vip| vip.to_string()),
    };
    let further = node.settings.extra_nics.iter().map(|nic| Nic {
        mac: nic.mac.clone(),
        addresses: nic.address.iter().map(ToString::to_string).collect(),
        gateway: None,
        routes: nic.routes.iter().map(route).collect(),
        mtu: nic.mtu,
        vip: None,
    });
    [first].into_iter().chain(further).collect()
}

/// The network whose addresses a service takes: the one that the file names, or with several cards the first. The shared
/// address is never a node's own.
fn subnets(blueprint: &Blueprint, node: &Node, named: Option<ipnet::Ipv4Net>) -> Vec<String> {
    let several = !node.settings.extra_nics.is_empty();
    let Some(net) = named.or_else(|| several.then(|| node.address.trunc())) else { return Vec::new() };
    let shared = blueprint.vip.filter(|vip| net.contains(vip) && node.role == Role::ControlPlane);
    [net.to_string()].into_iter().chain(shared.map(|vip| format!("!{vip}/32"))).collect()
}

/// A data disk is found by its world wide name; virtio-blk has none, only a serial number.
fn volume(disk: &Disk) -> UserVolume {
    UserVolume {
        name: disk.name.clone(),
        disk: match disk.bus {
            Bus::Virtio => DiskId::Serial(disk.serial.clone()),
            Bus::Scsi | Bus::Sata => {
                DiskId::Wwid(format!("naa.{}", disk.wwn.strip_prefix("0x").unwrap_or(&disk.wwn)))
            }
        },
        filesystem: None,
        mount: Some(disk.mount.clone()),
    }
}

/// A driver in the image does nothing until it is loaded.
fn modules(schematic: Option<&Schematic>) -> Vec<KernelModule> {
    let nvidia = schematic.is_some_and(Schematic::has_nvidia);
    let modules: &[&str] = if nvidia { &NVIDIA_MODULES } else { &[] };
    modules.iter().map(|name| KernelModule { name: (*name).to_owned(), parameters: Vec::new() }).collect()
}
