//! VMs that move to another Proxmox host: because the file names another one, or because their host is drained.
//!
//! What Proxmox says decides how. A VM moves while it runs, with the disks that hosts do not share, unless something ties it to its host.
//! With a mapped device it is shut down before; with a device of the host itself it never moves, and only a new node can be elsewhere.
//! Where Proxmox did not say, nothing moves.

use std::collections::BTreeMap;

use super::bring_up::Builder;
use super::by_hand::ByHand;
use super::units::Move;
use crate::blueprint::{Blueprint, Inventory, InventoryHost, Node, Role};
use crate::names::VmRef;
use crate::observed::{Api, Migration, Observed, Proxmox, Vm};
use crate::ownership;
use crate::step::{Action, Disruption, Step, StepId};
use crate::vm::words;

/// VMs that are to move, as far as is known before Proxmox was asked about that: each with a host that it could move to.
#[must_use]
pub fn to_ask_about(
    blueprint: &Blueprint,
    proxmox: &Proxmox,
    asked: Option<&ByHand>,
) -> Vec<(VmRef, String)> {
    let vms = blueprint.nodes.values().filter(|node| !node.external);
    let vms = vms.filter_map(|node| Some((node, ownership::vm_of(blueprint, proxmox, &node.name)?)));
    let moves = vms.filter(|(node, vm)| match asked {
        Some(asked) if asked.drains().is_some() => asked.drains() == Some(vm.host.as_str()),
        Some(asked) if asked.undrains().is_some() => {
            asked.undrains().is_some_and(|host| vm.host != host && left(proxmox, host, &node.name))
        }
        Some(_) => false,
        None => is_misplaced(blueprint, node, vm),
    });
    let target = |node: &Node, vm: &Vm| {
        let back = asked.and_then(ByHand::undrains).map(str::to_owned);
        let wanted = node.host.clone().filter(|host| *host != vm.host);
        let any = proxmox.inventory.hosts.iter().find(|(name, host)| **name != vm.host && host.online);
        back.or(wanted).or_else(|| any.map(|(name, _)| name.clone()))
    };
    moves.filter_map(|(node, vm)| Some((vm.at(), target(node, vm)?))).collect()
}

/// Whether the file says that a VM is to be on another host than it is.
pub(super) fn is_misplaced(blueprint: &Blueprint, node: &Node, vm: &Vm) -> bool {
    match node.host.as_ref().filter(|_| node.host_pinned) {
        Some(host) => *host != vm.host,
        None => !node.may_be_on(&vm.host) || !blueprint.allows_host(&vm.host),
    }
}

/// Whether a node left a host, or was shut down there, when that was drained.
pub(super) fn left(proxmox: &Proxmox, host: &str, node: &str) -> bool {
    let drained = proxmox.record.as_ref().and_then(|record| record.state.drained.get(host));
    drained.is_some_and(|nodes| nodes.contains(node))
}

/// Whether a host is drained.
pub(super) fn is_drained(observed: &Observed, host: &str) -> bool {
    observed.proxmox.record.as_ref().is_some_and(|record| record.state.drained.contains_key(host))
}

/// Why a VM does not move, and what helps.
pub(super) struct Stays {
    pub(super) why: String,
    pub(super) hint: String,
    /// Whether nothing shows that it cannot move: it is only not known that it can.
    pub(super) unknown: bool,
}

impl Stays {
    fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: hint.into(), unknown: false }
    }

    fn unknown(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { unknown: true, ..Self::new(why, hint) }
    }
}

impl Builder<'_> {
    /// A VM on another host than the file says moves there.
    pub(super) fn misplaced_host(&mut self, node: &Node, vm: &Vm) {
        // One whose move was interrupted is blocked, with the command that continues it.
        if !is_misplaced(self.blueprint, node, vm) || (!vm.running && self.is_moving(node)) {
            return;
        }
        let pinned = node.host.clone().filter(|_| node.host_pinned);
        let says = match &pinned {
            Some(host) => format!("{} is on {}, and the file says {host}", node.name, vm.host),
            None => format!("{} is on {}, which `hosts` in the file leaves out", node.name, vm.host),
        };
        if let Some(host) = pinned.as_ref().filter(|host| is_drained(self.observed, host)) {
            // One that left the host comes back when that is not drained any more, as the note about the host says.
            if !left(&self.observed.proxmox, host, &node.name) {
                let what = format!("{says}; it does not move: {host} is drained");
                let hint = format!("run `talosmith host undrain {host}` when the work on the host is done");
                self.block(&node.name, Disruption::InPlace, what, hint);
            }
            return;
        }
        let moved = match &pinned {
            Some(host) => self.how_to_move(node, vm, host),
            None => self.host_for(node, vm, &BTreeMap::new()),
        };
        match moved {
            Ok(moves) => {
                let reason = format!("{says}; {}", moves.reason);
                let after = self.changes_before(&node.name);
                self.need(&node.name, after).moves = Some(Move { reason, ..moves });
            }
            Err(Stays { why, hint, .. }) => {
                let what = format!("{says}; it does not move: {why}");
                self.block(&node.name, Disruption::InPlace, what, hint);
            }
        }
    }

    /// Changes of its VM that are made in place, where it is: they come before it moves.
    fn changes_before(&self, node: &str) -> Vec<StepId> {
        let rewire = self.needs.get(node).and_then(|need| need.rewire.clone());
        let in_place = |step: &&Step| {
            step.action.node() == Some(node)
                && matches!(step.action, Action::UpdateVm { .. } | Action::GrowDisk { .. })
                && Some(&step.id) != rewire.as_ref()
        };
        self.steps.iter().filter(in_place).map(|step| step.id.clone()).collect()
    }

    /// The best host for a node that must leave its own: of a control plane node the one with the fewest others, then the one with the
    /// most free memory. `more` are nodes of this plan that move to a host, too.
    pub(super) fn host_for(
        &self,
        node: &Node,
        vm: &Vm,
        more: &BTreeMap<String, usize>,
    ) -> Result<Move, Stays> {
        let blueprint = self.blueprint;
        let hosts = &self.observed.proxmox.inventory.hosts;
        let may = |host: &String| {
            *host != vm.host
                && node.may_be_on(host)
                && blueprint.allows_host(host)
                && !is_drained(self.observed, host)
        };
        let mut candidates: Vec<(&String, &InventoryHost)> =
            hosts.iter().filter(|(name, _)| may(name)).collect();
        let same = |host: &str| {
            let ours = self.owner.into_iter().flat_map(|owner| self.observed.proxmox.of(owner));
            let role = |vm: &Vm| blueprint.nodes.get(&vm.mark.node).map(|node| node.role);
            ours.filter(|other| other.host == host && role(other) == Some(node.role)).count()
                + more.get(host).copied().unwrap_or(0)
        };
        let free = |host: &InventoryHost| host.memory_mib.saturating_sub(host.memory_used_mib);
        candidates.sort_by(|(a, one), (b, other)| {
            let fewest = match node.role {
                Role::ControlPlane => same(a).cmp(&same(b)),
                Role::Worker => std::cmp::Ordering::Equal,
            };
            fewest.then_with(|| free(other).cmp(&free(one))).then_with(|| a.cmp(b))
        });
        let mut first = None;
        let mut offline = None;
        for (host, _) in candidates {
            match self.how_to_move(node, vm, host) {
                Ok(moves) if moves.online => return Ok(moves),
                Ok(moves) => offline = offline.or(Some(moves)),
                Err(stays) => {
                    // What is not known of the VM says nothing about this host, and may name its own.
                    let why = match stays.unknown || stays.why.contains(host.as_str()) {
                        true => stays.why,
                        false => format!("{host}: {}", stays.why),
                    };
                    first = first.or(Some(Stays { why, ..stays }));
                }
            }
        }
        let none = || {
            Stays::new(
                "no other Proxmox host may have it",
                "name more hosts under `hosts` in the file, or move it in Proxmox",
            )
        };
        offline.ok_or_else(|| first.unwrap_or_else(none))
    }

    /// How a VM moves to a host, if it can.
    pub(super) fn how_to_move(&self, node: &Node, vm: &Vm, to: &str) -> Result<Move, Stays> {
        let proxmox = &self.observed.proxmox;
        let host = usable(&proxmox.inventory, to)?;
        if let Some(lock) = &vm.lock {
            return Err(Stays::new(
                format!("Proxmox holds the lock `{lock}` on it"),
                "wait for the task that holds it",
            ));
        }
        // One that was shut down to move, and has not moved, needs no machine that answers.
        let continues = !vm.running && self.is_moving(node);
        let machine = self.observed.machines.get(&node.name);
        if !continues && machine.is_none_or(|machine| machine.api != Api::Configured) {
            return Err(Stays::new(
                "its machine does not answer",
                "it moves once the node is a part of the cluster",
            ));
        }
        let (local_disks, mapped) = match proxmox.migrations.get(&vm.vmid) {
            Some(Migration::Known { local_resources, .. }) if !local_resources.is_empty() => {
                let why = format!(
                    "it uses devices of its host ({}), and never moves with them",
                    local_resources.join(", ")
                );
                return Err(Stays::new(why, replace(&node.name)));
            }
            Some(Migration::Known { not_allowed, .. }) if not_allowed.contains_key(to) => {
                let lacks = not_allowed.get(to).map(|names| names.join(", ")).unwrap_or_default();
                let hint = format!("give {to} what it lacks; or {}", replace(&node.name));
                return Err(Stays::new(format!("{to} lacks {lacks}"), hint));
            }
            Some(Migration::Known { local_disks, mapped_resources, .. }) => (local_disks, mapped_resources),
            Some(Migration::Unknown { why }) => {
                let hint = "if the token lacks VM.Migrate, `talosmith proxmox setup --maintenance` grants it; then run the command again";
                return Err(Stays::unknown(
                    format!("Proxmox did not say whether it can be migrated: {why}"),
                    hint,
                ));
            }
            None => {
                return Err(Stays::unknown(
                    "it is not known whether it can be migrated",
                    "run the command again",
                ));
            }
        };
        if let Some(store) = stores(vm).find(|store| !host.datastores.contains_key(*store)) {
            let hint = format!("give {to} a datastore called {store}; or {}", replace(&node.name));
            return Err(Stays::new(format!("{to} has no datastore {store}"), hint));
        }
        has_room(host, to, node, vm)?;
        let reason = match continues {
            true => "it was shut down to move, and that was interrupted".to_owned(),
            false => how(vm, local_disks.len(), mapped),
        };
        let (local, online) = (!local_disks.is_empty(), mapped.is_empty() && !continues);
        Ok(Move { from: vm.at(), to: to.to_owned(), online, local_disks: local, reason })
    }
}

/// A host that a VM can move to now.
fn usable<'i>(inventory: &'i Inventory, to: &str) -> Result<&'i InventoryHost, Stays> {
    let Some(host) = inventory.hosts.get(to) else {
        return Err(Stays::new(format!("Proxmox has no host {to}"), "name another host in the file"));
    };
    match (host.online, host.maintenance) {
        (false, _) => {
            let hint = "bring the host back, or name another one in the file";
            Err(Stays::new(format!("{to} is offline"), hint))
        }
        (true, true) => {
            let hint = "run the command again when its maintenance has ended";
            Err(Stays::new(format!("{to} is in maintenance"), hint))
        }
        (true, false) => Ok(host),
    }
}

/// Whether a host has enough memory for a VM.
fn has_room(host: &InventoryHost, to: &str, node: &Node, vm: &Vm) -> Result<(), Stays> {
    let memory = vm.config.get("memory").and_then(|mib| mib.parse::<u64>().ok()).unwrap_or(node.memory_mib);
    let free = host.memory_mib.saturating_sub(host.memory_used_mib);
    if host.memory_mib > 0 && free < memory {
        let why = format!("{to} has {free} MiB of free memory, and it has {memory} MiB");
        return Err(Stays::new(why, "make room on the host, or name another one in the file"));
    }
    Ok(())
}

/// How a VM moves, in words.
fn how(vm: &Vm, local_disks: usize, mapped: &[String]) -> String {
    let disks = match local_disks {
        0 => String::new(),
        1 => ", with 1 disk that hosts do not share".to_owned(),
        many => format!(", with {many} disks that hosts do not share"),
    };
    match mapped.is_empty() {
        // A guest that sees its host's own processor may not survive another one.
        true if vm.config.get("cpu").is_some_and(|cpu| cpu.split(',').next() == Some("host")) => {
            format!(
                "it moves while it runs{disks}; its CPU type is `host`, so both hosts must have the same processor"
            )
        }
        true => format!("it moves while it runs{disks}"),
        false => {
            format!("it is shut down to move, because it uses mapped devices ({}){disks}", mapped.join(", "))
        }
    }
}

/// The datastores that a VM has disks in.
fn stores(vm: &Vm) -> impl Iterator<Item = &str> {
    let drives = vm.config.iter().filter(|(key, _)| words::is_drive(key) || key.starts_with("unused"));
    drives.filter_map(|(_, value)| {
        let volume = value.split(',').next().unwrap_or_default();
        volume.strip_prefix("file=").unwrap_or(volume).split_once(':').map(|(store, _)| store)
    })
}

/// How a node comes to another host that cannot move.
fn replace(node: &str) -> String {
    format!(
        "replace it: `talosmith node replace {node} --force` creates it again on the host that the file says"
    )
}
