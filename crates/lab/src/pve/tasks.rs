//! Tasks: their lists, states and logs.

use serde_json::{Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need;
use crate::hypervisor::tasks::Task;
use crate::world::World;

const PAGE: u64 = 50;

/// What is known of every task.
fn head(task: &Task) -> Value {
    let (user, token) = match task.user.split_once('!') {
        Some((user, token)) => (user, Some(token)),
        None => (task.user.as_str(), None),
    };
    let mut row = json!({
        "upid": task.upid, "node": task.node, "type": task.kind, "id": task.id, "user": user, "pid": task.pid,
        "pstart": task.pstart, "starttime": task.started.as_second(),
    });
    if let Some(token) = token {
        row["tokenid"] = json!(token);
    }
    row
}

fn list_row(task: &Task) -> Value {
    let mut row = head(task);
    // In lists, who started a task is not taken apart.
    row["user"] = json!(task.user);
    if let Some(fields) = row.as_object_mut() {
        fields.remove("tokenid");
    }
    if let (Some(ended), Some(exit)) = (task.ended, &task.exit) {
        row["endtime"] = json!(ended.as_second());
        row["status"] = json!(exit);
    }
    row
}

/// A row of a list that holds running tasks too.
fn active_row(task: &Task, running: Option<&str>) -> Value {
    let mut row = list_row(task);
    row["saved"] = json!(u8::from(task.ended.is_some()).to_string());
    if let (None, Some(running)) = (task.ended, running) {
        row["status"] = json!(running);
    }
    row
}

fn is_well(exit: &str) -> bool {
    exit == "OK" || exit.starts_with("WARNINGS:")
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    let source = call.get("source").unwrap_or("archive");
    let seconds = |name: &str| call.get(name).and_then(|text| text.parse::<i64>().ok());
    let wanted = |task: &&Task| {
        let finished = task.ended.is_some();
        task.node == call.node
            && may_see(world, &call.caller, task)
            && (source == "all" || finished == (source == "archive"))
            && call.get("vmid").is_none_or(|vmid| vmid == task.id)
            && call.get("typefilter").is_none_or(|kind| kind == task.kind)
            && call.get("userfilter").is_none_or(|user| task.user.contains(user))
            && seconds("since").is_none_or(|since| task.started.as_second() >= since)
            && seconds("until").is_none_or(|until| task.started.as_second() <= until)
            && !(call.flag("errors") && task.exit.as_deref().is_none_or(is_well))
    };
    let mut tasks: Vec<&Task> = world.hypervisor.tasks.values().filter(wanted).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse((task.ended, task.started, &task.upid)));
    let total = tasks.len();
    let page = tasks.into_iter().skip(number(call, "start", 0)).take(number(call, "limit", PAGE));
    let row = |task| if source == "archive" { list_row(task) } else { active_row(task, Some("RUNNING")) };
    Ok(Data::of_total(page.map(row).collect(), total))
}

pub(super) fn cluster(world: &World, call: &Call) -> Result<Data, Refusal> {
    let all = world.hypervisor.tasks.values();
    let mut tasks: Vec<&Task> = all.filter(|task| may_see(world, &call.caller, task)).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse((task.started, &task.upid)));
    Ok(tasks.into_iter().take(50).map(|task| active_row(task, None)).collect::<Value>().into())
}

fn number(call: &Call, name: &str, default: u64) -> usize {
    usize::try_from(call.number(name).unwrap_or(default)).unwrap_or(usize::MAX)
}

/// Whether it looks like the id of a task.
fn is_upid(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let hex = |text: &&str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
    };
    match parts.as_slice() {
        ["UPID", node, pid, pstart, start, kind, _, user, ""] => {
            !node.is_empty()
                && hex(pid, 8..=8)
                && hex(pstart, 8..=9)
                && hex(start, 8..=8)
                && !kind.is_empty()
                && !user.is_empty()
        }
        _ => false,
    }
}

fn named<'a>(world: &'a World, call: &Call) -> Result<Option<&'a Task>, Refusal> {
    let upid = call.text("upid");
    if !is_upid(upid) {
        return Err(Refusal::parameter("upid", "unable to parse worker upid"));
    }
    Ok(world.hypervisor.tasks.get(upid).filter(|task| task.node == call.node))
}

/// The task, if the caller may look at it.
fn find<'a>(world: &'a World, call: &Call) -> Result<Option<&'a Task>, Refusal> {
    match named(world, call)? {
        Some(task) if !may_see(world, &call.caller, task) => {
            let text = format!("Permission check failed (/nodes/{}, Sys.Audit)", call.node);
            Err(Refusal::Forbidden(text))
        }
        other => Ok(other),
    }
}

/// A token started its own tasks, a user also those of its tokens.
fn is_own(caller: &str, task: &Task) -> bool {
    task.user == caller || task.user.split('!').next() == Some(caller)
}

/// The user that started a task sees it, an auditor sees all.
fn may_see(world: &World, caller: &str, task: &Task) -> bool {
    is_own(caller, task) || world.hypervisor.access.may(caller, &format!("/nodes/{}", task.node), "Sys.Audit")
}

/// The parts of a task, whether it is there or not.
pub(super) fn index(_: &World, _: &Call) -> Result<Data, Refusal> {
    Ok(json!([{"name": "log"}, {"name": "status"}]).into())
}

pub(super) fn stop(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let task = named(world, call)?.ok_or_else(|| Refusal::parameter("upid", "no such task"))?;
    if !is_own(&call.caller, task) {
        let path = format!("/nodes/{}", call.node);
        need(&world.hypervisor.access, &call.caller, &path, "Sys.Modify")?;
    }
    let now = world.now;
    if let Some(task) = world.hypervisor.tasks.get_mut(call.text("upid")) {
        task.interrupt(now);
    }
    for vm in world.hypervisor.vms.values_mut().filter(|vm| vm.holder.as_deref() == Some(call.text("upid"))) {
        vm.holder = None;
    }
    Ok(Value::Null.into())
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let task = find(world, call)?.ok_or_else(|| Refusal::parameter("upid", "no such task"))?;
    let mut row = head(task);
    row["status"] = json!(if task.ended.is_some() { "stopped" } else { "running" });
    if let Some(exit) = &task.exit {
        row["exitstatus"] = json!(exit);
    }
    Ok(row.into())
}

pub(super) fn log(world: &World, call: &Call) -> Result<Data, Refusal> {
    let lines = match find(world, call)? {
        Some(task) => task.lines(world.now),
        None => vec!["unable to open file - No such file or directory"],
    };
    let lines = if lines.is_empty() { vec!["no content"] } else { lines };
    let limit = match number(call, "limit", PAGE) {
        0 => usize::MAX,
        limit => limit,
    };
    let page = lines.iter().enumerate().skip(number(call, "start", 0)).take(limit);
    let page: Vec<Value> = page.map(|(index, text)| json!({"n": index + 1, "t": text})).collect();
    Ok(Data::of_total(Value::Array(page), lines.len()))
}

/// The type of the task that a call starts, and the parameter that its id comes from.
pub(super) fn kind(method: &str, path: &str) -> Option<(&'static str, &'static str)> {
    let vm = |kind| Some((kind, "vmid"));
    match (method, path.rsplit('/').next().unwrap_or_default()) {
        ("POST", "qemu") => vm("qmcreate"),
        ("POST", "config") => vm("qmconfig"),
        ("PUT", "resize") => vm("resize"),
        ("POST", "start") => vm("qmstart"),
        ("POST", "stop") => vm("qmstop"),
        ("POST", "shutdown") => vm("qmshutdown"),
        ("POST", "reboot") => vm("qmreboot"),
        ("POST", "clone") => vm("qmclone"),
        ("POST", "template") => vm("qmtemplate"),
        ("POST", "migrate") => vm("qmigrate"),
        ("DELETE", "{vmid}") => vm("qmdestroy"),
        ("POST", "download-url") => Some(("download", "filename")),
        ("DELETE", "{volume}") => Some(("imgdel", "storage")),
        _ => None,
    }
}
