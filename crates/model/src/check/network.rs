//! The networks: their form, what lies in them, and that they keep apart.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::Draft;
use crate::forms;
use crate::spec::Route;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let network = &draft.spec.network;
    let kubernetes = &draft.spec.kubernetes;
    let path = |key: &str| Path::of(&["network", key]);
    let nodes = net(&network.cidr, path("cidr"), forms::NODE_PREFIXES, found);
    let pods = net(&kubernetes.pod_cidr, Path::of(&["kubernetes", "pod_cidr"]), 8..=24, found);
    let services = net(&kubernetes.service_cidr, Path::of(&["kubernetes", "service_cidr"]), 8..=28, found);
    overlaps(nodes, pods, services, found);

    let gateway = address(&network.gateway, path("gateway"), found);
    let vip = network.vip.as_ref().and_then(|text| address(text, path("vip"), found));
    for (index, server) in network.dns.iter().enumerate() {
        address(server, path("dns").index(index), found);
    }
    for (index, server) in network.ntp.iter().enumerate().filter(|(_, s)| !forms::is_dns_name(s)) {
        let problem =
            Diagnostic::error(codes::BAD_NAME, format!("`{server}` cannot be the name of a time server"));
        found.push(problem.at(path("ntp").index(index), "").help("give a host name or an address"));
    }
    if let Some(nodes) = nodes {
        for (address, key) in [(gateway, "gateway"), (vip, "vip")] {
            if let Some(address) = address {
                found.extend(place_in(address, nodes, &path(key), &format!("`network.{key}`")));
            }
        }
    }
    if let (Some(gateway), Some(vip)) = (gateway, vip)
        && gateway == vip
    {
        found.push(
            Diagnostic::error(codes::ADDRESS_TAKEN, format!("gateway and VIP are both {vip}"))
                .at(path("vip"), "")
                .at(path("gateway"), "")
                .help("give the VIP an address that nothing else has"),
        );
    }
    wire(Some(&network.bridge), network.vlan, network.mtu, &Path::of(&["network"]), found);
    if let Some(nodes) = nodes {
        routes(&network.routes, nodes, &path("routes"), found);
    }
}

/// The forms of bridge, VLAN tag and MTU.
pub(super) fn wire(
    bridge: Option<&String>,
    vlan: Option<u32>,
    mtu: Option<u32>,
    path: &Path,
    found: &mut Vec<Diagnostic>,
) {
    if let Some(vlan) = vlan.filter(|vlan| !(1..=4094).contains(vlan)) {
        let problem = Diagnostic::error(codes::BAD_VLAN, format!("{vlan} cannot be a VLAN tag"));
        let help = "use a number from 1 to 4094, or leave it out for none";
        found.push(problem.at(path.key("vlan"), "").help(help));
    }
    if let Some(mtu) = mtu.filter(|mtu| !(1280..=65_520).contains(mtu)) {
        let problem = Diagnostic::error(codes::BAD_MTU, format!("{mtu} cannot be the MTU"));
        found.push(problem.at(path.key("mtu"), "").help("use a number from 1280 to 65520, or leave it out"));
    }
    let fine = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(bridge) = bridge.filter(|bridge| !fine(bridge)) {
        let problem = Diagnostic::error(codes::BAD_NAME, format!("`{bridge}` cannot be a bridge"));
        let help = "give the name that Proxmox shows, for example `vmbr0`";
        found.push(problem.at(path.key("bridge"), "").help(help));
    }
}

/// Routes lead to a network, through a router that can be reached.
pub(super) fn routes(routes: &[Route], net: Ipv4Net, path: &Path, found: &mut Vec<Diagnostic>) {
    for (index, route) in routes.iter().enumerate() {
        let path = path.index(index);
        if !route.to.parse::<Ipv4Net>().is_ok_and(|to| to.trunc() == to) {
            let problem = Diagnostic::error(codes::BAD_ROUTE, format!("`{}` is not a network", route.to));
            found.push(
                problem
                    .at(path.key("to"), "")
                    .help("write its first address and a prefix length: `10.40.0.0/16`"),
            );
        }
        let Some(via) = address(&route.via, path.key("via"), found) else { continue };
        if !net.contains(&via) {
            let message = format!("the router {via} cannot be reached, because it is not in {net}");
            let problem = Diagnostic::error(codes::BAD_ROUTE, message).at(path.key("via"), "");
            found.push(problem.help("a route belongs to the network that its router is in"));
        }
    }
}

/// What is wrong with an address in the nodes' network, if anything is.
pub(super) fn place_in(address: Ipv4Addr, net: Ipv4Net, path: &Path, whose: &str) -> Option<Diagnostic> {
    if !net.contains(&address) {
        let message = format!("{whose} is {address}, which is not in {net}");
        let hosts = net.hosts();
        let help = match (hosts.clone().next(), hosts.last()) {
            (Some(first), Some(last)) => format!("use an address from {first} to {last}"),
            _ => "use an address of the network".to_owned(),
        };
        let problem = Diagnostic::error(codes::OUTSIDE_NETWORK, message).at(path.clone(), "");
        return Some(problem.at(Path::of(&["network", "cidr"]), "the network").help(help));
    }
    let what = match () {
        () if address == net.network() => "network",
        () if address == net.broadcast() => "broadcast",
        () => return None,
    };
    Some(
        Diagnostic::error(codes::ADDRESS_TAKEN, format!("{whose} is {address}, the {what} address of {net}"))
            .at(path.clone(), "")
            .help("use another address"),
    )
}

/// Reads an address, or says that it is none.
pub(super) fn address(text: &str, path: Path, found: &mut Vec<Diagnostic>) -> Option<Ipv4Addr> {
    let address = text.parse().ok();
    if address.is_none() {
        let problem =
            Diagnostic::error(codes::BAD_ADDRESS, format!("`{text}` is not an IPv4 address")).at(path, "");
        found.push(match text.split_once('/') {
            Some((bare, _)) if bare.parse::<Ipv4Addr>().is_ok() => {
                problem.help(format!("leave out the prefix length: `{bare}`"))
            }
            _ => problem.help("write four numbers from 0 to 255, for example `10.25.150.11`"),
        });
    }
    address
}

pub(super) fn net(
    text: &str,
    path: Path,
    lengths: std::ops::RangeInclusive<u8>,
    found: &mut Vec<Diagnostic>,
) -> Option<Ipv4Net> {
    let problem = Diagnostic::error(codes::BAD_NETWORK, format!("`{text}` is not a network")).at(path, "");
    let Ok(net) = text.parse::<Ipv4Net>() else {
        found.push(problem.help("write its first address and prefix length, for example `10.25.150.0/24`"));
        return None;
    };
    if net.trunc() != net {
        found.push(problem.help(format!("the network of that address is `{}`", net.trunc())));
        return None;
    }
    if !lengths.contains(&net.prefix_len()) {
        let help = format!("the prefix length must be {} to {}", lengths.start(), lengths.end());
        found.push(Diagnostic { message: format!("`{text}` has an unusable size"), ..problem.help(help) });
        return None;
    }
    Some(net)
}

fn overlaps(
    nodes: Option<Ipv4Net>,
    pods: Option<Ipv4Net>,
    services: Option<Ipv4Net>,
    found: &mut Vec<Diagnostic>,
) {
    let nodes = nodes.map(|net| (net, "nodes", Path::of(&["network", "cidr"])));
    let pods = pods.map(|net| (net, "pods", Path::of(&["kubernetes", "pod_cidr"])));
    let services = services.map(|net| (net, "services", Path::of(&["kubernetes", "service_cidr"])));
    for (one, other) in [(&pods, &nodes), (&services, &nodes), (&services, &pods)] {
        let (Some((net, who, path)), Some((other_net, other_who, other_path))) = (one, other) else {
            continue;
        };
        if net.contains(other_net) || other_net.contains(net) {
            let message =
                format!("the network of the {who}, {net}, overlaps that of the {other_who}, {other_net}");
            found.push(
                Diagnostic::error(codes::NETWORKS_OVERLAP, message)
                    .at(other_path.clone(), format!("the {other_who}"))
                    .at(path.clone(), format!("the {who}"))
                    .help(format!("move one of them; `{path}` is the easier one to change")),
            );
        }
    }
}
