//! Nodes that are replaced, nodes that move between Proxmox hosts, hosts that are drained, and members of etcd without a VM.

mod crashes;
mod hosts;
mod members;
mod moves;
mod replace;

use engine::Snapshot;
use engine::session::ObserveError;
use model::allowed::Allowed;
use model::plan::Plan;
use model::plan::by_hand::ByHand;

use crate::rig::{Ran, Rig};
use serde_json::Value;

/// What a person asks for, as it is planned.
async fn planned(rig: &Rig, file: &str, asked: &ByHand, allowed: Allowed) -> (Snapshot, Plan) {
    match rig.session(file).allowing(allowed).observe_by_hand(asked).await {
        Ok(snapshot) => {
            let plan = snapshot.plan_by_hand(asked);
            (snapshot, plan)
        }
        Err(ObserveError::Engine(error)) => panic!("{:?}", error.causes()),
        Err(ObserveError::File(found)) => panic!("{found:?}"),
    }
}

/// The same, carried out.
pub async fn done(rig: &Rig, file: &str, asked: &ByHand) -> Ran {
    let (snapshot, plan) = planned(rig, file, asked, Allowed::default()).await;
    assert_eq!((&plan.refusals[..], &plan.blocked[..]), (&[][..], &[][..]));
    Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap()
}

/// The UID of a node in Kubernetes, which tells it from one that takes its place under the same name.
fn uid(rig: &Rig, node: &str) -> Option<String> {
    fn find(value: &Value, node: &str) -> Option<String> {
        let metadata = &value["metadata"];
        if metadata["name"] == node && value["status"]["nodeInfo"].is_object() {
            return metadata["uid"].as_str().map(str::to_owned);
        }
        match value {
            Value::Object(map) => map.values().find_map(|value| find(value, node)),
            Value::Array(list) => list.iter().find_map(|value| find(value, node)),
            _ => None,
        }
    }
    let systems = rig.lab.shared().read(|systems, _| serde_json::to_value(systems).unwrap());
    find(&systems, node)
}

/// The names of the units of a plan.
fn units(plan: &Plan) -> Vec<&str> {
    plan.units.iter().map(|unit| unit.id.0.as_str()).collect()
}
