//! The kubelets of a cluster, gathered for Kubernetes' own bookkeeping.

use std::collections::BTreeMap;

use super::etcd::Known;
use super::node::{Machine, Registration};
use super::settings::Settings;
use super::{Etcd, Machines};
use crate::kube::{Kubelet, MirrorPod, Report, has_network, reconcile};

impl Machines {
    /// Writes what kubelets and controllers would write, wherever etcd takes writes and an API server is up.
    pub(super) fn write_kubernetes(&mut self) {
        for index in 0..self.etcds.len() {
            self.write_kubernetes_of(index);
            // A kubelet that found its network says so at once: nothing else would wake it.
            if self.find_networks(index) {
                self.write_kubernetes_of(index);
            }
        }
    }

    fn write_kubernetes_of(&mut self, index: usize) {
        let now = self.now;
        if self.etcds[index].leader.is_none() || !self.has_api_server(&self.etcds[index]) {
            return;
        }
        let kubelets = self.kubelets(&self.etcds[index]);
        let etcd = &mut self.etcds[index];
        let lost = etcd.nodes.iter().filter(|(_, known)| known.lost_at.is_some_and(|at| at <= now));
        let lost: Vec<_> = lost.map(|(name, _)| name.clone()).collect();
        let nodes = etcd.members.values().filter_map(|member| self.machines.get(&member.vmid)?.live_node());
        let serving = nodes.filter(|node| node.api_server_from.is_some_and(|at| at <= now));
        let configs: Vec<&str> = serving.map(|node| node.config.as_str()).collect();
        let report = Report {
            kubelets: &kubelets,
            lost: &lost,
            configs: &configs,
            documents: &self.documents,
            outside: self.outside.as_ref(),
        };
        reconcile(&mut etcd.store, &report, now);
        for known in etcd.nodes.values_mut() {
            known.registers = false;
        }
    }

    /// A node whose network does not come with Talos is ready when something has set one up.
    fn find_networks(&mut self, index: usize) -> bool {
        let (now, etcd) = (self.now, &self.etcds[index]);
        let mut found = false;
        for (name, known) in &etcd.nodes {
            let node = self.machines.get_mut(&known.vmid).and_then(|machine| machine.node_mut());
            let waits = node.and_then(|node| match &mut node.registration {
                Registration::Registered { ready_at: ready_at @ None, .. } => Some(ready_at),
                _ => None,
            });
            if let Some(ready_at) = waits.filter(|_| has_network(&etcd.store, name)) {
                *ready_at = Some(now);
                found = true;
            }
        }
        found
    }

    /// The pods that Kubernetes says run on a machine: name with namespace, container, image.
    pub(crate) fn pods_on(&self, vmid: u32) -> Vec<(String, String, String)> {
        let Some(machine) = self.machines.get(&vmid) else { return vec![] };
        let name = machine.hostname();
        let text = |value: &serde_json::Value, at: &str| {
            value.pointer(at).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        let pods =
            self.etcd_of_cluster(vmid).map(|etcd| etcd.store.list("", "pods", None)).unwrap_or_default();
        let own = pods.into_iter().filter(|pod| text(pod, "/spec/nodeName") == name);
        own.map(|pod| {
            let id = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            (id, text(pod, "/spec/containers/0/name"), text(pod, "/spec/containers/0/image"))
        })
        .collect()
    }

    pub(super) fn has_api_server(&self, etcd: &Etcd) -> bool {
        let up =
            |vmid| self.live(vmid).and_then(|node| node.api_server_from).is_some_and(|at| at <= self.now);
        etcd.members.values().any(|member| up(member.vmid))
    }

    /// The kubelets that are heard of, in the order in which they registered.
    fn kubelets(&self, etcd: &Etcd) -> Vec<Kubelet> {
        let mut known: Vec<_> = etcd.nodes.iter().filter(|(_, known)| known.lost_at.is_none()).collect();
        known.sort_by_key(|(_, known)| known.number);
        known.into_iter().filter_map(|(name, known)| self.kubelet(name, known)).collect()
    }

    fn kubelet(&self, name: &str, known: &Known) -> Option<Kubelet> {
        let machine = self.machines.get(&known.vmid)?;
        let node = machine.live_node()?;
        let settings = &node.settings;
        let ready = matches!(node.registration, Registration::Registered { ready_at: Some(at), .. } if at <= self.now);
        Some(Kubelet {
            name: name.to_owned(),
            number: known.number,
            registers: known.registers,
            ready,
            control_plane: node.is_control_plane(),
            api_server: node.api_server_from.is_some_and(|at| at <= self.now),
            addresses: machine.address().into_iter().collect(),
            labels: machine.node_labels(settings),
            annotations: machine.node_annotations(settings),
            taints: settings.taints_of_node(),
            registers_with: settings.registers_with.clone(),
            version: node.kubelet_version().to_owned(),
            talos: machine.talos().to_owned(),
            kernel: machine.profile().kernel,
            containerd: machine.profile().containerd,
            uuid: machine.hardware.uuid.clone(),
            boot_id: machine.boot_id(),
            cores: machine.hardware.cores,
            memory_mib: machine.hardware.memory_mib,
            uninitialized: settings.external_cloud,
            pod_subnet: settings.pod_subnet,
            static_pods: node
                .static_pods()
                .filter(|(_, pod)| pod.version > 1 || pod.is_ready(self.now) || !pod.starts())
                .map(|(component, pod)| MirrorPod {
                    component: component.clone(),
                    image: pod.image.clone(),
                    config_version: pod.version,
                    ready: pod.is_ready(self.now),
                    crash: pod.crash.clone(),
                    no_image: pod.no_image,
                })
                .collect(),
        })
    }
}

impl Machine {
    /// The labels that Talos gives to its node: those of the configuration, its role, and its extensions.
    pub(crate) fn node_labels(&self, settings: &Settings) -> BTreeMap<String, String> {
        let mut labels = settings.labels_of_node();
        labels.extend(self.extension_marks());
        labels
    }

    /// The annotations that Talos gives to its node. The schematic's id is too long for a label.
    pub(crate) fn node_annotations(&self, settings: &Settings) -> BTreeMap<String, String> {
        let mut annotations = settings.node_annotations.clone();
        annotations.extend(self.extension_marks());
        let schematic = self.image().map(|image| image.schematic.clone()).filter(|id| !id.is_empty());
        annotations.extend(schematic.map(|id| ("extensions.talos.dev/schematic".to_owned(), id)));
        annotations
    }

    fn extension_marks(&self) -> impl Iterator<Item = (String, String)> {
        self.extensions().iter().map(|name| {
            let short = name.rsplit('/').next().unwrap_or(name);
            (format!("extensions.talos.dev/{short}"), self.talos().to_owned())
        })
    }
}
