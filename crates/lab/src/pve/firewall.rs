//! The firewall of one VM: options and rules, kept and shown; nothing is filtered.

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::vm::Firewall;
use crate::world::World;

/// The digest of the file, which is empty until something is set.
fn digest(firewall: &Firewall) -> String {
    let mut text = String::new();
    for (key, value) in &firewall.options {
        text += &format!("{key}: {value}\n");
    }
    for rule in &firewall.rules {
        text += &rule.iter().map(|(key, value)| format!("{key} {value} ")).collect::<String>();
    }
    hex::encode(Sha1::digest(text))
}

fn read<'a>(world: &'a World, call: &Call) -> Option<&'a Firewall> {
    world.hypervisor.vms.get(&call.vmid()).map(|vm| &vm.firewall)
}

fn change<'a>(world: &'a mut World, call: &Call) -> Result<&'a mut Firewall, Refusal> {
    let firewall = world.hypervisor.vms.get_mut(&call.vmid()).map(|vm| &mut vm.firewall);
    let firewall = firewall.ok_or_else(|| Refusal::no_vm(&call.node, call.vmid()))?;
    if call.get("digest").is_some_and(|given| given != digest(firewall)) {
        return Err(Refusal::failed(
            "detected modified configuration - file changed by other user? Try again.",
        ));
    }
    Ok(firewall)
}

fn number(value: &str) -> Value {
    value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number))
}

pub(super) fn options(world: &World, call: &Call) -> Result<Data, Refusal> {
    let none = Firewall::default();
    let firewall = read(world, call).unwrap_or(&none);
    let mut row = json!({ "digest": digest(firewall) });
    for (key, value) in &firewall.options {
        row[key] = number(value);
    }
    Ok(row.into())
}

pub(super) fn set_options(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let set = call.others(&["node", "vmid", "digest", "delete"]);
    let delete = call.list("delete");
    let firewall = change(world, call)?;
    firewall.options.extend(set);
    firewall.options.retain(|key, _| !delete.contains(key));
    Ok(Value::Null.into())
}

fn rule_row(firewall: &Firewall, pos: usize) -> Option<Value> {
    let mut row = json!({"pos": pos, "digest": digest(firewall)});
    for (key, value) in firewall.rules.get(pos)? {
        row[key] = if key == "enable" { number(value) } else { json!(value) };
    }
    Some(row)
}

pub(super) fn rules(world: &World, call: &Call) -> Result<Data, Refusal> {
    let none = Firewall::default();
    let firewall = read(world, call).unwrap_or(&none);
    Ok((0..firewall.rules.len()).filter_map(|pos| rule_row(firewall, pos)).collect::<Value>().into())
}

fn position(call: &Call) -> usize {
    call.number("pos").and_then(|pos| usize::try_from(pos).ok()).unwrap_or(usize::MAX)
}

pub(super) fn rule(world: &World, call: &Call) -> Result<Data, Refusal> {
    let row = read(world, call).and_then(|firewall| rule_row(firewall, position(call)));
    Ok(row.ok_or_else(|| no_rule(call))?.into())
}

fn no_rule(call: &Call) -> Refusal {
    Refusal::parameter("pos", format!("no rule at position {}", call.text("pos")))
}

pub(super) fn add_rule(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let rule = call.others(&["node", "vmid", "digest", "pos"]);
    let at = position(call);
    let firewall = change(world, call)?;
    // A new rule goes to the top unless a place is named.
    let at = if at == usize::MAX { 0 } else { at.min(firewall.rules.len()) };
    firewall.rules.insert(at, rule);
    Ok(Value::Null.into())
}

pub(super) fn change_rule(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let set = call.others(&["node", "vmid", "digest", "pos", "delete", "moveto"]);
    let delete = call.list("delete");
    let rule = change(world, call)?.rules.get_mut(position(call)).ok_or_else(|| no_rule(call))?;
    rule.extend(set);
    rule.retain(|key, _| !delete.contains(key));
    Ok(Value::Null.into())
}

pub(super) fn remove_rule(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let at = position(call);
    let firewall = change(world, call)?;
    if at >= firewall.rules.len() {
        return Err(no_rule(call));
    }
    firewall.rules.remove(at);
    Ok(Value::Null.into())
}
