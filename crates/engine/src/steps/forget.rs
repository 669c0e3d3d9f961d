//! Deletes a node from Kubernetes, after its VM was stopped: a kubelet that still runs would register it again.

use model::gate::{Effect, Permit};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::steps::drain::{API_TIMEOUT, kubernetes, waiting};
use crate::steps::permit;

/// Deletes the Node object. One that is not there is as good.
pub(super) async fn run(context: &Context, permit: &Permit, node: &str, progress: &Progress) -> Result<Done> {
    permit::check(permit, node, Effect::Removal)?;
    let kubernetes = kubernetes(context)?;
    let say = waiting(context, progress);
    kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.delete_node(node)).await?;
    match kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.has_node(node)).await? {
        false => Ok(Done::default()),
        true => Err(Error::systems(format!("could not delete the Kubernetes node {node}")).hint(
            "its kubelet registered it again, or a finalizer keeps it; `kubectl get node -o yaml` shows which. Then run the command again",
        )),
    }
}
