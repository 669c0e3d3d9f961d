//! Versions of Talos and Kubernetes, of the cluster and of single nodes, and whether they go together.

use crate::blueprint::Role;
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::{Draft, Said};
use crate::forms::{self, Version};
use crate::releases;
use crate::spec::Via;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let versions = &draft.spec.versions;
    let path = |key| Path::of(&["versions", key]);
    let talos = Said { value: versions.talos.as_str(), path: path("talos") };
    let kubernetes = Said { value: versions.kubernetes.as_str(), path: path("kubernetes") };
    pair(&talos, &kubernetes, found);
    for node in &draft.nodes {
        if node.talos.path != talos.path || node.kubernetes.path != kubernetes.path {
            pair(&node.talos, &node.kubernetes, found);
        }
    }
    skew(draft, found);
    via(&versions.via, found);
    let Some(text) = &versions.contract else { return };
    let minor = |text: &str| text.trim_start_matches("v1.").parse::<u64>().ok();
    match (forms::contract(text).and_then(|contract| minor(&contract)), Version::read(&versions.talos)) {
        (None, _) => {
            let problem = Diagnostic::error(codes::BAD_CONTRACT, format!("`{text}` is not a contract"));
            let help = format!("use {}", releases::each_contract());
            found.push(problem.at(path("contract"), "").help(help));
        }
        (Some(contract), Some(talos)) if contract > talos.minor => {
            let message = format!("the contract `{text}` is newer than Talos {talos}");
            let problem = Diagnostic::error(codes::BAD_CONTRACT, message).at(path("contract"), "");
            found.push(problem.at(path("talos"), "").help("leave `contract` out, or use an older one"));
        }
        _ => {}
    }
}

/// Stops on the way of an upgrade: a release line that is known, each once.
fn via(via: &Via, found: &mut Vec<Diagnostic>) {
    let lists = [("talos", "Talos", &via.talos), ("kubernetes", "Kubernetes", &via.kubernetes)];
    for (key, name, list) in lists {
        let mut minors = vec![];
        for (at, text) in list.iter().enumerate() {
            let said = Said { value: text.as_str(), path: Path::of(&["versions", "via", key]).index(at) };
            let Some(version) = read(&said, found) else { continue };
            let known = match key {
                "talos" => releases::newest_talos(version.minor),
                _ => releases::newest_kubernetes(version.minor),
            };
            let wrong = match () {
                () if version.major != 1 || known.is_none() => {
                    Some(format!("Talosmith does not know {name} {version}"))
                }
                () if minors.contains(&version.minor) => {
                    Some(format!("two stops are of {name} 1.{}", version.minor))
                }
                () => None,
            };
            minors.push(version.minor);
            if let Some(message) = wrong {
                let problem = Diagnostic::error(codes::BAD_VERSION, message).at(said.path, "");
                found.push(problem.help("name one patch release for each minor that the upgrade passes"));
            }
        }
    }
}

fn pair(talos: &Said<&str>, kubernetes: &Said<&str>, found: &mut Vec<Diagnostic>) {
    let (talos_version, kubernetes_version) = (read(talos, found), read(kubernetes, found));
    let Some(version) = talos_version else { return };
    let Some(release) = releases::supported(version.minor).filter(|_| version.major == 1) else {
        let problem =
            Diagnostic::error(codes::TALOS_UNSUPPORTED, format!("Talos {version} is not supported"));
        let help = format!("use Talos {}", releases::each_talos());
        found.push(problem.at(talos.path.clone(), "").help(help));
        return;
    };
    let (Some(kube), range) = (kubernetes_version, &release.kubernetes) else { return };
    if kube.major != 1 || !range.contains(&kube.minor) {
        let message = format!("Talos {version} does not support Kubernetes {kube}");
        found.push(
            Diagnostic::error(codes::PAIR_UNSUPPORTED, message)
                .at(kubernetes.path.clone(), "")
                .at(talos.path.clone(), "")
                .help(format!("with this Talos, use Kubernetes 1.{} to 1.{}", range.start(), range.end())),
        );
    }
}

/// No kubelet may be newer than the oldest API server, nor three releases older.
fn skew(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let minor = |said: &Said<&str>| Version::read(said.value).map(|version| version.minor);
    let servers = draft.nodes.iter().filter(|node| node.role == Role::ControlPlane);
    let oldest =
        servers.filter_map(|node| Some((minor(&node.kubernetes)?, node))).min_by_key(|(minor, _)| *minor);
    let Some((oldest, server)) = oldest else { return };
    for node in &draft.nodes {
        let Some(kubelet) = minor(&node.kubernetes) else { continue };
        if kubelet > oldest || kubelet + 3 < oldest {
            let message = format!(
                "the kubelet of `{}` would be 1.{kubelet} beside an API server of 1.{oldest}",
                node.name
            );
            let problem =
                Diagnostic::error(codes::VERSION_SKEW, message).at(node.kubernetes.path.clone(), "");
            let problem = problem.at(server.kubernetes.path.clone(), "the API server");
            found.push(
                problem
                    .help("a kubelet is never newer than the API servers, and at most three releases older"),
            );
        }
    }
}

fn read(said: &Said<&str>, found: &mut Vec<Diagnostic>) -> Option<Version> {
    let version = Version::read(said.value);
    if version.is_none() {
        let problem = Diagnostic::error(codes::BAD_VERSION, format!("`{}` is not a version", said.value));
        let help = "write all three numbers, as in `v1.2.3`";
        found.push(problem.at(said.path.clone(), "").help(help));
    }
    version
}
