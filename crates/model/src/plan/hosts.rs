//! Proxmox hosts that are drained, so that a person can work on them.
//!
//! Nodes of the cluster leave the host one after another: they move while they run where Proxmox allows it, are shut down to move where
//! not, and are shut down where they cannot move at all. The cluster record VM moves, too. That a host is drained, and which nodes left it,
//! stands in the record: until `host undrain`, nothing of the cluster is created, started or moved there. Guests of others stay as they are.
//!
//! A host with so many voting members that etcd does not keep its quorum without them is refused, whether or not they could move: people
//! drain hosts that are about to fail.

use std::collections::{BTreeMap, BTreeSet};

use super::bring_up::{Builder, usual};
use super::by_hand::{ASKED, Hand};
use super::moves::{self, Stays};
use super::units::Move;
use super::{Note, Refusal, RefusalCode};
use crate::blueprint::{Blueprint, Node, Role};
use crate::names::NodeName;
use crate::observed::{Api, Vm};
use crate::quorum;
use crate::step::{Action, Disruption, StepId};
use crate::unit;

impl<'a> Builder<'a> {
    /// Nodes leave a host, or are shut down there.
    pub(super) fn drain_host(&mut self, host: &str) {
        if !self.knows_host(host) {
            return;
        }
        // What is there cannot be seen, and nothing can leave.
        if !self.observed.proxmox.inventory.hosts.get(host).is_some_and(|seen| seen.online) {
            return self.refusals.push(Refusal {
                code: RefusalCode::Host,
                why: format!("{host} is offline, so no node can leave it"),
                hint: "bring the host back, then run the command again; if it does not come back, replace the nodes that it had: \
                       `talosmith status` shows them, `talosmith node replace NODE` replaces one that is proved dead"
                    .to_owned(),
            });
        }
        let here = self.nodes_on(host);
        if let Some(refusal) = self.too_many_voters(host, &here) {
            return self.refusals.push(refusal);
        }
        let mut more: BTreeMap<Role, BTreeMap<String, usize>> = BTreeMap::new();
        for (node, vm) in &here {
            let answers =
                self.observed.machines.get(&node.name).is_some_and(|machine| machine.api == Api::Configured);
            let interrupted = self.is_moving(node);
            if !vm.running && !interrupted {
                let text = format!("{} is off, and stays on {host} as it is", node.name);
                self.notes.push(Note { text });
                continue;
            }
            if interrupted && vm.running && (!answers || self.is_going_down(node)) {
                let what = format!("{} does not leave {host} yet: it is being shut down to move", node.name);
                let hint = "run the command again when its VM is off, and Talosmith continues the move";
                self.block(&node.name, Disruption::PowerCycle, what, hint.to_owned());
                continue;
            }
            if vm.running && !answers {
                let what = format!("{} does not leave {host}: its machine does not respond", node.name);
                let hint = "`talosmith status` says what is known of it; if it is dead, `talosmith node replace` replaces it";
                self.block(&node.name, Disruption::PowerCycle, what, hint.to_owned());
                continue;
            }
            let to = more.entry(node.role).or_default();
            match self.host_for(node, vm, to) {
                Ok(moves) => {
                    *to.entry(moves.to.clone()).or_default() += 1;
                    let reason = format!("{host} is drained; {}", moves.reason);
                    self.need(&node.name, vec![]).moves = Some(Move { reason, ..moves });
                }
                // A shutdown is for what cannot move, not for what may be able to.
                Err(Stays { why, hint, unknown: true }) => {
                    let what = format!("{} does not leave {host}: {why}", node.name);
                    self.block(&node.name, Disruption::PowerCycle, what, hint);
                }
                Err(Stays { why, hint, .. }) if !vm.running => {
                    let what = format!("{} is off, and does not leave {host}: {why}", node.name);
                    self.block(&node.name, Disruption::PowerCycle, what, hint);
                }
                Err(Stays { why, .. }) => {
                    let text = format!("{} is shut down, because it cannot move: {why}", node.name);
                    self.notes.push(Note { text });
                    self.need(&node.name, vec![]).by_hand = Some(Hand::Shutdown);
                }
            }
        }
        self.shared_host();
        self.others_of_ours(host);
        self.guests_of_others(host);
    }

    /// Says where so many voting members come together that etcd has no quorum without their host.
    fn shared_host(&mut self) {
        let mut hosts: BTreeMap<String, Vec<NodeName>> = BTreeMap::new();
        let voters: Vec<&Node> = self.blueprint.control_planes().filter(|node| !node.external).collect();
        for node in &voters {
            let Some(vm) = self.vm(node) else { continue };
            let moves = self.needs.get(&node.name).and_then(|need| need.moves.as_ref());
            let host = moves.map_or(&vm.host, |moves| &moves.to);
            hosts.entry(host.clone()).or_default().push(node.name.clone());
        }
        let all = voters.len();
        for (host, nodes) in hosts {
            let moved = |name: &NodeName| self.needs.get(name).is_some_and(|need| need.moves.is_some());
            if all > 2 && all - nodes.len() < all / 2 + 1 && nodes.iter().any(moved) {
                let text = format!(
                    "{} of {all} control plane nodes are on {host} afterwards: etcd has no quorum while that host is off",
                    nodes.len()
                );
                self.notes.push(Note { text });
            }
        }
    }

    /// Nodes that the file does not have, and templates: what becomes of them, a person decides.
    fn others_of_ours(&mut self, host: &str) {
        let ours = self.observed.proxmox.marked.iter().filter(|vm| Some(vm.mark.owner) == self.owner);
        let here: Vec<&Vm> = ours.filter(|vm| vm.host == host).collect();
        for vm in here {
            let what = match (vm.mark.is_node(), vm.mark.is_template()) {
                (true, _) if !self.blueprint.nodes.contains_key(&vm.mark.node) => {
                    format!("{} (VM {}), which is not in the file", vm.mark.node, vm.vmid)
                }
                (_, true) => format!("the template {} (VM {})", vm.name, vm.vmid),
                _ => continue,
            };
            self.notes.push(Note { text: format!("{what}, stays on {host} as it is") });
        }
    }

    /// Writes down first that the host is drained, and moves the record in the end.
    pub(super) fn drained(&mut self, host: &str) {
        let Some(record) = self.observed.proxmox.record.clone() else { return };
        if !self.refusals.is_empty() {
            return;
        }
        let earlier = record.state.drained.get(host).cloned().unwrap_or_default();
        let nodes: BTreeSet<NodeName> = self.units.iter().map(|unit| unit.node.clone()).collect();
        let nodes: BTreeSet<NodeName> = nodes.union(&earlier).cloned().collect();
        let mut all: Vec<StepId> = self.steps.iter().map(|step| step.id.clone()).collect();
        if record.state.drained.get(host) != Some(&nodes) {
            let first =
                self.push(Action::DrainHost { host: host.to_owned(), nodes }, vec![], ASKED, usual::RECORD);
            for step in self.steps.iter_mut().filter(|step| all.contains(&step.id)) {
                step.after.push(first.clone());
            }
            all.push(first);
        }
        if record.host != host {
            return;
        }
        let hosts = &self.observed.proxmox.inventory.hosts;
        let to = hosts.iter().find(|(name, there)| {
            **name != host
                && there.online
                && !there.maintenance
                && self.blueprint.allows_host(name)
                && !moves::is_drained(self.observed, name)
        });
        match to.map(|(name, _)| name.clone()) {
            Some(to) => {
                let action = Action::MigrateRecord { vm: record.at(), to };
                self.push(action, all, "nothing can be changed while its host is off", usual::RECORD);
            }
            None => {
                let text = format!(
                    "the cluster record VM stays on {host}: no other host may have it, so nothing of the cluster can be changed while \
                     {host} is off"
                );
                self.notes.push(Note { text });
            }
        }
    }

    /// Nodes that left a host come back, and those that were shut down there are started.
    pub(super) fn undrain_host(&mut self, host: &str) {
        if !self.knows_host(host) {
            return;
        }
        let record = self.observed.proxmox.record.as_ref();
        let Some(nodes) = record.and_then(|record| record.state.drained.get(host)).cloned() else {
            return self.notes.push(Note { text: format!("{host} is not drained") });
        };
        let seen = self.observed.proxmox.inventory.hosts.get(host);
        if !seen.is_some_and(|seen| seen.online && !seen.maintenance) {
            return self.refusals.push(Refusal {
                code: RefusalCode::Host,
                why: format!("{host} is offline or in maintenance, so nothing can come back to it"),
                hint: "bring the host back and end its maintenance, then run the command again".to_owned(),
            });
        }
        self.undrains = Some(host.to_owned());
        self.off_by_hand(host, &nodes);
        for name in &nodes {
            let Some(node) = self.blueprint.nodes.get(name) else { continue };
            let Some(vm) = self.vm(node) else { continue };
            if vm.host == host {
                if !vm.running {
                    self.machine(node);
                    self.join(node);
                }
                continue;
            }
            match self.how_to_move(node, vm, host) {
                Ok(moves) => {
                    let reason = format!("{host} is not drained any more; {}", moves.reason);
                    self.need(name, vec![]).moves = Some(Move { reason, ..moves });
                }
                Err(Stays { why, hint, .. }) => {
                    let what = format!("{name} does not come back to {host}: {why}");
                    self.block(name, Disruption::InPlace, what, hint);
                }
            }
        }
    }

    /// Nodes that the drain did not shut down and that are off all the same: what else they need, `apply` does.
    fn off_by_hand(&mut self, host: &str, left: &BTreeSet<NodeName>) {
        for (node, vm) in self.nodes_on(host) {
            if !vm.running && !left.contains(&node.name) {
                let text = format!(
                    "{} is off on {host}, and `host drain` did not shut it down, so it stays off; `talosmith apply` starts it",
                    node.name
                );
                self.notes.push(Note { text });
            }
        }
    }

    /// Whether a node was about to move from a drained host when its run was interrupted, as its cordon says.
    pub(super) fn is_moving(&self, node: &Node) -> bool {
        let on_drained = self.vm(node).is_some_and(|vm| moves::is_drained(self.observed, &vm.host));
        let is_open = |open: &unit::OpenUnit| open.node == node.name && open.unit.kind() == "move";
        on_drained && unit::open(self.observed).iter().any(is_open)
    }

    /// Whether its machine says that it shuts down.
    fn is_going_down(&self, node: &Node) -> bool {
        let machine = self.observed.machines.get(&node.name);
        machine.is_some_and(|machine| machine.stage.as_deref() == Some("shutting down"))
    }

    /// Writes down in the end that the host is not drained any more, unless something stays away from it.
    pub(super) fn undrained(&mut self, host: &str) {
        self.uncordon();
        if !moves::is_drained(self.observed, host) || !self.blocked.is_empty() || !self.refusals.is_empty() {
            return;
        }
        let all = self.steps.iter().map(|step| step.id.clone()).collect();
        self.push(Action::UndrainHost { host: host.to_owned() }, all, ASKED, usual::RECORD);
    }

    /// Whether a node waits for its host, because that is drained: it is not created, and not started, there.
    pub(super) fn must_wait_for_host(&mut self, node: &Node, vm: Option<&Vm>) -> bool {
        let host = match vm {
            // What goes down to move is not awaited.
            Some(vm) if vm.running && !(self.is_moving(node) && self.is_going_down(node)) => return false,
            Some(vm) => Some(vm.host.clone()),
            None => node.host.clone().filter(|_| !node.external),
        };
        let drained =
            |host: &String| moves::is_drained(self.observed, host) && self.undrains.as_ref() != Some(host);
        let Some(host) = host.filter(drained) else { return false };
        let what = match vm {
            Some(vm) if vm.running => format!("{} is being shut down to move from {host}", node.name),
            Some(_) => format!("{} is off, and is not started: its host {host} is drained", node.name),
            None => format!("{} is not created: its host {host} is drained", node.name),
        };
        let mut hint = format!("run `talosmith host undrain {host}` when the work on the host is done");
        let mut disruption = Disruption::None;
        if self.is_moving(node) {
            disruption = Disruption::PowerCycle;
            hint = format!("its move was interrupted; `talosmith host drain {host}` continues it, or {hint}");
        }
        self.block(&node.name, disruption, what, hint);
        self.postponed.insert(node.name.clone());
        true
    }

    fn knows_host(&mut self, host: &str) -> bool {
        let hosts = &self.observed.proxmox.inventory.hosts;
        if hosts.contains_key(host) {
            return true;
        }
        let names: Vec<&str> = hosts.keys().map(String::as_str).collect();
        self.refusals.push(Refusal {
            code: RefusalCode::Host,
            why: format!("Proxmox has no host {host}"),
            hint: format!("name one of {}", names.join(", ")),
        });
        false
    }

    /// Nodes of the file whose VM is on a host.
    pub(super) fn nodes_on(&self, host: &str) -> Vec<(&'a Node, &'a Vm)> {
        let blueprint: &'a Blueprint = self.blueprint;
        let nodes = blueprint.in_order().into_iter().filter(|node| !node.external);
        let vms = nodes.filter_map(|node| Some((node, self.vm(node)?)));
        vms.filter(|(_, vm)| vm.host == host).collect()
    }

    /// A host that etcd does not keep its quorum without, with the node that should be elsewhere.
    fn too_many_voters(&self, host: &str, here: &[(&Node, &Vm)]) -> Option<Refusal> {
        let views = quorum::views(&self.observed.machines);
        let list = views.iter().map(|view| &view.members).max_by_key(|members| members.len())?;
        let voters: Vec<_> = list.iter().filter(|member| !member.learner).collect();
        let is_voter = |node: &Node| voters.iter().any(|member| member.is_of(&node.name));
        let mine: Vec<&(&Node, &Vm)> = here.iter().filter(|(node, _)| is_voter(node)).collect();
        let tolerates = voters.len().saturating_sub(voters.len() / 2 + 1);
        if mine.len() < 2 || mine.len() <= tolerates {
            return None;
        }
        let names: Vec<&str> = mine.iter().map(|(node, _)| node.name.as_str()).collect();
        let leader = quorum::standing(self.blueprint, &self.observed.machines).and_then(|seen| seen.leader);
        // The leader last: the others can go without an election.
        let first = mine.iter().rev().find(|(node, _)| leader.as_deref() != Some(node.name.as_str()))?;
        let to = self.host_for(first.0, first.1, &BTreeMap::new());
        let hint = match to {
            Ok(to) => format!(
                "move {} first: write `host: {}` for it under `nodes` in the file and run `talosmith apply`, then run this command again",
                first.0.name, to.to
            ),
            Err(Stays { why, hint, .. }) => {
                format!(
                    "move {} to another host first, which is not possible now: {why}; {hint}",
                    first.0.name
                )
            }
        };
        Some(Refusal {
            code: RefusalCode::Quorum,
            why: format!(
                "{host} has {} of {} voting members of etcd ({}): etcd loses its quorum with it",
                mine.len(),
                voters.len(),
                names.join(", ")
            ),
            hint,
        })
    }

    /// What else is on the host, and is not touched.
    fn guests_of_others(&mut self, host: &str) {
        let proxmox = &self.observed.proxmox;
        let ours =
            |vmid: u32| proxmox.marked.iter().any(|vm| vm.vmid == vmid && Some(vm.mark.owner) == self.owner);
        let others = proxmox.taken.iter().filter(|(vmid, guest)| guest.host == host && !ours(**vmid));
        let names: Vec<String> = others
            .map(|(vmid, guest)| match &guest.name {
                Some(name) => format!("{vmid} ({name})"),
                None => vmid.to_string(),
            })
            .collect();
        if !names.is_empty() {
            let text = format!(
                "guests on {host} that are not of this cluster are not touched: {}",
                names.join(", ")
            );
            self.notes.push(Note { text });
        }
    }
}
