//! etcd, as a control plane sees it.
//!
//! All of these wait for etcd without end when it is not up: the caller sets the limit.

use talos::wire::machine as wire;

use crate::error::Result;
use crate::machine::Machine;

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its id.
    pub id: u64,
    /// The host it is on; empty for a moment while it joins.
    pub hostname: String,
    /// Whether it does not vote yet.
    pub learner: bool,
    /// Where the other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it.
    pub client_urls: Vec<String>,
}

/// What a member says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EtcdStatus {
    /// Its id.
    pub member: u64,
    /// The id of the leader; 0 when there is none.
    pub leader: u64,
    /// Whether it does not vote yet.
    pub learner: bool,
    /// Bytes on disk.
    pub db_size: u64,
    /// Bytes of those that are in use.
    pub db_size_in_use: u64,
    /// How far the log has come.
    pub raft_index: u64,
    /// How far the log has been applied.
    pub raft_applied_index: u64,
    /// The release of etcd.
    pub version: String,
    /// What it complains about.
    pub errors: Vec<String>,
}

impl Machine {
    /// The members. With `local` as this machine's own etcd sees them, else as the whole cluster agreed.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Unimplemented`] on a worker, and as any call.
    pub async fn etcd_members(&self, local: bool) -> Result<Vec<EtcdMember>> {
        let attempt = "listing the members of etcd";
        let request = wire::EtcdMemberListRequest { query_local: local };
        let answer = self.api.services().etcd_member_list(request).await;
        let answer = answer.map_err(|status| self.api.error(attempt, &status))?;
        let list = self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref())?;
        let member = |m: wire::EtcdMember| EtcdMember {
            id: m.id,
            hostname: m.hostname,
            learner: m.is_learner,
            peer_urls: m.peer_urls,
            client_urls: m.client_urls,
        };
        Ok(list.members.into_iter().map(member).collect())
    }

    /// What this machine's member says about itself.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Unimplemented`] on a worker, and as any call.
    pub async fn etcd_status(&self) -> Result<EtcdStatus> {
        let attempt = "reading the status of etcd";
        let answer =
            self.api.services().etcd_status(()).await.map_err(|status| self.api.error(attempt, &status))?;
        let message = self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref())?;
        let status = message.member_status.unwrap_or_default();
        Ok(EtcdStatus {
            member: status.member_id,
            leader: status.leader,
            learner: status.is_learner,
            db_size: status.db_size.try_into().unwrap_or(0),
            db_size_in_use: status.db_size_in_use.try_into().unwrap_or(0),
            raft_index: status.raft_index,
            raft_applied_index: status.raft_applied_index,
            version: status.protocol_version,
            errors: status.errors,
        })
    }

    /// Gives leadership to another member; does nothing where this one does not have it.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Other`] when it is the only member, and as any call.
    pub async fn etcd_forfeit_leadership(&self) -> Result<()> {
        let attempt = "giving away the leadership of etcd";
        let answer = self.api.services().etcd_forfeit_leadership(wire::EtcdForfeitLeadershipRequest {}).await;
        let answer = answer.map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }

    /// Takes this machine's member out of etcd for good and removes its data.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Other`] when too few members would be left, and as any call.
    pub async fn etcd_leave(&self) -> Result<()> {
        let attempt = "leaving etcd";
        let answer = self.api.services().etcd_leave_cluster(wire::EtcdLeaveClusterRequest {}).await;
        let answer = answer.map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }

    /// Removes another member, one that is gone for good.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::NotFound`] when there is no such member, and as any call.
    pub async fn etcd_remove_member(&self, id: u64) -> Result<()> {
        let attempt = "removing a member of etcd";
        let request = wire::EtcdRemoveMemberByIdRequest { member_id: id };
        let answer = self.api.services().etcd_remove_member_by_id(request).await;
        let answer = answer.map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }
}
