//! Tasks: work that goes on after its request was answered.
//!
//! A task moves in stages. Each stage changes the world at one moment and names the next moment, or ends the task. While a
//! task works on a VM it holds the lock on that VM's configuration file; another task waits for it ten seconds at most, as
//! Proxmox does.

use std::time::Duration;

use jiff::SignedDuration;

use crate::hypervisor::tasks::{Task, later, lock_timeout};
use crate::hypervisor::work::Work;
use crate::operations::{console, daemons};
use crate::world::World;

/// How long a task waits for another one's lock, and how often it looks.
pub(crate) const LOCK_PATIENCE: SignedDuration = SignedDuration::from_secs(10);
pub(crate) const LOCK_RETRY: Duration = Duration::from_millis(250);

/// What comes after a stage.
pub(crate) enum Next {
    /// The next stage, after so long.
    After(Duration),
    /// The end, well or with the text of what went wrong.
    End(Result<(), String>),
}

impl Next {
    pub(crate) fn fail(text: impl Into<String>) -> Self {
        Self::End(Err(text.into()))
    }
}

/// Starts a task and runs its first stage. Gives its id.
pub(crate) fn begin(world: &mut World, node: &str, kind: &str, id: &str, user: &str, work: Work) -> String {
    let now = world.now;
    let (pid, pstart) = match world.hypervisor.hosts.get_mut(node) {
        Some(host) => {
            (host.next_pid(&mut world.rng), host.uptime(now) * 100 + i64::from(now.subsec_millisecond() / 10))
        }
        None => (1, 0),
    };
    let upid = format!("UPID:{node}:{pid:08X}:{pstart:08X}:{:08X}:{kind}:{id}:{user}:", now.as_second());
    let task = Task {
        upid: upid.clone(),
        node: node.to_owned(),
        kind: kind.to_owned(),
        id: id.to_owned(),
        user: user.to_owned(),
        pid,
        pstart,
        started: now,
        ended: None,
        exit: None,
        log: Vec::new(),
        due: Some(now),
        stage: 0,
        work,
    };
    world.hypervisor.tasks.insert(upid.clone(), task);
    world.hypervisor.active.insert(upid.clone());
    step(world, &upid);
    upid
}

/// Ends a task that waits for someone outside of the world.
pub(crate) fn end(world: &mut World, upid: &str, result: Result<(), String>) {
    let now = world.now;
    if let Some(task) = world.hypervisor.tasks.get_mut(upid).filter(|task| task.ended.is_none()) {
        task.end(now, result);
    }
    world.hypervisor.active.remove(upid);
}

/// Runs a task to its end at once, as if its stages took no time.
pub(crate) fn finish(world: &mut World, upid: &str) -> Result<(), String> {
    // No task has more stages; one that waits for another's lock never gets there.
    for _ in 0..16 {
        let now = world.now;
        match world.hypervisor.tasks.get_mut(upid) {
            Some(task) if task.ended.is_none() => task.due = Some(now),
            _ => break,
        }
        step(world, upid);
    }
    match world.hypervisor.tasks.get(upid).and_then(|task| task.exit.as_deref()) {
        Some("OK") => Ok(()),
        Some(words) => Err(words.to_owned()),
        None => Err("it goes on".to_owned()),
    }
}

/// Runs every stage that is due, in the order of time and then of id.
pub(crate) fn run_due(world: &mut World) {
    let now = world.now;
    loop {
        let tasks = world.hypervisor.active.iter().filter_map(|upid| world.hypervisor.tasks.get(upid));
        let due = tasks.filter_map(|task| Some((task.due?, &task.upid)));
        match due.filter(|(due, _)| *due <= now).min().map(|(_, upid)| upid.clone()) {
            Some(upid) => step(world, &upid),
            None => break,
        }
    }
    daemons::run_due(world);
}

fn step(world: &mut World, upid: &str) {
    let now = world.now;
    let Some(mut task) = world.hypervisor.tasks.remove(upid) else { return };
    let next = match take_lock(world, &task) {
        Ok(true) => {
            let work = task.work.clone();
            let next = match work {
                Work::Create(create) => create.step(world, &mut task),
                Work::Configure(configure) => configure.step(world, &mut task),
                Work::Power(power) => power.step(world, &mut task),
                Work::Resize(resize) => resize.step(world, &mut task),
                Work::Destroy(destroy) => destroy.step(world, &mut task),
                Work::Download(download) => download.step(world, &mut task),
                Work::Remove(remove) => remove.step(world, &mut task),
                Work::Import(import) => import.step(world, &mut task),
                Work::Clone(clone) => clone.step(world, &mut task),
                Work::Template(template) => template.step(world, &mut task),
                Work::Snapshot(snapshot) => snapshot.step(world, &mut task),
                Work::Move(movement) => movement.step(world, &mut task),
                Work::Reassign(reassign) => reassign.step(world, &mut task),
                Work::Migrate(migrate) => migrate.step(world, &mut task),
                Work::HaMigrate(migrate) => migrate.step(world, &mut task),
                Work::Ha(ha) => ha.step(world, &mut task),
                Work::ReloadNetwork if task.stage == 0 => Next::After(Duration::from_millis(1500)),
                Work::ReloadNetwork => {
                    if let Some(host) = world.hypervisor.hosts.get_mut(&task.node) {
                        host.reload_network();
                    }
                    Next::End(Ok(()))
                }
                Work::Console => console::step(world, &task),
                Work::Nothing if task.stage == 0 => Next::After(Duration::from_millis(500)),
                Work::Nothing => Next::End(Ok(())),
                Work::Doomed(_) if task.stage == 0 => Next::After(Duration::from_millis(800)),
                Work::Doomed(text) => Next::fail(text),
            };
            task.stage = task.stage.saturating_add(1);
            next
        }
        Ok(false) => Next::After(LOCK_RETRY),
        Err(text) => Next::fail(text),
    };
    match next {
        Next::After(delay) => {
            let slow = world.hypervisor.hosts.get(&task.node).map_or(Duration::ZERO, |host| host.slow);
            task.due = Some(later(now, delay + slow));
        }
        Next::End(result) => {
            task.end(now, result);
            world.hypervisor.active.remove(upid);
            for vm in world.hypervisor.vms.values_mut().filter(|vm| vm.holder.as_deref() == Some(upid)) {
                vm.holder = None;
            }
        }
    }
    world.hypervisor.tasks.insert(upid.to_owned(), task);
}

/// Takes the lock of the VM that the task works on. `false`: someone else has it, try again.
fn take_lock(world: &mut World, task: &Task) -> Result<bool, String> {
    let vmid = match &task.work {
        Work::Create(_)
        | Work::Download(_)
        | Work::Remove(_)
        | Work::Import(_)
        | Work::Clone(_)
        | Work::Ha(_)
        | Work::HaMigrate(_)
        | Work::ReloadNetwork
        | Work::Console
        | Work::Nothing
        | Work::Doomed(_) => {
            return Ok(true);
        }
        Work::Template(work) => work.vmid,
        Work::Snapshot(work) => work.vmid,
        Work::Move(work) => work.vmid,
        Work::Reassign(work) => work.vmid,
        Work::Migrate(work) => work.vmid,
        Work::Configure(work) => work.vmid,
        Work::Power(work) => work.vmid,
        Work::Resize(work) => work.vmid,
        Work::Destroy(work) => work.vmid,
    };
    let Some(vm) = world.hypervisor.vms.get_mut(&vmid).filter(|vm| vm.node == task.node) else {
        return Ok(true);
    };
    match &vm.holder {
        Some(other) if *other != task.upid => {
            if world.now.duration_since(task.started) >= LOCK_PATIENCE {
                return Err(lock_timeout(vmid));
            }
            Ok(false)
        }
        _ => {
            vm.holder = Some(task.upid.clone());
            Ok(true)
        }
    }
}
