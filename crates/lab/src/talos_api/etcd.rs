//! etcd over the machine's API. Every call waits until etcd is there, however long that takes; without a leader some fail
//! and some wait on.

use futures::StreamExt as _;
use talos::wire::common::Data;
use talos::wire::machine as wire;
use tonic::codegen::BoxStream;
use tonic::{Status, Streaming};

use super::Caller;
use super::machine_service::{Answer, data, status};
use crate::machine::{EtcdService, snapshot, timing};

/// The size of the pieces in which a snapshot is streamed.
const CHUNK: usize = 32 * 1024;

impl Caller {
    /// An etcd call on a control plane waits until etcd is there.
    pub(super) async fn wait_for_etcd(&self, api: &str) -> Result<(), Status> {
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

    /// Waits until etcd has a leader, which without a majority is never.
    async fn wait_for_leader(&self) -> Result<(), Status> {
        let mut changes = self.shared.subscribe();
        while !self.read(|machines, _| machines.etcd_has_leader(self.vmid)) {
            if changes.changed().await.is_err() {
                return Err(Status::unavailable("the machine is gone"));
            }
        }
        Ok(())
    }

    /// The members as this machine's own etcd tells them, or as any that it can reach.
    pub(super) async fn members(&self, local: bool) -> Result<Vec<wire::EtcdMember>, Status> {
        // A machine whose own etcd left or was removed asks the others.
        let elsewhere = self.read(|machines, _| {
            let node = machines.control_plane(self.vmid, "member list").map_err(status)?;
            Ok::<_, Status>(
                !local && matches!(node.etcd, EtcdService::Finished { .. } | EtcdService::Removed),
            )
        })?;
        if !elsewhere {
            self.wait_for_etcd("member list").await?;
        }
        let members = self.read(|machines, now| {
            let etcd =
                if elsewhere { machines.etcd_of_cluster(self.vmid) } else { machines.etcd_of(self.vmid) }?;
            if local && machines.is_learner(self.vmid) {
                return Some(Err("etcdserver: rpc not supported for learner"));
            }
            if etcd.leader.is_none() || !elsewhere && !machines.etcd_has_leader(self.vmid) {
                return Some(Err("etcdserver: no leader"));
            }
            let url = |address, port| format!("https://{}", std::net::SocketAddr::new(address, port));
            let members = etcd.members.iter().map(|(id, member)| wire::EtcdMember {
                id: *id,
                hostname: if member.named_from <= now { member.name.clone() } else { String::new() },
                peer_urls: vec![url(member.peer, 2380)],
                client_urls: if member.named_from <= now { vec![url(member.peer, 2379)] } else { vec![] },
                is_learner: member.learner_until.is_some(),
            });
            Some(Ok(members.collect::<Vec<_>>()))
        });
        match members {
            Some(Ok(members)) => Ok(members),
            Some(Err(words)) => {
                if words.ends_with("no leader") {
                    self.shared.clock().sleep(timing::ETCD_NO_LEADER).await;
                }
                Err(Status::unknown(words))
            }
            None => Err(Status::unavailable("the machine is gone")),
        }
    }

    pub(super) async fn member_status(&self) -> Result<Option<wire::EtcdMemberStatus>, Status> {
        self.wait_for_etcd("etcd status").await?;
        Ok(self.read(|machines, _| {
            let etcd = machines.etcd_of(self.vmid)?;
            let (member_id, member) = machines.member_of(self.vmid)?;
            let profile = machines.get(self.vmid)?.profile();
            let index = etcd.raft_index();
            let learner = member.learner_until.is_some();
            let mut errors: Vec<String> =
                if etcd.leader.is_some() { vec![] } else { vec!["etcdserver: no leader".into()] };
            errors.extend(etcd.alarms.iter().map(|id| format!("memberID:{id} alarm:NOSPACE ")));
            Some(wire::EtcdMemberStatus {
                storage_version: if learner { "3.5.0".into() } else { profile.etcd_storage.into() },
                protocol_version: profile.etcd.into(),
                db_size: 20_480 + i64::try_from(index).unwrap_or(0) * 1024,
                db_size_in_use: 16_384 + i64::try_from(index).unwrap_or(0) * 1024,
                leader: etcd.leader.unwrap_or(0),
                raft_index: index,
                raft_term: etcd.term,
                raft_applied_index: index,
                errors,
                is_learner: learner,
                member_id,
            })
        }))
    }

    pub(super) async fn alarms(&self) -> Result<Vec<wire::EtcdMemberAlarm>, Status> {
        self.wait_for_etcd("etcd alarm list").await?;
        if self.read(|machines, _| machines.is_learner(self.vmid)) {
            return Err(Status::unknown(
                "failed to list etcd alarms: etcdserver: rpc not supported for learner",
            ));
        }
        self.wait_for_leader().await?;
        let ids = self.read(|machines, _| machines.etcd_of(self.vmid).map(|etcd| etcd.alarms.clone()));
        Ok(ids.unwrap_or_default().into_iter().map(no_space).collect())
    }

    pub(super) async fn disarm(&self) -> Result<Vec<wire::EtcdMemberAlarm>, Status> {
        let old = self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.profile().minor <= 12));
        self.wait_for_etcd(if old { "etcd alarm list" } else { "etcd alarm disarm" }).await?;
        self.wait_for_leader().await?;
        let ids = self.act(|machines, _| Ok(machines.disarm(self.vmid))).await?;
        Ok(ids.into_iter().map(no_space).collect())
    }

    pub(super) async fn forfeit(&self) -> Result<String, Status> {
        self.wait_for_etcd("etcd forfeit leadership").await?;
        if self.read(|machines, _| machines.is_learner(self.vmid)) {
            // A learner's own etcd does not answer this at all.
            return std::future::pending().await;
        }
        self.wait_for_leader().await?;
        Ok(self.act(|machines, now| machines.forfeit(self.vmid, now)).await?.unwrap_or_default())
    }

    pub(super) async fn leave_etcd(&self) -> Result<(), Status> {
        self.wait_for_etcd("etcd leave").await?;
        self.wait_for_leader().await?;
        let alone =
            self.read(|machines, _| machines.etcd_of(self.vmid).is_none_or(|etcd| etcd.members.len() < 2));
        if !alone {
            self.shared.clock().sleep(timing::ETCD_LEAVE).await;
        }
        self.act(|machines, now| machines.leave_etcd(self.vmid, now)).await
    }

    pub(super) async fn remove_member(&self, id: u64) -> Result<(), Status> {
        self.wait_for_etcd("etcd remove member").await?;
        self.act(|machines, now| machines.remove_member(self.vmid, id, now)).await
    }

    /// Works without a majority too: it is this member's own database.
    pub(super) async fn snapshot(&self) -> Answer<BoxStream<Data>> {
        self.wait_for_etcd("etcd snapshot").await?;
        let file = self.read(|machines, _| {
            let storage = machines.get(self.vmid)?.profile().etcd_storage;
            machines.etcd_of(self.vmid).map(|etcd| snapshot::write(&etcd.store, etcd.raft_index(), storage))
        });
        let file = file.ok_or_else(|| Status::unavailable("the machine is gone"))?;
        Ok(data(file.chunks(CHUNK).map(<[u8]>::to_vec).collect()))
    }

    pub(super) async fn upload_snapshot(&self, mut pieces: Streaming<Data>) -> Result<(), Status> {
        let mut file = vec![];
        while let Some(piece) = pieces.next().await {
            file.extend(piece?.bytes);
        }
        self.act(|machines, now| machines.upload_snapshot(self.vmid, file, now)).await
    }

    /// Validates or starts a downgrade; without a version, ends one. etcd goes down by one minor release and no further.
    pub(super) async fn downgrade(
        &self,
        what: &str,
        version: Option<&str>,
    ) -> Result<Option<wire::EtcdClusterDowngrade>, Status> {
        let old = self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.profile().minor <= 12));
        let api = format!("etcd downgrade {}", if old { "cancel" } else { what });
        self.read(|machines, _| machines.control_plane(self.vmid, &api).map(|_| ())).map_err(status)?;
        let target = version.map(downgrade_target).transpose()?;
        self.wait_for_etcd(&api).await?;
        let etcd = self.read(|machines, _| machines.get(self.vmid).map_or("", |m| m.profile().etcd));
        let own = etcd.rsplit_once('.').map_or(etcd, |(minor, _)| minor);
        let minor: u64 = own.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
        if target.is_some_and(|target| target != (3, minor.saturating_sub(1))) {
            return Err(Status::unknown(
                "failed to query etcd status: etcdserver: invalid downgrade target version",
            ));
        }
        Ok(Some(wire::EtcdClusterDowngrade { cluster_version: own.to_owned() }))
    }
}

/// The version that a downgrade names.
fn downgrade_target(version: &str) -> Result<(u64, u64), Status> {
    let wrong = |words: &str| Status::invalid_argument(words);
    if version.is_empty() {
        return Err(wrong("version is required for etcd downgrade"));
    }
    let parts: Vec<&str> = version.split('.').collect();
    let [major, minor] = parts.as_slice() else {
        return Err(wrong("version should be in MAJOR.MINOR format"));
    };
    let major = major.parse::<i64>().map_err(|_| wrong("major version should be a number"))?;
    let minor = minor.parse::<i64>().map_err(|_| wrong("minor version should be a number"))?;
    if (major, minor) < (3, 5) {
        return Err(wrong("etcd downgrade is only supported to 3.5 and later versions"));
    }
    Ok((u64::try_from(major).unwrap_or(0), u64::try_from(minor).unwrap_or(0)))
}

fn no_space(member_id: u64) -> wire::EtcdMemberAlarm {
    wire::EtcdMemberAlarm { member_id, alarm: wire::etcd_member_alarm::AlarmType::Nospace.into() }
}
