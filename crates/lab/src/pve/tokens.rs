//! API tokens of a user.

use serde_json::{Map, Value, json};

use super::access::forget;
use super::answer::Data;
use super::request::Call;
use crate::hypervisor::access::{Principal, Token, User};
use crate::hypervisor::refusal::Refusal;
use crate::world::World;

/// What is shown of a token, with its name or without.
pub(super) fn row(name: Option<&str>, token: &Token) -> Value {
    let mut row = json!({"privsep": u8::from(token.separated), "expire": token.expire});
    if let Some(name) = name {
        row["tokenid"] = json!(name);
    }
    if let Some(comment) = &token.comment {
        row["comment"] = json!(comment);
    }
    row
}

fn user<'a>(world: &'a World, call: &Call) -> Result<&'a User, Refusal> {
    let id = call.text("userid");
    world.hypervisor.access.users.get(id).ok_or_else(|| Refusal::failed(format!("no such user ('{id}')")))
}

fn no_such(call: &Call) -> Refusal {
    Refusal::failed(format!("no such token '{}' for user '{}'", call.text("tokenid"), call.text("userid")))
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    Ok(user(world, call)?.tokens.iter().map(|(name, token)| row(Some(name), token)).collect::<Value>().into())
}

pub(super) fn read(world: &World, call: &Call) -> Result<Data, Refusal> {
    let token = user(world, call)?.tokens.get(call.text("tokenid")).ok_or_else(|| no_such(call))?;
    Ok(row(None, token).into())
}

/// Takes what a request says about a token.
fn fill(token: &mut Token, call: &Call) {
    if let Some(separated) = call.get("privsep") {
        token.separated = separated == "1";
    }
    if let Some(expire) = call.get("expire").and_then(|text| text.parse().ok()) {
        token.expire = expire;
    }
    if let Some(comment) = call.get("comment") {
        token.comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
    }
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let name = call.text("tokenid");
    if user(world, call)?.tokens.contains_key(name) {
        return Err(Refusal::parameter("tokenid", "Token already exists."));
    }
    let secret = world.rng.uuid();
    let mut token = Token { secret: secret.clone(), separated: true, expire: 0, comment: None };
    fill(&mut token, call);
    // What was said is repeated as it was said; the one thing that has a default is added.
    let mut info = Map::from_iter([("privsep".to_owned(), json!(1))]);
    for key in ["privsep", "expire", "comment"] {
        if let Some(value) = call.get(key) {
            info.insert(key.to_owned(), json!(value));
        }
    }
    let id = call.text("userid");
    if let Some(user) = world.hypervisor.access.users.get_mut(id) {
        user.tokens.insert(name.to_owned(), token);
    }
    Ok(json!({"full-tokenid": format!("{id}!{name}"), "value": secret, "info": info}).into())
}

pub(super) fn update(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    user(world, call)?;
    let secret = if call.flag("regenerate") { world.rng.uuid() } else { String::new() };
    let user = world.hypervisor.access.users.get_mut(call.text("userid"));
    let token =
        user.and_then(|user| user.tokens.get_mut(call.text("tokenid"))).ok_or_else(|| no_such(call))?;
    fill(token, call);
    for key in call.list("delete") {
        if key != "comment" {
            let refusal = Refusal::parameter("delete", format!("unknown option '{key}'"));
            return Err(Refusal::failed(format!("updating token info failed: {}", refusal.in_task())));
        }
        token.comment = None;
    }
    if call.flag("regenerate") {
        // Rights, comment and expiry stay; the old secret opens nothing any more.
        token.secret.clone_from(&secret);
        let full = format!("{}!{}", call.text("userid"), call.text("tokenid"));
        let mut row = row(None, token);
        row["full-tokenid"] = json!(full);
        row["value"] = json!(secret);
        return Ok(row.into());
    }
    Ok(row(None, token).into())
}

pub(super) fn delete(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    user(world, call)?;
    let access = &mut world.hypervisor.access;
    let (id, name) = (call.text("userid"), call.text("tokenid"));
    let removed = access.users.get_mut(id).and_then(|user| user.tokens.remove(name));
    removed.ok_or_else(|| no_such(call))?;
    let full = format!("{id}!{name}");
    forget(access, |who| matches!(who, Principal::Token(token) if *token == full));
    Ok(Value::Null.into())
}
