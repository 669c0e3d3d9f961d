//! What one machine says, asked once, within seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::blueprint::{Blueprint, Node, Role};
use model::observed::Member;
use model::observed::{
    Api, ConfigChange, ConfigCost, ConfigDifference, Etcd, EtcdStatus, Kubelet, Machine, Unobserved,
};
use secrecy::ExposeSecret;
use talos::config::{ChangeClass, Contract, Difference, Documents, difference};
use talos_client::{Machine as Client, Maintenance};

use crate::Systems;
use crate::identify::{Identified, Reached, identify_configured, reach};
use crate::render::{Access, digest};
use crate::systems::REQUEST_TIMEOUT;
use crate::unmet::Unmet;

/// A machine, and what it did not tell although it answers.
pub(crate) type Seen = (Machine, Vec<Unobserved>);

/// Looks at one node: is it waiting for a configuration, does it have ours, is it somebody else's? A configuration that is
/// `wanted` is compared with the one that it runs.
pub(crate) async fn observe(systems: &Systems, node: &Node, access: &Access, wanted: Option<&str>) -> Seen {
    let seen = observe_or_unmet(systems, node, access, wanted).await;
    seen.unwrap_or_else(|unmet| {
        let unobserved =
            Unobserved { what: format!("the Talos API of {}", node.name), why: unmet.words.clone() };
        (Machine::unresponsive(unmet.words), vec![unobserved])
    })
}

/// The same; a machine that does not answer is what is lacking.
pub(crate) async fn observe_or_unmet(
    systems: &Systems,
    node: &Node,
    access: &Access,
    wanted: Option<&str>,
) -> Result<Seen, Unmet> {
    let identified = match Box::pin(reach(systems, node, access)).await {
        // Whether it is the node, and what it says, is asked at once: reading gives nothing away.
        Reached::Keys(client) => {
            let who = identify_configured(systems, node, client.clone());
            let (who, seen) =
                futures::join!(Box::pin(who), Box::pin(configured(systems, node, &client, wanted)));
            match who {
                Identified::Configured(_) => return Ok(seen),
                other => other,
            }
        }
        Reached::Identified(other) => other,
    };
    Ok(match identified {
        Identified::Maintenance(connection) => {
            let mut machine = Machine::with(Api::Maintenance);
            let mut unobserved = vec![];
            let version = systems.clock.timeout(REQUEST_TIMEOUT, connection.version()).await;
            machine.talos = told(version, node, VERSION, &mut unobserved).map(|v| v.tag);
            machine.stage = Some("maintenance".to_owned());
            // A machine whose STATE was wiped still has etcd's data; that shows only once it is configured.
            if node.role == Role::Worker {
                machine.etcd = Etcd::Empty;
            }
            (machine, unobserved)
        }
        Identified::Configured(client) => Box::pin(configured(systems, node, &client, wanted)).await,
        Identified::ForeignMachine { why } => (Machine::with(Api::ForeignMachine { why }), vec![]),
        Identified::OtherKeys { why } => (Machine::with(Api::OtherKeys { why }), vec![]),
        Identified::Unresponsive(unmet) => return Err(unmet),
    })
}

/// Machines that are not ours to create, and were given a configuration by somebody. Without keys nothing more can be told of
/// them; with new ones they could not be told anything.
pub(super) async fn configured_already(
    systems: &Systems,
    blueprint: &Blueprint,
) -> BTreeMap<String, Machine> {
    let external = blueprint.nodes.values().filter(|node| node.external);
    let asked = external.map(|node| async move {
        let asked = async {
            Maintenance::connect(&systems.net, &systems.clock, systems.address(node)).await?.version().await
        };
        match systems.clock.timeout(REQUEST_TIMEOUT, asked).await {
            Ok(Err(error)) if error.kind() == talos_client::Kind::Rejected => {
                Some((node.name.clone(), Machine::with(Api::ForeignMachine { why: error.to_string() })))
            }
            _ => None,
        }
    });
    futures::future::join_all(asked).await.into_iter().flatten().collect()
}

const VERSION: &str = "the Talos version";

/// An answer, or one more thing that was not seen.
fn told<T>(
    answer: Result<talos_client::Result<T>, ambient::TimedOut>,
    node: &Node,
    what: &str,
    unobserved: &mut Vec<Unobserved>,
) -> Option<T> {
    let why = match answer {
        Ok(Ok(answer)) => return Some(answer),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} seconds", REQUEST_TIMEOUT.as_secs()),
    };
    unobserved.push(Unobserved { what: format!("{what} of {}", node.name), why });
    None
}

async fn configured(systems: &Systems, node: &Node, client: &Client, wanted: Option<&str>) -> Seen {
    let clock = &systems.clock;
    let mut machine = Machine::with(Api::Configured);
    let mut unobserved = vec![];
    let (version, status, config, schematic, (etcd, etcd_status), addresses) = futures::join!(
        clock.timeout(REQUEST_TIMEOUT, client.version()),
        clock.timeout(REQUEST_TIMEOUT, client.stage()),
        clock.timeout(REQUEST_TIMEOUT, client.machine_config()),
        clock.timeout(REQUEST_TIMEOUT, client.schematic()),
        etcd_with_status(systems, node, client),
        addresses(systems, node, client),
    );
    machine.talos = told(version, node, VERSION, &mut unobserved).map(|v| v.tag);
    if let Some(status) = told(status, node, "the stage", &mut unobserved) {
        machine.stage = Some(status.stage.to_string());
        machine.ready = status.ready;
        machine.unmet = status.unmet.iter().map(|u| format!("{}: {}", u.name, u.reason)).collect();
    }
    if let Some(runs) = told(config, node, "the configuration", &mut unobserved) {
        let runs = runs.expose_secret();
        machine.config_digest = Some(digest(runs.as_bytes()));
        let release = machine.talos.as_deref().unwrap_or(&node.talos);
        machine.config_changes = wanted.and_then(|wanted| differences(runs, wanted, release));
    }
    machine.schematic = told(schematic, node, "the schematic", &mut unobserved).flatten();
    (machine.etcd, machine.etcd_status, machine.addresses) = (etcd, etcd_status, addresses);
    (machine, unobserved)
}

/// Where two configurations differ, with values only where they are no secrets. `None` when one of them cannot be read.
fn differences(runs: &str, wanted: &str, release: &str) -> Option<Vec<ConfigChange>> {
    if runs == wanted {
        return Some(vec![]);
    }
    let (runs, wanted) = (Documents::parse(runs).ok()?, Documents::parse(wanted).ok()?);
    let changes = difference(&runs, &wanted, Contract::parse(release).ok()?);
    let told = changes.into_iter().map(|change| ConfigChange {
        path: change.path,
        costs: cost(change.class),
        difference: match change.difference {
            Difference::Added => ConfigDifference::Added,
            Difference::Removed => ConfigDifference::Removed,
            Difference::Changed => ConfigDifference::Changed,
            Difference::Values { old, new } => ConfigDifference::Values { old, new },
        },
    });
    Some(told.collect())
}

/// What Talos makes of a change, in the words of a plan. The crates of both do not know each other, so this is where they meet.
fn cost(class: ChangeClass) -> ConfigCost {
    match class {
        ChangeClass::Hot => ConfigCost::Nothing,
        ChangeClass::Install => ConfigCost::Install,
        ChangeClass::Network => ConfigCost::Network,
        ChangeClass::ServiceRestart => ConfigCost::Services,
        ChangeClass::Reboot => ConfigCost::Reboot,
        ChangeClass::Volume => ConfigCost::Volume,
    }
}

/// A node's part in etcd, and what its member says of the whole. Only a member is asked for that: others would wait for etcd.
pub(crate) async fn etcd_with_status(
    systems: &Systems,
    node: &Node,
    client: &Client,
) -> (Etcd, Option<EtcdStatus>) {
    let etcd = etcd(systems, node, client).await;
    if !matches!(etcd, Etcd::Member { .. }) {
        return (etcd, None);
    }
    let asked = systems.clock.timeout(REQUEST_TIMEOUT, client.etcd_status()).await;
    let status = asked.ok().and_then(Result::ok).map(|status| EtcdStatus {
        leader: (status.leader != 0).then(|| hex_id(status.leader)),
        errors: status.errors,
    });
    (etcd, status)
}

/// The addresses of a control plane node, one of which may be the VIP.
pub(crate) async fn addresses(systems: &Systems, node: &Node, client: &Client) -> Option<BTreeSet<Ipv4Addr>> {
    if node.role == Role::Worker {
        return None;
    }
    let asked = systems.clock.timeout(REQUEST_TIMEOUT, client.addresses()).await;
    let address = |found: talos_client::Address| found.address.split('/').next()?.parse().ok();
    Some(asked.ok()?.ok()?.into_iter().filter_map(address).collect())
}

/// A node's part in etcd. Its own member id is the proof that it has one; a service that still prepares has no data.
pub(crate) async fn etcd(systems: &Systems, node: &Node, client: &Client) -> Etcd {
    if node.role == Role::Worker {
        return Etcd::Empty;
    }
    if let Some(id) = member_id(systems, client).await {
        return as_member(systems, client, id).await;
    }
    match has_no_etcd(systems, client).await {
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

/// The certificate that a kubelet gets when it is registered for the first time.
const KUBELET_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// Whether the kubelet of a configured machine was ever registered. That there is no certificate is believed only once the
/// kubelet's service is beyond waiting for the volume that it would be on.
pub(crate) async fn kubelet(systems: &Systems, client: &Client) -> Kubelet {
    let asked = systems.clock.timeout(REQUEST_TIMEOUT, client.path_exists(KUBELET_CERTIFICATE)).await;
    match asked {
        Ok(Ok(true)) => return Kubelet::Registered,
        Ok(Ok(false)) => {}
        Ok(Err(_)) | Err(_) => return Kubelet::Unknown,
    }
    let Ok(Ok(services)) = systems.clock.timeout(REQUEST_TIMEOUT, client.services()).await else {
        return Kubelet::Unknown;
    };
    let state = services.iter().find(|service| service.id == "kubelet").map(|service| service.state.as_str());
    match state {
        Some("Preparing" | "Running" | "Stopping" | "Finished" | "Failed") => Kubelet::Never,
        _ => Kubelet::Unknown,
    }
}

/// The same, of a node at its address.
pub(super) async fn kubelet_of(systems: &Systems, node: &Node, access: &Access) -> Kubelet {
    match Client::connect(&systems.net, &systems.clock, systems.address(node), &access.talos) {
        Ok(client) => kubelet(systems, &client).await,
        Err(_) => Kubelet::Unknown,
    }
}

/// The machine's own member id, once it has one. A learner has none yet, so the list of members is asked by name.
async fn member_id(systems: &Systems, client: &Client) -> Option<u64> {
    let local = client.get("etcd", "EtcdMembers.etcd.talos.dev", "local");
    let spec = systems.clock.timeout(REQUEST_TIMEOUT, local).await.ok()?.ok()?;
    u64::from_str_radix(spec.get("memberID")?.as_str()?, 16).ok()
}

/// Whether a machine surely has no etcd data. `None` when it cannot be told yet.
///
/// The proof needs both halves. The service prepares only after the volume with its data is mounted, and stays there for
/// as long as nobody starts etcd; a member that restarts passes through the same state, but its folder is there.
pub(crate) async fn has_no_etcd(systems: &Systems, machine: &Client) -> Option<bool> {
    let services = systems.clock.timeout(REQUEST_TIMEOUT, machine.services()).await.ok()?.ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_d_what_costs_talos_more_costs_a_plan_more() {
        use ChangeClass::{Hot, Install, Network, Reboot, ServiceRestart, Volume};
        let classes = [Hot, Install, Network, ServiceRestart, Reboot, Volume];
        assert!(classes.is_sorted());
        assert!(classes.map(cost).is_sorted_by(|less, more| less < more));
    }
}
