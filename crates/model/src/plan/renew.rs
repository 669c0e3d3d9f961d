//! A node that a person wants to be made again (`node replace`).
//!
//! It is for a node that is proved to be dead; one that is not needs a word more. Its member leaves etcd first, because etcd takes no new
//! member while one is unreachable. Its Node in Kubernetes is deleted, and its machine starts again from an empty system disk, with the
//! same name and address. What is not known is never replaced.
//!
//! Data disks stay. Proxmox has no call that deletes a VM and leaves a disk of it behind: whatever its configuration names goes with it, and
//! an unused disk is named. So the VM of a node with data disks is not deleted: it gets a new system disk. Where every data disk may be
//! deleted, and where there is none, the VM is deleted with all of its disks and created again.

use super::bring_up::{Builder, usual};
use super::by_hand::ASKED;
use super::images::Site;
use super::moves;
use super::replace::WATCH;
use super::{Note, ONLY_CONTROL_PLANE, bootstrap};
use crate::alive;
use crate::blueprint::{Node, Role};
use crate::names::VmRef;
use crate::observed::{Api, Vm};
use crate::ownership::{self, Act, Evidence};
use crate::quorum;
use crate::step::{Action, Disruption, Step, StepId};
use crate::unit;
use crate::vm::{self, Holds, words};

/// What a node that is replaced still does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is a part of the cluster.
    Alive,
    /// Its machine waits for a configuration.
    Empty,
    /// Its VM runs, and something shows that the node is dead.
    Dead,
    /// Its VM is off.
    Off,
    /// It has no VM, or one without a system disk.
    Gone,
}

impl State {
    /// Why it is not replaced without a word more.
    fn speaks_against(self) -> Option<&'static str> {
        match self {
            Self::Alive => Some("its machine answers"),
            Self::Empty => Some("its machine waits for its configuration, which `talosmith apply` gives it"),
            Self::Off => Some("its VM is off, and `talosmith apply` starts it"),
            Self::Dead | Self::Gone => None,
        }
    }
}

/// Why a VM in Proxmox' high availability is not deleted to be created again, and what helps: Proxmox deletes its HA resource with it.
pub(super) fn in_ha(vm: &Vm) -> (String, String) {
    let id = vm.vmid;
    let why = "its VM is managed by HA, and Proxmox deletes the HA resource together with the VM".to_owned();
    let hint = format!(
        "run `ha-manager remove vm:{id}` on a Proxmox host, then this command again; afterwards `ha-manager add vm:{id}` with the same options"
    );
    (why, hint)
}

impl Builder<'_> {
    /// Replaces a node, or says why not.
    pub(super) fn replace_by_hand(&mut self, node: &Node, force: bool) {
        let vm = self.vm(node);
        let state = match self.replaceable(node, vm) {
            Ok(state) => state,
            Err((why, hint)) => {
                let what = format!("Talosmith does not replace {}: {why}", node.name);
                return self.block(&node.name, Disruption::Replace, what, hint);
            }
        };
        // Who started a replacement has said that word already.
        let continues = state == State::Off && self.is_being_replaced(node);
        if let Some(why) = state.speaks_against().filter(|_| !force && !continues) {
            let what = format!("Talosmith does not replace {}: {why}", node.name);
            let hint = format!(
                "to replace it anyway, which deletes its system disk: `talosmith node replace {} --force`",
                node.name
            );
            return self.block(&node.name, Disruption::Replace, what, hint);
        }
        let votes = self.votes(node);
        if let Some(first) = self.replaced.clone().filter(|_| votes) {
            let what = format!(
                "Talosmith does not replace {}: {first} is replaced in this run, and control plane nodes are replaced one at a time",
                node.name
            );
            return self.block(
                &node.name,
                Disruption::Replace,
                what,
                "run the command again afterwards".to_owned(),
            );
        }
        if let Err(blocker) = self.may_leave_etcd(node) {
            let what = format!("Talosmith does not replace {}: {blocker}", node.name);
            return self.block(&node.name, Disruption::Replace, what, blocker.hint().to_owned());
        }
        if let Some(problem) = self.blueprint.upgrade.as_ref().and_then(|upgrade| upgrade.problem.clone()) {
            let what = format!(
                "Talosmith does not replace {}: it is not clear which Talos it should start with: {problem}",
                node.name
            );
            let hint = "correct the versions in the file, then run the command again".to_owned();
            return self.block(&node.name, Disruption::Replace, what, hint);
        }
        let kept = vm.map(|vm| self.kept_disks(node, vm)).unwrap_or_default();
        if let Some(vm) = vm.filter(|vm| kept.is_empty() && vm.ha_state.is_some()) {
            let (why, hint) = in_ha(vm);
            let what = format!("Talosmith does not replace {}: {why}", node.name);
            return self.block(&node.name, Disruption::Replace, what, hint);
        }
        let made = match vm.filter(|_| !kept.is_empty()) {
            Some(vm) => self.renew(node, vm, &kept),
            None => self.make_again(node, vm),
        };
        let Some((ready, deletes)) = made else { return };
        if votes {
            self.replaced = Some(node.name.clone());
        }
        self.lead_up(node, vm, state, ready, &deletes);
        self.replacements.push(node.name.clone());
    }

    /// Whether a replacement was interrupted after its first irreversible step, which its Node in Kubernetes says until it is deleted. A VM
    /// that is off is not started again, and a deleted one is not created beside the old Node: that would mix both. Only a person decides
    /// that a machine is deleted, so the command is named.
    pub(super) fn is_half_replaced(&mut self, node: &Node, vm: Option<&Vm>) -> bool {
        if !self.is_being_replaced(node) || node.external {
            return false;
        }
        let is_configured =
            self.observed.machines.get(&node.name).is_some_and(|machine| machine.api == Api::Configured);
        let views = quorum::views(&self.observed.machines);
        let left_etcd =
            node.role == Role::ControlPlane && !views.is_empty() && !quorum::is_member(&node.name, &views);
        let (reached, force) = match vm {
            None => ("its VM is deleted, and Kubernetes still has its Node", ""),
            Some(vm) if !vm.running => ("its VM is off", ""),
            Some(_) if left_etcd && is_configured => ("it left etcd, and its machine still runs", " --force"),
            Some(_) => return false,
        };
        let what = format!("the replacement of {} was interrupted: {reached}", node.name);
        let hint = format!("continue it: `talosmith node replace {}{force}`", node.name);
        self.block(&node.name, Disruption::Replace, what, hint);
        self.postponed.insert(node.name.clone());
        true
    }

    /// Whether the Node in Kubernetes says that a replacement of it started and did not end.
    pub(super) fn is_being_replaced(&self, node: &Node) -> bool {
        let is_open = |open: &unit::OpenUnit| open.node == node.name && open.unit.is_replacement();
        unit::open(self.observed).iter().any(is_open)
    }

    /// What the node still does, if it is known and nothing speaks against its replacement; else why not, and what helps.
    fn replaceable(&self, node: &Node, vm: Option<&Vm>) -> Result<State, (String, String)> {
        let reason = |why: &str, hint: &str| Err((why.to_owned(), hint.to_owned()));
        let again = "run the command again then; nothing was changed";
        let seen = &self.observed.proxmox;
        if node.external {
            return reason(
                "Talosmith did not create its machine",
                "replace it where it was created, then run `talosmith apply`",
            );
        }
        if seen.unread.contains_key(&node.vmid)
            || seen.hidden.contains_key(&node.vmid)
            || seen.creating.contains_key(&node.vmid)
        {
            return reason(
                "its VM could not be read, so its state is not known",
                "bring its host back, then run the command again",
            );
        }
        if !self.observed.kubernetes.answered {
            return reason(
                "Kubernetes does not answer, so its state is not known",
                "make the Kubernetes API reachable from here, then run the command again",
            );
        }
        let member = bootstrap::member(self.blueprint, self.observed);
        if self.blueprint.is_only_control_plane(&node.name) {
            return reason(
                "it is the only control plane node, and it alone has the data of etcd",
                ONLY_CONTROL_PLANE,
            );
        }
        if member.is_none() {
            return reason(
                "no member of etcd answers",
                "bring a control plane node back, so that it answers from here, then run the command again",
            );
        }
        let host = vm.map(|vm| &vm.host).or(node.host.as_ref());
        if let Some(host) = host.filter(|host| moves::is_drained(self.observed, host)) {
            let hint = format!("run `talosmith host undrain {host}` first");
            return Err((format!("its host {host} is drained"), hint));
        }
        let Some(vm) = vm else { return Ok(State::Gone) };
        ownership::may(Act::Remove, self.blueprint, &Evidence::from(vm), &node.name)
            .map_err(|why| (why.to_string(), "look at the VM in Proxmox".to_owned()))?;
        if let Some(lock) = &vm.lock {
            let hint =
                format!("wait for the task that holds it; if it died, run `qm unlock {}` as root", vm.vmid);
            return Err((format!("Proxmox holds the lock `{lock}` on its VM"), hint));
        }
        if vm.config.get("protection").is_some_and(|flag| flag == "1") {
            let hint = format!("disable its protection: `qm set {} --protection 0` on {}", vm.vmid, vm.host);
            return Err(("its VM is protected in Proxmox".to_owned(), hint));
        }
        match self.observed.machines.get(&node.name).map(|machine| &machine.api) {
            _ if !vm.running => match vm.next(&vm::boot_key(node)) {
                Some(_) => Ok(State::Off),
                None => Ok(State::Gone),
            },
            Some(Api::Configured) => Ok(State::Alive),
            Some(Api::Maintenance) => Ok(State::Empty),
            Some(Api::Unresponsive { .. }) => match alive::is_dead(alive::signs(&node.name, self.observed)) {
                Ok(()) => Ok(State::Dead),
                Err(doubt) => {
                    let hint = "check the network path from here to its machine, then run the command again";
                    Err((format!("it does not answer, and {doubt}"), hint.to_owned()))
                }
            },
            Some(Api::ForeignMachine { why } | Api::OtherKeys { why }) => Err((
                format!("another machine answers at its address: {why}"),
                "free its address, then run the command again".to_owned(),
            )),
            None => reason("its machine could not be asked", again),
        }
    }

    /// Whether etcd keeps its quorum without the node.
    fn may_leave_etcd(&self, node: &Node) -> Result<(), quorum::Blocker> {
        match self.votes(node) {
            true => quorum::may_remove(&node.name, &quorum::views(&self.observed.machines)),
            false => Ok(()),
        }
    }

    /// Disks with data, by their keys.
    pub(super) fn data_disks(&self, node: &Node, vm: &Vm) -> Vec<String> {
        let own = vm::drives(node);
        let is_system = |key: &str| {
            own.iter().any(|drive| drive.key == key && !matches!(drive.holds, Holds::Data { .. }))
        };
        let holds_data = |key: &str, value: &str| {
            let is_detached = key.strip_prefix("unused").is_some_and(|rest| rest.parse::<u32>().is_ok());
            let is_disk = words::is_drive(key) && !matches!(key, "efidisk0" | "tpmstate0") && !is_system(key);
            is_detached || is_disk && !value.contains("media=cdrom") && !value.contains("cloudinit")
        };
        let disks =
            vm.config.iter().filter(|(key, value)| holds_data(key, value)).map(|(key, _)| key.clone());
        disks.collect()
    }

    /// The same, without those that may be deleted: all of them, or none.
    fn kept_disks(&self, node: &Node, vm: &Vm) -> Vec<String> {
        let disks = self.data_disks(node, vm);
        match disks.iter().all(|key| self.allowed.disk(&node.name, key)) {
            true => vec![],
            false => disks,
        }
    }

    /// The VM stays with its data disks and gets a new system disk. Gives the steps that come before all of it, and the one that takes the
    /// old disk away.
    fn renew(&mut self, node: &Node, vm: &Vm, kept: &[String]) -> Option<(Vec<StepId>, StepId)> {
        let (Some(disks), Some(images)) = (&node.disk_datastore, &node.image_datastore) else { return None };
        let image = self.blueprint.images.get(&node.image)?;
        let schematic = self.rendered.schematics.get(&node.image)?;
        let has = |store: &String| {
            let host = self.observed.proxmox.inventory.hosts.get(&vm.host);
            host.is_some_and(|host| host.datastores.contains_key(store))
        };
        if let Some(store) = [disks, images].into_iter().find(|store| !has(store)) {
            let what = format!(
                "Talosmith does not replace {}: its data disks ({}) are on {}, which has no datastore {store} for a new system disk",
                node.name,
                kept.join(", "),
                vm.host
            );
            let named: Vec<String> =
                kept.iter().map(|disk| format!("--allow-destroy {}/{disk}", node.name)).collect();
            let hint = format!("to delete them with their data, add `{}`", named.join(" "));
            self.block(&node.name, Disruption::Replace, what, hint);
            return None;
        }
        let site = Site { host: &vm.host, disks, images, image, schematic };
        let ready: Vec<StepId> = self.download(node, &site).into_iter().collect();
        let key = vm::boot_key(node);
        let volume = vm.next(&key).and_then(|value| words::parts(&key, value).remove("file"));
        let action = Action::RenewDisk {
            node: node.name.clone(),
            vm: vm.at(),
            disk: key,
            volume,
            image: site.volume(),
        };
        let reason = format!("its VM keeps its data disks ({})", kept.join(", "));
        let renewed = self.push(action, vec![], reason, usual::CREATE);
        let start = Action::StartVm { node: node.name.clone(), vm: vm.at() };
        let start = self.push(start, vec![renewed.clone()], ASKED, usual::START);
        self.finish_up(node, start);
        Some((ready, renewed))
    }

    /// The VM is deleted, where there is one, and created again.
    fn make_again(&mut self, node: &Node, vm: Option<&Vm>) -> Option<(Vec<StepId>, StepId)> {
        let started = self.create(node);
        let start = started.first()?.clone();
        let creates = |action: &Action| matches!(action, Action::CreateVm { node: n, .. } | Action::CloneVm { node: n, .. } if *n == node.name);
        let created = self.steps.iter().find(|step| creates(&step.action))?;
        let (created, ready) = (created.id.clone(), created.after.clone());
        self.finish_up(node, start);
        let Some(vm) = vm else { return Some((ready, created)) };
        let keeps_quorum = self.votes(node);
        let delete = Action::DeleteVm { node: node.name.clone(), vm: vm.at(), keeps_quorum };
        let delete = self.push(delete, vec![], ASKED, usual::DELETE);
        self.set_disruption(&delete, Disruption::Delete);
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == created) {
            step.after.push(delete.clone());
        }
        Some((ready, delete))
    }

    /// From a VM that starts to a node that is whole.
    fn finish_up(&mut self, node: &Node, started: StepId) {
        let configure =
            self.push(Action::configure(&node.name), vec![started], "it is replaced", usual::CONFIGURE);
        let reason = match self.votes(node).then(|| self.tolerance(node, 1)).flatten() {
            Some(tolerance) => format!("it is replaced; {tolerance}"),
            None => "it is replaced".to_owned(),
        };
        self.push(Action::Join { node: node.name.clone() }, vec![configure], reason, usual::JOIN);
    }

    /// How etcd stands with so many members beside those that stay.
    fn tolerance(&self, node: &Node, more: usize) -> Option<String> {
        let views = quorum::views(&self.observed.machines);
        let list = views.iter().map(|view| &view.members).max_by_key(|members| members.len())?;
        let answers = |id: &String| views.iter().any(|view| view.id == *id);
        let stay: Vec<_> =
            list.iter().filter(|member| !member.learner && !member.is_of(&node.name)).collect();
        let healthy = stay.iter().filter(|member| answers(&member.id)).count() + more;
        quorum::tolerance(healthy, stay.len() + more)
    }

    /// Everything before the old system goes: `ready` is what the new one needs, `deletes` the step that takes the old one away.
    fn lead_up(&mut self, node: &Node, vm: Option<&Vm>, state: State, ready: Vec<StepId>, deletes: &StepId) {
        let name = || node.name.clone();
        let listed = quorum::is_member(&node.name, &quorum::views(&self.observed.machines));
        let known = self.observed.kubernetes.nodes.contains_key(&node.name);
        let stop = |vm: VmRef| {
            let if_unresponsive = state == State::Dead;
            let seconds = usual::STOP + if if_unresponsive { WATCH } else { 0 };
            (Action::StopVm { node: name(), vm, if_unresponsive }, seconds)
        };
        let stop = vm.filter(|vm| vm.running).map(|vm| stop(vm.at()));
        let leave = listed.then(|| (Action::LeaveEtcd { node: name() }, usual::LEAVE));
        let mut acts = vec![];
        match state {
            // Stopped at once afterwards: at its next boot it would join again.
            State::Alive => {
                acts.extend(known.then(|| (Action::DrainNode { node: name() }, usual::DRAIN)));
                acts.extend(listed.then(|| (Action::MoveLeadership { node: name() }, usual::LEADERSHIP)));
                acts.extend(leave);
                acts.extend(stop);
            }
            State::Empty | State::Dead | State::Off | State::Gone => {
                acts.extend(stop);
                acts.extend(leave);
            }
        }
        let mut after = ready;
        for (action, seconds) in acts {
            let deletes = matches!(action, Action::StopVm { .. } | Action::LeaveEtcd { .. });
            let tolerance = match action {
                Action::LeaveEtcd { .. } => self.tolerance(node, 0),
                _ => None,
            };
            let step = self.push(action, after, tolerance.unwrap_or_else(|| ASKED.to_owned()), seconds);
            if deletes {
                self.set_disruption(&step, Disruption::Delete);
            }
            after = vec![step];
        }
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == *deletes) {
            step.after.extend(after);
            step.disruption = Disruption::Delete;
        }
        if known {
            self.delete_node_behind(node, deletes, ASKED);
        }
        if let (State::Gone, Some(knows)) = (state, self.knows(node)) {
            let text =
                format!("{} has no VM or no system disk any more, and {knows} still knows it", node.name);
            self.notes.push(Note { text });
        }
    }

    /// Deletes the Node in Kubernetes, behind the step that takes the old system away and before the new one: until then the Node says
    /// that it is being replaced, so that a run that dies is continued.
    pub(super) fn delete_node_behind(&mut self, node: &Node, deletes: &StepId, reason: &str) {
        let action = Action::DeleteNode { node: node.name.clone() };
        let id = action.id();
        let is_creation = |step: &Step| {
            step.id == *deletes && matches!(step.action, Action::CreateVm { .. } | Action::CloneVm { .. })
        };
        // Without an old VM nothing is taken away.
        if let Some(creates) = self.steps.iter_mut().find(|step| is_creation(step)) {
            let after = std::mem::replace(&mut creates.after, vec![id]);
            self.push(action, after, reason, usual::UNCORDON);
            return;
        }
        for step in self.steps.iter_mut().filter(|step| step.after.contains(deletes)) {
            step.after.push(id.clone());
        }
        self.push(action, vec![deletes.clone()], reason, usual::UNCORDON);
    }
}
