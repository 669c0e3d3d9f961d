//! What each kind of kept configuration says when something is there already or missing, and the few options that Proxmox
//! derives from others.

use serde_json::{Value, json};

use super::request::Call;
use crate::hypervisor::kept::{Fields, Kept};
use crate::hypervisor::refusal::Refusal;
use crate::rng::Rng;
use crate::world::World;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Read,
    Update,
    Delete,
}

/// The words of one kind. `{id}` stands for its name.
struct Words {
    list: &'static str,
    /// What comes before the words when a change fails, after `create`, `update` or `delete`.
    object: &'static str,
    exists: &'static str,
    missing: &'static str,
    /// Whether the failure is one of the parameter that holds the name.
    parameter: bool,
}

const fn failing(
    list: &'static str,
    object: &'static str,
    exists: &'static str,
    missing: &'static str,
) -> Words {
    Words { list, object, exists, missing, parameter: false }
}

const fn refusing(list: &'static str, exists: &'static str, missing: &'static str) -> Words {
    Words { list, object: "", exists, missing, parameter: true }
}

const WORDS: &[Words] = &[
    failing("/access/domains", "", "domain '{id}' already exists", "domain '{id}' does not exist"),
    failing(
        "/cluster/acme/plugins",
        "",
        "ACME plugin ID '{id}' already exists",
        "ACME plugin '{id}' not defined",
    ),
    failing("/cluster/ha/rules", "ha rule", "HA rule '{id}' already defined", "no such ha rule '{id}'"),
    failing(
        "/cluster/mapping/dir",
        "dir mapping",
        "dir ID '{id}' already defined",
        "mapping '{id}' not found",
    ),
    failing(
        "/cluster/mapping/usb",
        "USB mapping",
        "usb ID '{id}' already defined",
        "mapping '{id}' not found",
    ),
    failing(
        "/cluster/metrics/server",
        "",
        "metric server '{id}' already exists",
        "metric server '{id}' does not exist",
    ),
    failing(
        "/cluster/replication",
        "replication job",
        "job '{id}' already exists",
        "no such replication job '{id}'",
    ),
    failing(
        "/cluster/sdn/controllers",
        "sdn controller object",
        "sdn controller object ID '{id}' already defined",
        "sdn '{id}' does not exist",
    ),
    failing(
        "/cluster/sdn/dns",
        "sdn dns object",
        "sdn dns object ID '{id}' already defined",
        "sdn '{id}' does not exist",
    ),
    failing(
        "/cluster/sdn/ipams",
        "sdn ipam object",
        "sdn ipam object ID '{id}' already defined",
        "sdn '{id}' does not exist",
    ),
    failing(
        "/cluster/sdn/vnets",
        "sdn vnet object",
        "sdn vnet object ID '{id}' already defined",
        "sdn '{id}' does not exist",
    ),
    failing(
        "/cluster/sdn/vnets/{vnet}/subnets",
        "sdn subnet object",
        "sdn subnet object ID '{id}' already defined",
        "sdn '{id}' does not exist",
    ),
    failing(
        "/cluster/sdn/zones",
        "sdn zone object",
        "sdn zone object ID '{id}' already defined",
        "sdn '{id}' does not exist",
    ),
    refusing("/cluster/backup", "Job '{id}' already exists", "No such job '{id}'"),
    refusing("/firewall/aliases", "alias '{id}' already exists", "no such alias"),
    failing("/firewall/groups", "", "security group '{id}' already exists", "no such security group '{id}'"),
    refusing("/firewall/ipset", "IPSet '{id}' already exists", "no such IPSet"),
    refusing("/firewall/ipset/{name}", "address '{id}' already exists", "no such IP/Network"),
];

fn words(list: &str) -> Option<&'static Words> {
    WORDS.iter().find(|words| {
        words.list == list || (words.list.starts_with("/firewall") && list.ends_with(words.list))
    })
}

fn refusal(
    list: &str,
    name: &str,
    id: &str,
    verb: &str,
    text: fn(&Words) -> &'static str,
    otherwise: &str,
) -> Refusal {
    let Some(words) = words(list) else { return Refusal::failed(format!("'{id}' {otherwise}")) };
    let text = text(words).replace("{id}", id);
    if list == "/access/domains" && !verb.is_empty() {
        // Realms are called otherwise where they are changed.
        return Refusal::failed(match verb {
            "create" => format!("add auth server failed: {text}"),
            "delete" => format!("delete auth server failed: authentication {text}"),
            verb => format!("{verb} auth server failed: {text}"),
        });
    }
    if words.parameter {
        Refusal::parameter(name, text)
    } else if words.object.is_empty() || verb.is_empty() {
        Refusal::failed(text)
    } else {
        Refusal::failed(format!("{verb} {} failed: {text}", words.object))
    }
}

pub(super) fn exists(list: &str, name: &str, id: &str) -> Refusal {
    refusal(list, name, id, "create", |words| words.exists, "already exists")
}

pub(super) fn missing(list: &str, name: &str, id: &str, doing: Doing) -> Refusal {
    let verb = match doing {
        Doing::Read => "",
        Doing::Update => "update",
        Doing::Delete => "delete",
    };
    refusal(list, name, id, verb, |words| words.missing, "does not exist")
}

/// What a kind asks for beyond its parameters.
pub(super) fn allowed(world: &World, call: &Call) -> Result<(), Refusal> {
    let hypervisor = &world.hypervisor;
    match (call.method.as_str(), call.path) {
        ("POST" | "PUT", "/cluster/ha/rules" | "/cluster/ha/rules/{rule}") => {
            let unmanaged: Vec<String> =
                call.list("resources").into_iter().filter(|sid| !hypervisor.ha.contains_key(sid)).collect();
            if !unmanaged.is_empty() {
                let text = format!("cannot use unmanaged resource(s) {}.", unmanaged.join(", "));
                return Err(Refusal::failed(text));
            }
        }
        // Two realms are there without a line in any file.
        ("POST", "/access/domains") if matches!(call.text("realm"), "pam" | "pve") => {
            return Err(exists("/access/domains", "realm", call.text("realm")));
        }
        ("POST", "/cluster/sdn/vnets") => {
            let zone = call.text("zone");
            if hypervisor.kept.get("/cluster/sdn/zones", zone).is_none() {
                let text = format!("create sdn vnet object failed: sdn zone '{zone}' doesn't exist");
                return Err(Refusal::failed(text));
            }
        }
        ("DELETE", "/cluster/sdn/zones/{zone}") => {
            let zone = json!(call.text("zone"));
            let mut vnets = hypervisor.kept.named("/cluster/sdn/vnets");
            if let Some((vnet, _)) = vnets.find(|(_, fields)| fields.get("zone") == Some(&zone)) {
                let text = format!(
                    "delete sdn zone object failed: zone {} is used by vnet {vnet}",
                    call.text("zone")
                );
                return Err(Refusal::failed(text));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The name of a new thing: what the call says, or what Proxmox makes of it.
pub(super) fn id_of(kept: &Kept, call: &Call, name: &str, rng: &mut Rng) -> String {
    match (call.path, call.get(name)) {
        ("/cluster/sdn/vnets/{vnet}/subnets", Some(cidr)) => {
            let vnet = kept.get("/cluster/sdn/vnets", call.text("vnet"));
            let zone = vnet.and_then(|vnet| vnet.get("zone")?.as_str()).unwrap_or_default();
            format!("{zone}-{}", cidr.replace('/', "-"))
        }
        (_, Some(given)) => given.to_owned(),
        (_, None) => {
            let id = rng.uuid();
            format!("backup-{}", id.get(..13).unwrap_or(&id))
        }
    }
}

/// Options that follow from others when a thing is made.
pub(super) fn derive(kept: &Kept, call: &Call, made: &mut Fields) {
    match call.path {
        "/cluster/sdn/vnets/{vnet}/subnets" => {
            let cidr = call.text("subnet");
            let (network, mask) = cidr.split_once('/').unwrap_or((cidr, ""));
            let vnet = kept.get("/cluster/sdn/vnets", call.text("vnet"));
            let zone = vnet.and_then(|vnet| vnet.get("zone").cloned()).unwrap_or(Value::Null);
            made.extend([
                ("cidr".to_owned(), json!(cidr)),
                ("network".to_owned(), json!(network)),
                ("mask".to_owned(), json!(mask)),
                ("vnet".to_owned(), json!(call.text("vnet"))),
                ("zone".to_owned(), zone),
            ]);
        }
        "/cluster/sdn/vnets" => drop(made.insert("type".to_owned(), json!("vnet"))),
        "/cluster/replication" => {
            let id = call.text("id");
            let (guest, number) = id.split_once('-').unwrap_or((id, "0"));
            made.insert("guest".to_owned(), json!(guest.parse::<u64>().unwrap_or(0)));
            made.insert("jobnum".to_owned(), json!(number.parse::<u64>().unwrap_or(0)));
        }
        _ => {}
    }
}

/// Options that are always shown.
pub(super) fn complete(name: &str, row: &mut Fields) {
    if name == "name"
        && let Some(cidr) = row.get("cidr").and_then(Value::as_str).map(str::to_owned)
    {
        row.insert("ipversion".to_owned(), json!(if cidr.contains(':') { 6 } else { 4 }));
    }
    if name == "realm" {
        row.entry("type".to_owned()).or_insert_with(|| json!("pve"));
    }
}
