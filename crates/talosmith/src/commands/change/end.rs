//! The end of a good apply: how it is now, and what to type next.

use engine::Snapshot;
use engine::session::{Given, UnknownName};
use model::blueprint::Blueprint;
use model::diagnostic::nearest;
use model::observed::Observed;
use model::plan::Plan;
use model::quorum::{self, Quorum};
use model::readiness::{Condition, Seen, State};

use crate::args::{ApplyArgs, Global};
use crate::commands::setup::flags;
use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// Names that may have been meant.
const NEAR: usize = 3;
/// Names that are listed in a hint.
const LISTED: usize = 12;

/// A name on the command line that does not exist.
pub fn unknown_name(UnknownName { given, name, known }: &UnknownName) -> Problem {
    let (node, disk) = name.split_once('/').unwrap_or((name, ""));
    let why = match given {
        Given::AllowDestroy => format!("`--allow-destroy` names {name}, and the cluster has no such node"),
        Given::Target => format!("`--target` names {name}, and the cluster has no such node"),
        Given::Argument => format!("the file has no node {name}"),
        Given::Host => format!("Proxmox has no host {name}"),
        Given::Disk => format!("`--allow-destroy` names {name}, and {node} has no disk {disk}"),
    };
    let (wanted, prefix, things) = match given {
        Given::Disk => (disk, format!("{node}/"), "disks"),
        Given::Host => (name.as_str(), String::new(), "hosts"),
        Given::AllowDestroy | Given::Target | Given::Argument => (name.as_str(), String::new(), "nodes"),
    };
    // Several, because one of them may be deleted: which one is meant, the operator says.
    let (mut near, mut others) = (Vec::new(), known.iter().map(String::as_str).collect::<Vec<_>>());
    while let Some(found) = nearest(wanted, others.iter().copied()).filter(|_| near.len() < NEAR) {
        others.retain(|other| *other != found);
        near.push(format!("{prefix}{found}"));
    }
    // All of them are none.
    let is_none = near.is_empty() || (near.len() == known.len() && known.len() > 1);
    let mut hint = match is_none {
        false => format!("did you mean {}? ", near.join(" or ")),
        true => String::new(),
    };
    let (listed, more) = known.split_at(known.len().min(LISTED));
    hint.push_str(&format!("The {things} are {}", listed.join(", ")));
    if !more.is_empty() {
        hint.push_str(&format!(" and {} more", more.len()));
    }
    Problem::new(Exit::Usage, why).hint(hint)
}

/// How it is now, and what to type next.
pub fn show(global: &Global, args: &ApplyArgs, snapshot: &Snapshot, plan: &Plan, printer: &Printer) {
    if printer.is_json() {
        return;
    }
    printer.say("");
    printer.status(&snapshot.blueprint, &snapshot.observed, plan, None);
    next(global, args, snapshot, !plan.steps.is_empty(), printer);
}

/// How it is, in a few words. Nothing is said to be well that was not seen to be.
fn state(blueprint: &Blueprint, observed: &Observed, differs: bool) -> &'static str {
    let seen = &observed.kubernetes;
    if quorum::standing(blueprint, &observed.machines).is_some_and(|etcd| etcd.quorum == Quorum::Lost) {
        return "has lost the quorum of its etcd: Kubernetes does not work until more control plane nodes answer. `talosmith status` \
                shows which are missing";
    }
    if !seen.answered {
        return "matches the file, but Kubernetes did not answer at the end. `talosmith health` checks again";
    }
    let nodes = || blueprint.nodes.values().map(|node| Seen::of(blueprint, observed, node));
    let unready = nodes().any(|node| !node.meets(&[Condition::Ready]));
    let network = blueprint.awaits_network() && unready;
    let provider = nodes().any(|node| node.state(Condition::Initialized) == State::LeftToOperator);
    match (network, provider) {
        (false, false) if unready && differs => "still differs from the file. `talosmith plan` shows how",
        (false, false) if unready => {
            "matches the file, but not every node is ready now. `talosmith health` says what is missing"
        }
        (false, false) => "is healthy",
        (true, false) => "is up, and waits for a CNI plugin. Install one, or name it under `manifests`",
        (false, true) => "is up, and waits for its cloud provider. Install it, or name its `version`",
        (true, true) => "is up, and waits for a CNI plugin and its cloud provider, which you install",
    }
}

/// What to type next.
fn next(global: &Global, args: &ApplyArgs, snapshot: &Snapshot, differs: bool, printer: &Printer) {
    let flags = flags(global);
    let blueprint = &snapshot.blueprint;
    printer.say(&format!(
        "\nThe cluster {} {}. Next:\n",
        blueprint.cluster,
        state(blueprint, &snapshot.observed, differs)
    ));
    let mut lines: Vec<(String, &str)> = vec![
        (format!("talosmith status{flags}"), "its state"),
        (format!("talosmith plan{flags}"), "what a change of the file would do"),
    ];
    if global.lab {
        lines.push((format!("talosmith destroy{flags}"), "delete it again"));
        lines.push((
            format!("talosmith lab up{}", flags.trim_end_matches(" --lab")),
            "serve another, empty lab on loopback, for kubectl, talosctl or curl",
        ));
    } else if let Some(path) = &args.kubeconfig {
        lines.push((format!("kubectl --kubeconfig {} get nodes", path.display()), "its nodes"));
    } else {
        lines.push((
            format!("talosmith kubeconfig{flags} -o kubeconfig"),
            "then: kubectl --kubeconfig kubeconfig get nodes",
        ));
    }
    printer.commands(&lines);
}

#[cfg(test)]
mod tests {
    use model::observed::{Etcd, EtcdStatus, Machine};

    use super::*;
    use crate::view::status::tests::{blueprint, observed};

    #[test]
    fn user_l_an_etcd_without_quorum_is_not_called_what_the_file_says() {
        let (blueprint, mut seen) = (blueprint(), observed());
        assert!(!state(&blueprint, &seen, false).contains("quorum"));
        let machine: &mut Machine = seen.machines.get_mut("home-control-1").unwrap();
        machine.etcd = Etcd::Member { id: "1f".into(), learner: false, members: None };
        machine.etcd_status = Some(EtcdStatus {
            leader: None,
            errors: vec!["etcdserver: no leader".into()],
            ..EtcdStatus::default()
        });
        seen.kubernetes.answered = false;
        let told = state(&blueprint, &seen, false);
        assert!(told.contains("has lost the quorum of its etcd"), "{told}");
        assert!(!told.contains("brought to what the file says"), "{told}");
        let mut seen = observed();
        seen.kubernetes.nodes.remove("home-work-1");
        assert!(state(&blueprint, &seen, true).contains("still differs"), "steps are left");
    }
}
