//! What the cluster as a whole answers.

use serde::Serialize;
use serde_json::{Number, Value, json};

use super::answer::Data;
use super::nodes::host_row;
use super::request::Call;
use crate::hypervisor::REPOID;
use crate::hypervisor::log::Line;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::Storage;
use crate::hypervisor::vm::Vm;
use crate::hypervisor::work::Work;
use crate::operations::tasks;
use crate::world::World;

const FIRST_ID: u32 = 100;
const LAST_ID: u32 = 1_000_000;

pub(super) fn index(_: &World, _: &Call) -> Result<Data, Refusal> {
    let names = ["version", "cluster", "nodes", "storage", "access", "pools"];
    Ok(json!(names.map(|name| json!({ "subdir": name }))).into())
}

pub(super) fn version(world: &World, _: &Call) -> Result<Data, Refusal> {
    let played = world.hypervisor.version;
    Ok(json!({"version": played.version(), "release": played.release(), "repoid": REPOID}).into())
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let hosts = &world.hypervisor.hosts;
    let mut rows: Vec<Value> = Vec::new();
    if hosts.len() > 1 {
        let quorate = u8::from(world.hypervisor.quorate());
        rows.push(json!({
            "type": "cluster", "id": "cluster", "name": "lab", "nodes": hosts.len(), "quorate": quorate,
            "version": hosts.len(),
        }));
    }
    rows.extend(hosts.values().enumerate().map(|(index, host)| {
        json!({
            "type": "node", "id": format!("node/{}", host.name), "name": host.name, "ip": host.address,
            "nodeid": if hosts.len() > 1 { index + 1 } else { 0 }, "online": u8::from(host.online),
            "local": u8::from(host.name == call.local), "level": "",
        })
    }));
    Ok(Value::Array(rows).into())
}

pub(super) fn resources(world: &World, call: &Call) -> Result<Data, Refusal> {
    let wanted = |kind: &str| call.get("type").is_none_or(|asked| asked == kind);
    let hypervisor = &world.hypervisor;
    let mut long: Vec<String> = Vec::new();
    if wanted("vm") {
        let shown = |vm: &&Vm| hypervisor.access.may(&call.caller, &format!("/vms/{}", vm.vmid), "VM.Audit");
        let rows = hypervisor.vms.values().filter(shown).map(|vm| vm_row(vm, world));
        long.extend(rows.filter_map(|row| serde_json::to_string(&row).ok()));
    }
    let mut rows: Vec<Value> = Vec::new();
    if call.get("type").is_none() {
        let pools = hypervisor.access.pools.keys();
        let shown =
            pools.filter(|name| hypervisor.access.may(&call.caller, &format!("/pool/{name}"), "Pool.Audit"));
        rows.extend(shown.map(|name| json!({"type": "pool", "id": format!("/pool/{name}"), "pool": name})));
    }
    if wanted("node") {
        rows.extend(hypervisor.hosts.values().map(|host| {
            let mut row = host_row(host, world, &call.caller);
            if let Some(row) = row.as_object_mut() {
                row.remove("ssl_fingerprint");
                row.insert("cgroup-mode".to_owned(), json!(2));
                // Only where high availability has anything to do.
                if host.maintenance {
                    row.insert("hastate".to_owned(), json!("maintenance"));
                } else if !hypervisor.ha.is_empty() {
                    row.insert("hastate".to_owned(), json!("online"));
                }
            }
            row
        }));
    }
    if wanted("storage") {
        for storage in
            hypervisor.storages.defined.values().filter(|storage| may_see(world, &call.caller, &storage.id))
        {
            rows.extend(storage.nodes.iter().map(|node| storage_row(storage, node, world)));
        }
    }
    if call.get("type").is_none_or(|asked| asked == "sdn") {
        rows.extend(hypervisor.hosts.values().map(|host| {
            json!({
                "type": "network", "network-type": "zone", "network": "localnetwork", "status": "ok",
                "node": host.name, "id": format!("network/{}/zone/localnetwork", host.name),
            })
        }));
    }
    long.extend(rows.iter().map(Value::to_string));
    if hypervisor.no_status {
        long = long.iter().map(|row| unreported(row)).collect();
    }
    Ok(Data::of_rows(&long))
}

/// A row of something whose status daemon is silent: what the daemon reports is missing, what the configuration says is there.
fn unreported(row: &str) -> String {
    let Ok(Value::Object(mut row)) = serde_json::from_str(row) else { return row.to_owned() };
    if row.contains_key("status") && row.get("type") != Some(&json!("network")) {
        row.insert("status".to_owned(), json!("unknown"));
        for key in ["name", "uptime", "cpu", "maxcpu", "mem", "maxmem", "memhost", "disk", "maxdisk"] {
            row.remove(key);
        }
    }
    Value::Object(row).to_string()
}

/// The row of a VM among all resources. There may be ten thousand of them.
#[derive(Debug, Serialize)]
pub(super) struct VmRow<'a> {
    id: String,
    r#type: &'static str,
    vmid: u32,
    node: &'a str,
    name: String,
    status: &'static str,
    template: u8,
    uptime: i64,
    maxcpu: u32,
    maxmem: u64,
    maxdisk: u64,
    cpu: Number,
    mem: u64,
    memhost: u64,
    disk: u8,
    diskread: u8,
    diskwrite: u8,
    netin: u8,
    netout: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hastate: Option<&'a str>,
}

pub(super) fn vm_row<'a>(vm: &'a Vm, world: &'a World) -> VmRow<'a> {
    let ha = &world.hypervisor.ha;
    let managed = if ha.is_empty() { None } else { ha.get(&format!("vm:{}", vm.vmid)) };
    let memory = vm.memory_bytes();
    let since = vm.running.as_ref().map(|running| world.now.duration_since(running.since).as_secs().max(0));
    VmRow {
        id: format!("qemu/{}", vm.vmid),
        r#type: "qemu",
        vmid: vm.vmid,
        node: &vm.node,
        name: vm.name(),
        status: if since.is_some() { "running" } else { "stopped" },
        template: u8::from(vm.flag("template")),
        uptime: since.unwrap_or(0),
        maxcpu: vm.cores(),
        maxmem: memory,
        maxdisk: vm.max_disk(),
        cpu: since.and_then(|_| Number::from_f64(0.01)).unwrap_or_else(|| 0.into()),
        mem: since.map_or(0, |_| memory / 4),
        memhost: since.map_or(0, |_| memory / 3),
        disk: 0,
        diskread: 0,
        diskwrite: 0,
        netin: 0,
        netout: 0,
        tags: vm.get("tags"),
        lock: vm.get("lock"),
        pool: world.hypervisor.access.pool_of(vm.vmid),
        hastate: managed.map(|options| options.get("state").map_or("started", String::as_str)),
    }
}

/// The row of a storage on one host among all resources.
pub(super) fn storage_row(storage: &Storage, node: &str, world: &World) -> Value {
    let online = world.hypervisor.hosts.get(node).is_some_and(|host| host.online);
    json!({
        "type": "storage", "id": format!("storage/{node}/{}", storage.id), "storage": storage.id,
        "node": node, "plugintype": storage.kind.as_str(), "content": storage.content_list(),
        "shared": u8::from(storage.shared), "status": if online { "available" } else { "unknown" },
        "maxdisk": storage.bytes, "disk": world.hypervisor.storages.used(node, storage),
    })
}

/// Whether a caller is shown a storage.
pub(super) fn may_see(world: &World, caller: &str, storage: &str) -> bool {
    let path = format!("/storage/{storage}");
    let access = &world.hypervisor.access;
    access.may(caller, &path, "Datastore.Audit") || access.may(caller, &path, "Datastore.AllocateSpace")
}

/// The log. Who may not read that of the system sees their own lines.
pub(super) fn log(world: &World, call: &Call) -> Result<Data, Refusal> {
    let all = world.hypervisor.access.may(&call.caller, "/", "Sys.Syslog");
    let lines = world.hypervisor.log.newest().filter(|line| all || line.user == call.caller);
    let most = call.number("max").and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    let row = |line: &Line| {
        json!({
            "uid": line.uid, "id": format!("{}:{}", line.uid, line.node), "time": line.at.as_second(), "node": line.node,
            "user": line.user, "tag": "pvedaemon", "pri": 6, "pid": 1000, "msg": line.text,
        })
    };
    Ok(lines.take(most).map(row).collect::<Value>().into())
}

pub(super) fn next_id(world: &World, call: &Call) -> Result<Data, Refusal> {
    let taken = |id: &u32| world.hypervisor.vms.contains_key(id);
    if let Some(asked) = call.get("vmid") {
        return match call.vmid() {
            id if taken(&id) => Err(Refusal::parameter("vmid", format!("VM {id} already exists"))),
            _ => Ok(json!(asked).into()),
        };
    }
    match (FIRST_ID..LAST_ID).find(|id| !taken(id)) {
        Some(free) => Ok(json!(free.to_string()).into()),
        None => Err(Refusal::failed(format!("unable to get any free VMID in range [{FIRST_ID}, {LAST_ID}]"))),
    }
}

pub(super) fn options(world: &World, _: &Call) -> Result<Data, Refusal> {
    let tags = world.hypervisor.vms.values().filter_map(|vm| vm.get("tags"));
    let tags: std::collections::BTreeSet<&str> = tags.flat_map(|tags| tags.split(';')).collect();
    let mut row = json!({"mac_prefix": "BC:24:11", "description": "", "allowed-tags": tags});
    for (key, value) in world.hypervisor.kept.single(OPTIONS).into_iter().flatten() {
        row[key] = parsed(key, value);
    }
    Ok(row.into())
}

/// Where the options of the cluster are kept.
const OPTIONS: &str = "/cluster/options";

/// An option as it is shown: what was given as a property string is taken apart.
fn parsed(key: &str, value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    let rule = crate::schema::method("PUT", OPTIONS).and_then(|method| method.rule(key));
    let props = rule.and_then(|rule| crate::schema::props(rule.format.as_deref()?));
    match props.and_then(|props| props.parse(key, text).ok()) {
        // Limits are read where they are used.
        Some(parts) if key != "bwlimit" => json!(parts),
        _ if key == "registered-tags" => json!(text.split(';').collect::<Vec<_>>()),
        _ => value.clone(),
    }
}

pub(super) fn set_options(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let set = super::kept::fields(call);
    let options = world.hypervisor.kept.single_mut(OPTIONS);
    options.extend(set);
    options.retain(|key, _| !call.list("delete").contains(key));
    Ok(Value::Null.into())
}

/// Nothing of SDN is carried out, so that applying it is done at once.
pub(super) fn apply_sdn(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    Ok(json!(tasks::begin(world, &call.local, "reloadnetworkall", "", &call.caller, Work::Nothing)).into())
}

/// The parts of the cluster.
pub(super) fn parts(_: &World, _: &Call) -> Result<Data, Refusal> {
    let names = ["ha", "mapping", "nextid", "options", "resources", "sdn", "status", "tasks"];
    Ok(json!(names.map(|name| json!({ "name": name }))).into())
}
