//! Logging in, and what the caller may do: everything, since every caller of this lab is an administrator.

use serde_json::{Map, Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::world::World;

const PRIVILEGES: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];
const PATHS: &[&str] =
    &["/", "/access", "/access/groups", "/mapping", "/nodes", "/pool", "/sdn", "/storage", "/vms"];

fn privileges(wanted: impl Fn(&str) -> bool) -> Value {
    let all = PRIVILEGES.iter().filter(|name| wanted(name)).map(|name| ((*name).to_owned(), json!(1)));
    Value::Object(all.collect::<Map<_, _>>())
}

pub(super) fn permissions(_: &World, call: &Call) -> Result<Data, Refusal> {
    let paths = call.get("path").map_or_else(|| PATHS.to_vec(), |path| vec![path]);
    let rows = paths.into_iter().map(|path| (path.to_owned(), privileges(|_| true)));
    Ok(Value::Object(rows.collect::<Map<_, _>>()).into())
}

pub(super) fn ticket(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    if call.caller.contains('!') {
        let text = "Permission check failed (URI '/access/ticket' not available with API token, need proper ticket.\n)";
        return Err(Refusal::Forbidden(text.to_owned()));
    }
    let name = call.text("username");
    let user = match call.get("realm") {
        Some(realm) if !name.contains('@') => format!("{name}@{realm}"),
        _ => name.to_owned(),
    };
    let access = &world.hypervisor.access;
    if !access.password(&user, call.text("password"), world.now) {
        return Err(Refusal::Unauthorized("authentication failure".to_owned()));
    }
    let of = |prefixes: &'static [&'static str]| {
        privileges(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    };
    Ok(json!({
        "username": user,
        "ticket": access.new_ticket(&user, world.now),
        "CSRFPreventionToken": access.csrf(&user, world.now),
        "cap": {
            "vms": of(&["VM.", "Permissions."]),
            "storage": of(&["Datastore.", "Permissions."]),
            "nodes": of(&["Sys.", "Permissions."]),
            "access": of(&["User.", "Group.", "Permissions."]),
            "mapping": of(&["Mapping.", "Permissions."]),
            "sdn": of(&["SDN.", "Permissions."]),
            "dc": of(&["Sys.Audit", "Sys.Modify", "SDN."]),
        },
    })
    .into())
}
