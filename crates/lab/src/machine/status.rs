//! What a machine says of itself: its stage, what it still waits for, its services.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Machines;
use super::components::STATIC_PODS;
use super::node::{EtcdService, Leave, Machine, Node, Phase, Registration, after};
use super::{pulls, timing};

/// One service of machined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) id: String,
    /// The state's name, as the API shows it.
    pub(crate) state: &'static str,
    /// `None`: not known (yet).
    pub(crate) healthy: Option<bool>,
    /// Since when it is in that state.
    pub(crate) since: Timestamp,
    /// When a check last changed what is known of its health.
    pub(crate) checked: Timestamp,
    pub(crate) message: String,
}

impl Service {
    /// When a service that runs is looked at for the first time. That of etcd is in [`EtcdService::Running`].
    pub(super) fn first_check(&self) -> Timestamp {
        match self.id.as_str() {
            "etcd" => self.since,
            "kubelet" => after(self.since, timing::KUBELET_FIRST_CHECK),
            _ => after(self.since, timing::FIRST_CHECK),
        }
    }

    /// Before its first check nothing is known of the health of a service.
    fn known_at(self, now: Timestamp) -> Self {
        match self.healthy {
            Some(true) if now < self.first_check() => {
                Self { healthy: None, message: format!("Started task {}", self.id), ..self }
            }
            _ => self,
        }
    }
}

/// Stage, readiness and unmet conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) stage: String,
    pub(crate) ready: bool,
    /// Names and reasons.
    pub(crate) unmet: Vec<(String, String)>,
}

impl Machines {
    /// The machine's status, if it runs far enough to have one.
    pub(crate) fn status(&self, vmid: u32) -> Option<Status> {
        let machine = self.machines.get(&vmid)?;
        let plain = |stage: &str| Some(Status { stage: stage.to_owned(), ready: true, unmet: vec![] });
        let node = match &machine.phase {
            Phase::Off | Phase::Blank => return None,
            Phase::Booting { .. } => return plain("booting"),
            Phase::Maintenance(_) => return plain("maintenance"),
            Phase::Configured(node) => node,
        };
        match node.leaving.map(|l| l.why) {
            Some(Leave::Reboot | Leave::ForcedReboot) => return plain("rebooting"),
            Some(Leave::Shutdown) => return plain("shutting down"),
            Some(Leave::Reset { .. }) => return plain("resetting"),
            Some(Leave::Upgrade) => return plain("upgrading"),
            None => {}
        }
        let waits = self.unmet_services(node);
        // What has booted goes on running, whatever its services do.
        let stage = if waits.is_empty() || !machine.told.booting { "running" } else { "booting" };
        let mut unmet: Vec<(&str, String)> = vec![];
        if node.clock_from > self.now {
            unmet.push(("time", "time is not synced".to_owned()));
        }
        if !waits.is_empty() {
            unmet.push(("services", waits.join(", ")));
        }
        let name = machine.hostname();
        let is_up = |component: &&str| match node.static_pods().find(|(known, _)| known == component) {
            Some((_, pod)) => pod.is_ready(self.now),
            // A lab state of an earlier version has no static pods of their own.
            None => node.api_server_from.is_some_and(|at| at <= self.now),
        };
        if node.is_control_plane()
            && waits.is_empty()
            && let Some(component) = STATIC_PODS.iter().find(|component| !is_up(component))
        {
            unmet.push(("staticPods", format!("kube-system/{component}-{name} not ready")));
        }
        match node.registration {
            Registration::Registered { ready_at: Some(at), .. } if at <= self.now => {}
            Registration::Registered { .. } => {
                unmet.push(("nodeReady", format!("node {name:?} is not ready")))
            }
            _ => unmet.push(("nodeReady", format!("node {name:?} status is not available yet"))),
        }
        let ready = unmet.is_empty();
        let unmet = unmet.into_iter().map(|(name, reason)| (name.to_owned(), reason)).collect();
        Some(Status { stage: stage.to_owned(), ready, unmet })
    }

    /// Why the boot sequence has not ended: one entry for each service that is not healthy.
    fn unmet_services(&self, node: &Node) -> Vec<String> {
        let mut waits = vec![];
        if node.kubelet_from > self.now || node.kubelet_stopped {
            waits.push("kubelet not running".to_owned());
        }
        match node.etcd {
            EtcdService::Absent => {}
            EtcdService::Running { healthy_from: Some(at), .. } if at <= self.now => {}
            EtcdService::Running { .. } => waits.push("etcd not healthy".to_owned()),
            _ => waits.push("etcd not running".to_owned()),
        }
        if node.is_control_plane() && node.trustd_from() > self.now {
            waits.push("trustd not running".to_owned());
        }
        waits
    }

    /// Whether the machine's clock is right.
    pub(crate) fn clock_is_synced(&self, vmid: u32) -> bool {
        let Some(machine) = self.machines.get(&vmid) else { return false };
        match &machine.phase {
            Phase::Configured(node) => node.clock_from <= self.now,
            Phase::Maintenance(m) => {
                self.reaches_time(machine) && after(m.network_from, timing::CLOCK_SYNC) <= self.now
            }
            _ => false,
        }
    }

    /// Whether Kubernetes was told to give the machine no new pods.
    pub(crate) fn is_cordoned(&self, vmid: u32) -> bool {
        let Some(machine) = self.machines.get(&vmid) else { return false };
        let name = machine.hostname();
        let place = crate::kube::Place { group: "", plural: "nodes", namespace: "", name };
        self.etcd_of_cluster(vmid)
            .and_then(|etcd| etcd.store.get(&place))
            .is_some_and(|node| node.pointer("/spec/unschedulable") == Some(&serde_json::Value::Bool(true)))
    }

    /// The services of a machine in the order of their names.
    pub(crate) fn services(&self, vmid: u32) -> Vec<Service> {
        let Some(machine) = self.machines.get(&vmid) else { return vec![] };
        let network = machine.network_since().unwrap_or(self.now);
        let mut services: Vec<Service> =
            ["apid", "auditd", "containerd", "machined", "syslogd", "udevd"].map(|id| up(id, network)).into();
        services.extend(machine.extensions().iter().filter_map(|name| extension(name, network)));
        match &machine.phase {
            Phase::Maintenance(_) => {}
            Phase::Configured(node) if node.stopped() => return vec![],
            Phase::Configured(node) => services.extend(self.node_services(node)),
            _ => return vec![],
        }
        services.sort_by(|a, b| a.id.cmp(&b.id));
        let checked = |service: Service| if machine.slow { service.on_slow_host(self.now) } else { service };
        services.into_iter().map(|service| checked(service).known_at(self.now)).collect()
    }

    fn node_services(&self, node: &Node) -> Vec<Service> {
        let now = self.now;
        let waiting = |id: &str, what: &str| state(id, "Waiting", node.began, what);
        let clock = node.clock_from <= now;
        let mut found = vec![];
        found.push(if node.cri_from <= now {
            up("cri", node.cri_from)
        } else {
            state("cri", "Preparing", node.began, "Running pre state")
        });
        let failed = |id: &str, since, image: &str| {
            state(id, "Failed", since, &format!("Failed to run pre stage: {}", pulls::not_found(image)))
        };
        found.push(match (clock, node.kubelet_from <= now) {
            (false, _) => waiting("kubelet", "Waiting for time sync"),
            (true, false) if node.kubelet_gives_up.is_some_and(|at| at <= now) => {
                let since = node.kubelet_gives_up.unwrap_or(now);
                failed("kubelet", since, &node.settings.images.kubelet)
            }
            (true, false) => state("kubelet", "Preparing", node.clock_from, "Running pre state"),
            (true, true) if node.kubelet_stopped => {
                state("kubelet", "Finished", now, "Service finished successfully")
            }
            (true, true) => up("kubelet", node.kubelet_from),
        });
        if !node.is_control_plane() {
            return found;
        }
        found.push(match (clock, node.trustd_from() <= now) {
            (false, _) => waiting("trustd", "Waiting for time sync"),
            (true, false) => state("trustd", "Preparing", node.began, "Running pre state"),
            (true, true) => up("trustd", node.trustd_from()),
        });
        found.push(match node.etcd {
            EtcdService::Running { healthy_from: Some(at), .. } if at <= now => up("etcd", at),
            EtcdService::Running { since, healthy_from } => Service {
                healthy: healthy_from.is_none().then_some(false),
                ..state("etcd", "Running", since, "Started task etcd")
            },
            EtcdService::Finished { since } => {
                state("etcd", "Finished", since, "Service finished successfully")
            }
            EtcdService::Failed { since } => failed("etcd", since, &node.settings.images.etcd),
            EtcdService::Removed => restarts_forever("etcd", node.cri_from, 1),
            // A panic of Go.
            EtcdService::Crashing => restarts_forever("etcd", node.cri_from, 2),
            _ if !clock => waiting("etcd", "Waiting for time sync"),
            _ if node.cri_from > now => waiting("etcd", "Waiting for service \"cri\" to be \"up\""),
            _ => state("etcd", "Preparing", node.cri_from, "Running pre state"),
        });
        found
    }
}

/// The service that an extension brings, if it brings one. No one can say whether it is healthy.
fn extension(name: &str, since: Timestamp) -> Option<Service> {
    const WITH_SERVICE: &[&str] =
        &["qemu-guest-agent", "iscsi-tools", "tailscale", "nut-client", "vmtoolsd-guest-agent"];
    let short = name.rsplit('/').next().unwrap_or(name);
    let id = if short == "iscsi-tools" { "iscsid" } else { short };
    WITH_SERVICE.contains(&short).then(|| state(&format!("ext-{id}"), "Running", since, "Started task"))
}

fn up(id: &str, since: Timestamp) -> Service {
    Service { healthy: Some(true), ..state(id, "Running", since, "Health check successful") }
}

/// A service whose container ends with an error as often as Talos starts it.
fn restarts_forever(id: &str, since: Timestamp, exit_code: u32) -> Service {
    let message = format!(
        "Error running Containerd({id}), going to restart forever: task \"{id}\" failed: exit code {exit_code}"
    );
    state(id, "Waiting", since, &message)
}

fn state(id: &str, state: &'static str, since: Timestamp, message: &str) -> Service {
    Service { id: id.to_owned(), state, healthy: None, since, checked: since, message: message.to_owned() }
}

impl Machine {
    /// Whether etcd's data directory is there.
    pub(crate) fn has_etcd_data(&self) -> bool {
        self.disk.etcd.is_some()
    }

    /// The random id that the kernel makes at each boot.
    pub(crate) fn boot_id(&self) -> String {
        crate::stable::stable_uuid(&[&self.hardware.uuid, &self.boots.to_string(), "boot id"])
    }
}
