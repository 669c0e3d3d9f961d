//! Pools and their members.

use serde_json::{Value, json};

use super::answer::Data;
use super::cluster;
use super::request::Call;
use crate::hypervisor::access::Pool;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need_any;
use crate::world::World;

fn find<'a>(world: &'a World, name: &str) -> Result<&'a Pool, Refusal> {
    let pool = world.hypervisor.access.pools.get(name);
    pool.ok_or_else(|| Refusal::failed(format!("pool '{name}' does not exist")))
}

fn row(name: &str, pool: &Pool) -> Value {
    let mut row = json!({ "poolid": name });
    if let Some(comment) = &pool.comment {
        row["comment"] = json!(comment);
    }
    row
}

fn members(world: &World, pool: &Pool, call: &Call) -> Vec<Value> {
    let wanted = |kind: &str| call.get("type").is_none_or(|asked| asked == kind);
    let hypervisor = &world.hypervisor;
    let vms = pool.vms.iter().filter_map(|vmid| hypervisor.vms.get(vmid)).filter(|_| wanted("qemu"));
    let mut rows: Vec<Value> = vms.map(|vm| json!(cluster::vm_row(vm, world))).collect();
    let storages = pool.storages.iter().filter_map(|id| hypervisor.storages.defined.get(id));
    for storage in storages.filter(|_| wanted("storage")) {
        rows.extend(storage.nodes.iter().map(|node| cluster::storage_row(storage, node, world)));
    }
    rows
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let access = &world.hypervisor.access;
    if let Some(name) = call.get("poolid") {
        let pool = find(world, name)?;
        let mut row = row(name, pool);
        row["members"] = members(world, pool, call).into();
        return Ok(json!([row]).into());
    }
    let shown = |name: &String| access.may(&call.caller, &format!("/pool/{name}"), "Pool.Audit");
    let rows = access.pools.iter().filter(|(name, _)| shown(name)).map(|(name, pool)| row(name, pool));
    Ok(rows.collect::<Value>().into())
}

pub(super) fn read(world: &World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("poolid");
    let pool = find(world, name)?;
    let mut row = row(name, pool);
    row["members"] = members(world, pool, call).into();
    Ok(row.into())
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (pools, name) = (&mut world.hypervisor.access.pools, call.text("poolid"));
    if pools.contains_key(name) {
        return Err(Refusal::failed(format!("create pool failed: pool '{name}' already exists")));
    }
    if let Some((parent, _)) = name.rsplit_once('/').filter(|(parent, _)| !pools.contains_key(*parent)) {
        return Err(Refusal::failed(format!(
            "create pool failed: parent '{parent}' of pool '{name}' does not exist"
        )));
    }
    let leaf = name.rsplit('/').next().unwrap_or(name);
    if !leaf.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(Refusal::failed("create pool failed: pool name must start with a letter"));
    }
    pools
        .insert(name.to_owned(), Pool { comment: call.get("comment").map(str::to_owned), ..Pool::default() });
    Ok(Value::Null.into())
}

pub(super) fn update(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let failed = |text: String| Err(Refusal::failed(format!("update pools failed: {text}")));
    let name = call.text("poolid");
    let vms: Vec<u32> = call.list("vms").iter().filter_map(|id| id.parse().ok()).collect();
    let storages = call.list("storage");
    let remove = call.flag("delete");
    let hypervisor = &world.hypervisor;
    let Some(pool) = hypervisor.access.pools.get(name) else {
        return failed(format!("pool '{name}' does not exist"));
    };
    let access = &hypervisor.access;
    // What is not allowed is told as a failure of the whole.
    let may = |path: String, any: &[&str]| {
        need_any(access, &call.caller, &path, any)
            .map_err(|refusal| Refusal::failed(format!("update pools failed: {}", refusal.in_task())))
    };
    for vmid in &vms {
        may(format!("/vms/{vmid}"), &["Permissions.Modify", "VM.Allocate"])?;
        match access.pool_of(*vmid) {
            _ if remove && !pool.vms.contains(vmid) => {
                return failed(format!("VM {vmid} is not a pool member"));
            }
            Some(other) if !remove && other == name => {
                return failed(format!("VM {vmid} is already a pool member"));
            }
            Some(other) if !remove && !call.flag("allow-move") => {
                return failed(format!(
                    "VM {vmid} belongs already to pool '{other}' and 'allow-move' is not set"
                ));
            }
            Some(other) if !remove => may(format!("/pool/{other}"), &["Pool.Allocate"])?,
            _ => {}
        }
    }
    for storage in &storages {
        may(format!("/storage/{storage}"), &["Permissions.Modify", "Datastore.Allocate"])?;
        if remove && !pool.storages.contains(storage) {
            return failed(format!("Storage '{storage}' is not a pool member"));
        }
        if !remove && pool.storages.contains(storage) {
            return failed(format!("Storage '{storage}' is already a pool member"));
        }
    }
    let pools = &mut world.hypervisor.access.pools;
    if !remove {
        for pool in pools.values_mut() {
            pool.vms.retain(|vmid| !vms.contains(vmid));
        }
    }
    if let Some(pool) = pools.get_mut(name) {
        if let Some(comment) = call.get("comment") {
            pool.comment = Some(comment.to_owned());
        }
        if remove {
            pool.vms.retain(|vmid| !vms.contains(vmid));
            pool.storages.retain(|id| !storages.contains(id));
        } else {
            pool.vms.extend(vms);
            pool.storages.extend(storages);
        }
    }
    Ok(Value::Null.into())
}

/// Only an empty pool goes. Members that were destroyed elsewhere do not count.
pub(super) fn delete(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (hypervisor, name) = (&mut world.hypervisor, call.text("poolid"));
    let failed = |text: String| Err(Refusal::failed(format!("delete pool failed: {text}")));
    let Some(pool) = hypervisor.access.pools.get(name) else {
        return failed(format!("pool '{name}' does not exist"));
    };
    let below = format!("{name}/");
    let part = hypervisor.access.pools.keys().find(|other| other.starts_with(&below));
    let vm = pool.vms.iter().find(|vmid| hypervisor.vms.contains_key(vmid));
    let storage = pool.storages.iter().find(|id| hypervisor.storages.defined.contains_key(*id));
    let holds = part
        .map(|part| format!("pool '{part}'"))
        .or_else(|| vm.map(|vmid| format!("VM {vmid}")))
        .or_else(|| storage.map(|id| format!("storage '{id}'")));
    if let Some(holds) = holds {
        return failed(format!("pool '{name}' is not empty (contains {holds})"));
    }
    hypervisor.access.pools.remove(name);
    Ok(Value::Null.into())
}
