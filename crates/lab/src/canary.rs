//! A client that writes one number after the other into Kubernetes, wherever an API server takes it. What was acknowledged
//! must be read again, for as long as the cluster lives.

use jiff::Timestamp;
use serde_json::json;

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

fn write(world: &mut World, number: u64, now: Timestamp) -> Option<()> {
    let vmid = world.machines.serving()?;
    let object = json!({"data": {"number": number.to_string()}});
    world.machines.store_mut(vmid)?.put(&PLACE, object, now);
    Some(())
}
