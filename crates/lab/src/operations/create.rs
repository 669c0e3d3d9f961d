//! Creating a VM. The call itself checks, and reserves the number by writing the file with `lock: create`; the task then
//! makes the disks. When a disk fails, everything made so far goes and so does the file.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::ProxmoxVersion;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::{Asked, need};
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::work::{Create, Work};
use crate::hypervisor::{Hypervisor, QEMU, disks, drive, options};
use crate::operations::tasks::{self, Next};
use crate::operations::{configure, power};
use crate::rng::Rng;
use crate::schema::Parts;
use crate::world::World;

/// Checks the wish, reserves the number and starts the task.
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
    cdrom_alias(&mut config);
    Asked { hypervisor: &world.hypervisor, caller, vmid, pool }.creation(&config)?;
    check_options(&world.hypervisor, node, &config)?;
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
) -> Result<(), Refusal> {
    for (key, value) in config {
        if let Some(parts) = drive::parts(key, value) {
            disks::check(&hypervisor.storages, node, key, &parts)?;
        }
    }
    Ok(())
}

/// `cdrom` is another name for a CD at `ide2`.
pub(crate) fn cdrom_alias(config: &mut BTreeMap<String, String>) {
    if let Some(value) = config.remove("cdrom") {
        let media = if value.contains("media=") { "" } else { ",media=cdrom" };
        config.insert("ide2".to_owned(), format!("{value}{media}"));
    }
}

/// Keys are one a line, each with its kind and its text in base64.
pub(crate) fn check_ssh_keys(text: &str) -> Result<(), Refusal> {
    let is_key = |line: &str| {
        let mut words = line
            .split_whitespace()
            .skip_while(|word| !["ssh-", "ecdsa-", "sk-"].iter().any(|kind| word.starts_with(kind)));
        let (kind, body) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let body = STANDARD.decode(body).unwrap_or_default();
        // The text repeats the kind, after its length.
        body.get(4..4 + kind.len()) == Some(kind.as_bytes()) && !kind.is_empty()
    };
    match text.lines().filter(|line| !line.trim().is_empty()).all(is_key) {
        true => Ok(()),
        false => Err(Refusal::failed("SSH public key validation error")),
    }
}

/// Refuses a second drive for cloud-init. `there` are the drives that stay.
pub(crate) fn one_cloudinit<'a>(
    key: &str,
    parts: &Parts,
    there: impl Iterator<Item = (&'a str, Parts)>,
) -> Result<(), String> {
    let mut others = there.filter(|(other, parts)| *other != key && drive::is_cloudinit(parts));
    match others.next() {
        Some((other, _)) if drive::is_cloudinit(parts) => {
            Err(format!("{key} - cloud-init drive is already attached at '{other}'"))
        }
        _ => Ok(()),
    }
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

    /// Since 9.2, tags are checked inside the task, when the VM is not in its pool yet: rights on the pool do not count. Before,
    /// they were written as they came.
    fn tags(&self, world: &World, caller: &str, made: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
        match made.get_mut("tags").filter(|_| world.hypervisor.version == ProxmoxVersion::V9_2) {
            Some(tags) => {
                *tags = configure::normal_tags(tags);
                need(&world.hypervisor.access, caller, &format!("/vms/{}", self.vmid), "VM.Config.Options")
            }
            None => Ok(()),
        }
    }

    /// Makes the disks in the order of their keys and completes the configuration.
    fn make_disks(&mut self, world: &mut World, task: &mut Task) -> Result<Duration, String> {
        let now = world.now;
        let mut takes = Duration::from_millis(200);
        let mut made = self.config.clone();
        let mut volumes: Vec<String> = Vec::new();
        for (key, value) in &self.config {
            let Some(parts) = drive::parts(key, value) else { continue };
            let before = made
                .range(..key.clone())
                .filter_map(|(key, value)| Some((key.as_str(), drive::parts(key, value)?)));
            let alone = one_cloudinit(key, &parts, before);
            match alone.and_then(|()| {
                disks::make(&mut world.hypervisor.storages, &task.node, self.vmid, key, &parts, now)
            }) {
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
        if let Err(refused) = self.tags(world, &task.user, &mut made) {
            for volid in volumes {
                world.hypervisor.storages.remove(&task.node, &volid);
            }
            return Err(refused.in_task());
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
