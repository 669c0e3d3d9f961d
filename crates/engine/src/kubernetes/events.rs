//! Events on Nodes: what `kubectl describe node` shows.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sha2::{Digest, Sha256};

use super::Kubernetes;
use crate::error::Result;
use crate::kubernetes_api::{Api, PostParams};

/// Who reports.
const COMPONENT: &str = "talosmith";
/// Where Events of objects without a namespace are kept.
const NAMESPACE: &str = "default";

/// Something that happened to a node.
#[derive(Debug, Clone)]
pub struct NodeEvent {
    /// The name of the node in Kubernetes.
    pub node: String,
    /// One word for programs, such as `TalosmithReboot`.
    pub reason: String,
    /// In words.
    pub message: String,
    /// Whether something is wrong.
    pub warning: bool,
}

impl Kubernetes {
    /// Writes an Event about a node.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn record(&self, event: &NodeEvent, now: Timestamp) -> Result<()> {
        // Two Events of one moment are two.
        let id = hex::encode(Sha256::digest(format!("{now}\0{}\0{}", event.reason, event.message)));
        let kind = if event.warning { "Warning" } else { "Normal" };
        let object = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", event.node, &id[..16])),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                kind: Some("Node".to_owned()),
                api_version: Some("v1".to_owned()),
                name: Some(event.node.clone()),
                // `kubectl describe node` looks for the name here, too.
                uid: Some(event.node.clone()),
                ..ObjectReference::default()
            },
            reason: Some(event.reason.clone()),
            message: Some(event.message.clone()),
            type_: Some(kind.to_owned()),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        self.ask("create an Event", events.create(&PostParams::default(), &object)).await.map(drop)
    }
}
