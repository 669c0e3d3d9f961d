//! Calls that no other file here answers, by the rules that the table of calls itself has.
//!
//! A path below which the last part is a name holds several things, `{pos}` means by position; one that can be read and
//! changed holds one thing; one with parts below it lists them. So a rule of the firewall, a zone, a job or a realm is
//! made, shown, changed and removed without code of its own. Elsewhere there is nothing to list, and what would have to be
//! carried out (a container, Ceph) is answered as a call that this server does not have. Parameters and rights were
//! checked before.

use serde_json::{Value, json};

use super::answer::Data;
use super::kept_words::{self as words, Doing};
use super::request::Call;
use crate::hypervisor::kept::{Fields, Kept};
use crate::hypervisor::refusal::Refusal;
use crate::schema;
use crate::world::World;

/// Below these, configuration is kept.
const KEPT: &[&str] = &[
    "/access/domains",
    "/cluster/acme",
    "/cluster/backup",
    "/cluster/firewall",
    "/cluster/ha/rules",
    "/cluster/jobs",
    "/cluster/mapping",
    "/cluster/metrics/server",
    "/cluster/notifications",
    "/cluster/options",
    "/cluster/qemu/custom-cpu-models",
    "/cluster/replication",
    "/cluster/sdn",
    "/nodes/{node}/config",
    "/nodes/{node}/firewall",
    "/nodes/{node}/lxc/{vmid}/firewall",
    "/nodes/{node}/qemu/{vmid}/firewall",
];
/// Parameters that are no option of the thing itself.
const ABOUT_THE_CALL: &[&str] =
    &["node", "vmid", "digest", "delete", "force", "lock-token", "moveto", "pos", "rename", "allow-pending"];

fn is_kept(path: &str) -> bool {
    KEPT.iter()
        .any(|start| path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The name of the part that comes below a path, where it is a name.
fn name_below(path: &str) -> Option<&'static str> {
    let start = format!("{path}/{{");
    let below = schema::paths().iter().filter_map(|other| other.strip_prefix(&start)?.strip_suffix('}'));
    below.into_iter().find(|name| !name.contains('/'))
}

/// The fixed parts that come below a path.
fn parts_below(path: &str) -> Vec<&'static str> {
    let start = format!("{path}/");
    let mut parts: Vec<&str> = schema::paths()
        .iter()
        .filter_map(|other| other.strip_prefix(&start)?.split('/').next())
        .filter(|part| !part.starts_with('{'))
        .collect();
    parts.dedup();
    parts
}

/// The list that a path is in, and the name of its last part, where that is a name.
fn in_list(path: &'static str) -> Option<(&'static str, &'static str)> {
    let (list, last) = path.rsplit_once('/')?;
    Some((list, last.strip_prefix('{')?.strip_suffix('}')?))
}

/// A path with the names in it filled in.
pub(super) fn filled(path: &str, call: &Call) -> String {
    let fill = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some("node") => call.node.clone(),
        Some(name) => call.text(name).to_owned(),
        None => part.to_owned(),
    };
    // The firewall of a guest goes with it from host to host.
    let of_guest = ["/nodes/{node}/qemu/", "/nodes/{node}/lxc/"].iter().any(|start| path.starts_with(start));
    let path = if of_guest { path.trim_start_matches("/nodes/{node}") } else { path };
    path.split('/').map(fill).collect::<Vec<_>>().join("/")
}

/// The options that a call gives, each as what the table says it is.
pub(super) fn fields(call: &Call) -> Fields {
    let path: Vec<&str> =
        call.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
    let rules = schema::method(&call.method, call.path);
    let own = |name: &str| !ABOUT_THE_CALL.contains(&name) && !path.contains(&name);
    let names = call.params.names().filter(|name| own(name));
    let value = |name: &str| match rules.and_then(|rules| rules.rule(name)).map(|rule| rule.kind) {
        Some(schema::Kind::List) => json!(call.params.all(name)),
        Some(schema::Kind::Int | schema::Kind::Bool) => {
            call.text(name).parse::<i64>().map_or_else(|_| json!(call.text(name)), |number| json!(number))
        }
        _ => json!(call.text(name)),
    };
    names.map(|name| (name.to_owned(), value(name))).collect()
}

fn changed_since(kept: &Kept, at: &str, call: &Call) -> Result<(), Refusal> {
    match call.get("digest") {
        Some(given) if given != kept.digest(at) => {
            Err(Refusal::failed("detected modified configuration - file changed by other user? Try again."))
        }
        _ => Ok(()),
    }
}

fn row(fields: &Fields, name: &str, id: &str, digest: Option<String>) -> Value {
    let mut row: Fields = fields.clone();
    row.insert(name.to_owned(), json!(id));
    if let Some(digest) = digest {
        row.insert("digest".to_owned(), json!(digest));
    }
    words::complete(name, &mut row);
    json!(row)
}

/// What lies under the path of the call must be there, if it is a thing in a list.
fn holder(kept: &Kept, call: &Call) -> Result<(), Refusal> {
    match in_list(call.path) {
        // A list to which nothing can be added only groups what is below it.
        Some((list, name))
            if is_kept(list)
                && schema::method("POST", list).is_some()
                && kept.get(&filled(list, call), call.text(name)).is_none() =>
        {
            Err(words::missing(list, name, call.text(name), Doing::Read))
        }
        _ => Ok(()),
    }
}

pub(super) fn read(world: &World, call: &Call) -> Result<Data, Refusal> {
    let kept = &world.hypervisor.kept;
    let at = filled(call.path, call);
    // A firewall is a file of its own: it can be there before its guest.
    if call.path.starts_with("/nodes/{node}/lxc/{vmid}") && !is_kept(call.path) {
        let text =
            format!("Configuration file 'nodes/{}/lxc/{}.conf' does not exist", call.node, call.vmid());
        return Err(Refusal::failed(text));
    }
    if !is_kept(call.path) {
        return nothing(call);
    }
    let digest = Some(kept.digest(&at));
    match (name_below(call.path), in_list(call.path)) {
        (Some("pos"), _) => {
            holder(kept, call)?;
            let rules = kept.ordered(&at).iter().enumerate();
            let rows = rules.map(|(pos, rule)| {
                let mut row = rule.clone();
                row.extend([("pos".to_owned(), json!(pos)), ("digest".to_owned(), json!(digest))]);
                json!(row)
            });
            Ok(rows.collect::<Value>().into())
        }
        (Some(name), _) => {
            holder(kept, call)?;
            let wanted = |fields: &Fields| {
                call.get("type").is_none_or(|kind| fields.get("type") == Some(&json!(kind)))
            };
            let rows = kept.named(&at).filter(|(_, fields)| wanted(fields));
            Ok(rows.map(|(id, fields)| row(fields, name, id, digest.clone())).collect::<Value>().into())
        }
        (None, Some((list, "pos"))) => {
            let list = filled(list, call);
            let rule = position(call).and_then(|pos| kept.ordered(&list).get(pos));
            let mut row = rule.ok_or_else(|| no_rule(call))?.clone();
            // It is answered as it was asked for: as text.
            let pos = json!(call.text("pos"));
            row.extend([("pos".to_owned(), pos), ("digest".to_owned(), json!(kept.digest(&list)))]);
            Ok(json!(row).into())
        }
        (None, Some((list, name))) => {
            let (list_at, id) = (filled(list, call), call.text(name));
            let fields = kept.get(&list_at, id).ok_or_else(|| words::missing(list, name, id, Doing::Read))?;
            Ok(row(fields, name, id, Some(kept.digest(&list_at))).into())
        }
        (None, None) if schema::method("PUT", call.path).is_some() => {
            let mut row = kept.single(&at).cloned().unwrap_or_default();
            row.insert("digest".to_owned(), json!(digest));
            Ok(json!(row).into())
        }
        (None, None) => nothing(call),
    }
}

/// A list of the parts below, or of nothing.
fn nothing(call: &Call) -> Result<Data, Refusal> {
    let parts = parts_below(call.path);
    let returns = schema::method("GET", call.path).map_or("", |method| method.returns.as_str());
    match returns {
        "array" if name_below(call.path).is_none() && !parts.is_empty() => {
            let key = if call.path.starts_with("/nodes") || call.path.starts_with("/cluster") {
                "name"
            } else {
                "subdir"
            };
            Ok(parts.into_iter().map(|part| json!({ key: part })).collect::<Value>().into())
        }
        "array" => Ok(json!([]).into()),
        _ => Err(Refusal::Unserved),
    }
}

fn position(call: &Call) -> Option<usize> {
    call.number("pos").and_then(|pos| usize::try_from(pos).ok())
}

fn no_rule(call: &Call) -> Refusal {
    Refusal::parameter("pos", format!("no rule at position {}", call.text("pos")))
}

pub(super) fn write(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    if !is_kept(call.path) {
        return Err(Refusal::Unserved);
    }
    words::allowed(world, call)?;
    let kept = &mut world.hypervisor.kept;
    match (call.method.as_str(), name_below(call.path), in_list(call.path)) {
        ("POST", Some("pos"), _) => {
            holder(kept, call)?;
            let at = filled(call.path, call);
            changed_since(kept, &at, call)?;
            let rules = kept.ordered_mut(&at);
            // A new rule goes to the top unless a place is named.
            let pos = position(call).unwrap_or(0).min(rules.len());
            rules.insert(pos, fields(call));
        }
        ("POST", Some(name), _) => {
            holder(kept, call)?;
            let at = filled(call.path, call);
            if let Some(old) = call.get("rename").filter(|old| kept.get(&at, old).is_some()) {
                let old = old.to_owned();
                kept.rename(&at, &old, call.text(name));
                return Ok(Value::Null.into());
            }
            let id = words::id_of(kept, call, name, &mut world.rng);
            make(kept, call.path, &at, name, &id, call)?;
        }
        ("POST", None, Some((list, name))) => {
            let at = filled(list, call);
            make(kept, list, &at, name, call.text(name), call)?;
        }
        ("PUT", _, Some((list, "pos"))) => {
            let list = filled(list, call);
            changed_since(kept, &list, call)?;
            change_rule(kept.ordered_mut(&list), call)?;
        }
        ("DELETE", _, Some((list, "pos"))) => {
            let list = filled(list, call);
            changed_since(kept, &list, call)?;
            let rules = kept.ordered_mut(&list);
            let pos = position(call).filter(|pos| *pos < rules.len()).ok_or_else(|| no_rule(call))?;
            rules.remove(pos);
        }
        ("PUT", _, Some((list, name))) => {
            let (at, id) = (filled(list, call), call.text(name));
            changed_since(kept, &at, call)?;
            let set = fields(call);
            let thing = kept.get_mut(&at, id).ok_or_else(|| words::missing(list, name, id, Doing::Update))?;
            write_into(thing, set, call);
            if let Some(new) = call.get("rename").filter(|new| *new != id) {
                kept.rename(&at, id, new);
            }
        }
        ("DELETE", _, Some((list, name))) => {
            let (at, id) = (filled(list, call), call.text(name));
            changed_since(kept, &at, call)?;
            if !kept.remove(&at, id) {
                return Err(words::missing(list, name, id, Doing::Delete));
            }
        }
        ("PUT", None, None) if schema::method("GET", call.path).is_some() => {
            let at = filled(call.path, call);
            changed_since(kept, &at, call)?;
            let set = fields(call);
            write_into(kept.single_mut(&at), set, call);
        }
        _ => return Err(Refusal::Unserved),
    }
    Ok(Value::Null.into())
}

/// Sets and removes options. One without a value is lost when the file is read again, so it is as good as removed.
fn write_into(thing: &mut Fields, set: Fields, call: &Call) {
    thing.extend(set);
    thing.retain(|key, value| *value != json!("") && !call.list("delete").contains(key));
}

fn make(
    kept: &mut Kept,
    list: &'static str,
    at: &str,
    name: &str,
    id: &str,
    call: &Call,
) -> Result<(), Refusal> {
    if kept.get(at, id).is_some() {
        return Err(words::exists(list, name, id));
    }
    let mut made = Fields::new();
    write_into(&mut made, fields(call), call);
    made.remove(name);
    words::derive(kept, call, &mut made);
    kept.put(at, id, made);
    Ok(())
}

fn change_rule(rules: &mut Vec<Fields>, call: &Call) -> Result<(), Refusal> {
    let pos = position(call).filter(|pos| *pos < rules.len()).ok_or_else(|| no_rule(call))?;
    if let Some(to) = call.number("moveto").and_then(|to| usize::try_from(to).ok()) {
        let rule = rules.remove(pos);
        let to = if to > pos { to - 1 } else { to };
        rules.insert(to.min(rules.len()), rule);
        return Ok(());
    }
    let (set, delete) = (fields(call), call.list("delete"));
    if let Some(rule) = rules.get_mut(pos) {
        rule.extend(set);
        rule.retain(|key, _| !delete.contains(key));
    }
    Ok(())
}
