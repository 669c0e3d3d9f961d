//! One call to anything in the lab: who made it, where it went, and whether it changes something or only reads.
//!
//! The judgment is made from the call alone, before anybody answers it. What is not known to be a read counts as a change.

use std::sync::Arc;

use http::Uri;
use serde::{Deserialize, Serialize};

/// Who answers a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Proxmox VE.
    Proxmox,
    /// The Image Factory.
    Factory,
    /// The API of the machines.
    Talos,
    /// Kubernetes' API.
    Kubernetes,
}

#[derive(Debug, Clone)]
pub struct Call {
    /// Counts from the opening of the lab.
    pub number: u64,
    /// Who answers it.
    pub service: Service,
    /// The method of HTTP; `CALL` for Talos.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// Whose connection it came over, as named in [`crate::Lab::net_of`]; empty for everybody else.
    pub origin: Arc<str>,
    /// The VM of the machine that answers, for Talos and Kubernetes.
    pub machine: Option<u32>,
    /// It asks what would happen, and nothing does.
    pub dry_run: bool,
    /// A machine in maintenance mode is sent key bytes: what was seen of it.
    pub delivery: Option<Delivery>,
}

/// What a client saw of the machine that it sends a machine config with keys to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The fingerprint of the certificate that the connection showed.
    pub fingerprint: String,
    /// Whether it was a relay's, which reads along.
    pub relayed: bool,
}

impl Call {
    pub(crate) fn new(service: Service, method: &str, uri: &Uri, origin: &Arc<str>) -> Self {
        let dry_run = uri.query().is_some_and(|query| query.split('&').any(|part| part == "dryRun=All"));
        Self {
            number: 0,
            service,
            method: method.to_owned(),
            path: uri.path().to_owned(),
            origin: origin.clone(),
            machine: None,
            dry_run,
            delivery: None,
        }
    }

    /// Whether it changes anything, or asks for it.
    #[must_use]
    pub fn changes(&self) -> bool {
        !self.dry_run && changes(self.service, &self.method, &self.path)
    }
}

/// Methods of Talos that only read.
const TALOS_READS: &[(&str, &[&str])] = &[
    (
        "machine.MachineService",
        &[
            "CPUFreqStats",
            "CPUInfo",
            "Containers",
            "Copy",
            "DiskStats",
            "DiskUsage",
            "Dmesg",
            "EtcdAlarmList",
            "EtcdDowngradeValidate",
            "EtcdMemberList",
            "EtcdSnapshot",
            "EtcdStatus",
            "Events",
            "GenerateClientConfiguration",
            "GenerateConfiguration",
            "Hostname",
            "ImageList",
            "Kubeconfig",
            "List",
            "LoadAvg",
            "Logs",
            "LogsContainers",
            "Memory",
            "Mounts",
            "Netstat",
            "NetworkDeviceStats",
            "PacketCapture",
            "Processes",
            "Read",
            "ServiceList",
            "Stats",
            "SystemStat",
            "Version",
        ],
    ),
    ("machine.ImageService", &["List", "Verify"]),
    ("storage.StorageService", &["Disks"]),
    ("time.TimeService", &["Time", "TimeCheck"]),
    ("cluster.ClusterService", &["HealthCheck"]),
    ("inspect.InspectService", &["ControllerRuntimeDependencies"]),
    ("cosi.resource.State", &["Get", "List", "Watch"]),
];

/// Ends of Proxmox paths that are posted and change nothing that anybody else sees.
const PROXMOX_READS: &[&str] =
    &["/access/ticket", "/agent/ping", "/vncproxy", "/termproxy", "/spiceproxy", "/vncshell", "/spiceshell"];

/// Kinds of Kubernetes that are created to be answered, and are never kept.
const KUBERNETES_QUESTIONS: &[&str] = &[
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "selfsubjectreviews",
    "subjectaccessreviews",
    "localsubjectaccessreviews",
    "tokenreviews",
];

/// Whether a call changes anything. A configuration that is only tried with `dry_run` is [`Call::dry_run`], not known here.
#[must_use]
pub fn changes(service: Service, method: &str, path: &str) -> bool {
    let reads = match service {
        Service::Talos => {
            let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
            TALOS_READS.iter().any(|(name, reads)| *name == service && reads.contains(&method))
        }
        _ if ["GET", "HEAD", "OPTIONS"].contains(&method) => true,
        Service::Proxmox => method == "POST" && PROXMOX_READS.iter().any(|end| path.ends_with(end)),
        Service::Kubernetes => {
            method == "POST"
                && path.rsplit('/').next().is_some_and(|kind| KUBERNETES_QUESTIONS.contains(&kind))
        }
        Service::Factory => false,
    };
    !reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talos_api::methods;

    /// What changes a machine. Together with the reads these are all methods that any release has, so that a new one
    /// cannot be forgotten.
    const TALOS_CHANGES: &[&str] = &[
        "/cosi.resource.State/Create",
        "/cosi.resource.State/Destroy",
        "/cosi.resource.State/Update",
        "/machine.DebugService/ContainerRun",
        "/machine.ImageService/Import",
        "/machine.ImageService/Pull",
        "/machine.ImageService/Remove",
        "/machine.LVMService/LogicalVolumeRemove",
        "/machine.LVMService/PhysicalVolumeRemove",
        "/machine.LVMService/VolumeGroupRemove",
        "/machine.LifecycleService/Install",
        "/machine.LifecycleService/Upgrade",
        "/machine.MDService/Destroy",
        "/machine.MachineService/ApplyConfiguration",
        "/machine.MachineService/Bootstrap",
        "/machine.MachineService/EtcdAlarmDisarm",
        "/machine.MachineService/EtcdDefragment",
        "/machine.MachineService/EtcdDowngradeCancel",
        "/machine.MachineService/EtcdDowngradeEnable",
        "/machine.MachineService/EtcdForfeitLeadership",
        "/machine.MachineService/EtcdLeaveCluster",
        "/machine.MachineService/EtcdRecover",
        "/machine.MachineService/EtcdRemoveMemberByID",
        "/machine.MachineService/ImagePull",
        "/machine.MachineService/MetaDelete",
        "/machine.MachineService/MetaWrite",
        "/machine.MachineService/Reboot",
        "/machine.MachineService/Reset",
        "/machine.MachineService/Restart",
        "/machine.MachineService/Rollback",
        "/machine.MachineService/ServiceRestart",
        "/machine.MachineService/ServiceStart",
        "/machine.MachineService/ServiceStop",
        "/machine.MachineService/Shutdown",
        "/machine.MachineService/Upgrade",
        "/storage.StorageService/BlockDeviceWipe",
    ];

    #[test]
    fn every_method_of_a_machine_is_known_as_a_read_or_as_a_change() {
        let mut changing: Vec<String> =
            methods().into_iter().filter(|path| changes(Service::Talos, "CALL", path)).collect();
        changing.sort();
        assert_eq!(changing, TALOS_CHANGES);
        assert!(changes(Service::Talos, "CALL", "/machine.MachineService/SomethingNew"));
    }

    #[test]
    fn every_verb_of_proxmox_and_kubernetes_is_known() {
        let vm = "/api2/json/nodes/pve1/qemu/100";
        for (method, path, expected) in [
            ("GET", "/config", false),
            ("PUT", "/config", true),
            ("POST", "/config", true),
            ("DELETE", "", true),
            ("POST", "/status/stop", true),
            ("POST", "/clone", true),
            ("PUT", "/resize", true),
            ("POST", "/agent/ping", false),
            ("POST", "/agent/exec", true),
            ("POST", "/termproxy", false),
        ] {
            assert_eq!(
                changes(Service::Proxmox, method, &format!("{vm}{path}")),
                expected,
                "{method} {path}"
            );
        }
        assert!(!changes(Service::Proxmox, "POST", "/api2/json/access/ticket"));
        assert!(changes(Service::Proxmox, "PUT", "/api2/json/access/acl"));
        let pod = "/api/v1/namespaces/default/pods/a";
        for (method, path, expected) in [
            ("GET", pod.to_owned(), false),
            ("POST", format!("{pod}/eviction"), true),
            ("PATCH", "/api/v1/nodes/a".to_owned(), true),
            ("DELETE", pod.to_owned(), true),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), false),
        ] {
            assert_eq!(changes(Service::Kubernetes, method, &path), expected, "{method} {path}");
        }
        let uri: Uri = "https://k/api/v1/nodes/a?fieldManager=x&dryRun=All".parse().unwrap();
        assert!(!Call::new(Service::Kubernetes, "PATCH", &uri, &"".into()).changes());
    }
}
