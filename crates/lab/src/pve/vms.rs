//! VMs: creation, configuration, power, state.

use serde_json::{Map, Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::configure::{self, Change};
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::{cloudinit, create as creation, drive, power};
use crate::world::World;

fn find<'a>(world: &'a World, call: &Call) -> Result<&'a Vm, Refusal> {
    let vm = world.hypervisor.vms.get(&call.vmid()).filter(|vm| vm.node == call.node);
    vm.ok_or_else(|| Refusal::no_vm(&call.node, call.vmid()))
}

/// The row of a VM in lists.
pub(super) fn row(vm: &Vm, world: &World, full: bool) -> Value {
    let running = vm.running.as_ref();
    let status = if running.is_some() { "running" } else { "stopped" };
    let mut row = json!({
        "vmid": vm.vmid, "name": vm.name(), "status": status, "cpus": vm.cores(), "maxmem": vm.memory_bytes(),
        "maxdisk": vm.max_disk(), "mem": 0, "memhost": 0, "disk": 0, "cpu": 0, "netin": 0, "netout": 0,
        "uptime": running.map_or(0, |running| world.now.duration_since(running.since).as_secs().max(0)),
    });
    for key in ["tags", "lock"] {
        if let Some(value) = vm.get(key) {
            row[key] = json!(value);
        }
    }
    if vm.flag("template") {
        row["template"] = json!(1);
    }
    if vm.config.keys().any(|key| is_numbered(key, "serial")) {
        row["serial"] = json!(1);
    }
    if full {
        row["qmpstatus"] = json!(status);
    }
    if let Some(running) = running {
        row["pid"] = json!(running.pid);
        row["mem"] = json!(vm.memory_bytes() / 4);
        row["memhost"] = json!(vm.memory_bytes() / 3);
        row["cpu"] = json!(0.01);
        for kind in ["cpu", "io", "memory"] {
            for how in ["some", "full"] {
                row[format!("pressure{kind}{how}")] = json!(0);
            }
        }
        if full {
            let card = |key: &str| format!("tap{}i{}", vm.vmid, key.trim_start_matches("net"));
            let nics = vm.nics().map(|(key, _)| (card(key), json!({"netin": 0, "netout": 0})));
            row["nics"] = Value::Object(nics.collect::<Map<_, _>>());
        }
    }
    row
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let here = world.hypervisor.vms.values().filter(|vm| vm.node == call.node);
    Ok(here.map(|vm| row(vm, world, call.flag("full"))).collect::<Value>().into())
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let mut row = row(vm, world, true);
    row["ha"] = json!({"managed": 0});
    if vm.agent_enabled() {
        row["agent"] = json!(1);
    }
    Ok(row.into())
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    if let Some(pool) = call.get("pool") {
        return Err(Refusal::Forbidden(format!("Permission check failed (pool '{pool}' does not exist)")));
    }
    let config = call.options();
    let upid = creation::create(world, &call.node, call.vmid(), config, call.flag("start"), &call.caller)?;
    Ok(json!(upid).into())
}

pub(super) fn config(world: &World, call: &Call) -> Result<Data, Refusal> {
    Ok(find(world, call)?.answer(call.flag("current")).into())
}

pub(super) fn pending(world: &World, call: &Call) -> Result<Data, Refusal> {
    Ok(find(world, call)?.pending_answer().into())
}

fn change(call: &Call) -> Result<Change, Refusal> {
    only_root(call, "skiplock")?;
    Ok(Change {
        set: call.options(),
        delete: call.list("delete"),
        revert: call.list("revert"),
        digest: call.get("digest").map(str::to_owned),
        force: call.flag("force"),
    })
}

fn only_root(call: &Call, name: &str) -> Result<(), Refusal> {
    if call.get(name).is_some() && call.caller != "root@pam" {
        return Err(Refusal::parameter(name, "Only root may use this option."));
    }
    Ok(())
}

pub(super) fn configure_now(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    configure::now(world, &call.node, call.vmid(), change(call)?, &call.caller)?;
    Ok(Value::Null.into())
}

pub(super) fn configure_later(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    Ok(json!(configure::later(world, &call.node, call.vmid(), change(call)?, &call.caller)?).into())
}

pub(super) fn cloudinit_dump(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    Ok(json!(match call.text("type") {
        "user" => cloudinit::user_data(vm),
        "network" => cloudinit::network_config(vm),
        _ => cloudinit::meta_data(vm),
    })
    .into())
}

/// Whether it is a size, or an increase of one.
pub(super) fn is_new_size(text: &str) -> bool {
    drive::parse_size(text.strip_prefix('+').unwrap_or(text)).is_some()
}

pub(super) fn resize(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    let digest = call.get("digest").map(str::to_owned);
    let (disk, size) = (call.text("disk"), call.text("size"));
    Ok(json!(power::resize(world, &call.node, call.vmid(), disk, size, digest, &call.caller)).into())
}

pub(super) fn destroy(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    Ok(json!(power::destroy(world, &call.node, call.vmid(), call.flag("purge"), &call.caller)?).into())
}

pub(super) fn start(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    only_root(call, "force-cpu")?;
    Ok(json!(power::start(world, &call.node, call.vmid(), &call.caller)).into())
}

pub(super) fn stop(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    only_root(call, "keepActive")?;
    Ok(json!(power::stop(world, &call.node, call.vmid(), &call.caller)).into())
}

pub(super) fn shutdown(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    only_root(call, "keepActive")?;
    let (patience, force) = (call.number("timeout"), call.flag("forceStop"));
    Ok(json!(power::shutdown(world, &call.node, call.vmid(), patience, force, &call.caller)).into())
}

pub(super) fn reboot(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    Ok(json!(power::reboot(world, &call.node, call.vmid(), call.number("timeout"), &call.caller)?).into())
}

pub(super) fn reset(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    Ok(json!(power::reset(world, &call.node, call.vmid(), &call.caller)?).into())
}
