//! Storages and volumes of a node.

use serde_json::{Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::download;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::{Storage, Storages, Volume};
use crate::world::World;

const CONTENTS: &[&str] = &["backup", "images", "import", "iso", "none", "rootdir", "snippets", "vztmpl"];

/// Whether all names in a list are content types.
pub(super) fn content_type(value: &str) -> Result<(), String> {
    match value.split([',', ';', ' ']).find(|kind| !kind.is_empty() && !CONTENTS.contains(kind)) {
        Some(kind) => Err(format!("invalid content type '{kind}'")),
        None => Ok(()),
    }
}

fn figures(storages: &Storages, node: &str, storage: &Storage) -> Value {
    let used = storages.used(node, storage).min(storage.bytes);
    json!({
        "type": storage.kind.as_str(), "content": storage.content_list(), "shared": u8::from(storage.shared),
        "active": 1, "enabled": 1, "total": storage.bytes, "used": used, "avail": storage.bytes - used,
    })
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let storages = &world.hypervisor.storages;
    let wanted = call.list("content");
    let here = storages.defined.values().filter(|storage| storage.nodes.contains(&call.node));
    let here = here.filter(|storage| call.get("storage").is_none_or(|id| id == storage.id));
    let here =
        here.filter(|storage| wanted.is_empty() || wanted.iter().any(|kind| storage.content.contains(kind)));
    let rows = here.map(|storage| {
        let mut row = figures(storages, &call.node, storage);
        let (used, total) = (row["used"].as_f64().unwrap_or(0.0), row["total"].as_f64().unwrap_or(1.0));
        row["storage"] = json!(storage.id);
        row["used_fraction"] = json!(used / total.max(1.0));
        row
    });
    Ok(rows.collect::<Value>().into())
}

fn named<'a>(world: &'a World, call: &Call) -> Result<&'a Storage, Refusal> {
    let here = world.hypervisor.storages.defined.get(call.text("storage"));
    here.filter(|s| s.nodes.contains(&call.node))
        .ok_or_else(|| Refusal::parameter("storage", "No such storage."))
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    Ok(figures(&world.hypervisor.storages, &call.node, named(world, call)?).into())
}

fn volume_row(volume: &Volume) -> Value {
    let mut row = json!({
        "volid": volume.volid, "content": volume.content, "format": volume.format, "ctime": volume.ctime.as_second(),
        // Of an image that can be imported the file's own length is shown, not that of the disk in it.
        "size": if volume.content == "images" { volume.size } else { volume.used },
    });
    if let Some(vmid) = volume.vmid {
        row["vmid"] = json!(vmid);
        row["used"] = json!(volume.used);
        row["parent"] = Value::Null;
    }
    row
}

pub(super) fn content(world: &World, call: &Call) -> Result<Data, Refusal> {
    let storage =
        world.hypervisor.storages.usable(&call.node, call.text("storage")).map_err(Refusal::Failed)?;
    let volumes = world.hypervisor.storages.volumes(&call.node, storage);
    let volumes = volumes.filter(|volume| call.get("content").is_none_or(|kind| kind == volume.content));
    let volumes = volumes.filter(|volume| call.get("vmid").is_none() || volume.vmid == Some(call.vmid()));
    Ok(volumes.map(volume_row).collect::<Value>().into())
}

/// The full id of the volume that the path names, with or without its storage.
fn volid(call: &Call) -> String {
    let volume = call.text("volume");
    if volume.contains(':') { volume.to_owned() } else { format!("{}:{volume}", call.text("storage")) }
}

pub(super) fn volume(world: &World, call: &Call) -> Result<Data, Refusal> {
    let volid = volid(call);
    let storage =
        world.hypervisor.storages.usable(&call.node, call.text("storage")).map_err(Refusal::Failed)?;
    match world.hypervisor.storages.volume(&call.node, &volid) {
        Some(volume) => Ok(json!({
            "path": storage.path_of(&volid), "format": volume.format, "size": volume.size, "used": volume.used,
        })
        .into()),
        None => Err(Refusal::failed(format!("volume_size_info on '{volid}' failed - no format"))),
    }
}

pub(super) fn remove(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    world.hypervisor.storages.usable(&call.node, call.text("storage")).map_err(Refusal::Failed)?;
    Ok(json!(download::remove(world, &call.node, &volid(call), &call.caller)).into())
}

pub(super) fn download(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let wish = download::Wish {
        storage: call.text("storage").to_owned(),
        url: call.text("url").to_owned(),
        content: call.text("content").to_owned(),
        filename: call.text("filename").to_owned(),
        checksum: call.get("checksum").map(str::to_owned),
        compression: call.get("compression").map(str::to_owned),
    };
    Ok(json!(download::download(world, &call.node, wish, &call.caller)?).into())
}
