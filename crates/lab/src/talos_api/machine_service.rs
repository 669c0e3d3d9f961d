//! `machine.MachineService`: the table of its methods. What takes more than a few lines is done elsewhere: `etcd`, `images`,
//! `files`, `system`, `power`.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use talos::wire::common::Data;
use talos::wire::machine as wire;
use talos::wire::machine::machine_service_server::MachineService;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Caller, kubeconfig, logs};
use crate::machine::{Leave, Mode, RecoverOptions, Refusal, ServiceAction};

pub(super) type Answer<T> = Result<Response<T>, Status>;

pub(super) fn status(refusal: Refusal) -> Status {
    Status::new(refusal.code, refusal.words)
}

/// A time on the wire.
pub(super) fn stamp(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: moment.as_second(), nanos: moment.subsec_nanosecond() }
}

/// A stream of bytes.
pub(super) fn data(chunks: Vec<Vec<u8>>) -> Response<BoxStream<Data>> {
    let chunks: Vec<_> = chunks.into_iter().map(|bytes| Ok(Data { metadata: None, bytes })).collect();
    Response::new(stream::iter(chunks).boxed())
}

/// An answer with one entry.
macro_rules! one {
    ($response:ident, $message:expr) => {
        Ok(Response::new(wire::$response { messages: vec![$message] }))
    };
}

#[tonic::async_trait]
impl MachineService for Caller {
    async fn apply_configuration(
        &self,
        request: Request<wire::ApplyConfigurationRequest>,
    ) -> Answer<wire::ApplyConfigurationResponse> {
        let request = request.into_inner();
        let trial = request.try_mode_timeout.and_then(|d| Duration::try_from(d).ok());
        let mode = Mode::from_wire(request.mode);
        let small_server = self.maintenance
            && self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.profile().minor <= 12));
        if small_server && wire::apply_configuration_request::Mode::try_from(request.mode).is_err() {
            return Err(Status::unimplemented(format!(
                "apply configuration --mode='{}' is not supported in maintenance mode",
                request.mode
            )));
        }
        let applied = self
            .act(|machines, now| machines.apply(self.vmid, &request.data, mode, request.dry_run, trial, now))
            .await?;
        let message = wire::ApplyConfiguration {
            mode: applied.mode.wire(),
            mode_details: applied.details,
            ..Default::default()
        };
        one!(ApplyConfigurationResponse, message)
    }

    async fn bootstrap(&self, request: Request<wire::BootstrapRequest>) -> Answer<wire::BootstrapResponse> {
        let request = request.into_inner();
        let options = RecoverOptions { skip_hash_check: request.recover_skip_hash_check };
        let recover = request.recover_etcd.then_some(options);
        self.act(|machines, now| machines.bootstrap(self.vmid, recover, now)).await?;
        one!(BootstrapResponse, wire::Bootstrap::default())
    }

    async fn kubeconfig(&self, _: Request<()>) -> Answer<BoxStream<Data>> {
        let archive = self.read(|machines, now| {
            machines.control_plane(self.vmid, "kubeconfig").map(|node| kubeconfig::archive(node, now))
        });
        let archive = archive
            .map_err(status)?
            .ok_or_else(|| Status::unknown("the cluster's authority cannot be used"))?;
        Ok(data(vec![archive]))
    }

    async fn version(&self, _: Request<()>) -> Answer<wire::VersionResponse> {
        let message = self.read(|machines, _| {
            let machine = machines.get(self.vmid)?;
            let image = machine.image()?;
            Some(wire::Version {
                metadata: None,
                version: Some(wire::VersionInfo {
                    tag: image.talos.clone(),
                    sha: "undefined".into(),
                    go_version: machine.profile().go.into(),
                    os: "linux".into(),
                    arch: image.arch.clone(),
                    ..Default::default()
                }),
                platform: Some(wire::PlatformInfo {
                    name: image.platform.clone(),
                    mode: if image.platform == "metal" { "metal" } else { "cloud" }.into(),
                }),
                features: machine.node().map(|_| wire::FeaturesInfo { rbac: true }),
            })
        });
        one!(VersionResponse, message.ok_or_else(|| Status::unavailable("the machine is gone"))?)
    }

    async fn hostname(&self, _: Request<()>) -> Answer<wire::HostnameResponse> {
        let hostname = self.read(|machines, _| machines.get(self.vmid).map(|m| m.hostname().to_owned()));
        one!(HostnameResponse, wire::Hostname { metadata: None, hostname: hostname.unwrap_or_default() })
    }

    async fn generate_client_configuration(
        &self,
        request: Request<wire::GenerateClientConfigurationRequest>,
    ) -> Answer<wire::GenerateClientConfigurationResponse> {
        one!(GenerateClientConfigurationResponse, self.client_configuration(request.into_inner())?)
    }

    // Services, logs, events.

    async fn service_list(&self, _: Request<()>) -> Answer<wire::ServiceListResponse> {
        one!(ServiceListResponse, wire::ServiceList { metadata: None, services: self.service_infos() })
    }

    async fn service_start(
        &self,
        request: Request<wire::ServiceStartRequest>,
    ) -> Answer<wire::ServiceStartResponse> {
        let resp = self.service_action(&request.into_inner().id, ServiceAction::Start).await?;
        one!(ServiceStartResponse, wire::ServiceStart { metadata: None, resp })
    }

    async fn service_stop(
        &self,
        request: Request<wire::ServiceStopRequest>,
    ) -> Answer<wire::ServiceStopResponse> {
        let resp = self.service_action(&request.into_inner().id, ServiceAction::Stop).await?;
        one!(ServiceStopResponse, wire::ServiceStop { metadata: None, resp })
    }

    async fn service_restart(
        &self,
        request: Request<wire::ServiceRestartRequest>,
    ) -> Answer<wire::ServiceRestartResponse> {
        let resp = self.service_action(&request.into_inner().id, ServiceAction::Restart).await?;
        one!(ServiceRestartResponse, wire::ServiceRestart { metadata: None, resp })
    }

    async fn logs(&self, request: Request<wire::LogsRequest>) -> Answer<BoxStream<Data>> {
        logs::answer(self, request.into_inner())
    }

    async fn logs_containers(&self, _: Request<()>) -> Answer<wire::LogsContainersResponse> {
        let ids = self.read(|machines, _| logs::names(machines, self.vmid));
        one!(LogsContainersResponse, wire::LogsContainer { metadata: None, ids })
    }

    async fn dmesg(&self, request: Request<wire::DmesgRequest>) -> Answer<BoxStream<Data>> {
        Ok(logs::dmesg(self, request.into_inner()))
    }

    async fn events(&self, request: Request<wire::EventsRequest>) -> Answer<BoxStream<wire::Event>> {
        Ok(Response::new(super::events::published(self.clone(), request.into_inner()).boxed()))
    }

    // Power and systems.

    async fn reboot(&self, request: Request<wire::RebootRequest>) -> Answer<wire::RebootResponse> {
        let forced = request.into_inner().mode() == wire::reboot_request::Mode::Force;
        let actor_id = self.leave(if forced { Leave::ForcedReboot } else { Leave::Reboot }).await?;
        one!(RebootResponse, wire::Reboot { metadata: None, actor_id })
    }

    async fn shutdown(&self, _: Request<wire::ShutdownRequest>) -> Answer<wire::ShutdownResponse> {
        let actor_id = self.leave(Leave::Shutdown).await?;
        one!(ShutdownResponse, wire::Shutdown { metadata: None, actor_id })
    }

    async fn reset(&self, request: Request<wire::ResetRequest>) -> Answer<wire::ResetResponse> {
        let actor_id = self.reset_machine(request.into_inner()).await?;
        one!(ResetResponse, wire::Reset { metadata: None, actor_id })
    }

    async fn upgrade(&self, request: Request<wire::UpgradeRequest>) -> Answer<wire::UpgradeResponse> {
        let actor_id = self.legacy_upgrade(request.into_inner()).await?;
        let ack = "Upgrade request received".to_owned();
        one!(UpgradeResponse, wire::Upgrade { metadata: None, ack, actor_id })
    }

    async fn rollback(&self, _: Request<wire::RollbackRequest>) -> Answer<wire::RollbackResponse> {
        self.act(|machines, now| machines.rollback(self.vmid, now)).await?;
        one!(RollbackResponse, wire::Rollback::default())
    }

    async fn meta_write(&self, request: Request<wire::MetaWriteRequest>) -> Answer<wire::MetaWriteResponse> {
        let request = request.into_inner();
        let value = String::from_utf8_lossy(&request.value).into_owned();
        self.act(|machines, _| machines.meta(self.vmid, request.key, Some(value))).await?;
        one!(MetaWriteResponse, wire::MetaWrite::default())
    }

    async fn meta_delete(
        &self,
        request: Request<wire::MetaDeleteRequest>,
    ) -> Answer<wire::MetaDeleteResponse> {
        let key = request.into_inner().key;
        self.act(|machines, _| machines.meta(self.vmid, key, None)).await?;
        one!(MetaDeleteResponse, wire::MetaDelete::default())
    }

    // Images and containers.

    async fn image_list(
        &self,
        request: Request<wire::ImageListRequest>,
    ) -> Answer<BoxStream<wire::ImageListResponse>> {
        self.legacy_images(request.into_inner().namespace)
    }

    async fn image_pull(&self, request: Request<wire::ImagePullRequest>) -> Answer<wire::ImagePullResponse> {
        let request = request.into_inner();
        self.pull_image(request.namespace, &request.reference).await?;
        one!(ImagePullResponse, wire::ImagePull::default())
    }

    async fn containers(
        &self,
        request: Request<wire::ContainersRequest>,
    ) -> Answer<wire::ContainersResponse> {
        let request = request.into_inner();
        let containers = self.container_infos(&request.namespace, request.driver)?;
        one!(ContainersResponse, wire::Container { metadata: None, containers })
    }

    async fn stats(&self, request: Request<wire::StatsRequest>) -> Answer<wire::StatsResponse> {
        let request = request.into_inner();
        let stats = self.container_stats(&request.namespace, request.driver)?;
        one!(StatsResponse, wire::Stats { metadata: None, stats })
    }

    async fn restart(&self, request: Request<wire::RestartRequest>) -> Answer<wire::RestartResponse> {
        let request = request.into_inner();
        self.container(&request.namespace, request.driver, &request.id)?;
        one!(RestartResponse, wire::Restart::default())
    }

    // Files.

    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<BoxStream<wire::FileInfo>> {
        self.list_files(&request.into_inner())
    }

    async fn disk_usage(
        &self,
        request: Request<wire::DiskUsageRequest>,
    ) -> Answer<BoxStream<wire::DiskUsageInfo>> {
        self.disk_usages(&request.into_inner())
    }

    async fn read(&self, request: Request<wire::ReadRequest>) -> Answer<BoxStream<Data>> {
        Ok(data(vec![self.file(&request.into_inner().path)?]))
    }

    async fn copy(&self, request: Request<wire::CopyRequest>) -> Answer<BoxStream<Data>> {
        let pieces = self.archive(&request.into_inner().root_path)?.into_iter().map(Ok);
        Ok(Response::new(stream::iter(pieces.collect::<Vec<_>>()).boxed()))
    }

    // The computer.

    async fn system_stat(&self, _: Request<()>) -> Answer<wire::SystemStatResponse> {
        one!(SystemStatResponse, self.statistics())
    }

    async fn memory(&self, _: Request<()>) -> Answer<wire::MemoryResponse> {
        one!(MemoryResponse, wire::Memory { metadata: None, meminfo: Some(self.memory_info()) })
    }

    async fn load_avg(&self, _: Request<()>) -> Answer<wire::LoadAvgResponse> {
        one!(LoadAvgResponse, self.load())
    }

    async fn cpu_info(&self, _: Request<()>) -> Answer<wire::CpuInfoResponse> {
        one!(CpuInfoResponse, wire::CpUsInfo { metadata: None, cpu_info: self.processors() })
    }

    async fn cpu_freq_stats(&self, _: Request<()>) -> Answer<wire::CpuFreqStatsResponse> {
        let cpu_freq_stats = self.processors().iter().map(|_| wire::CpuFreqStats::default()).collect();
        one!(CpuFreqStatsResponse, wire::CpUsFreqStats { metadata: None, cpu_freq_stats })
    }

    async fn disk_stats(&self, _: Request<()>) -> Answer<wire::DiskStatsResponse> {
        one!(DiskStatsResponse, self.disk_statistics())
    }

    async fn network_device_stats(&self, _: Request<()>) -> Answer<wire::NetworkDeviceStatsResponse> {
        one!(NetworkDeviceStatsResponse, self.network_statistics())
    }

    async fn mounts(&self, _: Request<()>) -> Answer<wire::MountsResponse> {
        one!(MountsResponse, wire::Mounts { metadata: None, stats: self.mount_infos() })
    }

    async fn processes(&self, _: Request<()>) -> Answer<wire::ProcessesResponse> {
        one!(ProcessesResponse, wire::Process { metadata: None, processes: self.process_infos() })
    }

    async fn netstat(&self, request: Request<wire::NetstatRequest>) -> Answer<wire::NetstatResponse> {
        let connectrecord = self.sockets(&request.into_inner())?;
        one!(NetstatResponse, wire::Netstat { metadata: None, connectrecord })
    }

    async fn packet_capture(&self, request: Request<wire::PacketCaptureRequest>) -> Answer<BoxStream<Data>> {
        self.capture(&request.into_inner())
    }

    // etcd.

    async fn etcd_member_list(
        &self,
        request: Request<wire::EtcdMemberListRequest>,
    ) -> Answer<wire::EtcdMemberListResponse> {
        let members = self.members(request.into_inner().query_local).await?;
        let legacy_members = members.iter().map(|m| m.hostname.clone()).collect();
        one!(EtcdMemberListResponse, wire::EtcdMembers { metadata: None, legacy_members, members })
    }

    async fn etcd_status(&self, _: Request<()>) -> Answer<wire::EtcdStatusResponse> {
        let member_status = self.member_status().await?;
        one!(EtcdStatusResponse, wire::EtcdStatus { metadata: None, member_status })
    }

    async fn etcd_alarm_list(&self, _: Request<()>) -> Answer<wire::EtcdAlarmListResponse> {
        let member_alarms = self.alarms().await?;
        one!(EtcdAlarmListResponse, wire::EtcdAlarm { metadata: None, member_alarms })
    }

    async fn etcd_alarm_disarm(&self, _: Request<()>) -> Answer<wire::EtcdAlarmDisarmResponse> {
        let member_alarms = self.disarm().await?;
        one!(EtcdAlarmDisarmResponse, wire::EtcdAlarmDisarm { metadata: None, member_alarms })
    }

    async fn etcd_defragment(&self, _: Request<()>) -> Answer<wire::EtcdDefragmentResponse> {
        self.wait_for_etcd("etcd defragment").await?;
        one!(EtcdDefragmentResponse, wire::EtcdDefragment::default())
    }

    async fn etcd_forfeit_leadership(
        &self,
        _: Request<wire::EtcdForfeitLeadershipRequest>,
    ) -> Answer<wire::EtcdForfeitLeadershipResponse> {
        let member = self.forfeit().await?;
        one!(EtcdForfeitLeadershipResponse, wire::EtcdForfeitLeadership { metadata: None, member })
    }

    async fn etcd_leave_cluster(
        &self,
        _: Request<wire::EtcdLeaveClusterRequest>,
    ) -> Answer<wire::EtcdLeaveClusterResponse> {
        self.leave_etcd().await?;
        one!(EtcdLeaveClusterResponse, wire::EtcdLeaveCluster::default())
    }

    async fn etcd_remove_member_by_id(
        &self,
        request: Request<wire::EtcdRemoveMemberByIdRequest>,
    ) -> Answer<wire::EtcdRemoveMemberByIdResponse> {
        self.remove_member(request.into_inner().member_id).await?;
        one!(EtcdRemoveMemberByIdResponse, wire::EtcdRemoveMemberById::default())
    }

    async fn etcd_snapshot(&self, _: Request<wire::EtcdSnapshotRequest>) -> Answer<BoxStream<Data>> {
        self.snapshot().await
    }

    async fn etcd_recover(&self, request: Request<Streaming<Data>>) -> Answer<wire::EtcdRecoverResponse> {
        self.upload_snapshot(request.into_inner()).await?;
        one!(EtcdRecoverResponse, wire::EtcdRecover::default())
    }

    async fn etcd_downgrade_validate(
        &self,
        request: Request<wire::EtcdDowngradeValidateRequest>,
    ) -> Answer<wire::EtcdDowngradeValidateResponse> {
        let cluster_downgrade = self.downgrade("validate", Some(&request.into_inner().version)).await?;
        one!(EtcdDowngradeValidateResponse, wire::EtcdDowngradeValidate { metadata: None, cluster_downgrade })
    }

    async fn etcd_downgrade_enable(
        &self,
        request: Request<wire::EtcdDowngradeEnableRequest>,
    ) -> Answer<wire::EtcdDowngradeEnableResponse> {
        let cluster_downgrade = self.downgrade("enable", Some(&request.into_inner().version)).await?;
        one!(EtcdDowngradeEnableResponse, wire::EtcdDowngradeEnable { metadata: None, cluster_downgrade })
    }

    async fn etcd_downgrade_cancel(&self, _: Request<()>) -> Answer<wire::EtcdDowngradeCancelResponse> {
        let cluster_downgrade = self.downgrade("cancel", None).await?;
        one!(EtcdDowngradeCancelResponse, wire::EtcdDowngradeCancel { metadata: None, cluster_downgrade })
    }
}
