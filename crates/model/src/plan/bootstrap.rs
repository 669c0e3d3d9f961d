//! When etcd may be bootstrapped, and when the record must say that it was.
//!
//! The one rule that must never be wrong: etcd is bootstrapped on exactly one machine, once. It needs a readable record
//! without a mark that it was (where there is Proxmox), and nothing that shows that the cluster exists or existed: no member and
//! no data of etcd anywhere, no Kubernetes that answers with this cluster's authority, no kubelet that was ever registered,
//! no VM of the cluster outside of the file. What is unknown at this point is for the executor to find out: the step stands
//! behind the configuration of every control plane node, and each must be seen, then, with proof that it has no etcd data.
//!
//! The record can be lost while the cluster lives. A member that answers proves that etcd is bootstrapped, so the record is
//! then written again with that mark. Without a member nothing is known, and nothing is done.

use super::{Refusal, RefusalCode};
use crate::blueprint::{Blueprint, Node};
use crate::mark::Lease;
use crate::mark::{BootstrapMark, Mark, RecordState};
use crate::names::NodeName;
use crate::observed::{Api, Etcd, Kubelet, Machine, Observed, Vm};
use crate::ownership;

/// What is to be done about etcd.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: it exists, and nodes join it.
    Exists,
    /// It is bootstrapped on this node.
    Start {
        /// The control plane node that etcd is bootstrapped on.
        node: NodeName,
        /// Why it is this one, in words.
        reason: &'static str,
    },
    /// It must not be, and this is why. Empty where the reason stands elsewhere.
    Blocked(Vec<Refusal>),
}

/// The node of a member of etcd that answers. A voter is named rather than a learner.
pub(super) fn member<'a>(blueprint: &'a Blueprint, observed: &Observed) -> Option<&'a str> {
    let part = |learns: bool| {
        move |node: &&Node| {
            let etcd = observed.machines.get(&node.name).map(|machine| &machine.etcd);
            matches!(etcd, Some(Etcd::Member { learner, .. }) if *learner == learns)
        }
    };
    let find = |learns| blueprint.control_planes().find(part(learns));
    find(false).or_else(|| find(true)).map(|node| node.name.as_str())
}

/// What is to be done about etcd.
pub(super) fn judge(blueprint: &Blueprint, observed: &Observed) -> Verdict {
    let has_data = |node: &Node| observed.machines.get(&node.name).is_some_and(|m| m.etcd == Etcd::Data);
    if member(blueprint, observed).is_some() || blueprint.control_planes().any(has_data) {
        return Verdict::Exists;
    }
    let Some(first) = blueprint.control_planes().next() else { return Verdict::Blocked(vec![]) };
    if !lost_record(blueprint, observed).is_empty() {
        return Verdict::Blocked(vec![]);
    }
    let mark = observed.proxmox.record.as_ref().and_then(|record| record.state.bootstrap.as_ref());
    let (node, reason) = match mark {
        Some(mark) if mark.done => return Verdict::Blocked(data_is_gone(blueprint, observed, mark)),
        Some(mark) if is_gone(blueprint, observed, &mark.node) => {
            return Verdict::Blocked(vec![Refusal {
                code: RefusalCode::Etcd,
                why: format!(
                    "an earlier run started etcd on {}, whose VM is gone: whether etcd ran there is unknown",
                    mark.node
                ),
                hint: "bring a control plane node with etcd's data back, or restore etcd from a snapshot; to start over, run \
                         `talosmith destroy` and apply again"
                    .to_owned(),
            }]);
        }
        Some(mark) if blueprint.nodes.contains_key(&mark.node) => {
            (mark.node.as_str().into(), "an earlier run started it there, and no member answers yet")
        }
        Some(mark) => {
            return Verdict::Blocked(vec![Refusal {
                code: RefusalCode::Etcd,
                why: format!("an earlier run started etcd on {}, which the file no longer has", mark.node),
                hint: "put that node back into the file, apply, and remove it afterwards".to_owned(),
            }]);
        }
        None if blueprint.has_proxmox() => (
            first.name.clone(),
            "nothing shows that etcd exists, and the record VM has no bootstrap mark; every control plane node is checked right before",
        ),
        None => (
            first.name.clone(),
            "nothing shows that etcd exists; every control plane node is checked right before",
        ),
    };
    let signs = signs(blueprint, observed);
    if signs.is_empty() { Verdict::Start { node, reason } } else { Verdict::Blocked(signs) }
}

/// Whether a node of the file has no VM, although it once had one.
fn is_gone(blueprint: &Blueprint, observed: &Observed, node: &str) -> bool {
    blueprint.nodes.get(node).is_some_and(|node| !node.external)
        && ownership::vm_of(blueprint, &observed.proxmox, node).is_none()
}

/// What shows that the cluster exists or existed, although no member of etcd answers.
fn signs(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let refusal = |why: String, hint: &str| Refusal {
        code: RefusalCode::Etcd,
        why: format!("etcd must not be bootstrapped: {why}"),
        hint: hint.to_owned(),
    };
    let mut signs = vec![];
    if observed.kubernetes.answered || observed.kubernetes.refused {
        let why = format!(
            "Kubernetes answers at {} with this cluster's certificate authority, so etcd exists, but no control plane node of \
             the file is seen as a member of it",
            blueprint.endpoint
        );
        let hint =
            "make the control plane nodes reachable from here, and put those that it runs on into the file";
        signs.push(refusal(why, hint));
    }
    let registered = |node: &&Node| {
        observed.machines.get(&node.name).is_some_and(|machine| machine.kubelet == Kubelet::Registered)
    };
    let registered = names(blueprint.in_order().into_iter().filter(registered).map(|node| &node.name));
    if let Some(registered) = registered {
        let why = format!(
            "{registered} was registered in Kubernetes with this cluster's keys, so the cluster existed, and a new etcd would be \
             empty"
        );
        let hint = "bring a control plane node with etcd's data back, or restore etcd from a snapshot; to start over, wipe \
                      those machines with `talosctl reset` or, where they are VMs of the cluster, run `talosmith destroy`";
        signs.push(refusal(why, hint));
    }
    let runs = |machine: &Machine| {
        machine.api == Api::Configured
            && machine.etcd == Etcd::Unknown
            && machine.stage.as_deref() == Some("running")
    };
    // Before etcd is bootstrapped, the stage of a control plane node stays at booting.
    let running = |node: &&Node| observed.machines.get(&node.name).is_some_and(runs);
    if let Some(running) = names(blueprint.control_planes().filter(running).map(|node| &node.name)) {
        let why = format!("{running} is in stage running and does not say whether it has etcd data");
        signs.push(refusal(why, "look at the service etcd there, then run the command again"));
    }
    let outside = |vm: &&Vm| !blueprint.nodes.contains_key(&vm.mark.node);
    let outside: Vec<String> = ours(blueprint, observed).filter(outside).map(named).collect();
    if let Some(outside) = names(outside.iter()) {
        let why = format!("{outside} belongs to this cluster, is not in the file, and may have etcd's data");
        let hint = "put it back into the file; if you know that it has no data, delete that VM in Proxmox";
        signs.push(refusal(why, hint));
    }
    let recorded = observed.proxmox.record.iter().flat_map(|record| record.state.generations.keys());
    for (node, host) in recorded.filter_map(|node| Some((node, unread(blueprint, observed, node)?))) {
        let why = format!("{node} could not be read on {host}, and it may have etcd's data");
        signs.push(refusal(why, &format!("bring {host} back, then run the command again")));
    }
    if let Some(gone) = names(gone(blueprint, observed).iter()) {
        let why = format!(
            "the record VM lists VMs of control plane nodes that no longer exist ({gone}), and they may have had etcd's data"
        );
        let hint = "bring them back, or restore etcd from a snapshot; to start over, run `talosmith destroy` and apply again";
        signs.push(refusal(why, hint));
    }
    signs
}

/// Control plane nodes that the record has a generation of, while no VM has it.
fn gone(blueprint: &Blueprint, observed: &Observed) -> Vec<String> {
    let generations = observed.proxmox.record.iter().flat_map(|record| &record.state.generations);
    let exists = |node: &str, generation: uuid::Uuid| {
        ours(blueprint, observed).any(|vm| vm.mark.node == node && vm.vmgenid == Some(generation))
    };
    generations
        .filter(|(node, generation)| {
            !exists(node, **generation) && unread(blueprint, observed, node).is_none()
        })
        .map(|(node, _)| node.clone())
        .collect()
}

/// The host of a node's VM that could not be read.
fn unread<'a>(blueprint: &Blueprint, observed: &'a Observed, node: &str) -> Option<&'a str> {
    let vmid = blueprint.nodes.get(node)?.vmid;
    observed.proxmox.unread.get(&vmid).map(String::as_str)
}

/// Names in a sentence; `None` without any.
fn names<'a>(names: impl Iterator<Item = &'a (impl AsRef<str> + 'a)>) -> Option<String> {
    let names: Vec<&str> = names.map(AsRef::as_ref).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn named(vm: &Vm) -> String {
    format!("{} (VM {} on {})", vm.mark.node, vm.vmid, vm.host)
}

/// VMs of the cluster's nodes, whether the file has them or not.
fn ours<'a>(blueprint: &Blueprint, observed: &'a Observed) -> impl Iterator<Item = &'a Vm> {
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    owner.into_iter().flat_map(|owner| observed.proxmox.of(owner))
}

/// etcd ran once. When every control plane node is proved to be empty or gone, its data is lost: only a snapshot helps.
fn data_is_gone(blueprint: &Blueprint, observed: &Observed, mark: &BootstrapMark) -> Vec<Refusal> {
    let is_empty = |node: &Node| {
        is_gone(blueprint, observed, &node.name)
            || observed.machines.get(&node.name).is_some_and(|m| m.etcd == Etcd::Empty)
    };
    // A pool or node that was renamed in the file still has its VMs, and their data.
    let outside = ours(blueprint, observed).any(|vm| !blueprint.nodes.contains_key(&vm.mark.node));
    if outside || !blueprint.control_planes().all(is_empty) {
        return vec![];
    }
    vec![Refusal {
        code: RefusalCode::Etcd,
        why: format!(
            "etcd was bootstrapped on {} at {}, but no control plane has its data any more",
            mark.node, mark.at
        ),
        hint: "restore etcd from a snapshot, or destroy the cluster and apply again".to_owned(),
    }]
}

/// VMs of the cluster exist and its record does not, or says nothing: the record is always created first, so it was lost, and
/// with it the knowledge whether etcd was bootstrapped. Only a member that answers can replace that knowledge.
pub(super) fn lost_record(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    if !blueprint.has_proxmox() || member(blueprint, observed).is_some() {
        return vec![];
    }
    match &observed.proxmox.record {
        Some(_) => unreadable_record(blueprint, observed),
        None => {
            let Some(vm) = ours(blueprint, observed).next() else { return vec![] };
            let others = ours(blueprint, observed).count() - 1;
            let more = if others == 0 { String::new() } else { format!(" and {others} more") };
            vec![Refusal {
                code: RefusalCode::NoRecord,
                why: format!(
                    "the cluster record VM is missing, but its VMs exist ({}{more}), and no member of etcd answers: whether etcd was \
                     bootstrapped is unknown",
                    named(vm)
                ),
                hint: format!(
                    "restore the record VM {} from a backup; or make a control plane node that has etcd's data reachable, then \
                     the record is created again; to give the cluster up, run `talosmith destroy`",
                    blueprint.record.vmid
                ),
            }]
        }
    }
}

/// The record is there, and nothing in its notes can be read.
pub(super) fn unreadable_record(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(record) = observed.proxmox.record.as_ref().filter(|record| record.unreadable) else {
        return vec![];
    };
    let node = blueprint.control_planes().next().map(|node| node.name.clone()).unwrap_or_default();
    // The safe guess: with this nothing is ever bootstrapped again.
    let mark = BootstrapMark::new(node, jiff::Timestamp::UNIX_EPOCH, true);
    // Who held the lease is lost with the line, and may still be at work: an expired lease of another makes the next run wait for that.
    let lease = Lease {
        holder: "unknown: the line was restored".to_owned(),
        nonce: "restored".to_owned(),
        run: None,
        since: jiff::Timestamp::UNIX_EPOCH,
        expires: jiff::Timestamp::UNIX_EPOCH,
        stops_after: None,
        outwaits: None,
    };
    let line = RecordState { lease: Some(lease), bootstrap: Some(mark), ..RecordState::default() }.line();
    // `destroy` asks no machine.
    let answers = if observed.machines.is_empty() { "" } else { ", and no member of etcd answers" };
    vec![Refusal {
        code: RefusalCode::NoRecord,
        why: format!(
            "the notes of the cluster record VM {} on {} have no readable line `talosmith-record:`{answers}: \
             whether etcd was bootstrapped, and who holds the lease, is unknown",
            record.vmid, record.host
        ),
        hint: format!(
            "make a control plane node reachable and apply, then the line is written again; or restore the line from a backup; \
             if etcd was bootstrapped, this line says so: {line}"
        ),
    }]
}

/// Whether nothing shows that etcd was ever bootstrapped, and the record, which can be read, knows no VM of this node.
pub(super) fn never(blueprint: &Blueprint, observed: &Observed, node: &str) -> bool {
    let says_nothing =
        |state: &RecordState| state.bootstrap.is_none() && !state.generations.contains_key(node);
    let record = observed.proxmox.record.as_ref();
    record.is_some_and(|seen| !seen.unreadable && says_nothing(&seen.state))
        && matches!(judge(blueprint, observed), Verdict::Start { .. })
}

/// Whether the record must be told that etcd is bootstrapped.
pub(super) fn is_unsealed(observed: &Observed) -> bool {
    let record = observed.proxmox.record.as_ref();
    record.is_some_and(|seen| seen.unreadable || !seen.state.bootstrap.as_ref().is_some_and(|mark| mark.done))
}
