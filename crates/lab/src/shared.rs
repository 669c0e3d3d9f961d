//! The world, its lock, its clock and its file.
//!
//! Everything that touches the lab state goes through [`Shared::with`]: time is moved forward first, then the caller's work runs,
//! then the world is saved, then everybody who waits is told. Because saving comes before the answer leaves, a killed
//! process never answered anything that its file does not know.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ambient::Clock;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::sync::watch;

use crate::calls::Call;
use crate::faults::{CallMoment, Hooks, Lost};
use crate::invariants::Watch;
use crate::outcome::Outcome;
use crate::world::World;
use crate::{LabConfig, LabError};

/// The world with everything that is needed to touch it.
#[derive(Debug)]
pub struct Shared {
    world: Mutex<Present>,
    saved: Mutex<Saved>,
    clock: Clock,
    changed: watch::Sender<u64>,
    folder: Option<PathBuf>,
    hooks: Hooks,
    watch: Mutex<Option<Arc<Watch>>>,
    /// Whether the world is served on loopback, where its hosts may look at other servers.
    served: AtomicBool,
    /// How many follow a machine's log.
    followers: AtomicUsize,
}

/// The world, and when something happens in it by itself the next time.
#[derive(Debug)]
struct Present {
    world: World,
    /// Found when it is asked for and forgotten with each change: to find it is to look at every machine.
    due: Option<Option<Timestamp>>,
}

impl Present {
    /// Moves the world to `to`; says whether anything happened.
    fn advance(&mut self, to: Timestamp) -> bool {
        let to = self.world.now.max(to);
        if self.next_due().is_none_or(|due| due > to) {
            self.world.now = to;
            return false;
        }
        self.due = None;
        self.world.advance(to)
    }

    fn next_due(&mut self) -> Option<Timestamp> {
        *self.due.get_or_insert_with(|| self.world.next_due())
    }
}

/// What is in the file, to write it only when something changed.
#[derive(Debug, Default)]
struct Saved {
    at: Option<Timestamp>,
    text: Vec<u8>,
    trouble: Option<io::Error>,
    /// Nothing is written any more.
    closed: bool,
}

impl Shared {
    pub(crate) fn open(config: &LabConfig, clock: Clock) -> Result<Self, LabError> {
        let now = clock.now();
        let mut world = match &config.folder {
            Some(folder) => load(folder)?,
            None => None,
        }
        .map_or_else(|| World::new(config, now), Ok)?;
        world.hypervisor.add_missing(config, now)?;
        world.factory.add_missing(config)?;
        world.machines.serve_dhcp(config.dhcp);
        world.machines.reserve(&config.reservations);
        world.names.extend(config.names.clone());
        let shared = Self { folder: config.folder.clone(), ..Self::of(world, clock) };
        shared.save(&shared.lock().world).map_err(|source| LabError::Folder {
            what: "write the lab state in",
            path: config.folder.clone().unwrap_or_default(),
            source,
        })?;
        Ok(shared)
    }

    /// A world that lives in memory only.
    pub(crate) fn of(world: World, clock: Clock) -> Self {
        Self {
            world: Mutex::new(Present { world, due: None }),
            saved: Mutex::default(),
            clock,
            changed: watch::Sender::new(0),
            folder: None,
            hooks: Hooks::default(),
            watch: Mutex::default(),
            served: AtomicBool::new(false),
            followers: AtomicUsize::new(0),
        }
    }

    /// What runs around each call.
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    pub(crate) fn set_watch(&self, watch: Arc<Watch>) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
    }

    pub(crate) fn watch(&self) -> Option<Arc<Watch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets another person do something to VMs, which is not held against anybody else.
    pub(crate) fn by_person<T>(&self, vmids: &[u32], work: impl FnOnce(&mut World) -> T) -> T {
        let watch = self.watch();
        self.with(|world, _| {
            watch.iter().for_each(|watch| watch.before_person(world));
            let result = work(world);
            for (watch, vmid) in watch.iter().flat_map(|watch| vmids.iter().map(move |vmid| (watch, vmid))) {
                watch.after_person(*vmid, world);
            }
            result
        })
    }

    /// Lets the watch look at the world as it is now, without any call.
    pub fn look(&self) {
        if let Some(watch) = self.watch() {
            self.read(|world, _| watch.look(world));
        }
    }

    /// Carries out one call, with the hook and the watch before and after it.
    pub(crate) async fn around<T: Outcome>(&self, mut call: Call, work: impl Future<Output = T>) -> T {
        call.number = self.hooks.count(call.service);
        self.lose(&call, Lost::Requests).await;
        self.hooks.pass(&call, CallMoment::Before).await;
        let watch = self.watch();
        if let Some(watch) = &watch {
            self.read(|world, _| watch.before(&call, world));
        }
        let answer = work.await;
        if let Some(watch) = &watch {
            let words = answer.words();
            self.read(|world, _| watch.after(&call, world, &words));
        }
        self.hooks.count_change(&call);
        self.hooks.pass(&call, CallMoment::After).await;
        self.lose(&call, Lost::Answers).await;
        answer
    }

    /// Waits for ever where a way is cut.
    async fn lose(&self, call: &Call, way: Lost) {
        let lose = |world: &mut World| world.faults.lose(&call.origin, call.service, call.machine, &[way]);
        if self.with_quiet(lose) {
            std::future::pending::<()>().await;
        }
    }

    /// Moves the world to the present, runs `work` on it, saves it, and tells everybody who waits for a change.
    pub fn with<T>(&self, work: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let mut present = self.lock();
        present.advance(self.clock.now());
        present.due = None;
        let world = &mut present.world;
        let now = world.now;
        let result = work(world, now);
        world.notice_power_offs();
        self.keep(world);
        drop(present);
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        result
    }

    /// Looks at the world at the present; no one is told unless time brought something about.
    pub fn read<T>(&self, look: impl FnOnce(&World, Timestamp) -> T) -> T {
        let mut present = self.lock();
        let happened = present.advance(self.clock.now());
        if happened {
            self.keep(&present.world);
        }
        let result = look(&present.world, present.world.now);
        drop(present);
        if happened {
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
        result
    }

    /// Changes something that neither time nor anybody else depends on; no one is told.
    pub(crate) fn with_quiet<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        work(&mut self.lock().world)
    }

    /// Looks at the world as it was left, without letting time pass.
    pub(crate) fn peek<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.lock().world)
    }

    /// From now on the world is served on loopback.
    pub(crate) fn set_served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// The lab's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Notices changes of the world.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Notices changes of the world, and calls to machines as well.
    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        self.followers.fetch_add(1, Ordering::Relaxed);
        Follower { changes: self.subscribe(), shared: self.clone() }
    }

    /// Tells the followers of a log that something was written there.
    pub(crate) fn tell_followers(&self) {
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Why the world could not be saved the last time, if so.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).trouble.as_ref().map(ToString::to_string)
    }

    /// Saves the world for the last time, with its time, so that it does not go back between two runs.
    pub(crate) fn close(&self) {
        let present = self.lock();
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).at = None;
        self.keep(&present.world);
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    /// A panic in one request must not end the world for all others.
    fn lock(&self) -> MutexGuard<'_, Present> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, world: &World) {
        let outcome = self.save(world);
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).trouble = outcome.err();
    }

    fn save(&self, world: &World) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let text = serde_json::to_vec(world)?;
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.closed {
            return Ok(());
        }
        let recent = saved.at.is_some_and(|at| world.now.duration_since(at) < SignedDuration::from_secs(1));
        if recent && without_time(&saved.text) == without_time(&text) {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        let temporary = folder.join("world.json.new");
        write_private(&temporary, &text)?;
        fs::rename(&temporary, folder.join("world.json"))?;
        *saved = Saved { at: Some(world.now), text, trouble: None, closed: false };
        Ok(())
    }
}

/// Someone who follows a log.
pub(crate) struct Follower {
    changes: watch::Receiver<u64>,
    shared: Arc<Shared>,
}

impl Follower {
    /// Waits until something may have been written; `None` when the world has ended.
    pub(crate) async fn changed(&mut self) -> Option<()> {
        self.changes.changed().await.ok()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets the world's time run: waits for the next due moment or for a change, again and again.
pub(crate) async fn drive(shared: Arc<Shared>) {
    let mut changed = shared.subscribe();
    loop {
        changed.borrow_and_update();
        shared.read(|_, _| ());
        let due = shared.lock().next_due();
        let reached = async {
            match due {
                Some(due) => shared.clock.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = changed.changed() => {}
            () = reached => {}
        }
    }
}

/// The saved world with its first `now` blanked: the fields are written in order, `seed`, `rng`, `now`, then the rest.
fn without_time(text: &[u8]) -> (&[u8], &[u8]) {
    let key = b"\"now\":\"";
    let start = text.windows(key.len()).position(|window| window == key).map_or(0, |at| at + key.len());
    let (head, rest) = text.split_at(start);
    let end = rest.iter().position(|byte| *byte == b'"').unwrap_or(0);
    (head, rest.get(end..).unwrap_or_default())
}

/// The world holds the keys of its clusters, so only its owner may read it.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(path)?, text)
}

fn load(folder: &Path) -> Result<Option<World>, LabError> {
    let path = folder.join("world.json");
    match fs::read(&path) {
        Ok(text) => {
            serde_json::from_slice(&text).map(Some).map_err(|source| LabError::Saved { path, source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LabError::Folder { what: "read", path, source }),
    }
}

pub(crate) fn saved_time(folder: &Path) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Time {
        now: Timestamp,
    }
    let text = fs::read(folder.join("world.json")).ok()?;
    serde_json::from_slice::<Time>(&text).ok().map(|time| time.now)
}
