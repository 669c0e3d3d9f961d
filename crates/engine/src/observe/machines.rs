//! What one machine says, asked once, within seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use model::blueprint::{Blueprint, Node, Role};
use model::names::NodeName;
use model::observed::{
    Api, ConfigChange, ConfigCost, ConfigDifference, Etcd, EtcdStatus, Kubelet, Machine, Unobserved,
};
use secrecy::{ExposeSecret, SecretString};
use talos::config::{self, Contract, Difference, Documents, difference};
use talos_client::{Extension, Machine as Client, MachineStatus, Maintenance, Service};

pub(crate) use super::etcd::{etcd, etcd_with_status, has_no_etcd};
use super::etcd::{etcd_of, member, services};
use crate::Systems;
use crate::identify::{Identified, Reached, identify_configured, reach};
use crate::render::{Access, digest};
use crate::systems::REQUEST_TIMEOUT;
use crate::unmet::Unmet;

/// A machine, and what it did not tell although it answers.
pub(crate) type Seen = (Machine, Vec<Unobserved>);

/// Machine configs that machines run, by node. They hold keys.
pub(crate) type Running = Mutex<BTreeMap<NodeName, SecretString>>;

/// Looks at one node: is it waiting for a configuration, does it have ours, is it a foreign machine? The configuration that it runs is
/// kept, to be compared once it is known which one it should run.
pub(crate) async fn observe(systems: &Systems, node: &Node, access: &Access, keep: &Running) -> Seen {
    let seen = observe_or_unmet(systems, node, access, Detail::All { keep: Some(keep) }).await;
    seen.unwrap_or_else(|unmet| {
        let unobserved = Unobserved { what: api_of(node), why: unmet.words.clone() };
        (Machine::unresponsive(unmet.words), vec![unobserved])
    })
}

/// What was not observed where a machine does not answer.
pub(super) fn api_of(node: &Node) -> String {
    format!("the Talos API of {}", node.name)
}

/// How much is asked of a machine that is configured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Detail<'a> {
    /// Everything.
    All {
        /// Where the configuration that it runs is kept.
        keep: Option<&'a Running>,
    },
    /// Only what says whether it has its place in the cluster. It is asked again and again, by what waits for that.
    Joining,
}

/// The same; a machine that does not answer is what is lacking.
pub(crate) async fn observe_or_unmet(
    systems: &Systems,
    node: &Node,
    access: &Access,
    detail: Detail<'_>,
) -> Result<Seen, Unmet> {
    let identified = match Box::pin(reach(systems, node, access)).await {
        // Whether it is the node, and what it says, is asked at once: reading gives nothing away.
        Reached::Keys(client) => {
            let who = identify_configured(systems, node, client.clone());
            let (who, seen) =
                futures::join!(Box::pin(who), Box::pin(configured(systems, node, &client, detail)));
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
        Identified::Configured(client) => Box::pin(configured(systems, node, &client, detail)).await,
        Identified::ForeignMachine { why } => (Machine::with(Api::ForeignMachine { why }), vec![]),
        Identified::OtherKeys { why } => (Machine::with(Api::OtherKeys { why }), vec![]),
        Identified::Unresponsive(unmet) => return Err(unmet),
    })
}

/// Machines that are not ours to create, and have a configuration from elsewhere. Without keys nothing more can be told of
/// them; with new ones they could not be told anything.
pub(super) async fn configured_already(
    systems: &Systems,
    blueprint: &Blueprint,
) -> BTreeMap<NodeName, Machine> {
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

async fn configured(systems: &Systems, node: &Node, client: &Client, detail: Detail<'_>) -> Seen {
    match detail {
        Detail::All { keep } => {
            let basics = basics(systems, node, client, keep);
            let (mut seen, more) = futures::join!(basics, Box::pin(more(systems, node, client)));
            more.add_to(node, &mut seen);
            seen
        }
        Detail::Joining => {
            let basics = basics(systems, node, client, None);
            let (mut seen, etcd) = futures::join!(basics, etcd(systems, node, client));
            seen.0.etcd = etcd;
            seen
        }
    }
}

/// A configured machine of which only this is known.
pub(crate) fn with_status(status: &MachineStatus) -> Machine {
    Machine {
        stage: Some(status.stage.to_string()),
        ready: status.ready,
        unmet: status.unmet.iter().map(|unmet| format!("{}: {}", unmet.name, unmet.reason)).collect(),
        ..Machine::with(Api::Configured)
    }
}

/// Release, stage and configuration.
async fn basics(systems: &Systems, node: &Node, client: &Client, keep: Option<&Running>) -> Seen {
    let clock = &systems.clock;
    let mut machine = Machine::with(Api::Configured);
    let mut unobserved = vec![];
    let (version, status, config) = futures::join!(
        clock.timeout(REQUEST_TIMEOUT, client.version()),
        clock.timeout(REQUEST_TIMEOUT, client.stage()),
        clock.timeout(REQUEST_TIMEOUT, client.machine_config()),
    );
    machine.talos = told(version, node, VERSION, &mut unobserved).map(|v| v.tag);
    if let Some(status) = told(status, node, "the stage", &mut unobserved) {
        let Machine { stage, ready, unmet, .. } = with_status(&status);
        (machine.stage, machine.ready, machine.unmet) = (stage, ready, unmet);
    }
    if let Some(runs) = told(config, node, "the configuration", &mut unobserved) {
        machine.config_digest = Some(digest(runs.expose_secret().as_bytes()));
        if let Some(keep) = keep {
            keep.lock().unwrap_or_else(PoisonError::into_inner).insert(node.name.clone(), runs);
        }
    }
    (machine, unobserved)
}

/// What only a whole observation asks for.
struct More {
    extensions: Result<talos_client::Result<Vec<Extension>>, ambient::TimedOut>,
    boot_id: Option<String>,
    kernel_args: Option<String>,
    services: Option<Vec<Service>>,
    etcd: (Etcd, Option<EtcdStatus>),
    addresses: Option<BTreeSet<Ipv4Addr>>,
}

async fn more(systems: &Systems, node: &Node, client: &Client) -> More {
    let clock = &systems.clock;
    let etcd = async {
        let (services, member) = futures::join!(services(systems, client), member(systems, node, client));
        let etcd = etcd_of(systems, node, client, member, services.as_deref()).await;
        (services, etcd)
    };
    let (extensions, boot_id, kernel_args, (services, etcd), addresses) = futures::join!(
        clock.timeout(REQUEST_TIMEOUT, client.extensions()),
        clock.timeout(REQUEST_TIMEOUT, client.boot_id()),
        clock.timeout(REQUEST_TIMEOUT, client.kernel_cmdline()),
        etcd,
        addresses(systems, node, client),
    );
    More {
        extensions,
        boot_id: boot_id.ok().and_then(Result::ok),
        // Releases before 1.12 do not tell it.
        kernel_args: kernel_args.ok().and_then(Result::ok),
        services,
        etcd,
        addresses,
    }
}

impl More {
    fn add_to(self, node: &Node, (machine, unobserved): &mut Seen) {
        if let Some(extensions) = told(self.extensions, node, "the schematic", unobserved) {
            let (schematic, extensions): (Vec<_>, Vec<_>) =
                extensions.into_iter().partition(Extension::is_schematic);
            machine.schematic = schematic.into_iter().next().map(|schematic| schematic.version);
            machine.extensions = Some(extensions.into_iter().map(|e| (e.name, e.version)).collect());
        }
        (machine.boot_id, machine.kernel_args) = (self.boot_id, self.kernel_args);
        machine.unhealthy = self.services.map(|services| services.iter().filter_map(complaint).collect());
        (machine.etcd, machine.etcd_status) = self.etcd;
        machine.addresses = self.addresses;
    }
}

/// A service that should run and does not, or is not healthy, with what it says. One without a health check is healthy.
fn complaint(service: &Service) -> Option<(String, String)> {
    let is_well = match service.state.as_str() {
        "Running" => service.healthy != Some(false),
        // What runs once has run, or was not needed.
        "Finished" | "Skipped" => true,
        _ => false,
    };
    let says = match service.message.trim() {
        "" => service.state.clone(),
        message => format!("{}: {message}", service.state),
    };
    (!is_well).then(|| (service.id.clone(), says))
}

/// Where two configurations differ, with values only where they are no secrets. `None` when one of them cannot be read.
pub(crate) fn differences(runs: &str, wanted: &str, release: &str) -> Option<Vec<ConfigChange>> {
    if runs == wanted {
        return Some(vec![]);
    }
    let (runs, wanted) = (Documents::parse(runs).ok()?, Documents::parse(wanted).ok()?);
    let changes = difference(&runs, &wanted, Contract::parse(release).ok()?);
    let told = changes.into_iter().map(|change| ConfigChange {
        path: change.path,
        costs: cost(change.cost),
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
fn cost(cost: config::ConfigCost) -> ConfigCost {
    match cost {
        config::ConfigCost::Nothing => ConfigCost::Nothing,
        config::ConfigCost::Install => ConfigCost::Install,
        config::ConfigCost::Network => ConfigCost::Network,
        config::ConfigCost::Services => ConfigCost::Services,
        config::ConfigCost::Reboot => ConfigCost::Reboot,
        config::ConfigCost::Volume => ConfigCost::Volume,
    }
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

/// The role of a configured machine, as it says itself.
pub(super) async fn role_of(systems: &Systems, node: &Node, access: &Access) -> Option<Role> {
    let client = Client::connect(&systems.net, &systems.clock, systems.address(node), &access.talos).ok()?;
    let kind = client.get("config", "MachineTypes.config.talos.dev", "machine-type");
    match systems.clock.timeout(REQUEST_TIMEOUT, kind).await.ok()?.ok()?.as_str()? {
        "controlplane" | "init" => Some(Role::ControlPlane),
        "worker" => Some(Role::Worker),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_d_what_costs_talos_more_costs_a_plan_more() {
        use config::ConfigCost::{Install, Network, Nothing, Reboot, Services, Volume};
        let costs = [Nothing, Install, Network, Services, Reboot, Volume];
        assert!(costs.is_sorted());
        assert!(costs.map(cost).is_sorted_by(|less, more| less < more));
    }

    #[test]
    fn a_service_that_runs_or_has_run_is_well() {
        let says = |state: &str, healthy, message: &str| {
            let (id, state, message) = ("kubelet".to_owned(), state.to_owned(), message.to_owned());
            complaint(&Service { id, state, healthy, message, events: vec![] }).map(|(_, says)| says)
        };
        assert_eq!(says("Running", Some(true), "Health check successful"), None);
        assert_eq!(says("Running", None, ""), None, "it has no health check");
        assert_eq!(says("Finished", None, ""), None);
        assert_eq!(
            says("Running", Some(false), "connection refused").unwrap(),
            "Running: connection refused"
        );
        assert_eq!(says("Failed", None, "exit code 1").unwrap(), "Failed: exit code 1");
        assert_eq!(says("Waiting", None, "").unwrap(), "Waiting");
    }
}
