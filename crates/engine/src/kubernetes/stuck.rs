//! Pods that do not come up, and what they say about it.
//!
//! A node that waits for its network waits for a pod. A program that only looks at the node waits until the timeout; one that looks
//! at the pod sees after a minute that its image cannot be pulled, or that its program ends again and again.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::Kubernetes;
use crate::error::Result;
use crate::kubernetes_api::{Api, ListParams};

/// Reasons for which a container waits that do not end by waiting a little.
const IN_VAIN: &[&str] = &[
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];
/// How much of a message is told.
const SHOWN: usize = 300;

/// Something that does not come up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// `pod` or `job`.
    pub kind: &'static str,
    /// The name of the pod.
    pub name: String,
    /// The node that it is on, if it is on one.
    pub node: Option<String>,
    /// Why, in Kubernetes' word and what was said with it.
    pub why: String,
    /// Whether there is no further attempt.
    pub given_up: bool,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.name, self.why)
    }
}

impl Kubernetes {
    /// What does not come up in a namespace: jobs that gave up first.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn stuck(&self, namespace: &str) -> Result<Vec<Stuck>> {
        let (all, pods) = (ListParams::default(), Api::<Pod>::namespaced(self.client.clone(), namespace));
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let jobs = self.ask("list jobs", jobs.list(&all)).await?;
        let pods = self.ask("list pods", pods.list(&all)).await?;
        Ok(jobs.items.iter().filter_map(job).chain(pods.items.iter().filter_map(pod)).collect())
    }
}

fn job(job: &Job) -> Option<Stuck> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let failed = conditions.iter().find(|c| c.type_ == "Failed" && c.status == "True")?;
    let (reason, message) = (failed.reason.as_deref(), failed.message.as_deref());
    let why = said(reason.unwrap_or("failed"), message);
    Some(Stuck { kind: "job", name: job.metadata.name.clone()?, node: None, why, given_up: true })
}

/// Why a pod does not come up.
pub(super) fn why(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = [&status.init_container_statuses, &status.container_statuses];
    containers.into_iter().flatten().flatten().find_map(waits_in_vain)
}

fn pod(pod: &Pod) -> Option<Stuck> {
    let why = why(pod)?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Some(Stuck { kind: "pod", name: pod.metadata.name.clone()?, node, why, given_up: false })
}

fn waits_in_vain(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| IN_VAIN.contains(reason))?;
    // What a program said last tells more than that it is started again.
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.and_then(|last| last.message.as_deref()).filter(|text| !text.trim().is_empty());
    Some(said(reason, last.or(waiting.message.as_deref())))
}

fn said(reason: &str, message: Option<&str>) -> String {
    match message.map(str::trim).filter(|message| !message.is_empty()) {
        None => reason.to_owned(),
        Some(message) => {
            let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{reason} ({})", line.chars().take(SHOWN).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod_with(state: Value, last: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "helm-cilium-1" },
            "status": { "containerStatuses": [{
                "name": "helm", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
                "state": state, "lastState": last,
            }] },
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_says_why_it_does_not_come_up() {
        let pull =
            json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image \"i\"" } });
        let seen = pod(&pod_with(pull, json!({}))).unwrap();
        assert_eq!(seen.to_string(), "pod helm-cilium-1: ImagePullBackOff (Back-off pulling image \"i\")");
        let loops =
            json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s restarting" } });
        let last = json!({ "terminated": { "exitCode": 1, "message": "Error: no\n such chart\n" } });
        let seen = pod(&pod_with(loops, last)).unwrap();
        assert_eq!(seen.why, "CrashLoopBackOff (Error: no such chart)", "the program's own words");
        assert_eq!(pod(&pod_with(json!({ "waiting": { "reason": "ContainerCreating" } }), json!({}))), None);
        assert_eq!(pod(&pod_with(json!({ "running": {} }), json!({}))), None);
    }

    #[test]
    fn a_job_that_gave_up_is_told() {
        let failed: Job = serde_json::from_value(json!({
            "metadata": { "name": "helm-cilium-1" },
            "status": { "conditions": [{ "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded" }] },
        }))
        .unwrap();
        let seen = job(&failed).unwrap();
        assert!(seen.given_up);
        assert_eq!(seen.to_string(), "job helm-cilium-1: BackoffLimitExceeded");
    }
}
