//! Containers: Talos' own in its own runtime, pods in that of Kubernetes.
//!
//! The namespace says which runtime is meant, the driver by which of two ways it is asked. Kubernetes' runtime shows a pod as a
//! sandbox and its containers; a container is found by the name of its pod, its own name and, if need be, a part of its id.

use talos::wire::common::ContainerDriver;
use talos::wire::machine as wire;
use tonic::{Code, Status};

use super::Caller;
use crate::stable::{stable_number, stable_uuid};

/// The image that holds a pod's namespaces open.
pub(super) const SANDBOX: &str = "registry.k8s.io/pause:3.10.1";

/// 64 digits that name a container.
fn id_of(parts: &[&str]) -> String {
    let text = parts.join(" ");
    ["a", "b", "c", "d"].map(|part| format!("{:016x}", stable_number(&[&text, part]))).concat()
}

impl Caller {
    /// The containers of a namespace.
    pub(super) fn container_infos(
        &self,
        namespace: &str,
        driver: i32,
    ) -> Result<Vec<wire::ContainerInfo>, Status> {
        let old = self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.profile().minor <= 12));
        if namespace.is_empty() && !old {
            return Err(Status::invalid_argument("namespace can't be empty"));
        }
        match ContainerDriver::try_from(driver) {
            Ok(ContainerDriver::Cri) if namespace != "k8s.io" => {
                return Err(Status::unknown("CRI inspector is supported only for K8s namespace"));
            }
            Ok(_) if namespace.is_empty() => {
                return Err(Status::unknown("namespace is required: failed precondition"));
            }
            Ok(_) => {}
            Err(_) => {
                let code = if old { Code::Unknown } else { Code::InvalidArgument };
                return Err(Status::new(code, format!("unsupported driver \"{driver}\"")));
            }
        }
        Ok(match namespace {
            "system" => self.own_containers(),
            "k8s.io" => self.pod_containers(),
            _ => vec![],
        })
    }

    /// What runs in Talos' own runtime. The kubelet and etcd do not: they run beside the pods.
    fn own_containers(&self) -> Vec<wire::ContainerInfo> {
        self.read(|machines, _| {
            let Some(machine) = machines.get(self.vmid) else { return vec![] };
            let services = machines.services(self.vmid).into_iter();
            let own = services.filter(|s| {
                s.state == "Running"
                    && (["apid", "trustd"].contains(&s.id.as_str()) || s.id.starts_with("ext-"))
            });
            own.map(|s| wire::ContainerInfo {
                namespace: "system".to_owned(),
                internal_id: s.id.clone(),
                pid: machine.pid(&s.id),
                status: "RUNNING".to_owned(),
                pod_id: s.id.clone(),
                name: s.id.clone(),
                id: s.id,
                ..wire::ContainerInfo::default()
            })
            .collect()
        })
    }

    fn pod_containers(&self) -> Vec<wire::ContainerInfo> {
        self.read(|machines, _| {
            let Some(machine) = machines.get(self.vmid) else { return vec![] };
            let boots = machine.boots.to_string();
            let pods = machines.pods_on(self.vmid).into_iter();
            pods.flat_map(|(pod, container, image)| {
                let sandbox = id_of(&[&pod, &boots]);
                let whole = id_of(&[&pod, &container, &boots]);
                let display = format!("{pod}:{container}:{}", whole.get(..12).unwrap_or_default());
                let of_pod = wire::ContainerInfo {
                    namespace: "k8s.io".to_owned(),
                    uid: stable_uuid(&[&pod, "pod"]),
                    pid: machine.pid(&pod),
                    internal_id: sandbox,
                    image: SANDBOX.to_owned(),
                    status: "SANDBOX_READY".to_owned(),
                    pod_id: pod.clone(),
                    name: pod.clone(),
                    id: pod.clone(),
                    ..wire::ContainerInfo::default()
                };
                let own = wire::ContainerInfo {
                    namespace: "k8s.io".to_owned(),
                    pid: machine.pid(&display),
                    internal_id: whole,
                    image,
                    status: "CONTAINER_RUNNING".to_owned(),
                    pod_id: pod,
                    name: container,
                    id: display,
                    ..wire::ContainerInfo::default()
                };
                [of_pod, own]
            })
            .collect()
        })
    }

    /// One container by what it is called.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub(super) fn container(
        &self,
        namespace: &str,
        driver: i32,
        id: &str,
    ) -> Result<wire::ContainerInfo, Status> {
        let all = self.container_infos(namespace, driver)?;
        let called = |container: &wire::ContainerInfo| {
            let mut words = id.splitn(3, ':');
            let (pod, name, part) = (words.next().unwrap_or_default(), words.next(), words.next());
            match name.filter(|name| !name.is_empty()) {
                None => container.id == pod,
                Some(name) => {
                    container.pod_id == pod
                        && container.name == name
                        && part.is_none_or(|part| container.internal_id.contains(part))
                }
            }
        };
        let missing = || Status::unknown(format!("container {id:?} not found"));
        all.into_iter().find(called).ok_or_else(missing)
    }

    pub(super) fn container_stats(&self, namespace: &str, driver: i32) -> Result<Vec<wire::Stat>, Status> {
        let age = self.age();
        let containers = self.container_infos(namespace, driver)?.into_iter();
        let stat = |container: wire::ContainerInfo| {
            // No one measures what holds a pod open.
            let idle = container.status == "SANDBOX_READY";
            wire::Stat {
                namespace: container.namespace,
                id: container.id,
                memory_usage: if idle { 0 } else { 48 << 20 },
                cpu_usage: if idle { 0 } else { (1 + age) * 4_000_000 },
                pod_id: container.pod_id,
                name: container.name,
            }
        };
        Ok(containers.map(stat).collect())
    }
}
