//! Whether a caller may make a call at all, as the schema of the call says it. What else a handler asks for depends on the
//! parameters and is asked there.

use serde_json::Value;

use super::request::Params;
use crate::hypervisor::access::{Access, ROOT};
use crate::schema::{Method, formats};

/// Nothing, or what is missing: `path, privilege`, or no text where the server does not say.
pub(super) fn check(access: &Access, method: &Method, caller: &str, params: &Params) -> Result<(), String> {
    if caller == ROOT {
        return Ok(());
    }
    let permissions = &method.permissions;
    match permissions["user"].as_str() {
        Some("world" | "all") => return Ok(()),
        Some(user) if user == caller => return Ok(()),
        _ => {}
    }
    match permissions["check"].as_array() {
        Some(check) => allowed(access, check, caller, params),
        None if permissions.is_null() => Err("user != root@pam".to_owned()),
        None => Err(String::new()),
    }
}

/// The whole message for what is missing.
pub(super) fn words(detail: &str) -> String {
    match detail {
        "" => "Permission check failed".to_owned(),
        detail => format!("Permission check failed ({detail})"),
    }
}

fn allowed(access: &Access, check: &[Value], caller: &str, params: &Params) -> Result<(), String> {
    let parts = || check.iter().skip(1).filter_map(Value::as_array);
    let text = |at: usize| check.get(at).and_then(Value::as_str).unwrap_or_default();
    match text(0) {
        "and" => parts().try_for_each(|part| allowed(access, part, caller, params)),
        "or" => match parts().any(|part| allowed(access, part, caller, params).is_ok()) {
            true => Ok(()),
            false => Err(String::new()),
        },
        "perm" => {
            let path = fill(text(1), params);
            let needed = strings(check.get(2));
            let option = |name: &str| check.iter().any(|word| word.as_str() == Some(name));
            if option("require_param") && params.one(text(4)).is_none() {
                return Err(String::new());
            }
            let missing = |privilege: &&String| !access.may(caller, &path, privilege);
            if option("any") {
                return match needed.iter().all(|privilege| missing(&privilege)) {
                    true => Err(format!("{path}, {}", needed.join("|"))),
                    false => Ok(()),
                };
            }
            needed.iter().find(missing).map_or(Ok(()), |privilege| Err(format!("{path}, {privilege}")))
        }
        "perm-modify" => {
            let path = params.one("path").unwrap_or("/");
            let mut any = vec!["Permissions.Modify"];
            any.extend(match path.split('/').collect::<Vec<_>>().as_slice() {
                ["", "storage", name, ..] if !name.is_empty() => Some("Datastore.Allocate"),
                ["", "vms", name, ..] if !name.is_empty() => Some("VM.Allocate"),
                ["", "pool", name, ..] if !name.is_empty() => Some("Pool.Allocate"),
                _ => None,
            });
            match any.iter().any(|privilege| access.may(caller, path, privilege)) {
                true => Ok(()),
                false => Err(format!("{path}, {}", any.join("|"))),
            }
        }
        "userid-param" => {
            let user = params.one("userid").unwrap_or_default();
            match text(1) {
                "self" if user == caller => Ok(()),
                "self" => Err(String::new()),
                privilege => {
                    let realm = user.rsplit_once('@').map_or("", |(_, realm)| realm);
                    let path = format!("/access/realm/{realm}");
                    if access.may(caller, &path, privilege) {
                        Ok(())
                    } else {
                        Err(format!("{path}, {privilege}"))
                    }
                }
            }
        }
        "userid-group" => {
            let needed = strings(check.get(1));
            let may = |path: &str| needed.iter().any(|privilege| access.may(caller, path, privilege));
            if may("/access/groups") {
                return Ok(());
            }
            let option = check.iter().position(|word| word.as_str() == Some("groups_param"));
            let option = option.and_then(|at| check.get(at + 1)?.as_str());
            if option.is_some() {
                let groups = formats::items(params.one("groups").unwrap_or_default());
                if groups.is_empty() {
                    return Err(format!("/access/groups, {}", needed.join("|")));
                }
                let mut paths = groups.iter().map(|group| format!("/access/groups/{group}"));
                if let Some(path) = paths.find(|path| !may(path)) {
                    return Err(format!("{path}, {}", needed.join("|")));
                }
            }
            if option == Some("create") {
                return Ok(());
            }
            let user = params.one("userid").and_then(|user| access.users.get(user));
            let mut groups = user.into_iter().flat_map(|user| &user.groups);
            match groups.any(|group| may(&format!("/access/groups/{group}"))) {
                true => Ok(()),
                false => Err(String::new()),
            }
        }
        _ => Err(String::new()),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let all = value.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The path with the names in braces replaced by the parameters of that name.
fn fill(template: &str, params: &Params) -> String {
    let fill = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => params.one(name).unwrap_or_default().to_owned(),
        None => part.to_owned(),
    };
    template.split('/').map(fill).collect::<Vec<_>>().join("/")
}
