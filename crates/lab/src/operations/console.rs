//! Opening and closing serial consoles.

use std::time::Duration;

use crate::hypervisor::console::{Console, LISTENS, ticket};
use crate::hypervisor::tasks::Task;
use crate::hypervisor::work::Work;
use crate::operations::tasks::{self, Next};
use crate::world::World;

/// How often a task looks whether its client is still there; it is told, unless the program that knew the client was ended.
const LOOK: Duration = Duration::from_secs(60);
/// The ports of consoles.
const PORTS: std::ops::RangeInclusive<u16> = 5900..=5999;

/// Opens a console of a VM for `user`; gives its task.
pub(crate) fn open(world: &mut World, node: &str, vmid: u32, serial: Option<String>, user: &str) -> Console {
    let now = world.now;
    let used =
        |port: &u16| world.hypervisor.consoles.open.values().any(|c| c.node == node && c.port == *port);
    let port = PORTS.into_iter().find(|port| !used(port)).unwrap_or(*PORTS.end());
    let ticket = ticket(&world.hypervisor.access, user, vmid, port, now);
    let upid = tasks::begin(world, node, "vncproxy", &vmid.to_string(), user, Work::Console);
    let console = Console {
        upid: upid.clone(),
        node: node.to_owned(),
        vmid,
        serial,
        user: user.to_owned(),
        ticket,
        port,
        since: now,
        taken: false,
        attached: None,
    };
    world.hypervisor.consoles.open.insert(upid, console.clone());
    console
}

/// The client has gone: the task ends, unless it was stopped before.
pub(crate) fn close(world: &mut World, upid: &str, admitted: bool) {
    if let Some(console) = world.hypervisor.consoles.open.remove(upid) {
        let result = if admitted { Ok(()) } else { Err(console.gave_up()) };
        tasks::end(world, upid, result);
    }
}

/// The task of a console.
pub(crate) fn step(world: &mut World, task: &Task) -> Next {
    if task.stage == 0 {
        return Next::After(LISTENS);
    }
    match world.hypervisor.consoles.open.get(&task.upid) {
        Some(console) if console.taken => Next::After(LOOK),
        Some(console) => {
            let words = console.gave_up();
            world.hypervisor.consoles.open.remove(&task.upid);
            Next::fail(words)
        }
        None => Next::End(Ok(())),
    }
}
