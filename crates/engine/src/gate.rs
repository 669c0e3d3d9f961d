//! The only door to anything disruptive.
//!
//! The rule is [`model::gate`]. Here it is asked on a fresh view, directly before each unit. `permits` keeps what it gave. Commands that the file
//! names run when nothing else speaks against a unit, and then the cluster is looked at once more, because they take time.

mod conditions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use model::blueprint::Node;
use model::gate::{self, Blocker, Budget, ClusterView, Effect, Permit, Policy, Request, Verdict};
use model::names::NodeName;
use model::observed::{Kubernetes as SeenKubernetes, Machine};
use model::step::UnitId;
use model::unit::Unit;

use self::conditions::Unmet;
use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::kubernetes::Kubernetes;
use crate::observe::proxmox::last_cause;
use crate::observe::{etcd, machines};
use crate::permits::Turn;
use crate::systems::REQUEST_TIMEOUT;

/// Between two looks at a cluster that is not ready for a disruption.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a unit lets those before it go first, before it looks again.
const TURN: Duration = Duration::from_millis(500);
/// How long Talosmith waits for a blocker that may pass. It waits without a limit for its own units.
const PASSING: SignedDuration = SignedDuration::from_mins(10);
/// The same, directly before a node goes down whose pods have been evicted.
const CONFIRM: SignedDuration = SignedDuration::from_mins(2);
/// The same, directly before the VM of a dead node goes: what is missing then was missing for minutes.
const MOMENT: SignedDuration = SignedDuration::from_secs(20);

/// Waits until a unit may start, and keeps its permit.
pub(crate) async fn enter(context: &Context, unit: &Unit, progress: &Progress) -> Result<Arc<Permit>> {
    let wish = Wish { want: &unit.request(), policy: &context.snapshot.policy(), keep: true, limit: PASSING };
    wait(context, &wish, progress).await.map_err(|blockers| refused(&unit.goal.to_string(), &blockers))
}

/// Looks once more directly before a unit takes its node down. A drain may have taken minutes since the unit entered, and another node may
/// have failed meanwhile. The window and the health of other systems were judged when the unit entered: it is in their time, and its own
/// drain may be what they report.
///
/// # Errors
///
/// What speaks against it by now.
pub(crate) async fn confirm(
    context: &Context,
    unit: &Request,
    progress: &Progress,
) -> std::result::Result<Arc<Permit>, Vec<Blocker>> {
    let policy =
        Policy { window: None, gates: BTreeSet::new(), commands: vec![], ..context.snapshot.policy() };
    wait(context, &Wish { want: unit, policy: &policy, keep: false, limit: CONFIRM }, progress).await
}

/// The last look before the VM of a node that does not live any more goes. That takes nothing away from the cluster, so the budget for
/// workers, the maintenance window and the health of other systems do not matter; the quorum of etcd does. The permit is not kept,
/// because nothing can count on such a node, and a unit that has one for the same node is no obstacle.
///
/// # Errors
///
/// What speaks against it.
pub(crate) async fn remove_dead(
    context: &Context,
    node: &str,
    progress: &Progress,
) -> std::result::Result<Arc<Permit>, Vec<Blocker>> {
    let unit = UnitId(format!("replace/{node}"));
    let want = Request { unit, node: node.into(), effect: Effect::Removal };
    let policy = Policy { workers: Budget::Percent(100), ..Policy::default() };
    wait(context, &Wish { want: &want, policy: &policy, keep: false, limit: MOMENT }, progress).await
}

/// Looks until the gate opens. There is no limit for what this run does itself.
async fn wait(
    context: &Context,
    wish: &Wish<'_>,
    progress: &Progress,
) -> std::result::Result<Arc<Permit>, Vec<Blocker>> {
    let clock = &context.systems.clock;
    let mut passing_since = None;
    let mut commands_passed = wish.policy.commands.is_empty();
    let turn = wish.keep.then(|| Turn::of(&context.permits, &wish.want.unit));
    loop {
        let (view, unresponsive) = look(context, wish.policy).await;
        let verdict = {
            // One lock for the judgment and for keeping its result: two units cannot both be last.
            let mut state = context.permits.state();
            let standing = if wish.keep { state.standing() } else { state.beside(&wish.want.node) };
            match gate::judge(wish.policy, &view, &standing, wish.want) {
                // The plan has an order. A unit before this one looks as often, and goes first.
                Verdict::Go(_) if wish.keep && state.is_behind(&wish.want.unit) => None,
                Verdict::Go(permit) if commands_passed => {
                    let permit = Arc::new(permit);
                    if wish.keep {
                        state.permits.insert(wish.want.unit.clone(), permit.clone());
                    }
                    return Ok(permit);
                }
                other => Some(other),
            }
        };
        let Some(verdict) = verdict else {
            clock.sleep(TURN).await;
            continue;
        };
        let blockers = match verdict {
            Verdict::Go(_) => match conditions::commands(context, &wish.policy.commands, progress).await {
                Ok(()) => {
                    commands_passed = true;
                    continue;
                }
                Err(Unmet::Refused(blocker)) => return Err(vec![blocker]),
                Err(Unmet::Failed(blocker)) => vec![blocker],
            },
            Verdict::Stop(blockers) => return Err(blockers),
            Verdict::Wait(blockers) => blockers,
        };
        // They run directly before a unit, so after a wait they run again.
        commands_passed = wish.policy.commands.is_empty();
        progress.note(match unresponsive {
            Some(why) => format!("Proxmox does not say which VMs run, so none counts as running: {why}"),
            None => told(&blockers),
        });
        let now = clock.now();
        let own = blockers.iter().all(|blocker| context.permits.is_own(blocker));
        if let Some(turn) = &turn {
            turn.is_next(own);
        }
        match own {
            true => passing_since = None,
            false if now.duration_since(*passing_since.get_or_insert(now)) >= wish.limit => {
                return Err(blockers);
            }
            false => {}
        }
        clock.sleep(INTERVAL).await;
    }
}

/// How the cluster stands now, and everything else that the file asks for.
///
/// Also why Proxmox did not answer, if so: then no VM is known to run, and that is the cause of all else that is said.
async fn look(context: &Context, policy: &Policy) -> (ClusterView, Option<String>) {
    let ((view, unresponsive), readings) = futures::join!(
        Box::pin(view_with_power(context)),
        Box::pin(conditions::health(context, &policy.gates))
    );
    let window = context.snapshot.window(context.systems.clock.now());
    let health = context.permits.state().freshness.of(readings);
    (ClusterView { health, window, ..view }, unresponsive)
}

/// What is asked of the gate.
struct Wish<'a> {
    want: &'a Request,
    policy: &'a Policy,
    /// Whether the permit counts until its unit has ended.
    keep: bool,
    /// How long to wait for a blocker that may pass.
    limit: SignedDuration,
}

fn told(blockers: &[Blocker]) -> String {
    blockers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What the gate does not allow.
pub(crate) fn refused(what: &str, blockers: &[Blocker]) -> Error {
    let hint = blockers.first().map_or("run the command again", Blocker::hint);
    Error::new(Kind::Refused, format!("could not {what}: {}", told(blockers))).coded("gate").hint(hint)
}

/// How the cluster stands now: every control plane node asked for itself, and Kubernetes.
pub(crate) async fn view(context: &Context) -> ClusterView {
    view_with_power(context).await.0
}

/// The same, and why Proxmox did not answer, if so.
async fn view_with_power(context: &Context) -> (ClusterView, Option<String>) {
    let blueprint = &context.snapshot.blueprint;
    let Ok(access) = context.snapshot.access() else { return (ClusterView::default(), None) };
    let nodes: Vec<Node> = context.snapshot.voters();
    let asked = nodes.iter().map(|node| async move {
        let Identified::Configured(client) = Box::pin(identify(&context.systems, node, access)).await else {
            return None;
        };
        let mut machine = Machine::with(model::observed::Api::Configured);
        (machine.etcd, machine.etcd_status) =
            machines::etcd_with_status(&context.systems, node, &client).await;
        Some((node.name.clone(), machine))
    });
    let kubernetes = async {
        let client = Kubernetes::new(&context.systems, &blueprint.endpoint, &access.kubernetes).ok()?;
        let nodes = client.nodes().await.ok()?;
        Some(SeenKubernetes { answered: true, nodes, ..SeenKubernetes::default() })
    };
    let (machines, kubernetes, power) =
        futures::join!(join_all(asked), Box::pin(kubernetes), Box::pin(power(context)));
    let mut machines = machines.into_iter().flatten().collect();
    if let Err(why) = etcd::add_alarms(&context.systems, access, &nodes, &mut machines).await {
        // Whether there is one is not known, so no member counts as healthy.
        let told = machines.values_mut().filter_map(|machine| machine.etcd_status.as_mut());
        told.for_each(|status| status.errors.push(format!("its alarms are not known: {why}")));
    }
    let view = ClusterView::of(blueprint, &machines, &kubernetes.unwrap_or_default())
        .with_power(blueprint, |node| power.runs.get(node).copied())
        .with_removed(&context.snapshot.observed.removed)
        .with_maintenance(power.maintenance);
    (view, power.unresponsive)
}

/// What Proxmox says of the nodes' VMs.
#[derive(Default)]
struct Power {
    /// Which of them run. What it does not say is missing.
    runs: BTreeMap<NodeName, bool>,
    /// Those on a host that high availability has in maintenance, with that host.
    maintenance: BTreeMap<NodeName, String>,
    /// Why it says nothing, if so.
    unresponsive: Option<String>,
}

async fn power(context: &Context) -> Power {
    let blueprint = &context.snapshot.blueprint;
    if !blueprint.has_proxmox() {
        return Power::default();
    }
    let pve = &context.systems.pve;
    let listed = context.systems.clock.timeout(REQUEST_TIMEOUT, pve.cluster_resources()).await;
    let resources = match listed {
        Ok(Ok(resources)) => resources,
        Ok(Err(error)) => return Power { unresponsive: Some(last_cause(&error)), ..Power::default() },
        Err(late) => return Power { unresponsive: Some(late.to_string()), ..Power::default() },
    };
    let in_maintenance: BTreeSet<&String> = resources
        .iter()
        .filter(|r| r.kind == "node" && r.hastate.as_deref() == Some("maintenance"))
        .filter_map(|host| host.node.as_ref())
        .collect();
    let on: BTreeMap<u64, &String> = resources
        .iter()
        .filter(|resource| resource.kind == "qemu")
        .filter_map(|vm| Some((vm.vmid?, vm.node.as_ref()?)))
        .collect();
    let removed = context.snapshot.observed.removed.iter().map(|(name, gone)| (name, gone.vmid));
    let named = blueprint.nodes.values().filter(|node| !node.external).map(|node| (&node.name, node));
    let named = named.map(|(name, node)| (name, context.place_of(node).vmid)).chain(removed);
    let maintenance = named.filter_map(|(name, vmid)| {
        let host = on.get(&u64::from(vmid)).filter(|host| in_maintenance.contains(*host))?;
        Some((name.clone(), (*host).clone()))
    });
    let maintenance = maintenance.collect();
    let status: BTreeMap<u64, &str> = resources
        .iter()
        .filter(|resource| resource.kind == "qemu")
        .filter_map(|vm| Some((vm.vmid?, vm.status.as_deref()?)))
        .collect();
    let nodes = blueprint.nodes.values().filter(|node| !node.external);
    let asked = nodes.map(|node| async {
        let vm = context.place_of(node);
        let runs = match status.get(&u64::from(vm.vmid)).copied() {
            Some("running") => true,
            Some("stopped") => false,
            // A daemon that does not report leaves the whole list unknown; the host itself knows.
            _ => pve.is_running(&vm.host, vm.vmid).await.ok()?,
        };
        Some((node.name.clone(), runs))
    });
    let runs = join_all(asked).await.into_iter().flatten().collect();
    Power { runs, maintenance, unresponsive: None }
}
