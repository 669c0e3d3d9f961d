//! How etcd stands: how many of its members answer, whether it has a quorum, which one leads, and which node holds the VIP.
//!
//! Everything here is what members say of themselves. The number of members comes from their own lists, which they give only
//! while there is a quorum; without one it is not known, and the file's count does not take its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{Member, list, views};
use crate::blueprint::Blueprint;
use crate::names::NodeName;
use crate::observed::{Etcd, Machine};

/// Whether etcd can commit writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quorum {
    /// A member gave the list of members, or sees a leader.
    Holds,
    /// Members answer, and none of them sees a leader.
    Lost,
    /// Members answer, and do not tell.
    Unknown,
}

/// How etcd stands, as far as its members tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whether it has a quorum.
    pub quorum: Quorum,
    /// Nodes whose member answers.
    pub answer: Vec<String>,
    /// Voting members that do not answer; where no list is given, the control plane nodes of the file that do not.
    #[serde(rename = "unresponsive")]
    pub unresponsive: Vec<String>,
    /// Members of nodes that are not in the file.
    #[serde(default)]
    pub not_in_file: Vec<String>,
    /// Those of them that do not answer because Talosmith did not ask them: it knows no VM that runs.
    #[serde(default)]
    pub not_asked: Vec<String>,
    /// How many members vote, by their own lists. `None` where none gives one, or two differ.
    pub voters: Option<usize>,
    /// How many members more may fail before the quorum is lost. `None` where it is not known.
    pub tolerates: Option<usize>,
    /// The node of the leader, or its member ID where no node is known for it.
    pub leader: Option<String>,
    /// The cluster's VIP.
    pub vip: Option<Ipv4Addr>,
    /// The node that holds it. `None` where no node says that it does.
    pub vip_on: Option<String>,
    /// What members complain about, such as an alarm.
    pub errors: Vec<String>,
}

impl Standing {
    /// Whether a quorum is certain and every voting member answers.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.quorum == Quorum::Holds
            && self.unresponsive.is_empty()
            && self.voters.is_some()
            && self.errors.is_empty()
    }

    /// What the operator can do, where something is wrong.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.quorum {
            Quorum::Holds => None,
            Quorum::Lost => Some(
                "start the control plane nodes that are off, and see with `talosmith health` why etcd does not answer on the others; until a \
                 majority of the members runs, Kubernetes accepts no writes",
            ),
            Quorum::Unknown => Some("run the command again"),
        }
    }
}

/// How etcd stands; `None` where no member of it answers.
#[must_use]
pub fn standing(blueprint: &Blueprint, machines: &BTreeMap<NodeName, Machine>) -> Option<Standing> {
    let member = |(node, machine): (&NodeName, &Machine)| match &machine.etcd {
        Etcd::Member { id, learner, .. } => Some((id.clone(), (node.to_string(), *learner))),
        _ => None,
    };
    let members: BTreeMap<String, (String, bool)> = machines.iter().filter_map(member).collect();
    if members.is_empty() {
        return None;
    }
    let views = views(machines);
    let agreed = views.first().filter(|first| views.iter().all(|view| list(view) == list(first)));
    let voters: Option<Vec<&Member>> =
        agreed.map(|view| view.members.iter().filter(|m| !m.learner).collect());
    let statuses = || machines.values().filter_map(|machine| machine.etcd_status.as_ref());
    let leads = statuses().find_map(|status| status.leader.as_ref());
    let quorum = if !views.is_empty() || leads.is_some() {
        Quorum::Holds
    } else if statuses().next().is_some() {
        Quorum::Lost
    } else {
        Quorum::Unknown
    };
    let listed = views.iter().flat_map(|view| &view.members);
    let name = |id: &String| {
        let known = members.get(id).map(|(node, _)| node.clone());
        let named = listed.clone().find(|member| member.id == *id && !member.name.is_empty());
        known.or_else(|| named.map(|member| member.name.clone())).unwrap_or_else(|| format!("member {id}"))
    };
    let unresponsive: Vec<String> = match &voters {
        Some(voters) => {
            voters.iter().map(|m| &m.id).filter(|id| !members.contains_key(*id)).map(name).collect()
        }
        None => {
            let nodes = blueprint.control_planes().map(|node| node.name.to_string());
            nodes.filter(|node| !members.values().any(|(known, _)| known == node)).collect()
        }
    };
    let outside = |name: &&String| !blueprint.nodes.contains_key(*name);
    let not_asked =
        unresponsive.iter().filter(outside).filter(|name| !machines.contains_key(*name)).cloned().collect();
    let answer: BTreeSet<String> = members.values().map(|(node, _)| node.clone()).collect();
    let not_in_file: BTreeSet<String> = answer.iter().chain(&unresponsive).filter(outside).cloned().collect();
    let tolerates = voters.as_ref().filter(|_| quorum == Quorum::Holds).and_then(|voters| {
        let answer = voters.iter().filter(|m| members.contains_key(&m.id)).count();
        answer.checked_sub(voters.len() / 2 + 1)
    });
    let holds = |machine: &Machine| {
        let addresses = machine.addresses.as_ref()?;
        Some(addresses.contains(&blueprint.vip?))
    };
    let errors: BTreeSet<String> = statuses().flat_map(|status| status.errors.iter().cloned()).collect();
    Some(Standing {
        quorum,
        answer: answer.into_iter().collect(),
        unresponsive,
        not_in_file: not_in_file.into_iter().collect(),
        not_asked,
        voters: voters.map(|voters| voters.len()),
        tolerates,
        leader: leads.map(name),
        vip: blueprint.vip,
        vip_on: machines
            .iter()
            .find(|(_, machine)| holds(machine) == Some(true))
            .map(|(node, _)| node.to_string()),
        // That there is no leader is said already.
        errors: errors.into_iter().filter(|error| !error.ends_with("no leader")).collect(),
    })
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |names: &[String], one, many| if names.len() == 1 { one } else { many };
        let asked = self.unresponsive.iter().filter(|name| !self.not_asked.contains(name));
        let asked: Vec<&str> = asked.map(String::as_str).collect();
        let unresponsive = |f: &mut fmt::Formatter<'_>| {
            if !asked.is_empty() {
                write!(f, "; etcd on {} does not answer", asked.join(", "))?;
            }
            if !self.not_asked.is_empty() {
                let (is, was) = (verb(&self.not_asked, "is", "are"), verb(&self.not_asked, "was", "were"));
                write!(f, "; {} {is} not in the file and {was} not asked", self.not_asked.join(", "))?;
            }
            Ok(())
        };
        match (self.quorum, self.voters) {
            (Quorum::Holds, Some(voters)) => {
                let answer = voters - self.unresponsive.len();
                let members = if voters == 1 { "member answers" } else { "members answer" };
                write!(f, "{answer} of {voters} {members}, quorum holds")?;
                match self.tolerates {
                    // Those that were not asked may be well.
                    _ if !self.not_asked.is_empty() => {}
                    Some(0) if voters == 1 => f.write_str(", without it etcd stops")?,
                    Some(0) => f.write_str(", one more failure loses it")?,
                    Some(1) => f.write_str(", 1 failure is tolerated")?,
                    Some(more) => write!(f, ", {more} failures are tolerated")?,
                    None => f.write_str(" by members that do not answer here")?,
                }
                unresponsive(f)?;
            }
            (Quorum::Holds, None) => {
                f.write_str("quorum holds, and the number of members is not known: ")?;
                let (has, names) = (verb(&self.answer, "answers", "answer"), self.answer.join(", "));
                write!(f, "{names} {has}, and no list of members is agreed on")?;
                unresponsive(f)?;
            }
            (Quorum::Lost, _) => {
                let sees = verb(&self.answer, "answers and sees", "answer and see");
                let lost = if self.unresponsive.is_empty() {
                    "no leader (an election, or quorum lost)"
                } else {
                    "quorum lost"
                };
                write!(f, "{lost}: {} {sees} no leader", self.answer.join(", "))?;
                unresponsive(f)?;
            }
            (Quorum::Unknown, _) => {
                let (does, names) = (verb(&self.answer, "does", "do"), self.answer.join(", "));
                write!(f, "quorum unknown: {names} {does} not tell whether there is a leader")?;
                unresponsive(f)?;
            }
        }
        let asked: Vec<String> =
            self.not_in_file.iter().filter(|name| !self.not_asked.contains(name)).cloned().collect();
        if !asked.is_empty() {
            write!(f, "; {} {} not in the file", asked.join(", "), verb(&asked, "is", "are"))?;
        }
        if let Some(leader) = &self.leader {
            write!(f, "; leader {leader}")?;
        }
        match (&self.vip, &self.vip_on) {
            (Some(vip), Some(node)) => write!(f, "; VIP {vip} on {node}")?,
            (Some(vip), None) if self.quorum == Quorum::Lost => {
                write!(f, "; VIP {vip} on no node that answers")?
            }
            _ => {}
        }
        for error in &self.errors {
            write!(f, "; etcd reports: {}", error.trim())?;
        }
        Ok(())
    }
}
