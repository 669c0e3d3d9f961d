//! Mappings of PCI devices: one name for a device on each host, so that no user needs to name an address.

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::{Hypervisor, Mapping};
use crate::world::World;

fn digest(world: &World) -> String {
    let text = serde_json::to_vec(&world.hypervisor.mappings).unwrap_or_default();
    hex::encode(Sha1::digest(text))
}

fn row(name: &str, mapping: &Mapping) -> Value {
    let mut row = json!({"id": name, "type": "pci", "map": mapping.map});
    for (key, value) in &mapping.about {
        row[key] = value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number));
    }
    row
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let hypervisor = &world.hypervisor;
    let shown = |name: &String| {
        let path = format!("/mapping/pci/{name}");
        ["Mapping.Use", "Mapping.Modify", "Mapping.Audit"]
            .iter()
            .any(|p| hypervisor.access.may(&call.caller, &path, p))
    };
    let rows = hypervisor.mappings.iter().filter(|(name, _)| shown(name)).map(|(name, mapping)| {
        let mut row = row(name, mapping);
        if let Some(node) = call.get("check-node") {
            let text = format!("No mapping for node {node}.");
            row["checks"] = match hypervisor.check_mapping(name, mapping, node) {
                _ if !Hypervisor::is_mapped(mapping, node) => {
                    json!([{"severity": "warning", "message": text}])
                }
                Ok(()) => json!([]),
                Err(why) => {
                    json!([{"severity": "error", "message": format!("Invalid configuration: {why}")}])
                }
            };
        }
        row
    });
    Ok(rows.collect::<Value>().into())
}

fn missing(name: &str) -> Refusal {
    Refusal::failed(format!("mapping '{name}' not found"))
}

pub(super) fn read(world: &World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("id");
    let mut row = row(name, world.hypervisor.mappings.get(name).ok_or_else(|| missing(name))?);
    row["digest"] = json!(digest(world));
    Ok(row.into())
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (mappings, name) = (&mut world.hypervisor.mappings, call.text("id"));
    if mappings.contains_key(name) {
        let text = format!("create PCI mapping failed: pci ID '{name}' already defined");
        return Err(Refusal::failed(text));
    }
    let about = call.others(&["id", "map"]);
    mappings.insert(name.to_owned(), Mapping { map: call.params.all("map"), about });
    Ok(Value::Null.into())
}

pub(super) fn update(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    if call.get("digest").is_some_and(|given| given != digest(world)) {
        return Err(Refusal::failed(
            "detected modified configuration - file changed by other user? Try again.",
        ));
    }
    let name = call.text("id");
    let mapping = world.hypervisor.mappings.get_mut(name).ok_or_else(|| missing(name))?;
    let map = call.params.all("map");
    if !map.is_empty() {
        mapping.map = map;
    }
    mapping.about.extend(call.others(&["id", "map", "digest", "delete"]));
    for key in call.list("delete") {
        mapping.about.remove(&key);
    }
    Ok(Value::Null.into())
}

pub(super) fn delete(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    world.hypervisor.mappings.remove(call.text("id"));
    Ok(Value::Null.into())
}
