//! Starting, stopping, resizing and destroying VMs. Most checks happen inside the task, as with the real one: a start of a VM
//! that does not exist is answered with a task, and the task fails.

use std::time::Duration;

use jiff::SignedDuration;

use crate::hypervisor::access::ROOT;
use crate::hypervisor::refusal::{Refusal, no_vm};
use crate::hypervisor::rights::need;
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::{Running, Vm};
use crate::hypervisor::work::{AGENT_PATIENCE, Destroy, Ha, Power, PowerKind, Resize, Work};
use crate::hypervisor::{drive, hotplug, options};
use crate::operations::daemons;
use crate::operations::tasks::{self, Next};
use crate::schema::{parse_size, print_size};
use crate::world::World;

/// How long a shutdown waits for the guest, unless told otherwise.
const SHUTDOWN_PATIENCE: u64 = 180;
/// The same for a VM that is highly available.
pub(crate) const MANAGED_PATIENCE: u64 = 60;
/// How often a shutdown looks whether the guest is gone.
const LOOK: Duration = Duration::from_millis(500);
/// From the command to the running process.
const START: Duration = Duration::from_millis(2400);
const STOP: Duration = Duration::from_millis(900);
/// How long an ordinary guest takes to switch itself off.
const GUEST_SHUTDOWN: SignedDuration = SignedDuration::from_secs(2);

pub(crate) fn start(world: &mut World, node: &str, vmid: u32, caller: &str) -> String {
    start_with(world, node, vmid, caller, false)
}

/// Starts a VM, locked or not; one that is highly available is started by its manager.
pub(crate) fn start_with(world: &mut World, node: &str, vmid: u32, caller: &str, skiplock: bool) -> String {
    if world.hypervisor.is_managed(vmid) {
        return ask(world, node, vmid, caller, Ha { vmid, start: true, patience: None });
    }
    begin(world, node, vmid, caller, "qmstart", PowerKind::Start, skiplock)
}

pub(crate) fn stop(world: &mut World, node: &str, vmid: u32, caller: &str, skiplock: bool) -> String {
    if world.hypervisor.is_managed(vmid) {
        return ask(world, node, vmid, caller, Ha { vmid, start: false, patience: None });
    }
    begin(world, node, vmid, caller, "qmstop", PowerKind::Stop, skiplock)
}

/// A host starts a VM by itself.
pub(crate) fn start_here(world: &mut World, node: &str, vmid: u32) {
    begin(world, node, vmid, ROOT, "qmstart", PowerKind::Start, false);
}

/// A host stops a VM by itself, at once or after a shutdown that the guest did not obey.
pub(crate) fn stop_here(world: &mut World, node: &str, vmid: u32, patience: Option<u64>) {
    let (task, kind) = match patience {
        Some(patience) => ("qmshutdown", PowerKind::Shutdown { patience, force: true }),
        None => ("qmstop", PowerKind::Stop),
    };
    begin(world, node, vmid, ROOT, task, kind, false);
}

/// Lets the process stand still, or go on.
pub(crate) fn pause(
    world: &mut World,
    node: &str,
    vmid: u32,
    caller: &str,
    on: bool,
) -> Result<String, Refusal> {
    must_run(world, node, vmid)?;
    let (name, kind) = if on { ("qmpause", PowerKind::Pause) } else { ("qmresume", PowerKind::Resume) };
    Ok(begin(world, node, vmid, caller, name, kind, false))
}

pub(crate) fn shutdown(
    world: &mut World,
    node: &str,
    vmid: u32,
    patience: Option<u64>,
    force: bool,
    caller: &str,
) -> String {
    if world.hypervisor.is_managed(vmid) {
        let patience = Some(patience.unwrap_or(MANAGED_PATIENCE));
        return ask(world, node, vmid, caller, Ha { vmid, start: false, patience });
    }
    let patience = patience.unwrap_or(SHUTDOWN_PATIENCE);
    begin(world, node, vmid, caller, "qmshutdown", PowerKind::Shutdown { patience, force }, false)
}

pub(crate) fn reboot(
    world: &mut World,
    node: &str,
    vmid: u32,
    patience: Option<u64>,
    caller: &str,
) -> Result<String, Refusal> {
    must_run(world, node, vmid)?;
    let patience = patience.unwrap_or(SHUTDOWN_PATIENCE);
    Ok(begin(world, node, vmid, caller, "qmreboot", PowerKind::Reboot { patience }, false))
}

pub(crate) fn reset(world: &mut World, node: &str, vmid: u32, caller: &str) -> Result<String, Refusal> {
    must_run(world, node, vmid)?;
    Ok(begin(world, node, vmid, caller, "qmreset", PowerKind::Reset, false))
}

fn begin(
    world: &mut World,
    node: &str,
    vmid: u32,
    caller: &str,
    task: &str,
    kind: PowerKind,
    skiplock: bool,
) -> String {
    let work = Work::Power(Power { vmid, kind, skiplock });
    tasks::begin(world, node, task, &vmid.to_string(), caller, work)
}

/// Leaves a change of power to the manager. The task ends when the manager was told.
fn ask(world: &mut World, node: &str, vmid: u32, caller: &str, wish: Ha) -> String {
    let kind = if wish.start { "hastart" } else { "hastop" };
    tasks::begin(world, node, kind, &vmid.to_string(), caller, Work::Ha(wish))
}

impl Ha {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        let (verb, state) = if self.start { ("start", "started") } else { ("stop", "stopped") };
        task.log(now, format!("Requesting HA {verb} for VM {}", self.vmid));
        if let Some(options) = world.hypervisor.ha.get_mut(&format!("vm:{}", self.vmid)) {
            options.insert("state".to_owned(), state.to_owned());
        }
        daemons::ask_manager(world, self.vmid, self.patience);
        Next::End(Ok(()))
    }
}

fn must_run(world: &World, node: &str, vmid: u32) -> Result<(), Refusal> {
    let vm = world.hypervisor.vms.get(&vmid).filter(|vm| vm.node == node);
    match vm.map(|vm| vm.running.is_some()) {
        Some(true) => Ok(()),
        _ => Err(Refusal::failed(format!("VM {vmid} not running"))),
    }
}

/// Whether the guest agent answers: enabled in the configuration, part of the image, and the guest is up.
pub(crate) fn agent_answers(world: &World, vm: &Vm) -> bool {
    if let (Some(guest), Some(running)) = (&vm.guest, &vm.running) {
        return vm.agent_enabled() && guest.is_up(running.since, world.now);
    }
    let image = vm.boot(&world.hypervisor.storages).image;
    vm.running.is_some()
        && vm.agent_enabled()
        && image
            .is_some_and(|image| world.factory.has_extension(&image.schematic, "siderolabs/qemu-guest-agent"))
        && !world.machines.addresses(vm.vmid).is_empty()
}

impl Power {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let node = task.node.clone();
        if world.hypervisor.vms.get(&self.vmid).is_none_or(|vm| vm.node != node) {
            return Next::fail(match self.kind {
                PowerKind::Stop | PowerKind::Shutdown { .. } => {
                    format!("unable to find configuration file for VM {} on node '{node}'", self.vmid)
                }
                _ => no_vm(&node, self.vmid),
            });
        }
        match self.kind {
            PowerKind::Start => self.start(world, task),
            PowerKind::Stop => self.stop(world, task),
            PowerKind::Shutdown { patience, force } => self.shutdown(world, task, patience, force),
            PowerKind::Reboot { patience } => self.reboot(world, task, patience),
            PowerKind::Pause | PowerKind::Resume => {
                if let Some(vm) = world.hypervisor.vms.get_mut(&self.vmid) {
                    vm.paused = self.kind == PowerKind::Pause;
                }
                Next::End(Ok(()))
            }
            PowerKind::Reset => {
                let now = world.now;
                world.machines.power_off(self.vmid, now);
                if let Some(vm) = world.hypervisor.vms.get(&self.vmid) {
                    world.machines.power_on(self.vmid, vm.boot(&world.hypervisor.storages), now);
                }
                Next::End(Ok(()))
            }
        }
    }

    fn start(self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return match begin_start(world, task, self.vmid, self.skiplock) {
                Ok(()) => Next::After(world.rng.around(START)),
                Err(text) => Next::fail(text),
            };
        }
        switch_on(world, &task.node, self.vmid);
        Next::End(Ok(()))
    }

    fn stop(self, world: &mut World, task: &mut Task) -> Next {
        let Some(vm) = world.hypervisor.vms.get(&self.vmid) else { return Next::End(Ok(())) };
        if vm.running.is_none() {
            return Next::End(Ok(()));
        }
        if let Some(lock) = vm.lock().filter(|_| !self.skiplock) {
            return Next::fail(format!("VM is locked ({lock})"));
        }
        if task.stage == 0 {
            return Next::After(world.rng.around(STOP));
        }
        switch_off(world, self.vmid);
        Next::End(Ok(()))
    }

    fn shutdown(self, world: &mut World, task: &mut Task, patience: u64, force: bool) -> Next {
        let now = world.now;
        let Some(vm) = world.hypervisor.vms.get(&self.vmid) else { return Next::End(Ok(())) };
        if vm.running.is_none() {
            return Next::End(Ok(()));
        }
        if task.stage == 0 {
            if let Some(lock) = vm.lock() {
                return Next::fail(format!("VM is locked ({lock})"));
            }
            if vm.agent_enabled() && !agent_answers(world, vm) {
                let text = format!(
                    "QEMU Guest Agent is not running - VM {} qga command 'guest-ping' failed - got timeout",
                    self.vmid
                );
                task.log_after(now, AGENT_PATIENCE, text);
            }
            world.machines.press_power_button(self.vmid, now);
            return Next::After(LOOK);
        }
        let waited = now.duration_since(task.started);
        if vm.guest.is_some() && waited >= GUEST_SHUTDOWN {
            switch_off(world, self.vmid);
            return Next::End(Ok(()));
        }
        if waited < SignedDuration::from_secs(i64::try_from(patience).unwrap_or(i64::MAX)) {
            return Next::After(LOOK);
        }
        if force {
            task.log(now, "VM quit/powerdown failed - terminating now with SIGTERM");
            switch_off(world, self.vmid);
            return Next::End(Ok(()));
        }
        Next::fail("VM quit/powerdown failed - got timeout")
    }

    /// Asks the guest to switch itself off. The host starts the VM again when it cleans up after it, in a task of its own.
    fn reboot(self, world: &mut World, task: &mut Task, patience: u64) -> Next {
        if let Some(vm) = world.hypervisor.vms.get_mut(&self.vmid).filter(|_| task.stage == 0) {
            vm.restart = true;
        }
        let vmid = self.vmid;
        let next = self.shutdown(world, task, patience, false);
        if let (Next::End(Err(_)), Some(vm)) = (&next, world.hypervisor.vms.get_mut(&vmid)) {
            vm.restart = false;
        }
        next
    }
}

/// What is checked and done before QEMU runs.
fn begin_start(world: &mut World, task: &mut Task, vmid: u32, skiplock: bool) -> Result<(), String> {
    let now = world.now;
    let hypervisor = &mut world.hypervisor;
    let Some(vm) = hypervisor.vms.get_mut(&vmid) else { return Err(no_vm(&task.node, vmid)) };
    if let Some(lock) = vm.lock().filter(|_| !skiplock) {
        return Err(format!("VM is locked ({lock})"));
    }
    if vm.running.is_some() {
        return Err(format!("VM {vmid} already running"));
    }
    if vm.flag("template") {
        return Err("you can't start a vm if it's a template".to_owned());
    }
    vm.apply_pending();
    hotplug::memory_fits(vm)?;
    let (needed, cores) = (vm.memory_bytes(), vm.cores());
    let bridges: Vec<String> = vm.nics().filter_map(|(_, parts)| parts.get("bridge").cloned()).collect();
    let disks: Vec<String> = vm.drives().filter_map(|(_, parts)| parts.get("file").cloned()).collect();
    if vm.has_cloudinit() {
        task.log(now, "generating cloud-init ISO");
    }
    let node = task.node.as_str();
    for volid in disks.iter().filter(|file| file.contains(':')) {
        if hypervisor.storages.volume(node, volid).is_none() {
            let path =
                hypervisor.storages.storage_of(volid).map_or_else(|| volid.clone(), |s| s.path_of(volid));
            return Err(format!("volume '{volid}' does not exist: no such file '{path}'"));
        }
    }
    if let Some(vm) = hypervisor.vms.get(&vmid) {
        hypervisor.check_devices(vm, node)?;
    }
    let in_use = hypervisor.memory_in_use(node);
    let host = hypervisor.hosts.get(node);
    let cpus = host.map_or(0, |host| host.cpus);
    if cores > cpus {
        return Err(format!("MAX {cpus} vcpus allowed per VM on this node"));
    }
    let known = |bridge: &String| {
        host.is_some_and(|host| host.bridges.contains(bridge)) || hypervisor.zone_of(bridge).is_some()
    };
    if let Some(bridge) = bridges.iter().find(|bridge| !known(bridge)) {
        return Err(format!("bridge '{bridge}' does not exist"));
    }
    let full = hypervisor.storages.full.contains(node);
    if full || in_use.saturating_add(needed) > host.map_or(0, |host| host.memory_bytes) {
        task.log(now, "kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory");
        return Err("start failed: QEMU exited with code 1".to_owned());
    }
    Ok(())
}

fn switch_on(world: &mut World, node: &str, vmid: u32) {
    let now = world.now;
    let host = world.hypervisor.hosts.get_mut(node);
    let slow = host.as_ref().is_some_and(|host| !host.slow.is_zero());
    let (pid, ahead) = host.map_or((1, 0), |host| (host.next_pid(&mut world.rng), host.clock_error));
    if let Some(vm) = world.hypervisor.vms.get_mut(&vmid) {
        vm.running = Some(Running { since: now, pid });
        world.machines.power_on(vmid, vm.boot(&world.hypervisor.storages), now);
        world.machines.set_clock(vmid, ahead);
        world.machines.set_slow(vmid, slow);
    }
}

fn switch_off(world: &mut World, vmid: u32) {
    if let Some(vm) = world.hypervisor.vms.get_mut(&vmid) {
        vm.stopped();
    }
    world.hypervisor.process_ended(vmid, world.now);
    world.machines.power_off(vmid, world.now);
}

pub(crate) fn resize(
    world: &mut World,
    node: &str,
    vmid: u32,
    disk: &str,
    size: &str,
    digest: Option<String>,
    caller: &str,
) -> String {
    let work = Work::Resize(Resize { vmid, disk: disk.to_owned(), size: size.to_owned(), digest });
    tasks::begin(world, node, "resize", &vmid.to_string(), caller, work)
}

impl Resize {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return Next::After(world.rng.around(Duration::from_millis(400)));
        }
        Next::End(self.grow(world, task))
    }

    fn grow(&self, world: &mut World, task: &mut Task) -> Result<(), String> {
        let now = world.now;
        let hypervisor = &mut world.hypervisor;
        let vm = hypervisor.vms.get_mut(&self.vmid).filter(|vm| vm.node == task.node);
        let vm = vm.ok_or_else(|| no_vm(&task.node, self.vmid))?;
        if self.digest.as_ref().is_some_and(|digest| *digest != vm.digest()) {
            return Err("checksum mismatch (file change by other user?)".to_owned());
        }
        if let Some(lock) = vm.lock() {
            return Err(format!("VM is locked ({lock})"));
        }
        let missing = || format!("disk '{}' does not exist", self.disk);
        let mut parts =
            vm.get(&self.disk).and_then(|text| drive::parts(&self.disk, text)).ok_or_else(missing)?;
        if drive::is_cdrom(&parts) {
            return Err("you can't resize a cdrom".to_owned());
        }
        let volid = parts.get("file").cloned().unwrap_or_default();
        let path = format!("/storage/{}", volid.split(':').next().unwrap_or_default());
        need(&hypervisor.access, &task.user, &path, "Datastore.AllocateSpace").map_err(Refusal::in_task)?;
        let files = hypervisor.storages.storage_of(&volid).is_some_and(|storage| storage.kind.keeps_files());
        let volume = hypervisor.storages.volume_mut(&task.node, &volid).ok_or_else(missing)?;
        let wanted = match self.size.strip_prefix('+') {
            Some(more) => parse_size(more).and_then(|more| more.checked_add(volume.size)),
            None => parse_size(&self.size),
        };
        let wanted = wanted.ok_or_else(|| format!("unable to parse size '{}'", self.size))?;
        if wanted < volume.size {
            return Err("shrinking disks is not supported".to_owned());
        }
        if wanted > volume.size {
            volume.size = wanted;
            parts.insert("size".to_owned(), print_size(wanted));
            let text = options::drive_props(&self.disk).map(|props| props.print(&parts)).unwrap_or_default();
            vm.config.insert(self.disk.clone(), text);
            task.log(now, if files { "Image resized." } else { "  Logical volume successfully resized." });
            world.machines.grow_disk(self.vmid, &self.disk, wanted);
        }
        Ok(())
    }
}

pub(crate) fn destroy(
    world: &mut World,
    node: &str,
    vmid: u32,
    purge: bool,
    caller: &str,
) -> Result<String, Refusal> {
    let vm = world
        .hypervisor
        .vms
        .get(&vmid)
        .filter(|vm| vm.node == node)
        .ok_or_else(|| Refusal::no_vm(node, vmid))?;
    if vm.flag("protection") {
        return Err(Refusal::failed(format!("can't remove VM {vmid} - protection mode enabled")));
    }
    if !purge && world.hypervisor.ha.contains_key(&format!("vm:{vmid}")) {
        let text = format!("unable to remove VM {vmid} - used in HA resources and purge parameter not set.");
        return Err(Refusal::failed(text));
    }
    if vm.running.is_some() {
        return Err(Refusal::failed(format!("VM {vmid} is running - destroy failed")));
    }
    let work = Work::Destroy(Destroy { vmid, purge });
    Ok(tasks::begin(world, node, "qmdestroy", &vmid.to_string(), caller, work))
}

impl Destroy {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        let Some(vm) = world.hypervisor.vms.get_mut(&self.vmid).filter(|vm| vm.node == task.node) else {
            return Next::fail(no_vm(&task.node, self.vmid));
        };
        if task.stage == 0 {
            if let Some(lock) = vm.lock() {
                return Next::fail(format!("VM is locked ({lock})"));
            }
            if vm.running.is_some() {
                return Next::fail(format!("VM {} is running - destroy failed", self.vmid));
            }
            let files = vm.drives().filter_map(|(_, parts)| parts.get("file").cloned());
            let base = files.into_iter().find(|volid| world.hypervisor.storages.is_base(volid));
            if let Some(base) = base {
                return Next::fail(format!("base volume '{base}' is still in use by linked cloned"));
            }
            vm.config.insert("lock".to_owned(), "destroyed".to_owned());
            return Next::After(world.rng.around(Duration::from_millis(1100)));
        }
        let unused =
            vm.config.iter().filter(|(key, _)| key.starts_with("unused")).map(|(_, value)| value.clone());
        let volumes = vm.drives().filter_map(|(_, parts)| parts.get("file").cloned()).chain(unused);
        let volumes: Vec<String> = volumes.collect();
        let storages = &mut world.hypervisor.storages;
        for volid in volumes {
            // What another VM owns, a driver's disk say, stays.
            if storages.volume(&task.node, &volid).is_some_and(|volume| volume.vmid == Some(self.vmid)) {
                if storages.storage_of(&volid).is_some_and(|storage| !storage.kind.keeps_files()) {
                    let name = volid.split_once(':').map_or("", |(_, name)| name);
                    task.log(now, format!("  Logical volume \"{name}\" successfully removed."));
                }
                storages.remove(&task.node, &volid);
            }
        }
        if self.purge {
            world.hypervisor.ha.remove(&format!("vm:{}", self.vmid));
            task.log(now, format!("purging VM {} from related configurations..", self.vmid));
        }
        world.hypervisor.access.forget_vm(self.vmid);
        world.hypervisor.kept.forget_below(&format!("/qemu/{}", self.vmid));
        world.hypervisor.vms.remove(&self.vmid);
        world.machines.forget(self.vmid);
        Next::End(Ok(()))
    }
}
