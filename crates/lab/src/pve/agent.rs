//! What the guest agent answers, if the guest has one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::guest::Guest;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::work::AGENT_PATIENCE;
use crate::operations::power::agent_answers;
use crate::world::World;

fn must_answer(world: &World, call: &Call) -> Result<(), Refusal> {
    let vmid = call.vmid();
    let vm = world.hypervisor.vms.get(&vmid).filter(|vm| vm.node == call.node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(&call.node, vmid))?;
    // One that is switched off is configured all the same; it just does not run.
    if vm.get("agent").is_none() {
        return Err(Refusal::failed("No QEMU guest agent configured"));
    }
    if vm.running.is_none() {
        return Err(Refusal::failed(format!("VM {vmid} is not running")));
    }
    if !agent_answers(world, vm) {
        return Err(Refusal::FailedAfter(AGENT_PATIENCE, "QEMU guest agent is not running".to_owned()));
    }
    Ok(())
}

pub(super) fn ping(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": {}}).into())
}

pub(super) fn interfaces(world: &World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    let loopback = ["127.0.0.1/8", "::1/128"].map(|net| net.parse::<ipnet::IpNet>().ok());
    let loopback: Vec<ipnet::IpNet> = loopback.into_iter().flatten().collect();
    let cards = world.machines.addresses(call.vmid());
    let mut rows = vec![interface("lo", "00:00:00:00:00:00", &loopback)];
    if let Some(vm) = world.hypervisor.vms.get(&call.vmid())
        && let Some(guest) = &vm.guest
    {
        let mac = vm.nics().find_map(|(_, parts)| parts.get("macaddr").map(|mac| mac.to_lowercase()));
        rows.push(interface(&guest.interface, &mac.unwrap_or_default(), &guest.addresses));
        return Ok(json!({ "result": rows }).into());
    }
    rows.extend(
        cards.iter().enumerate().map(|(index, (mac, nets))| interface(&format!("eth{index}"), mac, nets)),
    );
    Ok(json!({ "result": rows }).into())
}

fn interface(name: &str, mac: &str, nets: &[ipnet::IpNet]) -> Value {
    let address = |net: &ipnet::IpNet| {
        let kind = if matches!(net.addr(), IpAddr::V4(_)) { "ipv4" } else { "ipv6" };
        json!({"ip-address": net.addr(), "ip-address-type": kind, "prefix": net.prefix_len()})
    };
    json!({
        "name": name, "hardware-address": mac, "ip-addresses": nets.iter().map(address).collect::<Vec<_>>(),
        "statistics": {
            "rx-bytes": 0, "rx-packets": 0, "rx-errs": 0, "rx-dropped": 0,
            "tx-bytes": 0, "tx-packets": 0, "tx-errs": 0, "tx-dropped": 0,
        },
    })
}

/// The guest, if it is one that can tell more than its addresses.
fn guest<'a>(world: &'a World, call: &Call) -> Result<Option<&'a Guest>, Refusal> {
    must_answer(world, call)?;
    Ok(world.hypervisor.vms.get(&call.vmid()).and_then(|vm| vm.guest.as_ref()))
}

/// Talos' agent knows what an agent must.
const TALOS: &[(&str, &str)] =
    &[("id", "talos"), ("name", "Talos"), ("pretty-name", "Talos"), ("machine", "x86_64")];
const COMMANDS: &[&str] =
    &["guest-ping", "guest-info", "guest-network-get-interfaces", "guest-get-osinfo", "guest-get-host-name"];

pub(super) fn os(world: &World, call: &Call) -> Result<Data, Refusal> {
    let talos = || TALOS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let os: BTreeMap<String, String> = guest(world, call)?.map_or_else(talos, |guest| guest.os.clone());
    Ok(json!({ "result": os }).into())
}

pub(super) fn host_name(world: &World, call: &Call) -> Result<Data, Refusal> {
    let name = match guest(world, call)? {
        Some(guest) => guest.hostname.clone(),
        None => {
            world.hypervisor.vms.get(&call.vmid()).map(crate::hypervisor::vm::Vm::name).unwrap_or_default()
        }
    };
    Ok(json!({"result": {"host-name": name}}).into())
}

pub(super) fn info(world: &World, call: &Call) -> Result<Data, Refusal> {
    let version = guest(world, call)?.map_or("9.0.0", |guest| &guest.agent_version).to_owned();
    let command = |name: &&str| json!({"name": name, "enabled": true, "success-response": true});
    let commands: Vec<Value> = COMMANDS.iter().map(command).collect();
    Ok(json!({"result": {"version": version, "supported_commands": commands}}).into())
}

/// No one is logged in.
pub(super) fn users(world: &World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": []}).into())
}

/// A question to which this guest's answer is an empty list.
pub(super) fn empty_list(world: &World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": []}).into())
}

pub(super) fn vcpus(world: &World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    let cores = world.hypervisor.vms.get(&call.vmid()).map_or(1, crate::hypervisor::vm::Vm::cores);
    let row = |id: u32| json!({"logical-id": id, "online": true, "can-offline": id > 0});
    Ok(json!({"result": (0..cores).map(row).collect::<Vec<_>>()}).into())
}

pub(super) fn time(world: &World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": world.now.as_second().saturating_mul(1_000_000_000)}).into())
}

pub(super) fn timezone(world: &World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": {"zone": "UTC", "offset": 0}}).into())
}

pub(super) fn thawed(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": "thawed"}).into())
}

pub(super) fn trimmed(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    Ok(json!({"result": {"paths": []}}).into())
}

fn not_here(call: &Call, command: &str) -> Refusal {
    let text = format!("VM {} qga command '{command}' failed - command not available", call.vmid());
    Refusal::failed(text)
}

pub(super) fn exec(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    must_answer(world, call)?;
    let pid = u32::try_from(100 + world.rng.below(900)).unwrap_or(100);
    let guest = world.hypervisor.vms.get_mut(&call.vmid()).and_then(|vm| vm.guest.as_mut());
    let guest = guest.ok_or_else(|| not_here(call, "guest-exec"))?;
    guest.ran.insert(pid, call.params.all("command").join(" "));
    Ok(json!({ "pid": pid }).into())
}

pub(super) fn exec_status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let guest = guest(world, call)?.ok_or_else(|| not_here(call, "guest-exec-status"))?;
    let pid = call.number("pid").and_then(|pid| u32::try_from(pid).ok());
    let Some(command) = pid.and_then(|pid| guest.ran.get(&pid)) else {
        let text = format!("Agent error: PID {} does not exist", call.text("pid"));
        return Err(Refusal::failed(text));
    };
    Ok(match guest.commands.get(command) {
        Some(output) => json!({"exited": 1, "exitcode": 0, "out-data": output, "out-truncated": 0}),
        None => json!({"exited": 1, "exitcode": 127, "err-data": "not found\n", "err-truncated": 0}),
    }
    .into())
}

pub(super) fn file(world: &World, call: &Call) -> Result<Data, Refusal> {
    let guest = guest(world, call)?.ok_or_else(|| not_here(call, "guest-file-open"))?;
    let name = call.text("file");
    match guest.files.get(name) {
        Some(content) => Ok(json!({"content": content, "bytes-read": content.len()}).into()),
        None => Err(Refusal::failed(format!(
            "can't open {name}: Agent error: failed to open file '{name}' (mode: 'r'): No such file or directory"
        ))),
    }
}
