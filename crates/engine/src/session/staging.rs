//! What the machines should run next, compared with what they run.
//!
//! The file says where an upgrade ends; machine configs are rendered for its next hop ([`model::stage`]), because only those can be
//! compared with what runs and sent to it. What a later hop would refuse is found before the first one.
//!
//! A file that names no contract leaves machine configs in the form that they have: with an upgrade they would otherwise be rewritten
//! into the documents of the new release. Nothing remembers which contract a cluster was created with, so it is found by comparison: the
//! one whose machine configs differ least from those that run.

use std::collections::{BTreeMap, BTreeSet};

use model::attachments::Attachments;
use model::blueprint::Blueprint;
use model::forms::Version;
use model::names::NodeName;
use model::observed::Observed;
use model::plan::Rendered;
use model::removals::Arguments;
use model::stage;
use model::upgrade::{Component, Components, Hop};
use secrecy::{ExposeSecret, SecretString};
use talos::config::{self, Contract, Documents, KubernetesArguments, KubernetesImage, difference};
use talos::secrets::Bundle;
use talos::validate::{Mode, validate};

use super::ObserveError;
use crate::observe::machines::differences;
use crate::render::{self, Config, Renderer, Schematic};

/// What nodes should have.
#[derive(Default)]
pub(crate) struct Desired {
    pub(crate) schematics: BTreeMap<String, Schematic>,
    pub(crate) configs: BTreeMap<NodeName, Config>,
    pub(crate) rendered: Rendered,
}

impl Desired {
    /// Renders everything for a blueprint. Without a bundle there are no machine configs.
    pub(crate) fn of(
        blueprint: &Blueprint,
        attachments: &Attachments,
        bundle: Option<&Bundle>,
    ) -> Result<Self, ObserveError> {
        let schematics = render::schematics(blueprint, attachments)?;
        let renderer = Renderer::new(blueprint, &schematics, attachments);
        let configs = match bundle {
            Some(bundle) => renderer.configs(bundle).map_err(ObserveError::File)?,
            None => BTreeMap::new(),
        };
        let rendered = Rendered {
            installers: renderer.installers(),
            schematics: render::ids(blueprint, &schematics)?,
            configs: render::digests(&configs),
        };
        Ok(Self { schematics, configs, rendered })
    }
}

/// Machine configs that run, read.
type Running = BTreeMap<NodeName, Documents>;

/// Brings the blueprint and what is rendered for it to the next hop of an upgrade, and says where machines differ from that.
///
/// # Errors
///
/// When a release on the way would refuse a machine config of the file.
pub(crate) fn stage(
    blueprint: &mut Blueprint,
    observed: &mut Observed,
    desired: &mut Desired,
    (bundle, attachments): (&Bundle, &Attachments),
    texts: &BTreeMap<NodeName, SecretString>,
    replaced: &BTreeSet<NodeName>,
) -> Result<(), ObserveError> {
    if !is_settled(blueprint, observed, desired) {
        let running: Running = texts
            .iter()
            .filter_map(|(node, text)| Some((node.clone(), Documents::parse(text.expose_secret()).ok()?)))
            .collect();
        read(observed, &running);
        let wanted = desired.configs.iter().filter_map(|(node, config)| {
            Some((node.clone(), components(&Documents::parse(config.expose()).ok()?)))
        });
        let wanted: BTreeMap<NodeName, Components> = wanted.collect();
        stage::stage(blueprint, observed, &wanted, replaced);
        let contract = contract(blueprint, observed, &running, (bundle, attachments));
        if blueprint.upgrade.is_some() || contract != blueprint.options.contract {
            blueprint.options.contract = contract;
            *desired = Desired::of(blueprint, attachments, Some(bundle))?;
        }
        let differing = differ_in_more(blueprint, observed, desired, &running);
        if !differing.is_empty() {
            stage::configure_first(blueprint, observed, &wanted, differing);
            *desired = Desired::of(blueprint, attachments, Some(bundle))?;
        }
        later_hops(blueprint, (bundle, attachments))?;
        problems(blueprint, observed, &running);
        removed(blueprint, observed, desired);
    }
    for (node, text) in texts {
        let (Some(machine), Some(wanted)) = (observed.machines.get_mut(node), desired.configs.get(node))
        else {
            continue;
        };
        let release = machine.talos.clone().or_else(|| Some(blueprint.nodes.get(node)?.talos.clone()));
        let compared =
            release.and_then(|release| differences(text.expose_secret(), wanted.expose(), &release));
        machine.config_changes = compared;
    }
    Ok(())
}

/// Whether every machine that tells what it runs, runs what the file says.
fn is_settled(blueprint: &Blueprint, observed: &Observed, desired: &Desired) -> bool {
    blueprint.nodes.values().all(|node| {
        let Some(machine) = observed.machines.get(&node.name) else { return true };
        let config = machine.config_digest.as_ref();
        machine.talos.as_ref().is_none_or(|runs| *runs == node.talos)
            && config.is_none_or(|runs| desired.rendered.configs.get(&node.name) == Some(runs))
    })
}

/// Notes what machine configs that run say.
fn read(observed: &mut Observed, running: &Running) {
    for (node, documents) in running {
        let Some(machine) = observed.machines.get_mut(node) else { continue };
        machine.components = components(documents);
        let arguments =
            documents.v1alpha1().map(|document| document.texts("machine.install.extraKernelArgs"));
        machine.install_args = arguments.unwrap_or_default();
    }
}

/// The versions of Kubernetes in a machine config.
fn components(documents: &Documents) -> Components {
    config::kubernetes_tags(documents).into_iter().map(|(image, tag)| (component(image), tag)).collect()
}

/// The crates of both do not know each other, so this is where they meet.
fn component(image: KubernetesImage) -> Component {
    match image {
        KubernetesImage::ApiServer => Component::ApiServer,
        KubernetesImage::ControllerManager => Component::ControllerManager,
        KubernetesImage::Scheduler => Component::Scheduler,
        KubernetesImage::Proxy => Component::Proxy,
        KubernetesImage::Kubelet => Component::Kubelet,
    }
}

/// The contract of the machine configs: the file's, unless a node does not know it yet; else the one that running machines follow. `None`
/// is that of each node's own release.
fn contract(
    blueprint: &Blueprint,
    observed: &Observed,
    running: &Running,
    (bundle, attachments): (&Bundle, &Attachments),
) -> Option<String> {
    let said = blueprint.options.contract.clone();
    let runs = running.keys().filter_map(|node| observed.machines.get(node)?.talos.clone());
    let nodes = blueprint.nodes.values().map(|node| node.talos.clone());
    let oldest =
        runs.chain(nodes).filter_map(|talos| Contract::parse(&talos).ok()).map(Contract::minor).min();
    let Some(oldest) = oldest.filter(|_| !running.is_empty()) else { return said };
    let minor = |text: &String| Contract::parse(text).ok().map(Contract::minor);
    if said.as_ref().and_then(minor).is_some_and(|minor| minor <= oldest) {
        return said;
    }
    let distance = |contract: &Option<String>| {
        let mut trial = blueprint.clone();
        trial.options.contract.clone_from(contract);
        let desired = Desired::of(&trial, attachments, Some(bundle)).ok()?;
        let mut found = 0;
        for (node, runs) in running {
            let Some(wanted) = desired.configs.get(node) else { continue };
            let release = Contract::parse(observed.machines.get(node)?.talos.as_ref()?).ok()?;
            found += difference(runs, &Documents::parse(wanted.expose()).ok()?, release).len();
        }
        Some(found)
    };
    // Where no release changes, each node's own comes first, and is kept unless another one is nearer.
    let own = (said.is_none() && blueprint.upgrade.is_none()).then_some(None);
    let others = (config::OLDEST.minor()..=oldest).rev().map(|minor| Some(format!("v1.{minor}")));
    let mut nearest: Option<(usize, Option<String>)> = None;
    for candidate in own.into_iter().chain(others) {
        let Some(distance) = distance(&candidate) else { continue };
        if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
            nearest = Some((distance, candidate));
        }
        if nearest.as_ref().is_some_and(|(least, _)| *least == 0) {
            break;
        }
    }
    nearest.map_or(said, |(_, contract)| contract)
}

/// Nodes whose machine config differs in more than versions from what a hop of Kubernetes brings, which changes versions only.
fn differ_in_more(
    blueprint: &Blueprint,
    observed: &Observed,
    desired: &Desired,
    running: &Running,
) -> BTreeSet<NodeName> {
    if blueprint.upgrade.as_ref().is_none_or(|upgrade| upgrade.next_kubernetes().is_none()) {
        return BTreeSet::new();
    }
    let differs = |node: &NodeName, runs: &Documents| {
        let wanted = Documents::parse(desired.configs.get(node)?.expose()).ok()?;
        let mut same = runs.clone();
        for (image, tag) in config::kubernetes_tags(&wanted) {
            config::set_kubernetes_tag(&mut same, image, &tag);
        }
        let release = Contract::parse(observed.machines.get(node)?.talos.as_ref()?).ok()?;
        Some(!difference(&same, &wanted, release).is_empty())
    };
    let differing = running.iter().filter(|(node, runs)| differs(node, runs) == Some(true));
    differing.map(|(node, _)| node.clone()).collect()
}

/// Renders for every later hop, so that what its release refuses is known before the first node is touched.
fn later_hops(
    blueprint: &Blueprint,
    (bundle, attachments): (&Bundle, &Attachments),
) -> Result<(), ObserveError> {
    let Some(upgrade) = &blueprint.upgrade else { return Ok(()) };
    let releases = upgrade.hops.iter().filter_map(|hop| match hop {
        Hop::Talos(version) => Some(version),
        Hop::Kubernetes(_) => None,
    });
    for release in releases.skip(1) {
        let mut later = blueprint.clone();
        for (node, change) in &upgrade.talos {
            let Some(node) = later.nodes.get_mut(node) else { continue };
            let beyond = model::natural::compare(&change.wanted, release).is_lt();
            node.talos.clone_from(if beyond { &change.wanted } else { release });
        }
        Desired::of(&later, attachments, Some(bundle))?;
    }
    Ok(())
}

/// What the parts of Kubernetes would not start with on the way to the version of the file, in the machine configs of the file.
fn removed(blueprint: &Blueprint, observed: &mut Observed, desired: &Desired) {
    let Some(upgrade) = &blueprint.upgrade else { return };
    let minor = |text: &String| Version::read(text).map(|version| version.minor);
    for (node, change) in &upgrade.kubernetes {
        let (Some(machine), Some(config)) = (observed.machines.get_mut(node), desired.configs.get(node))
        else {
            continue;
        };
        let (Some(from), Some(to)) = (minor(&change.runs), minor(&change.wanted)) else { continue };
        let Ok(documents) = Documents::parse(config.expose()) else { continue };
        let arguments = config::kubernetes_arguments(&documents).into_iter();
        let found = arguments.flat_map(|(image, KubernetesArguments { flags, gates })| {
            let gates = gates.into_iter().collect();
            Arguments { flags, gates }.removed(component(image), from, to)
        });
        machine.component_problems = found.collect();
    }
}

/// What the next release would refuse in the machine configs that run, and the release that runs does not.
fn problems(blueprint: &Blueprint, observed: &mut Observed, running: &Running) {
    for (node, documents) in running {
        let (Some(machine), Some(node)) = (observed.machines.get_mut(node), blueprint.nodes.get(node)) else {
            continue;
        };
        let Some(runs) = machine.talos.as_ref().filter(|runs| **runs != node.talos) else { continue };
        let (Ok(runs), Ok(next)) = (Contract::parse(runs), Contract::parse(&node.talos)) else { continue };
        let known = validate(documents, runs, Mode::Cloud);
        let new = validate(documents, next, Mode::Cloud);
        let new = new.iter().filter(|problem| !known.contains(problem));
        machine.config_problems = new.map(ToString::to_string).collect();
    }
}
