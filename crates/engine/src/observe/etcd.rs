//! A node's part in etcd, as its machine says.

use std::collections::BTreeMap;

use model::blueprint::{Node, Role};
use model::names::NodeName;
use model::observed::{Etcd, EtcdStatus, Machine, Member};
use talos_client::{AlarmKind, EtcdAlarm, Machine as Client, Service};

use crate::Systems;
use crate::render::Access;
use crate::systems::REQUEST_TIMEOUT;

/// A node's part in etcd, and what its member says of the whole. Only a member is asked for that: others would wait for etcd.
pub(crate) async fn etcd_with_status(
    systems: &Systems,
    node: &Node,
    client: &Client,
) -> (Etcd, Option<EtcdStatus>) {
    let (services, member) = futures::join!(services(systems, client), member(systems, node, client));
    etcd_of(systems, node, client, member, services.as_deref()).await
}

/// The services of a machine; `None` where it did not tell.
pub(super) async fn services(systems: &Systems, client: &Client) -> Option<Vec<Service>> {
    systems.clock.timeout(REQUEST_TIMEOUT, client.services()).await.ok()?.ok()
}

/// A control plane node's own member ID, once it has one. A learner has none yet, so the list of members is asked by name.
pub(super) async fn member(systems: &Systems, node: &Node, client: &Client) -> Option<u64> {
    if node.role == Role::Worker {
        return None;
    }
    let local = client.get("etcd", "EtcdMembers.etcd.talos.dev", "local");
    let spec = systems.clock.timeout(REQUEST_TIMEOUT, local).await.ok()?.ok()?;
    u64::from_str_radix(spec.get("memberID")?.as_str()?, 16).ok()
}

/// A node's part in etcd and what its member says, where its member ID and its services are known.
pub(super) async fn etcd_of(
    systems: &Systems,
    node: &Node,
    client: &Client,
    member: Option<u64>,
    services: Option<&[Service]>,
) -> (Etcd, Option<EtcdStatus>) {
    if node.role == Role::Worker {
        return (Etcd::Empty, None);
    }
    let Some(id) = member else { return (outside(systems, client, services).await, None) };
    let (etcd, asked) = futures::join!(
        as_member(systems, client, id),
        systems.clock.timeout(REQUEST_TIMEOUT, client.etcd_status()),
    );
    let healthy = services.and_then(|services| {
        let etcd = services.iter().find(|service| service.id == "etcd")?;
        Some(etcd.state == "Running" && etcd.healthy == Some(true))
    });
    let status = asked.ok().and_then(Result::ok).map(|status| EtcdStatus {
        leader: (status.leader != 0).then(|| hex_id(status.leader)),
        errors: status.errors,
        term: status.raft_term,
        index: status.raft_index,
        applied: status.raft_applied_index,
        healthy,
    });
    (etcd, status)
}

/// A node's part in etcd. Its own member id is the proof that it has one; a service that still prepares has no data.
pub(crate) async fn etcd(systems: &Systems, node: &Node, client: &Client) -> Etcd {
    if node.role == Role::Worker {
        return Etcd::Empty;
    }
    match member(systems, node, client).await {
        Some(id) => as_member(systems, client, id).await,
        None => outside(systems, client, services(systems, client).await.as_deref()).await,
    }
}

async fn outside(systems: &Systems, client: &Client, services: Option<&[Service]>) -> Etcd {
    let proof = match services {
        Some(services) => is_empty(systems, client, services).await,
        None => None,
    };
    match proof {
        Some(true) => Etcd::Empty,
        Some(false) => Etcd::Data,
        None => Etcd::Unknown,
    }
}

/// A member, with its own list of all of them. A learner does not give one, so it is asked for the list of the others.
async fn as_member(systems: &Systems, client: &Client, id: u64) -> Etcd {
    let listed = async |local: bool| {
        let asked = systems.clock.timeout(REQUEST_TIMEOUT, client.etcd_members(local)).await;
        asked.ok().and_then(Result::ok)
    };
    let own = listed(true).await;
    let learns = |members: &[talos_client::EtcdMember]| members.iter().any(|m| m.id == id && m.learner);
    let learner = match &own {
        Some(members) => learns(members),
        None => listed(false).await.is_some_and(|members| learns(&members)),
    };
    let member = |m: talos_client::EtcdMember| Member {
        id: hex_id(m.id),
        name: m.hostname,
        learner: m.learner,
        peers: m.peer_urls,
    };
    let members = own.map(|members| members.into_iter().map(member).collect());
    Etcd::Member { id: hex_id(id), learner, members }
}

fn hex_id(id: u64) -> String {
    format!("{id:016x}")
}

/// Whether a machine surely has no etcd data. `None` when it cannot be told yet.
pub(crate) async fn has_no_etcd(systems: &Systems, machine: &Client) -> Option<bool> {
    is_empty(systems, machine, &services(systems, machine).await?).await
}

/// The proof needs both halves. The service prepares only after the volume with its data is mounted, and stays there for
/// as long as etcd is not started; a member that restarts passes through the same state, but its folder is there.
async fn is_empty(systems: &Systems, machine: &Client, services: &[Service]) -> Option<bool> {
    match services.iter().find(|s| s.id == "etcd")?.state.as_str() {
        "Preparing" => {}
        "Running" | "Stopping" => return Some(false),
        _ => return None,
    }
    let exists = systems
        .clock
        .timeout(REQUEST_TIMEOUT, machine.path_exists("/var/lib/etcd/member"))
        .await
        .ok()?
        .ok()?;
    Some(!exists)
}

/// Asks one member after the other, until one tells the alarms of etcd, and adds each to what the member that it is about reports.
///
/// # Errors
///
/// That members answer and none of them tells.
pub(crate) async fn add_alarms(
    systems: &Systems,
    access: &Access,
    nodes: impl IntoIterator<Item = &Node>,
    machines: &mut BTreeMap<NodeName, Machine>,
) -> Result<(), String> {
    let mut why = None;
    for node in nodes {
        if machines.get(&node.name).is_none_or(|machine| machine.etcd_status.is_none()) {
            continue;
        }
        match alarms(systems, access, node).await {
            Ok(alarms) => {
                alarms.iter().for_each(|alarm| add(machines, &node.name, *alarm));
                return Ok(());
            }
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    why.map_or(Ok(()), Err)
}

async fn alarms(systems: &Systems, access: &Access, node: &Node) -> Result<Vec<EtcdAlarm>, String> {
    let client = Client::connect(&systems.net, &systems.clock, systems.address(node), &access.talos)
        .map_err(|error| error.to_string())?;
    match systems.clock.timeout(REQUEST_TIMEOUT, client.etcd_alarms()).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} seconds", REQUEST_TIMEOUT.as_secs())),
    }
}

/// Adds an alarm to what its member reports; where that did not tell anything, to what the one that was asked does.
fn add(machines: &mut BTreeMap<NodeName, Machine>, asked: &str, alarm: EtcdAlarm) {
    let id = hex_id(alarm.member);
    let kind = match alarm.kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    };
    let is_its = |machine: &Machine| matches!(&machine.etcd, Etcd::Member { id: own, .. } if *own == id);
    let its = machines.iter().find(|(_, machine)| is_its(machine) && machine.etcd_status.is_some());
    let (name, text) = match its.map(|(name, _)| name.clone()) {
        Some(name) => (name, format!("alarm {kind}")),
        None => (asked.into(), format!("alarm {kind} of member {id}")),
    };
    let status = machines.get_mut(&name).and_then(|machine| machine.etcd_status.as_mut());
    // Members report alarms in their status, too.
    if let Some(status) = status.filter(|status| !status.errors.iter().any(|error| error.contains(kind))) {
        status.errors.push(text);
    }
}

#[cfg(test)]
mod tests {
    use model::observed::Api;

    use super::*;

    fn member(id: u64, told: bool) -> Machine {
        let mut machine = Machine::with(Api::Configured);
        machine.etcd = Etcd::Member { id: hex_id(id), learner: false, members: None };
        machine.etcd_status = told.then(EtcdStatus::default);
        machine
    }

    #[test]
    fn an_alarm_stands_with_the_member_that_it_is_about() {
        let mut machines =
            BTreeMap::from([("cp-1".into(), member(1, true)), ("cp-2".into(), member(2, true))]);
        let alarm = |member| EtcdAlarm { member, kind: AlarmKind::NoSpace };
        let errors = |machines: &BTreeMap<NodeName, Machine>, name: &str| {
            machines[name].etcd_status.as_ref().unwrap().errors.clone()
        };
        add(&mut machines, "cp-1", alarm(2));
        add(&mut machines, "cp-1", alarm(2));
        assert_eq!(errors(&machines, "cp-2"), ["alarm NOSPACE"]);
        assert_eq!(errors(&machines, "cp-1"), [] as [&str; 0]);
        // One that is not known, or did not tell of itself, is not forgotten.
        add(&mut machines, "cp-1", alarm(3));
        assert_eq!(errors(&machines, "cp-1"), ["alarm NOSPACE of member 0000000000000003"]);
    }
}
