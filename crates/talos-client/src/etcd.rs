//! etcd, as a control plane sees it.
//!
//! All of these wait for etcd without end when it is not up, so all have a limit.

use talos::wire::machine as wire;

use crate::api::{LONG, QUESTION, WORK};
use crate::error::Result;
use crate::machine::Machine;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
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
    pub raft_term: u64,
    /// The release of etcd.
    pub version: String,
    /// What it complains about.
    pub errors: Vec<String>,
}

/// Something that is wrong with a member of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtcdAlarm {
    pub member: u64,
    /// What is wrong.
    pub kind: AlarmKind,
}

/// What can be wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmKind {
    /// Its database has reached its limit: nothing can be written until it is defragmented and the alarm disarmed.
    NoSpace,
    /// Its data differ from those of the others.
    Corrupt,
}

impl Machine {
    /// The members. With `local` as this machine's own etcd sees them, else as the whole cluster agreed.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Unimplemented`] on a worker; [`crate::Kind::NoQuorum`]; [`crate::Kind::Deadline`] before etcd runs.
    pub async fn etcd_members(&self, local: bool) -> Result<Vec<EtcdMember>> {
        let attempt = "listing the members of etcd";
        let request = wire::EtcdMemberListRequest { query_local: local };
        let list = self.api.ask(attempt, QUESTION, self.api.services().etcd_member_list(request)).await?;
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
    /// [`crate::Kind::Unimplemented`] on a worker; [`crate::Kind::Deadline`] before etcd runs.
    pub async fn etcd_status(&self) -> Result<EtcdStatus> {
        let attempt = "reading the status of etcd";
        let message = self.api.ask(attempt, QUESTION, self.api.services().etcd_status(())).await?;
        let status = message.member_status.unwrap_or_default();
        Ok(EtcdStatus {
            member: status.member_id,
            leader: status.leader,
            learner: status.is_learner,
            db_size: status.db_size.try_into().unwrap_or(0),
            db_size_in_use: status.db_size_in_use.try_into().unwrap_or(0),
            raft_index: status.raft_index,
            raft_applied_index: status.raft_applied_index,
            raft_term: status.raft_term,
            version: status.protocol_version,
            errors: status.errors,
        })
    }

    /// What is wrong with members, as far as etcd noticed.
    ///
    /// # Errors
    ///
    /// As [`Machine::etcd_status`]; it does not answer without a quorum.
    pub async fn etcd_alarms(&self) -> Result<Vec<EtcdAlarm>> {
        let attempt = "listing the alarms of etcd";
        let message = self.api.ask(attempt, QUESTION, self.api.services().etcd_alarm_list(())).await?;
        Ok(message.member_alarms.iter().filter_map(alarm).collect())
    }

    /// Takes back all alarms; returns those that there were.
    ///
    /// # Errors
    ///
    /// As [`Machine::etcd_alarms`].
    pub async fn etcd_disarm(&self) -> Result<Vec<EtcdAlarm>> {
        let attempt = "disarming the alarms of etcd";
        let message = self.api.ask(attempt, QUESTION, self.api.services().etcd_alarm_disarm(())).await?;
        Ok(message.member_alarms.iter().filter_map(alarm).collect())
    }

    /// Gives unused space of this member's database back. It does not answer meanwhile: one member at a time.
    ///
    /// # Errors
    ///
    /// As [`Machine::etcd_status`].
    pub async fn etcd_defragment(&self) -> Result<()> {
        let attempt = "defragmenting etcd";
        self.api.ask(attempt, LONG, self.api.services().etcd_defragment(())).await.map(drop)
    }

    /// Gives leadership to another member; does nothing where this one does not have it. Returns the new leader's name.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Other`] when it is the only member; [`crate::Kind::Deadline`] without a quorum.
    pub async fn etcd_forfeit_leadership(&self) -> Result<Option<String>> {
        let attempt = "giving away the leadership of etcd";
        let request = wire::EtcdForfeitLeadershipRequest {};
        let message =
            self.api.ask(attempt, WORK, self.api.services().etcd_forfeit_leadership(request)).await?;
        Ok(Some(message.member).filter(|name| !name.is_empty()))
    }

    /// Takes this machine's member out of etcd for good and removes its data. A bootstrap there afterwards would be taken,
    /// and make a second cluster.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Other`] when too few members would be left; [`crate::Kind::Deadline`] without a quorum.
    pub async fn etcd_leave(&self) -> Result<()> {
        let request = wire::EtcdLeaveClusterRequest {};
        self.api.ask("leaving etcd", LONG, self.api.services().etcd_leave_cluster(request)).await.map(drop)
    }

    /// Removes another member, one that is gone for good. A live one would restart its etcd for ever.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::NotFound`] when there is no such member, and as any call.
    pub async fn etcd_remove_member(&self, id: u64) -> Result<()> {
        let attempt = "removing a member of etcd";
        let request = wire::EtcdRemoveMemberByIdRequest { member_id: id };
        self.api.ask(attempt, WORK, self.api.services().etcd_remove_member_by_id(request)).await.map(drop)
    }
}

fn alarm(alarm: &wire::EtcdMemberAlarm) -> Option<EtcdAlarm> {
    use wire::etcd_member_alarm::AlarmType;
    let kind = match alarm.alarm() {
        AlarmType::Nospace => AlarmKind::NoSpace,
        AlarmType::Corrupt => AlarmKind::Corrupt,
        AlarmType::None => return None,
    };
    Some(EtcdAlarm { member: alarm.member_id, kind })
}
