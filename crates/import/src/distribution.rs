//! Nodes counted by host: `node_distribution`, with grouped variables, flat ones, or those of the network branch.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use model::blueprint::Role;
use model::derived;
use model::spec::{
    BootDisk, BootDiskDetails, Bus, Cpu, CpuDetails, Delivery, Hardware, Host, Integration, Memory,
    MemoryDetails, Node, Placement, Pool, RoleDefaults, Spec, Traits,
};

use super::bag::{At, Bag};
use super::common::{self, blank, written};
use super::notes::Notes;

pub(super) fn translate(bag: &Bag<'_>, notes: &mut Notes) -> Spec {
    let grouped = ["cluster_config", "network_config", "proxmox_config"].iter().any(|key| bag.has(key));
    // The grouped form is read through its groups, the flat one through prefixes of the same names.
    let of = |group: &str| bag.bag(group);
    let (proxmox, network) = (of("proxmox_config"), of("network_config"));
    let (cluster, node_config) = (of("cluster_config"), of("node_config"));
    let pick = |group: &Option<Bag<'_>>, key: &str, flat: &str| {
        group.as_ref().and_then(|group| group.text(key)).or_else(|| bag.text(flat))
    };

    let named = pick(&cluster, "name", "cluster_name");
    let cluster_name = named.map_or_else(|| "talos".to_owned(), |text| common::name(&text, notes));
    let mut spec = blank(&cluster_name);
    versions(&mut spec, pick(&cluster, "talos_version", "talos_version"), notes);

    if let Some(group) = &proxmox {
        common::proxmox(&mut spec, group, notes);
        if let Some(host) = group.text("host") {
            let port = group.text("port").map_or("8006".to_owned(), |port| port.value);
            spec.proxmox.endpoint = Some(format!("https://{}:{port}", host.value));
        }
        group.lose(&["port"], "the endpoint names it", notes);
        group.lose(&["node_name"], "`node_distribution` names the hosts", notes);
        spec.network.dns = group.values("dns_servers");
        group.lose(&["ssh_config"], "nothing here needs SSH", notes);
    } else {
        if let Some(url) = bag.text("proxmox_endpoint") {
            spec.proxmox.endpoint = Some(common::endpoint(&url.value));
        }
        spec.proxmox.insecure = bag.flag("proxmox_insecure").unwrap_or(false);
        common::token(&mut spec, bag, "proxmox_api_token", notes);
        spec.network.dns = bag.values("dns_servers");
    }
    if spec.network.dns.is_empty() {
        let servers: &[&str] = if grouped { &["1.1.1.1", "8.8.8.8"] } else { &["1.1.1.1", "1.0.0.1"] };
        spec.network.dns = servers.iter().map(|server| (*server).to_owned()).collect();
        notes.assumed(&format!(
            "no name servers are given; the module's own, {}, were taken",
            servers.join(" and ")
        ));
    }
    networks(&mut spec, bag, network.as_ref(), cluster.as_ref(), notes);
    hardware(&mut spec, bag, notes);
    tags(&mut spec, bag);
    let stores = Stores::take(bag, proxmox.as_ref(), notes);
    let counts = counts(bag, node_config.as_ref(), notes);
    pools(&mut spec, bag, node_config.as_ref(), grouped, &counts, notes);
    for host in counts.keys() {
        spec.hosts.insert(host.clone(), stores.host());
    }
    spec.image.delivery = Delivery::Template;
    if let Some(template) = bag.bag("template_config") {
        template.lose(&["controlplane_id", "worker_id", "node"], "templates get ids of their own", notes);
        template.finish(notes);
    }
    for key in ["controlplane_template_id", "worker_template_id"] {
        if let Some(id) = bag.number(key) {
            notes.lost(id.span, &format!("`{key}` is not carried over: templates get ids of their own"));
        }
    }
    integrations(&mut spec, bag, proxmox.as_ref(), notes);
    common::miss_network(&spec, notes);
    common::assume_endpoint(&mut spec, notes);
    [proxmox, network, cluster, node_config].into_iter().flatten().for_each(|group| group.finish(notes));
    let why = "the schematic is computed from `image.extensions`";
    bag.lose(&["talos_schematic_id"], why, notes);
    spec
}

fn versions(spec: &mut Spec, talos: Option<At<String>>, notes: &mut Notes) {
    spec.versions.talos = match talos {
        Some(text) => common::version(&text.value),
        None => {
            notes.assumed("no Talos version is given; the module's own, v1.10.5, was taken");
            "v1.10.5".to_owned()
        }
    };
    common::kubernetes_of(&spec.versions.talos).clone_into(&mut spec.versions.kubernetes);
    notes.assumed(&format!(
        "this format names no Kubernetes version; {}, which this Talos brings, was taken",
        spec.versions.kubernetes
    ));
}

fn networks(
    spec: &mut Spec,
    bag: &Bag<'_>,
    network: Option<&Bag<'_>>,
    cluster: Option<&Bag<'_>>,
    notes: &mut Notes,
) {
    let pick = |key: &str, flat: &str| network.and_then(|group| group.text(key)).or_else(|| bag.text(flat));
    if let Some(cidr) = pick("cidr", "network_cidr") {
        spec.network.cidr = cidr.value.parse::<Ipv4Net>().map_or(cidr.value, |net| net.trunc().to_string());
    }
    if let Some(gateway) = pick("gateway", "network_gateway") {
        spec.network.gateway = gateway.value;
    }
    if let Some(bridge) = pick("bridge", "network_bridge").or_else(|| pick("bridge_name", "bridge_name")) {
        spec.network.bridge = bridge.value;
    } else if let Some(id) = pick("bridge_id", "bridge_id") {
        spec.network.bridge = format!("vmbr{}", id.value);
    }
    let dhcp = network.and_then(|group| group.flag("enable_dhcp")).or_else(|| bag.flag("enable_dhcp"));
    if dhcp == Some(true) {
        spec.network.dhcp = true;
        notes.assumed("addresses came from DHCP; here each node has one, for which the DHCP server needs a reservation by MAC address: `show` prints both");
    }
    let why = "cards are found by their MAC address";
    bag.lose(&["network_interface"], why, notes);
    if let Some(group) = network {
        group.lose(&["interface"], why, notes);
        group.lose(&["bridge_id"], "the bridge is named", notes);
        if let Some(pool) = group.text("resource_pool_id") {
            notes.changed(
                pool.span,
                "the resource pool is used, but not made",
                "create it in Proxmox before",
            );
            spec.proxmox.pool = Some(pool.value);
        }
        group.lose(
            &[
                "create_bridge",
                "bridge_cidr",
                "bridge_ports",
                "vlan_aware",
                "autostart",
                "bridge_name",
                "vlan_id",
                "vlan_parent_interface",
                "mtu",
            ],
            "bridges and VLANs of the hosts are not made here",
            notes,
        );
        group.lose(
            &[
                "enable_firewall",
                "input_policy",
                "output_policy",
                "allowed_cidrs",
                "nodeport_range",
                "ipsets",
                "vm_firewall",
            ],
            "the Proxmox firewall is not managed",
            notes,
        );
        group.lose(&["enable_nat_gateway"], "hosts are not made gateways", notes);
    }
    let vip = cluster.and_then(|group| group.bag("vip"));
    let enabled =
        vip.as_ref().and_then(|vip| vip.flag("enabled")).or_else(|| bag.flag("cluster_vip_enabled"));
    let address = vip.as_ref().and_then(|vip| vip.text("ip")).or_else(|| bag.text("cluster_vip_ip"));
    if enabled != Some(false) {
        spec.network.vip = address.map(|text| text.value);
    }
    vip.into_iter().for_each(|vip| vip.finish(notes));
    let endpoint = cluster.and_then(|group| group.text("endpoint_override"));
    if let Some(url) = endpoint.or_else(|| bag.text("cluster_endpoint_override")) {
        let url = url.value.trim_end_matches('/').replacen("http://", "https://", 1);
        spec.endpoint = Some(if url.matches(':').count() > 1 { url } else { format!("{url}:6443") });
    }
}

/// Per role: the module's values, and what its VMs are like.
fn hardware(spec: &mut Spec, bag: &Bag<'_>, notes: &mut Notes) {
    let resources = bag.bag("resource_config");
    let kind = resources
        .as_ref()
        .and_then(|group| group.text("cpu_type"))
        .or_else(|| bag.text("cpu_type"))
        .map_or_else(|| "x86-64-v2-AES".to_owned(), |text| text.value);
    for (role, memory, cores, disk) in [("controlplane", 4096, 4, 20), ("worker", 8192, 8, 50)] {
        let group = resources.as_ref().and_then(|group| group.bag(role));
        let pick = |key: &str, or: u32| {
            let flat = format!("{role}_{key}");
            let grouped = group.as_ref().and_then(|group| group.number(key));
            grouped.or_else(|| bag.number(&flat)).map_or(or, |number| number.value)
        };
        let memory = pick("memory", memory);
        let hardware = Hardware {
            cpu: Some(Cpu::Details(CpuDetails {
                cores: Some(pick("cpu_cores", cores)),
                kind: Some(kind.clone()),
                units: None,
            })),
            // These VMs had a balloon as large as their memory.
            memory: Some(Memory::Details(MemoryDetails {
                size: Some(written(format!("{memory}M"))),
                balloon: Some(written(format!("{memory}M"))),
                hotplug: None,
            })),
            disk: Some(BootDisk::Details(BootDiskDetails {
                size: Some(written(format!("{}G", pick("disk_size", disk)))),
                bus: Some(Bus::Virtio),
                discard: Some(false),
                iothread: Some(false),
                ..BootDiskDetails::default()
            })),
            machine: Some("pc".to_owned()),
            ..Hardware::default()
        };
        let traits = Traits { tags: vec![role.to_owned()], ..Traits::default() };
        let defaults = RoleDefaults { hardware, traits };
        match role {
            "worker" => spec.defaults.worker = defaults,
            _ => spec.defaults.controlplane = defaults,
        }
        group.into_iter().for_each(|group| group.finish(notes));
    }
    resources.into_iter().for_each(|group| group.finish(notes));
}

fn tags(spec: &mut Spec, bag: &Bag<'_>) {
    let group = bag.bag("tagging_config");
    let pick = |key: &str, flat: &str| match &group {
        Some(group) if group.has(key) => group.values(key),
        _ => bag.values(flat),
    };
    let mut tags = pick("common", "common_tags");
    if tags.is_empty() {
        tags = vec!["talos".to_owned(), "terraform".to_owned()];
    }
    tags.extend(pick("extra", "extra_tags"));
    spec.proxmox.tags = tags;
}

/// Datastores, the same on every host.
struct Stores {
    image: String,
    disks: String,
    cloudinit: String,
}

impl Stores {
    fn take(bag: &Bag<'_>, proxmox: Option<&Bag<'_>>, notes: &mut Notes) -> Self {
        let group = proxmox.and_then(|group| group.bag("datastores"));
        let pick = |key: &str, or: &str| {
            let found = proxmox.and_then(|group| group.text(key)).or_else(|| bag.text(key));
            found.or_else(|| group.as_ref()?.text(key)).map_or_else(|| or.to_owned(), |text| text.value)
        };
        bag.lose(&["image_download_node", "template_node"], "each host has its own", notes);
        Self {
            image: pick("talos_disk_image_datastore_id", "local"),
            disks: pick("template_datastore_id", "local-lvm"),
            cloudinit: pick("vm_datastore_id", "local-lvm"),
        }
    }

    fn host(&self) -> Host {
        let mut host = Host::default();
        host.datastores.image = Some(self.image.clone());
        host.datastores.disks = Some(self.disks.clone());
        host.datastores.cloudinit = (self.cloudinit != self.disks).then(|| self.cloudinit.clone());
        host
    }
}

/// Control planes and workers by host, in the order of their names.
fn counts(bag: &Bag<'_>, node_config: Option<&Bag<'_>>, notes: &mut Notes) -> BTreeMap<String, [u32; 2]> {
    let mut counts = BTreeMap::new();
    match bag.bag("node_distribution") {
        Some(distribution) => {
            for (host, group) in distribution.bags() {
                let number = |key: &str| group.number(key).map_or(0, |number| number.value);
                counts.insert(host.to_owned(), [number("controlplane_count"), number("worker_count")]);
                group.finish(notes);
            }
        }
        None if bag.has("controlplane_count") || bag.has("worker_count") => {
            // Earlier versions count for one host.
            let number = |key: &str| bag.number(key).map_or(3, |number| number.value);
            let host = bag.text("proxmox_node").or_else(|| bag.text("template_node"));
            let host = host.map_or_else(|| "pve".to_owned(), |text| text.value);
            counts.insert(host, [number("controlplane_count"), number("worker_count")]);
        }
        None => {
            counts.insert("pve".to_owned(), [3, 3]);
            notes.assumed("no `node_distribution` is given; the module's own, 3 control plane nodes and 3 workers on `pve`, was taken");
        }
    }
    if let Some(group) = node_config {
        group.lose(
            &["controlplane_count", "worker_count"],
            "the module ignores it: `node_distribution` counts",
            notes,
        );
    }
    counts
}

fn pools(
    spec: &mut Spec,
    bag: &Bag<'_>,
    node_config: Option<&Bag<'_>>,
    grouped: bool,
    counts: &BTreeMap<String, [u32; 2]>,
    notes: &mut Notes,
) {
    let ranges = bag.bag("vm_id_ranges");
    let starts = if grouped { [10, 20] } else { [50, 70] };
    let ids = [(2000, 2999), (3000, 3999)];
    let kinds = [("controlplane", "ctrl", Role::ControlPlane), ("worker", "node", Role::Worker)];
    let net: Option<Ipv4Net> = spec.network.cidr.parse().ok();
    for (index, (key, pool_name, role)) in kinds.into_iter().enumerate() {
        let of_role = |counts: &[u32; 2]| counts.get(index).copied().unwrap_or(0);
        let number = |group: Option<&Bag<'_>>, key: &str, flat: &str, or: u32| {
            group.and_then(|group| group.number(key)).or_else(|| bag.number(flat)).map_or(or, |n| n.value)
        };
        let start_key = format!("{key}_ip_start");
        let start = number(node_config, &start_key, &start_key, starts[index]);
        let flat = |end: &str| format!("{key}_vm_id_{end}");
        let min = number(ranges.as_ref(), &format!("{key}_min"), &flat("min"), ids[index].0);
        let max = number(ranges.as_ref(), &format!("{key}_max"), &flat("max"), ids[index].1);
        let count: u32 = counts.values().map(of_role).sum();
        let first = net.and_then(|net| u32::from(net.network()).checked_add(start)).map(Ipv4Addr::from);
        let hosts: Vec<String> =
            counts.iter().filter(|(_, counts)| of_role(counts) > 0).map(|(host, _)| host.clone()).collect();
        if hosts.len() > 1 {
            let homes =
                counts.iter().flat_map(|(host, counts)| std::iter::repeat_n(host, of_role(counts) as usize));
            for (ordinal, host) in (1..=count).zip(homes.take(10_000)) {
                let node = Node { host: Some(host.clone()), ..Node::default() };
                spec.nodes.insert(derived::node_name(&spec.cluster, pool_name, ordinal), node);
            }
        }
        if count == 0 && role == Role::Worker {
            continue;
        }
        spec.pools.insert(
            pool_name.to_owned(),
            Pool {
                role,
                count,
                size: None,
                hosts,
                placement: Placement::Spread,
                addresses: first.map(|first| first.to_string()),
                vmids: Some(written(format!("{min}-{max}"))),
                networks: BTreeMap::new(),
                hardware: Hardware::default(),
                traits: Traits::default(),
            },
        );
    }
    ranges.into_iter().for_each(|group| group.finish(notes));
    notes.assumed("VM ids were drawn at random from their ranges, and names ended in them; here both are counted from the first, and MAC addresses, which Proxmox drew, are derived");
}

fn integrations(spec: &mut Spec, bag: &Bag<'_>, proxmox: Option<&Bag<'_>>, notes: &mut Notes) {
    let group = proxmox.and_then(|group| group.bag("ccm_config"));
    let enabled = group.as_ref().and_then(|group| group.flag("enabled")).or_else(|| bag.flag("ccm_enabled"));
    if enabled != Some(false) {
        let text = |key: &str, flat: &str| {
            let grouped = group.as_ref().and_then(|group| group.text(key));
            grouped.or_else(|| bag.text(flat)).map(|text| text.value)
        };
        let (role, user) = (text("role", "proxmox_ccm_role"), text("user", "proxmox_ccm_user"));
        spec.manifests.proxmox_ccm = Some(Integration { version: None, role, user, token: None });
    }
    for key in ["token_secret", "api_token", "token"] {
        if let Some(secret) = group.as_ref().and_then(|group| group.text(key)) {
            notes.lost_secret(secret.span, &format!("ccm_config.{key}"));
        }
    }
    group.into_iter().for_each(|group| group.finish(notes));
}
