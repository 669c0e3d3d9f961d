//! VMs: creation, configuration, power, state.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answer::Data;
use super::request::{Call, decode};
use crate::hypervisor::cloudinit;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need;
use crate::hypervisor::vm::{Vm, is_numbered, shown};
use crate::hypervisor::work::Change;
use crate::operations::{configure, create as creation, power};
use crate::world::World;

pub(super) fn find<'a>(world: &'a World, call: &Call) -> Result<&'a Vm, Refusal> {
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
        row["qmpstatus"] = json!(if vm.paused { "paused" } else { status });
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
    let shown =
        |vm: &&Vm| world.hypervisor.access.may(&call.caller, &format!("/vms/{}", vm.vmid), "VM.Audit");
    let here = world.hypervisor.vms.values().filter(|vm| vm.node == call.node).filter(shown);
    Ok(here.map(|vm| row(vm, world, call.flag("full"))).collect::<Value>().into())
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let mut row = row(vm, world, true);
    row["ha"] = match world.hypervisor.ha.get(&format!("vm:{}", vm.vmid)) {
        Some(options) => {
            json!({"managed": 1, "state": options.get("state").map_or("started", String::as_str)})
        }
        None => json!({"managed": 0}),
    };
    if vm.agent_enabled() {
        row["agent"] = json!(1);
    }
    Ok(row.into())
}

/// Keys for cloud-init come encoded once more than everything else.
fn ssh_keys(call: &Call) -> Result<(), Refusal> {
    creation::check_ssh_keys(&decode(call.text("sshkeys"), false))
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    ssh_keys(call)?;
    if let Some(storage) = call.get("storage") {
        need(
            &world.hypervisor.access,
            &call.caller,
            &format!("/storage/{storage}"),
            "Datastore.AllocateSpace",
        )?;
    }
    let (config, start, pool) = (call.options(), call.flag("start"), call.get("pool"));
    let upid = creation::create(world, &call.node, call.vmid(), config, start, pool, &call.caller)?;
    if call.flag("ha-managed") {
        let state = if start { "started" } else { "stopped" };
        let options = BTreeMap::from([("state".to_owned(), state.to_owned())]);
        world.hypervisor.ha.insert(format!("vm:{}", call.vmid()), options);
    }
    Ok(json!(upid).into())
}

pub(super) fn config(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    match call.get("snapshot") {
        Some(name) => super::snapshots::config_of(vm, name, false),
        None => Ok(vm.answer(call.flag("current")).into()),
    }
}

pub(super) fn pending(world: &World, call: &Call) -> Result<Data, Refusal> {
    Ok(find(world, call)?.pending_answer().into())
}

fn change(call: &Call) -> Result<Change, Refusal> {
    only_root(call, "skiplock")?;
    ssh_keys(call)?;
    Ok(Change {
        set: call.options(),
        delete: call.list("delete"),
        revert: call.list("revert"),
        digest: call.get("digest").map(str::to_owned),
        force: call.flag("force"),
        skiplock: call.flag("skiplock"),
    })
}

pub(super) fn only_root(call: &Call, name: &str) -> Result<(), Refusal> {
    if call.get(name).is_some_and(|value| !matches!(value, "" | "0")) && call.caller != "root@pam" {
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
    let skiplock = call.flag("skiplock");
    Ok(json!(power::start_with(world, &call.node, call.vmid(), &call.caller, skiplock)).into())
}

pub(super) fn stop(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    only_root(call, "keepActive")?;
    let skiplock = call.flag("skiplock");
    Ok(json!(power::stop(world, &call.node, call.vmid(), &call.caller, skiplock)).into())
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

pub(super) fn suspend(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    Ok(json!(power::pause(world, &call.node, call.vmid(), &call.caller, true)?).into())
}

pub(super) fn resume(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    only_root(call, "skiplock")?;
    Ok(json!(power::pause(world, &call.node, call.vmid(), &call.caller, false)?).into())
}

/// The parts of a VM.
pub(super) fn index(world: &World, call: &Call) -> Result<Data, Refusal> {
    find(world, call)?;
    let names = [
        "config",
        "cloudinit",
        "pending",
        "status",
        "unlink",
        "vncproxy",
        "termproxy",
        "migrate",
        "resize",
        "move",
        "rrd",
        "rrddata",
        "monitor",
        "agent",
        "snapshot",
        "spiceproxy",
        "sendkey",
        "firewall",
        "mtunnel",
        "remote_migrate",
    ];
    Ok(json!(names.map(|name| json!({ "subdir": name }))).into())
}

/// The values of cloud-init, in force and waiting for the drive to be made again.
pub(super) fn cloudinit_values(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let known =
        ["ciuser", "cipassword", "nameserver", "searchdomain", "sshkeys", "citype", "ciupgrade", "cicustom"];
    let rows = vm.config.iter().filter(|(key, _)| known.contains(&key.as_str()));
    Ok(rows.map(|(key, value)| json!({"key": key, "value": shown(key, value)})).collect::<Value>().into())
}

pub(super) fn cloudinit_again(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    find(world, call)?;
    Ok(Value::Null.into())
}

pub(super) fn unlink(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (delete, force) = (call.list("idlist"), call.flag("force"));
    let change = Change { delete, force, ..Change::default() };
    configure::now(world, &call.node, call.vmid(), change, &call.caller)?;
    Ok(Value::Null.into())
}

/// What the process answers to a person's command; it knows one.
pub(super) fn monitor(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    if vm.running.is_none() {
        return Err(Refusal::failed(format!("VM {} not running", vm.vmid)));
    }
    let state = if vm.paused { "paused" } else { "running" };
    Ok(json!(match call.text("command") {
        "info status" => format!("VM status: {state}\r\n"),
        other => format!("unknown command: '{other}'\r\n"),
    })
    .into())
}

pub(super) fn send_key(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    if find(world, call)?.running.is_none() {
        return Err(Refusal::failed(format!("VM {} not running", call.vmid())));
    }
    Ok(Value::Null.into())
}

/// Figures of the last hour, one row a minute.
pub(super) fn figures(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let last = world.now.as_second() / 60 * 60;
    let rows = (0..70).map(|step| last - 60 * (69 - step)).map(|second| {
        let since = vm.running.as_ref().map(|running| running.since.as_second());
        if since.is_none_or(|since| second < since) {
            return json!({ "time": second });
        }
        let mut row = json!({
            "time": second, "cpu": 0.01, "maxcpu": vm.cores(), "mem": vm.memory_bytes() / 4, "maxmem": vm.memory_bytes(),
            "memhost": vm.memory_bytes() / 3, "disk": 0, "maxdisk": vm.max_disk(), "netin": 0, "netout": 0,
            "diskread": 0, "diskwrite": 0,
        });
        for kind in ["cpu", "io", "memory"] {
            for how in ["some", "full"] {
                row[format!("pressure{kind}{how}")] = json!(0);
            }
        }
        row
    });
    Ok(rows.collect::<Value>().into())
}
