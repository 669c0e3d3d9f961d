//! What the guest agent answers, if the guest has one.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::power::{AGENT_PATIENCE, agent_answers};
use crate::hypervisor::refusal::Refusal;
use crate::world::World;

fn must_answer(world: &World, call: &Call) -> Result<(), Refusal> {
    let vmid = call.vmid();
    let vm = world.hypervisor.vms.get(&vmid).filter(|vm| vm.node == call.node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(&call.node, vmid))?;
    if !vm.agent_enabled() {
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
