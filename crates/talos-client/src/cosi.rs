//! Resources: what a machine knows, as documents by namespace, type and id.
//!
//! Each resource comes in two encodings. The YAML one is read, because it needs no generated type per resource and is the
//! same in all releases.

use serde::de::DeserializeOwned;
use serde_json::Value;
use talos::wire::cosi;

use crate::api::Api;
use crate::error::{Error, Kind, Result};

/// A resource as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Its id within namespace and type.
    pub id: String,
    /// Grows with each change.
    pub version: String,
    /// The document.
    pub spec: Value,
}

/// Where a single resource is.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) namespace: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) id: &'static str,
}

pub(crate) const MACHINE_STATUS: At =
    At { namespace: "runtime", kind: "MachineStatuses.runtime.talos.dev", id: "machine" };
pub(crate) const VERSION: At = At { namespace: "runtime", kind: "Versions.runtime.talos.dev", id: "version" };
pub(crate) const SYSTEM_INFORMATION: At =
    At { namespace: "hardware", kind: "SystemInformations.hardware.talos.dev", id: "systeminformation" };
pub(crate) const MACHINE_CONFIG: At =
    At { namespace: "config", kind: "MachineConfigs.config.talos.dev", id: "v1alpha1" };
pub(crate) const HOSTNAME: At =
    At { namespace: "network", kind: "HostnameStatuses.net.talos.dev", id: "hostname" };
pub(crate) const NODENAME: At =
    At { namespace: "k8s", kind: "Nodenames.kubernetes.talos.dev", id: "nodename" };

impl Api {
    /// One resource, in the shape `T`.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        attempt: &'static str,
        namespace: &str,
        kind: &str,
        id: &str,
    ) -> Result<T> {
        let request = cosi::GetRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            id: id.to_owned(),
            // Some releases fall over a message that is missing where an empty one would do.
            options: Some(cosi::GetOptions::default()),
        };
        let answer = self.resources().get(request).await.map_err(|status| self.error(attempt, &status))?;
        let resource = answer.into_inner().resource.unwrap_or_default();
        self.read(attempt, &resource)
    }

    pub(crate) async fn get_at<T: DeserializeOwned>(&self, attempt: &'static str, at: At) -> Result<T> {
        self.get(attempt, at.namespace, at.kind, at.id).await
    }

    /// All resources of a type, each in the shape `T`, with their ids and versions.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        attempt: &'static str,
        namespace: &str,
        kind: &str,
    ) -> Result<Vec<(String, String, T)>> {
        let request = cosi::ListRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            options: Some(cosi::ListOptions::default()),
        };
        let answer = self.resources().list(request).await.map_err(|status| self.error(attempt, &status))?;
        let mut stream = answer.into_inner();
        let mut resources = Vec::new();
        while let Some(message) = stream.message().await.map_err(|status| self.error(attempt, &status))? {
            let Some(resource) = message.resource else { continue };
            let spec = self.read(attempt, &resource)?;
            let metadata = resource.metadata.unwrap_or_default();
            resources.push((metadata.id, metadata.version, spec));
        }
        Ok(resources)
    }

    fn read<T: DeserializeOwned>(&self, attempt: &'static str, resource: &cosi::Resource) -> Result<T> {
        let yaml = resource.spec.as_ref().map_or("", |spec| spec.yaml_spec.as_str());
        // The parser's own words may quote the document, and that may hold secrets.
        serde_saphyr::from_str(yaml).map_err(|_| {
            let kind = resource.metadata.as_ref().map_or("resource", |metadata| metadata.r#type.as_str());
            Error::new(self.address(), attempt, Kind::Protocol, format!("its {kind} cannot be read"))
        })
    }
}
