//! `machine.MachineService`: configuring, bootstrapping, looking, rebooting.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use talos::wire::common::Data;
use talos::wire::machine as wire;
use talos::wire::machine::machine_service_server::MachineService;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::{Caller, kubeconfig, logs};
use crate::machine::{EtcdService, Leave, Machines, Mode, Profile, Refusal, Wipe, timing};

type Answer<T> = Result<Response<T>, Status>;

fn status(refusal: Refusal) -> Status {
    Status::new(refusal.code, refusal.words)
}

/// A time on the wire.
pub(super) fn stamp(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: moment.as_second(), nanos: moment.subsec_nanosecond() }
}

fn data(chunks: Vec<Vec<u8>>) -> Response<BoxStream<Data>> {
    let chunks: Vec<_> = chunks.into_iter().map(|bytes| Ok(Data { metadata: None, bytes })).collect();
    Response::new(stream::iter(chunks).boxed())
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
        let applied = self
            .act(|machines, now| machines.apply(self.vmid, &request.data, mode, request.dry_run, trial, now))
            .await?;
        let message = wire::ApplyConfiguration {
            mode: applied.mode.wire(),
            mode_details: applied.details,
            ..Default::default()
        };
        Ok(Response::new(wire::ApplyConfigurationResponse { messages: vec![message] }))
    }

    async fn bootstrap(&self, _: Request<wire::BootstrapRequest>) -> Answer<wire::BootstrapResponse> {
        self.act(|machines, now| machines.bootstrap(self.vmid, now)).await?;
        Ok(Response::new(wire::BootstrapResponse { messages: vec![wire::Bootstrap::default()] }))
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
            let image = machine.hardware.image.as_ref()?;
            let profile = Profile::of(&image.talos);
            Some(wire::Version {
                metadata: None,
                version: Some(wire::VersionInfo {
                    tag: image.talos.clone(),
                    sha: "undefined".into(),
                    go_version: profile.go.into(),
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
        let message = message.ok_or_else(|| Status::unavailable("the machine is gone"))?;
        Ok(Response::new(wire::VersionResponse { messages: vec![message] }))
    }

    async fn hostname(&self, _: Request<()>) -> Answer<wire::HostnameResponse> {
        let hostname = self.read(|machines, _| machines.get(self.vmid).map(|m| m.hostname().to_owned()));
        let message = wire::Hostname { metadata: None, hostname: hostname.unwrap_or_default() };
        Ok(Response::new(wire::HostnameResponse { messages: vec![message] }))
    }

    async fn service_list(&self, _: Request<()>) -> Answer<wire::ServiceListResponse> {
        let services = self.read(|machines, _| machines.services(self.vmid));
        let services = services
            .into_iter()
            .map(|service| wire::ServiceInfo {
                id: service.id,
                state: service.state.into(),
                events: Some(wire::ServiceEvents {
                    events: vec![wire::ServiceEvent {
                        msg: service.message,
                        state: service.state.into(),
                        ts: Some(stamp(service.since)),
                    }],
                }),
                health: Some(wire::ServiceHealth {
                    unknown: service.healthy.is_none(),
                    healthy: service.healthy == Some(true),
                    last_message: String::new(),
                    last_change: Some(stamp(service.since)),
                }),
            })
            .collect();
        let message = wire::ServiceList { metadata: None, services };
        Ok(Response::new(wire::ServiceListResponse { messages: vec![message] }))
    }

    async fn logs(&self, request: Request<wire::LogsRequest>) -> Answer<BoxStream<Data>> {
        let request = request.into_inner();
        if request.namespace.is_empty() {
            return Err(Status::invalid_argument("namespace can't be empty"));
        }
        let lines = self.read(|machines, _| logs::service(machines, self.vmid, &request.id));
        let lines =
            lines.ok_or_else(|| Status::unknown(format!("log {:?} was not registered", request.id)))?;
        // Negative is everything; unset is zero, and zero is nothing.
        let tail = usize::try_from(request.tail_lines).unwrap_or(lines.len());
        let skip = lines.len().saturating_sub(tail);
        Ok(data(lines.into_iter().skip(skip).map(|line| format!("{line}\n").into_bytes()).collect()))
    }

    async fn dmesg(&self, _: Request<wire::DmesgRequest>) -> Answer<BoxStream<Data>> {
        let lines = self.read(|machines, _| logs::kernel(machines, self.vmid));
        Ok(data(lines.into_iter().map(|line| format!("{line}\n").into_bytes()).collect()))
    }

    /// Of all folders only etcd's is kept track of: whether it is there is how one learns that there is data.
    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<BoxStream<wire::FileInfo>> {
        const MEMBER: &str = "/var/lib/etcd/member";
        let root = request.into_inner().root;
        let there = self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.has_etcd_data()));
        if root != MEMBER || !there {
            return Err(Status::unknown(format!("lstat {root}: no such file or directory")));
        }
        let entry = |path: &str, name: &str| wire::FileInfo {
            name: path.to_owned(),
            relative_name: name.to_owned(),
            is_dir: true,
            mode: 0o20_000_000_700,
            ..wire::FileInfo::default()
        };
        let entries = [
            entry(MEMBER, "."),
            entry("/var/lib/etcd/member/snap", "snap"),
            entry("/var/lib/etcd/member/wal", "wal"),
        ];
        Ok(Response::new(stream::iter(entries.map(Ok)).boxed()))
    }

    async fn read(&self, request: Request<wire::ReadRequest>) -> Answer<BoxStream<Data>> {
        let path = request.into_inner().path;
        let content = self.read(|machines, _| {
            let machine = machines.get(self.vmid)?;
            (path == "/proc/sys/kernel/random/boot_id").then(|| format!("{}\n", machine.boot_id()))
        });
        let missing = || Status::not_found(format!("stat {path}: no such file or directory"));
        Ok(data(vec![content.ok_or_else(missing)?.into_bytes()]))
    }

    /// The first message is empty: the stream is there. Then come changes of the machine's status.
    async fn events(&self, _: Request<wire::EventsRequest>) -> Answer<BoxStream<wire::Event>> {
        let hello = stream::once(async { Ok(wire::Event::default()) });
        Ok(Response::new(hello.chain(super::events::status_changes(self.clone())).boxed()))
    }

    async fn reboot(&self, _: Request<wire::RebootRequest>) -> Answer<wire::RebootResponse> {
        let actor_id = self.leave(Leave::Reboot).await?;
        let message = wire::Reboot { metadata: None, actor_id };
        Ok(Response::new(wire::RebootResponse { messages: vec![message] }))
    }

    async fn shutdown(&self, _: Request<wire::ShutdownRequest>) -> Answer<wire::ShutdownResponse> {
        let actor_id = self.leave(Leave::Shutdown).await?;
        let message = wire::Shutdown { metadata: None, actor_id };
        Ok(Response::new(wire::ShutdownResponse { messages: vec![message] }))
    }

    async fn reset(&self, request: Request<wire::ResetRequest>) -> Answer<wire::ResetResponse> {
        let request = request.into_inner();
        let named: Vec<_> =
            request.system_partitions_to_wipe.iter().filter(|p| p.wipe).map(|p| p.label.as_str()).collect();
        if let Some(strange) = named.iter().find(|label| !["STATE", "EPHEMERAL", "META"].contains(label)) {
            return Err(Status::unknown(format!(
                "failed to get volume status with label {strange:?}: resource not found"
            )));
        }
        let user_disks_only = request.mode == wire::reset_request::WipeMode::UserDisks as i32;
        let whole_disk = named.is_empty() && !user_disks_only;
        let wipe = Wipe {
            state: whole_disk || named.contains(&"STATE"),
            ephemeral: whole_disk || named.contains(&"EPHEMERAL"),
            whole_disk,
            reboot: request.reboot,
        };
        let actor_id = self
            .act(|machines, now| {
                machines.reset(self.vmid, request.graceful, wipe, now);
                Ok(actor(machines, self.vmid, now))
            })
            .await?;
        Ok(Response::new(wire::ResetResponse { messages: vec![wire::Reset { metadata: None, actor_id }] }))
    }

    async fn etcd_member_list(
        &self,
        request: Request<wire::EtcdMemberListRequest>,
    ) -> Answer<wire::EtcdMemberListResponse> {
        self.wait_for_etcd("member list").await?;
        let local = request.into_inner().query_local;
        let members = self.read(|machines, now| {
            let etcd = machines.etcd_of(self.vmid)?;
            let learner = machines.member_of(self.vmid).is_some_and(|(_, m)| m.learner_until.is_some());
            if local && learner {
                return Some(Err("etcdserver: rpc not supported for learner"));
            }
            if etcd.leader.is_none() {
                return Some(Err("etcdserver: no leader"));
            }
            let members = etcd.members.iter().map(|(id, member)| wire::EtcdMember {
                id: *id,
                hostname: if member.named_from <= now { member.name.clone() } else { String::new() },
                peer_urls: vec![format!("https://{}", authority(member.peer, 2380))],
                client_urls: vec![format!("https://{}", authority(member.peer, 2379))],
                is_learner: member.learner_until.is_some(),
            });
            Some(Ok(members.collect::<Vec<_>>()))
        });
        match members {
            Some(Ok(members)) => {
                let legacy_members = members.iter().map(|m| m.hostname.clone()).collect();
                let message = wire::EtcdMembers { metadata: None, legacy_members, members };
                Ok(Response::new(wire::EtcdMemberListResponse { messages: vec![message] }))
            }
            Some(Err(words)) => {
                self.shared.clock().sleep(timing::ETCD_NO_LEADER).await;
                Err(Status::unknown(words))
            }
            None => Err(Status::unavailable("the machine is gone")),
        }
    }

    async fn etcd_status(&self, _: Request<()>) -> Answer<wire::EtcdStatusResponse> {
        self.wait_for_etcd("etcd status").await?;
        let status = self.read(|machines, _| {
            let etcd = machines.etcd_of(self.vmid)?;
            let (member_id, member) = machines.member_of(self.vmid)?;
            let profile = Profile::of(&machines.get(self.vmid)?.hardware.image.as_ref()?.talos);
            let index = etcd.raft_index();
            Some(wire::EtcdMemberStatus {
                storage_version: profile.etcd_storage.into(),
                protocol_version: profile.etcd.into(),
                db_size: 20_480 + i64::try_from(index).unwrap_or(0) * 1024,
                db_size_in_use: 16_384 + i64::try_from(index).unwrap_or(0) * 1024,
                leader: etcd.leader.unwrap_or(0),
                raft_index: index,
                raft_term: etcd.term,
                raft_applied_index: index,
                errors: if etcd.leader.is_some() { vec![] } else { vec!["etcdserver: no leader".into()] },
                is_learner: member.learner_until.is_some(),
                member_id,
            })
        });
        let message = wire::EtcdStatus { metadata: None, member_status: status };
        Ok(Response::new(wire::EtcdStatusResponse { messages: vec![message] }))
    }

    async fn etcd_alarm_list(&self, _: Request<()>) -> Answer<wire::EtcdAlarmListResponse> {
        self.wait_for_etcd("etcd alarm list").await?;
        Ok(Response::new(wire::EtcdAlarmListResponse { messages: vec![wire::EtcdAlarm::default()] }))
    }
}

impl Caller {
    async fn leave(&self, why: Leave) -> Result<String, Status> {
        self.act(|machines, now| {
            machines.leave(self.vmid, why, now);
            Ok(actor(machines, self.vmid, now))
        })
        .await
    }

    /// An etcd call on a control plane waits until etcd is there, however long that takes.
    async fn wait_for_etcd(&self, api: &str) -> Result<(), Status> {
        let mut changes = self.shared.subscribe();
        loop {
            // Its certificates are made as soon as the clock is right.
            let state = self.read(|machines, now| {
                machines.control_plane(self.vmid, api).map(|node| (node.clock_from <= now, node.etcd))
            });
            match state.map_err(status)? {
                (_, EtcdService::Running { .. }) => return Ok(()),
                (false, _) => {
                    return Err(Status::unknown(
                        "error building etcd client TLS config: open /system/secrets/etcd/admin.crt: no such file or directory",
                    ));
                }
                (true, _) => {}
            }
            if changes.changed().await.is_err() {
                return Err(Status::unavailable("the machine is gone"));
            }
        }
    }
}

/// The id of whoever asked for a sequence.
fn actor(machines: &Machines, vmid: u32, now: Timestamp) -> String {
    let uuid = machines.get(vmid).map_or("", |m| m.hardware.uuid.as_str());
    crate::machine::stable_uuid(&[uuid, &now.to_string(), "actor"])
}

/// Address and port as they stand in a URL.
fn authority(address: std::net::IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}
