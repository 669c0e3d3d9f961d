//! Disks, the clock, and the health check.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use talos::wire::cluster::cluster_service_server::ClusterService;
use talos::wire::cluster::{HealthCheckProgress, HealthCheckRequest};
use talos::wire::storage::storage_service_server::StorageService;
use talos::wire::storage::{Disk, Disks, DisksResponse, disk::DiskType};
use talos::wire::time::time_service_server::TimeService;
use talos::wire::time::{Time, TimeRequest, TimeResponse};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::Caller;
use super::machine_service::stamp;
use super::resources::devices;
use crate::machine::Machines;

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
}

#[tonic::async_trait]
impl TimeService for Caller {
    async fn time(&self, _: Request<()>) -> Result<Response<TimeResponse>, Status> {
        let now = Some(stamp(self.shared.clock().now()));
        let server = "time.cloudflare.com".to_owned();
        let message = Time { metadata: None, server, localtime: now, remotetime: now };
        Ok(Response::new(TimeResponse { messages: vec![message] }))
    }

    async fn time_check(&self, request: Request<TimeRequest>) -> Result<Response<TimeResponse>, Status> {
        let server = request.into_inner().server;
        if server.is_empty() {
            return Err(Status::invalid_argument("ntp server is required"));
        }
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
            // Whoever asked may be gone: then nobody waits for the rest.
            let _ = caller.check_health(end, &sender).await;
        });
        let messages =
            stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
        Ok(Response::new(messages.boxed()))
    }
}

type Progress = tokio::sync::mpsc::Sender<Result<HealthCheckProgress, Status>>;
type Check = fn(&Machines, u32) -> bool;

const CHECKS: [(&str, Check); 4] = [
    ("etcd to be healthy", |machines, vmid| {
        machines.services(vmid).iter().all(|service| service.id != "etcd" || service.healthy == Some(true))
    }),
    ("kubelet to be healthy", |machines, vmid| {
        machines.services(vmid).iter().any(|service| service.id == "kubelet" && service.healthy == Some(true))
    }),
    ("all nodes to finish boot sequence", |machines, vmid| {
        machines.status(vmid).is_some_and(|status| status.stage == "running")
    }),
    ("all k8s nodes to report ready", |machines, vmid| {
        machines.status(vmid).is_some_and(|status| status.ready)
    }),
];

impl Caller {
    async fn check_health(&self, end: Timestamp, progress: &Progress) -> Option<()> {
        let mut changes = self.shared.subscribe();
        for (name, check) in CHECKS {
            let tell = |state: &str| HealthCheckProgress {
                metadata: None,
                message: format!("waiting for {name}: {state}"),
            };
            progress.send(Ok(tell("..."))).await.ok()?;
            while !self.read(|machines, _| {
                machines.cluster_of(self.vmid).into_iter().all(|vmid| check(machines, vmid))
            }) {
                let over = self.shared.clock().sleep_until(end);
                tokio::select! {
                    biased;
                    changed = changes.changed() => changed.ok()?,
                    () = over => {
                        let failure = Status::deadline_exceeded("context deadline exceeded");
                        return progress.send(Err(failure)).await.ok();
                    }
                }
            }
            progress.send(Ok(tell("OK"))).await.ok()?;
        }
        Some(())
    }
}
