//! What a node makes of a configuration: the values that decide how it behaves, wherever the contract puts them.
//!
//! Each value is looked for in its 1.12 or 1.14 document first and then in the v1alpha1 field. Reading goes on after a
//! problem, so that all of them are known at once.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Documents, Role};
use crate::secret::Secret;
use crate::yaml::{Map, Value};

/// A value that is missing or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Problem {
    /// Where in the configuration.
    pub path: &'static str,
    /// What is wrong.
    pub reason: &'static str,
}

/// A certificate as PEM, and its key where the machine may issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityView {
    pub certificate: String,
    /// The key, on control planes.
    pub key: Option<Secret>,
}

/// The configuration of a machine as it uses it.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineView {
    /// What the machine is.
    pub role: Role,
    /// The token with which workers ask trustd for a certificate.
    pub token: Secret,
    /// The authority of the Talos API.
    pub ca: AuthorityView,
    /// More names and addresses for the Talos API's certificate.
    pub cert_sans: Vec<String>,
    /// The control plane endpoint.
    pub endpoint: String,
    /// The cluster's name; older workers were not told.
    pub cluster_name: Option<String>,
    pub cluster_id: Option<String>,
    pub kubernetes_ca: AuthorityView,
    /// The authority of etcd, on control planes.
    pub etcd_ca: Option<AuthorityView>,
    /// More names and addresses for the Kubernetes API's certificate.
    pub api_server_sans: Vec<String>,
    /// The port of the Kubernetes API on the node.
    pub api_port: u16,
    pub kubelet_image: Option<String>,
    /// The Kubernetes version, from the tag of the kubelet image, without `v`.
    pub kubernetes_version: Option<String>,
    /// The host name, where the configuration sets one.
    pub hostname: Option<String>,
    /// Static addresses with prefix length, of all links.
    pub addresses: Vec<String>,
    /// Addresses that the machine shares with others.
    pub vips: Vec<String>,
    /// DNS servers.
    pub nameservers: Vec<String>,
    pub time_servers: Vec<String>,
    /// Ranges of pod addresses.
    pub pod_subnets: Vec<String>,
    /// Ranges of service addresses.
    pub service_subnets: Vec<String>,
    /// Whether Talos sets up a CNI plugin. Since 1.14 only control planes are told; on a worker it is false then.
    pub has_cni: bool,
    /// Whether ordinary workloads may run here: always on workers, on control planes where it is allowed.
    pub schedulable: bool,
}

impl MachineView {
    /// Reads a complete configuration.
    ///
    /// # Errors
    ///
    /// With everything that is missing or cannot be used.
    pub fn read(documents: &Documents) -> Result<Self, Vec<Problem>> {
        let empty = Map::new();
        let v1alpha1 = documents.v1alpha1();
        let mut reader = Reader { documents, v1alpha1: v1alpha1.unwrap_or(&empty), problems: Vec::new() };
        if v1alpha1.is_none() {
            reader.problem("version", "there is no v1alpha1 document");
            return Err(reader.problems);
        }
        reader.read()
    }
}

struct Reader<'a> {
    documents: &'a Documents,
    v1alpha1: &'a Map,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<MachineView, Vec<Problem>> {
        let role = self.role();
        let token = self.required("machine.token", self.v1alpha1.text("machine.token"));
        let control_plane = role == Some(Role::ControlPlane);
        let ca = self.encoded("machine.ca", "machine.ca.crt", "machine.ca.key");
        if control_plane && ca.as_ref().is_some_and(|ca| ca.key.is_none()) {
            self.problem("machine.ca.key", "is missing on a control plane");
        }
        let endpoint = self.either("KubeClusterConfig", "endpoint", "cluster.controlPlane.endpoint");
        let endpoint = self.required("cluster.controlPlane.endpoint", endpoint);
        let kubernetes_ca = self.kubernetes_ca();
        let etcd_ca = self
            .v1alpha1
            .find("cluster.etcd")
            .and_then(|_| self.encoded("cluster.etcd.ca", "cluster.etcd.ca.crt", "cluster.etcd.ca.key"));
        if control_plane && etcd_ca.is_none() {
            self.problem("cluster.etcd.ca", "is missing on a control plane");
        }
        let kubelet_image = self.either("KubeletConfig", "image", "machine.kubelet.image").map(str::to_owned);
        let complete = || {
            Some(MachineView {
                role: role?,
                token: Secret::new(token?.to_owned()),
                ca: ca?,
                cert_sans: self.v1alpha1.texts("machine.certSANs"),
                endpoint: endpoint?.to_owned(),
                cluster_name: self
                    .either("KubeClusterConfig", "clusterName", "cluster.clusterName")
                    .map(str::to_owned),
                cluster_id: self
                    .either("DiscoveryIdentityConfig", "clusterID", "cluster.id")
                    .map(str::to_owned),
                kubernetes_ca: kubernetes_ca?,
                etcd_ca,
                api_server_sans: self.lists(
                    "KubeAPIServerConfig",
                    "certExtraSANs",
                    "cluster.apiServer.certSANs",
                ),
                api_port: self.api_port(),
                kubernetes_version: kubelet_image.as_deref().and_then(version_of_image),
                kubelet_image,
                hostname: self
                    .either("HostnameConfig", "hostname", "machine.network.hostname")
                    .map(str::to_owned),
                addresses: self.addresses(),
                vips: self.vips(),
                nameservers: self.nameservers(),
                time_servers: self.lists("TimeSyncConfig", "ntp.servers", "machine.time.servers"),
                pod_subnets: self.lists("KubeNetworkConfig", "podSubnets", "cluster.network.podSubnets"),
                service_subnets: self.lists(
                    "KubeNetworkConfig",
                    "serviceSubnets",
                    "cluster.network.serviceSubnets",
                ),
                has_cni: self.has_cni(),
                schedulable: role? == Role::Worker || self.schedulable(),
            })
        };
        match complete() {
            Some(view) if self.problems.is_empty() => Ok(view),
            _ => Err(self.problems),
        }
    }

    fn problem(&mut self, path: &'static str, reason: &'static str) {
        self.problems.push(Problem { path, reason });
    }

    fn required(&mut self, path: &'static str, text: Option<&'a str>) -> Option<&'a str> {
        let text = text.filter(|text| !text.is_empty());
        if text.is_none() {
            self.problem(path, "is missing");
        }
        text
    }

    fn role(&mut self) -> Option<Role> {
        match self.required("machine.type", self.v1alpha1.text("machine.type"))? {
            // The init type of old is a control plane that bootstraps itself.
            "controlplane" | "init" => Some(Role::ControlPlane),
            "worker" => Some(Role::Worker),
            _ => {
                self.problem("machine.type", "is neither controlplane nor worker");
                None
            }
        }
    }

    /// A text from a document, or from the v1alpha1 field that it replaced.
    fn either(&self, kind: &str, path: &str, field: &str) -> Option<&'a str> {
        self.documents
            .kind(kind)
            .and_then(|document| document.text(path))
            .or_else(|| self.v1alpha1.text(field))
    }

    /// A list of texts from a document, or from the v1alpha1 field that it replaced.
    fn lists(&self, kind: &str, path: &str, field: &str) -> Vec<String> {
        match self.documents.kind(kind) {
            Some(document) if document.find(path).is_some() => document.texts(path),
            _ => self.v1alpha1.texts(field),
        }
    }

    /// An authority whose parts are base64 of PEM.
    fn encoded(
        &mut self,
        whole: &'static str,
        certificate: &'static str,
        key: &'static str,
    ) -> Option<AuthorityView> {
        let encoded = self.v1alpha1.text(certificate).filter(|text| !text.is_empty());
        let Some(encoded) = encoded else {
            self.problem(whole, "has no certificate");
            return None;
        };
        let Some(certificate) = decode(encoded) else {
            self.problem(certificate, "is not base64 of a PEM certificate");
            return None;
        };
        let key = match self.v1alpha1.text(key).filter(|text| !text.is_empty()) {
            None => None,
            Some(encoded) => match decode(encoded) {
                Some(key) => Some(Secret::new(key)),
                None => {
                    self.problem(key, "is not base64 of a PEM key");
                    return None;
                }
            },
        };
        Some(AuthorityView { certificate, key })
    }

    fn kubernetes_ca(&mut self) -> Option<AuthorityView> {
        let Some(document) = self.documents.kind("KubeAPIServerCAConfig") else {
            return self.encoded("cluster.ca", "cluster.ca.crt", "cluster.ca.key");
        };
        let accepted = document.texts("acceptedCAs").into_iter().next();
        let certificate = document.text("issuingCA.cert").map(str::to_owned).or(accepted);
        let Some(certificate) = certificate else {
            self.problem("KubeAPIServerCAConfig", "has no certificate");
            return None;
        };
        Some(AuthorityView {
            certificate,
            key: document.text("issuingCA.key").map(|key| Secret::new(key.to_owned())),
        })
    }

    fn api_port(&self) -> u16 {
        let document =
            self.documents.kind("KubeAPIServerConfig").and_then(|document| document.get("apiPort"));
        let field = || self.v1alpha1.find("cluster.controlPlane.localAPIServerPort");
        let port = document.or_else(field).and_then(Value::as_int).and_then(|port| u16::try_from(port).ok());
        port.filter(|port| *port != 0).unwrap_or(6443)
    }

    fn interfaces(&self) -> impl Iterator<Item = &'a Map> {
        let interfaces = self.v1alpha1.find("machine.network.interfaces").and_then(Value::as_list);
        interfaces.unwrap_or_default().iter().filter_map(Value::as_map)
    }

    fn addresses(&self) -> Vec<String> {
        let documents = self.documents.of_kind("LinkConfig");
        let of_documents = documents.flat_map(|link| texts_in(link.get("addresses"), "address"));
        of_documents.chain(self.interfaces().flat_map(|interface| interface.texts("addresses"))).collect()
    }

    fn vips(&self) -> Vec<String> {
        let documents = self.documents.of_kind("Layer2VIPConfig");
        let of_documents = documents.filter_map(|document| document.text("name"));
        of_documents
            .chain(self.interfaces().filter_map(|interface| interface.text("vip.ip")))
            .map(str::to_owned)
            .collect()
    }

    fn nameservers(&self) -> Vec<String> {
        let document = self.documents.kind("ResolverConfig").and_then(|document| document.get("nameservers"));
        match document {
            Some(servers) => texts_in(Some(servers), "address"),
            None => self.v1alpha1.texts("machine.network.nameservers"),
        }
    }

    fn has_cni(&self) -> bool {
        if self.documents.kind("KubeNetworkConfig").is_some() {
            return self.documents.kind("KubeFlannelCNIConfig").is_some()
                || self
                    .documents
                    .of_kind("KubeExternalManifestConfig")
                    .any(|it| it.text("name") == Some("custom-cni"));
        }
        self.v1alpha1.text("cluster.network.cni.name") != Some("none")
    }

    fn schedulable(&self) -> bool {
        match self.documents.kind("KubeNodeConfig") {
            Some(node) => {
                let taints = node.get("taints").and_then(Value::as_map);
                taints.is_none_or(|taints| taints.get("node-role.kubernetes.io/control-plane").is_none())
            }
            None => self.v1alpha1.find("cluster.allowSchedulingOnControlPlanes") == Some(&Value::Bool(true)),
        }
    }
}

/// The texts under one key of each mapping in a list.
fn texts_in(list: Option<&Value>, key: &str) -> Vec<String> {
    let list = list.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(|item| item.as_map()?.text(key)).map(str::to_owned).collect()
}

fn decode(text: &str) -> Option<String> {
    let pem = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    crate::pem::decode(&pem).is_some().then_some(pem)
}

/// The version in an image name such as `ghcr.io/siderolabs/kubelet:v1.35.4@sha256:…`.
fn version_of_image(image: &str) -> Option<String> {
    let name = image.split('@').next()?;
    let (_, tag) = name.rsplit_once(':')?;
    tag.strip_prefix('v').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Cni, Input, MachineSettings, Nic, apply_machine, generate},
        contract::Contract,
        golden,
    };

    #[test]
    fn every_contract_reads_back_as_the_same_machine() {
        let bundle = golden::bundle();
        let node = MachineSettings {
            hostname: "cp-1".to_owned(),
            nics: vec![Nic {
                mac: "bc:24:11:00:00:01".to_owned(),
                addresses: vec!["10.25.150.11/24".to_owned()],
                gateway: Some("10.25.150.1".to_owned()),
                vip: Some("10.25.150.10".to_owned()),
                ..Nic::default()
            }],
            nameservers: vec!["1.1.1.1".to_owned()],
            time_servers: vec!["10.25.150.1".to_owned()],
            ..MachineSettings::default()
        };
        for role in [Role::ControlPlane, Role::Worker] {
            let mut views = Vec::new();
            for minor in 9..=14 {
                let contract = Contract::parse(&format!("v1.{minor}")).unwrap();
                let mut input = Input::new(contract, role, "home", "https://10.25.150.10:6443", "v1.35.4");
                input.cert_sans = vec!["home.example".to_owned()];
                input.cni = Cni::None;
                let mut documents = generate(&bundle, &input).unwrap();
                apply_machine(&mut documents, contract, &node).unwrap();
                let text = documents.to_yaml();
                let mut view = MachineView::read(&Documents::parse(&text).unwrap()).unwrap();
                // Before 1.12 the endpoint's host stands among these names too.
                view.api_server_sans.retain(|name| name != "10.25.150.10");
                views.push(view);
            }
            let view = &views[0];
            assert!(views.iter().all(|other| other == view), "{views:#?}");
            assert_eq!(view.role, role);
            assert_eq!(view.kubernetes_version.as_deref(), Some("1.35.4"));
            assert_eq!(view.addresses, ["10.25.150.11/24"]);
            assert_eq!(view.hostname.as_deref(), Some("cp-1"));
            assert_eq!(view.cluster_id.as_deref(), Some(bundle.cluster_id()));
            assert_eq!(view.ca.key.is_some(), role == Role::ControlPlane);
            assert_eq!(view.schedulable, role == Role::Worker);
            assert!(!view.has_cni);
            assert_eq!(view.vips.len(), usize::from(role == Role::ControlPlane));
        }
    }

    #[test]
    fn all_problems_are_found_and_no_secret_is_shown() {
        let documents = Documents::parse(
            "version: v1alpha1\nmachine: {type: controlplane, ca: {crt: eHg=, key: hunter2}}\n",
        )
        .unwrap();
        let problems = MachineView::read(&documents).unwrap_err();
        let said: Vec<&str> = problems.iter().map(|problem| problem.path).collect();
        assert_eq!(
            said,
            [
                "machine.token",
                "machine.ca.crt",
                "cluster.controlPlane.endpoint",
                "cluster.ca",
                "cluster.etcd.ca"
            ]
        );
        assert!(!format!("{documents:?}{problems:?}").contains("hunter2"));
        let partial = Documents::parse("kind: HostnameConfig\n").unwrap();
        assert_eq!(MachineView::read(&partial).unwrap_err().len(), 1);
    }
}
