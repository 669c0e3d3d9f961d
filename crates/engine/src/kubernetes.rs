//! Kubernetes, over our own connections.
//!
//! Every call has a timeout, and its error says what did not happen. What Talosmith waits for, it polls or watches; it never assumes.
//! [`crate::kubernetes_api`] sends the requests. [`drain`] drains a node, [`events`] records what is done to it, [`health`] reads
//! whether storage and databases are healthy, [`lease`] keeps two operators apart, [`manifests`] applies objects, [`stuck`] finds pods
//! that do not start, [`volumes`] waits until volumes are detached, [`wait`] watches nodes.

mod budgets;
pub mod drain;
pub mod events;
pub mod health;
pub mod lease;
pub mod manifests;
pub mod stuck;
pub mod volumes;
pub mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ambient::tls::Connector;
use ambient::{Clock, Net};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use model::blueprint::Taint;
use model::holder::SecretPlace;
use model::names::NodeName;
use model::observed::{KubernetesNode, NotReady};
use rustls::{ClientConfig, RootCertStore};
use talos::pki::Identity;

use crate::Systems;
use crate::error::{Error, Result};
use crate::kubernetes_api::{self as api, Api, Client, DeleteParams, ListParams};
use crate::systems::REQUEST_TIMEOUT;

/// The taint of a node that an external cloud provider has still to look at.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The label of control plane nodes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The annotation of a static pod with the version of the configuration that Talos made it from.
const CONFIG_VERSION: &str = "talos.dev/config-version";

/// Kubernetes of one cluster.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
    clock: Clock,
    endpoint: String,
}

/// Whether a failed call was answered by an API server, which showed a certificate of the cluster's authority.
pub(crate) fn is_answer(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if matches!(cause.downcast_ref::<api::Error>(), Some(api::Error::Api(_))) {
            return true;
        }
        source = cause.source();
    }
    false
}

/// A pod of the control plane, as far as health needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPod {
    /// The name of the pod in Kubernetes.
    pub name: String,
    /// The component (`kube-apiserver`, …).
    pub component: String,
    /// The node it runs on.
    pub node: String,
    /// Its `Ready` condition.
    pub ready: bool,
    /// The image of its container.
    pub image: String,
    /// The version of the component's configuration that Talos made it from.
    pub config_version: Option<String>,
    /// Why its container does not start, where that is said.
    pub stuck: Option<String>,
}

impl Kubernetes {
    /// A client for the API at `endpoint`, as the holder of `identity`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the endpoint or the identity cannot be used.
    pub fn new(systems: &Systems, endpoint: &str, identity: &Identity) -> Result<Self> {
        Self::connect(&systems.net, &systems.clock, endpoint, identity)
    }

    /// As [`Self::new`], for a caller without a `Systems`.
    ///
    /// # Errors
    ///
    /// When the endpoint or the identity cannot be used.
    pub fn connect(net: &Net, clock: &Clock, endpoint: &str, identity: &Identity) -> Result<Self> {
        let attempt =
            || Error::systems(format!("could not prepare the connection to Kubernetes at {endpoint}"));
        let uri: http::Uri = endpoint.parse().map_err(|e| attempt().because(e))?;
        let mut roots = RootCertStore::empty();
        roots.add(identity.ca_der()).map_err(|e| attempt().because(e))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_details(provider, Arc::new(clock.clone()))
            .with_safe_default_protocol_versions()
            .map_err(|e| attempt().because(e))?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![identity.certificate_der().clone()], identity.key_der())
            .map_err(|e| attempt().because(e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connector = Connector::new(net.clone(), Arc::new(config), 443);
        let http = HttpClient::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        Ok(Self { client: Client::new(http, &uri), clock: clock.clone(), endpoint: endpoint.to_owned() })
    }

    /// The client, for what has no call of its own here. It sets no limits of time.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Every node by name.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn nodes(&self) -> Result<BTreeMap<NodeName, KubernetesNode>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let list = self.ask("list nodes", nodes.list(&ListParams::default())).await?;
        Ok(list.items.into_iter().filter_map(|n| Some((n.metadata.name.clone()?.into(), seen(&n)))).collect())
    }

    /// The revision of etcd's database: what lists are the state of.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn revision(&self) -> Result<Option<u64>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let list = self.ask("list nodes", nodes.list(&ListParams::default().limit(1))).await?;
        Ok(list.metadata.resource_version.and_then(|text| text.parse().ok()))
    }

    /// Pods of the control plane.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn control_plane_pods(&self) -> Result<Vec<SystemPod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let selected = ListParams::default().labels("tier=control-plane");
        let list = self.ask("list the pods of the control plane", pods.list(&selected)).await?;
        Ok(list.items.into_iter().filter_map(system_pod).collect())
    }

    /// Whether a Secret is there. What is in it is not asked for.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn has_secret(&self, place: &SecretPlace) -> Result<bool> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &place.namespace);
        let found =
            self.ask_maybe(&format!("read Secret {place}"), secrets.get_metadata(&place.name)).await?;
        Ok(found.is_some())
    }

    /// Whether there is a node of this name.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn has_node(&self, node: &str) -> Result<bool> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = self.ask_maybe(&format!("read node {node}"), nodes.get_metadata(node)).await?;
        Ok(found.is_some())
    }

    /// Forgets a node. Says whether it was there.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn delete_node(&self, node: &str) -> Result<bool> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let params = DeleteParams::default();
        let call = nodes.delete(node, &params);
        Ok(self.ask_maybe(&format!("delete node {node}"), call).await?.is_some())
    }

    /// As [`Self::ask`], with nothing for something that is not there.
    async fn ask_maybe<T>(
        &self,
        what: &str,
        call: impl Future<Output = api::Result<T>>,
    ) -> Result<Option<T>> {
        let call = async {
            match call.await {
                Ok(found) => Ok(Some(found)),
                Err(api::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.ask(what, call).await
    }

    async fn ask<T>(&self, what: &str, call: impl Future<Output = api::Result<T>>) -> Result<T> {
        let attempt = || {
            Error::systems(format!("could not {what} in Kubernetes at {}", self.endpoint))
                .hint("`talosmith status` shows which control plane nodes run their API server")
        };
        match self.clock.timeout(REQUEST_TIMEOUT, call).await {
            Ok(answer) => answer.map_err(|error| attempt().because(error)),
            Err(timed_out) => Err(attempt().because(timed_out)),
        }
    }
}

fn seen(node: &Node) -> KubernetesNode {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready");
    let annotation = |key: &str| node.metadata.annotations.as_ref().and_then(|all| all.get(key).cloned());
    KubernetesNode {
        conditions: conditions.iter().map(|c| (c.type_.clone(), c.status.clone())).collect(),
        not_ready: ready.and_then(|c| NotReady::of(&c.status, c.message.as_deref().unwrap_or_default())),
        ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
        version: status
            .and_then(|s| s.node_info.as_ref())
            .map(|i| i.kubelet_version.clone())
            .unwrap_or_default(),
        schedulable: !node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false),
        uninitialized: node
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.as_deref())
            .is_some_and(|taints| taints.iter().any(|taint| taint.key == UNINITIALIZED)),
        control_plane: node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(CONTROL_PLANE)),
        cordoned: annotation(drain::CORDONED),
        cordoned_with: annotation(drain::CORDONED_WITH),
        address: status.and_then(|s| s.addresses.as_deref()).and_then(|all| {
            all.iter().filter(|a| a.type_ == "InternalIP").find_map(|a| a.address.parse().ok())
        }),
        boot_id: status.and_then(|s| s.node_info.as_ref()).map(|info| info.boot_id.clone()),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        annotations: node.metadata.annotations.clone().unwrap_or_default(),
        taints: node
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default()
            .iter()
            .map(|taint| {
                let value = taint.value.clone().unwrap_or_default();
                (taint.key.clone(), Taint { value, effect: taint.effect.clone() })
            })
            .collect(),
    }
}

fn system_pod(pod: Pod) -> Option<SystemPod> {
    let stuck = stuck::why(&pod);
    let labels = pod.metadata.labels.unwrap_or_default();
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let conditions = pod.status.and_then(|s| s.conditions).unwrap_or_default();
    let spec = pod.spec?;
    Some(SystemPod {
        name: pod.metadata.name?,
        component: labels.get("k8s-app").or_else(|| labels.get("component"))?.clone(),
        image: spec.containers.first().and_then(|container| container.image.clone()).unwrap_or_default(),
        node: spec.node_name?,
        config_version: annotations.get(CONFIG_VERSION).cloned(),
        stuck,
        ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
    })
}
