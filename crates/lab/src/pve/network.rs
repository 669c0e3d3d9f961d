//! The network of a host. A change is written to a file of its own and shown at once; it becomes true when the network is
//! reloaded, which is a task.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::Data;
use super::kept::fields;
use super::request::Call;
use crate::hypervisor::kept::Fields;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::work::Work;
use crate::hypervisor::{Host, VNETS};
use crate::operations::tasks;
use crate::world::World;

/// The interfaces of a host whose network no one changed: a bridge with a card for each.
fn first(host: &Host) -> BTreeMap<String, Fields> {
    let fields = |value: Value| -> Fields { serde_json::from_value(value).unwrap_or_default() };
    let mut all = BTreeMap::new();
    for (index, bridge) in host.bridges.iter().enumerate() {
        let card = format!("nic{index}");
        let mut row = json!({
            "type": "bridge", "active": 1, "autostart": 1, "bridge_fd": "0", "bridge_stp": "off",
            "bridge_ports": card, "families": ["inet"], "method6": "manual", "priority": 4 + index,
            "method": if index == 0 { "static" } else { "manual" },
        });
        if index == 0 {
            row["address"] = json!(host.address);
            row["netmask"] = json!("24");
            row["cidr"] = json!(format!("{}/24", host.address));
        }
        all.insert(bridge.clone(), fields(row));
        let card_row = json!({
            "type": "eth", "active": 1, "exists": 1, "families": ["inet"], "method": "manual",
            "method6": "manual", "priority": 2 + index,
        });
        all.insert(card, fields(card_row));
    }
    all
}

/// The interfaces as the files say, those that wait for a reload included.
fn shown(host: &Host) -> BTreeMap<String, Fields> {
    host.next_network.clone().or_else(|| host.network.clone()).unwrap_or_else(|| first(host))
}

fn host<'a>(world: &'a World, call: &Call) -> Result<&'a Host, Refusal> {
    world.hypervisor.hosts.get(&call.node).ok_or_else(|| Refusal::failed("no such node"))
}

fn row(name: &str, fields: &Fields) -> Value {
    let mut row = fields.clone();
    row.insert("iface".to_owned(), json!(name));
    json!(row)
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let host = host(world, call)?;
    let access = &world.hypervisor.access;
    let wanted = |kind: &str| match call.get("type") {
        None | Some("include_sdn") => true,
        Some("any_bridge" | "any_local_bridge") => matches!(kind, "bridge" | "OVSBridge"),
        Some(asked) => asked == kind,
    };
    // A bridge is shown to those who may use it.
    let visible = |name: &str, kind: &str| {
        let path = format!("/sdn/zones/localnetwork/{name}");
        !matches!(kind, "bridge" | "OVSBridge")
            || access.may(&call.caller, &path, "SDN.Audit")
            || access.may(&call.caller, &path, "SDN.Use")
    };
    let all = shown(host);
    let rows = all.iter().filter(|(name, fields)| {
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        wanted(kind) && visible(name, kind)
    });
    let mut rows: Vec<Value> = rows.map(|(name, fields)| row(name, fields)).collect();
    // Vnets are bridges of every host, and are listed only where they are asked for.
    if matches!(call.get("type"), Some("include_sdn" | "any_bridge")) {
        let vnets = world.hypervisor.kept.named(VNETS).filter_map(|(vnet, _)| {
            let path = format!("/sdn/zones/{}/{vnet}", world.hypervisor.zone_of(vnet)?);
            let may = |privilege| access.may(&call.caller, &path, privilege);
            (may("SDN.Audit") || may("SDN.Use"))
                .then(|| json!({"iface": vnet, "type": "vnet", "active": "1"}))
        });
        rows.extend(vnets);
    }
    Ok(Data::with_changes(Value::Array(rows), changes(host)))
}

/// What a reload would change, as a difference of the two files.
fn changes(host: &Host) -> Option<String> {
    let next = host.next_network.as_ref()?;
    let now = host.network.clone().unwrap_or_else(|| first(host));
    let mut text =
        String::from("--- /etc/network/interfaces\n+++ /etc/network/interfaces.new\n@@ -1 +1 @@\n");
    let removed = now.keys().filter(|name| !next.contains_key(*name));
    text.extend(removed.map(|name| format!("-iface {name} inet manual\n")));
    let added = next.iter().filter(|(name, fields)| now.get(*name) != Some(fields));
    text.extend(added.map(|(name, _)| format!("+iface {name} inet manual\n")));
    Some(text)
}

pub(super) fn read(world: &World, call: &Call) -> Result<Data, Refusal> {
    let all = shown(host(world, call)?);
    let fields = all.get(call.text("iface")).ok_or_else(|| missing("interface does not exist"))?;
    Ok(json!(fields).into())
}

fn missing(text: &str) -> Refusal {
    Refusal::parameter("iface", text)
}

fn next<'a>(world: &'a mut World, call: &Call) -> Result<&'a mut BTreeMap<String, Fields>, Refusal> {
    let host = world.hypervisor.hosts.get_mut(&call.node).ok_or_else(|| Refusal::failed("no such node"))?;
    let now = shown(host);
    Ok(host.next_network.get_or_insert(now))
}

/// Options that are shown as numbers. Everything else is read from a text file and stays text.
const NUMBERS: &[&str] = &["active", "autostart", "bridge_vlan_aware", "exists", "priority"];

/// What Proxmox makes of the options of an interface.
fn complete(mut fields: Fields, order: usize) -> Fields {
    for (key, value) in &mut fields {
        if value.is_number() && !NUMBERS.contains(&key.as_str()) {
            *value = json!(value.to_string());
        }
    }
    for (cidr, address, netmask) in [("cidr", "address", "netmask"), ("cidr6", "address6", "netmask6")] {
        let split = fields.get(cidr).and_then(Value::as_str).and_then(|text| text.split_once('/'));
        let split = split.map(|(address, mask)| (address.to_owned(), mask.to_owned()));
        if let Some((ip, mask)) = split {
            fields.insert(address.to_owned(), json!(ip));
            fields.insert(netmask.to_owned(), json!(mask));
        }
    }
    let method = |there: bool| json!(if there { "static" } else { "manual" });
    let (four, six) = (fields.contains_key("address"), fields.contains_key("address6"));
    fields.insert("method".to_owned(), method(four));
    fields.insert("method6".to_owned(), method(six));
    fields.insert("families".to_owned(), if six { json!(["inet", "inet6"]) } else { json!(["inet"]) });
    fields.entry("priority".to_owned()).or_insert_with(|| json!(order));
    if let Some(comment) = fields.get("comments").and_then(Value::as_str).map(str::to_owned) {
        fields.insert("comments".to_owned(), json!(format!("{}\n", comment.trim_end())));
    }
    if fields.get("type") == Some(&json!("bridge")) {
        for (key, value) in [("bridge_fd", "0"), ("bridge_stp", "off"), ("bridge_ports", "")] {
            fields.entry(key.to_owned()).or_insert_with(|| json!(value));
        }
    }
    fields
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("iface").to_owned();
    let mut given = fields(call);
    given.remove("iface");
    if given.get("type") == Some(&json!("vlan"))
        && let Some((device, tag)) = name.rsplit_once('.')
    {
        given.entry("vlan-raw-device".to_owned()).or_insert_with(|| json!(device));
        given.entry("vlan-id".to_owned()).or_insert_with(|| json!(tag));
    }
    let all = next(world, call)?;
    if all.contains_key(&name) {
        return Err(missing("interface already exists"));
    }
    let order = all.len() + 4;
    all.insert(name, complete(given, order));
    Ok(Value::Null.into())
}

pub(super) fn update(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (set, delete) = (fields(call), call.list("delete"));
    let all = next(world, call)?;
    let order = all.len() + 4;
    let interface = all.get_mut(call.text("iface")).ok_or_else(|| missing("interface does not exist"))?;
    interface.extend(set);
    interface.retain(|key, _| !delete.contains(key));
    for (cidr, rest) in [("cidr", ["address", "netmask"]), ("cidr6", ["address6", "netmask6"])] {
        if delete.iter().any(|key| key == cidr) {
            interface.retain(|key, _| !rest.contains(&key.as_str()));
        }
    }
    *interface = complete(std::mem::take(interface), order);
    Ok(Value::Null.into())
}

pub(super) fn remove(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let removed = next(world, call)?.remove(call.text("iface"));
    removed.ok_or_else(|| missing("interface does not exist"))?;
    Ok(Value::Null.into())
}

/// Forgets the changes that wait.
pub(super) fn revert(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    if let Some(host) = world.hypervisor.hosts.get_mut(&call.node) {
        host.next_network = None;
    }
    Ok(Value::Null.into())
}

/// Makes the changes that wait true.
pub(super) fn reload(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    Ok(json!(tasks::begin(world, &call.node, "srvreload", "networking", &call.caller, Work::ReloadNetwork))
        .into())
}
