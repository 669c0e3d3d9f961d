//! Drains a node before it goes down, and lets pods come to it again afterwards.
//!
//! The rules are those of kubectl: pods of DaemonSets and static pods stay, each pod has its own grace period, PodDisruptionBudgets are
//! respected, and a pod or data that nothing brings back is refused, unless the file (`changes.drain_deletes`) or, for a removal, the operator
//! allows to delete it. The node says who cordoned it and why. A drain that fails takes its cordon back; a cordon of a person is a person's.

use std::time::Duration;

use model::gate::{Effect, Permit};
use model::spec::DrainDeletes;
use model::step::Action;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::Result;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::drain::Drain;
use crate::steps::permit;

/// For so long volumes may take to be detached. Then the drain goes on: a driver that never detaches must not keep the cluster from being
/// maintained.
const DETACH: Duration = Duration::from_secs(120);
/// For taking our cordon back when a step failed.
const TO_RELEASE: Duration = Duration::from_secs(30);
/// For so long an API that does not answer is asked again.
pub(super) const API_TIMEOUT: Duration = Duration::from_secs(120);

/// Cordons a node, evicts its pods, and waits until their volumes are detached. A node that Kubernetes does not have has no pods.
pub(super) async fn run(context: &Context, permit: &Permit, node: &str, progress: &Progress) -> Result<Done> {
    permit::check(permit, node, Effect::Eviction)?;
    let kubernetes = kubernetes(context)?;
    let say = waiting(context, progress);
    if !kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.has_node(node)).await? {
        return Ok(Done::default());
    }
    let policy = context.snapshot.policy();
    // Who allows that the node is deleted with its data allows it for its pods and their data, too.
    let allowed = context.snapshot.allowed();
    let left_file = !context.snapshot.blueprint.nodes.contains_key(node);
    let deletes =
        permit.covers(node, Effect::Removal) && (allowed.node(node) || (allowed.removed && left_file));
    let may = |what: DrainDeletes| deletes || policy.drain_deletes.contains(&what);
    let how = Drain {
        limit: policy.drain_timeout,
        grace: None,
        unmanaged: may(DrainDeletes::UnmanagedPods),
        empty_dir: may(DrainDeletes::EmptyDir),
    };
    let why = cordon_reason(context, permit);
    progress.note("evicting its pods");
    kubernetes.drain(node, &how, &why).await?;
    progress.note("waiting for its volumes to be detached");
    let left = kubernetes.wait_for_detach(node, DETACH).await?;
    let warning = (!left.is_empty()).then(|| {
        let (volumes, seconds) = (left.join(", "), DETACH.as_secs());
        format!("volumes are still attached to {node} {seconds} s after its pods were evicted: {volumes}")
    });
    Ok(Done { warnings: warning.into_iter().collect() })
}

/// Cordons a dead node before its VM is stopped, so that a run that dies afterwards finds what was done to it. A node that Kubernetes does
/// not have says nothing.
pub(super) async fn mark(context: &Context, permit: &Permit, node: &str, progress: &Progress) -> Result<()> {
    permit::check(permit, node, Effect::Removal)?;
    let kubernetes = kubernetes(context)?;
    let say = waiting(context, progress);
    if kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.has_node(node)).await? {
        let why = cordon_reason(context, permit);
        kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.hold(node, &why)).await?;
    }
    Ok(())
}

/// What a node that Talosmith cordons says: which unit, and who runs it.
fn cordon_reason(context: &Context, permit: &Permit) -> String {
    format!("{} by {}", permit.request().unit, context.holder.operator.name)
}

/// Lets pods come to a node again, where Talosmith cordoned it.
pub(super) async fn uncordon(context: &Context, node: &str, progress: &Progress) -> Result<Done> {
    let kubernetes = kubernetes(context)?;
    let say = waiting(context, progress);
    if kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.has_node(node)).await? {
        kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.release(node)).await?;
    }
    Ok(Done::default())
}

/// A step behind the drain failed. A node whose machine was never asked to go down is as healthy as before, so pods may come to it again;
/// the next run drains it again. Should Kubernetes not answer, the node says who cordoned it.
pub(super) async fn after_failure(context: &Context, permit: &Permit, action: &Action) {
    let acts = matches!(
        action,
        Action::MoveLeadership { .. }
            | Action::InstallTalos { .. }
            | Action::UpgradeComponent { .. }
            | Action::Reconfigure { .. }
            | Action::RebootNode { .. }
            | Action::ShutdownNode { .. }
            | Action::PowerCycleVm { .. }
            | Action::MigrateVm { .. }
    );
    let Some(node) = action.node().filter(|_| acts && permit.request().effect == Effect::Absence) else {
        return;
    };
    if context.restarted().contains(node) || context.kubelets().contains(node) {
        return;
    }
    if let Ok(kubernetes) = kubernetes(context) {
        let _ = kubernetes.persist(TO_RELEASE, || kubernetes.release(node)).await;
    }
}

/// Cordons a node in the name of a person, who drains it where there is a permit for that.
pub(super) async fn cordon(
    context: &Context,
    permit: Option<&Permit>,
    node: &str,
    progress: &Progress,
) -> Result<Done> {
    let kubernetes = kubernetes(context)?;
    let say = waiting(context, progress);
    let command = permit.map_or("cordon", |permit| permit.request().unit.kind());
    let with = format!("{command} by {}", context.holder.operator.name);
    kubernetes
        .persist_and_say(API_TIMEOUT, say, || kubernetes.cordon(node, Some(&with)))
        .await
        .map(|_| Done::default())
}

/// Uncordons a node, no matter who cordoned it.
pub(super) async fn release(context: &Context, node: &str, progress: &Progress) -> Result<Done> {
    let kubernetes = kubernetes(context)?;
    let say = waiting(context, progress);
    kubernetes
        .persist_and_say(API_TIMEOUT, say, || kubernetes.cordon(node, None))
        .await
        .map(|_| Done::default())
}

/// Says what Talosmith waits for while the Kubernetes API does not answer.
pub(super) fn waiting<'a>(context: &'a Context, progress: &'a Progress) -> impl Fn(String) + Copy + 'a {
    let has_vip = context.snapshot.blueprint.vip.is_some();
    move |waits: String| {
        progress.note(match has_vip {
            true => format!(
                "{waits}; the VIP may be moving to another control plane node, which takes up to a minute"
            ),
            false => waits,
        });
    }
}

/// Kubernetes of the cluster.
pub(super) fn kubernetes(context: &Context) -> Result<Kubernetes> {
    let access = context.snapshot.access()?;
    Kubernetes::new(&context.systems, &context.snapshot.blueprint.endpoint, &access.kubernetes)
}
