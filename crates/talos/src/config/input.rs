//! What a cluster's configuration is made from, beside its secrets.

use std::collections::BTreeMap;

use super::Contract;

/// What a machine is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

impl Role {
    /// The word that stands in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }
}

/// The CNI plugin that Talos sets up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cni {
    /// Flannel, Talos' default.
    #[default]
    Flannel,
    /// None: it comes from elsewhere.
    None,
    /// Manifests from URLs.
    Custom(Vec<String>),
}

/// A folder of the node that the kubelet sees too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraMount {
    /// Where the kubelet sees it.
    pub destination: String,
    /// Where it is on the node.
    pub source: String,
    /// The kind of mount, usually `bind`.
    pub kind: String,
    /// Mount options, such as `rshared`.
    pub options: Vec<String>,
}

/// The options of `talosctl gen config`, and the switches that people turn with patches everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Which release's form to write.
    pub contract: Contract,
    /// What the machine is.
    pub role: Role,
    pub cluster_name: String,
    /// The control plane endpoint, an `https://` URL; used as it stands.
    pub endpoint: String,
    /// The Kubernetes version, with or without `v`.
    pub kubernetes_version: String,
    /// The disk to install on. A booted disk image needs none.
    pub install_disk: Option<String>,
    /// The installer image.
    pub install_image: Option<String>,
    /// Kernel arguments for the installer; no form for them from 1.14 on.
    pub extra_kernel_args: Vec<String>,
    /// More names and addresses for the certificates of the Talos and the Kubernetes API.
    pub cert_sans: Vec<String>,
    /// The cluster's DNS domain.
    pub dns_domain: String,
    /// The ranges of pod addresses.
    pub pod_subnets: Vec<String>,
    /// The ranges of service addresses.
    pub service_subnets: Vec<String>,
    /// Whether machines find each other through the discovery service.
    pub discovery: bool,
    /// The CNI plugin.
    pub cni: Cni,
    /// Whether kube-proxy runs.
    pub kube_proxy: bool,
    /// Whether CoreDNS runs.
    pub core_dns: bool,
    /// Whether workloads may run on control planes.
    pub allow_scheduling_on_control_planes: bool,
    /// The port of the Kubernetes API on the node, where it is not the usual one.
    pub local_api_port: Option<u16>,
    /// Kernel parameters.
    pub sysctls: BTreeMap<String, String>,
    /// Endpoints by registry host.
    pub registry_mirrors: BTreeMap<String, Vec<String>>,
    /// Folders that the kubelet sees; no form for them from 1.14 on.
    pub extra_mounts: Vec<ExtraMount>,
    /// DNS servers that pods use, where they are not the usual ones.
    pub cluster_dns: Vec<String>,
}

impl Input {
    /// The input with everything optional as `talosctl` has it by default, but without an install disk.
    #[must_use]
    pub fn new(
        contract: Contract,
        role: Role,
        cluster_name: &str,
        endpoint: &str,
        kubernetes_version: &str,
    ) -> Self {
        Self {
            contract,
            role,
            cluster_name: cluster_name.to_owned(),
            endpoint: endpoint.to_owned(),
            kubernetes_version: kubernetes_version.to_owned(),
            install_disk: None,
            install_image: None,
            extra_kernel_args: Vec::new(),
            cert_sans: Vec::new(),
            dns_domain: "cluster.local".to_owned(),
            pod_subnets: vec!["10.244.0.0/16".to_owned()],
            service_subnets: vec!["10.96.0.0/12".to_owned()],
            discovery: true,
            cni: Cni::Flannel,
            kube_proxy: true,
            core_dns: true,
            allow_scheduling_on_control_planes: false,
            local_api_port: None,
            sysctls: BTreeMap::new(),
            registry_mirrors: BTreeMap::new(),
            extra_mounts: Vec::new(),
            cluster_dns: Vec::new(),
        }
    }

    /// Whether the machine is a control plane.
    pub(crate) fn is_control_plane(&self) -> bool {
        self.role == Role::ControlPlane
    }

    /// An image of Kubernetes' own at the wanted version.
    pub(crate) fn kubernetes_image(&self, name: &str) -> String {
        format!("registry.k8s.io/{name}:v{}", self.bare_kubernetes_version())
    }

    /// The kubelet image at the wanted version.
    pub(crate) fn kubelet_image(&self) -> String {
        format!("ghcr.io/siderolabs/kubelet:v{}", self.bare_kubernetes_version())
    }

    fn bare_kubernetes_version(&self) -> &str {
        self.kubernetes_version.strip_prefix('v').unwrap_or(&self.kubernetes_version)
    }

    /// The host of the endpoint, without port and brackets; nothing where the endpoint is no `https` URL.
    pub(crate) fn endpoint_host(&self) -> Option<&str> {
        let authority = self.endpoint.strip_prefix("https://")?.split('/').next()?;
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next()?,
            None => authority.split(':').next()?,
        };
        (!host.is_empty()).then_some(host)
    }
}
