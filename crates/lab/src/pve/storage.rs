//! Storages and volumes of a node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::{self, need};
use crate::hypervisor::storage::{Storage, Storages, Volume};
use crate::hypervisor::storage_options::{Plugin, plugin};
use crate::hypervisor::work::{DownloadWish, Import};
use crate::operations::download;
use crate::operations::import::import;
use crate::schema::{self, formats};
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
    if call.get("storage").is_some_and(|id| !storages.defined.contains_key(id)) {
        return Err(Refusal::parameter("storage", "No such storage."));
    }
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
    let hypervisor = &world.hypervisor;
    let shown = |volume: &&Volume| {
        rights::volume(&hypervisor.access, &hypervisor.storages, &call.caller, None, &volume.volid).is_ok()
    };
    let volumes = volumes.filter(|volume| storage.content.contains(&volume.content)).filter(shown);
    Ok(volumes.map(volume_row).collect::<Value>().into())
}

/// The full id of the volume that the path names, with or without its storage.
fn volid(call: &Call) -> Result<String, Refusal> {
    let (volume, storage) = (call.text("volume"), call.text("storage"));
    let Some((own, _)) = volume.split_once(':') else { return Ok(format!("{storage}:{volume}")) };
    formats::check("pve-volume-id", "volume", volume)
        .map_err(|words| Refusal::parameter("volume", format!("{words}\n")))?;
    match own == storage {
        true => Ok(volume.to_owned()),
        false => Err(Refusal::parameter("volume", format!("storage ID mismatch ({own} != {storage})\n"))),
    }
}

pub(super) fn volume(world: &World, call: &Call) -> Result<Data, Refusal> {
    let volid = volid(call)?;
    let hypervisor = &world.hypervisor;
    rights::volume(&hypervisor.access, &hypervisor.storages, &call.caller, None, &volid)?;
    let storage = hypervisor.storages.usable(&call.node, call.text("storage")).map_err(Refusal::Failed)?;
    match hypervisor.storages.volume(&call.node, &volid) {
        Some(volume) => Ok(json!({
            "path": storage.path_of(&volid), "format": volume.format, "size": volume.size, "used": volume.used,
        })
        .into()),
        None => Err(Refusal::failed(format!("volume_size_info on '{volid}' failed - no format"))),
    }
}

pub(super) fn remove(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let volid = volid(call)?;
    let hypervisor = &world.hypervisor;
    let named = hypervisor.storages.named(&volid).map_err(Refusal::Failed)?;
    let path = format!("/storage/{}", call.text("storage"));
    match named.owner.filter(|_| named.content == "backup") {
        Some(owner) => {
            need(&hypervisor.access, &call.caller, &path, "Datastore.AllocateSpace")?;
            need(&hypervisor.access, &call.caller, &format!("/vms/{owner}"), "VM.Backup")?;
        }
        None => need(&hypervisor.access, &call.caller, &path, "Datastore.Allocate")?,
    }
    Ok(json!(download::remove(world, &call.node, &volid, &call.caller)).into())
}

/// Notes and protection are for backups, of which there are none.
pub(super) fn annotate(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let volid = volid(call)?;
    let hypervisor = &world.hypervisor;
    rights::volume(&hypervisor.access, &hypervisor.storages, &call.caller, None, &volid)?;
    let storage = hypervisor.storages.storage_of(&volid);
    let what = ["notes", "protected"].into_iter().find(|what| call.get(what).is_some());
    match (what, storage.map(|storage| storage.kind)) {
        (Some(what), Some(kind)) if kind.keeps_files() => {
            Err(Refusal::failed(format!("only backups support attribute '{what}'")))
        }
        (Some(what), Some(kind)) => {
            let text = format!("attribute '{what}' is not supported for storage type '{}'", kind.as_str());
            Err(Refusal::failed(text))
        }
        _ => Ok(Value::Null.into()),
    }
}

pub(super) fn download(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let wish = DownloadWish {
        storage: call.text("storage").to_owned(),
        url: call.text("url").to_owned(),
        content: call.text("content").to_owned(),
        filename: call.text("filename").to_owned(),
        checksum: call.get("checksum").map(str::to_owned),
        algorithm: call.get("checksum-algorithm").unwrap_or("sha256").to_owned(),
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
    let files = storage.kind.keeps_files();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let ending = ending.filter(|ending| matches!(*ending, "raw" | "qcow2" | "vmdk"));
    if let (Some(format), Some(ending)) = (call.get("format"), ending)
        && format != ending
    {
        let text = format!("different storage formats ({format} != {ending})");
        return Err(Refusal::parameter("format", text));
    }
    let format = ending.or(call.get("format")).unwrap_or("raw").to_owned();
    let prefix = format!("vm-{vmid}-");
    if !files && !name.starts_with(&prefix) {
        return Err(Refusal::failed(format!("illegal name '{name}' - should be '{prefix}*'")));
    }
    if files && ending.is_none() {
        return Err(Refusal::failed(format!("unable to parse volume filename '{name}'")));
    }
    let id = &storage.id;
    let volid = if files { format!("{id}:{vmid}/{name}") } else { format!("{id}:{name}") };
    let path = storage.path_of(&volid);
    if storages.volume(&call.node, &volid).is_some() {
        return Err(Refusal::failed(format!("disk image '{path}' already exists")));
    }
    // A size without a unit is in kibibytes.
    let size = call.text("size");
    let size =
        if size.ends_with(|c: char| c.is_ascii_digit()) { format!("{size}K") } else { size.to_owned() };
    let size = schema::parse_size(&size).ok_or_else(|| Refusal::parameter("size", "unable to parse size"))?;
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
        image: Some(file.image.to_owned()),
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
    if storage.kind.keeps_files() {
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

/// Takes what a request says about a storage.
fn fill(storage: &mut Storage, set: BTreeMap<String, String>, delete: &[String], hosts: &[String]) {
    let plugin = plugin(storage.kind.as_str());
    for (key, value) in set {
        match key.as_str() {
            "content" => {
                let contents = plugin.and_then(|plugin| plugin.contents(&value).ok());
                storage.content = contents.unwrap_or_default();
            }
            "nodes" => {
                storage.nodes = formats::items(&value).into_iter().map(str::to_owned).collect();
                storage.restricted = true;
            }
            "shared" => storage.shared = value == "1",
            "disable" => storage.disabled = value == "1",
            // Secrets are kept elsewhere and never shown.
            "password" | "keyring" | "encryption-key" | "master-pubkey" => {}
            _ => drop(storage.options.insert(key, value)),
        }
    }
    for key in delete {
        match key.as_str() {
            "nodes" => {
                storage.nodes = hosts.iter().cloned().collect();
                storage.restricted = false;
            }
            "content" => storage.content = plugin.map(Plugin::default_contents).unwrap_or_default(),
            "shared" => storage.shared = false,
            "disable" => storage.disabled = false,
            key => drop(storage.options.remove(key)),
        }
    }
}

/// The options that a request gives.
fn given(call: &Call) -> BTreeMap<String, String> {
    call.others(&["storage", "type", "digest", "delete"])
}

pub(super) fn define(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (id, kind) = (call.text("storage"), call.text("type"));
    let Some(plugin) = plugin(kind) else {
        return Err(Refusal::failed(format!("this lab has no storage of type '{kind}'")));
    };
    let kind = plugin.kind;
    let mut options = given(call);
    options.retain(|key, value| key != "nodes" || !value.is_empty());
    if kind.is_shared() && kind.keeps_files() {
        options.entry("path".to_owned()).or_insert_with(|| format!("/mnt/pve/{id}"));
    }
    plugin.check(&options, true).map_err(Refusal::Failed)?;
    let hosts: Vec<String> = world.hypervisor.hosts.keys().cloned().collect();
    let storages = &mut world.hypervisor.storages;
    if storages.defined.contains_key(id) {
        return Err(Refusal::failed(format!("create storage failed: storage ID '{id}' already defined")));
    }
    let like = storages.defined.values().find(|other| other.kind.keeps_files() == kind.keeps_files());
    let mut storage = Storage {
        id: id.to_owned(),
        kind,
        content: plugin.default_contents(),
        shared: kind.is_shared(),
        nodes: hosts.iter().cloned().collect(),
        // It is on the disk that another storage of its kind is on.
        bytes: like.map_or(100 << 30, |other| other.bytes),
        restricted: false,
        disabled: false,
        options: BTreeMap::new(),
    };
    fill(&mut storage, options, &[], &hosts);
    let now = world.now;
    storages.define(storage, now);
    Ok(json!({"storage": id, "type": kind.as_str()}).into())
}

pub(super) fn redefine(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("storage");
    let failed = |text: &str| Refusal::failed(format!("update storage failed: {text}"));
    if call.get("digest").is_some_and(|given| given != digest(world)) {
        return Err(failed("detected modified configuration - file changed by other user? Try again."));
    }
    let hosts: Vec<String> = world.hypervisor.hosts.keys().cloned().collect();
    let Some(storage) = world.hypervisor.storages.defined.get_mut(id) else {
        return Err(failed(&format!("storage '{id}' does not exist")));
    };
    let (options, delete) = (given(call), call.list("delete"));
    if let Some(plugin) = plugin(storage.kind.as_str()) {
        plugin.check(&options, false).map_err(|text| failed(&text))?;
        plugin.check_delete(&delete, &options).map_err(|text| failed(&text))?;
    }
    fill(storage, options, &delete, &hosts);
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
