//! What `explain` says about each reason to touch nothing.

use super::RefusalCode;

macro_rules! explained {
    ($($code:ident $text:literal)*) => {
        impl RefusalCode {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// What it means and how to go on, in a paragraph.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$code => $text),* }
            }
        }
    };
}

explained! {
    NoProxmox "Proxmox does not answer, so nothing is known about the VMs. Check the endpoint, the network and the services pveproxy and pvedaemon; `talosmith doctor` tries each part."
    OldProxmox "Talosmith needs Proxmox VE 9 or newer: earlier versions cannot import a disk image with an API token. Upgrade the hosts first."
    LostBundle "VMs of this cluster exist, but the secrets bundle with their keys is missing, or this is another one. Put the right CLUSTER.secrets.age back beside the file. New keys would not open the machines that exist. If the bundle, or the identity that decrypts it, is lost for good, the cluster cannot be managed any more: move its data, give the new cluster another name, and an administrator of Proxmox deletes the old VMs."
    LostMark "A VM that looks like one of this cluster has lost the line in its notes by which Talosmith recognizes it. Restore the line as shown, or rename the VM if it is not one of this cluster."
    NoRecord "The cluster record VM may exist and cannot be read, so it is unknown whether another operator is at work and whether etcd was bootstrapped. Bring its host back or give the token the right to read it."
    Doubled "The same node exists as more than one VM. Find out which one is in use, then delete the other one or remove its mark."
    Newer "A newer version of Talosmith wrote the notes of a VM. Upgrade Talosmith; an older one might destroy what it does not know."
    Copied "A VM is a clone of a VM of this cluster: it has its mark, but another VM generation ID. Talosmith does not change it. Delete the clone, or remove the mark from its notes."
    Restored "A control plane node was restored from a backup or rolled back to a snapshot. Its etcd data is older than what the other members know, and would corrupt the cluster under a live member ID. `plan` prints what to do: with a quorum, stop the VM, remove its etcd member, delete the VM and apply; if all control plane nodes were restored to one moment, the line that accepts them."
    Unfinished "The creation of a VM was interrupted and left it incomplete, often with a lock. The message names the VM and what to remove."
    Protected "`protect: true` in the file, or the protection flag of a VM in Proxmox, prevents deletion. Remove the protection first if you really mean it."
    TakenId "Another guest has a VM ID that the file gives to a node. If the cluster or a pool was renamed in the file, write the old name again. Otherwise choose other IDs (`vmid` of a node, `vmids` of a pool), or move the other guest."
    TakenAddress "Another guest has an address that the file gives to a node. Choose another address, or free this one."
    TakenAccount "A user, token or role in Proxmox has the name that Talosmith would use, and belongs to another cluster. Rename one of the clusters, or remove the account."
    Host "A Proxmox host that a node needs is offline, unknown or was never decided. Bring it back, or name another one in the file."
    Bridge "A host does not have the bridge that the file names. Create it under NODE > System > Network, or name another one."
    Memory "The nodes on one host want more memory than the host has. Give them less, or spread them over more hosts."
    Processors "A VM asks for more cores than its host has logical CPUs; Proxmox creates such a VM and refuses to start it. Give it fewer cores, or another host."
    Rights "The API token lacks privileges. `talosmith doctor` lists each one with the command that grants it; `talosmith proxmox setup` grants all of them."
    Image "A boot image cannot be downloaded: the Image Factory does not know the version or an extension, or the Proxmox host cannot reach it."
    NotFound "The file names a resource pool or a device mapping that Proxmox does not have. `talosmith proxmox setup` creates mappings."
    Locked "Proxmox holds a lock on a VM, for a backup or a migration. Wait for it; a lock that an interrupted task left behind is removed by root with `qm unlock VMID`."
    ForeignMachine "What answers at a node's address is not this node. Two machines have one address, or an old one still runs. Free the address; nothing was sent to that machine."
    Identity "The file does not say what an external machine is known by, and any machine that answers at its address would receive the cluster's keys. Write `identity: { fingerprint: … }` with the fingerprint from the machine's console, or `unverified: true` in a network that you trust."
    OtherKeys "A machine has a configuration with other keys than those of the secrets bundle. Use the secrets bundle of this cluster, or wipe the machine with `talosctl reset`."
    Etcd "It is not certain that no etcd exists, or where it was bootstrapped, or its data is gone. A second etcd would split the cluster, so nothing is bootstrapped. Bring the control plane nodes back."
    Quorum "The host has so many voting members of etcd that etcd would lose its quorum without it, so it is not drained. Move one of the control plane nodes to another host first; the message names it."
    NotProven "`--allow-destroy` was given, but nothing proves that the node is dead: Kubernetes says that it is Ready, or nothing answers at all. Nothing is deleted on a guess."
    Differs "Something differs from the file that a cluster that runs does not change: an address, the endpoint or VIP, the CNI plugin, a network, keys, or a version. The message names the difference and the way around."
    Internal "The plan contradicts itself. This is a mistake in Talosmith; please report it."
}
