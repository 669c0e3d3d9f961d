//! What a call is about: which VM, and what it does to it.

use crate::calls::{Call, Service};
use crate::world::World;

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A VM goes down for a while, or its machine restarts.
    Restart(u32),
    /// A VM and its disks go, or everything on them.
    Delete(u32),
    /// A VM is started.
    Start(u32),
    /// Something else of one VM or machine.
    Vm(u32),
    /// A machine is asked to remove a member of etcd.
    Member(u32),
    /// None of these.
    Other,
}

impl Target {
    pub(super) fn of(call: &Call, world: &World) -> Self {
        match (call.service, call.machine) {
            (Service::Proxmox, _) => of_proxmox(&call.method, &call.path, world),
            (Service::Talos, Some(vmid)) => of_talos(&call.path, vmid),
            _ => Self::Other,
        }
    }

    pub(super) fn vmid(self) -> Option<u32> {
        match self {
            Self::Restart(vmid)
            | Self::Delete(vmid)
            | Self::Start(vmid)
            | Self::Vm(vmid)
            | Self::Member(vmid) => Some(vmid),
            Self::Other => None,
        }
    }
}

fn of_proxmox(method: &str, path: &str, world: &World) -> Target {
    let parts: Vec<&str> = path.trim_start_matches("/api2/").split('/').skip(1).collect();
    match parts.as_slice() {
        ["nodes", _, "qemu", vmid, rest @ ..] => {
            let Ok(vmid) = vmid.parse() else { return Target::Other };
            match (method, rest) {
                ("DELETE", []) => Target::Delete(vmid),
                ("POST", ["status", "start" | "resume"]) => Target::Start(vmid),
                ("POST", ["status", _] | ["snapshot", _, "rollback"]) => Target::Restart(vmid),
                // The source of a clone stays as it is.
                _ => Target::Vm(vmid),
            }
        }
        ["nodes", node, "storage", _, "content", volume @ ..] if method == "DELETE" => {
            let volid = volume.join("/").replace("%3A", ":").replace("%2F", "/");
            let owner = world.hypervisor.storages.volume(node, &volid).and_then(|volume| volume.vmid);
            owner.map_or(Target::Other, Target::Vm)
        }
        _ => Target::Other,
    }
}

fn of_talos(path: &str, vmid: u32) -> Target {
    // The installer alone restarts nothing.
    if path.contains("LifecycleService") {
        return Target::Vm(vmid);
    }
    match path.rsplit('/').next().unwrap_or_default() {
        "Reboot" | "Shutdown" | "Upgrade" | "Rollback" | "EtcdLeaveCluster" => Target::Restart(vmid),
        "Reset" => Target::Delete(vmid),
        "EtcdRemoveMemberByID" => Target::Member(vmid),
        _ => Target::Vm(vmid),
    }
}
