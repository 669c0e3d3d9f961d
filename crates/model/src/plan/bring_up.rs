//! What each node still needs.
//!
//! ```text
//! register-schematic ─┐
//! create-record ──────┴► download-image ─► create-vm ─► start-vm ─► configure ─┬─► join ─► check-health
//!                                                       (all control planes) ──┴► bootstrap ─┘
//! ```
//!
//! Where the record is made in the same run, every step but the first stands behind it, because the lease is in it.
//! A node enters this chain where it stands: one that only waits in maintenance gets no VM, one that runs gets nothing but
//! what [`drift`] found, and what disrupts it in a unit (`plan::units`). With templates, `create-template` and `clone-vm` stand in the place of `create-vm`.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::images::Site;
use super::kubernetes::ComponentUpgrade;
use super::remove::Removal;
use super::units::Need;
use super::versions::Install;
use super::{Blocked, Found, Note, Refusal, RefusalCode, Rendered, bootstrap, drift};
use crate::allowed::Allowed;
use crate::blueprint::{Blueprint, Node, Role};
use crate::holder::Holder;
use crate::identity::{self, Method};
use crate::mark::Mark;
use crate::names::{NodeName, VmRef};
use crate::observed::{Api, ComponentChange, Machine, Observed, Vm};
use crate::ownership;
use crate::quorum::{self, Closed};
use crate::readiness::{Condition, Seen, State};
use crate::step::{Action, Disruption, Step, StepId};
use crate::unit::Unit;
use crate::vm;

/// Seconds that things usually take, for the estimate: what the steps took in the lab, whose durations are those of real systems, rounded
/// up. A test compares the estimates of whole plans with runs of them.
pub(super) mod usual {
    pub const REGISTER: u32 = 2;
    /// An image that the factory has to build first.
    pub const DOWNLOAD: u32 = 40;
    /// An installer image, by a machine.
    pub const PULL: u32 = 10;
    pub const RECORD: u32 = 2;
    /// A record whose lease was lost: Talosmith waits for its holder.
    pub const LOST_RECORD: u32 = RECORD + crate::lease::SUCCESSOR_WAITS.as_secs() as u32;
    pub const CREATE: u32 = 10;
    pub const GROW: u32 = 3;
    pub const START: u32 = 4;
    pub const CONFIGURE: u32 = 30;
    pub const BOOTSTRAP: u32 = 11;
    /// The slowest of the control plane nodes that join one after another.
    pub const JOIN: u32 = 60;
    pub const CREDENTIALS: u32 = 3;
    pub const HEALTH: u32 = 3;
    pub const SNAPSHOT: u32 = 3;
    /// Pods that stop when they are asked to. One that does not has half a minute by default.
    pub const DRAIN: u32 = 10;
    pub const LEADERSHIP: u32 = 2;
    /// A machine config that waits for the next boot.
    pub const STAGE: u32 = 1;
    pub const SERVICES: u32 = 15;
    /// A static pod with another image, until it is ready.
    pub const STATIC_POD: u32 = 15;
    /// A reboot, until the machine answers again.
    pub const RESTART: u32 = 50;
    /// A shutdown and a start.
    pub const POWER_CYCLE: u32 = 60;
    /// Beside the soak time.
    pub const VERIFY: u32 = 12;
    /// The installer alone, where its image was pulled before.
    pub const INSTALL: u32 = 12;
    pub const UNCORDON: u32 = 1;
    pub const LEAVE: u32 = 8;
    pub const STOP: u32 = 3;
    pub const DELETE: u32 = 5;
    /// A VM that moves while it runs, with some of its disks. With large disks it takes much longer.
    pub const MIGRATE: u32 = 15;
}

/// Why a record that was lost takes long.
const LOST_LEASE: &str =
    "another run may hold the lease that was lost with it, so Talosmith waits until that run has stopped";

pub(super) struct Builder<'a> {
    pub(super) blueprint: &'a Blueprint,
    pub(super) rendered: &'a Rendered,
    pub(super) observed: &'a Observed,
    pub(super) owner: Option<Uuid>,
    /// What the operator allows.
    pub(super) allowed: &'a Allowed,
    /// The step that brings the lease into being, where the record is not there or says nothing.
    pub(super) first: Option<StepId>,
    /// The control plane node that is replaced.
    pub(super) replaced: Option<NodeName>,
    /// The Proxmox host whose nodes come back.
    pub(super) undrains: Option<String>,
    /// Why etcd takes no new member, where it does not.
    closed: Option<Closed>,
    /// Nodes that wait for another run.
    pub(super) postponed: BTreeSet<NodeName>,
    /// What nodes need that disrupts them.
    pub(super) needs: BTreeMap<NodeName, Need>,
    /// Nodes that are replaced.
    pub(super) replacements: Vec<NodeName>,
    /// Nodes that the file does not have any more, and that are removed.
    pub(super) removals: Vec<Removal>,
    pub(super) steps: Vec<Step>,
    pub(super) units: Vec<Unit>,
    pub(super) notes: Vec<Note>,
    unknown: Vec<Note>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) blocked: Vec<Blocked>,
    /// Nodes that get another image of Talos.
    pub(super) installs: Vec<Install>,
    /// What VMs get together with their image.
    pub(super) with_image: BTreeMap<NodeName, (VmRef, drift::Keys)>,
    /// Parts of Kubernetes that get another version, by node.
    pub(super) kubernetes: BTreeMap<NodeName, Vec<ComponentChange>>,
    /// Those of them that are no kubelets, once nothing is against them.
    pub(super) components: Vec<ComponentUpgrade>,
    /// The version that the pods of kube-proxy get, and the steps before that.
    pub(super) proxy: Option<(String, Vec<StepId>)>,
    /// The nodes that the plan is about, where it is not about all.
    pub(super) targets: BTreeSet<NodeName>,
    /// Nodes with needs that the plan is not about.
    pub(super) left_out: BTreeSet<NodeName>,
}

/// Steps, notes, and reasons against any of them.
pub(super) fn steps(
    blueprint: &Blueprint,
    rendered: &Rendered,
    observed: &Observed,
    allowed: &Allowed,
    targets: &BTreeSet<NodeName>,
) -> Found {
    let mut b = Builder::new(blueprint, rendered, observed, allowed);
    b.targets.clone_from(targets);
    b.record();
    let nodes = blueprint.in_order();
    for node in &nodes {
        b.machine(node);
    }
    b.versions();
    b.bootstrap();
    for node in &nodes {
        b.join(node);
    }
    b.credentials();
    b.others();
    b.units();
    b.waiting();
    b.health();
    b.network();
    b.cloud_provider();
    b.identities();
    b.found()
}

/// Why etcd takes no new member. Where its data is gone altogether, the refusal for that says all.
fn closed(blueprint: &Blueprint, observed: &Observed) -> Option<Closed> {
    match bootstrap::judge(blueprint, observed) {
        bootstrap::Verdict::Blocked(refusals) if !refusals.is_empty() => None,
        _ => quorum::admits(blueprint, observed).err(),
    }
}

impl<'a> Builder<'a> {
    /// Of a plan that does nothing yet.
    pub(super) fn new(
        blueprint: &'a Blueprint,
        rendered: &'a Rendered,
        observed: &'a Observed,
        allowed: &'a Allowed,
    ) -> Self {
        let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
        Self {
            blueprint,
            rendered,
            observed,
            owner,
            allowed,
            first: None,
            replaced: None,
            undrains: None,
            closed: closed(blueprint, observed),
            postponed: BTreeSet::new(),
            needs: BTreeMap::new(),
            replacements: vec![],
            removals: vec![],
            steps: vec![],
            units: vec![],
            notes: vec![],
            unknown: vec![],
            refusals: vec![],
            blocked: vec![],
            installs: vec![],
            with_image: BTreeMap::new(),
            kubernetes: BTreeMap::new(),
            components: vec![],
            proxy: None,
            targets: BTreeSet::new(),
            left_out: BTreeSet::new(),
        }
    }

    /// What came of it.
    pub(super) fn found(self) -> Found {
        Found {
            steps: self.steps,
            units: self.units,
            notes: self.notes,
            unknown: self.unknown,
            refusals: self.refusals,
            blocked: self.blocked,
        }
    }
}

impl<'a> Builder<'a> {
    pub(super) fn push(
        &mut self,
        action: Action,
        mut after: Vec<StepId>,
        reason: impl Into<String>,
        seconds: u32,
    ) -> StepId {
        let id = action.id();
        // Nothing that exists is touched without the lease. Registering an image at the factory changes nothing that runs.
        if !matches!(action, Action::RegisterSchematic { .. })
            && let Some(first) = self.first.clone()
            && first != id
            && !after.iter().any(|needed| self.has(needed))
        {
            after.push(first);
        }
        if !self.steps.iter().any(|s| s.id == id) {
            let step = Step {
                id: id.clone(),
                action,
                after,
                reason: reason.into(),
                disruption: Disruption::None,
                seconds,
                unit: None,
            };
            self.steps.push(step);
        }
        id
    }

    fn has(&self, id: &StepId) -> bool {
        self.steps.iter().any(|s| s.id == *id)
    }

    pub(super) fn vm(&self, node: &Node) -> Option<&'a Vm> {
        ownership::vm_of(self.blueprint, &self.observed.proxmox, &node.name)
    }

    pub(super) fn record(&mut self) {
        if !self.blueprint.has_proxmox() {
            if !self.observed.kubernetes.answered {
                let text = "there is no Proxmox to keep two operators apart until Kubernetes runs: apply from one place only";
                self.notes.push(Note { text: text.to_owned() });
            }
            return;
        }
        let member = bootstrap::member(self.blueprint, self.observed).map(NodeName::from);
        if let Some(seen) = &self.observed.proxmox.record {
            if let Some(member) = member.filter(|_| bootstrap::is_unsealed(self.observed)) {
                let mut reason = format!(
                    "{member} is a member of etcd, and the record VM does not say that etcd is bootstrapped"
                );
                let mut seconds = usual::RECORD;
                if seen.unreadable {
                    (reason, seconds) = (format!("{reason}; {LOST_LEASE}"), usual::LOST_RECORD);
                }
                let seal = Action::SealRecord { vm: seen.at(), member };
                let seal = self.push(seal, vec![], reason, seconds);
                self.first = seen.unreadable.then_some(seal);
            }
            self.record_differs(seen);
            return;
        }
        let Some(host) = self.blueprint.record.host.clone() else {
            self.refusals.push(Refusal {
                code: RefusalCode::Host,
                why: "no Proxmox host could be chosen for the cluster record VM".to_owned(),
                hint: "check that a host is online and that the token may see it".to_owned(),
            });
            return;
        };
        let guards = "it guards the cluster against two operators and a second etcd";
        let (reason, seconds) = match &member {
            Some(member) => (
                format!("it is missing, and {member} is a member of etcd; {guards}; {LOST_LEASE}"),
                usual::LOST_RECORD,
            ),
            None => (guards.to_owned(), usual::RECORD),
        };
        let action = Action::CreateRecord { vm: VmRef::new(host, self.blueprint.record.vmid), member };
        self.first = Some(self.push(action, vec![], reason, seconds));
    }

    /// The way from nothing to a configured machine.
    pub(super) fn machine(&mut self, node: &Node) {
        let vm = self.vm(node).cloned();
        if let Some(host) =
            self.observed.proxmox.unread.get(&node.vmid).filter(|_| vm.is_none() && !node.external)
        {
            let text = format!(
                "whether VM {} on {host} is {} could not be read; Talosmith does not change it",
                node.vmid, node.name
            );
            self.unknown.push(Note { text });
            return;
        }
        if self.must_wait_for_etcd(node, vm.is_some())
            || self.must_wait_for_host(node, vm.as_ref())
            || self.has_another_role(node)
            || self.is_half_replaced(node, vm.as_ref())
        {
            return;
        }
        if let Some(vm) = vm.as_ref().filter(|vm| !vm.running && vm.next(&vm::boot_key(node)).is_none()) {
            let what = format!("{} (VM {} on {}) is off and has no system disk", node.name, vm.vmid, vm.host);
            let hint = format!("replace it: `talosmith node replace {}`; its data disks stay", node.name);
            self.block(&node.name, Disruption::Replace, what, hint);
            self.postponed.insert(node.name.clone());
            return;
        }
        let started = match &vm {
            // It was created by others, who start it.
            _ if node.external => vec![],
            None => self.create(node),
            Some(vm) if self.is_lost(node, vm) => {
                if self.postponed.contains(&node.name) {
                    return;
                }
                let started = self.replace(node, vm);
                let reason = "it is replaced";
                self.push(Action::configure(&node.name), started, reason, usual::CONFIGURE);
                return;
            }
            Some(vm) => self.complete(node, vm),
        };
        let machine = self.observed.machines.get(&node.name);
        let reason = match (&vm, machine.map(|m| &m.api)) {
            (None, _) if !node.external => "it is new".to_owned(),
            // What it printed before it was watched is gone.
            (Some(_), Some(Api::Maintenance))
                if identity::method(self.blueprint, self.observed, node) == Method::Console =>
            {
                "it waits for its configuration; it is reset first, so that its console proves it".to_owned()
            }
            (_, Some(Api::Maintenance)) => "it waits for its configuration".to_owned(),
            (_, Some(Api::Configured)) => {
                let machine = machine.cloned();
                if let Some(machine) = &machine {
                    self.running(node, machine, started);
                }
                return;
            }
            // That the keys are lost is told for all of them at once.
            (_, Some(Api::ForeignMachine { .. })) if self.blueprint.cluster_id.is_none() => return,
            (_, Some(Api::ForeignMachine { why })) => return self.refusals.push(foreign_machine(node, why)),
            (_, Some(Api::OtherKeys { why })) => return self.refusals.push(other_keys(node, why)),
            (_, Some(Api::Unresponsive { why })) => match self.knows(node) {
                Some(knows) => {
                    format!("it does not answer ({why}), and {knows} knows it: it was configured before")
                }
                None => format!("it did not answer ({why}); apply waits for it"),
            },
            (Some(vm), None) if !vm.running => {
                "it is off; Talosmith compares it with the file once it runs".to_owned()
            }
            (_, None) => "it has not been configured yet, as far as can be seen".to_owned(),
        };
        let unresponsive = matches!(machine.map(|m| &m.api), Some(Api::Unresponsive { .. }));
        let if_needed = unresponsive && (vm.is_some() || node.external) && self.knows(node).is_some();
        let action = Action::Configure { node: node.name.clone(), if_needed };
        self.push(action, started, reason, usual::CONFIGURE);
    }

    /// Whether the node is an empty control plane node, and etcd takes no new member now. Then it is left for another run.
    fn must_wait_for_etcd(&mut self, node: &Node, has_vm: bool) -> bool {
        let api = self.observed.machines.get(&node.name).map(|machine| &machine.api);
        let act = match api {
            _ if node.role != Role::ControlPlane => return false,
            Some(Api::Maintenance) => "configured",
            _ if !has_vm && !node.external => "created",
            _ => return false,
        };
        let Some(closed) = &self.closed else { return false };
        self.blocked.push(Blocked {
            node: Some(node.name.clone()),
            what: format!("{} is not {act}: etcd takes no new member: {closed}", node.name),
            disruption: Disruption::None,
            hint: closed.hint().to_owned(),
        });
        self.postponed.insert(node.name.clone());
        true
    }

    /// Who knows the node as a part of the cluster, whatever has become of its machine.
    pub(super) fn knows(&self, node: &Node) -> Option<&'static str> {
        let views = quorum::views(&self.observed.machines);
        match self.observed.kubernetes.nodes.contains_key(&node.name) {
            true => Some("Kubernetes"),
            false => quorum::is_member(&node.name, &views).then_some("etcd"),
        }
    }

    pub(super) fn create(&mut self, node: &Node) -> Vec<StepId> {
        // Hosts and datastores that could not be decided were refused already.
        let (Some(host), Some(disks), Some(images)) =
            (&node.host, &node.disk_datastore, &node.image_datastore)
        else {
            return vec![];
        };
        let (Some(image), Some(schematic)) =
            (self.blueprint.images.get(&node.image), self.rendered.schematics.get(&node.image))
        else {
            return vec![];
        };
        let created = self.new_vm(node, &Site { host, disks, images, image, schematic });
        let start = Action::StartVm { node: node.name.clone(), vm: VmRef::new(host, node.vmid) };
        vec![self.push(start, vec![created], "it is new", usual::START)]
    }

    /// A VM that exists: what its creation may have left undone, and what was changed since.
    fn complete(&mut self, node: &Node, vm: &Vm) -> Vec<StepId> {
        if let Some(lock) = &vm.lock {
            self.refusals.push(Refusal {
                code: RefusalCode::Locked,
                why: format!(
                    "Proxmox holds the lock `{lock}` on {} (VM {} on {})",
                    node.name, vm.vmid, vm.host
                ),
                hint: format!(
                    "`talosmith apply` waits up to 10 minutes for the task that holds it; if that died, run `qm unlock {}` on {} as root",
                    vm.vmid, vm.host
                ),
            });
            return vec![];
        }
        let machine = self.observed.machines.get(&node.name);
        let known = self.observed.kubernetes.nodes.contains_key(&node.name);
        if let Some(refusal) = drift::moved(node, vm, machine, known) {
            self.refusals.push(refusal);
            return vec![];
        }
        let held = self.held(node, machine);
        let mut drift = drift::examine_holding(self.blueprint, node, vm, machine, held);
        self.notes.append(&mut drift.notes);
        self.blocked.append(&mut drift.blocked);
        self.postpone_unless_it_answers(node, machine, &mut drift);
        let (mut after, mut rewires) = (vec![], false);
        // A VM that is stopped anyway takes all of it over meanwhile.
        let rewire = std::mem::take(&mut drift.rewire);
        let into = if drift.power_cycle.is_empty() {
            (&mut drift.set, &mut drift.says)
        } else {
            (&mut drift.power_cycle.set, &mut drift.power_cycle.says)
        };
        if !rewire.is_empty() {
            into.0.extend(rewire.set);
            into.1.extend(rewire.says);
            rewires = drift.power_cycle.is_empty();
        }
        if !drift.says.is_empty() {
            let update = Action::UpdateVm {
                node: node.name.clone(),
                vm: vm.at(),
                set: drift.set,
                pool: drift.pool,
                says: drift.says,
            };
            let update = self.push(update, vec![], "it does not match the file", usual::GROW);
            self.set_disruption(&update, drift.disruption.unwrap_or(Disruption::None));
            if rewires {
                self.need(&node.name, vec![]).rewire = Some(update.clone());
            }
            after.push(update);
        }
        for (disk, has, gib) in drift.grow {
            let grow = Action::GrowDisk { node: node.name.clone(), vm: vm.at(), disk, gib };
            let grow = self.push(grow, after.clone(), format!("it has {has} GiB"), usual::GROW);
            if vm.running {
                self.set_disruption(&grow, Disruption::InPlace);
            }
            after.push(grow);
        }
        if !drift.with_image.is_empty() {
            self.with_image.insert(node.name.clone(), (vm.at(), drift.with_image));
        }
        if !drift.power_cycle.is_empty() || !drift.left_disks.is_empty() {
            let need = self.need(&node.name, after.clone());
            need.vm = Some(vm.at());
            (need.power_cycle, need.left_disks) = (drift.power_cycle, drift.left_disks);
        }
        if vm.running {
            // What is made in its unit is not awaited outside of it.
            return if rewires { vec![] } else { after };
        }
        let start = Action::StartVm { node: node.name.clone(), vm: vm.at() };
        vec![self.push(start, after, "it is off", usual::START)]
    }

    /// What disrupts a running machine is done once it is a part of the cluster, so that its unit can verify it.
    fn postpone_unless_it_answers(
        &mut self,
        node: &Node,
        machine: Option<&Machine>,
        drift: &mut drift::Drift,
    ) {
        if machine.is_some_and(|machine| machine.api == Api::Configured) {
            return;
        }
        let (rewire, cycle) = (std::mem::take(&mut drift.rewire), std::mem::take(&mut drift.power_cycle));
        let says: Vec<String> = rewire.says.into_iter().chain(cycle.says).collect();
        if !says.is_empty() {
            let text =
                format!("the VM of {} changes once its machine answers: {}", node.name, says.join("; "));
            self.notes.push(Note { text });
        }
    }

    pub(super) fn set_disruption(&mut self, step: &StepId, disruption: Disruption) {
        if let Some(step) = self.steps.iter_mut().find(|s| s.id == *step) {
            step.disruption = disruption;
        }
    }

    /// A machine that runs with a configuration under our authority.
    fn running(&mut self, node: &Node, machine: &Machine, after: Vec<StepId>) {
        // `apply` waits for it, and the next plan compares it once it is back.
        if machine.goes_down() {
            return;
        }
        if let Some(runs) = machine.talos.as_deref().filter(|runs| *runs != node.talos) {
            self.other_talos(node, machine, runs, after);
            return;
        }
        let wanted = self.rendered.configs.get(&node.name);
        let same =
            machine.config_digest.is_none() || machine.config_digest.as_ref() == wanted || wanted.is_none();
        let changes = if same { Some(&[][..]) } else { machine.config_changes.as_deref() };
        let live = self.in_force(node, machine, changes.unwrap_or_default(), &after);
        if changes.is_none() {
            let text = format!("{} runs a configuration that could not be compared with the file", node.name);
            self.unknown.push(Note { text });
            return;
        }
        let blocked = self.blocked.len();
        self.reconfigure(node, &live, after);
        let compared = self.blocked.len() == blocked;
        self.on_node(node, live.is_empty() && machine.config_digest.is_some());
        if let Some(need) = self.needs.get_mut(&node.name) {
            need.compared = compared;
        }
    }

    /// The step stands behind the configuration of *every* control plane node, because the executor must have seen each of
    /// them without etcd data; one that cannot be seen therefore keeps etcd from being bootstrapped.
    fn bootstrap(&mut self) {
        match bootstrap::judge(self.blueprint, self.observed) {
            bootstrap::Verdict::Exists => {}
            bootstrap::Verdict::Blocked(refusals) => self.refusals.extend(refusals),
            bootstrap::Verdict::Start { node, reason } => {
                let nodes = self.blueprint.control_planes();
                let configured = nodes.map(|n| Action::configure(&n.name).id()).collect();
                self.push(Action::Bootstrap { node }, configured, reason, usual::BOOTSTRAP);
            }
        }
    }

    /// Whether a node has its place in the cluster, as far as can be seen.
    pub(super) fn join(&mut self, node: &Node) {
        if self.postponed.contains(&node.name) {
            return;
        }
        let configure = Action::configure(&node.name).id();
        let reason = if self.has(&configure) {
            "it is being configured".to_owned()
        } else {
            match self.missing(node) {
                Some(reason) => reason,
                None => return,
            }
        };
        let mut after = vec![configure];
        after.extend(
            self.steps.iter().filter(|s| matches!(s.action, Action::Bootstrap { .. })).map(|s| s.id.clone()),
        );
        self.push(Action::Join { node: node.name.clone() }, after, reason, usual::JOIN);
    }

    /// What a configured node lacks.
    fn missing(&self, node: &Node) -> Option<String> {
        use Condition::{Ready, Registered, Running, Voting};
        let machine = self.observed.machines.get(&node.name)?;
        let seen = Seen::of(self.blueprint, self.observed, node);
        let lacks = seen.lacks(&[Running, Voting, Registered, Ready])?;
        Some(match (lacks, seen.state(lacks)) {
            (Running, _) => {
                let stage = machine.stage.as_deref().unwrap_or("unknown");
                let unmet = if machine.unmet.is_empty() {
                    String::new()
                } else {
                    format!(": {}", machine.unmet.join("; "))
                };
                format!("its stage is {stage}{unmet}")
            }
            (Voting, _) => "it is not a voting member of etcd".to_owned(),
            (_, State::Unknown) => {
                "Kubernetes did not answer, so it is not known whether the node is registered".to_owned()
            }
            (Registered, _) => "Kubernetes has no such node".to_owned(),
            (_, _) => "Kubernetes says that it is not ready".to_owned(),
        })
    }

    /// What runs in the cluster and must show credentials elsewhere. One whose Secret may be there, because Kubernetes did
    /// not answer, is looked at again by the step itself.
    fn credentials(&mut self) {
        let control = self.blueprint.control_planes().map(|n| Action::Join { node: n.name.clone() }.id());
        let joined: Vec<StepId> = control.filter(|id| self.has(id)).collect();
        for to in Holder::of(self.blueprint) {
            let place = to.secret(self.blueprint).to_string();
            if self.observed.kubernetes.secrets.contains(&place) {
                continue;
            }
            let user = to.account(self.blueprint).map(|account| account.user);
            let reason = format!("Kubernetes has no Secret {place}");
            self.push(Action::CreateCredentials { to, user }, joined.clone(), reason, usual::CREDENTIALS);
        }
    }

    fn health(&mut self) {
        // A node that waits for another run is not healthy, and a note in the record changes no machine.
        let only_noted = self
            .steps
            .iter()
            .all(|step| matches!(step.action, Action::SealRecord { .. } | Action::UpdateRecord { .. }));
        if only_noted || !self.postponed.is_empty() {
            return;
        }
        let after = self.steps.iter().map(|s| s.id.clone()).collect();
        self.push(Action::CheckHealth, after, "after the changes above", usual::HEALTH);
    }

    /// Nodes that become ready only when a CNI plugin is installed.
    fn network(&mut self) {
        let ready = |node: &Node| Seen::of(self.blueprint, self.observed, node).meets(&[Condition::Ready]);
        if self.blueprint.awaits_network() && !self.blueprint.nodes.values().all(ready) {
            self.notes.push(Note {
                text: "the file asks for no CNI plugin, so nodes become ready only once you install one"
                    .to_owned(),
            });
        }
    }

    /// Nodes that take no ordinary pods until a cloud provider is installed.
    fn cloud_provider(&mut self) {
        let looked_at =
            |node: &Node| Seen::of(self.blueprint, self.observed, node).meets(&[Condition::Initialized]);
        if self.blueprint.awaits_cloud_provider() && !self.blueprint.nodes.values().all(looked_at) {
            self.notes.push(Note {
                text: "the file asks for a cloud provider and names no version of it, so nodes take pods only once you \
                       install one"
                    .to_owned(),
            });
        }
    }
}

/// Another machine answers at a node's address.
fn foreign_machine(node: &Node, why: &str) -> Refusal {
    let (name, address) = (&node.name, node.address.addr());
    Refusal {
        code: RefusalCode::ForeignMachine,
        why: format!("the machine at {address} is not {name}: {why}"),
        hint: format!(
            "free the address {address} or give {name} another one; nothing was sent to that machine"
        ),
    }
}

/// The machine at a node's address is configured, and not with the keys of the bundle.
fn other_keys(node: &Node, why: &str) -> Refusal {
    let (name, address) = (&node.name, node.address.addr());
    Refusal {
        code: RefusalCode::OtherKeys,
        why: format!(
            "{name} at {address} is configured with other keys than those of the secrets bundle: {why}"
        ),
        hint: "use the secrets bundle of this cluster, for example after its certificate authority was rotated elsewhere; if the machine belongs \
                 to another cluster, give the node another address; if it is of no use any more, wipe it with `talosctl reset`"
            .to_owned(),
    }
}
