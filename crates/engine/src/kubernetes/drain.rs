//! Draining a node: evict what can go, respect budgets, wait until it is gone.
//!
//! Pods of daemon sets come back at once and static pods are not Kubernetes' to move, so both stay. A pod that nothing would
//! make again, and one whose data goes with it (`emptyDir`), is never evicted unless the caller allows it. A budget that does not
//! allow an eviction is asked again until the time is over, and so is a server that fails; what then stays is named, with the reason.
//!
//! Who cordoned a node is written on it, so that a drain that died is continued, a drain that failed takes its own cordon back, and
//! a node that a person cordoned stays so.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::Kubernetes;
use crate::error::{Error, Kind, Result};
use crate::kubernetes_api::{self as api, Api, ListParams, Patch, PatchParams, PostParams, Status};

/// Between two rounds.
const INTERVAL: Duration = Duration::from_secs(2);
/// For taking our cordon back when a drain failed.
const TO_RELEASE: Duration = Duration::from_secs(60);
/// The code of a drain that pods or their budgets do not allow.
const BLOCKED: &str = "drain-blocked";
/// Says on a node that Talosmith cordoned it, and why.
pub const CORDONED: &str = "talosmith.dev/cordoned";
/// Says on a node with which command a person cordoned it, and who.
pub const CORDONED_WITH: &str = "talosmith.dev/cordoned-with";

/// How to drain a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long it may take.
    pub limit: Duration,
    /// How long each pod may take to stop; nothing for what it asks for itself.
    pub grace: Option<Duration>,
    /// Evict pods too that nothing makes again elsewhere.
    pub unmanaged: bool,
    /// Evict pods too whose `emptyDir` volumes are deleted with them.
    pub empty_dir: bool,
}

impl Default for Drain {
    fn default() -> Self {
        Self { limit: Duration::from_secs(300), grace: None, unmanaged: false, empty_dir: false }
    }
}

/// Pods that have to go, by namespace and name.
type Waiting = BTreeMap<(String, String), Leaving>;

/// A pod that has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Leaving {
    /// One of the same name that comes later is another.
    uid: String,
    /// What makes it again elsewhere, such as `ReplicaSet web-5d9c`.
    owner: Option<String>,
}

impl Kubernetes {
    /// Cordons a node and drains it; returns the names of the pods that were moved away. `why` is written on the node.
    ///
    /// # Errors
    ///
    /// [`Kind::Refused`] when a pod or its data would be lost for good; [`Kind::Systems`] when pods are left at the end of the time,
    /// each with its owner and the reason, such as a budget. The node takes pods again then, unless it was cordoned before.
    pub async fn drain(&self, node: &str, how: &Drain, why: &str) -> Result<Vec<String>> {
        // What is refused is refused before anything is touched.
        self.persist(how.limit, || self.pods_to_move(node, how)).await?;
        let ours = self.persist(how.limit, || self.hold(node, why)).await?;
        match self.evict_all(node, how).await {
            Ok(moved) => Ok(moved),
            Err(error) if !ours => Err(error),
            // Taken back, or at least said: the failure itself is what the caller must hear of.
            Err(error) => match self.persist(TO_RELEASE, || self.release(node)).await {
                Ok(_) => Err(error),
                Err(_) => Err(error.hint(format!(
                    "make room or loosen the budgets; `kubectl uncordon {node}` lets pods come again"
                ))),
            },
        }
    }

    /// Asks again for as long as there is no answer: an API server that goes away, or the VIP that moves, takes seconds to a minute.
    pub(crate) async fn persist<T, F: Future<Output = Result<T>>>(
        &self,
        limit: Duration,
        call: impl Fn() -> F,
    ) -> Result<T> {
        self.persist_and_say(limit, |_| {}, call).await
    }

    /// The same. `say` gets what Talosmith waits for, and why, each time that there was no answer.
    pub(crate) async fn persist_and_say<T, F: Future<Output = Result<T>>>(
        &self,
        limit: Duration,
        say: impl Fn(String),
        call: impl Fn() -> F,
    ) -> Result<T> {
        let began = self.clock.now();
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let waited = self.clock.now().duration_since(began).unsigned_abs();
            if error.kind() != Kind::Systems || is_refusal(&error) || waited >= limit {
                return Err(error);
            }
            let why = error.causes().pop().unwrap_or_default();
            let (endpoint, seconds) = (&self.endpoint, limit.as_secs());
            say(format!("waiting for the Kubernetes API at {endpoint} (timeout {seconds} s): {why}"));
            self.clock.sleep(INTERVAL).await;
        }
    }

    /// Takes the cordon of a drain back. Says whether there was one; a node that others cordoned stays so.
    ///
    /// # Errors
    ///
    /// When there is no such node, or Kubernetes does not answer in time.
    pub async fn release(&self, node: &str) -> Result<bool> {
        match self.is_held(node).await? {
            (true, true) => {}
            // A person uncordoned it. What is left of our cordon would make the next one of a person look like ours.
            (false, true) => {
                let patch = serde_json::json!({"metadata": {"annotations": {CORDONED: null}}});
                return self.patch_node(node, "clear the cordon mark of", &patch).await.map(|()| false);
            }
            (_, false) => return Ok(false),
        }
        let patch = serde_json::json!({"metadata": {"annotations": {CORDONED: null}}, "spec": {"unschedulable": null}});
        self.patch_node(node, "uncordon", &patch).await.map(|()| true)
    }

    /// Keeps new pods off a node, or lets them come again, in the name of a person: without our mark, so that nothing but a person
    /// takes it back. `with` is the command that cordons it; without one it is uncordoned. Says whether that changed something for pods.
    ///
    /// # Errors
    ///
    /// When there is no such node, or Kubernetes does not answer in time.
    pub async fn cordon(&self, node: &str, with: Option<&str>) -> Result<bool> {
        let on = with.is_some();
        let (cordoned, marked) = self.is_held(node).await?;
        if cordoned == on && !marked {
            return Ok(false);
        }
        let unschedulable = if on { Some(true) } else { None };
        let annotations = serde_json::json!({CORDONED: null, CORDONED_WITH: with});
        let patch = serde_json::json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": unschedulable}});
        self.patch_node(node, if on { "cordon" } else { "uncordon" }, &patch).await?;
        Ok(cordoned != on)
    }

    /// Cordons a node in our name. Says whether the cordon is ours: a cordon of others stays theirs.
    pub(crate) async fn hold(&self, node: &str, why: &str) -> Result<bool> {
        let (cordoned, marked) = self.is_held(node).await?;
        if cordoned {
            return Ok(marked);
        }
        let patch = serde_json::json!({"metadata": {"annotations": {CORDONED: why}}, "spec": {"unschedulable": true}});
        self.patch_node(node, "cordon", &patch).await.map(|()| true)
    }

    /// Whether a node is cordoned, and whether it has our mark.
    async fn is_held(&self, node: &str) -> Result<(bool, bool)> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = self.ask(&format!("read node {node}"), nodes.get(node)).await?;
        let cordoned = found.spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
        let ours = found.metadata.annotations.is_some_and(|annotations| annotations.contains_key(CORDONED));
        Ok((cordoned, ours))
    }

    async fn patch_node(&self, node: &str, verb: &str, patch: &serde_json::Value) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.ask(&format!("{verb} node {node}"), nodes.patch(node, &params, &patch)).await.map(drop)
    }

    /// Evicts round by round, until nothing is left that has to go.
    async fn evict_all(&self, node: &str, how: &Drain) -> Result<Vec<String>> {
        let mut waiting = self.pods_to_move(node, how).await?;
        let mut moved: Vec<(String, String)> = waiting.keys().cloned().collect();
        let mut reasons = BTreeMap::new();
        let work = async {
            while !waiting.is_empty() {
                for (pod, leaving) in &waiting {
                    let reason = match self.evict(pod, &leaving.uid, how.grace).await {
                        Ok(reason) => reason,
                        Err(error) if is_refusal(&error) => return Err(error),
                        // There was no answer. The next round finds out whether it was evicted.
                        Err(error) => error.causes().pop(),
                    };
                    match reason {
                        Some(reason) => drop(reasons.insert(pod.clone(), reason)),
                        // Granted: what was against it before is no reason any more.
                        None => drop(reasons.remove(pod)),
                    }
                }
                self.clock.sleep(INTERVAL).await;
                // Evicted pods would come back to a node that takes pods again.
                if let Ok((false, _)) = self.is_held(node).await {
                    return Err(Error::new(
                        Kind::Refused,
                        format!("node {node} was not drained, because it was uncordoned meanwhile"),
                    )
                    .coded(BLOCKED)
                    .hint("a person or another program uncordoned it; run the command again when it may be drained"));
                }
                // A pod that came meanwhile has to go, too. A list that was not had is asked for in the next round.
                match self.pods_to_move(node, how).await {
                    Ok(left) => waiting = left,
                    Err(error) if error.kind() == Kind::Refused => return Err(error),
                    Err(_) => continue,
                }
                moved.extend(waiting.keys().filter(|pod| !moved.contains(pod)).cloned().collect::<Vec<_>>());
                reasons.retain(|pod, _| waiting.contains_key(pod));
            }
            Ok(())
        };
        match self.clock.timeout(how.limit, work).await {
            Ok(outcome) => outcome
                .map(|()| moved.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect()),
            Err(_) => {
                let left = waiting.iter().map(|(pod, leaving)| {
                    let reason = reasons.get(pod).map_or("it does not stop", String::as_str);
                    let owner =
                        leaving.owner.as_ref().map_or_else(String::new, |owner| format!(" of {owner}"));
                    format!("{}/{}{owner} ({reason})", pod.0, pod.1)
                });
                let left: Vec<String> = left.collect();
                let seconds = how.limit.as_secs();
                Err(Error::systems(format!(
                    "node {node} could not be drained within {seconds} s: {}",
                    left.join(", ")
                ))
                .coded(BLOCKED)
                .hint(
                    "make room for these pods elsewhere or loosen their budgets; then run the command again",
                ))
            }
        }
    }

    /// The pods on a node that have to go.
    async fn pods_to_move(&self, node: &str, how: &Drain) -> Result<Waiting> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let found = self.ask(&format!("list the pods of node {node}"), pods.list(&here)).await?;
        let (mut waiting, mut lost, mut data) = (Waiting::new(), vec![], vec![]);
        for pod in found.items {
            let name = (
                pod.metadata.namespace.clone().unwrap_or_default(),
                pod.metadata.name.clone().unwrap_or_default(),
            );
            let (fate, says) = (fate(&pod), format!("{}/{}", name.0, name.1));
            match fate {
                Fate::Stays => continue,
                Fate::Lost if !how.unmanaged => lost.push(says),
                Fate::Lost | Fate::Moves if keeps_data(&pod) && !how.empty_dir => data.push(says),
                Fate::Lost | Fate::Moves => {}
            }
            let owner = controller(&pod).map(|owner| format!("{} {}", owner.kind, owner.name));
            waiting.insert(name, Leaving { uid: pod.metadata.uid.unwrap_or_default(), owner });
        }
        let (why, hint) = match (lost.is_empty(), data.is_empty()) {
            (true, true) => return Ok(waiting),
            (false, _) => (
                format!("no controller would recreate these pods: {}", lost.join(", ")),
                "delete them yourself if they are not needed, or allow it: `changes: { drain_deletes: [unmanaged-pods] }`",
            ),
            (true, false) => (
                format!(
                    "these pods keep data in `emptyDir` volumes, which is deleted with them: {}",
                    data.join(", ")
                ),
                "allow it where that data is of no further use: `changes: { drain_deletes: [empty-dir] }`; or move it elsewhere first",
            ),
        };
        Err(Error::new(Kind::Refused, format!("node {node} was not drained, because {why}")).hint(hint))
    }

    /// Pods on a node that no controller recreates, as `namespace/name`.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub(crate) async fn unmanaged_pods(&self, node: &str) -> Result<Vec<String>> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let found = self.ask(&format!("list the pods of node {node}"), pods.list(&here)).await?;
        let lost = found.items.into_iter().filter(|pod| fate(pod) == Fate::Lost).map(|pod| {
            let (namespace, name) = (pod.metadata.namespace, pod.metadata.name);
            format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
        });
        Ok(lost.collect())
    }

    /// Asks for one eviction; returns why it was not granted.
    async fn evict(
        &self,
        (namespace, name): &(String, String),
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<Option<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let eviction = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": grace.map(|grace| grace.as_secs()), "preconditions": {"uid": uid}},
        });
        let params = PostParams::default();
        let call = async {
            match pods.create_subresource::<serde_json::Value>("eviction", name, &params, &eviction).await {
                Ok(_) => Ok(None),
                Err(api::Error::Api(status)) => not_evicted(status).map_err(api::Error::Api),
                Err(error) => Err(error),
            }
        };
        self.ask(&format!("evict pod {namespace}/{name}"), call).await
    }
}

/// What becomes of an eviction that the server did not make: nothing where there is no need for it any more, or the reason why it is tried
/// again.
fn not_evicted(status: Box<Status>) -> std::result::Result<Option<String>, Box<Status>> {
    match status.code {
        // Gone already, or another one has its name by now.
        404 | 409 => Ok(None),
        429 => {
            let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
            Ok(Some(causes.first().map_or(status.message.clone(), |cause| cause.message.clone())))
        }
        // A server that fails now may not fail in the next round.
        500.. => Ok(Some(format!("the server failed: {}", status.message))),
        _ => Err(status),
    }
}

/// Whether Kubernetes answered, and will not answer otherwise in a moment.
fn is_refusal(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(api::Error::Api(status)) = cause.downcast_ref::<api::Error>() {
            return status.code < 500 && status.code != 429;
        }
        source = cause.source();
    }
    false
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

/// What makes a pod again.
fn controller(pod: &Pod) -> Option<&OwnerReference> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

fn fate(pod: &Pod) -> Fate {
    let metadata = &pod.metadata;
    let mirrored =
        metadata.annotations.as_ref().is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match controller(pod) {
        _ if mirrored => Fate::Stays,
        Some(owner) if owner.kind == "DaemonSet" => Fate::Stays,
        Some(_) => Fate::Moves,
        None if ["Succeeded", "Failed"].contains(&phase) || metadata.deletion_timestamp.is_some() => {
            Fate::Moves
        }
        None => Fate::Lost,
    }
}

/// Whether a pod that still runs has data on the node that cannot be brought back. Memory is not data.
fn keeps_data(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let on_disk = |volume: &k8s_openapi::api::core::v1::Volume| {
        volume.empty_dir.as_ref().is_some_and(|source| source.medium.as_deref() != Some("Memory"))
    };
    !["Succeeded", "Failed"].contains(&phase) && volumes.iter().any(on_disk)
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

    #[test]
    fn by_reading_6_a_server_that_fails_is_asked_again() {
        let answer =
            |code: u16| not_evicted(Box::new(Status { code, message: "why".into(), ..Status::default() }));
        assert_eq!(answer(503), Ok(Some("the server failed: why".to_owned())));
        assert_eq!(answer(429), Ok(Some("why".to_owned())));
        assert_eq!(answer(404), Ok(None));
        assert!(answer(403).is_err(), "what is refused stays refused");
    }

    #[test]
    fn by_reading_6_data_of_a_pod_is_seen() {
        let with = |volume: serde_json::Value, phase: &str| {
            serde_json::from_value::<Pod>(serde_json::json!({
                "metadata": {}, "spec": {"containers": [], "volumes": [volume]}, "status": {"phase": phase},
            }))
            .unwrap()
        };
        assert!(keeps_data(&with(serde_json::json!({"name": "a", "emptyDir": {}}), "Running")));
        assert!(!keeps_data(&with(
            serde_json::json!({"name": "a", "emptyDir": {"medium": "Memory"}}),
            "Running"
        )));
        assert!(!keeps_data(&with(serde_json::json!({"name": "a", "emptyDir": {}}), "Succeeded")));
        assert!(!keeps_data(&with(serde_json::json!({"name": "a", "configMap": {}}), "Running")));
    }
}
