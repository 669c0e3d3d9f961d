//! Nodes as lists by role, with sizes by name and hosts in turn: one object, in YAML or HCL.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use model::blueprint::Role;
use model::derived;
use model::load::{self, Tree};
use model::spec::{
    BootDisk, Cni, CniDetails, CniName, Cpu, DataDisk, ExtraNetwork, ExtraNic, GitOps, GitOpsEngine,
    Hardware, Host, Memory, NicModel, Node, Placement, Pool, RegistryMirror, Spec, Traits,
};
use serde_json::{Map, Value};

use super::bag::Bag;
use super::common::{self, blank, written};
use super::notes::Notes;

/// Extensions that the module always builds in.
const EXTENSIONS: &[&str] = &["lldpd", "qemu-guest-agent", "util-linux-tools", "iscsi-tools", "nfs-utils"];

pub(super) fn translate(bag: &Bag<'_>, notes: &mut Notes) -> Spec {
    let cluster = bag.bag("cluster");
    let named = cluster.as_ref().and_then(|group| group.text("name"));
    let mut spec = blank(&named.map_or_else(|| "talos".to_owned(), |text| common::name(&text, notes)));
    hosts(&mut spec, bag, notes);
    if let Some(group) = cluster {
        about_cluster(&mut spec, &group, notes);
        group.finish(notes);
    }
    if spec.versions.kubernetes.is_empty() {
        common::kubernetes_of(&spec.versions.talos).clone_into(&mut spec.versions.kubernetes);
        notes.assumed("no Kubernetes version is given; the one that this Talos brings was taken");
    }
    if let Some(sizes) = bag.bag("node_size_configuration") {
        for (name, size) in sizes.bags() {
            spec.sizes.insert(name.to_owned(), hardware(&size));
            size.finish(notes);
        }
    }
    for (key, pool, role) in
        [("control_plane_nodes", "control", Role::ControlPlane), ("worker_nodes", "worker", Role::Worker)]
    {
        if let Some(group) = bag.bag(key) {
            nodes(&mut spec, &group, pool, role, notes);
            group.finish(notes);
        }
    }
    spec.image.extensions = EXTENSIONS.iter().map(|name| format!("siderolabs/{name}")).collect();
    notes.assumed("the module's own extensions were taken; `image.extensions` lists them");
    common::miss_network(&spec, notes);
    common::assume_endpoint(&mut spec, notes);
    spec
}

fn hosts(spec: &mut Spec, bag: &Bag<'_>, notes: &mut Notes) {
    let Some(pool) = bag.bag("host_pool") else { return };
    for (name, group) in pool.bags() {
        let mut host = Host::default();
        host.datastores.disks = group.text("datastore_id").map(|text| text.value);
        spec.hosts.insert(name.to_owned(), host);
        group.finish(notes);
    }
}

fn about_cluster(spec: &mut Spec, group: &Bag<'_>, notes: &mut Notes) {
    if let Some(talos) = group.bag("talos") {
        spec.versions.talos =
            talos.text("version").map_or_else(String::new, |text| common::version(&text.value));
        spec.image.mirror = talos.text("iso_mirror").map(|text| text.value.trim_end_matches('/').to_owned());
        spec.image.installer_mirror = talos.text("installer_mirror").map(|text| text.value);
        talos.finish(notes);
    }
    if let Some(version) = group.text("kubernetes_version") {
        spec.versions.kubernetes = common::version(&version.value);
    }
    if let Some(store) = group.bag("datastore") {
        let image = store.text("id").map(|text| text.value);
        spec.hosts.values_mut().for_each(|host| host.datastores.image.clone_from(&image));
        store.lose(&["node"], "a datastore that all hosts see is filled by any of them", notes);
        store.finish(notes);
    }
    if let Some(mirrors) = group.bag("registry_mirrors") {
        for (registry, mirror) in mirrors.bags() {
            let one = RegistryMirror {
                endpoints: mirror.values("endpoints"),
                override_path: mirror.flag("override_path").unwrap_or(false),
                skip_fallback: mirror.flag("skip_fallback").unwrap_or(false),
            };
            spec.kubernetes.registry_mirrors.insert(registry.to_owned(), one);
            mirror.finish(notes);
        }
    }
    let mut own_cni = false;
    if let Some(options) = group.bag("options") {
        own_cni = options.flag("disable_default_cni").unwrap_or(false);
        spec.kubernetes.kube_proxy = !options.flag("disable_kube_proxy").unwrap_or(false);
        let closed = options.flag("disable_scheduling_on_control_plane").unwrap_or(true);
        spec.kubernetes.schedule_on_control_planes = !closed;
        options.finish(notes);
    }
    let overrides = group.bag("helm_values_override");
    let values = overrides.as_ref().and_then(|all| all.take("cilium")).map(load::as_it_stands);
    overrides.into_iter().for_each(|all| all.finish(notes));
    if own_cni {
        let values = match values {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        };
        let details = CniDetails { name: CniName::Cilium, values, ..CniDetails::default() };
        spec.kubernetes.cni =
            if details.values.is_empty() { Cni::Name(CniName::Cilium) } else { Cni::Details(details) };
    }
    if let Some(gitops) = group.bag("gitops") {
        git(spec, &gitops, notes);
        gitops.finish(notes);
    }
}

fn git(spec: &mut Spec, group: &Bag<'_>, notes: &mut Notes) {
    let engine = match group.text("provider") {
        Some(name) if name.value == "argocd" => GitOpsEngine::Argocd,
        Some(name) if name.value != "flux" => {
            notes.changed(name.span, &format!("`{}` is not known; Flux was taken", name.value), "");
            GitOpsEngine::Flux
        }
        _ => GitOpsEngine::Flux,
    };
    let bootstrap = group.bag("bootstrap");
    let text = |key: &str| bootstrap.as_ref().and_then(|group| group.text(key)).map(|text| text.value);
    let Some(repository) = text("repo_url") else {
        notes.lost(group.span, "`gitops` names no repository");
        return;
    };
    spec.gitops = Some(GitOps {
        engine,
        repository,
        revision: text("revision").unwrap_or_else(|| "main".to_owned()),
        path: text("path").unwrap_or_else(|| ".".to_owned()),
        namespace: group.text("namespace").map(|text| text.value),
        chart_version: group.text("chart_version").map(|text| text.value),
        destination_namespace: text("destination_namespace"),
        credentials: None,
    });
    bootstrap.into_iter().for_each(|group| group.finish(notes));
}

fn hardware(size: &Bag<'_>) -> Hardware {
    let number = |key: &str| size.number(key).map(|number| number.value);
    let mut hardware = Hardware {
        cpu: number("cpu").map(Cpu::Cores),
        memory: number("memory").map(|mib| Memory::Size(written(format!("{mib}M")))),
        disk: number("os_disk").map(|gib| BootDisk::Size(written(format!("{gib}G")))),
        ..Hardware::default()
    };
    if let Some(gib) = number("data_disk") {
        let disk = DataDisk { size: Some(written(format!("{gib}G"))), ..DataDisk::default() };
        hardware.disks.insert("data".to_owned(), disk);
    }
    hardware
}

fn nodes(spec: &mut Spec, group: &Bag<'_>, pool_name: &str, role: Role, notes: &mut Notes) {
    let hosts = group.values("host_pool");
    if let Some(vip) = group.bag("vip") {
        if vip.flag("enabled") != Some(false) {
            spec.network.vip =
                vip.text("address").map(|text| text.value.split('/').next().unwrap_or("").to_owned());
        }
        vip.lose(&["address"], "it is not enabled", notes);
        vip.finish(notes);
    }
    let Some(Tree::List { items, .. }) = group.take("nodes") else { return };
    let mut first: Option<Ipv4Addr> = None;
    let mut in_order = true;
    let mut made: Vec<(String, Node)> = Vec::new();
    let mut sizes: Vec<Option<String>> = Vec::new();
    for (index, item) in (0u32..).zip(items) {
        let Some(one) = Bag::new(format!("{}.nodes[{index}]", group.name), item) else {
            notes.lost(item.span(), &format!("`{}.nodes[{index}]` is not a mapping", group.name));
            continue;
        };
        let mut node = Node::default();
        sizes.push(one.text("size").map(|text| text.value));
        if let Some(networks) = one.bag("networks") {
            cards(spec, &mut node, &networks, notes);
            networks.finish(notes);
        }
        let address: Option<Ipv4Addr> = node.address.as_ref().and_then(|text| text.parse().ok());
        first = first.or(address);
        let expected = first.and_then(|first| u32::from(first).checked_add(index)).map(Ipv4Addr::from);
        in_order &= address.is_some() && address == expected;
        made.push((derived::node_name(&spec.cluster, pool_name, index + 1), node));
        one.finish(notes);
    }
    let size = sizes.first().cloned().flatten();
    for ((name, mut node), own) in made.into_iter().zip(sizes.iter()) {
        if in_order {
            node.address = None;
        }
        node.size = own.clone().filter(|own| Some(own) != size.as_ref());
        if node != Node::default() {
            spec.nodes.insert(name, node);
        }
    }
    let count = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
    if count == 0 && role == Role::Worker {
        return;
    }
    spec.pools.insert(
        pool_name.to_owned(),
        Pool {
            role,
            count,
            size,
            hosts,
            placement: Placement::RoundRobin,
            addresses: first.map(|first| first.to_string()),
            vmids: None,
            networks: BTreeMap::new(),
            hardware: Hardware::default(),
            traits: Traits::default(),
        },
    );
}

/// The network with the gateway is the first; others are extra ones. The key of each is its bridge.
fn cards(spec: &mut Spec, node: &mut Node, networks: &Bag<'_>, notes: &mut Notes) {
    let all = networks.bags();
    let main = all.iter().position(|(_, network)| network.has("gateway")).unwrap_or(0);
    for (index, (bridge, network)) in all.into_iter().enumerate() {
        let Some(address) = network.text("address") else {
            notes.lost(network.span, &format!("`{}` has no address", network.name));
            continue;
        };
        let net: Option<Ipv4Net> = address.value.parse().ok();
        let bare = address.value.split('/').next().unwrap_or_default().to_owned();
        let gateway = network.text("gateway");
        if index == main {
            if let Some(net) = net.filter(|_| spec.network.cidr.is_empty()) {
                spec.network.cidr = net.trunc().to_string();
                bridge.clone_into(&mut spec.network.bridge);
            }
            if let Some(gateway) = gateway {
                if spec.network.gateway.is_empty() {
                    spec.network.gateway = gateway.value;
                } else if spec.network.gateway != gateway.value {
                    let message =
                        format!("the gateway {} is another than that of the first node", gateway.value);
                    notes.lost(gateway.span, &message);
                }
            }
            node.address = Some(bare);
        } else {
            let name = bridge.to_ascii_lowercase().replace(['_', '.'], "-");
            if let Some(gateway) = gateway {
                notes.lost(gateway.span, "a node has one default gateway, that of its first network");
            }
            spec.network.extra.entry(name.clone()).or_insert_with(|| ExtraNetwork {
                cidr: net.map(|net| net.trunc().to_string()),
                dhcp: false,
                bridge: bridge.to_owned(),
                vlan: None,
                mtu: None,
                model: NicModel::Virtio,
                routes: Vec::new(),
                pools: Vec::new(),
            });
            node.networks.insert(name, ExtraNic { address: Some(bare), mac: None });
        }
        network.finish(notes);
    }
}
