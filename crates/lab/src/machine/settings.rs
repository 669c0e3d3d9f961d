//! What a machine takes from its configuration.
//!
//! A configuration is a list of YAML documents. This reads the v1alpha1 document and, beside it, the documents that replace
//! parts of it: those of the network since Talos 1.12 (`links`), those of Kubernetes and discovery since 1.14.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::boot::{BootDisk, BootNic};
use super::links::Network;

/// The label, and the taint, of control planes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

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
    /// Certificates of other authorities whose clients the machine lets in, each as PEM.
    #[serde(default)]
    pub accepted_cas: Vec<String>,
    pub cluster_ca: Issuer,
    pub cert_sans: Vec<String>,
    pub hostname: Option<String>,
    /// Addresses from the configuration, each with the number of the network card.
    pub addresses: Vec<(usize, IpNet)>,
    pub vip: Option<IpAddr>,
    pub resolvers: Vec<IpAddr>,
    pub time_servers: Vec<String>,
    /// Names that the configuration gave to cards, by the number of the card.
    pub aliases: Vec<(usize, String)>,
    pub gateways: Vec<(usize, IpAddr)>,
    pub mtus: Vec<(usize, u64)>,
    /// Cards that ask a DHCP server, where the configuration says so; else all do that have no address.
    pub dhcp: Option<Vec<usize>>,
    pub volumes: Vec<UserVolume>,
    pub images: Images,
    /// Registry hosts and where their images are fetched instead, in order.
    pub mirrors: BTreeMap<String, Vec<String>>,
    pub cluster_id: String,
    pub cluster_name: String,
    pub endpoint: String,
    pub discovery: bool,
    pub kubernetes: String,
    /// Whether Talos brings a network for pods.
    pub cni: bool,
    /// Whether Talos brings kube-proxy.
    pub proxy: bool,
    /// Whether Talos brings no CoreDNS.
    #[serde(default)]
    pub no_core_dns: bool,
    pub external_cloud: bool,
    pub schedulable: bool,
    pub pod_subnet: IpNet,
    pub service_subnet: IpNet,
    pub node_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub node_annotations: BTreeMap<String, String>,
    /// `value:Effect` or `Effect`, by key.
    #[serde(default)]
    pub node_taints: BTreeMap<String, String>,
    /// Taints that the kubelet sets when it registers, and never again.
    #[serde(default)]
    pub registers_with: Vec<Value>,
    pub api_sans: Vec<String>,
    /// Arguments that a person gave to parts of Kubernetes, by their name. Feature gates of the kubelet are among its arguments.
    #[serde(default)]
    pub arguments: BTreeMap<String, BTreeMap<String, String>>,
    /// Names and texts of additional certificates that the machine trusts.
    #[serde(default)]
    pub trusted_roots: Vec<(String, String)>,
    /// Variables of the environment of machined and its services.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Machines with the same one belong together, whatever their names.
    key: String,
}

/// The container images of a node's own components.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Images {
    pub kubelet: String,
    /// Empty for Talos' own choice.
    #[serde(default)]
    pub etcd: String,
    pub api_server: String,
    pub controller_manager: String,
    pub scheduler: String,
}

/// A volume that the configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserVolume {
    pub name: String,
    /// The expression that picks its disk.
    selector: String,
}

impl UserVolume {
    /// Whether the volume's expression picks this disk. Understood are `!system_disk`, and equality of a disk's field
    /// with a quoted text, joined by `&&`.
    pub fn selects(&self, id: &str, wwid: &str, disk: &BootDisk) -> bool {
        self.selector.split("&&").map(str::trim).all(|term| {
            if term == "!system_disk" || term == "true" || term.is_empty() {
                return true;
            }
            let Some((field, value)) = term.split_once("==") else { return false };
            let value = value.trim().trim_matches(['"', '\'']);
            match field.trim() {
                "disk.wwid" => value == wwid && !wwid.is_empty(),
                "disk.serial" => Some(value) == disk.serial.as_deref(),
                "disk.dev_path" => value == format!("/dev/{id}"),
                "disk.id" => value == id,
                _ => false,
            }
        })
    }
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
    /// What a kubelet is started with: another image or another authority needs a new one.
    pub(super) fn kubelet(&self) -> (String, String) {
        (self.images.kubelet.clone(), self.cluster_ca.crt.clone())
    }

    /// Everybody whose clients the machine lets in, as PEM.
    pub(crate) fn client_cas(&self) -> String {
        std::iter::once(&self.talos_ca.crt).chain(&self.accepted_cas).fold(String::new(), |mut all, crt| {
            all.push_str(crt.trim_end());
            all.push('\n');
            all
        })
    }

    /// Those that are accepted besides the issuing authority.
    pub(crate) fn accepted(&self) -> Vec<String> {
        self.accepted_cas.iter().filter(|crt| **crt != self.talos_ca.crt).cloned().collect()
    }

    /// Reads validated documents; `None` when no v1alpha1 document is among them (a partial configuration).
    pub fn read(documents: &[Value], nics: &[BootNic]) -> Option<Self> {
        let main = documents.iter().find(|d| d.get("kind").is_none())?;
        let machine = main.get("machine")?;
        let cluster = main.get("cluster")?;
        let role = if text(machine, "type") == "controlplane" { Role::ControlPlane } else { Role::Worker };
        let endpoint = cluster.pointer("/controlPlane/endpoint").and_then(Value::as_str).unwrap_or_default();
        let network = Network::read(documents, machine, nics);
        let mut found = Self {
            role,
            token: text(machine, "token"),
            talos_ca: issuer(machine.get("ca")),
            accepted_cas: accepted(machine.get("acceptedCAs")),
            cluster_ca: issuer(cluster.get("ca")),
            cert_sans: strings(machine.get("certSANs")),
            hostname: network.hostname,
            addresses: network.addresses,
            vip: network.vip,
            resolvers: network.resolvers,
            time_servers: time_servers(documents, machine),
            aliases: network.aliases.into_iter().collect(),
            gateways: network.gateways.into_iter().collect(),
            mtus: network.mtus.into_iter().collect(),
            dhcp: network.dhcp,
            volumes: volumes(documents),
            images: Images {
                kubelet: image(machine.pointer("/kubelet/image")),
                etcd: image(cluster.pointer("/etcd/image")),
                api_server: image(cluster.pointer("/apiServer/image")),
                controller_manager: image(cluster.pointer("/controllerManager/image")),
                scheduler: image(cluster.pointer("/scheduler/image")),
            },
            mirrors: mirrors(documents, machine),
            cluster_id: text(cluster, "id"),
            cluster_name: text(cluster, "clusterName"),
            endpoint: endpoint.to_owned(),
            discovery: cluster.pointer("/discovery/enabled").and_then(Value::as_bool).unwrap_or(false)
                && cluster.pointer("/discovery/registries/service/disabled") != Some(&Value::Bool(true)),
            kubernetes: image_tag(machine.pointer("/kubelet/image")),
            proxy: cluster.pointer("/proxy/disabled") != Some(&Value::Bool(true)),
            cni: cluster
                .pointer("/network/cni/name")
                .and_then(Value::as_str)
                .is_none_or(|name| name == "flannel"),
            no_core_dns: cluster.pointer("/coreDNS/disabled") == Some(&Value::Bool(true)),
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
            node_annotations: labels(machine.get("nodeAnnotations")),
            node_taints: labels(machine.get("nodeTaints")),
            registers_with: list(machine.pointer("/kubelet/extraConfig/registerWithTaints"))
                .cloned()
                .collect(),
            api_sans: strings(cluster.pointer("/apiServer/certSANs")),
            arguments: BTreeMap::from([
                ("kube-apiserver".to_owned(), labels(cluster.pointer("/apiServer/extraArgs"))),
                (
                    "kube-controller-manager".to_owned(),
                    labels(cluster.pointer("/controllerManager/extraArgs")),
                ),
                ("kube-scheduler".to_owned(), labels(cluster.pointer("/scheduler/extraArgs"))),
                (
                    "kubelet".to_owned(),
                    kubelet_arguments(
                        machine.pointer("/kubelet/extraArgs"),
                        machine.pointer("/kubelet/extraConfig/featureGates"),
                    ),
                ),
            ]),
            trusted_roots: vec![],
            environment: labels(machine.get("env")),
            key: String::new(),
        };
        for document in documents {
            found.read_document(document);
        }
        found.key = cluster_key(&found.cluster_id, &found.cluster_ca.crt);
        Some(found)
    }

    /// What other documents say beside the v1alpha1 one, or, in 1.14, in its place.
    fn read_document(&mut self, document: &Value) {
        let own = |key: &str| text(document, key);
        let enabled = document.get("enabled") != Some(&Value::Bool(false));
        match own("kind").as_str() {
            "KubeClusterConfig" => {
                self.cluster_name = own("clusterName");
                self.endpoint = own("endpoint");
            }
            "TrustedRootsConfig" => self.trusted_roots.push((own("name"), own("certificates"))),
            "EnvironmentConfig" => self.environment.extend(labels(document.get("variables"))),
            "DiscoveryServiceConfig" => self.discovery = true,
            "DiscoveryIdentityConfig" => self.cluster_id = own("clusterID"),
            "KubeAPIServerCAConfig" => {
                let at = |pointer: &str| {
                    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let key = at("/issuingCA/key");
                let accepted = strings(document.get("acceptedCAs")).join("");
                let crt = Some(at("/issuingCA/cert")).filter(|crt| !crt.is_empty()).unwrap_or(accepted);
                self.cluster_ca = Issuer { crt, key: (!key.is_empty()).then_some(key) };
                // Without a flannel document there is no CNI plugin.
                self.cni = false;
            }
            "KubeFlannelCNIConfig" => self.cni = true,
            "KubeletConfig" => {
                self.kubernetes = image_tag(document.get("image"));
                self.images.kubelet = own("image");
                let gates = document.pointer("/config/featureGates");
                let arguments = kubelet_arguments(document.get("extraArgs"), gates);
                self.arguments.insert("kubelet".to_owned(), arguments);
                self.registers_with = list(document.pointer("/config/registerWithTaints")).cloned().collect();
            }
            "KubeAPIServerConfig" => {
                self.images.api_server = own("image");
                self.arguments.insert("kube-apiserver".to_owned(), labels(document.get("extraArgs")));
                self.api_sans = strings(document.get("certExtraSANs"));
            }
            "KubeControllerManagerConfig" => {
                self.images.controller_manager = own("image");
                let arguments = labels(document.get("extraArgs"));
                self.arguments.insert("kube-controller-manager".to_owned(), arguments);
            }
            "KubeSchedulerConfig" => {
                self.images.scheduler = own("image");
                self.arguments.insert("kube-scheduler".to_owned(), labels(document.get("extraArgs")));
            }
            "KubeProxyConfig" => self.proxy = enabled,
            "KubeCoreDNSConfig" => self.no_core_dns = !enabled,
            "KubeNetworkConfig" => {
                self.pod_subnet = first_net(document.get("podSubnets"), self.pod_subnet);
                self.service_subnet = first_net(document.get("serviceSubnets"), self.service_subnet);
            }
            "KubeNodeConfig" => {
                self.node_labels = labels(document.get("labels"));
                self.node_annotations = labels(document.get("annotations"));
                self.node_taints = labels(document.get("taints"));
                self.schedulable = !self.node_taints.contains_key(CONTROL_PLANE);
            }
            _ => {}
        }
    }

    /// The labels that Talos gives to the node.
    pub fn labels_of_node(&self) -> BTreeMap<String, String> {
        let role = (self.role == Role::ControlPlane).then(|| (CONTROL_PLANE.to_owned(), String::new()));
        self.node_labels.clone().into_iter().chain(role).collect()
    }

    /// The taints that Talos gives to the node.
    pub fn taints_of_node(&self) -> BTreeMap<String, String> {
        let keeps_out = self.role == Role::ControlPlane && !self.schedulable;
        let own = keeps_out.then(|| (CONTROL_PLANE.to_owned(), "NoSchedule".to_owned()));
        own.into_iter().chain(self.node_taints.clone()).collect()
    }

    /// What a list of settings by card says for one.
    pub fn of_card<T: Clone>(list: &[(usize, T)], card: usize) -> Option<T> {
        list.iter().find(|(number, _)| *number == card).map(|(_, value)| value.clone())
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
    pub fn cluster_key(&self) -> &str {
        &self.key
    }
}

fn cluster_key(id: &str, authority: &str) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{id}\n{authority}"));
    hex::encode(&digest[..8])
}

fn time_servers(documents: &[Value], machine: &Value) -> Vec<String> {
    let document = documents.iter().find(|d| text(d, "kind") == "TimeSyncConfig");
    let named = document.map(|d| strings(d.pointer("/ntp/servers"))).unwrap_or_default();
    if named.is_empty() { strings(machine.pointer("/time/servers")) } else { named }
}

fn volumes(documents: &[Value]) -> Vec<UserVolume> {
    let kinds = |d: &&Value| text(d, "kind") == "UserVolumeConfig";
    let selector = |d: &Value| {
        d.pointer("/provisioning/diskSelector/match").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    documents
        .iter()
        .filter(kinds)
        .map(|d| UserVolume { name: text(d, "name"), selector: selector(d) })
        .collect()
}

fn mirrors(documents: &[Value], machine: &Value) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (host, mirror) in
        machine.pointer("/registries/mirrors").and_then(Value::as_object).into_iter().flatten()
    {
        found.insert(host.clone(), strings(mirror.get("endpoints")));
    }
    for document in documents.iter().filter(|d| text(d, "kind") == "RegistryMirrorConfig") {
        let endpoints = list(document.get("endpoints")).map(|endpoint| text(endpoint, "url")).collect();
        found.insert(text(document, "name"), endpoints);
    }
    found
}

fn image(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
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

/// The certificates of a list of authorities.
fn accepted(list: Option<&Value>) -> Vec<String> {
    let all = list.and_then(Value::as_array).into_iter().flatten();
    all.map(|one| issuer(Some(one)).crt).filter(|crt| !crt.is_empty()).collect()
}

fn image_tag(image: Option<&Value>) -> String {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    let image = image.split('@').next().unwrap_or(image);
    image.rsplit_once(':').map_or("v0.0.0", |(_, tag)| tag).to_owned()
}

pub(super) fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn strings(value: Option<&Value>) -> Vec<String> {
    list(value).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn labels(value: Option<&Value>) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

/// Arguments of a kubelet, with the feature gates of its configuration among them.
fn kubelet_arguments(arguments: Option<&Value>, gates: Option<&Value>) -> BTreeMap<String, String> {
    let mut all = labels(arguments);
    let gates = gates.and_then(Value::as_object).into_iter().flatten();
    let gates: Vec<String> = gates.map(|(name, on)| format!("{name}={on}")).collect();
    if !gates.is_empty() {
        all.insert("feature-gates".to_owned(), gates.join(","));
    }
    all
}

fn first_net(value: Option<&Value>, default: IpNet) -> IpNet {
    strings(value).first().and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_endpoint() {
        let host =
            |endpoint: &str| Settings { endpoint: endpoint.into(), ..sample() }.endpoint_host().to_owned();
        assert_eq!(host("https://10.0.0.5:6443"), "10.0.0.5");
        assert_eq!(host("https://[fd00::5]:6443"), "fd00::5");
        assert_eq!(host("https://kube.example/"), "kube.example");
    }

    #[test]
    fn lab_talos_clients_of_accepted_authorities_are_let_in() {
        use base64::Engine as _;
        use talos::pki::Authority;
        let now = crate::LabConfig::first_moment();
        let [own, other] = [Authority::ephemeral(now).unwrap(), Authority::ephemeral(now).unwrap()];
        let crt = |of: &Authority| {
            let text = base64::engine::general_purpose::STANDARD.encode(of.certificate_pem());
            serde_json::json!({ "crt": text })
        };
        let client = other.issue_client(None, "os:admin", std::time::Duration::from_secs(3600), now).unwrap();
        let lets_in = |accepted: Value| {
            let machine = serde_json::json!({"type": "worker", "ca": crt(&own), "acceptedCAs": accepted});
            let settings =
                Settings::read(&[serde_json::json!({"machine": machine, "cluster": {}})], &[]).unwrap();
            super::super::tls::is_client_of(&settings.client_cas(), client.certificate_der(), now)
        };
        assert!(!lets_in(serde_json::json!([])));
        assert!(lets_in(serde_json::json!([crt(&own), crt(&other)])));
    }

    fn sample() -> Settings {
        let text = serde_json::json!({"machine": {"type": "worker"}, "cluster": {}});
        Settings::read(&[text], &[]).unwrap()
    }
}
