//! Another person at Proxmox' own pages: what they do to VMs, all at once and without asking Talosmith.
//!
//! Each act is the one that Proxmox itself would carry out (the same tasks, run to their end without letting time pass), so
//! that clones get new UUIDs, restored backups another generation, and what is refused there is refused here.

use std::collections::BTreeMap;

use crate::Lab;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::Volume;
use crate::hypervisor::vm::Vm;
use crate::hypervisor::work;
use crate::machine::CopiedDisk;
use crate::operations::{clone, create, daemons, migrate, power, snapshot, tasks};
use crate::world::World;

const ROOT: &str = "root@pam";

/// Another person.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a>(&'a Lab);

/// A backup of one VM: its configuration and its disks at a moment.
#[derive(Debug, Clone)]
pub struct Backup {
    vmid: u32,
    node: String,
    config: BTreeMap<String, String>,
    volumes: Vec<Volume>,
    disk: Option<CopiedDisk>,
}

/// What Proxmox said.
type Said<T = ()> = Result<T, String>;

impl Lab {
    /// Another person, who works with Proxmox' own pages.
    #[must_use]
    pub fn person(&self) -> Person<'_> {
        Person(self)
    }
}

impl Person<'_> {
    fn act<T>(self, vmid: u32, work: impl FnOnce(&mut World, &str) -> Said<T>) -> Said<T> {
        self.act_on(&[vmid], work)
    }

    /// The first VM is the one that something is done to.
    fn act_on<T>(self, vmids: &[u32], work: impl FnOnce(&mut World, &str) -> Said<T>) -> Said<T> {
        self.0.shared().by_person(vmids, |world| {
            let vmid = vmids.first().copied().unwrap_or_default();
            let node = world.hypervisor.vms.get(&vmid).map(|vm| vm.node.clone());
            let node = node.ok_or_else(|| format!("VM {vmid} does not exist"))?;
            work(world, &node)
        })
    }

    /// Makes a VM. `options` are those of the configuration.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn create(self, host: &str, vmid: u32, options: &[(&str, &str)]) -> Said {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.0.shared().by_person(&[vmid], |world| {
            let upid =
                create::create(world, host, vmid, options, false, None, ROOT).map_err(Refusal::in_task)?;
            tasks::finish(world, &upid)
        })
    }

    /// Deletes a VM and its disks, stopping it first where it runs.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn delete(self, vmid: u32) -> Said {
        self.act(vmid, |world, node| delete(world, node, vmid))
    }

    /// Makes a full clone, which is stopped.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn clone_vm(self, vmid: u32, newid: u32) -> Said {
        self.act_on(&[vmid, newid], |world, node| {
            let wish = work::Clone { source: vmid, newid, full: Some(true), ..Default::default() };
            let upid = clone::clone(world, node, wish, ROOT).map_err(Refusal::in_task)?;
            tasks::finish(world, &upid)
        })
    }

    /// Makes a backup, which changes nothing.
    ///
    /// # Errors
    ///
    /// When the VM does not exist.
    pub fn backup(self, vmid: u32) -> Said<Backup> {
        self.act(vmid, |world, node| {
            let config = world.hypervisor.vms.get(&vmid).map(|vm| vm.config.clone()).unwrap_or_default();
            let volumes = world.hypervisor.storages.owned_by(vmid).cloned().collect();
            let disk = world.machines.copy_disk(vmid);
            Ok(Backup { vmid, node: node.to_owned(), config, volumes, disk })
        })
    }

    /// Restores a backup under its own ID, in place of the VM that has it now. The VM is stopped and has another generation.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn restore(self, backup: &Backup) -> Said {
        self.0.shared().by_person(&[backup.vmid], |world| {
            let there = world.hypervisor.vms.get(&backup.vmid).map(|vm| vm.node.clone());
            if let Some(node) = there {
                delete(world, &node, backup.vmid)?;
            }
            let mut vm = Vm::new(backup.vmid, &backup.node);
            vm.config = backup.config.clone();
            vm.config.remove("lock");
            if vm.config.contains_key("vmgenid") {
                vm.config.insert("vmgenid".to_owned(), world.rng.uuid());
            }
            for volume in &backup.volumes {
                world.hypervisor.storages.insert(&backup.node, volume.clone());
            }
            world.hypervisor.vms.insert(backup.vmid, vm);
            world.machines.put_disk(backup.vmid, backup.disk.clone());
            Ok(())
        })
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn snapshot(self, vmid: u32, name: &str) -> Said {
        self.on_snapshot(vmid, name, work::Act::Take { description: None })
    }

    /// Goes back to a snapshot. A VM that ran is stopped.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn rollback(self, vmid: u32, name: &str) -> Said {
        self.on_snapshot(vmid, name, work::Act::Roll { start: false })
    }

    fn on_snapshot(self, vmid: u32, name: &str, act: work::Act) -> Said {
        self.act(vmid, |world, node| {
            let wish = work::Snapshot { vmid, name: name.to_owned(), act };
            let upid = snapshot::begin(world, node, wish, ROOT).map_err(Refusal::in_task)?;
            tasks::finish(world, &upid)
        })
    }

    /// Moves a VM to another host, with its disks and without stopping it.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn migrate(self, vmid: u32, target: &str) -> Said {
        self.act(vmid, |world, node| {
            let wish =
                work::Migrate { vmid, target: target.to_owned(), online: true, with_local_disks: true };
            let upid = migrate::begin(world, node, wish, ROOT).map_err(Refusal::in_task)?;
            tasks::finish(world, &upid)
        })
    }

    /// Puts a host into the maintenance mode of high availability, or takes it out again, as an administrator does on its shell.
    /// Its manager moves the guests away that it looks after, to the first other host.
    pub fn maintain(self, host: &str, on: bool) {
        self.0.shared().by_person(&[], |world| {
            if let Some(host) = world.hypervisor.hosts.get_mut(host) {
                host.maintenance = on;
            }
            if on {
                daemons::evacuate(world, host);
            }
        });
    }

    /// Lets high availability look after a VM that runs.
    ///
    /// # Errors
    ///
    /// Where there is no such VM.
    pub fn manage(self, vmid: u32) -> Said {
        self.act(vmid, |world, _| {
            let options = BTreeMap::from([("state".to_owned(), "started".to_owned())]);
            world.hypervisor.ha.insert(format!("vm:{vmid}"), options);
            Ok(())
        })
    }

    /// Takes a VM's power away.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn power_off(self, vmid: u32) -> Said {
        self.act(vmid, |world, node| {
            let upid = power::stop(world, node, vmid, ROOT, true);
            tasks::finish(world, &upid)
        })
    }

    /// Starts a VM.
    ///
    /// # Errors
    ///
    /// In Proxmox' words.
    pub fn power_on(self, vmid: u32) -> Said {
        self.act(vmid, |world, node| {
            let upid = power::start(world, node, vmid, ROOT);
            tasks::finish(world, &upid)
        })
    }

    /// What root does after a power cut: a VM whose creation died is deleted with its disks (`qm destroy --skiplock`), and every other
    /// lock that no task holds is removed (`qm unlock`). Says which VMs had one.
    pub fn clear_locks(self) -> Vec<u32> {
        let locked = self.0.shared().read(|world, _| {
            let dead = |vm: &&Vm| {
                // One whose host lost its power has ended, too.
                let works = |upid: &String| {
                    let task = world.hypervisor.tasks.get(upid);
                    task.is_some_and(|task| task.id == vm.vmid.to_string() && task.ended.is_none())
                };
                vm.lock().is_some() && !world.hypervisor.active.iter().any(works)
            };
            world.hypervisor.vms.values().filter(dead).map(|vm| vm.vmid).collect::<Vec<_>>()
        });
        for vmid in &locked {
            let _ = self.act(*vmid, |world, node| {
                let vm = world.hypervisor.vms.get_mut(vmid);
                let lock = vm.and_then(|vm| {
                    vm.holder = None;
                    vm.config.remove("lock")
                });
                if !matches!(lock.as_deref(), Some("create" | "clone")) {
                    return Ok(());
                }
                delete(world, node, *vmid)?;
                // With `--destroy-unreferenced-disks`: a creation that was cut off names none.
                let storages = &mut world.hypervisor.storages;
                let disks: Vec<String> =
                    storages.owned_by(*vmid).map(|volume| volume.volid.clone()).collect();
                for disk in disks {
                    storages.remove(node, &disk);
                }
                Ok(())
            });
        }
        locked
    }

    /// Machines with a service that failed for good.
    #[must_use]
    pub fn failed_services(self) -> Vec<u32> {
        self.0.shared().read(|world, _| world.machines.failed_services())
    }

    /// Sets one option of a VM at once, the notes (`description`) or its `protection` say.
    ///
    /// # Errors
    ///
    /// When the VM does not exist.
    pub fn set(self, vmid: u32, option: &str, value: &str) -> Said {
        self.act(vmid, |world, _| {
            if let Some(vm) = world.hypervisor.vms.get_mut(&vmid) {
                vm.config.insert(option.to_owned(), value.to_owned());
            }
            Ok(())
        })
    }

    /// The configuration of a VM; nothing when there is none.
    #[must_use]
    pub fn config(self, vmid: u32) -> Option<BTreeMap<String, String>> {
        self.0.shared().read(|world, _| world.hypervisor.vms.get(&vmid).map(|vm| vm.config.clone()))
    }
}

fn delete(world: &mut World, node: &str, vmid: u32) -> Said {
    if world.hypervisor.vms.get(&vmid).is_some_and(|vm| vm.running.is_some()) {
        let upid = power::stop(world, node, vmid, ROOT, true);
        tasks::finish(world, &upid)?;
    }
    let upid = power::destroy(world, node, vmid, true, ROOT).map_err(Refusal::in_task)?;
    tasks::finish(world, &upid)
}
