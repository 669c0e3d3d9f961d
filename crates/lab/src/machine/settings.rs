//! What a machine takes from its configuration.
//!
//! A configuration is a list of YAML documents. This reads the v1alpha1 document and, beside it, the network documents
//! that replace parts of it since Talos 1.12. Links are found the way Talos finds them: by name, by alias (an expression
//! over the hardware address), by hardware address. A link that matches no network card configures nothing, which is
//! how a wrong address in a configuration makes a machine unreachable.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::boot::BootNic;

/// The part that a machine plays in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads only.
    Worker,
}

impl Role {
    /// As Talos writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }
}

/// An authority as a configuration carries it: PEM, the key only on control planes.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Issuer {
    /// Certificate in PEM.
    pub crt: String,
    /// Private key in PEM.
    pub key: Option<String>,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("key", &self.key.is_some()).finish_non_exhaustive()
    }
}

/// What one configuration means for the machine that got it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub role: Role,
    pub token: String,
    pub talos_ca: Issuer,
    pub cluster_ca: Issuer,
    pub cert_sans: Vec<String>,
    pub hostname: Option<String>,
    /// Addresses from the configuration, each with the number of the network card.
    pub addresses: Vec<(usize, IpNet)>,
    pub vip: Option<IpAddr>,
    pub resolvers: Vec<IpAddr>,
    pub cluster_id: String,
    pub cluster_name: String,
    pub endpoint: String,
    pub discovery: bool,
    pub kubernetes: String,
    /// Whether Talos brings a network for pods.
    pub cni: bool,
    pub external_cloud: bool,
    pub schedulable: bool,
    pub pod_subnet: IpNet,
    pub service_subnet: IpNet,
    pub node_labels: BTreeMap<String, String>,
    pub api_sans: Vec<String>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("role", &self.role)
            .field("hostname", &self.hostname)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads validated documents; `None` when no v1alpha1 document is among them (a partial configuration).
    pub fn read(documents: &[Value], nics: &[BootNic]) -> Option<Self> {
        let main = documents.iter().find(|d| d.get("kind").is_none())?;
        let machine = main.get("machine")?;
        let cluster = main.get("cluster")?;
        let role = if text(machine, "type") == "controlplane" { Role::ControlPlane } else { Role::Worker };
        let endpoint = cluster.pointer("/controlPlane/endpoint").and_then(Value::as_str).unwrap_or_default();
        let network = Network::read(documents, machine, nics);
        Some(Self {
            role,
            token: text(machine, "token"),
            talos_ca: issuer(machine.get("ca")),
            cluster_ca: issuer(cluster.get("ca")),
            cert_sans: strings(machine.get("certSANs")),
            hostname: network.hostname,
            addresses: network.addresses,
            vip: network.vip,
            resolvers: network.resolvers,
            cluster_id: text(cluster, "id"),
            cluster_name: text(cluster, "clusterName"),
            endpoint: endpoint.to_owned(),
            discovery: cluster.pointer("/discovery/enabled").and_then(Value::as_bool).unwrap_or(false)
                && cluster.pointer("/discovery/registries/service/disabled") != Some(&Value::Bool(true)),
            kubernetes: image_tag(machine.pointer("/kubelet/image")),
            cni: cluster
                .pointer("/network/cni/name")
                .and_then(Value::as_str)
                .is_none_or(|name| name == "flannel"),
            external_cloud: cluster.pointer("/externalCloudProvider/enabled") == Some(&Value::Bool(true)),
            schedulable: cluster.get("allowSchedulingOnControlPlanes") == Some(&Value::Bool(true)),
            pod_subnet: first_net(
                cluster.pointer("/network/podSubnets"),
                IpNet::new_assert([10, 244, 0, 0].into(), 16),
            ),
            service_subnet: first_net(
                cluster.pointer("/network/serviceSubnets"),
                IpNet::new_assert([10, 96, 0, 0].into(), 12),
            ),
            node_labels: labels(machine.get("nodeLabels")),
            api_sans: strings(cluster.pointer("/apiServer/certSANs")),
        })
    }

    /// The host part of the control plane endpoint.
    pub fn endpoint_host(&self) -> &str {
        let rest = self.endpoint.split_once("://").map_or(self.endpoint.as_str(), |(_, rest)| rest);
        let rest = rest.split('/').next().unwrap_or(rest);
        match rest.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or(v6),
            None => rest.rsplit_once(':').map_or(rest, |(host, _)| host),
        }
    }

    /// Machines with the same identity belong together, whatever their names.
    pub fn cluster_key(&self) -> String {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(format!("{}\n{}", self.cluster_id, self.cluster_ca.crt));
        hex::encode(&digest[..8])
    }
}

/// What the network parts of a configuration say, whichever document says it.
#[derive(Default)]
struct Network {
    hostname: Option<String>,
    addresses: Vec<(usize, IpNet)>,
    vip: Option<IpAddr>,
    resolvers: Vec<IpAddr>,
}

impl Network {
    fn read(documents: &[Value], machine: &Value, nics: &[BootNic]) -> Self {
        let mut found = Self::default();
        found.read_v1alpha1(machine, nics);
        let aliases = aliases(documents, nics);
        for document in documents {
            match document.get("kind").and_then(Value::as_str) {
                Some("HostnameConfig") => {
                    found.hostname = document.get("hostname").and_then(Value::as_str).map(str::to_owned);
                }
                Some("LinkConfig") => {
                    if let Some(nic) = link(&text(document, "name"), &aliases, nics) {
                        for address in list(document.get("addresses")) {
                            found
                                .addresses
                                .extend(text(address, "address").parse().ok().map(|net| (nic, net)));
                        }
                    }
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
            let Some(nic) = nic else { continue };
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

fn issuer(value: Option<&Value>) -> Issuer {
    let pem = |key: &str| {
        let text = value.and_then(|v| v.get(key)).and_then(Value::as_str).unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    let key = pem("key");
    Issuer { crt: pem("crt"), key: (!key.is_empty()).then_some(key) }
}

fn image_tag(image: Option<&Value>) -> String {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    let image = image.split('@').next().unwrap_or(image);
    image.rsplit_once(':').map_or("v0.0.0", |(_, tag)| tag).to_owned()
}

pub(super) fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    list(value).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn labels(value: Option<&Value>) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

fn first_net(value: Option<&Value>, default: IpNet) -> IpNet {
    strings(value).first().and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(mac: &str) -> BootNic {
        BootNic { mac: mac.into(), bridge: "vmbr0".into(), address: None, gateway: None, dns: vec![] }
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

    #[test]
    fn the_host_of_an_endpoint() {
        let host =
            |endpoint: &str| Settings { endpoint: endpoint.into(), ..sample() }.endpoint_host().to_owned();
        assert_eq!(host("https://10.0.0.5:6443"), "10.0.0.5");
        assert_eq!(host("https://[fd00::5]:6443"), "fd00::5");
        assert_eq!(host("https://kube.example/"), "kube.example");
    }

    fn sample() -> Settings {
        let text = serde_json::json!({"machine": {"type": "worker"}, "cluster": {}});
        Settings::read(&[text], &[]).unwrap()
    }
}
