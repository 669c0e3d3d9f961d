//! The observed state: Proxmox first, then every machine and Kubernetes at once, bounded in time.
//!
//! Observing changes nothing. Whatever does not answer becomes a line in [`Observed::unobserved`]. A Proxmox that does not answer, or
//! rejects the token, is an error for commands that change something; those that only show get the machines and Kubernetes.

mod documents;
pub(crate) mod etcd;
mod gone;
pub(crate) mod hosts;
pub(crate) mod images;
pub mod machines;
pub(crate) mod named;
pub mod proxmox;

use std::collections::{BTreeMap, BTreeSet};

use model::allowed::Allowed;
use model::blueprint::{Blueprint, Node};
use model::holder::Holder;
use model::observed::{Api, Etcd, Kubernetes, Machine, Observed, Proxmox, Unobserved, Vm};
use model::ownership;
use model::plan::by_hand::ByHand;
use model::removed;
use model::spec::Identity;

use crate::Systems;
use crate::discovered;
use crate::error::Result;
use crate::kubernetes::{is_answer, lease};
use crate::render::Access;
use crate::systems::PROBE_TIMEOUT;

/// What the state is observed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Everything, to bring the cluster to what the file says.
    Change,
    /// Whatever answers, to show it.
    Page,
    /// Only what is ours in Proxmox, to take it away: a dead cluster would only cost time.
    Removal,
}

/// What is observed, and with what.
pub struct Sought<'a> {
    /// The desired state.
    pub blueprint: &'a Blueprint,
    /// What for.
    pub purpose: Purpose,
    /// The keys to machines, if there are any.
    pub access: Option<&'a Access>,
    /// Where the machine configs that machines run are kept.
    pub running: &'a machines::Running,
    /// Schematic ids by image.
    pub schematics: &'a BTreeMap<String, String>,
    /// What the operator allows.
    pub allowed: &'a Allowed,
    /// What a person asks of nodes or hosts.
    pub asked: Option<&'a ByHand>,
    /// Why Proxmox could not be asked at all.
    pub silence: Option<&'a Silence>,
}

/// A Proxmox that could not be asked.
#[derive(Debug, Clone)]
pub struct Silence {
    /// Why not.
    pub why: String,
    /// Whether it rejected the token.
    pub token_rejected: bool,
}

/// Everything that the plan needs to know.
pub async fn observe(systems: &Systems, survey: Option<proxmox::Survey>, sought: &Sought<'_>) -> Observed {
    let Sought { blueprint, purpose, access, running: kept, silence, .. } = *sought;
    let mut unobserved = vec![];
    let proxmox = match survey {
        Some(survey) => Box::pin(proxmox::details(systems, survey, sought, &mut unobserved)).await,
        None => Proxmox {
            unresponsive: silence.map(|silence| silence.why.clone()),
            token_rejected: silence.is_some_and(|silence| silence.token_rejected),
            ..Proxmox::default()
        },
    };
    unobserved
        .extend(silence.map(|silence| Unobserved { what: "Proxmox".to_owned(), why: silence.why.clone() }));
    let mut observed = Observed { proxmox, unobserved, ..Observed::default() };
    observed.removed = removed::of(blueprint, &observed);
    let removed = removed::nodes(blueprint, &observed);
    let access = access.filter(|_| purpose != Purpose::Removal);
    let Some(access) = access.filter(|_| blueprint.cluster_id.is_some()) else {
        if purpose != Purpose::Removal {
            observed.machines = machines::configured_already(systems, blueprint).await;
        }
        return observed;
    };
    let runs = |n: &&Node| {
        n.external
            || silence.is_some()
            || ownership::vm_of(blueprint, &observed.proxmox, &n.name).is_some_and(|vm| vm.running)
    };
    let running: Vec<&Node> = blueprint.in_order().into_iter().chain(removed.values()).filter(runs).collect();
    if running.is_empty() {
        // A Kubernetes of this cluster that runs elsewhere is a reason not to start another one.
        if answers(systems, blueprint).await {
            observed.kubernetes = kubernetes(systems, blueprint, access)
                .await
                .unwrap_or_else(|error| Kubernetes { refused: is_answer(&error), ..Kubernetes::default() });
        }
        return observed;
    }
    let machines = futures::future::join_all(running.iter().map(|node| {
        // On the heap, because a hundred machines are looked at at once.
        Box::pin(machine(systems, blueprint, &observed.proxmox, node, access, kept))
    }));
    let (machines, kubernetes) = futures::join!(machines, Box::pin(kubernetes(systems, blueprint, access)));
    for (node, (machine, unobserved)) in running.iter().zip(machines) {
        if matches!(machine.api, Api::Unresponsive { .. })
            && is_off_after_all(systems, blueprint, &mut observed, node).await
        {
            continue;
        }
        observed.unobserved.extend(unobserved);
        observed.machines.insert(node.name.clone(), machine);
    }
    match kubernetes {
        Ok(seen) => observed.kubernetes = seen,
        Err(error) => {
            observed.kubernetes.refused = is_answer(&error);
            observed.unobserved.push(Unobserved {
                what: format!("Kubernetes at {}", blueprint.endpoint),
                why: error.causes().last().cloned().unwrap_or_default(),
            });
        }
    }
    Box::pin(gone::complete(systems, blueprint, access, &mut observed)).await;
    let asked = running.iter().copied();
    if let Err(why) = Box::pin(etcd::add_alarms(systems, access, asked, &mut observed.machines)).await {
        observed.unobserved.push(Unobserved { what: "the alarms of etcd".to_owned(), why });
    }
    kubelets(systems, blueprint, access, &mut observed).await;
    consoles(systems, blueprint, &mut observed).await;
    observed
}

/// Whether machines that have no configuration, as far as can be seen, can be proved through their consoles.
async fn consoles(systems: &Systems, blueprint: &Blueprint, observed: &mut Observed) {
    let configured = |node: &Node| {
        let machine = observed.machines.get(&node.name);
        machine.is_some_and(|machine| machine.api == Api::Configured)
    };
    let waits = blueprint.nodes.values().any(|node| !node.external && !configured(node));
    let by_console = blueprint.options.identity != Some(Identity::Uuid);
    if !waits
        || !by_console
        || observed.proxmox.unresponsive.is_some()
        || observed.proxmox.no_console.is_some()
    {
        return;
    }
    match proxmox::ask(systems, systems.pve.permissions()).await {
        Ok(rights) => {
            let denied = proxmox::no_console(blueprint, &observed.proxmox, &rights);
            observed.proxmox.no_console = Some(denied);
        }
        Err(why) => observed.unobserved.push(Unobserved { what: "what the token may do".to_owned(), why }),
    }
}

/// Whether the cluster ever existed is a question only as long as no member of etcd answers.
async fn kubelets(systems: &Systems, blueprint: &Blueprint, access: &Access, observed: &mut Observed) {
    let is_member = |machine: &Machine| matches!(machine.etcd, Etcd::Member { .. });
    if observed.machines.values().any(is_member) {
        return;
    }
    let asked = observed.machines.iter_mut().filter(|(_, machine)| machine.api == Api::Configured);
    let asked = asked.filter_map(|(name, machine)| Some((blueprint.nodes.get(name)?, machine)));
    let asked = asked.map(|(node, machine)| async move {
        machine.kubelet = machines::kubelet_of(systems, node, access).await;
    });
    futures::future::join_all(asked).await;
}

/// Whether anything answers at the cluster's endpoint.
pub(crate) async fn answers(systems: &Systems, blueprint: &Blueprint) -> bool {
    let Ok(endpoint) = blueprint.endpoint.parse::<http::Uri>() else { return false };
    let (host, port) = (endpoint.host().unwrap_or_default(), endpoint.port_u16().unwrap_or(443));
    matches!(systems.clock.timeout(PROBE_TIMEOUT, systems.net.dial(host, port)).await, Ok(Ok(_)))
}

/// Looks at one machine, wherever a DHCP server put it.
async fn machine(
    systems: &Systems,
    blueprint: &Blueprint,
    proxmox: &Proxmox,
    node: &Node,
    access: &Access,
    keep: &machines::Running,
) -> machines::Seen {
    let vm = ownership::vm_of(blueprint, proxmox, &node.name).filter(|_| discovered::may_move(node));
    let Some(vm) = vm else { return machines::observe(systems, node, access, keep).await };
    if !discovered::is_anybody_there(systems, node).await {
        discovered::search(systems, node, (&vm.host, vm.vmid), blueprint.vip).await;
    }
    let seen = machines::observe(systems, node, access, keep).await;
    let is_another = matches!(seen.0.api, Api::ForeignMachine { .. } | Api::OtherKeys { .. });
    match is_another && discovered::search(systems, node, (&vm.host, vm.vmid), blueprint.vip).await {
        true => machines::observe(systems, node, access, keep).await,
        false => seen,
    }
}

/// Proxmox' list of what runs is up to ten seconds old. A machine that does not answer may have been switched off since.
async fn is_off_after_all(
    systems: &Systems,
    blueprint: &Blueprint,
    observed: &mut Observed,
    node: &Node,
) -> bool {
    let vmid = ownership::vm_of(blueprint, &observed.proxmox, &node.name).map(|vm| vm.vmid);
    let ours = |vm: &&mut Vm| Some(vm.vmid) == vmid;
    let Some(vm) = observed.proxmox.marked.iter_mut().find(ours) else { return false };
    if let Ok(running) = proxmox::is_running(systems, &vm.host, vm.vmid).await {
        vm.running = running;
    }
    !vm.running
}

async fn kubernetes(systems: &Systems, blueprint: &Blueprint, access: &Access) -> Result<Kubernetes> {
    let client = crate::kubernetes::Kubernetes::new(systems, &blueprint.endpoint, &access.kubernetes)?;
    let gates = blueprint.options.changes.gates.iter().copied();
    let (nodes, budgets, health) =
        futures::join!(client.nodes(), client.blocking_budgets(), client.health(gates));
    let nodes = nodes?;
    let mut secrets = BTreeSet::new();
    for place in Holder::of(blueprint).into_iter().map(|holder| holder.secret(blueprint)) {
        if client.has_secret(&place).await? {
            secrets.insert(place.to_string());
        }
    }
    // With Proxmox the lease is in the record.
    let lease_turns = match blueprint.has_proxmox() {
        true => 0,
        false => client.find_lease(lease::NAMESPACE, &lease::name(&blueprint.cluster)).await?.turns,
    };
    Ok(Kubernetes {
        answered: true,
        nodes,
        budgets: budgets.ok(),
        secrets,
        lease_turns,
        health: health.into_iter().map(|(gate, reading)| (gate, reading.health)).collect(),
        ..Kubernetes::default()
    })
}
