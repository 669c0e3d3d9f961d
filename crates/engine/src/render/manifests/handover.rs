//! What takes over once the cluster runs: the cloud provider and storage driver for Proxmox, and GitOps.
//!
//! Each comes by its own chart. What a GitOps engine follows is one object or two of kinds that its chart defines;
//! Talos tries manifests of an unknown kind again until it is known.

use model::blueprint::Blueprint;
use model::holder::{Holder, gitops_namespace};
use model::spec::{Chart, GitOps, GitOpsEngine, Integration};
use serde_json::{Map, Value, json};

/// Where cloud provider and storage driver are published.
const PROXMOX_CHARTS: &str = "oci://ghcr.io/sergelogvinov/charts";

/// The engines' charts, where the file names no version. They do not change when Talosmith does.
const FLUX: &str = "2.18.2";
const ARGO: &str = "9.2.3";

/// The charts, by release.
pub(super) fn charts(blueprint: &Blueprint) -> Vec<(String, Chart)> {
    let manifests = &blueprint.options.manifests;
    let integrations = [
        ("proxmox-cloud-controller-manager", Holder::ProxmoxCcm, &manifests.proxmox_ccm),
        ("proxmox-csi-plugin", Holder::ProxmoxCsi, &manifests.proxmox_csi),
    ];
    let mut charts: Vec<(String, Chart)> = integrations
        .into_iter()
        .filter_map(|(name, holder, asked)| {
            Some((name.to_owned(), integration(blueprint, holder, asked.as_ref()?)?))
        })
        .collect();
    charts.extend(blueprint.options.gitops.as_ref().map(|gitops| engine(blueprint, gitops)));
    charts
}

/// Without a version, the user installs it.
fn integration(blueprint: &Blueprint, holder: Holder, asked: &Integration) -> Option<Chart> {
    let place = holder.secret(blueprint);
    Some(Chart {
        repository: PROXMOX_CHARTS.to_owned(),
        chart: None,
        version: asked.version.clone()?,
        namespace: Some(place.namespace),
        values: Map::from_iter([("existingConfigSecret".to_owned(), Value::String(place.name))]),
    })
}

fn engine(blueprint: &Blueprint, gitops: &GitOps) -> (String, Chart) {
    let (release, repository, chart, version) = match gitops.engine {
        GitOpsEngine::Flux => ("flux", "https://fluxcd-community.github.io/helm-charts", "flux2", FLUX),
        GitOpsEngine::Argocd => ("argocd", "https://argoproj.github.io/argo-helm", "argo-cd", ARGO),
    };
    let chart = Chart {
        repository: repository.to_owned(),
        chart: Some(chart.to_owned()),
        version: gitops.chart_version.clone().unwrap_or_else(|| version.to_owned()),
        namespace: Some(gitops_namespace(blueprint)),
        values: Map::new(),
    };
    (release.to_owned(), chart)
}

/// What the GitOps engine follows.
pub(super) fn source(blueprint: &Blueprint) -> Option<Vec<Value>> {
    let gitops = blueprint.options.gitops.as_ref()?;
    let namespace = gitops_namespace(blueprint);
    let metadata = json!({ "name": "cluster", "namespace": namespace });
    Some(match gitops.engine {
        GitOpsEngine::Flux => flux(blueprint, gitops, &metadata),
        GitOpsEngine::Argocd => {
            let destination = gitops.destination_namespace.clone().unwrap_or(namespace);
            vec![json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata,
                "spec": {
                    "project": "default",
                    "source": {
                        "repoURL": gitops.repository, "targetRevision": gitops.revision, "path": gitops.path,
                    },
                    "destination": { "server": "https://kubernetes.default.svc", "namespace": destination },
                    "syncPolicy": {
                        "automated": { "prune": true, "selfHeal": true },
                        "syncOptions": ["CreateNamespace=true"],
                    },
                },
            })]
        }
    })
}

fn flux(blueprint: &Blueprint, gitops: &GitOps, metadata: &Value) -> Vec<Value> {
    let mut repository = json!({
        "interval": "1m", "url": url(&gitops.repository), "ref": reference(&gitops.revision),
    });
    if gitops.credentials.is_some() {
        repository["secretRef"] = json!({ "name": Holder::Gitops.secret(blueprint).name });
    }
    let mut kustomization = json!({
        "interval": "10m", "path": format!("./{}", gitops.path.trim_start_matches("./")), "prune": true,
        "sourceRef": { "kind": "GitRepository", "name": metadata["name"] },
    });
    if let Some(namespace) = &gitops.destination_namespace {
        kustomization["targetNamespace"] = namespace.as_str().into();
    }
    vec![
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata,
            "spec": repository,
        }),
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata,
            "spec": kustomization,
        }),
    ]
}

/// Flux takes no `git@host:path`.
fn url(repository: &str) -> String {
    match repository.strip_prefix("git@").and_then(|rest| rest.split_once(':')) {
        Some((host, path)) => format!("ssh://git@{host}/{path}"),
        None => repository.to_owned(),
    }
}

/// A branch, a tag (`v1.2.3`) or a commit, each told by its form.
fn reference(revision: &str) -> Value {
    let is_commit = revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit());
    let is_tag =
        revision.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match () {
        () if is_commit => json!({ "commit": revision }),
        () if is_tag => json!({ "tag": revision }),
        () => json!({ "branch": revision }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_told_apart() {
        assert_eq!(reference("main"), json!({ "branch": "main" }));
        assert_eq!(reference("v1.2.0"), json!({ "tag": "v1.2.0" }));
        assert_eq!(reference("vienna"), json!({ "branch": "vienna" }));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(reference(commit), json!({ "commit": commit }));
        assert_eq!(url("git@git.example:me/x.git"), "ssh://git@git.example/me/x.git");
    }
}
