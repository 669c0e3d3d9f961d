//! Nodes that run another release or image of Talos than the file says. Other versions of Kubernetes are [`super::kubernetes`].
//!
//! Another Talos, and other extensions or kernel arguments, are the same operation: the installer of the wanted image runs on the
//! node, and the node boots it, as a unit of its own ([`super::units`]). Before the first node is drained, every node has pulled its
//! installer image, and nothing is known that would keep any of them from coming back: what is against one node is against all.

use super::bring_up::{Builder, usual};
use super::{Blocked, Note, Refusal, RefusalCode, preflight};
use crate::blueprint::Node;
use crate::forms::Version;
use crate::hops;
use crate::names::NodeName;
use crate::observed::Machine;
use crate::step::{Action, Disruption, StepId};

/// From this minor on, installing an image does not reboot the machine, and the installer does not read the machine config.
const LIFECYCLE_SERVICE: u64 = 13;

/// A node that gets another image of Talos.
#[derive(Debug)]
pub(super) struct Install {
    pub(super) node: NodeName,
    /// The release that runs.
    pub(super) runs: Option<String>,
    /// The release that it gets.
    pub(super) talos: String,
    /// The installer image.
    pub(super) image: String,
    /// Why.
    pub(super) reason: String,
    /// The key and the schematic of an image that the factory may not know yet.
    pub(super) register: Option<(String, String)>,
    /// Steps that come before.
    pub(super) after: Vec<StepId>,
}

impl Install {
    /// Whether the call that installs the image reboots the machine, too, as that of releases before 1.13 does.
    pub(super) fn reboots_itself(&self) -> bool {
        let runs = self.runs.as_deref().and_then(Version::read);
        runs.is_some_and(|runs| runs.minor < LIFECYCLE_SERVICE)
    }
}

impl Builder<'_> {
    /// A node runs another Talos than it should after the next hop.
    pub(super) fn other_talos(&mut self, node: &Node, machine: &Machine, runs: &str, after: Vec<StepId>) {
        let versions = Version::read(runs).zip(Version::read(&node.talos));
        let judged = versions.ok_or_else(|| format!("Talosmith cannot read the version {runs}"));
        let judged = judged
            .and_then(|(runs, wanted)| hops::may_follow(&runs, &wanted).map_err(|error| error.to_string()));
        // What is against the upgrade as a whole is said once, by `versions`.
        let has_problem = self.blueprint.upgrade.as_ref().is_some_and(|upgrade| upgrade.problem.is_some());
        match judged {
            Err(_) if has_problem => {}
            Err(why) => self.refuse_versions(format!("{}: {why}", node.name), &format!("talos: {runs}")),
            Ok(()) => {
                let reason = format!("it runs Talos {runs}");
                self.install(node, machine, reason, after);
            }
        }
    }

    /// A node gets the image of Talos that the file asks for.
    pub(super) fn install(&mut self, node: &Node, machine: &Machine, reason: String, after: Vec<StepId>) {
        let Some(image) = self.rendered.installers.get(&node.name).cloned() else {
            let what = format!(
                "Talosmith does not upgrade Talos on {}: its installer image is not known",
                node.name
            );
            let hint = "run the command again where the secrets bundle is".to_owned();
            return self.block(&node.name, Disruption::Reboot, what, hint);
        };
        let schematic = self.rendered.schematics.get(&node.image);
        let register = schematic.filter(|schematic| machine.schematic.as_ref() != Some(schematic));
        self.installs.push(Install {
            node: node.name.clone(),
            runs: machine.talos.clone(),
            talos: node.talos.clone(),
            image,
            reason,
            register: register.map(|schematic| (node.image.clone(), schematic.clone())),
            after,
        });
    }

    /// Turns what was found into needs of nodes, or says why not.
    pub(super) fn versions(&mut self) {
        let installs = std::mem::take(&mut self.installs);
        self.tell_apart();
        if let Some(upgrade) = &self.blueprint.upgrade
            && let Some(problem) = upgrade.problem.clone()
        {
            let runs = upgrade.talos.values().chain(upgrade.kubernetes.values()).next();
            let runs = runs.map(|change| change.runs.clone()).unwrap_or_default();
            self.refuse_versions(problem, &runs);
        }
        let is_installed = !installs.is_empty();
        if is_installed && self.may_install(&installs) {
            self.needs_of(installs);
        }
        self.upgrade_kubernetes(is_installed);
        for (node, (_, keys)) in std::mem::take(&mut self.with_image) {
            let text = format!(
                "the VM of {node} does not match the file ({}), and changes once the node runs the image in the file",
                keys.says.join("; ")
            );
            self.notes.push(Note { text });
        }
    }

    /// The file asks for versions that there is no way to.
    pub(super) fn refuse_versions(&mut self, why: String, runs: &str) {
        let refusal = Refusal {
            code: RefusalCode::Differs,
            why,
            hint: format!(
                "write what runs ({runs}) under `versions` in the file (of the cluster, the pool or the node), or a version that can \
                 be reached from there; `talosmith explain differs` has more"
            ),
        };
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    /// Whether nothing is known that would keep one of the nodes from coming back. What is, is blocked by name.
    fn may_install(&mut self, installs: &[Install]) -> bool {
        let before = self.blocked.len();
        for node in
            self.blueprint.upgrade.iter().flat_map(|upgrade| upgrade.unknown.clone()).collect::<Vec<_>>()
        {
            let (what, hint) = self.unknown_release(&node, installs);
            self.block(&node, Disruption::Reboot, what, hint);
        }
        for install in installs {
            let Some(machine) = self.observed.machines.get(&install.node).cloned() else { continue };
            if !machine.config_problems.is_empty() {
                let what = format!(
                    "Talosmith does not upgrade Talos: Talos {} would refuse the machine config that {} runs: {}",
                    install.talos,
                    install.node,
                    machine.config_problems.join("; ")
                );
                let hint = "change it with the file as it is now (`versions.talos` as it runs), apply, and upgrade then";
                self.block(&install.node, Disruption::Reboot, what, hint.to_owned());
            }
            self.keeps_arguments(install, &machine);
        }
        for missing in &self.observed.no_installers {
            let (why, hint) = preflight::no_image(missing);
            self.blocked.push(Blocked {
                node: None,
                what: format!("Talosmith does not upgrade Talos: {why}"),
                disruption: Disruption::Reboot,
                hint,
            });
        }
        self.stay_together();
        let may = self.blocked.len() == before;
        // What is against a node that the plan is not about is against those that it is about, too.
        if installs.iter().any(|install| self.targets.contains(&install.node)) {
            for blocked in self.blocked.iter_mut().skip(before) {
                blocked.node = blocked.node.take().filter(|node| self.targets.contains(node));
            }
        }
        may
    }

    /// What is said of a node that does not tell which release it runs.
    fn unknown_release(&self, node: &NodeName, installs: &[Install]) -> (String, String) {
        let is_off = |node: &Node| self.vm(node).is_some_and(|vm| !vm.running);
        let half = |node: &&Node| self.is_being_replaced(node) && is_off(node);
        if self.blueprint.nodes.get(node).filter(half).is_some() {
            let what = format!("Talosmith upgrades Talos once the replacement of {node} is complete");
            return (what, format!("continue it: `talosmith node replace {node}`"));
        }
        let rebooting =
            self.blueprint.upgrade.as_ref().is_some_and(|upgrade| upgrade.rebooting.contains(node));
        if rebooting {
            let others: Vec<&str> = installs.iter().map(|install| install.node.as_str()).collect();
            let what = format!(
                "Talosmith upgrades Talos on {} once {node} responds: Talosmith cordoned {node}, so it may be rebooting for its upgrade",
                others.join(", ")
            );
            let hint = format!(
                "`apply` waits for {node} and continues the upgrade; if it stops, give {node} some minutes and run the command again. Do not \
                 replace it while it boots (`talosmith status` says what is known of it)"
            );
            return (what, hint);
        }
        let what = format!(
            "Talosmith does not upgrade Talos: {node} does not respond, so it is not known which release it runs; it could be left \
             behind"
        );
        let hint = format!(
            "bring {node} back (`talosmith status` says what is known of it), replace it, or take it out of the file"
        );
        (what, hint)
    }

    /// Kernel arguments that only the machine config has are lost: the installer of 1.13 and newer does not read it.
    fn keeps_arguments(&mut self, install: &Install, machine: &Machine) {
        // One that reboots by itself reads the machine config, too.
        if machine.install_args.is_empty() || install.reboots_itself() {
            return;
        }
        // With UEFI the kernel has its arguments from the image already.
        let in_force = machine.kernel_args.as_deref().unwrap_or_default();
        let lost: Vec<&str> = machine
            .install_args
            .iter()
            .map(String::as_str)
            .filter(|argument| {
                machine.kernel_args.is_none() || in_force.split_whitespace().any(|it| it == *argument)
            })
            .collect();
        if lost.is_empty() {
            return;
        }
        let what = format!(
            "Talosmith does not upgrade Talos: {} has kernel arguments in `machine.install.extraKernelArgs` that the upgrade would drop: {}",
            install.node,
            lost.join(" ")
        );
        let hint = "move them to `image.kernel_args` in the file, and take them out of the patch";
        self.block(&install.node, Disruption::Reboot, what, hint.to_owned());
    }

    /// Every node pulls its installer image before the first one is drained.
    fn needs_of(&mut self, installs: Vec<Install>) {
        self.tell_path(&installs.iter().map(|install| install.node.clone()).collect::<Vec<_>>());
        let mut pulled = vec![];
        for install in &installs {
            let register = install.register.clone().map(|(image, schematic)| {
                let reason = "the factory builds only registered schematics";
                self.push(Action::RegisterSchematic { image, schematic }, vec![], reason, usual::REGISTER)
            });
            let action = Action::PullImage { node: install.node.clone(), image: install.image.clone() };
            let reason = "no node is drained before every node has its installer image";
            pulled.push(self.push(action, register.into_iter().collect(), reason, usual::PULL));
        }
        for install in installs {
            let after = install.after.iter().cloned().chain(pulled.iter().cloned()).collect();
            let node = install.node.clone();
            let with_image = self.with_image.remove(&node);
            let need = self.need(&node, after);
            need.install = Some(install);
            if let Some((vm, keys)) = with_image {
                // One restart for both.
                need.vm = Some(vm);
                need.power_cycle.set.extend(keys.set);
                need.power_cycle.says.extend(keys.says);
            }
        }
    }
}
