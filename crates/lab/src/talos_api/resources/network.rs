//! Links, addresses, routes, names and servers.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Resource, View, runtime};

/// The name of a card without predictable names, which Talos' own images switch off.
pub(in crate::talos_api) fn link_name(number: usize) -> String {
    format!("eth{number}")
}

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let name = view.machine.hostname();
    let one = |id: &str, owner, tree| Some(vec![Resource::new(id, owner, tree)]);
    let texts = |list: Vec<IpAddr>| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    match kind {
        "HostnameStatuses.net.talos.dev" => {
            one("hostname", "network.HostnameSpecController", json!({"hostname": name, "domainname": ""}))
        }
        "HostnameSpecs.net.talos.dev" => {
            let configured = view.node().is_some_and(|node| node.settings.hostname.is_some());
            let layer = if configured { "configuration" } else { "platform" };
            let tree = json!({"hostname": name, "domainname": "", "layer": layer});
            one("hostname", "HostnameMergeControllers.net.talos.dev", tree)
        }
        "NetworkStatuses.net.talos.dev" => one(
            "status",
            "network.StatusController",
            json!({
                "addressReady": true, "connectivityReady": true, "hostnameReady": true, "etcFilesReady": true,
            }),
        ),
        "NodeAddresses.net.talos.dev" => Some(node_addresses(view)),
        "AddressStatuses.net.talos.dev" => Some(addresses(view)),
        "LinkStatuses.net.talos.dev" => Some(links(view)),
        "RouteStatuses.net.talos.dev" => Some(routes(view)),
        "ResolverStatuses.net.talos.dev" => one(
            "resolvers",
            "network.ResolverSpecController",
            json!({"dnsServers": texts(view.machine.resolvers()), "searchDomains": []}),
        ),
        "TimeServerStatuses.net.talos.dev" => one(
            "timeservers",
            "network.TimeServerSpecController",
            json!({"timeServers": view.machine.time_servers()}),
        ),
        "PlatformConfigs.net.talos.dev" => one("active", "network.PlatformConfigController", platform(view)),
        _ => None,
    }
}

/// Cards with their hardware address and addresses.
fn cards(view: &View<'_>) -> Vec<(usize, String, Vec<IpNet>)> {
    let cards = view.machines.addresses(view.vmid).into_iter().enumerate();
    cards.map(|(number, (mac, nets))| (number, mac, nets)).collect()
}

fn node_addresses(view: &View<'_>) -> Vec<Resource> {
    let all: Vec<String> =
        cards(view).iter().flat_map(|(_, _, nets)| nets).map(ToString::to_string).collect();
    let vip = view.node().and_then(|node| node.settings.vip).map(|vip| format!("{vip}/32"));
    let default: Vec<String> = all.iter().filter(|net| Some(*net) != vip.as_ref()).take(1).cloned().collect();
    let mut ids = vec![("accumulative", &all), ("current", &all), ("default", &default), ("routed", &all)];
    if view.node().is_some() {
        let more = [
            "accumulative-no-k8s",
            "accumulative-only-k8s",
            "current-no-k8s",
            "current-only-k8s",
            "routed-no-k8s",
            "routed-only-k8s",
        ];
        let nothing: &'static Vec<String> = const { &Vec::new() };
        ids.extend(more.map(|id| (id, if id.ends_with("no-k8s") { &all } else { nothing })));
    }
    ids.into_iter()
        .map(|(id, list)| {
            let tree = json!({"addresses": list, "sortAlgorithm": "v1"});
            Resource::new(id, "network.NodeAddressController", tree)
        })
        .collect()
}

/// The address that IPv6 makes of a hardware address.
fn link_local(mac: &str) -> Option<Ipv6Addr> {
    let bytes: Vec<u8> = mac.split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
    let [a, b, c, d, e, f] = bytes.as_slice() else { return None };
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    octets[8..].copy_from_slice(&[a ^ 2, *b, *c, 0xff, 0xfe, *d, *e, *f]);
    Some(Ipv6Addr::from(octets))
}

fn addresses(view: &View<'_>) -> Vec<Resource> {
    let address = |link: &str, index: usize, net: String, scope: &str| {
        let family = if net.contains(':') { "inet6" } else { "inet4" };
        let tree = json!({
            "address": net, "linkIndex": index, "linkName": link, "family": family, "scope": scope,
            "flags": "permanent", "priority": 0,
        });
        Resource::new(format!("{link}/{net}"), "network.AddressStatusController", tree)
    };
    let mut found =
        vec![address("lo", 1, "127.0.0.1/8".into(), "host"), address("lo", 1, "::1/128".into(), "host")];
    for (number, mac, nets) in cards(view) {
        let (link, index) = (link_name(number), number + 3);
        found.extend(nets.iter().map(|net| address(&link, index, net.to_string(), "global")));
        found.extend(link_local(&mac).map(|own| address(&link, index, format!("{own}/64"), "link")));
    }
    found
}

fn links(view: &View<'_>) -> Vec<Resource> {
    let link = |id: String, tree: Value| Resource::new(id, "network.LinkStatusController", tree);
    let mut found = vec![
        link(
            "lo".into(),
            json!({
                "index": 1, "type": "loopback", "linkIndex": 0, "flags": "UP,LOOPBACK,RUNNING,LOWER_UP",
                "hardwareAddr": "00:00:00:00:00:00", "permanentAddr": "", "broadcastAddr": "00:00:00:00:00:00",
                "mtu": 65_536, "queueDisc": "noqueue", "operationalState": "unknown", "kind": "", "slaveKind": "",
                "linkState": true, "port": "Other", "duplex": "Unknown",
            }),
        ),
        link(
            "dummy0".into(),
            json!({
                "index": 2, "type": "ether", "linkIndex": 0, "flags": "BROADCAST,NOARP",
                "hardwareAddr": "c6:a5:9d:e6:38:d0", "permanentAddr": "", "broadcastAddr": "ff:ff:ff:ff:ff:ff",
                "mtu": 1500, "queueDisc": "noop", "operationalState": "down", "kind": "dummy", "slaveKind": "",
                "driver": "dummy", "driverVersion": view.profile.kernel, "linkState": false, "port": "Other",
                "duplex": "Unknown",
            }),
        ),
    ];
    for (number, mac, _) in cards(view) {
        let slot = 18 + number;
        let mut tree = json!({
            "altNames": [format!("enp6s{slot}"), format!("enx{}", mac.replace(':', ""))],
            "index": number + 3, "type": "ether", "linkIndex": 0,
            "flags": "UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP", "hardwareAddr": mac, "permanentAddr": mac,
            "broadcastAddr": "ff:ff:ff:ff:ff:ff", "mtu": view.machine.mtu(number), "queueDisc": "fq_codel",
            "operationalState": "up", "kind": "", "slaveKind": "", "busPath": format!("0000:06:{slot:02x}.0"),
            "driver": "virtio_net", "driverVersion": "1.0.0", "productID": "0x1000", "vendorID": "0x1af4",
            "product": "Virtio network device", "vendor": "Red Hat, Inc.", "linkState": true,
            "speedMbit": 4_294_967_295_u64, "port": "Other", "duplex": "Unknown",
        });
        if let Some((_, alias)) =
            view.node().and_then(|node| node.settings.aliases.iter().find(|(card, _)| *card == number))
        {
            tree["alias"] = alias.as_str().into();
        }
        found.push(link(link_name(number), tree));
    }
    found
}

fn routes(view: &View<'_>) -> Vec<Resource> {
    let route = |table: &str,
                 net: Option<IpNet>,
                 source: &str,
                 gateway: &str,
                 link: (usize, &str),
                 kind: (&str, &str, &str)| {
        let v6 = gateway.contains(':') || net.is_some_and(|net| net.addr().is_ipv6());
        let family = if v6 { "inet6" } else { "inet4" };
        let dst = net.map(|net| net.to_string()).unwrap_or_default();
        let (scope, what, protocol) = kind;
        let priority = if !gateway.is_empty() {
            if v6 { 2048 } else { 1024 }
        } else if v6 && (what == "multicast" || table == "main") {
            256
        } else {
            0
        };
        let place = if table == "local" { "local/" } else { "" };
        let via = if v6 { format!("{}/", link.1) } else { String::new() };
        let tree = json!({
            "family": family, "dst": dst, "src": source, "gateway": gateway, "outLinkIndex": link.0,
            "outLinkName": link.1, "table": table, "priority": priority, "scope": scope, "type": what,
            "flags": "", "protocol": protocol,
        });
        let id = format!("{place}{via}{family}/{gateway}/{dst}/{priority}");
        Resource::new(id, "network.RouteStatusController", tree)
    };
    let net = |text: &str| text.parse::<IpNet>().ok();
    let local = |text: &str, scope, what| {
        route("local", net(text), "127.0.0.1", "", (1, "lo"), (scope, what, "kernel"))
    };
    let mut found = vec![
        local("127.0.0.0/8", "host", "local"),
        local("127.0.0.1/32", "host", "local"),
        local("127.255.255.255/32", "link", "broadcast"),
        route("local", net("::1/128"), "", "", (1, "lo"), ("global", "local", "kernel")),
    ];
    for (number, mac, nets) in cards(view) {
        let name = link_name(number);
        let link = (number + 3, name.as_str());
        for own in nets.iter().filter(|own| own.addr().is_ipv4()) {
            let source = own.addr().to_string();
            let host = net(&format!("{source}/32"));
            found.push(route("local", host, &source, "", link, ("host", "local", "kernel")));
            if own.prefix_len() < 32 {
                found.push(route(
                    "main",
                    Some(own.trunc()),
                    &source,
                    "",
                    link,
                    ("link", "unicast", "kernel"),
                ));
                let broadcast = net(&format!("{}/32", own.broadcast()));
                found.push(route("local", broadcast, &source, "", link, ("link", "broadcast", "kernel")));
            }
        }
        let drive = view.machine.hardware.nics.get(number).and_then(|nic| nic.gateway6);
        for gateway in view.machine.gateway(number).into_iter().chain(drive) {
            let gateway = gateway.to_string();
            found.push(route("main", None, "", &gateway, link, ("global", "unicast", "static")));
        }
        if let Some(own) = link_local(&mac) {
            found.push(route("main", net("fe80::/64"), "", "", link, ("global", "unicast", "kernel")));
            found.push(route(
                "local",
                net(&format!("{own}/128")),
                "",
                "",
                link,
                ("global", "local", "kernel"),
            ));
            found.push(route("local", net("ff00::/8"), "", "", link, ("global", "multicast", "kernel")));
        }
    }
    found
}

/// What the cloud-init drive says.
fn platform(view: &View<'_>) -> Value {
    let boot = &view.machine.hardware;
    let layer = "platform";
    let (mut addresses, mut links, mut routes, mut operators) = (vec![], vec![], vec![], vec![]);
    for (number, nic) in boot.nics.iter().enumerate() {
        let link = link_name(number);
        links.push(json!({
            "name": link, "logical": false, "up": true, "mtu": 0, "kind": "", "type": "netrom", "layer": layer,
        }));
        if nic.dhcp {
            operators.push(json!({
                "operator": "dhcp4", "linkName": link, "requireUp": true, "dhcp4": {"routeMetric": 1024}, "layer": layer,
            }));
        }
        for net in nic.address.filter(|_| !nic.dhcp).into_iter().chain(nic.address6) {
            let family = if net.addr().is_ipv4() { "inet4" } else { "inet6" };
            addresses.push(json!({
                "address": net.to_string(), "linkName": link, "family": family, "scope": "global",
                "flags": "permanent", "layer": layer,
            }));
        }
        for gateway in nic.gateway.filter(|_| !nic.dhcp).into_iter().chain(nic.gateway6) {
            let (family, priority) = if gateway.is_ipv4() { ("inet4", 1024) } else { ("inet6", 2048) };
            routes.push(json!({
                "family": family, "dst": "", "src": "",
                "gateway": gateway.to_string(), "outLinkName": link, "table": "main", "priority": priority,
                "scope": "global", "type": "unicast", "flags": "", "protocol": "static", "layer": layer,
            }));
        }
    }
    let servers: Vec<String> = boot.nics.iter().flat_map(|nic| &nic.dns).map(ToString::to_string).collect();
    let resolvers =
        if servers.is_empty() { vec![] } else { vec![json!({"dnsServers": servers, "layer": layer})] };
    json!({
        "addresses": addresses, "links": links, "routes": routes,
        "hostnames": [{"hostname": boot.name, "domainname": "", "layer": layer}],
        "resolvers": resolvers, "timeServers": [], "operators": operators, "externalIPs": [],
        "metadata": runtime::metadata(view, view.image().0),
    })
}
