//! Calls that are carried out, and not quite as they should be: failures that Proxmox is known for and that are more than an
//! answer.

use std::time::Duration;

use serde_json::json;

use super::answer::{Data, Failure};
use super::request::Call;
use super::routes::Route;
use super::{Twist, run as run_straight};
use crate::hypervisor::vm::Vm;
use crate::hypervisor::work::Work;
use crate::operations::tasks;
use crate::shared::Shared;

/// For how long the list of resources knows little of a new VM.
const LAG: i64 = 10;
const LOST: &str = "unexpected status";

/// Runs the endpoint with its twist.
pub(super) async fn run(
    shared: &Shared,
    route: &Route,
    call: &Call,
    twist: Twist,
) -> Result<Data, (Duration, Option<Failure>)> {
    let creates = call.method == "POST" && call.path == "/nodes/{node}/qemu";
    match twist {
        Twist::Stuck if creates => Ok(json!(stuck(shared, call)).into()),
        Twist::NotStarted if creates => {
            let made = run_straight(shared, route, call).await?;
            let work = Work::Doomed("start failed: QEMU exited with code 1".to_owned());
            let vmid = call.text("vmid");
            shared.with(|world, _| tasks::begin(world, &call.node, "qmstart", vmid, &call.caller, work));
            Ok(made)
        }
        Twist::Waits => {
            let before = config(shared, call);
            let done = run_straight(shared, route, call).await?;
            shared.with(|world, _| {
                if let (Some(before), Some(vm)) = (before, world.hypervisor.vms.get_mut(&call.vmid())) {
                    let now = std::mem::replace(&mut vm.config, before);
                    let changed = now.into_iter().filter(|(key, value)| vm.config.get(key) != Some(value));
                    vm.pending.extend(changed.map(|(key, value)| (key, Some(value))));
                }
            });
            Ok(done)
        }
        Twist::Lags => {
            let mut data = run_straight(shared, route, call).await?;
            let now = shared.read(|_, now| now.as_second());
            let new = |vmid: u64| {
                u32::try_from(vmid).ok().and_then(|vmid| age(shared, vmid, now)).is_some_and(|age| age < LAG)
            };
            for row in data.rows_mut() {
                if row["vmid"].as_u64().is_some_and(new)
                    && let Some(row) = row.as_object_mut()
                {
                    row.remove("name");
                    row.insert("status".to_owned(), json!("unknown"));
                }
            }
            Ok(data)
        }
        _ => run_straight(shared, route, call).await,
    }
}

/// The number is reserved, and the worker that should go on vanishes.
fn stuck(shared: &Shared, call: &Call) -> String {
    shared.with(|world, _| {
        let mut vm = Vm::new(call.vmid(), &call.node);
        vm.config.insert("lock".to_owned(), "create".to_owned());
        world.hypervisor.vms.entry(call.vmid()).or_insert(vm);
        tasks::begin(
            world,
            &call.node,
            "qmcreate",
            call.text("vmid"),
            &call.caller,
            Work::Doomed(LOST.to_owned()),
        )
    })
}

fn config(shared: &Shared, call: &Call) -> Option<std::collections::BTreeMap<String, String>> {
    shared.read(|world, _| world.hypervisor.vms.get(&call.vmid()).map(|vm| vm.config.clone()))
}

/// How many seconds ago a VM was made.
fn age(shared: &Shared, vmid: u32, now: i64) -> Option<i64> {
    let meta = shared
        .read(|world, _| world.hypervisor.vms.get(&vmid).map(|vm| vm.get("meta").map(str::to_owned)))?;
    // One that is being made has no date yet.
    let Some(meta) = meta else { return Some(0) };
    let made = meta.split(',').find_map(|part| part.strip_prefix("ctime=")?.parse::<i64>().ok())?;
    Some(now - made)
}
