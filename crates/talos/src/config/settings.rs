//! What people ask for beyond the plain configuration: of one machine, and of the cluster.
//!
//! These are wishes, not forms: which document or field holds each of them depends on the contract and is decided where they
//! are applied.

use std::collections::BTreeMap;

use super::ExtraMount;

/// The label under which Kubernetes knows a node's region.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// The label under which Kubernetes knows a node's zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The kernel modules that NVIDIA's driver needs, in the order in which they are loaded.
pub const NVIDIA_MODULES: [&str; 4] = ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"];

/// What is special to one machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineSettings {
    /// The host name.
    pub hostname: String,
    /// The network cards, each found by its MAC address.
    pub nics: Vec<Nic>,
    /// DNS servers; without any, what the platform or DHCP says.
    pub nameservers: Vec<String>,
    /// Time servers; without any, Talos' default.
    pub time_servers: Vec<String>,
    /// Kubernetes labels, added to those that every machine of its role has.
    pub labels: BTreeMap<String, String>,
    /// Kubernetes annotations.
    pub annotations: BTreeMap<String, String>,
    /// Kubernetes taints: the effect by key, with a value before it as in `value:NoSchedule`. A control plane keeps them as
    /// they stand here; a worker may only bring them along when it registers, because Kubernetes lets no kubelet change its
    /// own taints afterwards.
    pub taints: BTreeMap<String, String>,
    /// More arguments of the kubelet.
    pub kubelet_args: BTreeMap<String, String>,
    /// The subnets of which the kubelet takes the node's address.
    pub kubelet_subnets: Vec<String>,
    /// The subnets on which etcd is offered to other members. Only control planes have etcd.
    pub etcd_subnets: Vec<String>,
    /// Disks for data.
    pub volumes: Vec<UserVolume>,
    /// Folders of the machine that the kubelet sees too.
    pub mounts: Vec<ExtraMount>,
    /// Kernel modules to load.
    pub kernel_modules: Vec<KernelModule>,
    /// Mirrors by registry host.
    pub mirrors: BTreeMap<String, Mirror>,
}

/// One network card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nic {
    /// The MAC address.
    pub mac: String,
    /// Static addresses with their prefix length. Without one the card asks DHCP.
    pub addresses: Vec<String>,
    /// The default gateway.
    pub gateway: Option<String>,
    /// Further routes.
    pub routes: Vec<Route>,
    /// The MTU, where it is not the usual one.
    pub mtu: Option<u16>,
    /// The address that control planes share on this card. On a worker it is not written.
    pub vip: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where to, with prefix length.
    pub network: String,
    /// Through which router; without one the network is on the link itself.
    pub gateway: Option<String>,
    /// The metric; a smaller one is taken first.
    pub metric: Option<u32>,
}

/// How a disk is told from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskId {
    /// By its world wide name as the kernel shows it, such as `naa.5000c500abcd0001`.
    Wwid(String),
    /// By its serial number, where the bus has no names.
    Serial(String),
}

/// A disk for data. Talos mounts it under `/var/mnt` by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserVolume {
    /// Its name: letters, digits and hyphens.
    pub name: String,
    /// Which disk.
    pub disk: DiskId,
    /// The file system; without one, Talos' default.
    pub filesystem: Option<String>,
    /// Another path under which pods find it.
    pub mount: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelModule {
    pub name: String,
    /// Its parameters, such as `a=b`.
    pub parameters: Vec<String>,
}

/// Where images of a registry are fetched from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mirror {
    /// The URLs, tried in order.
    pub endpoints: Vec<String>,
    /// Whether the path of the URL stands in place of `/v2`.
    pub override_path: bool,
    /// Whether the registry itself is not asked when the mirrors fail.
    pub skip_fallback: bool,
}

/// What is the same for all machines of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterSettings {
    /// Who may sign in to Kubernetes beside the holders of certificates.
    pub oidc: Option<Oidc>,
    /// Whether a cloud provider in the cluster initialises the nodes.
    pub external_cloud_provider: bool,
    /// Manifests that Talos applies, by name.
    pub inline_manifests: BTreeMap<String, String>,
    /// URLs of manifests that Talos applies.
    pub extra_manifests: Vec<String>,
}

/// An OpenID Connect issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oidc {
    /// The issuer's URL.
    pub issuer: String,
    /// The client id, which stands in the tokens as audience.
    pub client_id: String,
    /// The claim that names the user; without one, the subject.
    pub username_claim: Option<String>,
    /// What stands before user names; without it, the issuer's URL and `#`.
    pub username_prefix: Option<String>,
    /// The claim that names the groups.
    pub groups_claim: Option<String>,
    /// What stands before group names.
    pub groups_prefix: Option<String>,
}
