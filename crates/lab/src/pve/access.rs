//! Logging in, users, groups, roles, lists, and what a caller may do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::access::{Access, Principal, ROOT, User};
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::roles;
use crate::hypervisor::work::Work;
use crate::operations::tasks;
use crate::world::World;

/// Paths that are shown even where no list names them.
const PATHS: &[&str] = &[
    "/",
    "/access",
    "/access/groups",
    "/access/realm",
    "/mapping",
    "/nodes",
    "/pool",
    "/sdn",
    "/storage",
    "/vms",
];
const REALMS: &[(&str, &str)] =
    &[("pam", "Linux PAM standard authentication"), ("pve", "Proxmox VE authentication server")];

pub(super) fn index(_: &World, _: &Call) -> Result<Data, Refusal> {
    let names = ["users", "groups", "roles", "acl", "domains", "openid", "tfa", "ticket", "password"];
    Ok(json!(names.map(|name| json!({ "subdir": name }))).into())
}

pub(super) fn permissions(world: &World, call: &Call) -> Result<Data, Refusal> {
    let access = &world.hypervisor.access;
    let who = call.get("userid").unwrap_or(&call.caller);
    if who != call.caller && !access.may(&call.caller, "/access", "Sys.Audit") {
        return Err(Refusal::Forbidden("Permission check failed (/access, Sys.Audit)".to_owned()));
    }
    let paths: BTreeSet<&str> = match call.get("path") {
        Some(path) => BTreeSet::from([path]),
        None => PATHS.iter().copied().chain(access.acl.keys().map(String::as_str)).collect(),
    };
    let mut rows = Map::new();
    for path in paths {
        let all = if who == ROOT { roles::everything() } else { access.privileges(who, path) };
        if !all.is_empty() || call.get("path").is_some() {
            let all = all.into_iter().map(|(privilege, down)| (privilege, json!(u8::from(down))));
            rows.insert(path.to_owned(), Value::Object(all.collect()));
        }
    }
    Ok(Value::Object(rows).into())
}

/// What the interface shows to a caller, area by area.
fn capabilities(access: &Access, user: &str) -> Value {
    let area = |path: &str, prefixes: &[&str]| {
        let all = if user == ROOT { roles::everything() } else { access.privileges(user, path) };
        let all = all.into_keys().filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        Value::Object(all.map(|name| (name, json!(1))).collect::<Map<_, _>>())
    };
    json!({
        "vms": area("/vms", &["VM.", "Permissions."]),
        "storage": area("/storage", &["Datastore.", "Permissions."]),
        "nodes": area("/nodes", &["Sys.", "Permissions."]),
        "access": area("/access", &["User.", "Group.", "Permissions."]),
        "mapping": area("/mapping", &["Mapping.", "Permissions."]),
        "sdn": area("/sdn", &["SDN.", "Permissions."]),
        "dc": area("/", &["Sys.Audit", "Sys.Modify", "SDN."]),
    })
}

pub(super) fn ticket(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("username");
    let user = match call.get("realm") {
        Some(realm) if !name.contains('@') => format!("{name}@{realm}"),
        _ => name.to_owned(),
    };
    let access = &world.hypervisor.access;
    let (password, now) = (call.text("password"), world.now);
    let proved = match call.get("tfa-challenge") {
        Some(challenge) => access.answers(&user, challenge, password, now),
        None => access.password(&user, password, now),
    };
    if !proved {
        return Err(Refusal::Unauthorized("authentication failure".to_owned()));
    }
    if call.get("tfa-challenge").is_none() && access.needs_code(&user, password, now) {
        return Ok(json!({
            "username": user,
            "ticket": access.new_challenge(&user, now),
            "CSRFPreventionToken": access.csrf(&user, now),
            "NeedTFA": 1,
        })
        .into());
    }
    Ok(json!({
        "username": user,
        "ticket": access.new_ticket(&user, world.now),
        "CSRFPreventionToken": access.csrf(&user, world.now),
        "cap": capabilities(access, &user),
    })
    .into())
}

pub(super) fn ticket_form(_: &World, _: &Call) -> Result<Data, Refusal> {
    Ok(Value::Null.into())
}

pub(super) fn password(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let user = user_mut(world, call.text("userid"), "")?;
    user.password = call.get("password").map(str::to_owned);
    Ok(Value::Null.into())
}

pub(super) fn domains(world: &World, _: &Call) -> Result<Data, Refusal> {
    let row = |(realm, comment): &(&str, &str)| json!({"realm": realm, "type": realm, "comment": comment});
    let mut rows: Vec<Value> = REALMS.iter().map(row).collect();
    for (realm, fields) in world.hypervisor.kept.named("/access/domains") {
        let shown = fields.iter().filter(|(key, _)| matches!(key.as_str(), "comment" | "default" | "type"));
        let mut row: Map<String, Value> = shown.map(|(key, value)| (key.clone(), value.clone())).collect();
        row.insert("realm".to_owned(), json!(realm));
        rows.push(Value::Object(row));
    }
    Ok(Value::Array(rows).into())
}

pub(super) fn domain(world: &World, call: &Call) -> Result<Data, Refusal> {
    match REALMS.iter().find(|(realm, _)| *realm == call.text("realm")) {
        Some((realm, comment)) => Ok(json!({"type": realm, "comment": comment}).into()),
        None => super::kept::read(world, call),
    }
}

/// There is no directory to take users from, so that a synchronisation ends well and brings no one.
pub(super) fn sync(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let realm = call.text("realm");
    if world.hypervisor.kept.get("/access/domains", realm).is_none() {
        return Err(Refusal::failed(format!("domain '{realm}' does not exist")));
    }
    Ok(json!(tasks::begin(world, &call.local, "auth-realm-sync", realm, &call.caller, Work::Nothing)).into())
}

fn user_mut<'a>(world: &'a mut World, id: &str, what: &str) -> Result<&'a mut User, Refusal> {
    let user = world.hypervisor.access.users.get_mut(id);
    user.ok_or_else(|| Refusal::failed(format!("{what}no such user ('{id}')")))
}

fn user_row(id: &str, user: &User) -> Value {
    let mut row = json!({
        "userid": id, "enable": u8::from(!user.disabled), "expire": user.expire,
        "realm-type": id.rsplit_once('@').map_or("", |(_, realm)| realm),
    });
    for (key, value) in &user.about {
        row[key] = json!(value);
    }
    row
}

pub(super) fn users(world: &World, call: &Call) -> Result<Data, Refusal> {
    let access = &world.hypervisor.access;
    let own = call.caller.split('!').next().unwrap_or_default();
    let audits = |privilege: &str| access.may(&call.caller, "/access/groups", privilege);
    let all = audits("User.Modify") || audits("Sys.Audit");
    let wanted = |user: &User| call.get("enabled").is_none_or(|flag| (flag == "1") != user.disabled);
    let rows =
        access.users.iter().filter(|(id, user)| (all || *id == own) && wanted(user)).map(|(id, user)| {
            let mut row = user_row(id, user);
            if call.flag("full") {
                row["groups"] = json!(user.groups.iter().cloned().collect::<Vec<_>>().join(","));
                let tokens = user.tokens.iter().map(|(id, token)| super::tokens::row(Some(id), token));
                row["tokens"] = tokens.collect();
            }
            row
        });
    Ok(rows.collect::<Value>().into())
}

pub(super) fn user(world: &World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("userid");
    let user = world.hypervisor.access.users.get(id);
    let user = user.ok_or_else(|| Refusal::failed(format!("no such user ('{id}')")))?;
    let mut row = user_row(id, user);
    row["groups"] = json!(user.groups);
    let tokens = user.tokens.iter().map(|(id, token)| (id.clone(), super::tokens::row(None, token)));
    row["tokens"] = Value::Object(tokens.collect());
    if let Some(fields) = row.as_object_mut() {
        fields.remove("userid");
        fields.remove("realm-type");
    }
    Ok(row.into())
}

/// Takes what a request says about a user.
fn fill(user: &mut User, call: &Call) {
    for key in ["comment", "firstname", "lastname", "email", "keys"] {
        if let Some(value) = call.get(key) {
            user.about.insert(key.to_owned(), value.to_owned());
        }
    }
    if let Some(enable) = call.get("enable") {
        user.disabled = enable != "1";
    }
    if let Some(expire) = call.get("expire").and_then(|text| text.parse().ok()) {
        user.expire = expire;
    }
}

pub(super) fn create_user(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("userid");
    let realm = id.rsplit_once('@').map_or("", |(_, realm)| realm);
    let failed = |text: String| Err(Refusal::failed(format!("create user failed: {text}")));
    let own_realm = world.hypervisor.kept.get("/access/domains", realm).is_some();
    let known_realm = own_realm || REALMS.iter().any(|(known, _)| *known == realm);
    let access = &mut world.hypervisor.access;
    if access.users.contains_key(id) {
        return failed(format!("user '{id}' already exists"));
    }
    // Only a password makes the realm matter.
    if call.get("password").is_some() && !known_realm {
        return failed(format!("auth domain '{realm}' does not exist"));
    }
    let groups: BTreeSet<String> = call.list("groups").into_iter().collect();
    if let Some(group) = groups.iter().find(|group| !access.groups.contains_key(*group)) {
        return failed(format!("no such group '{group}'"));
    }
    let mut user = User { password: call.get("password").map(str::to_owned), groups, ..User::default() };
    fill(&mut user, call);
    access.users.insert(id.to_owned(), user);
    Ok(Value::Null.into())
}

pub(super) fn update_user(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let groups = call.get("groups").map(|_| call.list("groups").into_iter().collect::<BTreeSet<_>>());
    let known = &world.hypervisor.access.groups;
    let unknown = groups.iter().flatten().find(|group| !known.contains_key(*group)).cloned();
    let user = user_mut(world, call.text("userid"), "update user failed: ")?;
    if let Some(group) = unknown {
        return Err(Refusal::failed(format!("update user failed: no such group '{group}'")));
    }
    fill(user, call);
    if let Some(groups) = groups {
        if call.flag("append") {
            user.groups.extend(groups);
        } else {
            user.groups = groups;
        }
    }
    Ok(Value::Null.into())
}

pub(super) fn delete_user(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let id = call.text("userid");
    let access = &mut world.hypervisor.access;
    // A user who is not there is gone already, and root is back at once, with nothing but the password of the host.
    if let Some(user) = access.users.remove(id).filter(|_| id == ROOT) {
        access.users.insert(id.to_owned(), User { password: user.password, ..User::default() });
    }
    let token = format!("{id}!");
    forget(access, |who| match who {
        Principal::User(user) => user == id,
        Principal::Token(name) => name.starts_with(&token),
        Principal::Group(_) => false,
    });
    Ok(Value::Null.into())
}

/// Takes principals off every list.
pub(super) fn forget(access: &mut Access, gone: impl Fn(&Principal) -> bool) {
    for entries in access.acl.values_mut() {
        entries.retain(|who, _| !gone(who));
    }
    access.acl.retain(|_, entries| !entries.is_empty());
}

fn members(access: &Access, group: &str) -> Vec<String> {
    let users = access.users.iter().filter(|(_, user)| user.groups.contains(group));
    users.map(|(id, _)| id.clone()).collect()
}

pub(super) fn groups(world: &World, _: &Call) -> Result<Data, Refusal> {
    let access = &world.hypervisor.access;
    let row = |(name, comment): (&String, &String)| json!({"groupid": name, "comment": comment, "users": members(access, name).join(",")});
    Ok(access.groups.iter().map(row).collect::<Value>().into())
}

pub(super) fn group(world: &World, call: &Call) -> Result<Data, Refusal> {
    let (access, name) = (&world.hypervisor.access, call.text("groupid"));
    match access.groups.get(name) {
        Some(comment) => Ok(json!({"comment": comment, "members": members(access, name)}).into()),
        None => Err(Refusal::failed(format!("group '{name}' does not exist"))),
    }
}

pub(super) fn create_group(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (groups, name) = (&mut world.hypervisor.access.groups, call.text("groupid"));
    if groups.contains_key(name) {
        return Err(Refusal::failed(format!("create group failed: group '{name}' already exists")));
    }
    groups.insert(name.to_owned(), call.text("comment").to_owned());
    Ok(Value::Null.into())
}

pub(super) fn update_group(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("groupid");
    match world.hypervisor.access.groups.get_mut(name) {
        Some(comment) => call.text("comment").clone_into(comment),
        None => return Err(Refusal::failed(format!("update group failed: group '{name}' does not exist"))),
    }
    Ok(Value::Null.into())
}

pub(super) fn delete_group(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (access, name) = (&mut world.hypervisor.access, call.text("groupid"));
    if access.groups.remove(name).is_none() {
        return Err(Refusal::failed(format!("delete group failed: group '{name}' does not exist")));
    }
    for user in access.users.values_mut() {
        user.groups.remove(name);
    }
    forget(access, |who| matches!(who, Principal::Group(group) if group == name));
    Ok(Value::Null.into())
}

pub(super) fn roles(world: &World, _: &Call) -> Result<Data, Refusal> {
    let access = &world.hypervisor.access;
    let names = roles::BUILT_IN.iter().map(|name| ((*name).to_owned(), 1));
    let names: BTreeMap<String, u8> =
        names.chain(access.roles.keys().map(|name| (name.clone(), 0))).collect();
    let row = |(name, special): (String, u8)| {
        let privileges = access.role(&name).unwrap_or_default().join(",");
        json!({"roleid": name, "special": special, "privs": privileges})
    };
    Ok(names.into_iter().map(row).collect::<Value>().into())
}

pub(super) fn role(world: &World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("roleid");
    let Some(privileges) = world.hypervisor.access.role(name) else {
        return Err(Refusal::failed(format!("role '{name}' does not exist")));
    };
    Ok(Value::Object(privileges.into_iter().map(|privilege| (privilege, json!(1))).collect()).into())
}

pub(super) fn create_role(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (access, name) = (&mut world.hypervisor.access, call.text("roleid"));
    if name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("PVE")) {
        let text = "cannot use role ID starting with the (case-insensitive) 'PVE' namespace";
        return Err(Refusal::parameter("roleid", text));
    }
    if access.role(name).is_some() {
        return Err(Refusal::failed(format!("create role failed: role '{name}' already exists")));
    }
    access.roles.insert(name.to_owned(), call.list("privs").into_iter().collect());
    Ok(Value::Null.into())
}

/// Roles that Proxmox comes with stay as they are.
fn own_role<'a>(
    access: &'a mut Access,
    name: &str,
    what: &str,
    done: &str,
) -> Result<&'a mut BTreeSet<String>, Refusal> {
    if roles::BUILT_IN.contains(&name) {
        return Err(Refusal::failed(format!("auto-generated role '{name}' cannot be {done}")));
    }
    let role = access.roles.get_mut(name);
    role.ok_or_else(|| Refusal::failed(format!("{what} role failed: role '{name}' does not exist")))
}

pub(super) fn update_role(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let role = own_role(&mut world.hypervisor.access, call.text("roleid"), "update", "modified")?;
    if !call.flag("append") {
        role.clear();
    }
    role.extend(call.list("privs"));
    Ok(Value::Null.into())
}

pub(super) fn delete_role(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (access, name) = (&mut world.hypervisor.access, call.text("roleid"));
    own_role(access, name, "delete", "deleted")?;
    access.roles.remove(name);
    for entries in access.acl.values_mut().flat_map(BTreeMap::values_mut) {
        entries.remove(name);
    }
    Ok(Value::Null.into())
}

pub(super) fn acl(world: &World, call: &Call) -> Result<Data, Refusal> {
    let access = &world.hypervisor.access;
    let shown = |path: &str| {
        access.may(&call.caller, path, "Permissions.Modify")
            || access.may(&call.caller, "/access", "Sys.Audit")
    };
    let mut rows = Vec::new();
    for (path, entries) in access.acl.iter().filter(|(path, _)| shown(path)) {
        for (who, roles) in entries {
            let (kind, name) = who.parts();
            for (role, down) in roles {
                rows.push(json!({
                    "path": path, "type": kind, "ugid": name, "roleid": role, "propagate": u8::from(*down),
                }));
            }
        }
    }
    Ok(Value::Array(rows).into())
}

/// A path as the lists have it: single slashes, one at its beginning and none at its end.
fn normal_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let plain = |part: &&str| is_plain(part, ".-_");
    (!path.is_empty() && parts.iter().all(plain)).then(|| format!("/{}", parts.join("/")))
}

fn is_plain(part: &str, also: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

/// Whether a list can be at that path.
fn is_acl_path(path: &str) -> bool {
    let number = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len())
            && !text.starts_with('0')
            && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    match path.split('/').skip(1).collect::<Vec<_>>().as_slice() {
        [""] | ["access" | "nodes" | "pool" | "sdn" | "storage" | "vms" | "mapping"] => true,
        ["access", "groups" | "realm"] | ["access", "groups" | "realm", _] => true,
        ["nodes" | "storage", _] | ["mapping", _] | ["mapping", _, _] => true,
        ["vms", id] => number(id, 3..=usize::MAX),
        ["pool", rest @ ..] => rest.len() <= 3,
        ["sdn", "zones" | "fabrics" | "controllers" | "dns" | "ipams"] => true,
        ["sdn", "zones", _] | ["sdn", "zones", _, _] => true,
        ["sdn", "zones", _, _, tag] => number(tag, 1..=4),
        ["sdn", "controllers", name] => is_plain(name, "_-"),
        ["sdn", "fabrics" | "dns" | "ipams", name] => is_plain(name, ""),
        _ => false,
    }
}

/// A user that may not change all lists may grant only its own privileges.
fn may_hand_out(access: &Access, call: &Call, path: &str, role: &str) -> Result<(), String> {
    let own = if call.caller == ROOT { roles::everything() } else { access.privileges(&call.caller, path) };
    if own.contains_key("Permissions.Modify") {
        return Ok(());
    }
    let delete = call.flag("delete");
    let verb = if delete { "remove" } else { "add" };
    let down = call.get("propagate") != Some("0");
    for privilege in access.role(role).unwrap_or_default() {
        match own.get(&privilege) {
            None => {
                return Err(format!(
                    "Cannot {verb} role '{role}' - requires 'Permissions.Modify' or superset of privileges."
                ));
            }
            Some(own_down) if down && !own_down && !delete => {
                return Err(format!(
                    "Cannot {verb} role '{role}' with propagation - requires 'Permissions.Modify' or propagated \
                     superset of privileges."
                ));
            }
            Some(_) => {}
        }
    }
    match role {
        "NoAccess" => Err(format!("Cannot {verb} role '{role}' - requires 'Permissions.Modify'")),
        _ => Ok(()),
    }
}

pub(super) fn set_acl(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let (users, groups, tokens) = (call.list("users"), call.list("groups"), call.list("tokens"));
    if users.is_empty() && groups.is_empty() && tokens.is_empty() {
        let text = "either 'users', 'groups' or 'tokens' is required.";
        let errors = ["users", "groups", "tokens"].map(|name| (name.to_owned(), text.to_owned()));
        return Err(Refusal::Parameters(errors.into()));
    }
    let delete = call.flag("delete");
    let path = normal_path(call.text("path")).filter(|path| delete || is_acl_path(path));
    let Some(path) = path else {
        return Err(Refusal::parameter("path", format!("invalid ACL path '{}'", call.text("path"))));
    };
    let access = &mut world.hypervisor.access;
    let failed = |text: String| Err(Refusal::failed(format!("ACL update failed: {text}")));
    let roles = call.list("roles");
    for role in &roles {
        if access.role(role).is_none() {
            return failed(format!("role '{role}' does not exist"));
        }
        if let Err(words) = may_hand_out(access, call, &path, role) {
            return failed(Refusal::parameter("role", words).in_task());
        }
    }
    if let Some(group) = groups.iter().find(|group| !access.groups.contains_key(*group)) {
        return failed(format!("group '{group}' does not exist"));
    }
    if let Some(user) = users.iter().find(|user| !access.users.contains_key(*user)) {
        return failed(format!("user '{user}' does not exist"));
    }
    for (user, name) in tokens.iter().filter_map(|token| token.split_once('!')) {
        match access.users.get(user) {
            None => return failed(format!("no such user ('{user}')")),
            Some(known) if !known.tokens.contains_key(name) => {
                return failed(format!("no such token '{name}' for user '{user}'"));
            }
            Some(_) => {}
        }
    }
    let whom = users.into_iter().map(Principal::User).chain(groups.into_iter().map(Principal::Group));
    let down = call.get("propagate") != Some("0");
    for who in whom.chain(tokens.into_iter().map(Principal::Token)) {
        let entry = access.acl.entry(path.clone()).or_default().entry(who).or_default();
        for role in &roles {
            if delete {
                entry.remove(role);
            } else {
                entry.insert(role.clone(), down);
            }
        }
    }
    for entries in access.acl.values_mut() {
        entries.retain(|_, roles| !roles.is_empty());
    }
    access.acl.retain(|_, entries| !entries.is_empty());
    Ok(Value::Null.into())
}
