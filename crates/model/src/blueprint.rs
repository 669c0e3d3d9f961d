//! The desired state of the cluster, with no choice left open but those that only Proxmox can decide.
//!
//! A blueprint is derived from the file alone, or from the file and an [`Inventory`] of what Proxmox has. Without the
//! inventory a host or a datastore that the file does not name stays `None`: open, never guessed. Without a secrets
//! bundle the identities stay open as well, because they derive from the cluster's id in it.

mod hardware;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use crate::spec::Role;
pub use hardware::{BootDisk, Disk, DiskOptions, Hardware, Nic, NodePatch, Pci, Route, Taint};

use crate::names::NodeName;
use crate::natural;
use crate::policy::Policy;
use crate::spec;
use crate::upgrade::{Components, Upgrade, Via};

/// The cluster as the file wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blueprint {
    /// The cluster's name.
    pub cluster: String,
    /// The id in the secrets bundle; open as long as there is no bundle.
    pub cluster_id: Option<String>,
    /// Where the Kubernetes API is reached: `https://HOST:6443`.
    pub endpoint: String,
    /// The address that moves between control planes.
    pub vip: Option<Ipv4Addr>,
    /// Kubernetes version, with the leading `v`.
    pub kubernetes: String,
    /// Pod network.
    pub pod_cidr: Ipv4Net,
    /// Service network.
    pub service_cidr: Ipv4Net,
    /// DNS domain inside the cluster.
    pub dns_domain: String,
    /// Whether workloads may run on control planes.
    pub schedule_on_control_planes: bool,
    /// Refuses `destroy` until the file says otherwise.
    pub protect: bool,
    /// Tags that every VM of ours carries, sorted; `talosmith` is always among them.
    pub tags: Vec<String>,
    /// The Proxmox resource pool of our VMs.
    pub resource_pool: Option<String>,
    /// The hosts that may carry VMs of the cluster, where the file names them. Empty: all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    /// The cluster record VM in Proxmox.
    pub record: Record,
    /// Boot images by key, shared between nodes that agree.
    pub images: BTreeMap<String, Image>,
    /// Every node by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// What else the file says about the cluster.
    pub options: Options,
    /// The upgrade that the file asks for, once it is known what runs. The versions of the nodes are then those after its next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
}

/// What the file says about the cluster that leaves nothing to decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Configuration contract, `v1.12`; open means that of each node's Talos.
    pub contract: Option<String>,
    /// Patch releases that an upgrade stops at on its way.
    #[serde(default)]
    pub via: Via,
    /// The network whose addresses kubelets announce, where it is not the first one.
    pub kubelet_network: Option<Ipv4Net>,
    /// The network that etcd's members talk over, where it is not the first one.
    pub etcd_network: Option<Ipv4Net>,
    /// Kubernetes itself.
    pub kubernetes: spec::Kubernetes,
    /// Manifests to apply.
    pub manifests: spec::Manifests,
    /// Hand-over to GitOps.
    pub gitops: Option<spec::GitOps>,
    /// How running nodes are changed.
    #[serde(default)]
    pub changes: Policy,
    /// Backups of etcd.
    pub backup: Option<spec::Backup>,
    /// Proxmox' address as the cluster itself reaches it.
    pub proxmox_api: Option<ProxmoxApi>,
    /// How VMs prove who they are, where the file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<spec::Identity>,
    /// Whether the certificate of Proxmox is not verified, so that what a console shows proves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// How something that runs in the cluster reaches Proxmox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxmoxApi {
    /// `https://HOST:8006`.
    pub url: String,
    /// Whether its certificate can be verified there. Only a public authority's can.
    pub verified: bool,
}

/// The stopped VM without disks that says whose the cluster is and carries lease and bootstrap mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the VM.
    pub name: String,
    /// VM id it is created with.
    pub vmid: u32,
    /// The VM id that it would have without `proxmox.record`, where that is another one: it may have been created with it.
    #[serde(skip)]
    pub usual_vmid: Option<u32>,
    /// Host it is created on.
    pub host: Option<String>,
    /// SMBIOS UUID.
    pub uuid: Option<Uuid>,
}

/// A boot image, before its schematic was given an id.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Image {
    /// Base URL of the Image Factory, without a trailing slash.
    pub factory: String,
    /// Talos version, with the leading `v`.
    pub talos: String,
    /// `amd64` or `arm64`.
    pub arch: String,
    /// Official system extensions, sorted.
    pub extensions: Vec<String>,
    /// Kernel arguments, in the order given.
    pub kernel_args: Vec<String>,
    /// File with the schematic, used as it stands instead of extensions and kernel arguments.
    pub schematic_file: Option<String>,
    /// Whether only what is signed boots.
    pub secure_boot: bool,
    /// How boot disks come to be.
    pub delivery: spec::Delivery,
    /// Proxy that hosts download through, without a trailing slash.
    pub mirror: Option<String>,
    /// Registry that installers are pulled from instead of the factory.
    pub installer_mirror: Option<String>,
}

/// One node, decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// VM name, host name and Kubernetes node name.
    pub name: NodeName,
    /// Its part.
    pub role: Role,
    /// The pool it came from; `None` for a node that the file names by itself.
    pub pool: Option<String>,
    /// Proxmox host it is created on; open until the inventory is known.
    pub host: Option<String>,
    /// Whether the file asks for that host, or it was chosen.
    pub host_pinned: bool,
    /// VM id.
    pub vmid: u32,
    /// SMBIOS UUID; open until there is a bundle.
    pub uuid: Option<Uuid>,
    /// MAC address of the first NIC, upper case. Empty for an external machine whose card the file does not name.
    pub mac: String,
    /// Address with its prefix length.
    pub address: Ipv4Net,
    /// Default gateway.
    pub gateway: Ipv4Addr,
    /// Name servers.
    pub dns: Vec<Ipv4Addr>,
    /// Time servers; empty means Talos' own default.
    pub ntp: Vec<String>,
    /// Bridge on the Proxmox host.
    pub bridge: String,
    /// VLAN tag on that bridge.
    pub vlan: Option<u16>,
    /// MTU of the NIC.
    pub mtu: Option<u16>,
    /// CPU cores.
    pub cores: u32,
    /// CPU type as Proxmox names it.
    pub cpu_type: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Size of the boot disk in GiB.
    pub disk_gib: u64,
    /// Datastore of the boot disk and the cloud-init drive; open until the inventory is known.
    pub disk_datastore: Option<String>,
    /// Datastore that holds the boot image; open until the inventory is known.
    pub image_datastore: Option<String>,
    /// Key into [`Blueprint::images`].
    pub image: String,
    /// Talos version, with the leading `v`.
    pub talos: String,
    /// Kubernetes version, with the leading `v`.
    pub kubernetes: String,
    /// Parts of Kubernetes that keep another version until it is their turn in an upgrade.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: Components,
    /// Kubernetes labels.
    pub labels: BTreeMap<String, String>,
    /// A machine that is not ours to create. Its VM id, UUID and hardware mean nothing.
    pub external: bool,
    /// The rest of its virtual hardware.
    pub hardware: Hardware,
    /// The rest of what it is.
    pub settings: NodeSettings,
}

/// What a node is beside its hardware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSettings {
    /// The hosts that its pool names for its nodes. Empty: all of the cluster's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether a DHCP server gives it its address, be it the one that is expected or another.
    pub dhcp: bool,
    /// Routes of the first network beside the default one.
    pub routes: Vec<Route>,
    /// Further network cards, in order: the first of them is `net1`.
    pub extra_nics: Vec<Nic>,
    /// Kubernetes annotations.
    pub annotations: BTreeMap<String, String>,
    /// More arguments of the kubelet.
    #[serde(default)]
    pub kubelet_args: BTreeMap<String, String>,
    /// Kubernetes taints by key.
    pub taints: BTreeMap<String, Taint>,
    /// Disk that Talos installs itself to, on an external machine.
    #[serde(default)]
    pub install_disk: Option<String>,
    /// Fingerprint of an external machine's certificate in maintenance mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Whether an external machine need not prove anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Patches of the Talos configuration, in the order they are applied: those of all nodes first.
    pub patches: Vec<NodePatch>,
}

/// What Proxmox offers, as far as resolving needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Hosts by name.
    pub hosts: BTreeMap<String, InventoryHost>,
}

impl Inventory {
    /// Whether a host shares a datastore with others. One that it does not have, it does not share.
    #[must_use]
    pub fn is_shared(&self, host: &str, datastore: &str) -> bool {
        let store = self.hosts.get(host).and_then(|host| host.datastores.get(datastore));
        store.is_some_and(|store| store.shared)
    }
}

/// One Proxmox host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryHost {
    /// Whether it answers.
    pub online: bool,
    /// Whether high availability has it in maintenance: it runs, and its guests are moved away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maintenance: bool,
    /// Logical CPUs; 0 where it does not tell.
    #[serde(default)]
    pub cpus: u32,
    /// Memory that VMs may use, in MiB.
    pub memory_mib: u64,
    /// Memory that is in use, in MiB.
    pub memory_used_mib: u64,
    /// Datastores by id.
    pub datastores: BTreeMap<String, InventoryDatastore>,
    pub bridges: Vec<String>,
}

/// One datastore as one host sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryDatastore {
    /// Content types that it takes (`images`, `import`, `iso`, …).
    pub content: Vec<String>,
    /// Whether other hosts see the same content.
    pub shared: bool,
    /// Free space in bytes.
    pub free_bytes: u64,
}

impl Blueprint {
    /// Whether there is a Proxmox at all: a cluster of external machines has none, and so no record.
    #[must_use]
    pub fn has_proxmox(&self) -> bool {
        self.nodes.values().any(|node| !node.external)
    }

    /// Whether VMs of the cluster may be on this host, as far as the file says.
    #[must_use]
    pub fn allows_host(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.contains(host)
    }

    /// The VM IDs that templates may have: behind the record's number with two digits more.
    #[must_use]
    pub fn template_ids(&self) -> std::ops::RangeInclusive<u32> {
        let record = self.record.vmid;
        let first = if record < 9_000_000 { record * 100 + 1 } else { record + 1 };
        first..=first.saturating_add(98)
    }

    /// The control planes, by name.
    pub fn control_planes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|n| n.role == Role::ControlPlane)
    }

    /// Whether etcd has no other member than this node.
    #[must_use]
    pub fn is_only_control_plane(&self, name: &str) -> bool {
        self.control_planes().all(|node| node.name == name) && self.control_planes().next().is_some()
    }

    /// Whether nodes are expected to wait for a CNI plugin: the file asks for none, and brings no manifest that
    /// could hold one.
    #[must_use]
    pub fn awaits_network(&self) -> bool {
        self.options.kubernetes.cni.details().name == spec::CniName::None && !self.brings_manifests()
    }

    /// Whether nodes are expected to wait for a cloud provider: the file asks for one, but names no version to install and
    /// brings no manifest that could hold it.
    #[must_use]
    pub fn awaits_cloud_provider(&self) -> bool {
        let provider = self.options.manifests.proxmox_ccm.as_ref();
        provider.is_some_and(|ccm| ccm.version.is_none()) && !self.brings_manifests()
    }

    /// Whether the file brings something that could run pods. What stands elsewhere is not known here, so it could.
    fn brings_manifests(&self) -> bool {
        let manifests = &self.options.manifests;
        let runs_pods =
            |text: &String| ["DaemonSet", "Deployment", "Job"].iter().any(|kind| text.contains(kind));
        !manifests.files.is_empty()
            || !manifests.urls.is_empty()
            || manifests.inline.values().any(runs_pods)
            || !manifests.helm.is_empty()
    }

    /// Every node as people list them: control planes, then workers, each counted by their numbers.
    #[must_use]
    pub fn in_order(&self) -> Vec<&Node> {
        let mut nodes: Vec<&Node> = self.nodes.values().collect();
        let is_worker = |node: &Node| node.role == Role::Worker;
        nodes
            .sort_by(|a, b| is_worker(a).cmp(&is_worker(b)).then_with(|| natural::compare(&a.name, &b.name)));
        nodes
    }

    /// The workers, by name.
    pub fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|n| n.role == Role::Worker)
    }
}

impl Node {
    /// Whether its pool lets it be on this host.
    #[must_use]
    pub fn may_be_on(&self, host: &str) -> bool {
        self.settings.hosts.is_empty() || self.settings.hosts.iter().any(|named| named == host)
    }
}

impl Image {
    /// The name under which an image of this kind lies in a datastore. It is the same for every cluster, so that they
    /// can share it.
    #[must_use]
    pub fn file_name(&self, schematic_id: &str) -> String {
        let short = schematic_id.get(..12).unwrap_or(schematic_id);
        format!("talos-{}-{short}-{}.qcow2", self.talos, self.variant())
    }

    /// Where hosts download it.
    #[must_use]
    pub fn url(&self, schematic_id: &str) -> String {
        let factory = match &self.mirror {
            Some(mirror) => {
                let host = self.factory.split_once("://").map_or(self.factory.as_str(), |(_, host)| host);
                format!("{mirror}/{host}")
            }
            None => self.factory.clone(),
        };
        format!("{factory}/image/{schematic_id}/{}/{}.qcow2", self.talos, self.variant())
    }

    fn variant(&self) -> String {
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        format!("nocloud-{}{secure}", self.arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_asked_for_where_the_file_says() {
        let plain = Image {
            factory: "https://factory.talos.dev".into(),
            talos: "v1.13.9".into(),
            arch: "amd64".into(),
            ..Image::default()
        };
        assert_eq!(plain.url("ab"), "https://factory.talos.dev/image/ab/v1.13.9/nocloud-amd64.qcow2");
        let mirrored =
            Image { mirror: Some("https://proxy.example".into()), secure_boot: true, ..plain.clone() };
        assert_eq!(
            mirrored.url("ab"),
            "https://proxy.example/factory.talos.dev/image/ab/v1.13.9/nocloud-amd64-secureboot.qcow2"
        );
        assert_ne!(plain.file_name("ab"), mirrored.file_name("ab"));
    }
}
