//! High availability as far as a caller sees it: resources, and a manager that stands by.

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::work::Migrate;
use crate::operations::power::MANAGED_PATIENCE;
use crate::operations::{daemons, migrate};
use crate::world::World;

/// `vm:100` of `vm:100` or `100`.
fn sid(call: &Call) -> String {
    let text = call.text("sid");
    if text.contains(':') { text.to_owned() } else { format!("vm:{text}") }
}

fn row(world: &World, id: &str) -> Option<Value> {
    let options = world.hypervisor.ha.get(id)?;
    let all = serde_json::to_vec(&world.hypervisor.ha).unwrap_or_default();
    let mut row = json!({"sid": id, "type": "vm", "digest": hex::encode(Sha1::digest(all))});
    for (key, value) in options {
        row[key] = value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number));
    }
    Some(row)
}

pub(super) fn resources(world: &World, _: &Call) -> Result<Data, Refusal> {
    Ok(world.hypervisor.ha.keys().filter_map(|id| row(world, id)).collect::<Value>().into())
}

pub(super) fn resource(world: &World, call: &Call) -> Result<Data, Refusal> {
    let id = sid(call);
    let row = row(world, &id).ok_or_else(|| Refusal::failed(format!("no such resource '{id}'")))?;
    Ok(row.into())
}

/// The manager sees to what changed at its next round.
fn look_after(world: &mut World, id: &str) {
    if let Some(vmid) = id.strip_prefix("vm:").and_then(|id| id.parse().ok()) {
        daemons::ask_manager(world, vmid, Some(MANAGED_PATIENCE));
    }
}

pub(super) fn add(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = sid(call);
    let vmid = id.strip_prefix("vm:").and_then(|id| id.parse().ok());
    let hypervisor = &mut world.hypervisor;
    if !vmid.is_some_and(|vmid: u32| hypervisor.vms.contains_key(&vmid)) {
        return Err(Refusal::failed(format!("resource '{id}' does not exist in cluster")));
    }
    if hypervisor.ha.contains_key(&id) {
        return Err(Refusal::failed(format!("create resource failed: resource ID '{id}' already defined")));
    }
    hypervisor.ha.insert(id.clone(), call.others(&["sid", "type"]));
    look_after(world, &id);
    Ok(Value::Null.into())
}

pub(super) fn update(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = sid(call);
    let Some(options) = world.hypervisor.ha.get_mut(&id) else {
        return Err(Refusal::failed(format!("update resource failed: no such resource '{id}'")));
    };
    options.extend(call.others(&["sid", "digest", "delete"]));
    for key in call.list("delete") {
        options.remove(&key);
    }
    look_after(world, &id);
    Ok(Value::Null.into())
}

pub(super) fn remove(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = sid(call);
    if world.hypervisor.ha.remove(&id).is_none() {
        return Err(Refusal::failed(format!("delete resource failed: no such resource '{id}'")));
    }
    Ok(Value::Null.into())
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let mut rows = vec![
        json!({
            "id": "quorum", "type": "quorum", "node": call.local, "quorate": u8::from(world.hypervisor.quorate()),
            "status": if world.hypervisor.quorate() { "OK" } else { "No quorum on node" },
        }),
        json!({
            "id": "fencing", "type": "fencing", "node": call.local, "armed-state": "standby",
            "status": "standby (CRM watchdog standby)",
        }),
    ];
    for host in world.hypervisor.hosts.values() {
        let (name, at) = (&host.name, world.now.strftime("%a %b %e %H:%M:%S %Y"));
        let state = match (host.online, host.maintenance) {
            (false, _) => format!("{name} (old timestamp - dead?, {at})"),
            (true, true) => format!("{name} (maintenance mode, watchdog active, {at})"),
            (true, false) => format!("{name} (idle, {at})"),
        };
        if host.maintenance || !world.hypervisor.ha.is_empty() {
            rows.push(json!({"id": format!("lrm:{name}"), "type": "lrm", "node": name, "status": state}));
        }
    }
    for (id, options) in &world.hypervisor.ha {
        let state = options.get("state").map_or("started", String::as_str);
        let vmid = id.trim_start_matches("vm:").parse().ok();
        let node = vmid.and_then(|vmid: u32| world.hypervisor.vms.get(&vmid)).map(|vm| vm.node.clone());
        let node = node.unwrap_or_default();
        rows.push(json!({
            "id": format!("service:{id}"), "type": "service", "sid": id, "node": node, "state": state,
            "request_state": state, "crm_state": state, "status": format!("{id} ({node}, {state})"),
        }));
    }
    Ok(Value::Array(rows).into())
}

/// Moves a resource to another host, once its manager gets to it.
pub(super) fn relocate(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = sid(call);
    if !world.hypervisor.ha.contains_key(&id) {
        return Err(Refusal::failed(format!("no such resource '{id}'")));
    }
    let node = call.text("node");
    if !world.hypervisor.hosts.contains_key(node) {
        return Err(Refusal::parameter("node", format!("no such cluster node '{node}'")));
    }
    if let Some(vmid) = id.strip_prefix("vm:").and_then(|id| id.parse::<u32>().ok()) {
        let from = world.hypervisor.vms.get(&vmid).map(|vm| vm.node.clone()).unwrap_or_default();
        if from != node {
            let online = world.hypervisor.vms.get(&vmid).is_some_and(|vm| vm.running.is_some());
            let wish = Migrate { vmid, target: node.to_owned(), online, with_local_disks: false };
            migrate::begin(world, &from, wish, "root@pam")?;
        }
    }
    Ok(json!({"requested-node": node, "sid": id}).into())
}

pub(super) fn no_groups(_: &mut World, call: &Call) -> Result<Data, Refusal> {
    let verb = match call.method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        _ => "delete",
    };
    Err(Refusal::failed(format!("cannot {verb} group: ha groups have been migrated to rules")))
}

pub(super) fn groups(_: &World, _: &Call) -> Result<Data, Refusal> {
    Err(Refusal::failed("cannot index groups: ha groups have been migrated to rules"))
}
