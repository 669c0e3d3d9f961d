//! Storages and volumes of a node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::answer::Data;
use super::request::Call;
use crate::StorageKind;
use crate::hypervisor::import::{Import, import};
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need;
use crate::hypervisor::storage::{Storage, Storages, Volume};
use crate::hypervisor::{download, drive};
use crate::schema;
use crate::world::World;

fn figures(storages: &Storages, node: &str, storage: &Storage) -> Value {
    let used = storages.used(node, storage).min(storage.bytes);
    json!({
        "type": storage.kind.as_str(), "content": storage.content_list(), "shared": u8::from(storage.shared),
        "active": u8::from(!storage.disabled), "enabled": u8::from(!storage.disabled), "total": storage.bytes, "used": used, "avail": storage.bytes - used,
    })
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let storages = &world.hypervisor.storages;
    let wanted = call.list("content");
    let here = storages.defined.values().filter(|storage| storage.nodes.contains(&call.node));
    let here = here.filter(|storage| super::cluster::may_see(world, &call.caller, &storage.id));
    let here = here.filter(|storage| !(call.flag("enabled") && storage.disabled));
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
    if !super::cluster::may_see(world, &call.caller, call.text("storage")) {
        let text = format!("Permission check failed (/storage/{}, Datastore.Audit)", call.text("storage"));
        return Err(Refusal::Forbidden(text));
    }
    match world.hypervisor.storages.volume(&call.node, &volid) {
        Some(volume) => Ok(json!({
            "path": storage.path_of(&volid), "format": volume.format, "size": volume.size, "used": volume.used,
        })
        .into()),
        None => Err(Refusal::failed(format!("volume_size_info on '{volid}' failed - no format"))),
    }
}

pub(super) fn remove(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    need(
        &world.hypervisor.access,
        &call.caller,
        &format!("/storage/{}", call.text("storage")),
        "Datastore.Allocate",
    )?;
    world.hypervisor.storages.usable(&call.node, call.text("storage")).map_err(Refusal::Failed)?;
    Ok(json!(download::remove(world, &call.node, &volid(call), &call.caller)).into())
}

/// Notes and protection are for backups, of which there are none.
pub(super) fn annotate(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let volid = volid(call);
    if world.hypervisor.storages.volume(&call.node, &volid).is_none() {
        return Err(Refusal::failed(format!("volume '{volid}' does not exist")));
    }
    let what = if call.get("notes").is_some() { "notes" } else { "protected" };
    Err(Refusal::failed(format!("attribute '{what}' is not supported for volume '{volid}'")))
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

/// Makes an empty volume for a VM under a name that the caller chose.
pub(super) fn allocate(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let now = world.now;
    let storages = &mut world.hypervisor.storages;
    let storage = storages.usable(&call.node, call.text("storage")).map_err(Refusal::Failed)?;
    let (name, vmid) = (call.text("filename"), call.vmid());
    let prefix = format!("vm-{vmid}-");
    if !name.starts_with(&prefix) {
        let text = format!("illegal name '{name}' - should be '{prefix}*'");
        return Err(Refusal::parameter("filename", text));
    }
    let files = storage.kind.keeps_files();
    let id = &storage.id;
    let volid = if files { format!("{id}:{vmid}/{name}") } else { format!("{id}:{name}") };
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let format = call.get("format").or(ending).filter(|_| files).unwrap_or("raw").to_owned();
    let path = storage.path_of(&volid);
    if storages.volume(&call.node, &volid).is_some() {
        return Err(Refusal::failed(format!("disk image '{path}' already exists")));
    }
    // A size without a unit is in kibibytes.
    let size = call.text("size");
    let size =
        if size.ends_with(|c: char| c.is_ascii_digit()) { format!("{size}K") } else { size.to_owned() };
    let size = drive::parse_size(&size).ok_or_else(|| Refusal::parameter("size", "unable to parse size"))?;
    let content = "images".to_owned();
    let volume = Volume {
        volid: volid.clone(),
        content,
        format,
        size,
        used: 0,
        vmid: Some(vmid),
        ctime: now,
        origin: None,
        parent: None,
    };
    storages.insert(&call.node, volume);
    Ok(json!(volid).into())
}

pub(super) fn upload(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let Some(file) = &call.upload else { return Err(Refusal::failed("upload failed")) };
    let checksum = call.get("checksum").map(|expected| {
        let got = file.checksum.clone().unwrap_or_default();
        (expected.to_owned(), got)
    });
    let wish = Import {
        storage: call.text("storage").to_owned(),
        content: call.text("content").to_owned(),
        filename: download::normal_name(call.text("filename")),
        bytes: file.bytes,
        disk_bytes: file.disk_bytes,
        checksum,
    };
    Ok(json!(import(world, &call.node, wish, &call.caller)?).into())
}

fn digest(world: &World) -> String {
    let text = serde_json::to_vec(&world.hypervisor.storages.defined).unwrap_or_default();
    hex::encode(Sha1::digest(text))
}

/// An option as it is answered: a number where the table of calls says so.
fn typed(key: &str, value: &str) -> Value {
    let rule = schema::method("POST", "/storage").and_then(|method| method.rule(key));
    match rule.map(|rule| rule.kind) {
        Some(schema::Kind::Bool | schema::Kind::Int) => {
            value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number))
        }
        _ => json!(value),
    }
}

/// A definition as it is answered.
fn definition(world: &World, storage: &Storage) -> Value {
    let mut row = json!({
        "storage": storage.id, "type": storage.kind.as_str(), "content": storage.content_list(), "digest": digest(world),
    });
    if storage.kind == StorageKind::Dir {
        row["path"] = json!(storage.path());
    }
    for (key, value) in &storage.options {
        row[key] = typed(key, value);
    }
    if storage.restricted {
        row["nodes"] = json!(storage.nodes.iter().cloned().collect::<Vec<_>>().join(","));
    }
    if storage.shared {
        row["shared"] = json!(1);
    }
    if storage.disabled {
        row["disable"] = json!(1);
    }
    row
}

pub(super) fn definitions(world: &World, call: &Call) -> Result<Data, Refusal> {
    let all = world.hypervisor.storages.defined.values();
    let shown = all.filter(|storage| super::cluster::may_see(world, &call.caller, &storage.id));
    let wanted = shown.filter(|storage| call.get("type").is_none_or(|kind| kind == storage.kind.as_str()));
    Ok(wanted.map(|storage| definition(world, storage)).collect::<Value>().into())
}

pub(super) fn one_definition(world: &World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("storage");
    let storage = world.hypervisor.storages.defined.get(id);
    let storage = storage.ok_or_else(|| Refusal::failed(format!("storage '{id}' does not exist")))?;
    Ok(definition(world, storage).into())
}

const DEFINING: &[&str] = &["storage", "type", "content", "nodes", "shared", "disable", "digest", "delete"];

/// Takes what a request says about a storage.
fn fill(storage: &mut Storage, call: &Call, hosts: &[String]) {
    if call.get("content").is_some() {
        storage.content = call.list("content").into_iter().collect();
    }
    if call.get("nodes").is_some() {
        storage.nodes = call.list("nodes").into_iter().collect();
        storage.restricted = true;
    }
    if let Some(shared) = call.get("shared") {
        storage.shared = shared == "1";
    }
    if let Some(disable) = call.get("disable") {
        storage.disabled = disable == "1";
    }
    storage.options.extend(call.others(DEFINING));
    for key in call.list("delete") {
        match key.as_str() {
            "nodes" => {
                storage.nodes = hosts.iter().cloned().collect();
                storage.restricted = false;
            }
            "shared" => storage.shared = false,
            "disable" => storage.disabled = false,
            key => drop(storage.options.remove(key)),
        }
    }
}

pub(super) fn define(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (id, kind) = (call.text("storage"), call.text("type"));
    let hosts: Vec<String> = world.hypervisor.hosts.keys().cloned().collect();
    let storages = &mut world.hypervisor.storages;
    if storages.defined.contains_key(id) {
        return Err(Refusal::failed(format!("create storage failed: storage ID '{id}' already defined")));
    }
    let (kind, required): (StorageKind, &[&str]) = match kind {
        "dir" => (StorageKind::Dir, &["path"]),
        "lvmthin" => (StorageKind::LvmThin, &["thinpool", "vgname"]),
        "lvm" => (StorageKind::Lvm, &["vgname"]),
        "zfspool" => (StorageKind::ZfsPool, &["pool"]),
        "nfs" => (StorageKind::Nfs, &["export", "server"]),
        "rbd" => (StorageKind::Rbd, &[]),
        other => return Err(Refusal::failed(format!("this lab has no storage of type '{other}'"))),
    };
    if let Some(missing) = required.iter().find(|key| call.get(key).is_none()) {
        return Err(Refusal::failed(format!("missing value for required option '{missing}'")));
    }
    let files = kind.keeps_files();
    let content = if files { "images" } else { "images,rootdir" };
    let like = storages.defined.values().find(|other| other.kind.keeps_files() == files);
    let mut storage = Storage {
        id: id.to_owned(),
        kind,
        content: content.split(',').map(str::to_owned).collect(),
        shared: matches!(kind, StorageKind::Nfs | StorageKind::Rbd),
        nodes: hosts.iter().cloned().collect(),
        // It is on the disk that another storage of its kind is on.
        bytes: like.map_or(100 << 30, |other| other.bytes),
        restricted: false,
        disabled: false,
        options: BTreeMap::new(),
    };
    fill(&mut storage, call, &hosts);
    let now = world.now;
    storages.define(storage, now);
    Ok(json!({"storage": id, "type": kind.as_str()}).into())
}

pub(super) fn redefine(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("storage");
    if call.get("digest").is_some_and(|given| given != digest(world)) {
        let text = "detected modified configuration - file changed by other user? Try again.";
        return Err(Refusal::failed(format!("update storage failed: {text}")));
    }
    let hosts: Vec<String> = world.hypervisor.hosts.keys().cloned().collect();
    let Some(storage) = world.hypervisor.storages.defined.get_mut(id) else {
        return Err(Refusal::failed(format!("update storage failed: storage '{id}' does not exist")));
    };
    fill(storage, call, &hosts);
    Ok(json!({"storage": id, "type": storage.kind.as_str()}).into())
}

/// The definition goes; what lies there stays, and is back when it is defined again.
pub(super) fn undefine(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("storage");
    if world.hypervisor.storages.defined.remove(id).is_none() {
        return Err(Refusal::failed(format!("delete storage failed: storage '{id}' does not exist")));
    }
    Ok(Value::Null.into())
}

/// The parts of a storage.
pub(super) fn index(world: &World, call: &Call) -> Result<Data, Refusal> {
    named(world, call)?;
    let names = ["content", "download-url", "status", "upload"];
    Ok(json!(names.map(|name| json!({ "subdir": name }))).into())
}
