//! What Talos applies once Kubernetes answers: the file's manifests, charts as jobs, the hand-over to GitOps, and what
//! graphics cards need.
//!
//! A chart is installed inside the cluster by a job that runs `helm upgrade --install` once, on a control plane and on the
//! host's own network, because before the CNI plugin there is no other. Its name ends with a hash of what it installs: Talos
//! adds manifests that are missing and changes none, so another version or other values are another job.

mod handover;

use std::collections::{BTreeMap, BTreeSet};

use model::attachments::Attachments;
use model::blueprint::Blueprint;
use model::spec::{Chart, CniName, Oidc};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use talos::config::{self, ClusterSettings};

/// The job's program, where the file names no other.
const HELM: &str = "docker.io/alpine/helm:3.17.3";

/// Cilium, where the file names no version. It does not change when Talosmith does.
const CILIUM: &str = "1.19.4";

/// Where each machine finds the Kubernetes API without a CNI plugin.
const LOCAL_API: (&str, &str) = ("localhost", "7445");

/// What all nodes of a cluster share.
pub(super) fn settings(blueprint: &Blueprint, attachments: &Attachments, nvidia: bool) -> ClusterSettings {
    let (options, manifests) = (&blueprint.options, &blueprint.options.manifests);
    let mut inline: BTreeMap<String, String> = manifests.inline.clone();
    for file in &manifests.files {
        if let Some(text) = attachments.get(file) {
            inline.insert(free_name(&inline, &slug(file)), text.clone());
        }
    }
    let charts = charts(blueprint, attachments);
    if !charts.is_empty() {
        inline.insert(free_name(&inline, "helm-install"), helm_rights());
    }
    let image = manifests.helm_image.as_deref().unwrap_or(HELM);
    for (release, chart) in &charts {
        inline.insert(free_name(&inline, &format!("helm-{release}")), helm_job(release, chart, image));
    }
    if let Some(objects) = handover::source(blueprint) {
        inline.insert(free_name(&inline, "gitops"), yaml(&objects));
    }
    if nvidia {
        let class = json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": { "name": "nvidia" }, "handler": "nvidia",
        });
        inline.insert(free_name(&inline, "runtime-class-nvidia"), yaml(&[class]));
    }
    ClusterSettings {
        oidc: options.kubernetes.oidc.as_ref().map(oidc),
        external_cloud_provider: manifests.proxmox_ccm.is_some(),
        inline_manifests: inline,
        extra_manifests: manifests.urls.clone(),
    }
}

/// Every chart that should be installed, by release.
fn charts(blueprint: &Blueprint, attachments: &Attachments) -> BTreeMap<String, Chart> {
    let mut charts: BTreeMap<String, Chart> = blueprint.options.manifests.helm.clone();
    charts.extend(cilium(blueprint, attachments).map(|chart| ("cilium".to_owned(), chart)));
    charts.extend(handover::charts(blueprint));
    charts
}

/// Every address from which machines and their pods fetch a document without a registry: manifests, and what repositories of
/// charts list.
pub(crate) fn addresses(blueprint: &Blueprint) -> BTreeSet<String> {
    let options = &blueprint.options;
    let repositories = charts(blueprint, &Attachments::default()).into_values().map(|chart| chart.repository);
    let lists = repositories
        .filter(|repository| !repository.starts_with("oci://"))
        .map(|repository| format!("{}/index.yaml", repository.trim_end_matches('/')));
    let network = options.kubernetes.cni.details();
    let network = network.urls.into_iter().filter(|_| network.name == CniName::Custom);
    options.manifests.urls.iter().cloned().chain(network).chain(lists).collect()
}

fn oidc(oidc: &Oidc) -> config::Oidc {
    config::Oidc {
        issuer: oidc.issuer.clone(),
        client_id: oidc.client.clone(),
        username_claim: oidc.username_claim.clone(),
        username_prefix: oidc.username_prefix.clone(),
        groups_claim: oidc.groups_claim.clone(),
        groups_prefix: oidc.groups_prefix.clone(),
    }
}

/// A file's name as the name of a manifest.
fn slug(file: &str) -> String {
    let stem = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".yml")).unwrap_or(file);
    let kept = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    kept.collect::<String>().split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The name, or the first that is free with a number behind it.
fn free_name(taken: &BTreeMap<String, String>, name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    [name.to_owned()].into_iter().chain(numbered).find(|name| !taken.contains_key(name)).unwrap_or_default()
}

/// Cilium's chart with what Talos needs of it; what the file says wins.
fn cilium(blueprint: &Blueprint, attachments: &Attachments) -> Option<Chart> {
    let kubernetes = &blueprint.options.kubernetes;
    let details = kubernetes.cni.details();
    if details.name != CniName::Cilium {
        return None;
    }
    let mut values = json!({
        "ipam": { "mode": "kubernetes" },
        "kubeProxyReplacement": !kubernetes.kube_proxy,
        // Talos lets no process have these rights all together, so each is named.
        "securityContext": { "capabilities": {
            "ciliumAgent": ["CHOWN", "KILL", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "SYS_ADMIN", "SYS_RESOURCE",
                "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"],
            "cleanCiliumState": ["NET_ADMIN", "SYS_ADMIN", "SYS_RESOURCE"],
        } },
        "cgroup": { "autoMount": { "enabled": false }, "hostRoot": "/sys/fs/cgroup" },
    });
    if !kubernetes.kube_proxy {
        merge(&mut values, json!({ "k8sServiceHost": LOCAL_API.0, "k8sServicePort": LOCAL_API.1 }));
    }
    let file = details.values_file.as_ref().and_then(|file| attachments.get(file));
    if let Some(more) = file.and_then(|text| serde_saphyr::from_str::<Value>(text).ok()) {
        merge(&mut values, more);
    }
    merge(&mut values, Value::Object(details.values));
    Some(Chart {
        repository: "https://helm.cilium.io".to_owned(),
        chart: None,
        version: details.version.unwrap_or_else(|| CILIUM.to_owned()),
        namespace: Some("kube-system".to_owned()),
        values: match values {
            Value::Object(values) => values,
            _ => Map::new(),
        },
    })
}

/// Key by key; anything but a mapping takes the place of what was there.
fn merge(left: &mut Value, right: Value) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in right {
                merge(left.entry(key).or_insert(Value::Null), value);
            }
        }
        (left, right) => *left = right,
    }
}

/// Who the jobs act as.
fn helm_rights() -> String {
    let subject = json!({ "kind": "ServiceAccount", "name": "helm-install", "namespace": "kube-system" });
    yaml(&[
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "helm-install", "namespace": "kube-system" },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "helm-install" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [subject],
        }),
    ])
}

fn helm_job(release: &str, chart: &Chart, image: &str) -> String {
    let name = chart.chart.as_deref().unwrap_or(release);
    let namespace = chart.namespace.as_deref().unwrap_or(release);
    let mut arguments: Vec<String> = ["upgrade", "--install", release].map(str::to_owned).to_vec();
    match chart.repository.starts_with("oci://") {
        true => arguments.push(format!("{}/{name}", chart.repository.trim_end_matches('/'))),
        false => arguments.extend([name.to_owned(), "--repo".to_owned(), chart.repository.clone()]),
    }
    let version = ["--version", &chart.version, "--namespace", namespace, "--create-namespace"];
    arguments.extend(version.map(str::to_owned));
    arguments.extend(["--values", "/values/values.yaml"].map(str::to_owned));
    let values = yaml(&[Value::Object(chart.values.clone())]);
    let hash = hex::encode(Sha256::digest(format!("{image} {arguments:?}\n{values}")));
    let title = format!("helm-{}-{}", shortened(release), hash.get(..8).unwrap_or_default());
    let metadata = json!({ "name": title, "namespace": "kube-system" });
    let pod = json!({
        "serviceAccountName": "helm-install",
        "restartPolicy": "OnFailure",
        "hostNetwork": true,
        "nodeSelector": { "node-role.kubernetes.io/control-plane": "" },
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{
            "name": "helm",
            "image": image,
            // What it said before it failed is then found in the pod's status.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "command": ["helm"],
            "args": arguments,
            "env": [
                { "name": "KUBERNETES_SERVICE_HOST", "value": LOCAL_API.0 },
                { "name": "KUBERNETES_SERVICE_PORT", "value": LOCAL_API.1 },
                { "name": "HOME", "value": "/tmp" },
            ],
            "volumeMounts": [{ "name": "values", "mountPath": "/values" }],
        }],
        "volumes": [{ "name": "values", "configMap": { "name": title } }],
    });
    yaml(&[
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "values.yaml": values } }),
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": { "backoffLimit": 10, "template": { "spec": pod } },
        }),
    ])
}

/// A job's name has 63 characters at most, and more is put around this.
fn shortened(release: &str) -> &str {
    release.get(..40).unwrap_or(release).trim_end_matches('-')
}

/// Objects as one text. JSON is YAML too, and its writer leaves no choice in how a text is quoted.
fn yaml(objects: &[Value]) -> String {
    let texts = objects.iter().map(|object| serde_json::to_string_pretty(object).unwrap_or_default() + "\n");
    texts.collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_files_and_never_collide() {
        assert_eq!(slug("manifests/Name space.yaml"), "manifests-name-space");
        let taken = [("a".to_owned(), String::new()), ("a-2".to_owned(), String::new())].into();
        assert_eq!((free_name(&taken, "a"), free_name(&taken, "b")), ("a-3".to_owned(), "b".to_owned()));
    }

    #[test]
    fn other_values_are_another_job() {
        let chart = |values: Value| Chart {
            repository: "oci://charts.example/x".to_owned(),
            chart: Some("y".to_owned()),
            version: "1.2.3".to_owned(),
            namespace: None,
            values: values.as_object().cloned().unwrap_or_default(),
        };
        let (one, other) =
            (helm_job("z", &chart(json!({})), HELM), helm_job("z", &chart(json!({ "a": 1 })), HELM));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&one).unwrap();
        assert_eq!((&objects[0]["kind"], &objects[1]["kind"]), (&json!("ConfigMap"), &json!("Job")));
        let container = &objects[1]["spec"]["template"]["spec"]["containers"][0];
        let words: Vec<&str> =
            container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(
            words.join(" "),
            "upgrade --install z oci://charts.example/x/y --version 1.2.3 --namespace z --create-namespace --values /values/values.yaml"
        );
        let name =
            |text: &str| serde_saphyr::from_multiple::<Value>(text).unwrap()[1]["metadata"]["name"].clone();
        assert_ne!(name(&one), name(&other));
        assert!(name(&one).as_str().is_some_and(|name| name.starts_with("helm-z-") && name.len() == 15));
    }

    #[test]
    fn values_merge_key_by_key() {
        let mut values = json!({ "a": { "b": 1, "c": [1] }, "d": 2 });
        merge(&mut values, json!({ "a": { "c": [2], "e": null } }));
        assert_eq!(values, json!({ "a": { "b": 1, "c": [2], "e": null }, "d": 2 }));
    }
}
