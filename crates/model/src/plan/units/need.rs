//! What one node needs that disrupts it, put together: one restart at most, and the strongest disruption of all.

use super::super::bring_up::usual;
use super::super::by_hand::{ASKED, Hand};
use super::super::drift::{Keys, LeftDisk};
use super::super::kubernetes::KubeletUpgrade;
use super::super::versions::Install;
use super::DraftStep;
use crate::names::{NodeName, VmRef};
use crate::observed::ConfigCost;
use crate::step::{Action, ConfigMode, Disruption, RebootMode, Step, StepId, UnitId};
use crate::unit::Goal;
use crate::upgrade::Component;

/// What a node of the file needs that disrupts it.
#[derive(Debug, Default)]
pub(in crate::plan) struct Need {
    /// Steps that come before, and disrupt nothing.
    pub(in crate::plan) after: Vec<StepId>,
    /// Host and ID of its VM.
    pub(in crate::plan) vm: Option<VmRef>,
    /// What its VM takes over with a stop and start only.
    pub(in crate::plan) power_cycle: Keys,
    /// The step that changes its VM while it runs, with its network cut for a moment.
    pub(in crate::plan) rewire: Option<StepId>,
    /// Its machine config.
    pub(in crate::plan) config: Option<Config>,
    /// Data disks that the file does not have.
    pub(in crate::plan) left_disks: Vec<LeftDisk>,
    /// Whether its machine config was compared with the file, and nothing was against it.
    pub(in crate::plan) compared: bool,
    /// What a person asked for.
    pub(in crate::plan) by_hand: Option<Hand>,
    /// Another image of Talos.
    pub(in crate::plan) install: Option<Install>,
    /// Another version of its kubelet.
    pub(in crate::plan) kubelet: Option<KubeletUpgrade>,
    /// The Proxmox host that its VM moves to.
    pub(in crate::plan) moves: Option<Move>,
}

/// A VM that moves to another Proxmox host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct Move {
    /// Where it is.
    pub(in crate::plan) from: VmRef,
    /// The host that it moves to.
    pub(in crate::plan) to: String,
    /// Whether it runs meanwhile.
    pub(in crate::plan) online: bool,
    /// Whether disks move with it.
    pub(in crate::plan) local_disks: bool,
    /// Why it moves, and why in this way.
    pub(in crate::plan) reason: String,
}

/// A machine config that does not follow at once.
#[derive(Debug)]
pub(in crate::plan) struct Config {
    /// What taking it over costs.
    pub(in crate::plan) cost: ConfigCost,
    /// What differs.
    pub(in crate::plan) reason: String,
}

impl Need {
    pub(super) fn deletes(&self) -> bool {
        !self.left_disks.is_empty()
    }

    /// The strongest disruption of what runs there. `None` where it needs none.
    pub(super) fn restarts(&self) -> Option<Disruption> {
        let config = self.config.as_ref().map(|config| match config.cost {
            ConfigCost::Nothing | ConfigCost::Install | ConfigCost::Services | ConfigCost::Volume => {
                Disruption::ServiceRestart
            }
            ConfigCost::Network | ConfigCost::Reboot => Disruption::Reboot,
        });
        let rewire = self.rewire.as_ref().map(|_| Disruption::ServiceRestart);
        let cycle = (!self.power_cycle.is_empty()).then_some(Disruption::PowerCycle);
        let disk = self.deletes().then_some(Disruption::ServiceRestart);
        let by_hand = self.by_hand.map(|hand| match hand {
            Hand::Reboot => Disruption::Reboot,
            Hand::Shutdown => Disruption::PowerCycle,
            _ => Disruption::ServiceRestart,
        });
        let install = self.install.as_ref().map(|_| Disruption::Reboot);
        let kubelet = self.kubelet.as_ref().map(|_| Disruption::ServiceRestart);
        // A machine that moves while it runs stands still for a moment.
        let moves = self.moves.as_ref().map(|moves| match moves.online {
            true => Disruption::ServiceRestart,
            false => Disruption::PowerCycle,
        });
        [config, rewire, cycle, disk, by_hand, install, kubelet, moves].into_iter().flatten().max()
    }

    /// What of it is upgraded.
    pub(super) fn upgrades(&self) -> Option<&'static str> {
        match (&self.install, &self.kubelet) {
            (Some(_), _) => Some("Talos"),
            (None, Some(_)) => Some("Kubernetes"),
            (None, None) => None,
        }
    }

    /// What the unit does to the node, with what it deletes.
    pub(super) fn disruption(&self, restarts: Disruption) -> Disruption {
        if self.deletes() { Disruption::Delete } else { restarts }
    }

    /// What a person approves.
    pub(super) fn goal(&self, node: &str, disruption: Disruption) -> Goal {
        let node = NodeName::from(node);
        if let Some(moves) = self.moves.as_ref().filter(|_| self.by_hand.is_none() && !self.deletes()) {
            return Goal::Move { node, host: moves.to.clone() };
        }
        match disruption {
            _ if self.by_hand == Some(Hand::Shutdown) => Goal::Shutdown { node },
            _ if self.by_hand == Some(Hand::Drain) => Goal::Drain { node },
            _ if self.deletes() => Goal::DeleteDisks { node },
            _ if self.install.is_some() => Goal::UpgradeTalos { node },
            _ if self.kubelet.is_some() => Goal::UpgradeKubernetes { node },
            Disruption::PowerCycle => Goal::PowerCycle { node },
            Disruption::Reboot => Goal::Reboot { node },
            _ => Goal::RestartServices { node },
        }
    }

    /// The name of its unit.
    pub(super) fn unit(&self, node: &str) -> UnitId {
        UnitId(match self.by_hand {
            Some(Hand::Shutdown) => format!("shutdown/{node}"),
            Some(Hand::Drain) => format!("drain/{node}"),
            _ if self.upgrades().is_some() => format!("upgrade/{node}"),
            _ if self.moves.is_some() => format!("move/{node}"),
            _ => format!("restart/{node}"),
        })
    }

    /// Whether pods have to go.
    pub(super) fn drains(&self, restarts: Disruption) -> bool {
        restarts >= Disruption::Reboot
            || self.by_hand == Some(Hand::Drain)
            || self.kubelet.as_ref().is_some_and(KubeletUpgrade::is_minor)
    }

    /// What is done to the node itself.
    pub(super) fn acts(&self, node: &str, disruption: Disruption, reboot: RebootMode) -> Vec<DraftStep> {
        let mut acts = vec![];
        match self.by_hand {
            Some(Hand::Reboot) => {
                let action = Action::RebootNode { node: node.into(), mode: RebootMode::Default };
                acts.push(DraftStep::new(action, ASKED, usual::RESTART));
            }
            Some(Hand::Shutdown) => {
                let action = Action::ShutdownNode { node: node.into() };
                acts.push(DraftStep::new(action, ASKED, usual::STOP));
            }
            _ => {}
        }
        if let Some(Move { from, to, online, local_disks, reason }) = &self.moves {
            let action = Action::MigrateVm {
                node: node.into(),
                vm: from.clone(),
                to: to.clone(),
                online: *online,
                local_disks: *local_disks,
            };
            acts.push(DraftStep::new(action, reason.as_str(), usual::MIGRATE));
        }
        if let Some(config) = &self.config {
            let mode = match disruption {
                // One restart for both.
                _ if self.install.is_some() => ConfigMode::Staged,
                Disruption::PowerCycle => ConfigMode::Staged,
                Disruption::Reboot => ConfigMode::Reboot,
                _ => ConfigMode::NoReboot,
            };
            let seconds = match mode {
                ConfigMode::Reboot => usual::RESTART,
                ConfigMode::Staged => usual::STAGE,
                ConfigMode::NoReboot => usual::SERVICES,
            };
            let action = Action::Reconfigure { node: node.into(), mode };
            acts.push(DraftStep::new(action, config.reason.as_str(), seconds));
        }
        if let Some(KubeletUpgrade { runs, version }) = &self.kubelet {
            let component = Component::Kubelet;
            let action = Action::UpgradeComponent { node: node.into(), component, version: version.clone() };
            acts.push(DraftStep::new(action, format!("it runs {runs}"), usual::SERVICES));
        }
        acts.extend(self.install.iter().flat_map(|install| self.install_acts(node, install, reboot)));
        acts.extend(self.vm_acts(node));
        acts
    }

    /// The image is installed, and the machine boots it.
    fn install_acts(&self, node: &str, install: &Install, reboot: RebootMode) -> Vec<DraftStep> {
        let (image, talos) = (install.image.clone(), install.talos.clone());
        let action = Action::InstallTalos { node: node.into(), image, talos, mode: reboot };
        let boots = match reboot {
            RebootMode::Default => "it boots the image that was installed",
            RebootMode::PowerCycle => {
                "it boots the image that was installed; the first node of its role shows whether it boots from firmware"
            }
        };
        let (reason, seconds) = match install.reboots_itself() {
            true => (format!("{}; {boots}", install.reason), usual::INSTALL + usual::RESTART),
            false => (install.reason.clone(), usual::INSTALL),
        };
        let mut acts = vec![DraftStep::new(action, reason, seconds)];
        // A VM that is stopped and started boots it as well.
        if !install.reboots_itself() && (self.power_cycle.is_empty() || self.vm.is_none()) {
            let action = Action::RebootNode { node: node.into(), mode: reboot };
            acts.push(DraftStep::new(action, boots, usual::RESTART));
        }
        acts
    }

    /// What is done to its VM. A machine without a VM of ours has none of it.
    fn vm_acts(&self, node: &str) -> Vec<DraftStep> {
        let mut acts = vec![];
        let Some(vm) = &self.vm else { return acts };
        // It has moved by then.
        let vm = &match &self.moves {
            Some(moves) => VmRef::new(&moves.to, vm.vmid),
            None => vm.clone(),
        };
        if !self.power_cycle.is_empty() {
            let action = Action::PowerCycleVm {
                node: node.into(),
                vm: vm.clone(),
                set: self.power_cycle.set.clone(),
                says: self.power_cycle.says.clone(),
            };
            acts.push(DraftStep::new(action, "its VM does not match the file", usual::POWER_CYCLE));
        }
        for disk in &self.left_disks {
            let action = Action::DeleteDisk {
                node: node.into(),
                vm: vm.clone(),
                disk: disk.key.clone(),
                volume: disk.volume.clone(),
                gib: disk.gib,
            };
            let reason = "the file does not have it, and its deletion is allowed";
            acts.push(DraftStep::new(action, reason, usual::DELETE));
        }
        acts
    }

    /// What changes, in words.
    pub(super) fn changes(&self, rewire: Option<&Step>) -> String {
        let rewire = rewire.iter().flat_map(|step| match &step.action {
            Action::UpdateVm { says, .. } => says.clone(),
            _ => vec![],
        });
        let keys = self.power_cycle.says.iter().cloned();
        let config = self.config.iter().map(|config| config.reason.clone());
        let disks = self.left_disks.iter().map(|disk| format!("delete {disk}"));
        let by_hand = self.by_hand.iter().map(|_| ASKED.to_owned());
        let install =
            self.install.iter().map(|install| format!("{}; {} is installed", install.reason, install.image));
        let kubelet = self
            .kubelet
            .iter()
            .map(|upgrade| format!("its kubelet runs {}, and gets {}", upgrade.runs, upgrade.version));
        let moves = self.moves.iter().map(|moves| moves.reason.clone());
        by_hand
            .chain(moves)
            .chain(install)
            .chain(kubelet)
            .chain(rewire)
            .chain(keys)
            .chain(config)
            .chain(disks)
            .collect::<Vec<_>>()
            .join("; ")
    }
}
