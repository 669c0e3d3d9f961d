//! The closed list of things that a plan may ask for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::holder::Holder;
use crate::names::{NodeName, VmRef};
use crate::upgrade::Component;

/// Names a step within its plan, such as `create-vm/home-control-1`. Stable between plans that ask for the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(pub String);

impl StepId {
    /// The kind of the action, such as `create-vm`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// What the action is about: nodes, hosts, disks, files.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }
}

impl std::fmt::Display for StepId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a unit within its plan, such as `restart/home-work-1`. Stable between plans that ask for the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitId(pub String);

impl UnitId {
    /// Whether it makes a node again.
    #[must_use]
    pub fn is_replacement(&self) -> bool {
        self.kind() == "replace"
    }

    /// The kind of the unit, such as `restart`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

impl std::fmt::Display for UnitId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The name that other steps and events refer to.
    pub id: StepId,
    /// What is done.
    pub action: Action,
    /// Steps that must have succeeded before.
    pub after: Vec<StepId>,
    /// Why it is needed.
    pub reason: String,
    /// What it disrupts.
    #[serde(alias = "disturbs")]
    pub disruption: Disruption,
    /// About how long it takes, in seconds.
    pub seconds: u32,
    /// The unit that it is part of, where it is part of a disruption: it runs only with the permit of that unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitId>,
}

/// What a change does to things that already run, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disruption {
    /// Nothing that runs is affected.
    #[serde(alias = "nothing")]
    None,
    /// A running machine takes the change over and continues.
    #[serde(alias = "hot")]
    InPlace,
    /// A service of the machine restarts, or its network is down for a moment.
    #[serde(alias = "restart")]
    ServiceRestart,
    /// The machine is drained and reboots.
    Reboot,
    /// The machine is drained, and its VM is stopped and started.
    PowerCycle,
    /// Only a new machine can have it.
    Replace,
    /// It deletes something for good.
    #[serde(alias = "removes")]
    Delete,
}

/// What is done. Every value that execution needs is here or in the blueprint: no choice is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Action {
    /// Makes the schematic known to the Image Factory.
    RegisterSchematic {
        /// Key of the image in the blueprint.
        image: String,
        /// The id that the factory must answer with.
        schematic: String,
    },
    /// Lets a Proxmox host fetch a boot image.
    DownloadImage {
        /// Host that fetches.
        host: String,
        /// Datastore that keeps it.
        datastore: String,
        /// File name there.
        file: String,
        /// Where it comes from.
        url: String,
    },
    /// Creates the cluster record VM and takes the lease in it.
    CreateRecord {
        #[serde(flatten)]
        vm: VmRef,
        /// The node of a member of etcd that answers: the record then says from the start that etcd is bootstrapped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<NodeName>,
    },
    /// Writes into the cluster record VM that etcd is bootstrapped, where the record does not say so and a member answers.
    SealRecord {
        #[serde(flatten)]
        vm: VmRef,
        /// The node of a member that answers.
        member: NodeName,
    },
    /// Gives the cluster record VM its name and the tags back that it lost.
    #[serde(alias = "tag-record")]
    UpdateRecord {
        #[serde(flatten)]
        vm: VmRef,
    },
    /// Creates a node's VM with its disks.
    CreateVm {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Datastore of the boot disk.
        datastore: String,
        /// Volume that the boot disk is copied from.
        image: String,
    },
    /// Makes a template that nodes are copied from.
    CreateTemplate {
        /// Name of its VM.
        name: String,
        /// Whose and which it is; the name in its mark.
        mark: String,
        #[serde(flatten)]
        vm: VmRef,
        /// Key of its disk.
        disk: String,
        /// Datastore of its disk.
        datastore: String,
        /// Volume that its disk is copied from.
        image: String,
    },
    /// Makes a node's VM as a full copy of a template, then gives it its own hardware.
    CloneVm {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// VM id of the template, on the same host.
        template: u32,
        /// Datastore of the boot disk.
        datastore: String,
    },
    /// Brings a VM's configuration to what the file says.
    UpdateVm {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Keys with the values that they get.
        set: BTreeMap<String, String>,
        /// The resource pool that it is put into.
        pool: Option<String>,
        /// What changes, in words.
        says: Vec<String>,
    },
    GrowDisk {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Key of the disk.
        disk: String,
        /// To this size.
        gib: u64,
    },
    /// Starts a node's VM.
    StartVm {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
    },
    /// Gives a machine its configuration, after its identity was proved.
    Configure {
        /// The name of the node in the file.
        node: NodeName,
        /// It was configured before, as far as can be seen, and does not answer now: the step waits for it, and it gets its configuration
        /// only should it have none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        if_needed: bool,
    },
    /// Gives a machine that runs the configuration that the file describes.
    Reconfigure {
        /// The name of the node in the file.
        node: NodeName,
        /// What the machine may do to take it over.
        #[serde(default, skip_serializing_if = "ConfigMode::is_no_reboot")]
        mode: ConfigMode,
    },
    /// Saves a snapshot of etcd, before something that cannot be undone.
    SnapshotEtcd,
    /// Cordons a node and evicts its pods.
    DrainNode {
        /// The name of the node in Kubernetes.
        node: NodeName,
    },
    /// Moves the leadership of etcd from a node to another healthy member.
    MoveLeadership {
        /// The name of the node in the file.
        node: NodeName,
    },
    /// Reboots a machine, and waits until it has booted again.
    RebootNode {
        /// The name of the node in the file.
        node: NodeName,
        /// How it reboots.
        #[serde(default)]
        mode: RebootMode,
    },
    /// Changes a VM in what it takes over only with a stop and start, and stops and starts it.
    PowerCycleVm {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Keys with the values that they get.
        set: BTreeMap<String, String>,
        /// What changes, in words.
        says: Vec<String>,
    },
    /// Moves a VM to another Proxmox host. One that cannot move while it runs is shut down before and started there.
    MigrateVm {
        /// The name of the node in the file.
        node: NodeName,
        /// The VM, where it is now.
        #[serde(flatten)]
        vm: VmRef,
        /// The host that it moves to.
        to: String,
        /// Whether it runs meanwhile.
        online: bool,
        /// Whether disks move with it that the hosts do not share.
        local_disks: bool,
    },
    /// Moves the cluster record VM, which never runs, to another Proxmox host.
    MigrateRecord {
        /// The VM, where it is now.
        #[serde(flatten)]
        vm: VmRef,
        /// The host that it moves to.
        to: String,
    },
    /// Writes into the cluster record VM that a Proxmox host is drained, and which nodes leave it or are shut down there.
    DrainHost { host: String, nodes: BTreeSet<NodeName> },
    /// Writes into the cluster record VM that a Proxmox host is not drained any more.
    UndrainHost { host: String },
    /// Gives a VM that is off a new system disk, copied from the boot image, and deletes the old one. All other disks stay.
    RenewDisk {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Key of the system disk.
        disk: String,
        /// The volume that is there, and no other one; `None` where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
        /// Volume that the new one is copied from.
        image: String,
    },
    /// Detaches a data disk from a VM and deletes it.
    DeleteDisk {
        /// The name of the node in the file.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Key of the disk.
        disk: String,
        /// The volume that is there, and no other one.
        volume: String,
        /// Its size, where it is known.
        gib: Option<u64>,
    },
    /// Lets a machine pull an image, so that nothing waits for the network while a node is drained.
    PullImage {
        /// The name of the node in the file.
        node: NodeName,
        image: String,
    },
    /// Lets a machine pull the images of a Kubernetes version, so that nothing waits for the network while something is down.
    PullImages {
        /// The name of the node in the file.
        node: NodeName,
        /// The images, with the part of Kubernetes that each is of.
        images: BTreeMap<Component, String>,
    },
    /// Gives a part of Kubernetes on one node another version, and waits until that runs and is ready.
    UpgradeComponent {
        /// The name of the node in the file.
        node: NodeName,
        component: Component,
        /// The version that it runs afterwards, with the leading `v`.
        version: String,
    },
    /// Gives the pods of kube-proxy another version, and waits until they run and are ready. Talos itself changes no object that it
    /// created.
    UpgradeProxy {
        /// The version that they run afterwards, with the leading `v`.
        version: String,
    },
    /// Installs another image of Talos on a machine's disk. The machine boots it at its next reboot.
    InstallTalos {
        /// The name of the node in the file.
        node: NodeName,
        /// The installer image.
        image: String,
        /// The Talos release that it brings.
        talos: String,
        /// How a machine reboots that does so by itself, as those before 1.13 do.
        #[serde(default)]
        mode: RebootMode,
    },
    /// Waits until a node that was disrupted is whole again, and stays so for the soak time.
    VerifyNode {
        /// The name of the node in the file.
        node: NodeName,
    },
    /// Lets pods come to a node again, where Talosmith cordoned it.
    UncordonNode {
        /// The name of the node in Kubernetes.
        node: NodeName,
    },
    /// Cordons a node because a person asked for it. What is cordoned so, Talosmith does not uncordon by itself.
    CordonNode {
        /// The name of the node in Kubernetes.
        node: NodeName,
    },
    /// Uncordons a node because a person asked for it, no matter who cordoned it.
    ReleaseNode {
        /// The name of the node in Kubernetes.
        node: NodeName,
    },
    /// Shuts a machine down, and waits until it is off.
    ShutdownNode {
        /// The name of the node in the file.
        node: NodeName,
    },
    /// Lets a control plane node leave etcd, and sees it gone from the lists of all other members.
    LeaveEtcd {
        /// The name of the node, which the file may not have any more.
        node: NodeName,
    },
    /// Deletes a node from Kubernetes.
    DeleteNode {
        /// The name of the node in Kubernetes.
        node: NodeName,
    },
    /// Starts etcd on one control plane.
    Bootstrap {
        /// The name of the node in the file.
        node: NodeName,
    },
    /// Waits until a node has its place in the cluster.
    Join {
        /// The name of the node in the file.
        node: NodeName,
    },
    /// Puts the credentials of something that runs in the cluster into Kubernetes.
    #[serde(alias = "give-credentials")]
    CreateCredentials {
        /// What runs in the cluster and uses them.
        to: Holder,
        /// The account that is made for it in Proxmox, `name@realm`, where the file names no token.
        user: Option<String>,
    },
    /// Waits until the whole cluster is healthy.
    CheckHealth,
    StopVm {
        /// The name of the node that the VM is marked with.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Only while nobody answers there, which is looked at again right before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[serde(alias = "if_silent")]
        if_unresponsive: bool,
    },
    /// Deletes a VM and its disks.
    DeleteVm {
        /// The name of the node that the VM is marked with.
        node: NodeName,
        #[serde(flatten)]
        vm: VmRef,
        /// Only while etcd has its quorum without it, which is counted again right before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keeps_quorum: bool,
    },
    /// Removes the account in Proxmox of something that ran in the cluster.
    RemoveAccount {
        /// What ran in the cluster and used it.
        of: Holder,
        /// The user, `name@realm`, with its tokens and rights.
        user: String,
        /// The role that goes with it.
        role: Option<String>,
    },
    /// Deletes the cluster record VM.
    DeleteRecord {
        #[serde(flatten)]
        vm: VmRef,
    },
}

/// What a machine may do to take a machine config over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigMode {
    /// It never reboots. A machine that would have to refuses, and changes nothing.
    #[default]
    NoReboot,
    Reboot,
    /// It takes it over at its next boot, which another step of the unit brings about.
    Staged,
}

impl ConfigMode {
    fn is_no_reboot(&self) -> bool {
        *self == Self::NoReboot
    }
}

/// How a machine reboots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootMode {
    /// As Talos does it by default, mostly straight into the new kernel.
    #[default]
    Default,
    /// Through the firmware.
    PowerCycle,
}

impl Action {
    /// Gives a machine that runs its configuration, without a reboot.
    #[must_use]
    pub fn reconfigure(node: &str) -> Self {
        Self::Reconfigure { node: node.into(), mode: ConfigMode::NoReboot }
    }

    /// Gives a node its configuration.
    #[must_use]
    pub fn configure(node: &str) -> Self {
        Self::Configure { node: node.into(), if_needed: false }
    }

    /// The node it is about, if it is about one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::CreateVm { node, .. }
            | Self::CloneVm { node, .. }
            | Self::UpdateVm { node, .. }
            | Self::GrowDisk { node, .. }
            | Self::StartVm { node, .. }
            | Self::Configure { node, .. }
            | Self::Reconfigure { node, .. }
            | Self::Bootstrap { node }
            | Self::Join { node }
            | Self::DrainNode { node }
            | Self::MoveLeadership { node }
            | Self::RebootNode { node, .. }
            | Self::PowerCycleVm { node, .. }
            | Self::MigrateVm { node, .. }
            | Self::RenewDisk { node, .. }
            | Self::DeleteDisk { node, .. }
            | Self::PullImage { node, .. }
            | Self::PullImages { node, .. }
            | Self::UpgradeComponent { node, .. }
            | Self::InstallTalos { node, .. }
            | Self::VerifyNode { node }
            | Self::UncordonNode { node }
            | Self::CordonNode { node }
            | Self::ReleaseNode { node }
            | Self::ShutdownNode { node }
            | Self::LeaveEtcd { node }
            | Self::DeleteNode { node }
            | Self::StopVm { node, .. }
            | Self::DeleteVm { node, .. } => Some(node),
            Self::RegisterSchematic { .. }
            | Self::DownloadImage { .. }
            | Self::CreateTemplate { .. }
            | Self::CreateRecord { .. }
            | Self::SealRecord { .. }
            | Self::UpdateRecord { .. }
            | Self::MigrateRecord { .. }
            | Self::DrainHost { .. }
            | Self::UndrainHost { .. }
            | Self::CreateCredentials { .. }
            | Self::RemoveAccount { .. }
            | Self::CheckHealth
            | Self::SnapshotEtcd
            | Self::UpgradeProxy { .. }
            | Self::DeleteRecord { .. } => None,
        }
    }

    /// The Proxmox host that does the work, if one does.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::DownloadImage { host, .. } => Some(host),
            _ => self.vm().map(|vm| vm.host.as_str()),
        }
    }

    /// The VM that is made or changed, if one is.
    #[must_use]
    pub fn vm(&self) -> Option<&VmRef> {
        match self {
            Self::CreateRecord { vm, .. }
            | Self::SealRecord { vm, .. }
            | Self::UpdateRecord { vm }
            | Self::CreateTemplate { vm, .. }
            | Self::CreateVm { vm, .. }
            | Self::CloneVm { vm, .. }
            | Self::UpdateVm { vm, .. }
            | Self::GrowDisk { vm, .. }
            | Self::StartVm { vm, .. }
            | Self::PowerCycleVm { vm, .. }
            | Self::MigrateVm { vm, .. }
            | Self::MigrateRecord { vm, .. }
            | Self::RenewDisk { vm, .. }
            | Self::DeleteDisk { vm, .. }
            | Self::StopVm { vm, .. }
            | Self::DeleteVm { vm, .. }
            | Self::DeleteRecord { vm } => Some(vm),
            Self::RegisterSchematic { .. }
            | Self::DownloadImage { .. }
            | Self::Configure { .. }
            | Self::Reconfigure { .. }
            | Self::Bootstrap { .. }
            | Self::Join { .. }
            | Self::SnapshotEtcd
            | Self::DrainNode { .. }
            | Self::MoveLeadership { .. }
            | Self::RebootNode { .. }
            | Self::PullImage { .. }
            | Self::PullImages { .. }
            | Self::UpgradeComponent { .. }
            | Self::UpgradeProxy { .. }
            | Self::InstallTalos { .. }
            | Self::VerifyNode { .. }
            | Self::UncordonNode { .. }
            | Self::CordonNode { .. }
            | Self::ReleaseNode { .. }
            | Self::ShutdownNode { .. }
            | Self::LeaveEtcd { .. }
            | Self::DeleteNode { .. }
            | Self::DrainHost { .. }
            | Self::UndrainHost { .. }
            | Self::CreateCredentials { .. }
            | Self::RemoveAccount { .. }
            | Self::CheckHealth => None,
        }
    }

    /// The name of the step that does this.
    #[must_use]
    pub fn id(&self) -> StepId {
        StepId(match self {
            Self::RegisterSchematic { image, .. } => format!("register-schematic/{image}"),
            Self::DownloadImage { host, datastore, file, .. } => {
                format!("download-image/{host}/{datastore}/{file}")
            }
            Self::CreateRecord { .. } => "create-record".to_owned(),
            Self::SealRecord { .. } => "seal-record".to_owned(),
            Self::UpdateRecord { .. } => "update-record".to_owned(),
            Self::CreateVm { node, .. } => format!("create-vm/{node}"),
            Self::CreateTemplate { name, .. } => format!("create-template/{name}"),
            Self::CloneVm { node, .. } => format!("clone-vm/{node}"),
            Self::UpdateVm { node, .. } => format!("update-vm/{node}"),
            Self::GrowDisk { node, disk, .. } => format!("grow-disk/{node}/{disk}"),
            Self::StartVm { node, .. } => format!("start-vm/{node}"),
            Self::Configure { node, .. } => format!("configure/{node}"),
            Self::Reconfigure { node, .. } => format!("reconfigure/{node}"),
            Self::SnapshotEtcd => "snapshot-etcd".to_owned(),
            Self::DrainNode { node } => format!("drain-node/{node}"),
            Self::MoveLeadership { node } => format!("move-leadership/{node}"),
            Self::RebootNode { node, .. } => format!("reboot-node/{node}"),
            Self::PowerCycleVm { node, .. } => format!("power-cycle-vm/{node}"),
            Self::MigrateVm { node, .. } => format!("migrate-vm/{node}"),
            Self::MigrateRecord { .. } => "migrate-record".to_owned(),
            Self::DrainHost { host, .. } => format!("drain-host/{host}"),
            Self::UndrainHost { host } => format!("undrain-host/{host}"),
            Self::RenewDisk { node, .. } => format!("renew-disk/{node}"),
            Self::DeleteDisk { node, disk, .. } => format!("delete-disk/{node}/{disk}"),
            Self::PullImage { node, .. } => format!("pull-image/{node}"),
            Self::PullImages { node, .. } => format!("pull-images/{node}"),
            Self::UpgradeComponent { node, component, .. } => format!("upgrade-component/{node}/{component}"),
            Self::UpgradeProxy { .. } => "upgrade-proxy".to_owned(),
            Self::InstallTalos { node, .. } => format!("install-talos/{node}"),
            Self::VerifyNode { node } => format!("verify-node/{node}"),
            Self::UncordonNode { node } => format!("uncordon-node/{node}"),
            Self::CordonNode { node } => format!("cordon-node/{node}"),
            Self::ReleaseNode { node } => format!("release-node/{node}"),
            Self::ShutdownNode { node } => format!("shutdown-node/{node}"),
            Self::LeaveEtcd { node } => format!("leave-etcd/{node}"),
            Self::DeleteNode { node } => format!("delete-node/{node}"),
            Self::Bootstrap { node } => format!("bootstrap/{node}"),
            Self::Join { node } => format!("join/{node}"),
            Self::CreateCredentials { to, .. } => format!("create-credentials/{}", to.as_str()),
            Self::CheckHealth => "check-health".to_owned(),
            // With the id, because a restored backup may carry the same name.
            Self::StopVm { node, vm, .. } => format!("stop-vm/{node}/{}", vm.vmid),
            Self::DeleteVm { node, vm, .. } => format!("delete-vm/{node}/{}", vm.vmid),
            Self::RemoveAccount { of, .. } => format!("remove-account/{}", of.as_str()),
            Self::DeleteRecord { .. } => "delete-record".to_owned(),
        })
    }

    /// What it does, for people: a verb and its object.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::RegisterSchematic { schematic, .. } => {
                format!(
                    "register schematic {} with the Image Factory",
                    schematic.get(..12).unwrap_or(schematic)
                )
            }
            Self::DownloadImage { host, datastore, file, .. } => {
                format!("download {file} to {datastore} on {host}")
            }
            Self::CreateRecord { vm, .. } => {
                format!("create the cluster record {vm}")
            }
            Self::SealRecord { vm, .. } => {
                format!("write into the cluster record {vm} that etcd is bootstrapped")
            }
            Self::UpdateRecord { vm } => {
                format!("set name and tags of the cluster record {vm}")
            }
            Self::CreateVm { node, vm, datastore, .. } => {
                format!("create {node}, {vm}, disk on {datastore}")
            }
            Self::CreateTemplate { name, vm, datastore, .. } => {
                format!("create the template {name}, {vm}, disk on {datastore}")
            }
            Self::CloneVm { node, vm, template, datastore } => {
                format!("copy {node}, {vm}, from template {template}, disk on {datastore}")
            }
            Self::UpdateVm { node, says, .. } => format!("change the VM of {node}: {}", some_of(says)),
            Self::GrowDisk { node, disk, gib, .. } => format!("grow {disk} of {node} to {gib} GiB"),
            Self::StartVm { node, .. } => format!("start {node}"),
            Self::Configure { node, if_needed: false } => format!("configure {node}"),
            Self::Configure { node, if_needed: true } => {
                format!("wait for {node} to answer, and configure it if it has no configuration")
            }
            Self::Reconfigure { node, mode: ConfigMode::NoReboot } => {
                format!("update the machine config of {node} in place")
            }
            Self::Reconfigure { node, mode: ConfigMode::Reboot } => {
                format!("update the machine config of {node} and reboot it")
            }
            Self::Reconfigure { node, mode: ConfigMode::Staged } => {
                format!("update the machine config of {node} at its next boot")
            }
            Self::SnapshotEtcd => "save a snapshot of etcd".to_owned(),
            Self::DrainNode { node } => format!("drain {node}"),
            Self::MoveLeadership { node } => {
                format!("move the etcd leadership from {node} to another member, if it is the leader")
            }
            Self::RebootNode { node, mode: RebootMode::Default } => format!("reboot {node}"),
            Self::RebootNode { node, mode: RebootMode::PowerCycle } => {
                format!("reboot {node} through its firmware")
            }
            Self::PowerCycleVm { node, says, .. } if says.is_empty() => format!("stop and start {node}"),
            Self::PowerCycleVm { node, says, .. } => {
                format!("stop {node}, change its VM ({}), and start it", some_of(says))
            }
            Self::MigrateVm { node, vm, to, online: true, .. } => {
                format!("move {node} from {} to {to} while it runs", vm.host)
            }
            Self::MigrateVm { node, vm, to, online: false, .. } => {
                format!("shut {node} down, move it from {} to {to}, and start it there", vm.host)
            }
            Self::MigrateRecord { vm, to } => format!("move the cluster record {vm} to {to}"),
            Self::DrainHost { host, .. } => format!("write into the cluster record that {host} is drained"),
            Self::UndrainHost { host } => {
                format!("write into the cluster record that {host} is not drained any more")
            }
            Self::RenewDisk { node, disk, .. } => {
                format!("replace the system disk {disk} of {node} with a new one; its other disks stay")
            }
            Self::DeleteDisk { node, disk, gib: Some(gib), .. } => {
                format!("delete the disk {disk} of {node}, {gib} GiB")
            }
            Self::DeleteDisk { node, disk, gib: None, .. } => format!("delete the disk {disk} of {node}"),
            Self::PullImage { node, image } => format!("pull {image} on {node}"),
            Self::PullImages { node, images } => {
                let names: Vec<String> = images.keys().map(ToString::to_string).collect();
                format!("pull the images of {} on {node}", names.join(", "))
            }
            Self::UpgradeComponent { node, component, version } => {
                format!("upgrade {component} on {node} to {version}")
            }
            Self::UpgradeProxy { version } => format!("upgrade the pods of kube-proxy to {version}"),
            Self::InstallTalos { node, talos, .. } => format!("install Talos {talos} on {node}"),
            Self::VerifyNode { node } => format!("verify that {node} is back and healthy"),
            Self::UncordonNode { node } | Self::ReleaseNode { node } => format!("uncordon {node}"),
            Self::CordonNode { node } => format!("cordon {node}"),
            Self::ShutdownNode { node } => format!("shut {node} down"),
            Self::LeaveEtcd { node } => format!("remove {node} from etcd"),
            Self::DeleteNode { node } => format!("delete the Kubernetes node {node}"),
            Self::Bootstrap { node } => format!("bootstrap etcd on {node}"),
            Self::Join { node } => format!("wait for {node} to join"),
            Self::CreateCredentials { to, user: Some(user) } => {
                format!("create an account in Proxmox for {}, {user}", to.title())
            }
            Self::CreateCredentials { to, user: None } => format!("give {} its credentials", to.title()),
            Self::CheckHealth => "check that the cluster is healthy".to_owned(),
            Self::StopVm { node, vm, .. } => format!("stop {node}, VM {}", vm.vmid),
            Self::DeleteVm { node, vm, .. } => {
                format!("delete {node}, {vm}, with its disks")
            }
            Self::RemoveAccount { of, user, role } => {
                let role = role.as_ref().map_or_else(String::new, |role| format!(" and the role {role}"));
                format!("remove the account of {} in Proxmox, {user}{role}", of.title())
            }
            Self::DeleteRecord { vm } => format!("delete the cluster record {vm}"),
        }
    }
}

/// The first few of what changes; the others are counted.
fn some_of(says: &[String]) -> String {
    let (named, others) = says.split_at(says.len().min(6));
    let more = if others.is_empty() { String::new() } else { format!("; and {} more", others.len()) };
    format!("{}{more}", named.join("; "))
}
