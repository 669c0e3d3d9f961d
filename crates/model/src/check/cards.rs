//! Extra networks, the nodes' cards in them, what differs on first cards, and which network carries what.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::{network, references};
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::{Draft, Said, node_network};
use crate::forms;
use crate::spec::NicOverride;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    extra_networks(draft, found);
    first_cards(draft, found);
    written_cards(draft, found);
    nodes(draft, found);
}

fn extra_networks(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    let mut nets: Vec<(&str, ipnet::Ipv4Net)> = Vec::new();
    for (name, extra) in &spec.network.extra {
        let path = Path::of(&["network", "extra", name]);
        if !forms::is_dns_label(name) {
            let problem =
                Diagnostic::error(codes::BAD_NAME, format!("`{name}` cannot be the name of a network"));
            found.push(problem.at_key(path.clone(), "").help("use lower case letters, digits and `-`"));
        }
        if extra.cidr.is_none() && !extra.dhcp {
            let message = format!("the network `{name}` has neither `cidr` nor `dhcp`");
            let problem = Diagnostic::error(codes::EXTRA_NETWORK, message).at_key(path.clone(), "");
            found.push(problem.help("add `cidr: 192.168.192.0/24`, or `dhcp: true`"));
        }
        network::wire(Some(&extra.bridge), extra.vlan, extra.mtu, &path, found);
        for (index, pool) in extra.pools.iter().enumerate() {
            found.extend(references::known(pool, &spec.pools, "pool", path.key("pools").index(index)));
        }
        let cidr = extra.cidr.as_ref();
        let Some(net) =
            cidr.and_then(|text| network::net(text, path.key("cidr"), forms::NODE_PREFIXES, found))
        else {
            continue;
        };
        network::routes(&extra.routes, net, &path.key("routes"), found);
        let others = [
            (draft.network, "the nodes", Path::of(&["network", "cidr"])),
            (spec.kubernetes.pod_cidr.parse().ok(), "the pods", Path::of(&["kubernetes", "pod_cidr"])),
            (
                spec.kubernetes.service_cidr.parse().ok(),
                "the services",
                Path::of(&["kubernetes", "service_cidr"]),
            ),
        ];
        let earlier = nets.iter().map(|(other, net)| {
            (Some(*net), "another extra network", Path::of(&["network", "extra", other, "cidr"]))
        });
        for (other, whose, other_path) in others.into_iter().chain(earlier) {
            let Some(other) = other else { continue };
            if other.contains(&net) || net.contains(&other) {
                let message = format!("the network `{name}`, {net}, overlaps that of {whose}, {other}");
                let problem = Diagnostic::error(codes::NETWORKS_OVERLAP, message).at(path.key("cidr"), "");
                found.push(problem.at(other_path, whose).help("move one of them"));
            }
        }
        nets.push((name, net));
    }
    for (key, name) in [("kubelet", &spec.network.kubelet), ("etcd", &spec.network.etcd)] {
        let Some(name) = name else { continue };
        let path = Path::of(&["network", key]);
        match spec.network.extra.get(name) {
            None => found.extend(references::known(name, &spec.network.extra, "network", path)),
            Some(extra) if extra.cidr.is_none() => {
                let message = format!("the network `{name}` cannot be told from others without a `cidr`");
                let problem = Diagnostic::error(codes::EXTRA_NETWORK, message).at(path, "");
                let other = Path::of(&["network", "extra", name]);
                found.push(problem.at_key(other, "").help("give it its `cidr`"));
            }
            Some(_) => {}
        }
    }
}

/// What pools and nodes change on their first card.
fn first_cards(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    let pools = spec.pools.iter().map(|(name, pool)| (Path::of(&["pools", name]), &pool.traits));
    let nodes = spec.nodes.iter().map(|(name, node)| (Path::of(&["nodes", name]), &node.traits));
    let defaults = [
        (Path::of(&["defaults", "controlplane"]), &spec.defaults.controlplane.traits),
        (Path::of(&["defaults", "worker"]), &spec.defaults.worker.traits),
    ];
    for (path, traits) in defaults.into_iter().chain(pools).chain(nodes) {
        let Some(NicOverride { bridge, vlan, mtu, dns, .. }) = &traits.network else { continue };
        let path = path.key("network");
        network::wire(bridge.as_ref(), *vlan, *mtu, &path, found);
        for (index, server) in dns.iter().enumerate() {
            network::address(server, path.key("dns").index(index), found);
        }
    }
}

/// Addresses and MAC addresses in extra networks, where they are written.
fn written_cards(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    for (pool, about) in &spec.pools {
        for (name, range) in &about.networks {
            let path = Path::of(&["pools", pool, "networks", name]);
            found.extend(references::known(name, &spec.network.extra, "network", path.clone()));
            let Some(text) = &range.addresses else { continue };
            match forms::address_range(text) {
                None => {
                    let problem =
                        Diagnostic::error(codes::BAD_RANGE, format!("`{text}` is not a range of addresses"));
                    let help = "write the first address, or the first and the last with `-` between them";
                    found.push(problem.at(path.key("addresses"), "").help(help));
                }
                Some(range) => {
                    let room = range.last.map_or(u64::MAX, |last| u64::from(last - range.first) + 1);
                    if u64::from(about.count) > room {
                        let message = format!(
                            "the pool `{pool}` has {} nodes, but room for {room} addresses in `{name}`",
                            about.count
                        );
                        let problem =
                            Diagnostic::error(codes::RANGE_FULL, message).at(path.key("addresses"), "");
                        found.push(
                            problem.at(Path::of(&["pools", pool, "count"]), "").help("widen `addresses`"),
                        );
                    }
                }
            }
        }
    }
    for (node, about) in &spec.nodes {
        for (name, nic) in &about.networks {
            let path = Path::of(&["nodes", node, "networks", name]);
            found.extend(references::known(name, &spec.network.extra, "network", path.clone()));
            if let Some(text) = &nic.address {
                network::address(text, path.key("address"), found);
            }
            if let Some(text) = nic.mac.as_ref().filter(|text| forms::mac(text).is_none()) {
                found.push(super::addresses::bad_mac(text, path.key("mac")));
            }
        }
    }
}

/// Every card in an extra network has an address of its own there.
fn nodes(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let mut taken: BTreeMap<(&str, Ipv4Addr), (&str, &Path)> = BTreeMap::new();
    for node in &draft.nodes {
        for card in &node.extra {
            let Some(net) = card.about.cidr.as_deref().and_then(node_network) else { continue };
            let Some(Said { value, path }) = &card.address else { continue };
            let whose = format!("the address of `{}` in `{}`", node.name, card.network);
            let inside = net.contains(value) && (*value != net.network() && *value != net.broadcast());
            if !inside {
                let message = format!("{whose} would be {value}, which no node can have in {net}");
                let problem = Diagnostic::error(codes::OUTSIDE_NETWORK, message).at(path.clone(), "");
                let cidr = Path::of(&["network", "extra", card.network, "cidr"]);
                let help = format!("give it another `address` under `networks.{}`", card.network);
                found.push(problem.at(cidr, "the network").help(help));
            } else if let Some((other, first)) = taken.insert((card.network, *value), (&node.name, path)) {
                let message = format!(
                    "`{other}` and `{}` both have the address {value} in `{}`",
                    node.name, card.network
                );
                let problem = Diagnostic::error(codes::ADDRESS_TWICE, message).at(path.clone(), "");
                found.push(problem.at(first.clone(), "").help("give one of them another address"));
            }
        }
    }
}
