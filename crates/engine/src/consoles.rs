//! The serial consoles that a run reads.
//!
//! The console of a VM is opened right after its start and read while the machine boots, because what it printed before is
//! lost. It serves two purposes: the fingerprint of the machine's certificate, which proves who answers at its address
//! (`crate::proof`), and the last lines, which say why a machine does not come up. A bounded number is open at once; each
//! keeps a few lines and nothing else, whatever the guest prints.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ambient::Clock;
use model::identity::Printed;
use pve::{Console, ConsoleError, Lines};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Consoles that are open at once. The host that we talk to has a hundred ports for them.
const LIMIT: usize = 64;
/// The same, of VMs on one host, where each is a process that takes some memory.
const PER_HOST: usize = 8;
/// How many lines of a machine are kept, and how much of each.
const TAIL: usize = 60;
const WIDTH: usize = 300;
/// How often a console that broke is opened again.
const ATTEMPTS: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(1);
/// A system that panicked so often does not come up by itself.
const PANICS: u32 = 3;
/// A machine that boots prints something within this time.
const MUTE: jiff::SignedDuration = jiff::SignedDuration::from_secs(15);
/// A console that was open for so long did work, although a quiet machine printed nothing meanwhile.
const WORKED: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);

/// The consoles of one world. Cheap to clone; the clones are the same consoles.
#[derive(Debug, Clone, Default)]
pub struct Consoles(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    slots: Arc<Semaphore>,
    by_host: Mutex<BTreeMap<String, Arc<Semaphore>>>,
    /// Opened when a VM was started, and not taken yet by the step that configures the machine.
    started: Mutex<BTreeMap<String, Box<Watch>>>,
    tails: Mutex<BTreeMap<String, VecDeque<String>>>,
}

impl Default for Inner {
    fn default() -> Self {
        let slots = Arc::new(Semaphore::new(LIMIT));
        Self { slots, by_host: Mutex::default(), started: Mutex::default(), tails: Mutex::default() }
    }
}

/// The right to have a console open. It ends when this is dropped.
pub(crate) struct Slot {
    _of_host: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Consoles {
    /// The last lines that a node's machine printed on its console, as far as it was read.
    #[must_use]
    pub fn tail(&self, node: &str) -> Vec<String> {
        lock(&self.0.tails).get(node).into_iter().flatten().cloned().collect()
    }

    /// How many more consoles may be opened now: in all, and of VMs on a host.
    pub(crate) fn free(&self, host: &str) -> (usize, usize) {
        (self.0.slots.available_permits(), self.of_host(host).available_permits())
    }

    /// Waits for a slot.
    pub(crate) async fn slot(&self, host: &str) -> Slot {
        // Semaphores are never closed, so an error here cannot happen and would only mean less restraint.
        let _of_host = self.of_host(host).acquire_owned().await.ok();
        let _of_all = self.0.slots.clone().acquire_owned().await.ok();
        Slot { _of_host, _of_all }
    }

    fn of_host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = lock(&self.0.by_host);
        hosts.entry(host.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(PER_HOST))).clone()
    }

    /// Keeps a console that was opened when the VM was started.
    pub(crate) fn keep(&self, node: &str, watch: Box<Watch>) {
        lock(&self.0.started).insert(node.to_owned(), watch);
    }

    /// Hands that console out.
    pub(crate) fn take(&self, node: &str) -> Option<Box<Watch>> {
        lock(&self.0.started).remove(node)
    }

    /// Keeps a line; gives it back as it is kept.
    fn note(&self, node: &str, line: &str) -> Option<String> {
        let line: String = line.chars().filter(|c| !c.is_control()).take(WIDTH).collect();
        if line.trim().is_empty() {
            return None;
        }
        let mut tails = lock(&self.0.tails);
        let tail = tails.entry(node.to_owned()).or_default();
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(line.clone());
        Some(line)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One console that is read.
pub(crate) struct Watch {
    consoles: Consoles,
    pve: pve::Client,
    clock: Clock,
    node: String,
    host: String,
    vmid: u32,
    console: Option<Box<Console>>,
    /// An attempt to open it that goes on when the work beside it is done: Proxmox may take longer than that.
    opening: Option<futures::future::BoxFuture<'static, Result<Console, ConsoleError>>>,
    lines: Lines,
    /// What it said about certificates.
    pub printed: Printed,
    /// Why it cannot be read any more.
    pub failed: Option<ConsoleError>,
    /// How often in a row it could not be opened, or was closed at once.
    broken: u32,
    opened: jiff::Timestamp,
    /// How often the kernel gave up, and its words.
    panics: (u32, String),
    /// The last line that this watch read.
    last: Option<String>,
    _slot: Slot,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({})", self.node)
    }
}

/// Whose console is meant.
pub(crate) struct Whose<'a> {
    pub node: &'a str,
    pub host: &'a str,
    pub vmid: u32,
}

impl Watch {
    /// Opens the console of a VM. `from_start` says that it was started just now, so that nothing was printed yet. That it cannot
    /// be opened is not an error here: the proof may not need it.
    pub(crate) async fn open(
        consoles: &Consoles,
        pve: &pve::Client,
        clock: &Clock,
        whose: &Whose<'_>,
        from_start: bool,
        slot: Slot,
    ) -> Box<Self> {
        let mut watch = Box::new(Self {
            consoles: consoles.clone(),
            pve: pve.clone(),
            clock: clock.clone(),
            node: whose.node.to_owned(),
            host: whose.host.to_owned(),
            vmid: whose.vmid,
            console: None,
            opening: None,
            lines: Lines::default(),
            printed: Printed::new(!from_start),
            failed: None,
            broken: 0,
            opened: clock.now(),
            panics: (0, String::new()),
            last: None,
            _slot: slot,
        });
        Box::pin(watch.connect()).await;
        watch
    }

    async fn connect(&mut self) {
        // On the heap, as everything here: a hundred machines are started at once, on small stacks.
        let opened = Box::pin(self.pve.console(&self.host, self.vmid)).await;
        self.opened_as(opened);
    }

    fn opened_as(&mut self, opened: Result<Console, ConsoleError>) {
        match opened {
            Ok(console) => (self.console, self.opened) = (Some(Box::new(console)), self.clock.now()),
            Err(error) => self.broke(error),
        }
    }

    fn broke(&mut self, error: ConsoleError) {
        let worked = self.console.take().is_some() && self.clock.now().duration_since(self.opened) >= WORKED;
        self.lines.cut();
        self.broken = if worked { 1 } else { self.broken + 1 };
        // What is printed from now on until it is open again is lost.
        self.printed.gap = true;
        if !error.is_transient() || self.broken > ATTEMPTS {
            self.failed = Some(error);
        }
    }

    /// The machine was restarted, and everything that it prints from now on is read: what it printed before counts no more.
    pub(crate) fn restarted(&mut self) {
        self.lines.cut();
        self.printed = Printed::new(self.console.is_none());
    }

    /// The VM was stopped and started: opens its console again, because the old one stays open and shows nothing any more.
    pub(crate) async fn reopen(&mut self) {
        (self.console, self.opening, self.printed) = (None, None, Printed::new(true));
        self.lines.cut();
        Box::pin(self.connect()).await;
    }

    /// Whether it is read now.
    pub(crate) fn is_open(&self) -> bool {
        self.console.is_some()
    }

    /// When it was opened.
    pub(crate) fn opened(&self) -> jiff::Timestamp {
        self.opened
    }

    /// The words of a kernel that gives up at every boot.
    pub(crate) fn panics(&self) -> Option<&str> {
        (self.panics.0 >= PANICS).then_some(self.panics.1.as_str())
    }

    /// Does `work`, and reads the console meanwhile.
    pub(crate) async fn during<F: Future>(&mut self, work: F) -> F::Output {
        tokio::select! {
            biased;
            done = work => done,
            never = Box::pin(self.read()) => match never {},
        }
    }

    async fn read(&mut self) -> std::convert::Infallible {
        loop {
            if self.failed.is_some() {
                return std::future::pending().await;
            }
            let Some(console) = &mut self.console else {
                let opening = self.opening.get_or_insert_with(|| {
                    let (pve, clock, host, vmid) =
                        (self.pve.clone(), self.clock.clone(), self.host.clone(), self.vmid);
                    Box::pin(async move {
                        clock.sleep(INTERVAL).await;
                        pve.console(&host, vmid).await
                    })
                });
                let opened = opening.await;
                self.opening = None;
                self.opened_as(opened);
                continue;
            };
            match console.read().await {
                Ok(bytes) => {
                    self.broken = 0;
                    for line in self.lines.push(&bytes) {
                        if let Some((_, panic)) = line.split_once("Kernel panic") {
                            self.panics = (self.panics.0 + 1, format!("Kernel panic{panic}"));
                        }
                        self.printed.read(&line);
                        self.last = self.consoles.note(&self.node, &line).or(self.last.take());
                    }
                }
                Err(error) => self.broke(error),
            }
        }
    }

    /// Whether nothing was printed although a machine that boots would have said something by now.
    pub(crate) fn is_mute(&self) -> bool {
        let open_for = self.clock.now().duration_since(self.opened);
        self.console.is_some() && self.last.is_none() && open_for >= MUTE
    }

    /// The last line that was printed while this was open.
    pub(crate) fn last_line(&self) -> Option<&str> {
        self.last.as_deref()
    }
}
