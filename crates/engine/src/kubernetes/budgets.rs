//! PodDisruptionBudgets that would block a drain.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use model::names::NodeName;
use model::observed::BlockingBudget;

use super::Kubernetes;
use crate::error::Result;
use crate::kubernetes_api::{Api, ListParams, Selector};

impl Kubernetes {
    /// Budgets that allow no eviction now and cover pods that run, with the nodes of those pods.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn blocking_budgets(&self) -> Result<Vec<BlockingBudget>> {
        let budgets: Api<PodDisruptionBudget> = Api::all(self.client.clone());
        let list = self.ask("list PodDisruptionBudgets", budgets.list(&ListParams::default())).await?;
        let blocking = list.items.into_iter().filter(allows_none);
        let mut found = try_join_all(blocking.map(|budget| self.blocked_by(budget))).await?;
        found.retain(|budget| !budget.nodes.is_empty());
        found.sort();
        Ok(found)
    }

    async fn blocked_by(&self, budget: PodDisruptionBudget) -> Result<BlockingBudget> {
        let namespace = budget.metadata.namespace.unwrap_or_default();
        let name = budget.metadata.name.unwrap_or_default();
        let selector = budget.spec.and_then(|spec| spec.selector).unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let params = match Selector::try_from(selector) {
            Ok(selector) => ListParams::default().labels_from(&selector),
            // A selector that this program cannot write may cover every pod.
            Err(_) => ListParams::default(),
        };
        let list = self.ask(&format!("list the pods of {namespace}/{name}"), pods.list(&params)).await?;
        let nodes = list.items.into_iter().filter_map(node_of).map(NodeName::from).collect();
        Ok(BlockingBudget { namespace, name, nodes })
    }
}

/// Whether it covers pods and allows no eviction. One whose status is not known yet allows none.
fn allows_none(budget: &PodDisruptionBudget) -> bool {
    budget.status.as_ref().is_none_or(|status| status.disruptions_allowed <= 0 && status.expected_pods > 0)
}

/// The node of a pod that a budget protects. One that does not run yet, or any more, may always be evicted.
fn node_of(pod: Pod) -> Option<String> {
    let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
    let over = matches!(phase.as_str(), "Succeeded" | "Failed" | "Pending");
    pod.spec?.node_name.filter(|_| !over && pod.metadata.deletion_timestamp.is_none())
}
