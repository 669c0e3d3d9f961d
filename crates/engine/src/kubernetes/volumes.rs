//! Volumes that are attached to a node.
//!
//! A pod that is gone may still have its volume attached: the driver detaches it after the kubelet has unmounted it. A machine that goes
//! down meanwhile leaves an attachment that nothing releases for minutes, so a drain ends only with them.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::Kubernetes;
use crate::error::Result;
use crate::kubernetes_api::{Api, ListParams};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

impl Kubernetes {
    /// Waits until no volume is attached to a node but those of pods that stay there. Gives the names of the volumes that are left at the
    /// end of the time.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in that time, or refuses.
    pub async fn wait_for_detach(&self, node: &str, limit: Duration) -> Result<Vec<String>> {
        let began = self.clock.now();
        loop {
            let attached = self.persist(limit, || self.left_attached(node)).await?;
            let waited = self.clock.now().duration_since(began).unsigned_abs();
            if attached.is_empty() || waited >= limit {
                return Ok(attached);
            }
            self.clock.sleep(INTERVAL).await;
        }
    }

    /// The volumes that are attached to a node and that no pod there uses.
    async fn left_attached(&self, node: &str) -> Result<Vec<String>> {
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let all = ListParams::default();
        let found = self.ask("list volume attachments", attachments.list(&all)).await?;
        let here = found.items.into_iter().filter(|attachment| attachment.spec.node_name == node);
        let mut volumes: BTreeSet<String> =
            here.filter_map(|attachment| attachment.spec.source.persistent_volume_name).collect();
        if volumes.is_empty() {
            return Ok(vec![]);
        }
        for volume in self.volumes_in_use(node).await? {
            volumes.remove(&volume);
        }
        Ok(volumes.into_iter().collect())
    }

    /// The volumes of the pods on a node.
    async fn volumes_in_use(&self, node: &str) -> Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let found = self.ask(&format!("list the pods of node {node}"), pods.list(&here)).await?;
        let mut used = BTreeSet::new();
        for pod in found.items {
            let namespace = pod.metadata.namespace.unwrap_or_default();
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
            for volume in pod.spec.and_then(|spec| spec.volumes).unwrap_or_default() {
                let Some(claim) = volume.persistent_volume_claim.map(|source| source.claim_name) else {
                    continue;
                };
                let what = format!("read the volume claim {namespace}/{claim}");
                let found = self.ask_maybe(&what, claims.get(&claim)).await?;
                used.extend(found.and_then(|claim| claim.spec?.volume_name));
            }
        }
        Ok(used)
    }
}
