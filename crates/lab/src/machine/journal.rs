//! What a machine publishes: sequences with their phases and tasks, states of services, its own status.
//!
//! Sequences are written where they start and end (`sequences`). Services and status are compared after each step with what
//! was told last, and the way from the one to the other is written out, because readers see every state on it. The log
//! starts again with each boot, as the buffer of a real machine does.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Machines;
use super::node::Machine;
use super::status::{Service, Status};

/// How many entries are kept.
const KEPT: usize = 500;

/// One published event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Counts from the machine's start.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    /// The ID of the caller that asked for the sequence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) actor: String,
    pub(crate) what: Happening,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Happening {
    /// A sequence starts or stops.
    Sequence(String, Action),
    /// A sequence did not start, or failed: the code and the words.
    Failure(String, Fault, String),
    Phase(String, Action),
    Task(String, Action),
    /// The service, its state, the message, and whether it is healthy.
    Service(String, String, String, Option<bool>),
    Status(Status),
    /// The host name and the addresses.
    Address(String, Vec<String>),
}

/// Beginning or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    Start,
    Stop,
}

/// Why a sequence did not run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    Fatal,
    Locked,
    Canceled,
}

/// What readers of the log know.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Told {
    count: u64,
    services: Vec<(String, String, Option<bool>, String)>,
    status: Option<Status>,
    /// The first sequence is being published; the console had it when it ran.
    #[serde(skip)]
    pub(super) initializing: bool,
    /// Whether the boot sequence has started and not ended.
    pub(super) booting: bool,
}

impl Machine {
    pub(super) fn publish(&mut self, at: Timestamp, actor: &str, what: Happening) {
        if !self.told.initializing {
            self.print_event(at, &what);
        }
        let number = self.told.count;
        self.told.count += 1;
        self.log.push(Entry { number, at, actor: actor.to_owned(), what });
        if self.log.len() > KEPT {
            self.log.drain(..KEPT / 4);
        }
    }

    /// The states that a service went through, oldest first.
    pub(crate) fn history(&self, id: &str) -> Vec<(&str, &str, Timestamp, Option<bool>)> {
        let events = self.log.iter().filter_map(|entry| match &entry.what {
            Happening::Service(service, state, message, healthy) if service == id => {
                Some((state.as_str(), message.as_str(), entry.at, *healthy))
            }
            _ => None,
        });
        events.collect()
    }

    /// Forgets everything, as a restart does.
    pub(super) fn begin_log(&mut self) {
        self.log.clear();
        self.told = Told::default();
    }

    /// The process id of a service.
    pub(crate) fn pid(&self, service: &str) -> u32 {
        if ["machined", "auditd", "syslogd"].contains(&service) {
            return 1;
        }
        200 + u32::try_from(self.seed(service) % 4000).unwrap_or(0)
    }

    /// The words with which a service says that it runs.
    fn started(&self, id: &str) -> String {
        let pid = self.pid(id);
        match id {
            "machined" | "auditd" | "syslogd" => "Service started as goroutine".to_owned(),
            "containerd" => format!(
                "Process Process([\"/bin/containerd\" \"--address\" \"/system/run/containerd/containerd.sock\" \"--state\" \"/system/run/containerd\" \"--root\" \"/system/var/lib/containerd\"]) started with PID {pid}"
            ),
            "cri" => format!(
                "Process Process([\"/bin/containerd\" \"--address\" \"/run/containerd/containerd.sock\" \"--config\" \"/etc/cri/containerd.toml\"]) started with PID {pid}"
            ),
            "udevd" => format!(
                "Process Process([\"/sbin/systemd-udevd\" \"--resolve-names=never\"]) started with PID {pid}"
            ),
            _ => format!("Started task {id} (PID {pid}) for container {id}"),
        }
    }

    /// The words with which a service is told to stop.
    fn stopping(&self, id: &str) -> String {
        match id {
            "machined" | "auditd" | "syslogd" => "Service stopping".to_owned(),
            "cri" | "containerd" | "udevd" => format!("Sending SIGTERM to Process({id})"),
            _ => format!("Sending SIGTERM to task {id} (PID {}, container {id})", self.pid(id)),
        }
    }

    fn service(&mut self, at: Timestamp, id: &str, state: &str, message: String, healthy: Option<bool>) {
        self.publish(at, "", Happening::Service(id.to_owned(), state.to_owned(), message, healthy));
    }

    /// Writes a service's way from one state to another.
    fn follow(&mut self, before: Option<&(String, String, Option<bool>, String)>, now: &Service) {
        let (at, id) = (now.since, now.id.as_str());
        let (was, healthy, said) = match before {
            Some((_, state, healthy, said)) => (state.as_str(), *healthy, said.as_str()),
            None => {
                self.service(at, id, "Starting", "Starting service".to_owned(), None);
                if let Some(words) = waits_for(id).filter(|_| now.state != "Waiting") {
                    self.service(at, id, "Waiting", words.to_owned(), None);
                }
                ("Starting", None, "")
            }
        };
        match now.state {
            "Waiting" | "Failed" if said != now.message => {
                self.service(at, id, now.state, now.message.clone(), None);
            }
            "Finished" if was != "Finished" => {
                if was == "Running" {
                    let words = self.stopping(id);
                    self.service(at, id, "Stopping", words, None);
                }
                self.service(at, id, "Finished", "Service finished successfully".to_owned(), None);
            }
            "Preparing" if was != "Preparing" => {
                if was == "Finished" {
                    self.service(at, id, "Starting", "Starting service".to_owned(), None);
                }
                self.service(at, id, "Preparing", "Running pre state".to_owned(), None);
            }
            "Running" => {
                if was != "Running" {
                    if was != "Preparing" {
                        self.service(at, id, "Preparing", "Running pre state".to_owned(), None);
                    }
                    self.service(at, id, "Preparing", "Creating service runner".to_owned(), None);
                    let words = self.started(id);
                    self.service(at, id, "Running", words, None);
                }
                match now.healthy {
                    Some(true) if healthy != Some(true) || was != "Running" => {
                        let at = now.first_check().max(now.checked);
                        self.service(at, id, "Running", "Health check successful".to_owned(), Some(true));
                    }
                    Some(false) if healthy != Some(false) => {
                        self.service(now.checked, id, "Running", now.message.clone(), Some(false));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// What a service waits for before it starts, in the words of its state.
fn waits_for(id: &str) -> Option<&'static str> {
    match id {
        "apid" => {
            Some("Waiting for service \"containerd\" to be \"up\", api certificates, config to be ready")
        }
        "syslogd" => Some("Waiting for service \"machined\" to be \"up\""),
        "cri" => Some(
            "Waiting for volumes /var/lib, /var/lib/cni, /var/lib/containerd, /var/run, /var/run/lock to be mounted, network",
        ),
        "trustd" => Some("Waiting for service \"containerd\" to be \"up\", time sync, network"),
        "etcd" => Some(
            "Waiting for volumes /var/lib, ETCD to be mounted, service \"cri\" to be \"up\", time sync, network, etcd spec",
        ),
        "kubelet" => Some(
            "Waiting for volumes /var/lib, /var/lib/kubelet, /var/log to be mounted, service \"cri\" to be \"up\", time sync, network, nodename, host info",
        ),
        _ => None,
    }
}

impl Machines {
    /// Publishes what changed since the last time on one machine.
    pub(super) fn note_changes(&mut self, vmid: u32) {
        let (now, services, status) = (self.now, self.services(vmid), self.status(vmid));
        let Some(machine) = self.machines.get_mut(&vmid) else { return };
        if machine.log.is_empty() {
            return;
        }
        let before = std::mem::take(&mut machine.told.services);
        for service in &services {
            let known = before.iter().find(|(id, ..)| *id == service.id);
            machine.follow(known, service);
        }
        for (id, state, ..) in before.iter().filter(|(id, ..)| !services.iter().any(|s| s.id == *id)) {
            if state != "Finished" {
                let words = machine.stopping(id);
                machine.service(now, id, "Stopping", words, None);
                machine.service(now, id, "Finished", "Service finished successfully".to_owned(), None);
            }
        }
        machine.told.services =
            services.into_iter().map(|s| (s.id, s.state.to_owned(), s.healthy, s.message)).collect();
        if status != machine.told.status {
            machine.told.status.clone_from(&status);
            if let Some(status) = status {
                machine.end_boot(now, &status);
                machine.publish(now, "", Happening::Status(status));
            }
        }
    }
}
