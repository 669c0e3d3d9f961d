//! What each node runs after the next hop of an upgrade.
//!
//! The file says where an upgrade ends. What a plan brings nodes to is the next stop on the way there, so the versions of the
//! blueprint's nodes are set to that stop before anything is rendered or planned. Nodes that are ahead of the others wait at what they
//! run, and a part of Kubernetes keeps its version until it is its turn. Nothing is remembered: where an upgrade stands is told by what
//! the machines run, so one that was interrupted goes on from there.

use std::collections::{BTreeMap, BTreeSet};

use crate::blueprint::{Blueprint, Node};
use crate::forms::Version;
use crate::hops::{self, Pair};
use crate::names::NodeName;
use crate::observed::{Api, Machine, Observed};
use crate::ownership;
use crate::upgrade::{Component, Components, Hop, Upgrade, VersionChange, Via};

/// Sets the versions of all nodes to what they run after the next hop, where the file asks for an upgrade. `wanted` is what the machine
/// configs of the file name for the parts of Kubernetes. Nodes that are `replaced` start again like new ones, whatever they run now.
pub fn stage(
    blueprint: &mut Blueprint,
    observed: &Observed,
    wanted: &BTreeMap<NodeName, Components>,
    replaced: &BTreeSet<NodeName>,
) {
    let mut upgrade = changes(blueprint, observed, wanted);
    if upgrade.talos.is_empty() && upgrade.kubernetes.is_empty() {
        return;
    }
    let running = |node: &Node| {
        let machine = observed.machines.get(&node.name).filter(|_| !replaced.contains(&node.name));
        Some(machine.filter(|seen| answers(seen))?.clone())
    };
    match path(blueprint, observed, &upgrade) {
        Ok(hops) => upgrade.hops = hops,
        Err(problem) => {
            upgrade.problem = Some(problem);
            blueprint.upgrade = Some(upgrade);
            return;
        }
    }
    // What a replaced node runs goes with it: it would be another one as soon as the node is gone.
    let stays = |changes: &BTreeMap<NodeName, VersionChange>| {
        let stay = changes.iter().filter(|(node, _)| !replaced.contains(*node));
        stay.map(|(node, change)| (node.clone(), change.clone())).collect::<BTreeMap<_, _>>()
    };
    let (oldest, oldest_kubernetes) = (oldest(&stays(&upgrade.talos)), oldest(&stays(&upgrade.kubernetes)));
    let via = blueprint.options.via.clone();
    let minor = |version: &String| Version::read(version).map(|version| version.minor);
    let (front, front_kubernetes) = match upgrade.hops.first() {
        Some(Hop::Talos(version)) => (minor(version), None),
        Some(Hop::Kubernetes(version)) => (None, minor(version)),
        None => (None, None),
    };
    let (mut images, mut starting) = (BTreeMap::new(), BTreeMap::new());
    let mut starting_kubernetes = BTreeMap::new();
    for node in blueprint.nodes.values_mut() {
        match running(node) {
            Some(machine) => {
                if let Some(change) = upgrade.talos.get(&node.name) {
                    node.talos = after_hop(change, front, &via);
                }
                set_components(node, &machine, wanted.get(&node.name), front_kubernetes, &via);
            }
            // One that joins meanwhile starts where the others are, and goes with them from there.
            None => {
                let boots = observed.machines.get(&node.name).filter(|_| !replaced.contains(&node.name));
                let boots = boots.and_then(|machine| machine.talos.clone());
                if let Some(start) = boots.or_else(|| oldest.clone())
                    && is_before(&start, &node.talos)
                {
                    if let Some(image) = blueprint.images.get(&node.image) {
                        let key = format!("{}@{start}", node.image);
                        images.insert(
                            key.clone(),
                            crate::blueprint::Image { talos: start.clone(), ..image.clone() },
                        );
                        node.image = key;
                    }
                    // It makes the same hops, which are approved with its creation.
                    let change = VersionChange { runs: start.clone(), wanted: node.talos.clone() };
                    starting.insert(node.name.clone(), change);
                    node.talos = start;
                }
                if let Some(version) = &oldest_kubernetes {
                    let change = VersionChange { runs: version.clone(), wanted: node.kubernetes.clone() };
                    if is_before(version, &node.kubernetes) {
                        starting_kubernetes.insert(node.name.clone(), change);
                    }
                    node.components = Component::ALL.map(|component| (component, version.clone())).into();
                    node.kubernetes.clone_from(version);
                }
            }
        }
    }
    blueprint.images.extend(images);
    starting.retain(|node, _| !upgrade.unknown.contains(node));
    upgrade.talos.extend(starting);
    starting_kubernetes.retain(|node, _| !upgrade.unknown.contains(node));
    upgrade.kubernetes.extend(starting_kubernetes);
    blueprint.upgrade = Some(upgrade);
}

/// Keeps the Kubernetes that runs on all nodes, because the machine configs of these nodes differ from the file in more than versions:
/// an upgrade changes nothing else, so that what fails is known to be the version.
pub fn configure_first(
    blueprint: &mut Blueprint,
    observed: &Observed,
    wanted: &BTreeMap<NodeName, Components>,
    nodes: BTreeSet<NodeName>,
) {
    let via = blueprint.options.via.clone();
    for node in blueprint.nodes.values_mut() {
        if let Some(machine) = observed.machines.get(&node.name).filter(|seen| answers(seen)) {
            set_components(node, machine, wanted.get(&node.name), None, &via);
        }
    }
    if let Some(upgrade) = &mut blueprint.upgrade {
        upgrade.configured_first = nodes;
    }
}

/// Sets the parts of Kubernetes of a node to what they run after a hop to a minor; to what they run where no such hop is next.
fn set_components(
    node: &mut Node,
    machine: &Machine,
    wanted: Option<&Components>,
    front: Option<u64>,
    via: &Via,
) {
    let mut components = Components::new();
    let mut changed = false;
    for (component, runs) in &machine.components {
        let Some(wanted) = wanted.and_then(|wanted| wanted.get(component)) else { continue };
        // What is no version cannot be put in an order; it is a change of the machine config like any other.
        let (Some(runs), Some(wanted)) = (Version::read(runs), Version::read(wanted)) else { continue };
        let next = match runs == wanted {
            true => runs,
            false => {
                let next = hops::next_kubernetes(&runs, &wanted, via);
                if front.is_some_and(|front| next.minor <= front) { next } else { runs }
            }
        };
        changed |= next != wanted;
        components.insert(*component, next.to_string());
    }
    if let Some(kubelet) = components.get(&Component::Kubelet) {
        node.kubernetes.clone_from(kubelet);
    }
    // Where all get the version of the file, they are as the file describes them, digests included.
    if !changed {
        components.clear();
    }
    node.components = components;
}

/// Whether it is known what a machine runs. One that goes down says what it ran, and may come back with what was installed meanwhile.
fn answers(machine: &Machine) -> bool {
    machine.api == Api::Configured && machine.talos.is_some() && !machine.goes_down()
}

/// Which nodes run something else than the file says, and of which that is not known.
fn changes(blueprint: &Blueprint, observed: &Observed, wanted: &BTreeMap<NodeName, Components>) -> Upgrade {
    let mut upgrade = Upgrade::default();
    for node in blueprint.nodes.values() {
        let machine = observed.machines.get(&node.name);
        let exists = node.external || ownership::vm_of(blueprint, &observed.proxmox, &node.name).is_some();
        let Some(machine) = machine.filter(|machine| answers(machine)) else {
            let is_new = machine.is_some_and(|machine| machine.api == Api::Maintenance);
            if exists && !is_new {
                upgrade.unknown.insert(node.name.clone());
                let cordoned =
                    observed.kubernetes.nodes.get(&node.name).and_then(|seen| seen.cordoned.as_deref());
                // A replacement does not reboot it.
                if cordoned.is_some_and(|unit| !unit.starts_with("replace/")) {
                    upgrade.rebooting.insert(node.name.clone());
                }
            }
            continue;
        };
        let runs = machine.talos.clone().unwrap_or_default();
        if runs != node.talos {
            let change = VersionChange { runs, wanted: node.talos.clone() };
            upgrade.talos.insert(node.name.clone(), change);
        }
        let differing = wanted.get(&node.name).into_iter().flatten().filter_map(|(component, wanted)| {
            let runs = machine.components.get(component).filter(|runs| *runs != wanted)?;
            // What is no version cannot be put in an order; it is a change of the machine config like any other.
            let (runs, wanted) = (Version::read(runs)?, Version::read(wanted)?);
            Some(VersionChange { runs: runs.to_string(), wanted: wanted.to_string() })
        });
        let lowest =
            differing.reduce(|one, other| if is_before(&other.runs, &one.runs) { other } else { one });
        if let Some(change) = lowest {
            upgrade.kubernetes.insert(node.name.clone(), change);
        }
    }
    upgrade
}

/// All hops that are left, for the cluster as a whole.
fn path(blueprint: &Blueprint, observed: &Observed, upgrade: &Upgrade) -> Result<Vec<Hop>, String> {
    let unreadable = |text: &str| format!("Talosmith cannot read the version {text}");
    let read = |text: &str| Version::read(text).ok_or_else(|| unreadable(text));
    for (what, changes) in [("Talos", &upgrade.talos), ("Kubernetes", &upgrade.kubernetes)] {
        for (node, VersionChange { runs, wanted }) in changes {
            if read(wanted)?.is_before(&read(runs)?) {
                return Err(format!(
                    "{node} runs {what} {runs}, and the file asks for {wanted}, which is older: {what} is not downgraded"
                ));
            }
        }
    }
    let mut talos =
        Pair { talos: read(&blueprint_talos(blueprint))?, kubernetes: read(&blueprint.kubernetes)? };
    let mut wanted = talos.clone();
    if let (Some(runs), Some(newest)) = (oldest(&upgrade.talos), newest(&upgrade.talos)) {
        (talos.talos, wanted.talos) = (read(&runs)?, read(&newest)?);
    }
    // The oldest Kubernetes of the cluster must go with every Talos on the way.
    let all =
        observed.machines.values().filter(|seen| answers(seen)).flat_map(|seen| seen.components.values());
    let lowest = all
        .filter_map(|text| Version::read(text))
        .reduce(|one, other| if other.is_before(&one) { other } else { one });
    match (oldest(&upgrade.kubernetes), newest(&upgrade.kubernetes)) {
        (Some(runs), Some(newest)) => (talos.kubernetes, wanted.kubernetes) = (read(&runs)?, read(&newest)?),
        _ => {
            if let Some(lowest) = lowest {
                (talos.kubernetes, wanted.kubernetes) = (lowest.clone(), lowest);
            }
        }
    }
    hops::path(&talos, &wanted, &blueprint.options.via).map_err(|error| error.to_string())
}

/// The Talos of a cluster whose nodes all run what the file says.
fn blueprint_talos(blueprint: &Blueprint) -> String {
    blueprint.nodes.values().map(|node| node.talos.clone()).next().unwrap_or_default()
}

fn oldest(changes: &BTreeMap<NodeName, VersionChange>) -> Option<String> {
    let runs = changes.values().map(|change| change.runs.clone());
    runs.reduce(|one, other| if is_before(&other, &one) { other } else { one })
}

fn newest(changes: &BTreeMap<NodeName, VersionChange>) -> Option<String> {
    let wanted = changes.values().map(|change| change.wanted.clone());
    wanted.reduce(|one, other| if is_before(&one, &other) { other } else { one })
}

fn is_before(one: &str, other: &str) -> bool {
    matches!((Version::read(one), Version::read(other)), (Some(one), Some(other)) if one.is_before(&other))
}

/// The Talos of a node after the hop to a minor; what it runs where it is ahead, or no such hop is next.
fn after_hop(change: &VersionChange, front: Option<u64>, via: &Via) -> String {
    let (Some(runs), Some(wanted), Some(front)) =
        (Version::read(&change.runs), Version::read(&change.wanted), front)
    else {
        return change.runs.clone();
    };
    let next = hops::next_talos(&runs, &wanted, via);
    if next.minor <= front { next.to_string() } else { change.runs.clone() }
}
