//! Resources: what a machine knows, as documents by namespace, type and id.
//!
//! Each resource comes in two encodings. The YAML one is read, because it needs no generated type per resource and is the
//! same in all releases.

use std::collections::VecDeque;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use talos::wire::cosi::{self, EventType};
use tonic::Streaming;

use crate::api::{Api, QUESTION};
use crate::error::{Kind, Result};

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
pub(crate) const CMDLINE: At =
    At { namespace: "runtime", kind: "KernelCmdlines.runtime.talos.dev", id: "cmdline" };
pub(crate) const HOSTNAME: At =
    At { namespace: "network", kind: "HostnameStatuses.net.talos.dev", id: "hostname" };
pub(crate) const NODENAME: At =
    At { namespace: "k8s", kind: "Nodenames.kubernetes.talos.dev", id: "nodename" };

/// A change of a resource that is watched.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is there: already when the watch started, or new.
    Created(Resource),
    /// It has changed.
    Updated(Resource),
    /// It is gone. A watch of one resource that is not there starts with this.
    Destroyed { id: String },
    /// Everything that was there when the watch started has been told.
    Bootstrapped,
}

/// A watch of one resource or of all of a type.
#[derive(Debug)]
pub struct Watch {
    api: Api,
    stream: Streaming<cosi::WatchResponse>,
    waiting: VecDeque<cosi::Event>,
}

const WATCHING: &str = "watching resources";

impl Watch {
    /// The next change; nothing when the machine ended the stream.
    ///
    /// # Errors
    ///
    /// [`Kind::Deadline`] when nothing changed within `limit`; the watch goes on. [`Kind::Unavailable`] when the machine
    /// goes down.
    pub async fn next(&mut self, limit: Duration) -> Result<Option<Change>> {
        let api = self.api.within(limit);
        loop {
            while let Some(event) = self.waiting.pop_front() {
                if let Some(change) = api.change(event)? {
                    return Ok(Some(change));
                }
            }
            let Some(message) = api.limited(WATCHING, limit, self.stream.message()).await? else {
                return Ok(None);
            };
            self.waiting.extend(message.event);
        }
    }
}

impl Api {
    /// A watch: of one resource with an id, else of all of the type, with those that are there first.
    pub(crate) async fn watch(&self, namespace: &str, kind: &str, id: Option<&str>) -> Result<Watch> {
        let request = cosi::WatchRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            id: id.map(str::to_owned),
            // 1.12 falls over a missing message; with an id there may be no wish for what is there.
            options: Some(cosi::WatchOptions { bootstrap_contents: id.is_none(), ..Default::default() }),
            // Version 0 would be told neither of the end of the beginning nor of errors.
            api_version: 1,
        };
        let answer = self.limited(WATCHING, QUESTION, self.resources().watch(request)).await?;
        let mut stream = answer.into_inner();
        // The first message is empty: the watch is armed.
        let first = self.limited(WATCHING, QUESTION, stream.message()).await?.unwrap_or_default();
        Ok(Watch { api: self.clone(), stream, waiting: first.event.into() })
    }

    fn change(&self, event: cosi::Event) -> Result<Option<Change>> {
        let kind = event.event_type();
        let resource = event.resource.unwrap_or_default();
        Ok(Some(match kind {
            EventType::Created => Change::Created(self.resource(WATCHING, resource)?),
            EventType::Updated => Change::Updated(self.resource(WATCHING, resource)?),
            EventType::Destroyed => Change::Destroyed { id: resource.metadata.unwrap_or_default().id },
            EventType::Bootstrapped => Change::Bootstrapped,
            EventType::Errored => {
                let why = crate::error::harmless(&event.error.unwrap_or_default());
                return Err(self.failure(WATCHING, Kind::Other, why));
            }
            EventType::Noop => return Ok(None),
        }))
    }

    fn resource(&self, attempt: &'static str, resource: cosi::Resource) -> Result<Resource> {
        let spec = self.read(attempt, &resource)?;
        let metadata = resource.metadata.unwrap_or_default();
        Ok(Resource { id: metadata.id, version: metadata.version, spec })
    }

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
        let answer = self.limited(attempt, QUESTION, self.resources().get(request)).await?;
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
        let answer = self.limited(attempt, QUESTION, self.resources().list(request)).await?;
        let mut stream = answer.into_inner();
        let mut resources = Vec::new();
        while let Some(message) = self.limited(attempt, QUESTION, stream.message()).await? {
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
            self.failure(attempt, Kind::Protocol, format!("its {kind} cannot be read"))
        })
    }
}
