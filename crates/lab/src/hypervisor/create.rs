//! Creating a VM. The call itself checks, and reserves the number by writing the file with `lock: create`; the task then
//! makes the disks. When a disk fails, everything made so far goes and so does the file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::Asked;
use crate::hypervisor::tasks::{self, Next, Task, Work};
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::{Hypervisor, QEMU, cpu, disks, drive, options, power};
use crate::rng::Rng;
use crate::schema::Parts;
use crate::world::World;

/// A creation under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Create {
    vmid: u32,
    /// The configuration as asked for, network cards complete.
    config: BTreeMap<String, String>,
    start: bool,
    #[serde(default)]
    pool: Option<String>,
    /// What the configuration becomes, once the disks are made.
    made: BTreeMap<String, String>,
}

/// Checks the wish, reserves the number and begins the task.
pub(crate) fn create(
    world: &mut World,
    node: &str,
    vmid: u32,
    mut config: BTreeMap<String, String>,
    start: bool,
    pool: Option<&str>,
    caller: &str,
) -> Result<String, Refusal> {
    let access = &world.hypervisor.access;
    if let Some(pool) = pool.filter(|pool| !access.pools.contains_key(*pool)) {
        return Err(Refusal::Forbidden(format!("Permission check failed (pool '{pool}' does not exist)")));
    }
    let in_pool = pool.is_some_and(|pool| access.may(caller, &format!("/pool/{pool}"), "VM.Allocate"));
    if !in_pool && !access.may(caller, &format!("/vms/{vmid}"), "VM.Allocate") {
        return Err(Refusal::Forbidden("Permission check failed".to_owned()));
    }
    root_checked(&config, caller)?;
    Asked { access, caller, vmid, pool, creation: true }.check(&config, &[])?;
    check_options(&world.hypervisor, node, &config, caller)?;
    complete_nics(&mut config, &mut world.rng);
    if let Some(other) = world.hypervisor.vms.get(&vmid) {
        let text = format!("unable to create VM {vmid} - VM {vmid} already exists on node '{}'", other.node);
        return Err(Refusal::failed(text));
    }
    let mut vm = Vm::new(vmid, node);
    vm.config.insert("lock".to_owned(), "create".to_owned());
    world.hypervisor.vms.insert(vmid, vm);
    let pool = pool.map(str::to_owned);
    let work = Work::Create(Create { vmid, config, start, pool, made: BTreeMap::new() });
    Ok(tasks::begin(world, node, "qmcreate", &vmid.to_string(), caller, work))
}

/// What is checked of options before anything is written, at creation and at a change.
pub(crate) fn check_options(
    hypervisor: &Hypervisor,
    node: &str,
    config: &BTreeMap<String, String>,
    caller: &str,
) -> Result<(), Refusal> {
    if let Some(model) = config.get("cpu") {
        cpu::check(model)?;
    }
    root_checked(config, caller)?;
    let mut cloudinit: Option<&str> = None;
    for (key, value) in config {
        let Some(parts) = drive::parts(key, value) else { continue };
        disks::check(&hypervisor.storages, node, key, &parts, caller)?;
        if parts.get("file").is_some_and(|file| file.ends_with(":cloudinit")) {
            if let Some(other) = cloudinit {
                return Err(Refusal::failed(format!(
                    "{key} - cloud-init drive is already attached at '{other}'"
                )));
            }
            cloudinit = Some(key);
        }
    }
    Ok(())
}

/// Refuses options that only root may set.
fn root_checked(config: &BTreeMap<String, String>, caller: &str) -> Result<(), Refusal> {
    let root = caller == "root@pam";
    for (key, value) in config {
        if !root && options::root_only(key) {
            return Err(Refusal::failed(format!("only root can set '{key}' config")));
        }
        if !root && is_numbered(key, "hostpci") && !value.contains("mapping=") {
            return Err(Refusal::failed(format!("only root can set '{key}' config for non-mapped devices")));
        }
        if !root && is_numbered(key, "serial") && value != "socket" {
            return Err(Refusal::failed(format!("only root can set '{key}' config for real devices")));
        }
    }
    Ok(())
}

/// Gives every network card that has none a MAC address, and writes all in Proxmox' own form.
pub(crate) fn complete_nics(config: &mut BTreeMap<String, String>, rng: &mut Rng) {
    for (key, value) in config.iter_mut().filter(|(key, _)| is_numbered(key, "net")) {
        let Ok(mut parts) = options::net().parse(key, value) else { continue };
        let mac = parts.get("macaddr").cloned().unwrap_or_else(|| new_mac(rng));
        parts.insert("macaddr".to_owned(), mac.to_uppercase());
        *value = options::net().print(&parts);
    }
}

fn new_mac(rng: &mut Rng) -> String {
    let [.., a, b, c] = rng.next_u64().to_be_bytes();
    format!("BC:24:11:{a:02X}:{b:02X}:{c:02X}")
}

impl Create {
    pub(crate) fn step(mut self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return match self.make_disks(world, task) {
                Ok(takes) => {
                    task.set_work(Work::Create(self));
                    Next::After(takes)
                }
                Err(text) => {
                    world.hypervisor.vms.remove(&self.vmid);
                    Next::fail(format!("unable to create VM {} - {text}", self.vmid))
                }
            };
        }
        let now = world.now;
        let Some(vm) = world.hypervisor.vms.get_mut(&self.vmid) else { return Next::fail("the VM is gone") };
        vm.config = self.made;
        vm.holder = None;
        if let Some(pool) = self.pool.and_then(|pool| world.hypervisor.access.pools.get_mut(&pool)) {
            pool.vms.insert(self.vmid);
        }
        if self.start {
            task.log(now, "Execute autostart");
            power::start(world, &task.node, self.vmid, &task.user);
        }
        Next::End(Ok(()))
    }

    /// Makes the disks in the order of their keys and completes the configuration.
    fn make_disks(&mut self, world: &mut World, task: &mut Task) -> Result<Duration, String> {
        let now = world.now;
        let mut takes = Duration::from_millis(200);
        let mut made = self.config.clone();
        let mut volumes: Vec<String> = Vec::new();
        for (key, value) in &self.config {
            let Some(parts) = drive::parts(key, value) else { continue };
            match disks::make(&mut world.hypervisor.storages, &task.node, self.vmid, key, &parts, now) {
                Ok(disk) => {
                    for (at, line) in disk.lines {
                        task.log_after(now, takes + at, line);
                    }
                    takes += disk.takes;
                    volumes.extend(disk.volid);
                    made.insert(key.clone(), disk.value);
                }
                Err(text) => {
                    for volid in volumes {
                        world.hypervisor.storages.remove(&task.node, &volid);
                    }
                    return Err(text);
                }
            }
        }
        complete(&mut made, &mut world.rng, now.as_second());
        self.made = made;
        Ok(world.rng.around(takes))
    }
}

/// What Proxmox adds to every new configuration.
fn complete(config: &mut BTreeMap<String, String>, rng: &mut Rng, second: i64) {
    if !config.contains_key("boot") {
        config.insert("boot".to_owned(), default_boot(config));
    }
    let mut smbios = config
        .get("smbios1")
        .and_then(|text| options::smbios().parse("smbios1", text).ok())
        .unwrap_or_default();
    if !smbios.contains_key("uuid") {
        smbios.insert("uuid".to_owned(), rng.uuid());
        config.insert("smbios1".to_owned(), options::smbios().print(&smbios));
    }
    config.entry("vmgenid".to_owned()).or_insert_with(|| rng.uuid());
    config.insert("meta".to_owned(), format!("creation-qemu={QEMU},ctime={second}"));
}

/// First disk, first CD, first network card.
fn default_boot(config: &BTreeMap<String, String>) -> String {
    let drives: Vec<(&String, Parts)> =
        config.iter().filter_map(|(key, value)| Some((key, drive::parts(key, value)?))).collect();
    let bus = |key: &str| !matches!(key, "efidisk0" | "tpmstate0");
    let disk = drives.iter().find(|(key, parts)| bus(key) && !drive::is_cdrom(parts));
    let cdrom = drives.iter().find(|(_, parts)| {
        drive::is_cdrom(parts) && !parts.get("file").is_some_and(|file| file.contains("cloudinit"))
    });
    let nic = config.keys().find(|key| is_numbered(key, "net"));
    let devices: Vec<&str> =
        [disk.map(|d| d.0), cdrom.map(|c| c.0), nic].into_iter().flatten().map(String::as_str).collect();
    if devices.is_empty() { " ".to_owned() } else { format!("order={}", devices.join(";")) }
}
