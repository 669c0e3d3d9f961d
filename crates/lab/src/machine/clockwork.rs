//! Lets time pass for machines, etcd and Kubernetes.
//!
//! [`Machines::advance`] goes from due moment to due moment. At each it *settles*: one pass over everything in a fixed
//! order, repeated until nothing changes any more, in which each part looks at the others and takes the steps that are
//! now open to it. Every call that changes a machine settles too.

use jiff::Timestamp;

use super::admission;
use super::etcd::{Etcd, Known, Member};
use super::node::{EtcdData, EtcdService, Leave, Machine, Maintenance, Node, Phase, Registration, after};
use super::settings::Settings;
use super::{Machines, timing};

impl Machines {
    /// Lets time pass until `to`.
    pub fn advance(&mut self, to: Timestamp) {
        while let Some(due) = self.next_due().filter(|due| *due <= to) {
            self.now = due;
            self.settle();
        }
        self.now = self.now.max(to);
    }

    /// The next moment at which something may happen by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let machines = self.machines.values().flat_map(Machine::moments);
        let etcds = self.etcds.iter().flat_map(Etcd::moments);
        machines.chain(etcds).filter(|at| *at > self.now).min()
    }

    /// Takes every step that is open now.
    pub(super) fn settle(&mut self) {
        // Each pass can only open steps that a bounded chain of others waited for; the limit guards against a mistake.
        let vmids: Vec<u32> = self.machines.keys().copied().collect();
        for _ in 0..16 {
            let mut changed = false;
            for vmid in &vmids {
                let first = self.step_phase(*vmid);
                let second = self.step_certificate(*vmid);
                let third = self.step_images(*vmid);
                let fourth = self.step_etcd(*vmid);
                changed |= self.mark(*vmid, first || second || third || fourth);
            }
            changed |= self.step_clusters();
            for vmid in &vmids {
                let first = self.step_join(*vmid);
                let second = self.step_api_server(*vmid);
                let third = self.step_kubelet(*vmid);
                let fourth = self.step_components(*vmid);
                changed |= self.mark(*vmid, first || second || third || fourth);
            }
            if !changed {
                break;
            }
        }
        self.step_silence();
        self.write_kubernetes();
        let now = self.now;
        let due = self.machines.iter().filter(|(_, machine)| machine.moments().contains(&now));
        let due: Vec<u32> = due.map(|(vmid, _)| *vmid).collect();
        self.dirty.extend(due);
        for vmid in std::mem::take(&mut self.dirty) {
            self.note_changes(vmid);
            self.end_probation(vmid);
        }
    }

    /// Takes note that something happened on a machine, whose readers are told at the end of the step.
    pub(super) fn mark(&mut self, vmid: u32, changed: bool) -> bool {
        if changed {
            self.dirty.insert(vmid);
        }
        changed
    }

    /// A system that was ready once is kept.
    fn end_probation(&mut self, vmid: u32) {
        let ready = self.status(vmid).is_some_and(|status| status.stage == "running" && status.ready);
        if let Some(machine) = self.machines.get_mut(&vmid).filter(|machine| ready && machine.has_booted()) {
            machine.disk.on_probation = false;
        }
    }

    /// Boot ends, a configuration takes over, a machine goes down.
    fn step_phase(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let fails = self.fails_to_boot(vmid);
        let booted =
            |machine: &Machine| matches!(&machine.phase, Phase::Booting { until, .. } if *until <= now);
        if !fails && self.machines.get(&vmid).is_some_and(booted) {
            self.comes_back(vmid);
        }
        let Some(machine) = self.machines.get_mut(&vmid) else { return false };
        match &mut machine.phase {
            Phase::Booting { until, .. } if *until <= now && fails => {
                // Only a system that an upgrade brought has one to go back to; another fails again.
                machine.print_panic(now);
                machine.revert();
                machine.start(after(now, timing::FAILED_BOOT));
                true
            }
            Phase::Booting { network, connected, .. } if *network <= now && !*connected && !fails => {
                *connected = true;
                let network = *network;
                machine.print_network(network);
                true
            }
            Phase::Booting { network, until, .. } if *until <= now => {
                let (network_from, config) = (*network, machine.disk.config.clone());
                machine.publish_initialize(now);
                match config.and_then(|text| read(&text, machine).map(|settings| (text, settings))) {
                    Some((text, settings)) => {
                        machine.publish_boot(now, false);
                        machine.configure(text, settings, network_from, now);
                        self.provision(vmid);
                    }
                    None => {
                        machine.keys = machine.keys.max(1);
                        machine.phase = Phase::Maintenance(Maintenance {
                            network_from,
                            issued: Some(network_from),
                            hostname: None,
                            accepted: None,
                            off_at: None,
                        });
                        machine.publish_maintenance(now);
                    }
                }
                true
            }
            Phase::Maintenance(Maintenance { off_at: Some(at), .. }) if *at <= now => {
                machine.print_last(now, false, false);
                machine.stop(now);
                self.power_offs.push(vmid);
                true
            }
            Phase::Maintenance(Maintenance { network_from, accepted: Some(accepted), .. })
                if accepted.at <= now =>
            {
                let (accepted, network_from) = (accepted.clone(), *network_from);
                let Some(settings) = read(&accepted.config, machine) else { return false };
                machine.publish_boot(now, true);
                if accepted.trial.is_none() {
                    machine.disk.config = Some(accepted.config.clone());
                }
                machine.configure(accepted.config, settings, network_from, now);
                if let Some(node) = machine.node_mut() {
                    node.trial = accepted.trial.map(|limit| (after(now, limit), None));
                }
                self.provision(vmid);
                true
            }
            Phase::Maintenance(Maintenance { issued: Some(issued), accepted: None, .. })
                if after(*issued, timing::CERTIFICATE_RENEWED) <= now =>
            {
                machine.renew(now);
                true
            }
            Phase::Configured(node) => match node.leaving.as_mut() {
                Some(leaving) if leaving.gone <= now => {
                    let why = leaving.why;
                    self.depart(vmid, why);
                    true
                }
                Some(leaving) if leaving.closes <= now && !leaving.closed => {
                    leaving.closed = true;
                    machine.epoch += 1;
                    true
                }
                Some(leaving) if leaving.quits <= now && !leaving.stopped => {
                    leaving.stopped = true;
                    let (why, actor) = (leaving.why, node.actor.clone());
                    machine.publish_stopped(now, &actor, &why);
                    true
                }
                _ => end_trial(machine, now),
            },
            _ => false,
        }
    }

    /// The end of a reboot, shutdown or reset.
    fn depart(&mut self, vmid: u32, why: Leave) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(&vmid) else { return };
        let restarts = match why {
            Leave::Reboot | Leave::ForcedReboot | Leave::Upgrade => true,
            Leave::Shutdown => false,
            Leave::Reset { wipe, .. } => {
                if wipe.state {
                    machine.disk.config = None;
                }
                if wipe.ephemeral {
                    machine.disk.ephemeral += 1;
                    machine.disk.etcd = None;
                    machine.disk.recovery = None;
                    machine.disk.images.clear();
                }
                if wipe.meta {
                    machine.disk.meta.clear();
                }
                machine.disk.empty |= wipe.whole_disk;
                wipe.reboot
            }
        };
        let kexec = matches!(why, Leave::Reboot | Leave::Upgrade);
        machine.print_last(now, restarts, kexec);
        if restarts {
            machine.start(now);
        } else {
            machine.stop(now);
            self.power_offs.push(vmid);
        }
    }

    /// What a machine with a new configuration must fetch from elsewhere: without it, it waits.
    fn provision(&mut self, vmid: u32) {
        let Some(machine) = self.machines.get(&vmid) else { return };
        let Some(node) = machine.node() else { return };
        let clock = self.reaches_time(machine);
        let kubelet = self.reaches_image(&node.settings, &node.settings.images.kubelet);
        if let Some(node) = self.machines.get_mut(&vmid).and_then(Machine::node_mut) {
            if !clock {
                node.clock_from = Timestamp::MAX;
            }
            if !clock || !kubelet {
                node.kubelet_from = Timestamp::MAX;
            }
        }
    }

    /// A worker's certificate comes from the trustd of a control plane that it can find and whose token it shares.
    fn step_certificate(&mut self, vmid: u32) -> bool {
        // Talos asks for it as soon as it has an address, and again when it has the time. Where no time server answers, the clock of
        // the host must do.
        let timely = |node: &Node| node.clock_from <= self.now || node.clock_from == Timestamp::MAX;
        let Some(node) =
            self.live(vmid).filter(|node| node.issuer.is_none() && timely(node) && !node.without_api)
        else {
            return false;
        };
        let signer = self.machines.iter().find_map(|(other_id, other)| {
            let other = other.live_node()?;
            let signs = other.is_control_plane()
                && other.trustd_from() <= self.now
                && other.settings.talos_ca.crt == node.settings.talos_ca.crt
                && other.settings.token == node.settings.token
                && self.finds(vmid, node, *other_id, other);
            signs.then(|| other.settings.talos_ca.clone())
        });
        let (Some(issuer), now) = (signer, self.now) else { return false };
        self.live_mut(vmid).is_some_and(|node| {
            node.issuer = Some(issuer);
            node.api_from = Some(after(now, timing::WORKER_CERTIFICATE));
            true
        })
    }

    /// Whether `node` can find the control plane `other`: through discovery, or because the endpoint leads there.
    pub(super) fn finds(&self, vmid: u32, node: &Node, other_id: u32, other: &Node) -> bool {
        if !super::apart::hear(&self.apart, vmid, other_id) {
            return false;
        }
        self.discovers(node, other_id, other) || self.endpoint_of(node) == Some(other_id)
    }

    /// Whether the discovery service tells `node` of `other`.
    fn discovers(&self, node: &Node, other_id: u32, other: &Node) -> bool {
        node.settings.discovery
            && other.settings.discovery
            && node.settings.cluster_id == other.settings.cluster_id
            && self.reaches_discovery(other_id)
    }

    /// The machine that answers at the endpoint of a node's cluster.
    fn endpoint_of(&self, node: &Node) -> Option<u32> {
        self.owner(node.settings.endpoint_host().parse().ok()?)
    }

    /// etcd starts on its data, or writes the first.
    fn step_etcd(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let Some(node) = self.live(vmid) else { return false };
        let running = |healthy| EtcdService::Running { since: now, healthy_from: healthy };
        let healthy_from = Some(after(now, timing::ETCD_HEALTHY));
        match node.etcd {
            EtcdService::Starting { at } if at <= now && self.has_old_log(vmid) => {
                self.set_etcd(vmid, EtcdService::Crashing);
                true
            }
            EtcdService::Crashing if !self.has_old_log(vmid) => {
                self.set_etcd(vmid, EtcdService::Starting { at: now });
                true
            }
            EtcdService::Starting { at } if at <= now && node.clock_from <= now => {
                self.forget_newer_logs(vmid);
                let learner = self.member_of(vmid).is_some_and(|(_, member)| member.learner_until.is_some());
                self.set_etcd(vmid, running(healthy_from.filter(|_| !learner)));
                true
            }
            EtcdService::Bootstrapping { at } if at <= now => {
                let key = node.settings.cluster_key().to_owned();
                let Some(machine) = self.machines.get_mut(&vmid) else { return false };
                let Some(peer) = machine.address() else { return false };
                let mut cluster = Etcd::bootstrap(vmid, machine, key, peer, now, self.etcds.len());
                let recovered = machine.disk.recovery.take();
                if let Some(store) = recovered.and_then(|file| super::snapshot::read(&file, false).ok()) {
                    cluster.store = store;
                }
                machine.disk.etcd = cluster
                    .members
                    .keys()
                    .next()
                    .map(|member| EtcdData { cluster: cluster.id, member: *member });
                self.etcds.push(cluster);
                self.set_etcd(vmid, running(healthy_from));
                true
            }
            EtcdService::Joining { at } if at <= now => self.join(vmid),
            _ => false,
        }
    }

    fn join(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let target = self.joinable(vmid);
        let Some(machine) = self.machines.get_mut(&vmid) else { return false };
        let joined = target
            .zip(machine.address())
            .map(|(index, peer)| self.etcds[index].join(vmid, machine, peer, now));
        let state = match joined {
            Some(data) => {
                machine.disk.etcd = Some(data);
                EtcdService::Running { since: now, healthy_from: None }
            }
            // Someone else was faster: wait for the next turn.
            None => EtcdService::Preparing,
        };
        self.set_etcd(vmid, state);
        true
    }

    /// A control plane that waits takes the first cluster of its identity that it finds and that takes newcomers.
    fn step_join(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let waits = self.live(vmid).is_some_and(|node| {
            node.etcd == EtcdService::Preparing && node.cri_from <= now && node.clock_from <= now
        });
        if !waits || self.joinable(vmid).is_none() {
            return false;
        }
        self.set_etcd(vmid, EtcdService::Joining { at: after(now, timing::ETCD_JOIN) });
        true
    }

    fn joinable(&self, vmid: u32) -> Option<usize> {
        let node = self.live(vmid)?;
        let key = node.settings.cluster_key().to_owned();
        self.etcds.iter().position(|etcd| {
            let found = etcd.members.values().any(|member| {
                self.live(member.vmid).is_some_and(|other| {
                    // Without discovery the list of members is in Kubernetes, which must answer at the endpoint.
                    let serves = other.api_server_from.is_some_and(|at| at <= self.now);
                    let told = self.discovers(node, member.vmid, other)
                        || serves && self.endpoint_of(node) == Some(member.vmid);
                    matches!(other.etcd, EtcdService::Running { healthy_from: Some(at), .. } if at <= self.now)
                        && super::apart::hear(&self.apart, vmid, member.vmid)
                        && told
                })
            });
            etcd.key == key && etcd.accepts() && found
        })
    }

    /// Elections, promotions, the shared address.
    fn step_clusters(&mut self) -> bool {
        let now = self.now;
        let mut changed = false;
        for index in 0..self.etcds.len() {
            changed |= self.etcds[index].elect(&self.machines, &self.apart);
            for vmid in self.etcds[index].promote(&self.machines, now) {
                let healthy_from = Some(after(now, timing::ETCD_PROMOTED_HEALTHY));
                self.set_etcd(vmid, EtcdService::Running { since: now, healthy_from });
                changed = self.mark(vmid, true);
            }
            changed |= self.etcds[index].elect_vip(&self.machines, now);
        }
        changed
    }

    /// The API server of a control plane follows its healthy etcd member.
    fn step_api_server(&mut self, vmid: u32) -> bool {
        let now = self.now;
        self.live_mut(vmid).is_some_and(|node| {
            let healthy =
                matches!(node.etcd, EtcdService::Running { healthy_from: Some(at), .. } if at <= now);
            let starts = node.api_server_from.is_none()
                && healthy
                && node.kubelet_from <= now
                && !node.kubelet_stopped;
            if starts {
                node.api_server_from = Some(after(now, timing::API_SERVER));
            }
            starts
        })
    }

    /// The kubelet finds an API server, registers its node, and has it ready.
    fn step_kubelet(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let Some(node) = self.live(vmid).filter(|node| node.kubelet_from <= now) else { return false };
        let cni = node.settings.cni;
        let next = match node.registration {
            Registration::None if self.api_server_for(vmid).is_some() => {
                Registration::Registering { at: after(now, timing::KUBELET_REGISTERS) }
            }
            Registration::Registering { at } if at <= now => match self.api_server_for(vmid) {
                Some(index) => {
                    let cluster = self.etcds[index].id;
                    let name = self.machines.get(&vmid).map(|m| m.hostname().to_owned()).unwrap_or_default();
                    let nodes = &mut self.etcds[index].nodes;
                    let number = nodes.get(&name).map_or(nodes.len(), |known| known.number);
                    nodes.insert(name, Known { vmid, number, registers: true, lost_at: None });
                    Registration::Registered {
                        cluster,
                        ready_at: cni.then(|| after(now, timing::NODE_READY)),
                    }
                }
                None => Registration::None,
            },
            _ => return false,
        };
        self.live_mut(vmid).is_some_and(|node| {
            node.registration = next;
            true
        })
    }

    /// The etcd cluster behind the first API server that a machine's kubelet can reach.
    fn api_server_for(&self, vmid: u32) -> Option<usize> {
        let node = self.live(vmid)?;
        let key = node.settings.cluster_key();
        self.etcds.iter().position(|etcd| {
            let served = etcd.members.values().any(|member| {
                self.live(member.vmid).is_some_and(|other| {
                    let up = other.api_server_from.is_some_and(|at| at <= self.now);
                    up && (member.vmid == vmid || self.finds(vmid, node, member.vmid, other))
                })
            });
            etcd.key == key && etcd.leader.is_some() && served
        })
    }

    /// Notes which kubelets fell silent, and which came back.
    fn step_silence(&mut self) {
        let (now, lost_at) = (self.now, after(self.now, timing::NODE_LOST));
        let machines = &self.machines;
        for etcd in &mut self.etcds {
            for known in etcd.nodes.values_mut() {
                let node = machines.get(&known.vmid).and_then(Machine::live_node);
                let heard = node.filter(|node| node.kubelet_runs(now));
                known.lost_at = match heard.map(|node| node.registration) {
                    Some(Registration::Registered { cluster, .. }) if cluster == etcd.id => None,
                    _ => known.lost_at.or(Some(lost_at)),
                };
            }
        }
    }

    pub(super) fn live(&self, vmid: u32) -> Option<&Node> {
        self.machines.get(&vmid)?.live_node()
    }

    pub(super) fn live_mut(&mut self, vmid: u32) -> Option<&mut Node> {
        let machine = self.machines.get_mut(&vmid).filter(|machine| machine.is_plugged())?;
        machine.node_mut().filter(|node| !node.stopped())
    }

    pub(super) fn set_etcd(&mut self, vmid: u32, state: EtcdService) {
        if let Some(node) = self.live_mut(vmid) {
            node.etcd = state;
        }
    }

    /// The etcd member whose data a machine has. Members of former lives of the machine are others.
    pub(crate) fn member_of(&self, vmid: u32) -> Option<(u64, &Member)> {
        let id = self.machines.get(&vmid)?.disk.etcd?.member;
        self.etcd_of(vmid)?.members.get(&id).map(|member| (id, member))
    }

    /// The etcd cluster that a machine belongs to by its identity, whether or not it has data of it.
    pub(crate) fn etcd_of_cluster(&self, vmid: u32) -> Option<&Etcd> {
        let node = self.machines.get(&vmid)?.node()?;
        let key = node.settings.cluster_key();
        let registered = match node.registration {
            Registration::Registered { cluster, .. } => Some(cluster),
            _ => None,
        };
        // Where there are two of one identity, the one that it registered with, then the newer one that has a leader.
        let of_key = || self.etcds.iter().rev().filter(|etcd| etcd.key == key);
        self.etcd_of(vmid)
            .or_else(|| self.etcds.iter().find(|etcd| Some(etcd.id) == registered))
            .or_else(|| of_key().find(|etcd| etcd.leader.is_some()))
            .or_else(|| of_key().next())
    }

    /// The etcd cluster whose data a machine has.
    pub(crate) fn etcd_of(&self, vmid: u32) -> Option<&Etcd> {
        let data = self.machines.get(&vmid)?.disk.etcd?;
        self.etcds.iter().find(|etcd| etcd.id == data.cluster)
    }
}

/// The settings in a configuration that was accepted before.
fn read(text: &str, machine: &Machine) -> Option<Settings> {
    let documents = admission::documents(text.as_bytes(), machine.profile()).ok()?;
    let values: Vec<_> = documents.into_iter().map(|d| d.value).collect();
    Settings::read(&values, &machine.hardware.nics)
}

/// Takes back a configuration that was on trial. A machine that had none before is left without any API: neither the old
/// server comes back, nor has the new one a certificate.
fn end_trial(machine: &mut Machine, now: Timestamp) -> bool {
    let due = machine.node().and_then(|n| n.trial.clone()).filter(|(at, _)| *at <= now);
    let Some((_, text)) = due else { return false };
    let settings = text.as_ref().and_then(|text| read(text, machine));
    let Some(node) = machine.node_mut() else { return false };
    node.trial = None;
    match (text, settings) {
        (Some(text), Some(settings)) => {
            node.config = text;
            node.settings = settings;
            node.generation += 1;
        }
        _ => {
            node.api_from = None;
            node.issuer = None;
            node.without_api = true;
            machine.epoch += 1;
        }
    }
    true
}
