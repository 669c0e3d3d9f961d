//! Clients of a cluster. One writes one number after the other into Kubernetes, wherever an API server takes it: what was acknowledged must
//! be read again, for as long as the cluster lives. Another one uses a Service.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Lab;
use crate::kube::Place;
use crate::world::World;

const PLACE: Place<'_> = Place { group: "", plural: "configmaps", namespace: "default", name: "canary" };

impl Lab {
    /// Writes a number; says whether that was acknowledged.
    #[must_use]
    pub fn write_canary(&self, number: u64) -> bool {
        self.shared().with(|world, now| write(world, number, now).is_some())
    }

    /// The number that is read now; nothing when no API server answers, or nothing was ever written.
    #[must_use]
    pub fn read_canary(&self) -> Option<u64> {
        self.shared().read(|world, _| {
            let store = &world.machines.led_etcd_of(world.machines.serving()?)?.store;
            store.get(&PLACE)?.pointer("/data/number")?.as_str()?.parse().ok()
        })
    }
}

impl Lab {
    /// One request to the pods with a label `app`, as a Service with that selector passes it on: to one of those that are ready, which the
    /// number chooses.
    ///
    /// # Errors
    ///
    /// When no pod is ready, or the chosen one is on a node that is down.
    pub fn request(&self, namespace: &str, app: &str, number: u64) -> Result<(), String> {
        self.shared().read(|world, _| request(world, namespace, app, number))
    }
}

impl Lab {
    /// The boot ID of each machine that is on, by its VM.
    #[must_use]
    pub fn boots(&self) -> BTreeMap<u32, String> {
        self.shared().read(|world, _| {
            let vms = world.hypervisor.vms.values().filter(|vm| vm.running.is_some());
            vms.filter_map(|vm| Some((vm.vmid, world.machines.get(vm.vmid)?.boot_id()))).collect()
        })
    }
}

fn request(world: &World, namespace: &str, app: &str, number: u64) -> Result<(), String> {
    let store = world.hypervisor.vms.keys().find_map(|vmid| world.machines.etcd_of_cluster(*vmid));
    let store = &store.ok_or("there is no cluster")?.store;
    let pods = store.list("", "pods", Some(namespace)).into_iter();
    let endpoints: Vec<_> =
        pods.filter(|pod| pod["metadata"]["labels"]["app"] == app && takes(pod)).collect();
    let count = u64::try_from(endpoints.len()).unwrap_or(0);
    let chosen = usize::try_from(number.checked_rem(count).unwrap_or(0)).unwrap_or(0);
    let pod = endpoints.get(chosen).ok_or_else(|| format!("no pod of {app} is ready"))?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let is_up = |vmid: &u32| {
        let machine = world.machines.get(*vmid).filter(|machine| machine.live_node().is_some());
        machine.is_some_and(|machine| machine.hostname() == node)
    };
    match world.hypervisor.vms.keys().any(is_up) {
        true => Ok(()),
        false => Err(format!("{} is on {node}, which is down", pod["metadata"]["name"])),
    }
}

/// Whether a pod is among the endpoints of its Service.
fn takes(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    ready && pod["metadata"].get("deletionTimestamp").is_none()
}

fn write(world: &mut World, number: u64, now: Timestamp) -> Option<()> {
    let vmid = world.machines.serving()?;
    let object = json!({"data": {"number": number.to_string()}});
    world.machines.store_mut(vmid)?.put(&PLACE, object, now);
    Some(())
}
