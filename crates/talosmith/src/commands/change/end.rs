//! The end of a good apply: how it is now, and what to type next.

use engine::Snapshot;
use model::blueprint::Blueprint;
use model::observed::Observed;
use model::ownership;
use model::plan::Plan;
use model::quorum::{self, Quorum};
use model::step::Action;

use crate::args::{ApplyArgs, Global};
use crate::commands::setup::flags;
use crate::exit::Exit;
use crate::view::Printer;

/// How an apply ends whose steps are all done: what the plan left to a person is still to be made, and what could not be observed is
/// not known to be as the file says.
pub fn of(plan: &Plan) -> Exit {
    match () {
        () if !plan.blocked.is_empty() => Exit::Pending,
        () if !plan.unknown.is_empty() => Exit::Systems,
        () => Exit::Done,
    }
}

/// Nodes whose VM existed and was off, and is started by the plan. What such a machine has is seen only when it runs.
pub fn was_off(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let existed =
        |node: &str| ownership::vm_of(&snapshot.blueprint, &snapshot.observed.proxmox, node).is_some();
    let started = plan.steps.iter().filter_map(|step| match &step.action {
        Action::StartVm { node, .. } if existed(node) => Some(node.clone()),
        _ => None,
    });
    started.collect()
}

/// How an apply ends that started machines which could not be compared with the file before, now that they were.
pub fn compared(plan: &Plan, off: &[String], seen: &Snapshot, printer: &Printer) -> Exit {
    let again = seen.plan();
    if off.is_empty() || again.is_empty() {
        return of(plan);
    }
    printer.note(&format!(
        "{} was off and could be compared with the file only now: changes are left to make. Run the same command again.",
        off.join(", ")
    ));
    Exit::Pending
}

/// How it is now, and what to type next.
pub fn show(global: &Global, args: &ApplyArgs, snapshot: &Snapshot, printer: &Printer) {
    printer.say("");
    printer.status(&snapshot.blueprint, &snapshot.observed, &snapshot.plan());
    next(global, args, snapshot, printer);
}

/// How it is, in a few words. Nothing is said to be well that was not seen to be.
fn state(blueprint: &Blueprint, observed: &Observed, differs: bool) -> &'static str {
    let seen = &observed.kubernetes;
    if quorum::standing(blueprint, &observed.machines).is_some_and(|etcd| etcd.quorum == Quorum::Lost) {
        return "has lost the quorum of its etcd: Kubernetes does not work until more control plane nodes answer. `talosmith status` \
                shows which are missing";
    }
    if !seen.answered {
        return "was brought to what the file says, but Kubernetes did not answer at the end. `talosmith health` looks again";
    }
    let nodes = || blueprint.nodes.keys().map(|name| seen.nodes.get(name));
    let unready = nodes().any(|node| node.is_none_or(|node| !node.ready));
    let network = blueprint.awaits_network() && unready;
    let provider = blueprint.awaits_cloud_provider() && nodes().flatten().any(|node| node.uninitialized);
    match (network, provider) {
        (false, false) if unready && differs => "still differs from the file. `talosmith plan` shows how",
        (false, false) if unready => {
            "was brought to what the file says, but not every node is ready now. `talosmith health` says what is missing"
        }
        (false, false) => "is healthy",
        (true, false) => "is up, and waits for a network plug-in. Install one, or name it under `manifests`",
        (false, true) => "is up, and waits for its cloud provider. Install it, or name its `version`",
        (true, true) => "is up, and waits for a network plug-in and its cloud provider, which you install",
    }
}

/// What to type next.
fn next(global: &Global, args: &ApplyArgs, snapshot: &Snapshot, printer: &Printer) {
    let flags = flags(global);
    let blueprint = &snapshot.blueprint;
    printer.say(&format!(
        "\nThe cluster {} {}. Next:\n",
        blueprint.cluster,
        state(blueprint, &snapshot.observed, !snapshot.plan().steps.is_empty())
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
        machine.etcd_status = Some(EtcdStatus { leader: None, errors: vec!["etcdserver: no leader".into()] });
        seen.kubernetes.answered = false;
        let told = state(&blueprint, &seen, false);
        assert!(told.contains("has lost the quorum of its etcd"), "{told}");
        assert!(!told.contains("brought to what the file says"), "{told}");
        let mut seen = observed();
        seen.kubernetes.nodes.remove("home-work-1");
        assert!(state(&blueprint, &seen, true).contains("still differs"), "steps are left");
    }
}
