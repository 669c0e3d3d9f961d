//! The kinds that the API server knows, and the documents by which clients find them.

use serde_json::{Value, json};

/// One kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    short: &'static [&'static str],
}

const fn kind(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
) -> Kind {
    Kind { group, version: "v1", plural, kind, namespaced, short }
}

const KINDS: &[Kind] = &[
    kind("", "configmaps", "ConfigMap", true, &["cm"]),
    kind("", "endpoints", "Endpoints", true, &["ep"]),
    kind("", "events", "Event", true, &["ev"]),
    kind("", "namespaces", "Namespace", false, &["ns"]),
    kind("", "nodes", "Node", false, &["no"]),
    kind("", "persistentvolumeclaims", "PersistentVolumeClaim", true, &["pvc"]),
    kind("", "persistentvolumes", "PersistentVolume", false, &["pv"]),
    kind("", "pods", "Pod", true, &["po"]),
    kind("", "secrets", "Secret", true, &[]),
    kind("", "serviceaccounts", "ServiceAccount", true, &["sa"]),
    kind("", "services", "Service", true, &["svc"]),
    kind("apps", "daemonsets", "DaemonSet", true, &["ds"]),
    kind("apps", "deployments", "Deployment", true, &["deploy"]),
    kind("apps", "replicasets", "ReplicaSet", true, &["rs"]),
    kind("apps", "statefulsets", "StatefulSet", true, &["sts"]),
    kind("batch", "cronjobs", "CronJob", true, &["cj"]),
    kind("batch", "jobs", "Job", true, &[]),
    kind("coordination.k8s.io", "leases", "Lease", true, &[]),
    kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", true, &["pdb"]),
    kind("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", false, &[]),
    kind("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false, &[]),
    kind("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", true, &[]),
    kind("rbac.authorization.k8s.io", "roles", "Role", true, &[]),
    kind("storage.k8s.io", "storageclasses", "StorageClass", false, &["sc"]),
];

impl Kind {
    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        KINDS.iter().copied().find(|k| k.group == group && k.version == version && k.plural == plural)
    }

    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn resource(&self) -> Value {
        json!({
            "name": self.plural, "singularName": self.kind.to_lowercase(), "namespaced": self.namespaced,
            "kind": self.kind, "shortNames": self.short,
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        })
    }
}

/// `/api`.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`.
pub(super) fn groups() -> Value {
    let mut names: Vec<&str> = KINDS.iter().map(|k| k.group).filter(|g| !g.is_empty()).collect();
    names.dedup();
    let groups: Vec<Value> = names
        .into_iter()
        .map(|name| {
            let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
            json!({"name": name, "versions": [version], "preferredVersion": version})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/api/v1` and `/apis/<group>/<version>`; `None` when nobody serves it.
pub(super) fn resources(group: &str, version: &str) -> Option<Value> {
    let kinds: Vec<&Kind> = KINDS.iter().filter(|k| k.group == group && k.version == version).collect();
    let first = kinds.first()?;
    let resources: Vec<Value> = kinds.iter().map(|k| k.resource()).collect();
    let api_version = first.api_version();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}),
    )
}

/// `/version`.
pub(super) fn version(kubernetes: &str) -> Value {
    let mut parts = kubernetes.trim_start_matches('v').split('.');
    json!({
        "major": parts.next().unwrap_or_default(), "minor": parts.next().unwrap_or_default(),
        "gitVersion": kubernetes, "gitCommit": "0000000000000000000000000000000000000000", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26.8", "compiler": "gc", "platform": "linux/amd64",
    })
}
