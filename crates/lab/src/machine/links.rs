//! Which link a configuration means, and what it gives to it.
//!
//! Links are found the way Talos finds them: by name, by alias (an expression over the hardware address), by hardware
//! address. A link that matches no network card configures nothing, which is how a wrong address in a configuration
//! makes a machine unreachable.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::boot::BootNic;
use super::settings::{list, strings, text};

/// What the network parts of a configuration say, whichever document says it.
#[derive(Default)]
pub(super) struct Network {
    pub(super) hostname: Option<String>,
    pub(super) addresses: Vec<(usize, IpNet)>,
    pub(super) vip: Option<IpAddr>,
    pub(super) resolvers: Vec<IpAddr>,
    /// Names of cards that the configuration made up, by the number of the card.
    pub(super) aliases: BTreeMap<usize, String>,
    pub(super) gateways: BTreeMap<usize, IpAddr>,
    pub(super) mtus: BTreeMap<usize, u64>,
    /// Cards that ask a DHCP server. Without any word about links every card does.
    pub(super) dhcp: Option<Vec<usize>>,
}

impl Network {
    pub(super) fn read(documents: &[Value], machine: &Value, nics: &[BootNic]) -> Self {
        let mut found = Self::default();
        found.read_v1alpha1(machine, nics);
        let aliases = aliases(documents, nics);
        found.aliases = aliases.iter().map(|(name, nic)| (*nic, name.clone())).collect();
        for document in documents {
            match document.get("kind").and_then(Value::as_str) {
                Some("HostnameConfig") => {
                    found.hostname = document.get("hostname").and_then(Value::as_str).map(str::to_owned);
                }
                Some("LinkConfig") => {
                    found.dhcp.get_or_insert_default();
                    if let Some(nic) = link(&text(document, "name"), &aliases, nics) {
                        for address in list(document.get("addresses")) {
                            found
                                .addresses
                                .extend(text(address, "address").parse().ok().map(|net| (nic, net)));
                        }
                        found.route(nic, document);
                    }
                }
                Some("DHCPv4Config") => {
                    let nic = link(&text(document, "name"), &aliases, nics);
                    found.dhcp.get_or_insert_default().extend(nic);
                }
                // Without its link the address is never announced.
                Some("Layer2VIPConfig") if link(&text(document, "link"), &aliases, nics).is_some() => {
                    found.vip = text(document, "name").parse().ok();
                }
                Some("ResolverConfig") => {
                    found.resolvers = list(document.get("nameservers"))
                        .filter_map(|n| text(n, "address").parse().ok())
                        .collect();
                }
                _ => {}
            }
        }
        found
    }

    /// The default route and the packet size of a link.
    fn route(&mut self, nic: usize, link: &Value) {
        let default = |route: &&Value| {
            let network = text(route, "network") + &text(route, "destination");
            network.is_empty() || network == "0.0.0.0/0" || network == "::/0"
        };
        let gateway =
            list(link.get("routes")).find(default).and_then(|route| text(route, "gateway").parse().ok());
        self.gateways.extend(gateway.map(|gateway: IpAddr| (nic, gateway)));
        self.mtus.extend(link.get("mtu").and_then(Value::as_u64).map(|mtu| (nic, mtu)));
    }

    fn read_v1alpha1(&mut self, machine: &Value, nics: &[BootNic]) {
        let Some(network) = machine.get("network") else { return };
        self.hostname = network.get("hostname").and_then(Value::as_str).map(str::to_owned);
        self.resolvers = strings(network.get("nameservers")).iter().filter_map(|s| s.parse().ok()).collect();
        for interface in list(network.get("interfaces")) {
            let by_mac = interface.pointer("/deviceSelector/hardwareAddr").and_then(Value::as_str);
            let nic = match by_mac {
                Some(mac) => nics.iter().position(|n| n.mac.eq_ignore_ascii_case(mac)),
                None => link(&text(interface, "interface"), &BTreeMap::new(), nics),
            };
            self.dhcp.get_or_insert_default();
            let Some(nic) = nic else { continue };
            if interface.get("dhcp") == Some(&Value::Bool(true)) {
                self.dhcp.get_or_insert_default().push(nic);
            }
            self.route(nic, interface);
            for address in strings(interface.get("addresses")) {
                self.addresses.extend(address.parse().ok().map(|net| (nic, net)));
            }
            if let Some(vip) = interface.pointer("/vip/ip").and_then(Value::as_str) {
                self.vip = vip.parse().ok();
            }
        }
    }
}

/// Alias names and the card each means.
fn aliases(documents: &[Value], nics: &[BootNic]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for document in documents.iter().filter(|d| text(d, "kind") == "LinkAliasConfig") {
        let expression = document.pointer("/selector/match").and_then(Value::as_str).unwrap_or_default();
        if let Some(nic) = nics.iter().position(|nic| selects(expression, &nic.mac)) {
            found.insert(text(document, "name"), nic);
        }
    }
    found
}

/// Whether a link expression picks the card with this hardware address. Understood is equality of `mac(...)` or of
/// the raw field with a quoted address; anything else picks nothing.
fn selects(expression: &str, mac: &str) -> bool {
    let Some((left, right)) = expression.split_once("==") else { return false };
    let (field, value) = if left.contains("link.") { (left, right) } else { (right, left) };
    let field: String = field.chars().filter(|c| !c.is_whitespace()).collect();
    let known = ["mac(link.permanent_addr)", "mac(link.hardware_addr)"].contains(&field.as_str());
    // Talos compares text, and writes hardware addresses in lower case.
    known && value.trim().trim_matches(['"', '\'']) == mac.to_ascii_lowercase()
}

/// The card that a link name means: an alias, `ethN` in slot order, or `enx` and the hardware address.
fn link(name: &str, aliases: &BTreeMap<String, usize>, nics: &[BootNic]) -> Option<usize> {
    if let Some(nic) = aliases.get(name) {
        return Some(*nic);
    }
    if let Some(number) = name.strip_prefix("eth").and_then(|n| n.parse::<usize>().ok()) {
        return (number < nics.len()).then_some(number);
    }
    let mac = name.strip_prefix("enx")?;
    nics.iter().position(|n| n.mac.replace(':', "").eq_ignore_ascii_case(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(mac: &str) -> BootNic {
        BootNic {
            mac: mac.into(),
            bridge: "vmbr0".into(),
            address: None,
            gateway: None,
            address6: None,
            gateway6: None,
            dns: vec![],
            dhcp: false,
        }
    }

    #[test]
    fn a_link_is_found_by_alias_name_or_hardware_address() {
        let nics = [nic("BC:24:11:00:00:01"), nic("BC:24:11:00:00:02")];
        let documents = [serde_json::json!({
            "kind": "LinkAliasConfig", "name": "lan0",
            "selector": {"match": "mac(link.permanent_addr) == \"bc:24:11:00:00:02\""}
        })];
        let aliases = aliases(&documents, &nics);
        assert_eq!(link("lan0", &aliases, &nics), Some(1));
        assert_eq!(link("eth0", &aliases, &nics), Some(0));
        assert_eq!(link("eth2", &aliases, &nics), None);
        assert_eq!(link("enxbc2411000001", &aliases, &nics), Some(0));
        assert!(!selects("mac(link.permanent_addr) == \"BC:24:11:00:00:02\"", "BC:24:11:00:00:02"));
        assert!(!selects("link.driver == \"virtio_net\"", "BC:24:11:00:00:02"));
    }
}
