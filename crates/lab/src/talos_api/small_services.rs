//! Disks, the clock, and the health check.

use futures::StreamExt as _;
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
    /// The checks a machine runs on its own cluster. The lab runs the first: etcd.
    async fn health_check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<BoxStream<HealthCheckProgress>>, Status> {
        let outcome = self.read(|machines, _| {
            machines.control_plane(self.vmid, "cluster health check").map(|_| {
                machines.services(self.vmid).iter().any(|s| s.id == "etcd" && s.healthy == Some(true))
            })
        });
        let healthy = outcome.map_err(|refusal| Status::new(refusal.code, refusal.words))?;
        let progress = |message: &str| Ok(HealthCheckProgress { metadata: None, message: message.into() });
        let waiting = progress("waiting for etcd to be healthy: ...");
        let messages = if healthy {
            vec![waiting, progress("waiting for etcd to be healthy: OK")]
        } else {
            vec![waiting]
        };
        Ok(Response::new(futures::stream::iter(messages).boxed()))
    }
}
