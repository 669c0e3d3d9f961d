//! What "healthy" means: a list of named conditions, each of which says what is missing.
//!
//! `apply` waits for all of them; `status` shows them once. The order is that of causes, so the first one that fails is
//! usually the one to look at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::blueprint::{Blueprint, Node};
use model::names::NodeName;
use model::observed::{Api, KubernetesNode, NotReady, Vm};
use model::quorum::Standing;
use model::readiness::{self, Seen, State};
use model::spec::CniName;
use serde::Serialize;
use talos_client::{Kind, Machine, MachineStatus};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::kubernetes::Kubernetes;
use crate::observe::machines;
use crate::observe::proxmox::is_running;
use crate::render::Access;
use crate::session::Snapshot;
use crate::systems::{REQUEST_TIMEOUT, Systems};
use crate::unmet::{PodWatch, Unmet};

const TIMEOUT: Duration = Duration::from_secs(10 * 60);
const INTERVAL: Duration = Duration::from_secs(3);
/// The code of a machine that does not answer.
const SILENT: &str = "machine-unavailable";

const NODES_READY: &str = "every node is ready in Kubernetes";
const NODES_SEEN: &str = "the cloud provider has seen every node";
/// Conditions that pods bring about.
const PODS_BRING: &[&str] = &[NODES_READY, NODES_SEEN];

/// One condition and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// What must hold, in words; it names the condition in JSON, too.
    pub name: &'static str,
    /// What is missing; `None` when it holds.
    pub missing: Option<String>,
    /// What it waits for because the file leaves it to the user, so that `apply` does not wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits: Option<String>,
    /// What a run stops with whose wait for it ended. Empty when it holds.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub code: &'static str,
}

impl Condition {
    fn of(name: &'static str, held: Held) -> Self {
        match held {
            Ok(awaits) => Self { name, missing: None, awaits, code: "" },
            Err(unmet) => Self { name, missing: Some(unmet.words), awaits: None, code: unmet.code },
        }
    }
}

/// How healthy a cluster is, and what a person wants to know beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Every condition.
    pub conditions: Vec<Condition>,
    /// How etcd stands; `None` where no member of it answers.
    pub etcd: Option<Standing>,
    /// Nodes as Kubernetes sees them; none where it does not answer.
    pub nodes: BTreeMap<NodeName, KubernetesNode>,
}

/// Every condition, asked once.
pub async fn conditions(systems: &Systems, snapshot: &Snapshot) -> Vec<Condition> {
    examine(systems, snapshot).await.conditions
}

/// How healthy the cluster is now, with the versions of the file.
pub async fn examine(systems: &Systems, snapshot: &Snapshot) -> Health {
    let mut health = examine_hop(systems, snapshot).await;
    let behind = snapshot.blueprint.upgrade.iter().flat_map(|upgrade| &upgrade.kubernetes).filter_map(
        |(node, change)| {
            let runs = &health.nodes.get(node)?.version;
            (*runs != change.wanted).then(|| Unmet::new(format!("{node} runs {runs}, not {}", change.wanted)))
        },
    );
    let behind: Option<Unmet> = behind.into_iter().next();
    if let Some(behind) = behind
        && let Some(ready) = health.conditions.iter_mut().find(|condition| condition.name == NODES_READY)
        && ready.missing.is_none()
    {
        *ready = Condition::of(NODES_READY, Err(behind));
    }
    health
}

/// The same, with the versions of the hop of an upgrade that a run makes.
async fn examine_hop(systems: &Systems, snapshot: &Snapshot) -> Health {
    let Ok(access) = snapshot.access() else {
        let unmet = Condition::of("bundle", Err(Unmet::new("there is no secrets bundle")));
        return Health { conditions: vec![unmet], ..Health::default() };
    };
    let kubernetes = Kubernetes::new(systems, &snapshot.blueprint.endpoint, &access.kubernetes);
    // Where nothing answers, each waits for its own timeout, and not for the sum of them.
    let of_kubernetes = async {
        match &kubernetes {
            Ok(kubernetes) => {
                let nodes = kubernetes.nodes().await.map_err(|e| no_kubernetes(&e));
                // Where nodes were not listed, pods are not either.
                let pods = match &nodes {
                    Ok(_) => control_plane_pods(snapshot, kubernetes).await,
                    Err(unmet) => Err(unmet.clone()),
                };
                Ok((nodes, pods))
            }
            Err(error) => Err(Unmet::new(error.to_string())),
        }
    };
    let ((etcd, standing), (machines, down), of_kubernetes) = futures::join!(
        etcd_members(systems, snapshot, access),
        machines_ready(systems, snapshot, access),
        of_kubernetes
    );
    let mut seen = BTreeMap::new();
    let mut conditions = vec![
        Condition::of("etcd members are the control plane nodes", etcd),
        Condition::of("every machine runs and is ready", machines),
    ];
    match of_kubernetes {
        Ok((nodes, pods)) => {
            seen = nodes.clone().unwrap_or_default();
            let ready = nodes.as_ref().map_err(Clone::clone).and_then(|nodes| nodes_ready(snapshot, nodes));
            let ready =
                ready.and_then(|awaits| not_noticed(awaits, &down, "Kubernetes still calls the node ready"));
            let of_control_plane =
                |name: &NodeName| snapshot.blueprint.control_planes().any(|node| node.name == *name);
            let down: Vec<NodeName> = down.into_iter().filter(of_control_plane).collect();
            let pods =
                pods.and_then(|awaits| not_noticed(awaits, &down, "Kubernetes still calls its pods ready"));
            conditions.push(Condition::of(NODES_READY, ready));
            conditions.push(Condition::of("the control plane's pods are ready", pods));
            if snapshot.blueprint.options.manifests.proxmox_ccm.is_some() {
                let seen = nodes.and_then(|nodes| nodes_initialized(snapshot, &nodes));
                conditions.push(Condition::of(NODES_SEEN, seen));
            }
        }
        Err(unmet) => conditions.push(Condition::of("Kubernetes answers", Err(unmet))),
    }
    Health { conditions, etcd: standing, nodes: seen }
}

/// Waits until every condition holds, then seals the bootstrap mark: etcd runs, so it is never started again.
pub(crate) async fn run(context: &Context, progress: &Progress) -> Result<Done> {
    let systems = &context.systems;
    let began = systems.clock.now();
    let access = context.snapshot.access()?;
    let kubernetes = Kubernetes::new(systems, &context.snapshot.blueprint.endpoint, &access.kubernetes)?;
    let mut pods = PodWatch::default();
    loop {
        // Kubernetes keeps its version while a hop of Talos is made.
        let conditions = examine_hop(systems, &context.snapshot).await.conditions;
        let lacks = |c: &Condition| Some((c.name, Unmet::new(c.missing.clone()?).coded(c.code)));
        let Some((name, mut unmet)) = conditions.iter().find_map(lacks) else { break };
        if PODS_BRING.contains(&name) {
            unmet = pods.explain(systems, &kubernetes, unmet).await;
        } else {
            pods.nothing_missing();
        }
        let Unmet { words: missing, code, .. } = unmet;
        progress.note(format!("{name}: {missing}"));
        if pods.is_hopeless(systems) {
            return Err(Error::systems(format!("the cluster does not become healthy: {name}: {missing}")).coded(code).hint(
                "correct what the pod says (a registry, a mirror, a version, a value); run the command again to continue waiting",
            ));
        }
        if systems.clock.now().duration_since(began) > TIMEOUT.try_into().unwrap_or(jiff::SignedDuration::MAX)
        {
            return Err(Error::systems(format!(
                "not healthy after {} minutes: {name}: {missing}",
                TIMEOUT.as_secs() / 60
            ))
            .coded(code)
            .hint(
                "`talosmith status` shows where each node stands; run the command again to continue waiting",
            ));
        }
        systems.clock.sleep(INTERVAL).await;
    }
    if let Some(first) = context.snapshot.blueprint.control_planes().next()
        && let Some(record) = context.record_if_any()?
    {
        record.seal_bootstrap(&first.name).await?;
    }
    Ok(Done::default())
}

/// It holds, perhaps but for what the file leaves to others; or what is missing.
type Held = std::result::Result<Option<String>, Unmet>;

/// Each control plane lists the same members, all voters, one for each control plane. Every one is asked, so that what is said is
/// how etcd stands, and not only which machine did not answer first.
async fn etcd_members(systems: &Systems, snapshot: &Snapshot, access: &Access) -> (Held, Option<Standing>) {
    let voters = snapshot.voters();
    let asked = voters.iter().map(|node| async move {
        let address = systems.address(node);
        let machine = Machine::connect(&systems.net, &systems.clock, address, &access.talos)
            .map_err(|e| Unmet::of_machine(e.to_string(), &e))?;
        let members = async {
            match systems.clock.timeout(REQUEST_TIMEOUT, machine.etcd_members(false)).await {
                Ok(Ok(members)) => Ok(members),
                Ok(Err(error)) => Err(silence(systems, snapshot, node, Some(&error)).await),
                Err(_) => Err(silence(systems, snapshot, node, None).await),
            }
        };
        let (members, (etcd, etcd_status), addresses) = futures::join!(
            members,
            machines::etcd_with_status(systems, node, &machine),
            machines::addresses(systems, node, &machine),
        );
        let seen = model::observed::Machine {
            etcd,
            etcd_status,
            addresses,
            ..model::observed::Machine::with(Api::Configured)
        };
        Ok::<_, Unmet>((node.name.clone(), members, seen))
    });
    let (mut lacks, mut views, mut seen) = (vec![], vec![], BTreeMap::new());
    let answers = futures::future::join_all(asked).await;
    for (voter, answer) in voters.iter().zip(answers) {
        // One that left the file may be gone by now. Whether it is a member all the same, the lists of the others say.
        let is_awaited = snapshot.blueprint.nodes.contains_key(&voter.name);
        match answer {
            Ok((node, members, machine)) => {
                match members {
                    Ok(members) => views.push((node.clone(), members)),
                    Err(unmet) => lacks.extend(is_awaited.then_some(unmet)),
                }
                seen.insert(node, machine);
            }
            Err(unmet) => lacks.extend(is_awaited.then_some(unmet)),
        }
    }
    let wanted: BTreeSet<String> = snapshot.blueprint.control_planes().map(|n| n.name.to_string()).collect();
    let not_in_file: BTreeSet<String> =
        voters.iter().map(|node| node.name.to_string()).filter(|name| !wanted.contains(name)).collect();
    let mut kept = BTreeSet::new();
    for (node, members) in views {
        let names: BTreeSet<String> = members.iter().map(|m| m.hostname.clone()).collect();
        // Whether those leave is for the plan to say. Waiting does not change it.
        let (left, names): (BTreeSet<String>, BTreeSet<String>) =
            names.into_iter().partition(|name| not_in_file.contains(name));
        kept.extend(left);
        if let Some(learner) = members.iter().find(|m| m.learner) {
            lacks.push(Unmet::new(format!("{} is still a learner", learner.hostname)));
        } else if names != wanted {
            lacks.push(Unmet::new(format!("{node} sees {}", list(&names))));
        }
    }
    lacks.dedup_by(|a, b| a.words == b.words);
    let standing = model::quorum::standing(&snapshot.blueprint, &seen);
    let held = judged(lacks, standing.as_ref()).map(|_| still_members(&kept));
    (held, standing)
}

/// Members of nodes that the file does not have any more.
fn still_members(kept: &BTreeSet<String>) -> Option<String> {
    let (is, member) = if kept.len() == 1 { ("is", "a member") } else { ("are", "members") };
    (!kept.is_empty()).then(|| {
        format!(
            "{} {is} not in the file and still {member}; `talosmith plan` says what keeps that",
            list(kept)
        )
    })
}

/// What etcd lacks.
fn judged(lacks: Vec<Unmet>, standing: Option<&Standing>) -> Held {
    let Some(unmet) = together(lacks) else {
        // All members are there, and etcd may still refuse writes.
        let errors = standing.map(|standing| &standing.errors).filter(|errors| !errors.is_empty());
        return errors.map_or(Ok(None), |errors| Err(Unmet::new(alarmed(errors))));
    };
    // How etcd stands comes first: whether it can be written to is what matters at night.
    match standing {
        Some(standing) if !standing.is_whole() => {
            Err(Unmet { words: format!("{standing} ({})", unmet.words), ..unmet })
        }
        Some(_) => Err(unmet),
        None => Err(Unmet { words: format!("no member answers: {}", unmet.words), ..unmet }),
    }
}

/// What members complain about, and what helps.
fn alarmed(errors: &[String]) -> String {
    let what = errors.iter().map(|error| error.trim()).collect::<Vec<_>>().join(", ");
    let help = match what.contains("NOSPACE") {
        true => {
            "; Kubernetes accepts no writes until etcd is defragmented (`talosctl etcd defrag`, one member at a time) and the alarm is \
             disarmed (`talosctl etcd alarm disarm`)"
        }
        false => "; `talosctl etcd status` and `talosctl etcd alarm list` show more",
    };
    format!("etcd reports: {what}{help}")
}

/// What Kubernetes says of nodes whose machines are not ready: it notices that up to a minute later, and is not believed until then.
fn not_noticed(awaits: Option<String>, down: &[NodeName], says: &str) -> Held {
    let lacks = down.iter().map(|node| Unmet::new(format!("{node}: {says}, but its machine is not")));
    together(lacks.collect()).map_or(Ok(awaits), Err)
}

/// Whether every machine runs and is ready, and which are not.
async fn machines_ready(systems: &Systems, snapshot: &Snapshot, access: &Access) -> (Held, Vec<NodeName>) {
    let runs = |node: &Node, status: &MachineStatus| {
        let machine = machines::with_status(status);
        Seen::nothing(&snapshot.blueprint, node)
            .with_machine(&machine)
            .lacks(&[readiness::Condition::Running])
            .is_none()
    };
    let asked = snapshot.blueprint.in_order().into_iter().map(|node| async move {
        let address = systems.address(node);
        let machine = Machine::connect(&systems.net, &systems.clock, address, &access.talos)
            .map_err(|e| Unmet::of_machine(e.to_string(), &e))?;
        match systems.clock.timeout(REQUEST_TIMEOUT, machine.stage()).await {
            Ok(Ok(status)) if runs(node, &status) => Ok(()),
            Ok(Ok(status)) => Err(unready(node, &status)),
            Ok(Err(error)) => Err(silence(systems, snapshot, node, Some(&error)).await),
            Err(_) => Err(silence(systems, snapshot, node, None).await),
        }
    });
    let answers = futures::future::join_all(asked).await;
    let names = snapshot.blueprint.in_order().into_iter().map(|node| node.name.clone());
    let down = names.zip(&answers).filter(|(_, answer)| answer.is_err()).map(|(name, _)| name).collect();
    let lacks = answers.into_iter().filter_map(std::result::Result::err).collect();
    (together(lacks).map_or(Ok(None), Err), down)
}

/// Why a machine that answers is not ready.
fn unready(node: &Node, status: &MachineStatus) -> Unmet {
    if status.unmet.iter().any(|unmet| unmet.name == "time") {
        return Unmet::new(format!("{}: {}", node.name, model::service::no_time(&node.ntp))).coded("clock");
    }
    Unmet::new(unsettled(&node.name, status))
}

/// What a machine that answers still waits for, in its own words.
fn unsettled(node: &str, status: &MachineStatus) -> String {
    let stage = &status.stage;
    if status.unmet.is_empty() {
        let ready = if status.ready { "" } else { " and not ready" };
        return format!("{node} is {stage}{ready}");
    }
    let unmet = status.unmet.iter().map(|unmet| match unmet.reason.is_empty() {
        true => unmet.name.clone(),
        false => format!("{}: {}", unmet.name, unmet.reason),
    });
    format!("{node} is {stage} and waits for {}", unmet.collect::<Vec<_>>().join(", "))
}

/// Why a machine does not tell what it is asked, in the words of a person who stands before it.
async fn silence(
    systems: &Systems,
    snapshot: &Snapshot,
    node: &Node,
    error: Option<&talos_client::Error>,
) -> Unmet {
    let vm = model::ownership::vm_of(&snapshot.blueprint, &snapshot.observed.proxmox, &node.name);
    let unmet = match error {
        Some(error) => Unmet::of_machine(format!("{}: {error}", node.name), error),
        None => Unmet::new(format!("{} did not answer in time", node.name)).coded(SILENT),
    };
    let is_off = async |vm: &Vm| {
        let asked = systems.clock.timeout(REQUEST_TIMEOUT, is_running(systems, &vm.host, vm.vmid)).await;
        matches!(asked, Ok(Ok(false)))
    };
    let words = match (vm, error.map(talos_client::Error::kind)) {
        (Some(vm), Some(Kind::Unavailable | Kind::Deadline) | None) if is_off(vm).await => {
            format!("{} is off (VM {} on {})", node.name, vm.vmid, vm.host)
        }
        (_, Some(Kind::Untrusted)) => {
            format!("{} waits for a configuration, or has one of another cluster", node.name)
        }
        _ => return unmet,
    };
    Unmet { words, ..unmet }
}

/// What several nodes lack, as one: the first few in words, the others as a number.
fn together(lacks: Vec<Unmet>) -> Option<Unmet> {
    const NAMED: usize = 5;
    let more = lacks.len().saturating_sub(NAMED);
    let words = lacks.iter().take(NAMED).map(|unmet| unmet.words.clone());
    let words: Vec<String> = words.chain((more > 0).then(|| format!("and {more} more"))).collect();
    lacks.into_iter().next().map(|first| Unmet { words: words.join("; "), ..first })
}

fn no_kubernetes(error: &Error) -> Unmet {
    Unmet::new(error.causes().join(": ")).coded("kubernetes")
}

fn nodes_ready(snapshot: &Snapshot, nodes: &BTreeMap<NodeName, KubernetesNode>) -> Held {
    let mut awaits = None;
    let mut lacks = vec![];
    // The unit that upgrades a kubelet verifies it, in this run or in a later one.
    let upgrade = snapshot.blueprint.upgrade.as_ref();
    let is_upgraded = |node: &NodeName| upgrade.is_some_and(|upgrade| upgrade.kubernetes.contains_key(node));
    for node in snapshot.blueprint.in_order() {
        let seen = Seen::nothing(&snapshot.blueprint, node).with_kubernetes(nodes);
        let mut unmet = |words: String| lacks.push(Unmet::new(words));
        let Some(known) = nodes.get(&node.name) else {
            unmet(format!("{} is not registered", node.name));
            continue;
        };
        match seen.lacks(&[readiness::Condition::Ready, readiness::Condition::Version]) {
            Some(readiness::Condition::Version) if is_upgraded(&node.name) => {}
            Some(readiness::Condition::Version) => {
                unmet(format!("{} runs {}, not {}", node.name, known.version, node.kubernetes));
            }
            Some(_) => {
                unmet(format!(
                    "{} is {}",
                    node.name,
                    not_ready(&snapshot.blueprint, known.not_ready.as_ref())
                ));
            }
            None if seen.state(readiness::Condition::Ready) == State::LeftToOperator => {
                awaits = Some("waits for the CNI plugin that the file leaves to you".to_owned());
            }
            None => {}
        }
    }
    together(lacks).map_or(Ok(awaits), Err)
}

/// That a registered node is not ready, and why, as Kubernetes says it.
pub(crate) fn not_ready(blueprint: &Blueprint, why: Option<&NotReady>) -> String {
    match why {
        Some(NotReady::NetworkPlugin) => {
            let comes = match blueprint.options.kubernetes.cni.details().name {
                CniName::Flannel => "Flannel, which comes with Talos",
                CniName::Cilium => "Cilium, which the job helm-cilium in kube-system installs",
                CniName::Custom => "the CNI plugin from `kubernetes.cni.urls`",
                CniName::None => "a CNI plugin from `manifests`",
            };
            format!("registered in Kubernetes, not ready yet: it waits for {comes}")
        }
        Some(NotReady::KubeletSilent) => {
            "not ready: its kubelet stopped reporting to Kubernetes, as when the machine is off, restarts or is cut off".to_owned()
        }
        Some(NotReady::Other(said)) if !said.is_empty() => format!("registered in Kubernetes, not ready yet: {said}"),
        Some(NotReady::Other(_)) | None => "registered in Kubernetes, not ready yet".to_owned(),
    }
}

fn nodes_initialized(snapshot: &Snapshot, nodes: &BTreeMap<NodeName, KubernetesNode>) -> Held {
    let state = |node: &Node| {
        let seen = Seen::nothing(&snapshot.blueprint, node).with_kubernetes(nodes);
        seen.state(readiness::Condition::Initialized)
    };
    let waits = snapshot.blueprint.nodes.values().find(|node| state(node) != State::Met);
    match waits.map(|node| (&node.name, state(node))) {
        None => Ok(None),
        Some((_, State::LeftToOperator)) => {
            Ok(Some("waits for the cloud provider that the file leaves to you".to_owned()))
        }
        Some((name, _)) => {
            Err(Unmet::new(format!("{name} takes no pods before the cloud provider has seen it")))
        }
    }
}

async fn control_plane_pods(snapshot: &Snapshot, kubernetes: &Kubernetes) -> Held {
    let pods = kubernetes.control_plane_pods().await.map_err(|e| no_kubernetes(&e))?;
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        for node in snapshot.blueprint.control_planes() {
            match pods.iter().find(|p| p.component == component && p.node == node.name) {
                None => return Err(Unmet::new(format!("{component} is missing on {}", node.name))),
                Some(pod) if !pod.ready => return Err(Unmet::new(format!("{} is not ready", pod.name))),
                Some(_) => {}
            }
        }
    }
    Ok(None)
}

fn list(names: &BTreeSet<String>) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.iter().cloned().collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use talos_client::{Stage, UnmetCondition};

    use super::*;

    #[test]
    fn t6_a_machine_that_is_not_ready_says_what_it_waits_for() {
        let condition =
            |name: &str, reason: &str| UnmetCondition { name: name.into(), reason: reason.into() };
        let mut status = MachineStatus {
            stage: Stage::Running,
            ready: false,
            unmet: vec![
                condition("nodeReady", "node \"w-1\" status is not available yet"),
                condition("time", ""),
            ],
        };
        let words = "w-1 is running and waits for nodeReady: node \"w-1\" status is not available yet, time";
        assert_eq!(unsettled("w-1", &status), words);
        status.unmet.clear();
        assert_eq!(unsettled("w-1", &status), "w-1 is running and not ready");
        status = MachineStatus { stage: Stage::Booting, ready: true, unmet: vec![] };
        assert_eq!(unsettled("w-1", &status), "w-1 is booting");
    }
}
