//! Ends a wait that cannot end well: services that Talos gave up, an endpoint that leads nowhere.

use std::time::Duration;

use jiff::Timestamp;
use model::blueprint::Node;
use model::service::{self, Halted, STABLE, Service};
use talos_client::Machine;

use crate::error::{Error, Result};
use crate::kubernetes::Kubernetes;
use crate::render::Access;
use crate::systems::{REQUEST_TIMEOUT, Systems};

/// The code of a wait that was ended because it was of no use.
pub(crate) const CODE: &str = "service-halted";
const KUBERNETES_PORT: u16 = 6443;
const INTERVAL: Duration = Duration::from_secs(5);

/// Since when the same cause is seen.
#[derive(Debug, Default)]
pub(crate) struct HaltWatch {
    since: Option<(String, Timestamp)>,
}

impl HaltWatch {
    /// Takes down what was seen; gives it back once it is certain.
    pub(crate) fn judge(&mut self, now: Timestamp, seen: Option<Halted>) -> Option<Halted> {
        let Some(halted) = seen else {
            self.since = None;
            return None;
        };
        let since = match &self.since {
            Some((subject, since)) if *subject == halted.subject => *since,
            _ => now,
        };
        self.since = Some((halted.subject.clone(), since));
        let lasted: Duration = now.duration_since(since).try_into().unwrap_or_default();
        (halted.at_once || lasted >= STABLE).then_some(halted)
    }
}

/// The services of a machine, or nothing where it did not tell.
async fn services(systems: &Systems, machine: &Machine) -> Option<Vec<Service>> {
    let services = systems.clock.timeout(REQUEST_TIMEOUT, machine.services()).await.ok()?.ok()?;
    let seen = services.into_iter().map(|service| Service {
        id: service.id,
        state: service.state,
        healthy: service.healthy,
        events: service.events,
    });
    Some(seen.collect())
}

/// What halts a node. Nothing where its machine did not tell, which is neither well nor the end.
pub(crate) async fn of_node(systems: &Systems, node: &Node, access: &Access) -> Option<Option<Halted>> {
    let address = systems.address(node);
    let machine = Machine::connect(&systems.net, &systems.clock, address, &access.talos).ok()?;
    Some(service::halted(&address.to_string(), &services(systems, &machine).await?))
}

/// A control plane node whose own kube-apiserver answers, while the endpoint does not. One that only takes connections may lack etcd's
/// majority, which is no matter of the endpoint.
pub(crate) async fn of_endpoint<'a>(
    systems: &Systems,
    endpoint: &str,
    access: &Access,
    control_planes: impl Iterator<Item = &'a Node>,
) -> Option<Halted> {
    for node in control_planes {
        let own = format!("https://{}:{KUBERNETES_PORT}", systems.address(node));
        let Ok(kubernetes) = Kubernetes::new(systems, &own, &access.kubernetes) else { continue };
        if own != endpoint && kubernetes.nodes().await.is_ok() {
            return Some(service::no_way_to(endpoint, &node.name));
        }
    }
    None
}

/// Ends when the machine has given etcd up.
pub(crate) async fn until_etcd_failed(systems: &Systems, machine: &Machine) -> Halted {
    loop {
        if let Some(halted) = etcd_failed(systems, machine).await {
            return halted;
        }
        systems.clock.sleep(INTERVAL).await;
    }
}

/// Whether the machine has given etcd up. Nothing where it did not tell.
pub(crate) async fn etcd_failed(systems: &Systems, machine: &Machine) -> Option<Halted> {
    let mut services = services(systems, machine).await?;
    services.retain(|service| service.id == "etcd");
    service::halted(&machine.address().to_string(), &services).filter(|halted| halted.at_once)
}

/// The failure of a step that waited for this node.
pub(crate) fn ended<T>(node: &Node, halted: Halted) -> Result<T> {
    Err(Error::systems(format!("{} does not join: {}", node.name, halted.why))
        .coded(CODE)
        .hint(format!("{}; then run the command again to continue", halted.hint)))
}
