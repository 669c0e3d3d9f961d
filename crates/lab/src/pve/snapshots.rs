//! Snapshots, copies, templates, moves of disks and of VMs: what makes one VM of another or puts it elsewhere.

use serde_json::{Map, Value, json};

use super::answer::Data;
use super::request::Call;
use super::vms::{find, only_root};
use crate::hypervisor::drive;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::vm::{Vm, shown};
use crate::hypervisor::work::{Act, Clone, Migrate, Move, Reassign, Snapshot};
use crate::operations::{clone, migrate, movement, reassign, snapshot};
use crate::world::World;

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let mut rows: Vec<Value> = Vec::new();
    for (name, kept) in &vm.snapshots {
        let mut row = json!({
            "name": name, "snaptime": kept.at.as_second(), "vmstate": 0,
            "description": kept.description.as_deref().unwrap_or_default(),
        });
        if let Some(parent) = &kept.parent {
            row["parent"] = json!(parent);
        }
        rows.push(row);
    }
    let mut current = json!({
        "name": "current", "description": "You are here!", "digest": vm.digest(),
        "running": u8::from(vm.running.is_some()),
    });
    if let Some(parent) = &vm.parent {
        current["parent"] = json!(parent);
    }
    rows.push(current);
    Ok(Value::Array(rows).into())
}

/// The configuration that a snapshot keeps; `plain` shows the password.
pub(super) fn config_of(vm: &Vm, name: &str, plain: bool) -> Result<Data, Refusal> {
    let kept = vm.snapshots.get(name);
    let kept = kept.ok_or_else(|| Refusal::failed(format!("snapshot '{name}' does not exist")))?;
    let mut rows: Map<String, Value> =
        kept.config.iter().map(|(key, value)| (key.clone(), shown(key, value))).collect();
    if let Some(password) = kept.config.get("cipassword").filter(|_| plain) {
        rows.insert("cipassword".to_owned(), json!(password));
    }
    if let Some(description) = &kept.description {
        rows.insert("description".to_owned(), json!(description));
    }
    rows.insert("snaptime".to_owned(), json!(kept.at.as_second()));
    if !plain {
        rows.insert("digest".to_owned(), json!(vm.digest()));
    }
    Ok(Value::Object(rows).into())
}

pub(super) fn index(_: &World, _: &Call) -> Result<Data, Refusal> {
    Ok(json!([{"cmd": "rollback"}, {"cmd": "config"}]).into())
}

pub(super) fn config(world: &World, call: &Call) -> Result<Data, Refusal> {
    config_of(find(world, call)?, call.text("snapname"), true)
}

pub(super) fn describe(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("snapname");
    let vm = world.hypervisor.vms.get_mut(&call.vmid()).filter(|vm| vm.node == call.node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(&call.node, call.vmid()))?;
    if let Some(lock) = vm.lock() {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    let kept = vm.snapshots.get_mut(name);
    let kept = kept.ok_or_else(|| Refusal::failed(format!("snapshot '{name}' does not exist")))?;
    if let Some(description) = call.get("description") {
        kept.description = Some(description.to_owned());
    }
    Ok(Value::Null.into())
}

fn act(world: &mut World, call: &Call, act: Act) -> Result<Data, Refusal> {
    let wish = Snapshot { vmid: call.vmid(), name: call.text("snapname").to_owned(), act };
    Ok(json!(snapshot::begin(world, &call.node, wish, &call.caller)?).into())
}

pub(super) fn take(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    act(world, call, Act::Take { description: call.get("description").map(str::to_owned) })
}

pub(super) fn roll_back(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    act(world, call, Act::Roll { start: call.flag("start") })
}

pub(super) fn remove(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    act(world, call, Act::Drop)
}

pub(super) fn clone(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let text = |name: &str| call.get(name).map(str::to_owned);
    let wish = Clone {
        source: call.vmid(),
        newid: call.number("newid").and_then(|id| u32::try_from(id).ok()).unwrap_or(0),
        name: text("name"),
        description: text("description"),
        full: call.get("full").map(|flag| flag == "1"),
        storage: text("storage"),
        format: text("format"),
        pool: text("pool"),
        snapshot: text("snapname"),
        target: text("target"),
        ..Clone::default()
    };
    Ok(json!(clone::clone(world, &call.node, wish, &call.caller)?).into())
}

pub(super) fn template(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    Ok(json!(clone::template(world, &call.node, call.vmid(), &call.caller)?).into())
}

pub(super) fn move_disk(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let both = |text: &str| {
        let errors = ["target-vmid", "storage"].map(|name| (name.to_owned(), text.to_owned()));
        Err(Refusal::Parameters(errors.into()))
    };
    let (storage, target) = (call.get("storage"), call.get("target-vmid"));
    let storage = match (storage, target) {
        (Some(_), Some(_)) => return both("either set 'storage' or 'target-vmid', but not both"),
        (None, None) => return both("both 'storage' and 'target-vmid' missing, either needs to be set"),
        (None, Some(target)) => return reassign(world, call, target),
        (Some(storage), None) => storage,
    };
    let wish = Move {
        vmid: call.vmid(),
        disk: call.text("disk").to_owned(),
        storage: storage.to_owned(),
        format: call.get("format").map(str::to_owned),
        delete: call.flag("delete"),
    };
    Ok(json!(movement::begin(world, &call.node, wish, call.get("digest"), &call.caller)?).into())
}

/// Gives a disk to another VM of the same host.
fn reassign(world: &mut World, call: &Call, target: &str) -> Result<Data, Refusal> {
    let wish = Reassign {
        vmid: call.vmid(),
        disk: call.text("disk").to_owned(),
        target: target.parse().unwrap_or(0),
        target_disk: call.get("target-disk").unwrap_or(call.text("disk")).to_owned(),
    };
    let digests = (call.get("digest"), call.get("target-digest"));
    Ok(json!(reassign::begin(world, &call.node, wish, digests, &call.caller)?).into())
}

pub(super) fn can_migrate(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let hypervisor = &world.hypervisor;
    let others = hypervisor.hosts.values().filter(|host| host.name != call.node);
    let disks = migrate::volumes(vm).into_iter().filter_map(|(key, volid, attached)| {
        let storage = hypervisor.storages.storage_of(&volid).filter(|storage| !storage.shared)?;
        let cloudinit = volid.contains("cloudinit");
        let mut row = json!({
            "volid": volid, "cdrom": u8::from(cloudinit), "is_attached": u8::from(attached),
            "is_cloudinit": u8::from(cloudinit), "is_tpmstate": u8::from(key == "tpmstate0"), "is_vmstate": 0,
            "is_unused": u8::from(!attached), "replicate": 1, "shared": u8::from(storage.shared),
        });
        if attached {
            row["drivename"] = json!(key);
            let parts = vm.get(&key).and_then(|text| drive::parts(&key, text));
            let size = parts.and_then(|parts| crate::schema::parse_size(parts.get("size")?));
            if let Some(bytes) = size {
                row["size"] = json!(bytes);
            }
        }
        Some(row)
    });
    let (mut allowed, mut not_allowed) = (vec![], Map::new());
    for host in others.filter(|host| host.online) {
        let (storages, mappings) = migrate::unavailable(hypervisor, vm, &host.name);
        let mut why = Map::new();
        if !storages.is_empty() {
            why.insert("unavailable_storages".to_owned(), json!(storages));
        }
        if !mappings.is_empty() {
            why.insert("unavailable-resources".to_owned(), json!(mappings));
        }
        match why.is_empty() {
            true => allowed.push(host.name.clone()),
            false => drop(not_allowed.insert(host.name.clone(), why.into())),
        }
    }
    let (local, mapped) = migrate::devices(vm);
    let info = |(key, name): &(String, String)| (key.clone(), json!({"name": name}));
    let info: Map<String, Value> = mapped.iter().map(info).collect();
    Ok(json!({
        "running": u8::from(vm.running.is_some()), "local_disks": disks.collect::<Vec<_>>(), "local_resources": local,
        "mapped-resources": info.keys().collect::<Vec<_>>(), "mapped-resource-info": info, "has-dbus-vmstate": 1,
        "allowed_nodes": allowed, "not_allowed_nodes": not_allowed,
    })
    .into())
}

pub(super) fn migrate(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    for name in ["force", "migration_type", "migration_network"] {
        only_root(call, name)?;
    }
    let wish = Migrate {
        vmid: call.vmid(),
        target: call.text("target").to_owned(),
        online: call.flag("online"),
        with_local_disks: call.flag("with-local-disks"),
    };
    Ok(json!(migrate::ask(world, &call.node, wish, &call.caller)?).into())
}

pub(super) fn feature(world: &World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let nodes: Vec<&String> = world.hypervisor.hosts.keys().collect();
    let template = vm.flag("template");
    let has = call.text("feature") != "clone" || template;
    Ok(json!({"hasFeature": u8::from(has), "nodes": nodes}).into())
}
