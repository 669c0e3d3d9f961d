//! Objects as they stand in a manifest, applied on the server's side: what we do not speak of stays as others made it, and
//! what we spoke of before and do not any more goes away.

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use super::Kubernetes;
use crate::error::{Error, Kind, Result};
use crate::kubernetes_api::{Api, GroupVersionKind, Patch, PatchParams, TypeMeta};

/// Where Talos has its own objects.
const SYSTEM: &str = "kube-system";
/// The name under which our fields are kept.
pub const MANAGER: &str = "talosmith";

impl Kubernetes {
    /// Applies one object. An object of a kind with namespaces that names none goes to `default`.
    ///
    /// # Errors
    ///
    /// [`Kind::Input`] when the manifest lacks a kind or a name; [`Kind::Systems`] when Kubernetes does not know the kind
    /// (yet) or refuses.
    pub async fn apply(&self, manifest: &Value) -> Result<()> {
        self.apply_as(MANAGER, manifest).await
    }

    /// The same in the name of another manager, which keeps the fields apart.
    ///
    /// # Errors
    ///
    /// The same as of [`Self::apply`].
    pub async fn apply_as(&self, manager: &str, manifest: &Value) -> Result<()> {
        let text =
            |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        if api.is_empty() || kind.is_empty() || name.is_empty() {
            return Err(Error::new(Kind::Input, "a manifest has no apiVersion, no kind or no name"));
        }
        let gvk = GroupVersionKind::try_from(&TypeMeta { api_version: api.clone(), kind: kind.clone() })
            .map_err(|e| Error::new(Kind::Input, format!("{api:?} is not an apiVersion")).because(e))?;
        let known = self.client.discover(&gvk);
        let (resource, namespaced) = self.ask(&format!("find the kind {kind} of {api}"), known).await?;
        let namespace = text("/metadata/namespace");
        let namespace = if namespace.is_empty() { "default" } else { namespace.as_str() };
        let objects = Api::dynamic(self.client.clone(), &resource, namespaced.then_some(namespace));
        let params = PatchParams::apply(manager).force();
        let patch = Patch::Apply(manifest);
        let call = objects.patch(&name, &params, &patch);
        self.ask(&format!("apply {kind} {name}"), call).await.map(drop)
    }

    /// A DaemonSet in `kube-system`, if it is there.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn daemon_set(&self, name: &str) -> Result<Option<DaemonSet>> {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), SYSTEM);
        self.ask_maybe(&format!("read DaemonSet {name}"), sets.get(name)).await
    }

    /// Changes what the patch names of a DaemonSet in `kube-system`, and leaves everything else alone.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn patch_daemon_set(&self, name: &str, patch: &Value) -> Result<()> {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), SYSTEM);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Strategic(patch);
        let call = sets.patch(name, &params, &patch);
        self.ask(&format!("change DaemonSet {name}"), call).await.map(drop)
    }
}
