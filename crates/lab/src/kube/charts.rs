//! What installing a chart leaves behind.
//!
//! The lab runs no programs. A pod of a job that runs `helm upgrade --install` ends well when it reached the chart's
//! repository, and then the release is there with the objects that matter to others: workloads, and the kinds they
//! define. Charts that no one here knows leave their release alone.

use serde_json::{Value, json};

/// What a pod was told to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) name: String,
    pub(super) chart: String,
    pub(super) version: String,
    pub(super) namespace: String,
    /// Host of the repository.
    pub(super) host: String,
}

impl Release {
    /// Reads the arguments of a pod's first container, if it runs helm.
    pub(super) fn of(pod: &Value) -> Option<Self> {
        let container = pod.pointer("/spec/containers/0")?;
        let words = |key: &str| container[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        let all: Vec<&str> = words("command").chain(words("args")).collect();
        let [program, "upgrade", "--install", name, chart, rest @ ..] = all.as_slice() else { return None };
        if *program != "helm" {
            return None;
        }
        let option = |key: &str| rest.iter().position(|word| *word == key).and_then(|at| rest.get(at + 1));
        let source = option("--repo").unwrap_or(chart);
        let host =
            source.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
        Some(Self {
            name: (*name).to_owned(),
            chart: chart.rsplit('/').next().unwrap_or(chart).to_owned(),
            version: option("--version").map_or_else(String::new, |version| (*version).to_owned()),
            namespace: option("--namespace").map_or("default", |namespace| *namespace).to_owned(),
            host: host.to_owned(),
        })
    }

    /// What helm says when no one answers for the repository.
    pub(super) fn unreachable(&self) -> String {
        let Self { host, .. } = self;
        format!(
            "Error: looks like \"https://{host}\" is not a valid chart repository or cannot be reached: Get \
             \"https://{host}/index.yaml\": dial tcp: lookup {host}: no such host\n"
        )
    }

    /// Everything that is there afterwards, in the order in which it is made.
    pub(super) fn objects(&self) -> Vec<Value> {
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace },
        })];
        objects.extend(match self.chart.as_str() {
            "cilium" => vec![
                self.workload("DaemonSet", "cilium", true, &["/etc/cni/net.d", "/opt/cni/bin"]),
                self.workload("Deployment", "cilium-operator", true, &[]),
            ],
            "proxmox-cloud-controller-manager" => vec![self.workload("Deployment", &self.name, true, &[])],
            "proxmox-csi-plugin" => vec![
                self.workload("Deployment", &format!("{}-controller", self.name), false, &[]),
                self.workload("DaemonSet", &format!("{}-node", self.name), true, &["/dev"]),
            ],
            "flux2" => [
                definition("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories", "v1"),
                definition("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", "v1"),
                definition("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", "v2"),
            ]
            .into_iter()
            .chain(
                ["source-controller", "kustomize-controller", "helm-controller", "notification-controller"]
                    .map(|name| self.workload("Deployment", name, false, &[])),
            )
            .collect(),
            "argo-cd" => [
                definition("argoproj.io", "Application", "applications", "v1alpha1"),
                definition("argoproj.io", "AppProject", "appprojects", "v1alpha1"),
            ]
            .into_iter()
            .chain(
                ["server", "repo-server", "redis"]
                    .map(|part| self.workload("Deployment", &format!("{}-{part}", self.name), false, &[])),
            )
            .collect(),
            _ => vec![],
        });
        objects.push(self.record());
        objects
    }

    /// Where helm remembers what it installed.
    fn record(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {
                "name": format!("sh.helm.release.v1.{}.v1", self.name), "namespace": self.namespace,
                "labels": { "name": self.name, "owner": "helm", "status": "deployed", "version": "1" },
            },
            "data": {},
        })
    }

    /// A workload; what belongs to the machine bears every taint and uses its network.
    fn workload(&self, kind: &str, name: &str, of_machine: bool, paths: &[&str]) -> Value {
        let labels = json!({
            "app.kubernetes.io/name": name, "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/managed-by": "Helm",
        });
        let volume = |(index, path): (usize, &&str)| json!({"name": format!("host-{index}"), "hostPath": {"path": path}});
        let volumes: Vec<Value> = paths.iter().enumerate().map(volume).collect();
        let tolerations = if of_machine { json!([{ "operator": "Exists" }]) } else { json!([]) };
        let image = format!("{}/{name}:{}", self.host, self.version);
        json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": { "name": name, "namespace": self.namespace, "labels": labels },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "containers": [{ "name": name, "image": image }], "hostNetwork": of_machine,
                        "serviceAccountName": name, "tolerations": tolerations, "volumes": volumes,
                    },
                },
            },
        })
    }
}

/// A kind with namespaces of which nothing more is known.
fn definition(group: &str, kind: &str, plural: &str, version: &str) -> Value {
    let schema = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
            },
            "versions": [{ "name": version, "served": true, "storage": true, "schema": schema, "subresources": { "status": {} } }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_pod_say_what_it_installs() {
        let pod = |args: &[&str]| json!({"spec": {"containers": [{"command": ["helm"], "args": args}]}});
        let read = Release::of(&pod(&[
            "upgrade",
            "--install",
            "x",
            "cilium",
            "--repo",
            "https://helm.example/charts",
            "--version",
            "1.2.3",
            "--namespace",
            "kube-system",
        ]));
        let read = read.unwrap();
        assert_eq!(
            (read.chart.as_str(), read.host.as_str(), read.namespace.as_str(), read.version.as_str()),
            ("cilium", "helm.example", "kube-system", "1.2.3")
        );
        let oci = Release::of(&pod(&["upgrade", "--install", "y", "oci://r.example/a/b"])).unwrap();
        assert_eq!((oci.chart.as_str(), oci.host.as_str(), oci.objects().len()), ("b", "r.example", 2));
        assert_eq!(Release::of(&pod(&["version"])), None);
        assert_eq!(Release::of(&json!({})), None);
    }
}
