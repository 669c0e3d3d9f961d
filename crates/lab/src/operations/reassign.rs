//! A disk that is given to another VM of the same host. Its volume is renamed after the new owner.

use std::time::Duration;

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need;
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::work::{Reassign, Work};
use crate::hypervisor::{drive, options};
use crate::operations::tasks::{self, Next};
use crate::world::World;

/// Checks the wish and starts the task. `digests` are those that the two configurations must have.
pub(crate) fn begin(
    world: &mut World,
    node: &str,
    wish: Reassign,
    digests: (Option<&str>, Option<&str>),
    caller: &str,
) -> Result<String, Refusal> {
    let hypervisor = &world.hypervisor;
    let access = &hypervisor.access;
    need(access, caller, &format!("/vms/{}", wish.target), "VM.Config.Disk")?;
    if wish.vmid == wish.target {
        let text = "must be different than source VMID to reassign disk";
        return Err(Refusal::parameter("target-vmid", text));
    }
    let failed = |text: String| Err(Refusal::failed(text));
    let Some(source) = hypervisor.vms.get(&wish.vmid) else {
        return failed(format!("could not find VM {}", wish.vmid));
    };
    let Some(target) = hypervisor.vms.get(&wish.target) else {
        return failed(format!("could not find target VM {}", wish.target));
    };
    if source.node != target.node {
        return failed(format!("Both VMs need to be on the same node ({} != {})", source.node, target.node));
    }
    if let Some(lock) = source.lock().or(target.lock()) {
        return failed(format!("VM is locked ({lock})"));
    }
    if source.flag("template") || target.flag("template") {
        return failed("Can't move disks from or to template VMs".to_owned());
    }
    for (vm, digest) in [(source, digests.0), (target, digests.1)] {
        if digest.is_some_and(|digest| digest != vm.digest()) {
            let text = "detected modified configuration - file changed by other user? Try again.";
            return failed(format!("VM {}: {text}", vm.vmid));
        }
    }
    let volid = allowed(source, target, &wish).map_err(Refusal::Failed)?;
    let storage = volid.split(':').next().unwrap_or_default();
    need(access, caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
    let id = format!("{}-{}>{}-{}", wish.vmid, wish.disk, wish.target, wish.target_disk);
    Ok(tasks::begin(world, node, "qmmove", &id, caller, Work::Reassign(wish)))
}

/// The volume that moves, if nothing forbids it.
fn allowed(source: &Vm, target: &Vm, wish: &Reassign) -> Result<String, String> {
    let Reassign { disk, target_disk, .. } = wish;
    let Some(value) = source.get(disk) else {
        return Err(format!("Disk '{disk}' for VM '{}' does not exist", source.vmid));
    };
    if target.config.contains_key(target_disk) {
        return Err(format!("Target disk key '{target_disk}' is already in use for VM '{}'", target.vmid));
    }
    let parts = drive::parts(disk, value);
    let file = parts.as_ref().map_or(Some(value), |parts| parts.get("file").map(String::as_str));
    let Some(volid) = file else { return Err(format!("disk '{disk}' has no associated volume")) };
    if parts.as_ref().is_some_and(|parts| drive::is_cdrom(parts) && !drive::is_cloudinit(parts)) {
        return Err("CD drive contents can't be moved to another VM".to_owned());
    }
    if !volid.contains(':') {
        return Err(format!("Volume '{volid}' not managed by PVE"));
    }
    let kept =
        |kept: &crate::hypervisor::vm::Snapshot| kept.config.values().any(|value| value.contains(volid));
    if source.snapshots.values().any(kept) {
        return Err("Can't move disk used by a snapshot to another VM".to_owned());
    }
    if source.running.is_some() && !is_numbered(disk, "unused") {
        return Err("Cannot move disk to another VM while the source VM is running - detach first".to_owned());
    }
    Ok(volid.to_owned())
}

impl Reassign {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return Next::After(world.rng.around(Duration::from_millis(400)));
        }
        Next::End(self.carry_out(world, task))
    }

    fn carry_out(self, world: &mut World, task: &mut Task) -> Result<(), String> {
        let now = world.now;
        let hypervisor = &mut world.hypervisor;
        let (Some(source), Some(target)) = (hypervisor.vms.get(&self.vmid), hypervisor.vms.get(&self.target))
        else {
            return Err("the VM is gone".to_owned());
        };
        let old = allowed(source, target, &self)?;
        let value = source.get(&self.disk).unwrap_or_default().to_owned();
        let missing = || format!("volume '{old}' does not exist");
        let volume = hypervisor.storages.volume(&task.node, &old).cloned().ok_or_else(missing)?;
        let volume = hypervisor.storages.rename(&task.node, volume, self.target);
        task.log(now, format!("moving disk '{}' from VM '{}' to '{}'", self.disk, self.vmid, self.target));
        task.log(now, format!("renaming volume '{old}' to '{}'", volume.volid));
        let value = match (drive::parts(&self.disk, &value), options::drive_props(&self.target_disk)) {
            (Some(mut parts), Some(props)) => {
                parts.insert("file".to_owned(), volume.volid);
                props.print(&parts)
            }
            _ => volume.volid,
        };
        if let Some(source) = hypervisor.vms.get_mut(&self.vmid) {
            source.config.remove(&self.disk);
        }
        if let Some(target) = hypervisor.vms.get_mut(&self.target) {
            target.config.insert(self.target_disk, value);
        }
        Ok(())
    }
}
