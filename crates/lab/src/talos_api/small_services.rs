//! Disks, the clock, and the health check.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use talos::wire::cluster::cluster_service_server::ClusterService;
use talos::wire::cluster::{HealthCheckProgress, HealthCheckRequest};
use talos::wire::inspect::inspect_service_server::InspectService;
use talos::wire::inspect::{
    ControllerDependencyEdge, ControllerRuntimeDependenciesResponse, ControllerRuntimeDependency,
};
use talos::wire::storage::block_device_wipe_descriptor::Method;
use talos::wire::storage::storage_service_server::StorageService;
use talos::wire::storage::{
    BlockDeviceWipe, BlockDeviceWipeRequest, BlockDeviceWipeResponse, Disk, Disks, DisksResponse,
    disk::DiskType,
};
use talos::wire::time::time_service_server::TimeService;
use talos::wire::time::{Time, TimeRequest, TimeResponse};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::Caller;
use super::machine_service::stamp;
use super::resources::trees;
use crate::machine::{Machines, devices};

#[tonic::async_trait]
impl StorageService for Caller {
    async fn disks(&self, _: Request<()>) -> Result<Response<DisksResponse>, Status> {
        let disks = self.read(|machines, _| {
            let Some(machine) = machines.get(self.vmid) else { return vec![] };
            let fixed = |size, model: &str, name: &str, kind: DiskType, bus: &str| Disk {
                size,
                model: model.into(),
                device_name: format!("/dev/{name}"),
                r#type: kind.into(),
                bus_path: bus.into(),
                subsystem: "/sys/class/block".into(),
                readonly: true,
                ..Default::default()
            };
            let mut disks = vec![fixed(77_824_000, "", "loop0", DiskType::Unknown, "/virtual")];
            disks.extend(devices(&machine.hardware).into_iter().enumerate().map(|(number, device)| Disk {
                size: device.disk.bytes,
                model: device.model.into(),
                device_name: format!("/dev/{}", device.id),
                serial: device.disk.serial.clone().unwrap_or_default(),
                modalias: "scsi:t-0x00".into(),
                wwid: device.wwid,
                r#type: DiskType::Hdd.into(),
                bus_path: device.bus_path,
                system_disk: number == 0,
                subsystem: "/sys/class/block".into(),
                ..Default::default()
            }));
            disks.push(fixed(376_832, "QEMU DVD-ROM", "sr0", DiskType::Cd, "/pci0000:00/0000:00:01.1/ata2"));
            disks
        });
        Ok(Response::new(DisksResponse { messages: vec![Disks { metadata: None, disks }] }))
    }

    /// Wiping changes nothing that the lab keeps of a disk. All devices are looked at before the first is wiped.
    async fn block_device_wipe(
        &self,
        request: Request<BlockDeviceWipeRequest>,
    ) -> Result<Response<BlockDeviceWipeResponse>, Status> {
        let devices = request.into_inner().devices;
        devices.iter().try_for_each(|device| self.check_wipe(&device.device, device.skip_volume_check))?;
        if let Some(device) = devices.iter().find(|device| Method::try_from(device.method).is_err()) {
            let words = format!("unsupported wipe method {}", device.method);
            return Err(Status::invalid_argument(words));
        }
        Ok(Response::new(BlockDeviceWipeResponse { messages: vec![BlockDeviceWipe::default()] }))
    }
}

#[tonic::async_trait]
impl InspectService for Caller {
    /// The controllers that write the machine's status and its addresses: enough to see that there are some.
    async fn controller_runtime_dependencies(
        &self,
        _: Request<()>,
    ) -> Result<Response<ControllerRuntimeDependenciesResponse>, Status> {
        let edge = |controller: &str, space: &str, kind: &str| ControllerDependencyEdge {
            controller_name: controller.to_owned(),
            edge_type: 0,
            resource_namespace: space.to_owned(),
            resource_type: kind.to_owned(),
            resource_id: String::new(),
        };
        let edges = vec![
            edge("block.DisksController", "runtime", "Disks.block.talos.dev"),
            edge("network.NodeAddressController", "network", "NodeAddresses.net.talos.dev"),
            edge("runtime.MachineStatusController", "runtime", "MachineStatuses.runtime.talos.dev"),
        ];
        let messages = vec![ControllerRuntimeDependency { metadata: None, edges }];
        Ok(Response::new(ControllerRuntimeDependenciesResponse { messages }))
    }
}

#[tonic::async_trait]
impl TimeService for Caller {
    async fn time(&self, _: Request<()>) -> Result<Response<TimeResponse>, Status> {
        let now = Some(stamp(self.shared.clock().now()));
        let server = self.time_server(None)?;
        let message = Time { metadata: None, server, localtime: now, remotetime: now };
        Ok(Response::new(TimeResponse { messages: vec![message] }))
    }

    async fn time_check(&self, request: Request<TimeRequest>) -> Result<Response<TimeResponse>, Status> {
        let server = request.into_inner().server;
        let minor = self.read(|machines, _| machines.get(self.vmid).map_or(13, |m| m.profile().minor));
        if server.is_empty() && minor <= 12 {
            return Err(Status::unknown("error querying NTP server \"\": address string is empty"));
        }
        if server.is_empty() {
            return Err(Status::invalid_argument("ntp server is required"));
        }
        let server = self.time_server(Some(server))?;
        let now = Some(stamp(self.shared.clock().now()));
        let message = Time { metadata: None, server, localtime: now, remotetime: now };
        Ok(Response::new(TimeResponse { messages: vec![message] }))
    }
}

#[tonic::async_trait]
impl ClusterService for Caller {
    /// The checks that a control plane runs on its cluster, in order, each until it holds or the time is over.
    async fn health_check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<BoxStream<HealthCheckProgress>>, Status> {
        let allowed =
            self.read(|machines, _| machines.control_plane(self.vmid, "cluster health check").map(|_| ()));
        allowed.map_err(|refusal| Status::new(refusal.code, refusal.words))?;
        let limit =
            request.into_inner().wait_timeout.and_then(|d| Duration::try_from(d).ok()).unwrap_or_default();
        let end = self.shared.clock().now().checked_add(limit).unwrap_or(Timestamp::MAX);
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        let caller = self.clone();
        tokio::spawn(async move {
            // The caller may be gone: then nothing waits for the rest.
            let _ = caller.check_health(end, &sender).await;
        });
        let messages =
            stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
        Ok(Response::new(messages.boxed()))
    }
}

impl Caller {
    /// Whether a disk or a partition may be wiped: it is there, can be written, and no volume is on it.
    fn check_wipe(&self, name: &str, skip_volumes: bool) -> Result<(), Status> {
        let [disks, devices, volumes] = self.read(|machines, now| {
            ["Disks", "DiscoveredVolumes", "VolumeStatuses"]
                .map(|kind| trees(machines, self.vmid, now, &format!("{kind}.block.talos.dev")))
        });
        let Some(device) = devices.get(name) else {
            return Err(Status::not_found(format!("blockdevice {name:?} not found")));
        };
        let parent = device["parent"].as_str().unwrap_or_default();
        let disk = &disks.get(if parent.is_empty() { name } else { parent });
        if disk.is_some_and(|disk| disk["readonly"] == true) {
            return Err(Status::failed_precondition(format!("blockdevice {name:?} is read-only")));
        }
        let base = |place: &serde_json::Value| {
            place.as_str().and_then(|place| place.rsplit('/').next()).unwrap_or_default().to_owned()
        };
        for (volume, status) in volumes.iter().filter(|_| !skip_volumes) {
            let places = [base(&status["location"]), base(&status["mountLocation"])];
            let own =
                [name, parent].into_iter().find(|dev| !dev.is_empty() && places.iter().any(|p| p == dev));
            let within = (base(&status["parentLocation"]) == name).then_some(name);
            if let Some(used) = own.or(within) {
                let words = format!("blockdevice {used:?} is in use by volume {volume:?}");
                return Err(Status::failed_precondition(words));
            }
        }
        Ok(())
    }

    /// A time server that answers: the named one, or the machine's own.
    fn time_server(&self, named: Option<String>) -> Result<String, Status> {
        self.read(|machines, _| {
            let own = machines.get(self.vmid).map(|m| m.time_servers()).unwrap_or_default();
            let server = named.or_else(|| own.into_iter().next()).unwrap_or_default();
            if server.starts_with("/dev/") {
                let why = format!("open {server}: no such file or directory");
                return Err(Status::unknown(format!("error querying PTP device {server:?}: {why}")));
            }
            if machines.reaches(&server) {
                Ok(server)
            } else {
                Err(Status::unknown(format!("error querying NTP server {server:?}: i/o timeout")))
            }
        })
    }
}

type Progress = tokio::sync::mpsc::Sender<Result<HealthCheckProgress, Status>>;
/// The addresses for which a check does not hold, each with what is wrong there.
type Check = fn(&Machines, u32) -> Option<String>;

/// A service that must run and be healthy.
fn service(machines: &Machines, vmid: u32, id: &str) -> Option<String> {
    let found = machines.services(vmid).into_iter().find(|service| service.id == id)?;
    let state = found.state;
    if state != "Running" {
        return Some(format!(
            "service {id:?} not in expected state \"Running\": current state [{state}] {}",
            found.message
        ));
    }
    (found.healthy == Some(false)).then(|| format!("service {id:?} is not healthy: {}", found.message))
}

/// The conditions that a control plane checks on its cluster, in their order.
const CHECKS: &[(&str, Check)] = &[
    ("etcd to be healthy", |machines, vmid| service(machines, vmid, "etcd")),
    ("etcd members to be consistent across nodes", |_, _| None),
    ("etcd members to be control plane nodes", |_, _| None),
    ("apid to be ready", |machines, vmid| service(machines, vmid, "apid")),
    ("all nodes memory sizes", |machines, vmid| {
        let (memory, least) = machines.get(vmid).map_or((0, 0), |m| {
            (m.hardware.memory_mib, if m.node().is_some_and(|n| n.is_control_plane()) { 1698 } else { 874 })
        });
        (memory < least).then(|| format!("minimum memory size is {least} MiB, machine has {memory} MiB"))
    }),
    ("all nodes disk sizes", |machines, vmid| {
        let disk =
            machines.get(vmid).and_then(|m| m.hardware.disks.first().map(|disk| disk.bytes)).unwrap_or(0);
        (disk < 6 << 30).then(|| "ephemeral partition is too small".to_owned())
    }),
    ("no diagnostics", |_, _| None),
    ("kubelet to be healthy", |machines, vmid| service(machines, vmid, "kubelet")),
    ("all nodes to finish boot sequence", |machines, vmid| {
        let stage = machines.status(vmid).map(|status| status.stage).unwrap_or_default();
        (stage != "running").then(|| format!("stage is {stage:?}"))
    }),
    ("all k8s nodes to report", |_, _| None),
    ("all control plane static pods to be running", |machines, vmid| {
        let status = machines.status(vmid)?;
        status.unmet.iter().find(|(name, _)| name == "staticPods").map(|(_, reason)| reason.clone())
    }),
    ("all control plane components to be ready", |_, _| None),
    ("all k8s nodes to report ready", |machines, vmid| {
        let status = machines.status(vmid)?;
        status.unmet.iter().find(|(name, _)| name == "nodeReady").map(|(_, reason)| reason.clone())
    }),
    ("kube-proxy to report ready", |_, _| None),
    ("coredns to report ready", |_, _| None),
    ("all k8s nodes to report schedulable", |machines, vmid| {
        machines.is_cordoned(vmid).then(|| "node is not schedulable".to_owned())
    }),
];

impl Caller {
    /// What is wrong anywhere in the cluster, as a list of errors.
    fn unmet(&self, check: Check) -> Option<String> {
        self.read(|machines, _| {
            let found: Vec<String> = machines
                .cluster_of(self.vmid)
                .into_iter()
                .filter_map(|vmid| {
                    let address = machines.get(vmid)?.address()?;
                    check(machines, vmid).map(|words| format!("\n\t* {address}: {words}"))
                })
                .collect();
            let noun = if found.len() == 1 { "error" } else { "errors" };
            (!found.is_empty()).then(|| format!("{} {noun} occurred:{}", found.len(), found.concat()))
        })
    }

    async fn check_health(&self, end: Timestamp, progress: &Progress) -> Option<()> {
        let mut changes = self.shared.subscribe();
        let tell = |message: String| Ok(HealthCheckProgress { metadata: None, message });
        let nodes = self.read(|machines, _| {
            let addresses =
                machines.cluster_of(self.vmid).into_iter().filter_map(|vmid| machines.get(vmid)?.address());
            addresses.map(|address| format!("{:?}", address.to_string())).collect::<Vec<_>>().join(" ")
        });
        progress.send(tell(format!("discovered nodes: [{nodes}]"))).await.ok()?;
        let late = || Status::deadline_exceeded("context deadline exceeded");
        // No time to wait is a time that is over already.
        if end <= self.shared.clock().now() {
            return progress.send(Err(late())).await.ok();
        }
        for (name, check) in CHECKS {
            progress.send(tell(format!("waiting for {name}: ..."))).await.ok()?;
            let mut said = String::new();
            while let Some(words) = self.unmet(*check) {
                if words != said {
                    progress.send(tell(format!("waiting for {name}: {words}"))).await.ok()?;
                    said = words;
                }
                let over = self.shared.clock().sleep_until(end);
                tokio::select! {
                    biased;
                    changed = changes.changed() => changed.ok()?,
                    () = over => return progress.send(Err(late())).await.ok(),
                }
            }
            progress.send(tell(format!("waiting for {name}: OK"))).await.ok()?;
        }
        Some(())
    }
}
