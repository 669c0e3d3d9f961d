//! What makes pods: deployments, replica sets, daemon sets, stateful sets and jobs. And what every namespace is born with.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::defaults::{complete_pod_spec, letters, suffix};
use super::garbage::owners;
use super::nodes::condition;
use super::pods::is_ready;
use super::scheduler::Nodes;
use super::store::{Place, Store, second};

/// Pods by the id of what made them.
type Made = BTreeMap<String, Vec<Value>>;

pub(super) fn run(store: &mut Store, now: Timestamp) {
    furnish_namespaces(store, now);
    establish_definitions(store, now);
    for (deployment, _) in of_kind(store, "apps", "deployments", "replicasets") {
        run_deployment(store, deployment, now);
    }
    let nodes = Nodes::of(store);
    for (set, pods) in of_kind(store, "apps", "daemonsets", "pods") {
        run_daemon_set(store, set, &pods, &nodes, now);
    }
    for (set, pods) in of_kind(store, "apps", "replicasets", "pods") {
        run_replicas(store, "replicasets", set, &pods, now);
    }
    for (set, pods) in of_kind(store, "apps", "statefulsets", "pods") {
        run_replicas(store, "statefulsets", set, &pods, now);
    }
    for (job, pods) in of_kind(store, "batch", "jobs", "pods") {
        run_job(store, job, &pods, now);
    }
}

/// Finished jobs may ask to be removed after a time.
pub(super) fn next_due(store: &Store, now: Timestamp) -> Option<Timestamp> {
    store.list("batch", "jobs", None).into_iter().filter_map(expiry).filter(|at| *at > now).min()
}

fn expiry(job: &Value) -> Option<Timestamp> {
    let seconds = job.pointer("/spec/ttlSecondsAfterFinished")?.as_i64()?;
    let done: Timestamp = job.pointer("/status/completionTime")?.as_str()?.parse().ok()?;
    done.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Objects of a kind, each with what it made.
fn of_kind(store: &Store, group: &str, plural: &str, made: &str) -> Vec<(Value, Vec<Value>)> {
    let objects = store.list(group, plural, None);
    if objects.is_empty() {
        return vec![];
    }
    let mut by_owner = Made::new();
    let made_group = if made == "pods" { "" } else { "apps" };
    for (_, object) in store.entries(made_group, made, None) {
        let owner = owners(object).find(|owner| owner["controller"] == true);
        if let Some(uid) = owner.and_then(|owner| owner["uid"].as_str()) {
            by_owner.entry(uid.to_owned()).or_default().push(object.clone());
        }
    }
    objects
        .into_iter()
        .map(|object| {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            (object.clone(), by_owner.remove(uid).unwrap_or_default())
        })
        .collect()
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn ends(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn counted<'a>(pods: impl IntoIterator<Item = &'a Value>) -> i64 {
    i64::try_from(pods.into_iter().count()).unwrap_or(0)
}

fn owner(object: &Value, api_version: &str, kind: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": text(object, "name"), "uid": text(object, "uid"),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Makes a pod after the template of its owner.
fn make_pod(
    store: &mut Store,
    owned_by: &Value,
    references: Value,
    name: &str,
    node: Option<&str>,
    now: Timestamp,
) {
    let template = &owned_by["spec"]["template"];
    let mut spec = template["spec"].clone();
    complete_pod_spec(&mut spec);
    if let Some(node) = node {
        spec["nodeName"] = node.into();
    }
    let metadata = json!({
        "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
        "annotations": template.pointer("/metadata/annotations").cloned().unwrap_or(Value::Null),
        "generateName": format!("{}-", text(owned_by, "name")),
        "ownerReferences": references,
    });
    let mut pod =
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}});
    if node.is_some() {
        pod["status"]["conditions"] = json!([condition("PodScheduled", "True", "", "", None, now)]);
    }
    store.put(&Place::core("pods", text(owned_by, "namespace"), name), pod, now);
}

/// Ends a pod in the way a controller does, with the time that it asks for.
fn end_pod(store: &mut Store, pod: &Value, now: Timestamp) {
    let place = Place::core("pods", text(pod, "namespace"), text(pod, "name"));
    if pod.pointer("/spec/nodeName").is_none() {
        store.remove(&place);
        return;
    }
    let grace = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    let mut pod = pod.clone();
    let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    pod["metadata"]["deletionTimestamp"] = second(at).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    store.put(&place, pod, now);
}

fn write_status(
    store: &mut Store,
    group: &str,
    plural: &str,
    mut object: Value,
    mut status: Value,
    now: Timestamp,
) {
    status["observedGeneration"] = object["metadata"]["generation"].clone();
    object["status"] = status;
    let (namespace, name) = (text(&object, "namespace").to_owned(), text(&object, "name").to_owned());
    store.put(&Place { group, plural, namespace: &namespace, name: &name }, object, now);
}

fn run_deployment(store: &mut Store, deployment: Value, now: Timestamp) {
    if ends(&deployment) {
        return;
    }
    let (namespace, name) = (text(&deployment, "namespace"), text(&deployment, "name"));
    let template = &deployment["spec"]["template"];
    let hash = letters(&template.to_string(), 10);
    let newest = format!("{name}-{hash}");
    let place = Place { group: "apps", plural: "replicasets", namespace, name: &newest };
    let replicas = deployment.pointer("/spec/replicas").cloned().unwrap_or_else(|| 1.into());
    let mut set = store.get(&place).cloned().unwrap_or_else(|| {
        let mut template = template.clone();
        template["metadata"]["labels"]["pod-template-hash"] = hash.as_str().into();
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"]["pod-template-hash"] = hash.as_str().into();
        json!({
            "metadata": {
                "labels": template["metadata"]["labels"], "ownerReferences": owner(&deployment, "apps/v1", "Deployment"),
            },
            "spec": {"selector": selector, "template": template},
        })
    });
    set["spec"]["replicas"] = replicas.clone();
    let set = store.put(&place, set, now);
    let count = |set: &Value, key: &str| set["status"][key].as_i64().unwrap_or(0);
    let (made, ready) = (count(&set, "replicas"), count(&set, "readyReplicas"));
    let wanted = replicas.as_i64().unwrap_or(1);
    // The old ones go when the new ones stand.
    let uid = text(&deployment, "uid");
    let older: Vec<Value> = store
        .list("apps", "replicasets", Some(namespace))
        .into_iter()
        .filter(|s| {
            owners(s).any(|o| o["uid"] == uid) && text(s, "name") != newest && s["spec"]["replicas"] != 0
        })
        .cloned()
        .collect();
    let old_pods: i64 = older.iter().map(|s| count(s, "replicas")).sum();
    if ready >= wanted {
        for mut old in older {
            old["spec"]["replicas"] = 0.into();
            let name = text(&old, "name").to_owned();
            store.put(&Place { group: "apps", plural: "replicasets", namespace, name: &name }, old, now);
        }
    }
    let old = deployment.pointer("/status/conditions");
    let whole = ready >= wanted;
    let available = if whole {
        condition(
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            old,
            now,
        )
    } else {
        condition(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            old,
            now,
        )
    };
    let reason = if whole { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
    let message = format!(
        "ReplicaSet {newest:?} {}.",
        if whole { "has successfully progressed" } else { "is progressing" }
    );
    let progressing = condition("Progressing", "True", reason, &message, old, now);
    let status = json!({
        "replicas": made + old_pods, "updatedReplicas": made, "readyReplicas": ready, "availableReplicas": ready,
        "unavailableReplicas": (wanted - ready).max(0), "conditions": [available, progressing],
    });
    write_status(store, "apps", "deployments", deployment, status, now);
}

fn run_daemon_set(store: &mut Store, set: Value, pods: &[Value], nodes: &Nodes, now: Timestamp) {
    if ends(&set) {
        return;
    }
    let template = json!({"spec": set["spec"]["template"]["spec"]});
    let wanted = nodes.for_daemons(&template);
    let hash = letters(&set["spec"]["template"].to_string(), 10);
    let on =
        |pod: &Value| pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let current = |pod: &&Value| pod["metadata"]["labels"]["controller-revision-hash"] == hash.as_str();
    for pod in pods.iter().filter(|pod| !ends(pod)) {
        // One at a time would be gentler; no one can tell from outside.
        if !wanted.contains(&on(pod)) || !current(&pod) {
            end_pod(store, pod, now);
        }
    }
    for node in &wanted {
        if !pods.iter().any(|pod| on(pod) == *node) {
            let name = format!(
                "{}-{}",
                text(&set, "name"),
                suffix(&format!("{}/{node}/{hash}/{}", text(&set, "uid"), store.revision()))
            );
            let mut marked = set.clone();
            marked["spec"]["template"]["metadata"]["labels"]["controller-revision-hash"] =
                hash.as_str().into();
            make_pod(store, &marked, owner(&set, "apps/v1", "DaemonSet"), &name, Some(node), now);
        }
    }
    let live: Vec<&Value> = pods.iter().filter(|pod| !ends(pod) && wanted.contains(&on(pod))).collect();
    let ready = counted(live.iter().copied().filter(|pod| is_ready(pod)));
    let updated = counted(live.iter().copied().filter(current));
    let desired = i64::try_from(wanted.len()).unwrap_or(0);
    let mut status = json!({
        "currentNumberScheduled": live.len(), "desiredNumberScheduled": desired, "numberAvailable": ready,
        "numberReady": ready, "numberMisscheduled": 0, "updatedNumberScheduled": updated,
    });
    if ready < desired {
        status["numberUnavailable"] = (desired - ready).into();
    }
    write_status(store, "apps", "daemonsets", set, status, now);
}

/// Replica sets, whose pods have any name, and stateful sets, whose pods are numbered.
fn run_replicas(store: &mut Store, plural: &'static str, set: Value, pods: &[Value], now: Timestamp) {
    if ends(&set) {
        return;
    }
    let numbered = plural == "statefulsets";
    let kind = if numbered { "StatefulSet" } else { "ReplicaSet" };
    let wanted = set.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let over = |pod: &&Value| pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded";
    let live: Vec<&Value> = pods.iter().filter(|pod| !ends(pod) && !over(pod)).collect();
    let have = counted(live.iter().copied());
    for number in have..wanted {
        let name = if numbered {
            let free = (0..).map(|n| format!("{}-{n}", text(&set, "name")));
            let mut free =
                free.filter(|name| store.get(&Place::core("pods", text(&set, "namespace"), name)).is_none());
            free.next().unwrap_or_default()
        } else {
            let seed = format!("{}/{number}/{}", text(&set, "uid"), store.revision());
            format!("{}-{}", text(&set, "name"), suffix(&seed))
        };
        make_pod(store, &set, owner(&set, "apps/v1", kind), &name, None, now);
    }
    // The ones that are not ready go first, and of the others the last.
    let mut surplus = live.clone();
    surplus.sort_by_key(|pod| is_ready(pod));
    let excess = usize::try_from(have - wanted).unwrap_or(0);
    for pod in surplus.into_iter().take(excess) {
        end_pod(store, pod, now);
    }
    let ready = counted(live.iter().copied().filter(|pod| is_ready(pod)));
    let mut status = json!({"replicas": have, "readyReplicas": ready, "availableReplicas": ready});
    status[if numbered { "updatedReplicas" } else { "fullyLabeledReplicas" }] = have.into();
    if numbered {
        status["currentReplicas"] = have.into();
    }
    write_status(store, "apps", plural, set, status, now);
}

fn run_job(store: &mut Store, job: Value, pods: &[Value], now: Timestamp) {
    if expiry(&job).is_some_and(|at| at <= now) {
        let (namespace, name) = (text(&job, "namespace"), text(&job, "name"));
        store.remove(&Place { group: "batch", plural: "jobs", namespace, name });
        return;
    }
    let done = job["status"].get("completionTime").is_some();
    if ends(&job) || done || job["spec"]["suspend"] == true {
        return;
    }
    let number = |key: &str| job["spec"][key].as_i64().unwrap_or(1);
    let (completions, parallel) = (number("completions"), number("parallelism"));
    let succeeded = counted(pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded"));
    let active: Vec<&Value> = pods
        .iter()
        .filter(|pod| !ends(pod) && ["Pending", "Running"].iter().any(|p| pod["status"]["phase"] == *p))
        .collect();
    let have = counted(active.iter().copied());
    for index in have..parallel.min(completions - succeeded) {
        let seed = format!("{}/{index}/{}", text(&job, "uid"), store.revision());
        let name = format!("{}-{}", text(&job, "name"), suffix(&seed));
        make_pod(store, &job, owner(&job, "batch/v1", "Job"), &name, None, now);
    }
    let started = job["status"].get("startTime").cloned().unwrap_or_else(|| second(now).into());
    let ready = counted(active.iter().copied().filter(|pod| is_ready(pod)));
    let mut status = json!({
        "startTime": started, "active": have, "ready": ready, "succeeded": succeeded,
        "terminating": 0, "uncountedTerminatedPods": {},
    });
    if succeeded >= completions {
        let words = "Reached expected number of succeeded pods";
        let holds = |kind: &str| {
            let mut holds = condition(kind, "True", "CompletionsReached", words, None, now);
            holds["lastProbeTime"] = second(now).into();
            holds
        };
        status["conditions"] = json!([holds("SuccessCriteriaMet"), holds("Complete")]);
        status["completionTime"] = second(now).into();
        status["active"] = 0.into();
    }
    let (namespace, name) = (text(&job, "namespace").to_owned(), text(&job, "name").to_owned());
    let mut job = job;
    job["status"] = status;
    store.put(&Place { group: "batch", plural: "jobs", namespace: &namespace, name: &name }, job, now);
}

/// Every namespace has an account and knows the cluster's authority.
fn furnish_namespaces(store: &mut Store, now: Timestamp) {
    let names: Vec<String> = store
        .entries("", "namespaces", None)
        .filter(|(_, namespace)| !ends(namespace))
        .map(|(_, namespace)| text(namespace, "name").to_owned())
        .collect();
    for namespace in names {
        let account = Place::core("serviceaccounts", &namespace, "default");
        if store.get(&account).is_none() {
            store.put(&account, json!({}), now);
        }
        let authority = Place::core("configmaps", &namespace, "kube-root-ca.crt");
        if store.get(&authority).is_none() {
            store.put(&authority, json!({"data": {"ca.crt": ""}}), now);
        }
    }
}

/// A definition is served as soon as it is there.
fn establish_definitions(store: &mut Store, now: Timestamp) {
    let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
    let new: Vec<Value> =
        store.list(group, plural, None).into_iter().filter(|d| d.get("status").is_none()).cloned().collect();
    for mut definition in new {
        let holds =
            |kind: &str, reason: &str, message: &str| condition(kind, "True", reason, message, None, now);
        let stored = definition["spec"]["versions"].as_array().into_iter().flatten();
        let stored: Vec<Value> = stored.filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
        definition["status"] = json!({
            "acceptedNames": definition["spec"]["names"], "storedVersions": stored,
            "conditions": [
                holds("NamesAccepted", "NoConflicts", "no conflicts found"),
                holds("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
        });
        let name = text(&definition, "name").to_owned();
        store.put(&Place { group, plural, namespace: "", name: &name }, definition, now);
    }
}
