//! What the file can say and this version cannot do yet.
//!
//! The file's surface is wider than what is carried out today. Nothing that was asked for is silently left out: it is
//! refused, by name. A function goes from here when it is carried out.

use super::Refusal;
use crate::blueprint::{Blueprint, Image, Node, NodeSettings, Options};
use crate::spec;

/// Everything that is asked for in vain, each once.
#[must_use]
pub fn refusals(blueprint: &Blueprint) -> Vec<Refusal> {
    let mut asked: Vec<(&'static str, String)> = vec![];
    asked.extend(cluster(&blueprint.options).into_iter().map(|key| (key, "the cluster".to_owned())));
    for image in blueprint.images.values() {
        asked.extend(of_image(image).into_iter().map(|key| (key, "an image".to_owned())));
    }
    for node in blueprint.nodes.values() {
        asked.extend(of_node(node, &blueprint.kubernetes).into_iter().map(|key| (key, node.name.clone())));
    }
    let mut told: Vec<&str> = vec![];
    let mut refusals = vec![];
    for (key, whose) in asked {
        if told.contains(&key) {
            continue;
        }
        told.push(key);
        refusals.push(Refusal {
            why: format!("{whose} asks for `{key}`, which this version does not do yet"),
            remedy: "take it out of the file; it would otherwise be missing without a word".to_owned(),
        });
    }
    refusals
}

fn named(list: &[(bool, &'static str)]) -> Vec<&'static str> {
    list.iter().filter(|(asked, _)| *asked).map(|(_, key)| *key).collect()
}

fn cluster(options: &Options) -> Vec<&'static str> {
    let Options {
        contract,
        kubelet_network,
        etcd_network,
        kubernetes,
        manifests,
        gitops,
        upgrade: _,
        backup,
    } = options;
    let plain = spec::Kubernetes::default();
    named(&[
        (contract.is_some(), "versions.contract"),
        (kubelet_network.is_some(), "network: which network kubelet uses"),
        (etcd_network.is_some(), "network: which network etcd uses"),
        (kubernetes.cni != plain.cni, "kubernetes.cni"),
        (!kubernetes.kube_proxy, "kubernetes.kube_proxy"),
        (!kubernetes.coredns, "kubernetes.coredns"),
        (!kubernetes.cert_sans.is_empty(), "kubernetes.cert_sans"),
        (!kubernetes.extra_mounts.is_empty(), "kubernetes.extra_mounts"),
        (!kubernetes.registry_mirrors.is_empty(), "kubernetes.registry_mirrors"),
        (kubernetes.oidc.is_some(), "kubernetes.oidc"),
        (*manifests != spec::Manifests::default(), "manifests"),
        (gitops.is_some(), "gitops"),
        (backup.is_some(), "backup"),
    ])
}

fn of_image(image: &Image) -> Vec<&'static str> {
    named(&[
        (image.schematic_file.is_some(), "image.schematic"),
        (image.secure_boot, "secure boot"),
        (image.installer_mirror.is_some(), "image.installer_mirror"),
    ])
}

fn of_node(node: &Node, kubernetes: &str) -> Vec<&'static str> {
    let NodeSettings { dhcp, routes, extra_nics, annotations, taints, patches } = &node.settings;
    named(&[
        (node.kubernetes != kubernetes, "a Kubernetes version of its own"),
        (!node.hardware.disks.is_empty(), "disks"),
        (*dhcp, "dhcp"),
        (!routes.is_empty(), "routes"),
        (!extra_nics.is_empty(), "several network cards"),
        (!annotations.is_empty(), "annotations"),
        (!taints.is_empty(), "taints"),
        (!patches.is_empty(), "patches"),
    ])
}
