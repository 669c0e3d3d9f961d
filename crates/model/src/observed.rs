//! What was found out there. Incomplete by design: what could not be seen is listed, never filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

mod kubernetes;

pub use kubernetes::{BlockingBudget, Cordon, Health, Kubernetes, KubernetesNode, NotReady};

use crate::blueprint::{Inventory, Role};
use crate::forms::Version;
use crate::mark::{Mark, RecordState};
use crate::names::{NodeName, VmRef};
use crate::policy::WindowState;
use crate::step::Disruption;
use crate::upgrade::{Component, Components};

/// Everything that was seen in one look at the world.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Proxmox' side.
    pub proxmox: Proxmox,
    /// What Talos says, by node name. A node without an entry was not asked, because it has no running VM.
    pub machines: BTreeMap<NodeName, Machine>,
    /// What Kubernetes says.
    pub kubernetes: Kubernetes,
    /// Nodes of this cluster that the file does not have any more. Their machines are asked like those of the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub removed: BTreeMap<NodeName, Removed>,
    /// Why nodes that run cannot have the images that the file asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_installers: Vec<NoImage>,
    /// Whether the maintenance window is open, where the file has one. It changes with the time, so a saved plan does not hold it.
    #[serde(skip)]
    pub window: WindowState,
    /// What could not be seen, and why.
    #[serde(alias = "unseen")]
    pub unobserved: Vec<Unobserved>,
}

/// A node of this cluster that the file does not have any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The ID of its VM in Proxmox.
    pub vmid: u32,
    /// The host that its VM is on.
    pub host: String,
    /// Its role, as its machine config, Kubernetes or etcd say.
    pub role: Role,
    /// Where its machine is reached; `None` where nothing says.
    pub address: Option<Ipv4Addr>,
    /// Disks with their size in GiB, which are deleted with the VM; 0 where Proxmox does not say it.
    pub disks: BTreeMap<String, u64>,
    /// Pods on it that no controller recreates, as `namespace/name`; `None` where Kubernetes did not tell. They come and go, so a saved
    /// plan does not hold them.
    #[serde(skip)]
    pub unmanaged_pods: Option<Vec<String>>,
}

/// Something that could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unobserved {
    /// What was looked for.
    pub what: String,
    /// Why it was not seen.
    pub why: String,
}

/// Proxmox' side of the world.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxmox {
    /// Why it could not be asked at all. Nothing else is known of it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresponsive: Option<String>,
    /// Whether that is because it rejected the token.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token_rejected: bool,
    /// Whether its hosts have a quorum. Without one nothing can be changed there. Nothing where that was not asked, or not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorate: Option<bool>,
    /// Version of the server that answered, such as `9.1.8`.
    pub version: String,
    /// Hosts, datastores, bridges.
    pub inventory: Inventory,
    /// Ids of all guests, ours or not, with name and host.
    pub taken: BTreeMap<u32, Guest>,
    /// VMs that may be ours and could not be read, with their host.
    pub unread: BTreeMap<u32, String>,
    /// Those of them that were read, and are ours by their UUID, but whose notes lost the mark: which node each is.
    #[serde(default)]
    pub unmarked: BTreeMap<u32, String>,
    /// The generation ID of each of those, where it has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmarked_generations: BTreeMap<u32, Uuid>,
    /// Those of them whose notes a newer Talosmith wrote, or may have written, for this cluster: the version of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub newer: BTreeMap<u32, u64>,
    /// VMs that nothing in Proxmox' list connects with this cluster and that could not be read. Asked only where no record was found:
    /// one of them may be the record, or a node, without its tag and under another name and ID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unchecked: BTreeMap<u32, Unchecked>,
    /// VM IDs of this cluster that are in use by a guest that Proxmox does not list, or where that could not be asked: then with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hidden: BTreeMap<u32, Option<String>>,
    /// VMs with a VM ID or a mark of this cluster that are being created, or whose creation was cut off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub creating: BTreeMap<u32, Creation>,
    /// VMs that carry a mark of Talosmith, whichever cluster's.
    pub marked: Vec<Vm>,
    /// The record of the cluster, if it was found.
    pub record: Option<RecordSeen>,
    /// Addresses for new machines that are already in use, with what was seen there.
    pub occupied: BTreeMap<Ipv4Addr, String>,
    /// What the token may not do and new nodes need.
    pub missing_rights: Vec<MissingRight>,
    /// Nodes whose VM the token may not open the console of. `None` where it was not asked, or could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_console: Option<BTreeSet<NodeName>>,
    /// Boot images found in datastores.
    pub images: BTreeSet<StoredImage>,
    /// Those of them that new nodes boot from and of which it is not known whether they are whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsized_images: Vec<UnsizedImage>,
    /// Why new nodes cannot have their images.
    pub no_images: Vec<NoImage>,
    /// What the file names, new nodes need, and Proxmox does not have.
    #[serde(default)]
    pub missing_resources: Vec<MissingResource>,
    /// Documents that machines of a new cluster will fetch, and a host does not find.
    #[serde(default)]
    pub missing_documents: Vec<MissingDocument>,
    /// Accounts for what runs in the cluster. `None` where they were not needed, or could not be read.
    pub accounts: Option<Accounts>,
    /// What Proxmox says about moving VMs to another host, by VM ID: only of those that are to move.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub migrations: BTreeMap<u32, Migration>,
}

/// What Proxmox says about moving a VM to another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Migration {
    /// It did not say.
    Unknown {
        /// Why not.
        why: String,
    },
    /// What ties the VM to its host.
    Known {
        /// Volumes that the hosts do not share. They move with it.
        local_disks: Vec<String>,
        /// Devices of the host, with which it never moves.
        local_resources: Vec<String>,
        /// Devices by the name of a mapping, with which it does not move while it runs.
        mapped_resources: Vec<String>,
        /// Hosts that it cannot move to, each with what is missing there.
        not_allowed: BTreeMap<String, Vec<String>>,
    },
}

/// A privilege that the token does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRight {
    /// Where, as Proxmox writes it.
    pub path: String,
    /// Which.
    pub privilege: String,
}

/// Users and roles of Proxmox, as far as the cluster's own accounts are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    /// Whether the token may make and remove them. One that may not does not see all of them either.
    pub may_change: bool,
    /// Those that are there, each with the cluster that its comment names.
    pub users: BTreeMap<String, Option<Uuid>>,
    /// Those of them that have a token of the wanted name that does not say that it was made for this cluster, as the user does not.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub foreign_tokens: BTreeSet<String>,
    /// Those of their roles that other accounts have, too.
    pub shared_roles: BTreeSet<String>,
}

/// Any guest of Proxmox, as the list of resources shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Its name, which Proxmox may not know for some seconds after creation.
    pub name: Option<String>,
    /// The host it is on.
    pub host: String,
    /// Lock that Proxmox holds on it. With `create` it is being made, and does not show yet whose it is.
    pub lock: Option<String>,
}

/// A VM that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchecked {
    /// The host it is on.
    pub host: String,
    /// Its name. Proxmox does not list the names of VMs whose host is offline.
    pub name: Option<String>,
    /// What kept it from being read.
    pub reason: NotRead,
}

/// Why a VM could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum NotRead {
    /// The token has no right to.
    Forbidden,
    /// Its host is offline.
    Offline,
    /// Anything else.
    Failed {
        /// What was answered.
        why: String,
    },
}

/// A VM that Proxmox is creating, as its lock says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creation {
    /// The host it is on.
    pub host: String,
    /// The lock: `create` or `clone`.
    pub lock: String,
    /// Whether a task is working on it; `None` when the tasks could not be read.
    pub active: Option<bool>,
}

/// A VM with a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Its ID in Proxmox, which no other guest of the cluster of hosts has.
    pub vmid: u32,
    /// Host it is on now.
    pub host: String,
    /// Its name in Proxmox, which need not be that of a node.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// Lock that Proxmox holds on it (`create`, `backup`, …).
    pub lock: Option<String>,
    /// SMBIOS UUID.
    pub uuid: Option<Uuid>,
    /// Generation ID, which Proxmox changes when the VM is cloned, restored or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmgenid: Option<Uuid>,
    /// The generation ID that the cluster record VM has for its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Uuid>,
    /// Whose it says it is.
    pub mark: Mark,
    /// The resource pool it is in.
    pub pool: Option<String>,
    /// Its configuration as it runs, in Proxmox' words, without what is secret.
    pub config: BTreeMap<String, String>,
    /// Its state in Proxmox' high availability (`started`, `stopped`, `migrate`, …); `None` where that does not manage it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ha_state: Option<String>,
    /// What waits for its next stop and start; `None` is a key that goes.
    pub pending: BTreeMap<String, Option<String>>,
}

impl Vm {
    /// Where it is.
    #[must_use]
    pub fn at(&self) -> VmRef {
        VmRef::new(&self.host, self.vmid)
    }

    /// A key of its configuration from the next start on.
    #[must_use]
    pub fn next(&self, key: &str) -> Option<&str> {
        match self.pending.get(key) {
            Some(waits) => waits.as_deref(),
            None => self.config.get(key).map(String::as_str),
        }
    }
}

/// The cluster record VM as found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSeen {
    /// Its ID in Proxmox, which no other guest of the cluster of hosts has.
    pub vmid: u32,
    /// Host it is on.
    pub host: String,
    /// What it says.
    pub state: RecordState,
    /// Whether its notes say nothing that can be read; then `state` is empty, and means nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

impl RecordSeen {
    /// Where it is.
    #[must_use]
    pub fn at(&self) -> VmRef {
        VmRef::new(&self.host, self.vmid)
    }
}

/// A boot image in a datastore.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoredImage {
    /// The host that sees it.
    pub host: String,
    /// The datastore that the file is in.
    pub datastore: String,
    /// File name.
    pub file: String,
}

/// A file with the name of an image, whose size could not be compared with the image's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsizedImage {
    /// Where the file is.
    pub image: StoredImage,
    /// Which of both sizes is not known, and why.
    pub why: String,
}

/// Something that the file names and Proxmox does not have, or does not show to the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum MissingResource {
    /// A resource pool.
    Pool {
        /// The name of the pool in the file.
        pool: String,
    },
    /// A device by its mapping.
    Device {
        /// The mapping's name.
        mapping: String,
        /// The host that should have one.
        host: String,
        /// Whether other hosts have one.
        elsewhere: bool,
    },
}

/// A document that a host did not find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingDocument {
    /// The host that was asked.
    pub host: String,
    /// Where it looked.
    pub url: String,
    /// What it was answered.
    pub why: String,
}

/// Why an image that new nodes need cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum NoImage {
    /// The factory does not answer here, so it cannot be told of the schematic.
    FactorySilent {
        /// The address of the factory.
        factory: String,
        /// What was seen instead.
        why: String,
    },
    /// The factory does not have the release.
    UnknownRelease {
        /// The address of the factory.
        factory: String,
        /// The Talos release, with its leading `v`.
        talos: String,
    },
    /// The factory does not have the extension for the release.
    UnknownExtension {
        /// The address of the factory.
        factory: String,
        /// The Talos release, with its leading `v`.
        talos: String,
        /// The name of the extension in the file.
        extension: String,
    },
    /// A host that would download has no connection.
    HostCannotReach {
        /// The host that has no connection.
        host: String,
        /// Where it would go.
        url: String,
        /// What it says.
        why: String,
    },
    /// A file of the image's name is there, and is not as long as the image.
    AnotherFile {
        /// The host that has it.
        host: String,
        /// The datastore that the file is in.
        datastore: String,
        /// The name of the file, which is that of the image.
        file: String,
        /// How many bytes it has.
        bytes: u64,
        /// How many the image has, where it is downloaded from.
        expected: u64,
    },
    /// The factory does not answer, and the mirror was never told of the image.
    NotInMirror {
        /// The host that asked.
        host: String,
        /// Where the image should be.
        url: String,
    },
}

/// What one machine said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// How its API answers.
    pub api: Api,
    /// Talos version it runs.
    pub talos: Option<String>,
    /// Its role, as it says itself. Asked only of nodes that the file does not have.
    #[serde(skip)]
    pub role: Option<Role>,
    /// Stage (`booting`, `maintenance`, `running`, …).
    pub stage: Option<String>,
    /// Whether it calls itself ready.
    pub ready: bool,
    /// What it says it still waits for.
    pub unmet: Vec<String>,
    /// SHA-256 of the configuration it runs.
    pub config_digest: Option<String>,
    /// Where that differs from what the file describes; `None` when it could not be compared.
    pub config_changes: Option<Vec<ConfigChange>>,
    /// The schematic of the image that it runs, as the image itself says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schematic: Option<String>,
    /// The system extensions of that image with their versions; `None` where it did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<BTreeMap<String, String>>,
    /// Services that should run and do not, or are not healthy, with what they say; `None` where it did not tell. That changes from one
    /// moment to the next, so a saved plan does not hold it.
    #[serde(skip)]
    pub unhealthy: Option<BTreeMap<String, String>>,
    /// Its part in etcd.
    pub etcd: Etcd,
    /// What its member says of etcd as a whole; `None` where it did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_status: Option<EtcdStatus>,
    /// The addresses that it has now; `None` where it was not asked, or did not tell. They come and go with the VIP, so they are
    /// no fact that a plan depends on.
    #[serde(skip)]
    pub addresses: Option<BTreeSet<Ipv4Addr>>,
    /// Whether its kubelet was ever registered. Asked only where no member of etcd answers.
    #[serde(default)]
    pub kubelet: Kubelet,
    /// What changes with every boot and with nothing else; a saved plan does not hold it.
    #[serde(skip)]
    pub boot_id: Option<String>,
    /// The kernel command line that it runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_args: Option<String>,
    /// The versions of Kubernetes that its machine config names, by component.
    #[serde(default, skip_serializing_if = "Components::is_empty")]
    pub components: Components,
    /// What the Talos release that it is upgraded to next would refuse in the machine config that it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_problems: Vec<String>,
    /// What the parts of Kubernetes would not start with after the next hop, although it is in the machine config that it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_problems: Vec<String>,
    /// Kernel arguments that its machine config has for the installer. From 1.13 on, no installer reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install_args: Vec<String>,
}

/// One place in which a machine's configuration is not what the file describes. It carries values only where they are known to be no
/// secrets, because values are keys as often as not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Where.
    pub path: String,
    /// What changing it costs the machine.
    pub costs: ConfigCost,
    /// What it is and what the file says, as far as that may be shown.
    #[serde(default)]
    pub difference: ConfigDifference,
}

/// Where a machine config has the address of the Kubernetes API.
pub const ENDPOINT: &str = "cluster.controlPlane.endpoint";

impl ConfigChange {
    /// Whether this follows from another address of the Kubernetes API.
    #[must_use]
    pub fn is_of_endpoint(&self) -> bool {
        [ENDPOINT, "cluster.apiServer.certSANs"].contains(&self.path.as_str())
            || self.path.starts_with("Layer2VIPConfig/")
    }

    /// Another version of a part of Kubernetes, if it is nothing else: the part, the version that runs, and the image that it becomes.
    #[must_use]
    pub fn of_component(&self) -> Option<ComponentChange> {
        let ConfigDifference::Values { old: Some(old), new: Some(new) } = &self.difference else {
            return None;
        };
        let component = match self.path.as_str() {
            "cluster.apiServer.image" | "KubeAPIServerConfig: image" => Component::ApiServer,
            "cluster.controllerManager.image" | "KubeControllerManagerConfig: image" => {
                Component::ControllerManager
            }
            "cluster.scheduler.image" | "KubeSchedulerConfig: image" => Component::Scheduler,
            "cluster.proxy.image" | "KubeProxyConfig: image" => Component::Proxy,
            "machine.kubelet.image" | "KubeletConfig: image" => Component::Kubelet,
            _ => return None,
        };
        let (is, becomes) = (image_and_tag(old)?, image_and_tag(new)?);
        let (runs, wanted) = (Version::read(is.1)?, Version::read(becomes.1)?);
        (is.0 == becomes.0 && runs != wanted).then(|| ComponentChange {
            component,
            runs: runs.to_string(),
            wanted: wanted.to_string(),
            image: new.clone(),
        })
    }
}

/// Another version of a part of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentChange {
    pub component: Component,
    /// The version that runs.
    pub runs: String,
    /// The version that it becomes.
    pub wanted: String,
    /// The image that it becomes.
    pub image: String,
}

/// The name of an image, and its tag. A digest behind it is left out.
fn image_and_tag(image: &str) -> Option<(&str, &str)> {
    image.split('@').next().unwrap_or(image).rsplit_once(':')
}

/// With what is and what becomes of it: for people.
impl std::fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unset = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        match &self.difference {
            ConfigDifference::Added => write!(f, "{} (added)", self.path),
            ConfigDifference::Removed => write!(f, "{} (removed)", self.path),
            ConfigDifference::Changed => write!(f, "{} (changed)", self.path),
            ConfigDifference::Values { old, new } => {
                write!(f, "{} ({} → {})", self.path, unset(old), unset(new))
            }
        }
    }
}

/// How a value of a machine's configuration differs from the file's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigDifference {
    /// The file has it, the machine does not. It is not shown.
    Added,
    /// The machine has it, the file does not. It is not shown.
    Removed,
    /// Both have it. It is not shown.
    #[default]
    Changed,
    /// Nothing secret: `old` runs, `new` is what the file says; `None` is not set.
    Values {
        /// What runs.
        old: Option<String>,
        /// What the file says.
        new: Option<String>,
    },
}

/// What a change of its configuration costs a machine that runs, from the least to the most.
///
/// `talos::config::ConfigCost` is the same enum: plans are made without that crate, which brings certificates and wire types. The engine
/// translates, case by case. [`Self::disruption`] says what it means for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigCost {
    /// Nothing: it follows at once.
    Nothing,
    /// Only the next installation or upgrade reads it: what runs stays as it is.
    Install,
    /// It may be cut off.
    Network,
    /// Services of it restart.
    Services,
    /// It restarts.
    Reboot,
    /// A volume with data is taken from what uses it.
    Volume,
}

impl ConfigCost {
    /// The class of such a change.
    #[must_use]
    pub fn disruption(self) -> Disruption {
        match self {
            Self::Nothing => Disruption::InPlace,
            // An upgrade ends with a reboot.
            Self::Install => Disruption::Reboot,
            Self::Network | Self::Services | Self::Volume => Disruption::ServiceRestart,
            Self::Reboot => Disruption::Reboot,
        }
    }
}

/// How the Talos API of a node answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Api {
    /// It does not.
    Unresponsive {
        /// What was seen instead.
        why: String,
    },
    /// It waits for a configuration, and is our VM.
    Maintenance,
    /// It has a configuration under our authority.
    Configured,
    /// Something answers at the address, but it is not our VM or not under our authority.
    ForeignMachine {
        /// Whose it seems to be.
        why: String,
    },
    /// A machine that has a configuration, with other keys than those of the bundle.
    OtherKeys {
        /// What was seen.
        why: String,
    },
}

/// One entry of etcd's member list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// Member ID in hex.
    pub id: String,
    /// The host name of its node; empty while it starts for the first time.
    pub name: String,
    /// Whether it does not vote yet.
    pub learner: bool,
    /// Where the other members reach it.
    #[serde(default)]
    pub peers: Vec<String>,
}

impl Member {
    /// Whether it is the member of a node. Its host name may be fully qualified.
    pub(crate) fn is_of(&self, node: &str) -> bool {
        self.name.split('.').next() == Some(node)
    }
}

/// A node's part in etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Etcd {
    /// Unknown. A machine in maintenance mode is one of these: wiping STATE alone keeps etcd's data.
    Unknown,
    /// It was proved that it has no etcd data; or it is a worker.
    Empty,
    /// It has etcd data, or its etcd runs, and it is no member yet as far as it says.
    Data,
    Member {
        /// Member id in hex.
        id: String,
        /// Not yet a voter.
        learner: bool,
        /// All members, as this one lists them; `None` when it did not tell. Talos' API does not give the etcd cluster's id,
        /// so the list is what two members can be compared by.
        #[serde(default)]
        members: Option<Vec<Member>>,
    },
}

/// What a member says of etcd as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdStatus {
    /// The leader's member ID in hex; `None` when it sees no leader.
    pub leader: Option<String>,
    /// What it complains about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// The raft term. Terms and indexes move all the time, so a saved plan does not hold them.
    #[serde(skip)]
    pub term: u64,
    /// The newest entry of the log that it has.
    #[serde(skip)]
    pub index: u64,
    /// The newest entry of the log that it has applied.
    #[serde(skip)]
    pub applied: u64,
    /// Whether Talos calls the service healthy; `None` where it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
}

/// Whether a machine's kubelet was ever registered in Kubernetes. One that was holds a client certificate, signed by this
/// cluster's authority, which proves that the cluster existed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kubelet {
    /// It was not asked, or did not tell.
    #[default]
    Unknown,
    /// It holds no certificate.
    Never,
    /// It holds one.
    Registered,
}

impl Machine {
    /// Whether it answers and is about to stop: what it runs now says nothing of what it comes back with.
    #[must_use]
    pub fn goes_down(&self) -> bool {
        matches!(self.stage.as_deref(), Some("rebooting" | "shutting down" | "upgrading"))
    }

    /// A machine that does not answer.
    #[must_use]
    pub fn unresponsive(why: impl Into<String>) -> Self {
        Self::with(Api::Unresponsive { why: why.into() })
    }

    /// A machine of which only this is known.
    #[must_use]
    pub fn with(api: Api) -> Self {
        Self {
            api,
            talos: None,
            role: None,
            stage: None,
            ready: false,
            unmet: vec![],
            config_digest: None,
            config_changes: None,
            schematic: None,
            extensions: None,
            unhealthy: None,
            etcd: Etcd::Unknown,
            etcd_status: None,
            addresses: None,
            kubelet: Kubelet::Unknown,
            boot_id: None,
            kernel_args: None,
            components: Components::new(),
            component_problems: vec![],
            config_problems: vec![],
            install_args: vec![],
        }
    }
}

impl Proxmox {
    /// Nodes of ours. The record and templates are not among them.
    pub fn of(&self, owner: Uuid) -> impl Iterator<Item = &Vm> {
        self.marked.iter().filter(move |v| v.mark.owner == owner && v.mark.is_node())
    }

    /// Whether a host has this boot image: in the datastore that it sees, or in one that it shares with the host on which it was found.
    #[must_use]
    pub fn has_image(&self, host: &str, datastore: &str, file: &str) -> bool {
        let is_shared = |host: &str| self.inventory.is_shared(host, datastore);
        self.images.iter().any(|stored| {
            stored.datastore == datastore
                && stored.file == file
                && (stored.host == host || (is_shared(host) && is_shared(&stored.host)))
        })
    }

    /// Templates of ours.
    pub fn templates(&self, owner: Uuid) -> impl Iterator<Item = &Vm> {
        self.marked.iter().filter(move |v| v.mark.owner == owner && v.mark.is_template())
    }
}
