//! The kinds that the API server knows: a table, and beside it the kinds that custom resource definitions bring.

use std::borrow::Cow;

use serde_json::Value;

use super::store::Store;

type Text = Cow<'static, str>;

/// One kind of object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) plural: Text,
    pub(crate) kind: Text,
    pub(crate) singular: Text,
    pub(crate) namespaced: bool,
    pub(crate) short: Vec<Text>,
    pub(crate) categories: Vec<Text>,
    /// What can be asked of an object beside itself.
    pub(crate) subresources: Vec<Text>,
    /// Brought by a definition: it has no strategic patches.
    pub(crate) custom: bool,
}

/// A row of the table: group and version, plural, kind, whether it is namespaced, short names, subresources.
struct Row(&'static str, &'static str, &'static str, bool, &'static [&'static str], &'static [&'static str]);

const STATUS: &[&str] = &["status"];
const SCALED: &[&str] = &["status", "scale"];
const RBAC: &str = "rbac.authorization.k8s.io/v1";

const KINDS: &[Row] = &[
    Row("v1", "configmaps", "ConfigMap", true, &["cm"], &[]),
    Row("v1", "endpoints", "Endpoints", true, &["ep"], &[]),
    Row("v1", "events", "Event", true, &["ev"], &[]),
    Row("v1", "limitranges", "LimitRange", true, &["limits"], &[]),
    Row("v1", "namespaces", "Namespace", false, &["ns"], &["status", "finalize"]),
    Row("v1", "nodes", "Node", false, &["no"], STATUS),
    Row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, &["pvc"], STATUS),
    Row("v1", "persistentvolumes", "PersistentVolume", false, &["pv"], STATUS),
    Row("v1", "pods", "Pod", true, &["po"], &["status", "eviction", "log", "binding"]),
    Row("v1", "resourcequotas", "ResourceQuota", true, &["quota"], STATUS),
    Row("v1", "secrets", "Secret", true, &[], &[]),
    Row("v1", "serviceaccounts", "ServiceAccount", true, &["sa"], &[]),
    Row("v1", "services", "Service", true, &["svc"], STATUS),
    Row(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        false,
        &[],
        &[],
    ),
    Row(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        false,
        &[],
        &[],
    ),
    Row(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
        &["crd", "crds"],
        STATUS,
    ),
    Row("apiregistration.k8s.io/v1", "apiservices", "APIService", false, &[], STATUS),
    Row("apps/v1", "controllerrevisions", "ControllerRevision", true, &[], &[]),
    Row("apps/v1", "daemonsets", "DaemonSet", true, &["ds"], STATUS),
    Row("apps/v1", "deployments", "Deployment", true, &["deploy"], SCALED),
    Row("apps/v1", "replicasets", "ReplicaSet", true, &["rs"], SCALED),
    Row("apps/v1", "statefulsets", "StatefulSet", true, &["sts"], SCALED),
    Row("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true, &["hpa"], STATUS),
    Row("batch/v1", "cronjobs", "CronJob", true, &["cj"], STATUS),
    Row("batch/v1", "jobs", "Job", true, &[], STATUS),
    Row(
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        false,
        &["csr"],
        &["status", "approval"],
    ),
    Row("coordination.k8s.io/v1", "leases", "Lease", true, &[], &[]),
    Row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", true, &[], &[]),
    Row("networking.k8s.io/v1", "ingressclasses", "IngressClass", false, &[], &[]),
    Row("networking.k8s.io/v1", "ingresses", "Ingress", true, &["ing"], STATUS),
    Row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", true, &["netpol"], &[]),
    Row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", true, &["pdb"], STATUS),
    Row(RBAC, "clusterrolebindings", "ClusterRoleBinding", false, &[], &[]),
    Row(RBAC, "clusterroles", "ClusterRole", false, &[], &[]),
    Row(RBAC, "rolebindings", "RoleBinding", true, &[], &[]),
    Row(RBAC, "roles", "Role", true, &[], &[]),
    Row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", false, &["pc"], &[]),
    Row("storage.k8s.io/v1", "csidrivers", "CSIDriver", false, &[], &[]),
    Row("storage.k8s.io/v1", "csinodes", "CSINode", false, &[], &[]),
    Row("storage.k8s.io/v1", "storageclasses", "StorageClass", false, &["sc"], &[]),
    Row("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", false, &[], STATUS),
];

/// What `kubectl get all` means.
const ALL: &[&str] =
    &["pods", "services", "daemonsets", "deployments", "replicasets", "statefulsets", "cronjobs", "jobs"];

pub(crate) fn built_in() -> impl Iterator<Item = Kind> {
    KINDS.iter().map(|Row(api, plural, kind, namespaced, short, subresources)| {
        let (group, version) = api.split_once('/').unwrap_or(("", api));
        let borrowed = |list: &'static [&'static str]| list.iter().map(|text| Text::Borrowed(text)).collect();
        Kind {
            group: group.into(),
            version: version.into(),
            plural: (*plural).into(),
            kind: (*kind).into(),
            singular: kind.to_lowercase().into(),
            namespaced: *namespaced,
            short: borrowed(short),
            categories: if ALL.contains(plural) { vec!["all".into()] } else { vec![] },
            subresources: borrowed(subresources),
            custom: false,
        }
    })
}

/// The kinds that one definition brings: one for each version that is served.
fn defined(definition: &Value) -> Vec<Kind> {
    let spec = &definition["spec"];
    let text = |value: &Value| -> Text { value.as_str().unwrap_or_default().to_owned().into() };
    let texts = |value: &Value| -> Vec<Text> { value.as_array().into_iter().flatten().map(text).collect() };
    let names = &spec["names"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served
        .map(|version| Kind {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            kind: text(&names["kind"]),
            singular: match names["singular"].as_str() {
                Some(singular) => singular.to_owned().into(),
                None => text(&names["kind"]).to_lowercase().into(),
            },
            namespaced: spec["scope"] == "Namespaced",
            short: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            subresources: version["subresources"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, _)| k.clone().into())
                .collect(),
            custom: true,
        })
        .collect()
}

impl Kind {
    /// All kinds, those of the table first.
    pub(crate) fn all(store: &Store) -> Vec<Self> {
        let definitions = store.list("apiextensions.k8s.io", "customresourcedefinitions", None);
        built_in().chain(definitions.into_iter().flat_map(defined)).collect()
    }

    pub(crate) fn find(store: &Store, group: &str, version: &str, plural: &str) -> Option<Self> {
        let matches = |kind: &Self| kind.group == group && kind.version == version && kind.plural == plural;
        built_in().find(matches).or_else(|| {
            let name = format!("{plural}.{group}");
            let definitions = store.list("apiextensions.k8s.io", "customresourcedefinitions", None);
            let definition = definitions.into_iter().find(|d| d["metadata"]["name"] == name.as_str())?;
            defined(definition).into_iter().find(matches)
        })
    }

    /// The kind of a manifest.
    pub(crate) fn of_manifest(store: &Store, manifest: &Value) -> Option<Self> {
        let (api, kind) = (manifest["apiVersion"].as_str()?, manifest["kind"].as_str()?);
        Self::all(store).into_iter().find(|k| k.api_version() == api && k.kind == kind)
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(crate) fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|s| s == subresource)
    }

    /// As messages name it.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}
