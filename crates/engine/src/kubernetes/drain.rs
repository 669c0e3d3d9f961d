//! Emptying a node: evict what can go, respect budgets, wait until it is gone.
//!
//! Pods of daemon sets come back at once and static pods are not Kubernetes' to move, so both stay. A pod that nothing would
//! make again is never evicted unless the caller insists. A budget that does not allow an eviction is asked again until
//! the time is over; what then stays is named, with the budget's own words.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};

use super::Kubernetes;
use crate::error::{Error, Kind, Result};

/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(2);

/// How to empty a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long it may take.
    pub limit: Duration,
    /// How long each pod may take to stop; nothing for what it asks for itself.
    pub grace: Option<Duration>,
    /// Evict pods too that nothing makes again elsewhere.
    pub unmanaged: bool,
}

impl Default for Drain {
    fn default() -> Self {
        Self { limit: Duration::from_secs(300), grace: None, unmanaged: false }
    }
}

/// A pod that has to go, by namespace and name, with its uid: one of the same name that comes later is another.
type Waiting = BTreeMap<(String, String), String>;

impl Kubernetes {
    /// Cordons a node and empties it; returns the names of the pods that were moved away.
    ///
    /// # Errors
    ///
    /// [`Kind::Refused`] when a pod would be lost for good; [`Kind::World`] when pods are left at the end of the time,
    /// with the reason of each. The node stays cordoned then.
    pub async fn drain(&self, node: &str, how: &Drain) -> Result<Vec<String>> {
        self.cordon(node, true).await?;
        let attempt = || format!("node {node} could not be emptied");
        let mut waiting = self.pods_to_move(node, how).await?;
        let names: Vec<String> =
            waiting.keys().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        let mut reasons = BTreeMap::new();
        let work = async {
            while !waiting.is_empty() {
                for (pod, uid) in &waiting {
                    if let Some(reason) = self.evict(pod, uid, how.grace).await? {
                        reasons.insert(pod.clone(), reason);
                    }
                }
                self.clock.sleep(PAUSE).await;
                let left = self.pods_to_move(node, how).await?;
                waiting.retain(|pod, uid| left.get(pod) == Some(uid));
                reasons.retain(|pod, _| waiting.contains_key(pod));
            }
            Ok(())
        };
        match self.clock.timeout(how.limit, work).await {
            Ok(outcome) => outcome.map(|()| names),
            Err(_) => {
                let left = waiting.keys().map(|pod| {
                    let reason = reasons.get(pod).map_or("it does not stop", String::as_str);
                    format!("{}/{} ({reason})", pod.0, pod.1)
                });
                let left: Vec<String> = left.collect();
                let seconds = how.limit.as_secs();
                Err(Error::world(format!("{} within {seconds} s: {}", attempt(), left.join(", "))).remedy(
                    "make room for these pods elsewhere or loosen their budgets; the node stays cordoned",
                ))
            }
        }
    }

    /// The pods on a node that have to go.
    async fn pods_to_move(&self, node: &str, how: &Drain) -> Result<Waiting> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let found = self.ask(&format!("list the pods of node {node}"), pods.list(&here)).await?;
        let (mut waiting, mut lost) = (Waiting::new(), vec![]);
        for pod in found.items {
            let name = (
                pod.metadata.namespace.clone().unwrap_or_default(),
                pod.metadata.name.clone().unwrap_or_default(),
            );
            match fate(&pod) {
                Fate::Stays => continue,
                Fate::Lost if !how.unmanaged => lost.push(format!("{}/{}", name.0, name.1)),
                _ => {}
            }
            waiting.insert(name, pod.metadata.uid.unwrap_or_default());
        }
        if lost.is_empty() {
            return Ok(waiting);
        }
        Err(Error::new(
            Kind::Refused,
            format!(
                "node {node} was not emptied, because nothing would make these pods again: {}",
                lost.join(", ")
            ),
        )
        .remedy("delete them yourself if they are not needed"))
    }

    /// Asks for one eviction; returns why it was not granted.
    async fn evict(
        &self,
        (namespace, name): &(String, String),
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<Option<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // Written by hand: kube-rs misspells the options, and a server passes over what it does not know.
        let eviction = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": grace.map(|grace| grace.as_secs()), "preconditions": {"uid": uid}},
        });
        let params = PostParams::default();
        let call = async {
            match pods.create_subresource::<_, serde_json::Value>("eviction", name, &params, &eviction).await
            {
                Ok(_) => Ok(None),
                Err(kube::Error::Api(status)) => match status.code {
                    // Gone already, or another one has its name by now.
                    404 | 409 => Ok(None),
                    429 => {
                        let causes = status
                            .details
                            .as_ref()
                            .map(|details| details.causes.as_slice())
                            .unwrap_or_default();
                        Ok(Some(causes.first().map_or(status.message.clone(), |cause| cause.message.clone())))
                    }
                    _ => Err(kube::Error::Api(status)),
                },
                Err(error) => Err(error),
            }
        };
        self.ask(&format!("evict pod {namespace}/{name}"), call).await
    }
}

/// What draining means for a pod.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It stays where it is.
    Stays,
    /// It is made again elsewhere.
    Moves,
    /// Nothing makes it again.
    Lost,
}

fn fate(pod: &Pod) -> Fate {
    let metadata = &pod.metadata;
    let mirrored =
        metadata.annotations.as_ref().is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"));
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match controller {
        _ if mirrored => Fate::Stays,
        Some(owner) if owner.kind == "DaemonSet" => Fate::Stays,
        Some(_) => Fate::Moves,
        None if ["Succeeded", "Failed"].contains(&phase) || metadata.deletion_timestamp.is_some() => {
            Fate::Moves
        }
        None => Fate::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(metadata: serde_json::Value, phase: &str) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn only_what_is_made_again_is_moved() {
        let owned = |kind: &str| serde_json::json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "1", "controller": true}]});
        assert_eq!(fate(&pod(owned("ReplicaSet"), "Running")), Fate::Moves);
        assert_eq!(fate(&pod(owned("DaemonSet"), "Running")), Fate::Stays);
        let mirror = serde_json::json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
        assert_eq!(fate(&pod(mirror, "Running")), Fate::Stays);
        assert_eq!(fate(&pod(serde_json::json!({}), "Running")), Fate::Lost);
        assert_eq!(fate(&pod(serde_json::json!({}), "Succeeded")), Fate::Moves);
    }
}
