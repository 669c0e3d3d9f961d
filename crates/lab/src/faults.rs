//! What is broken on purpose: hosts that are off, slow or full, a cluster without quorum, machines without network or time,
//! and single calls that fail; in the world's data, so that a reopened world is broken in the same way. Hooks are the tests'
//! way to do something of their own at the nth call.

mod identity;
mod known;
mod partition;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::calls::{Call, Service};
use crate::rng::Rng;
pub use identity::{ConsoleFault, Relayed};
pub(crate) use known::{Shows, fill, known};
pub use known::{known_faults, known_words};
pub use partition::{Far, Lost, Partition};
pub use wire::Wire;

/// Something to break or to clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// A Proxmox host loses power, and its guests with it.
    HostOffline(String),
    /// It comes back; guests with `onboot` start.
    HostOnline(String),
    /// Every answer of a host, and every stage of its tasks, takes so much longer. Zero clears it.
    HostSlow {
        /// Which host.
        node: String,
        /// How much longer.
        by: Duration,
    },
    /// A host has no room left, neither in its storages nor in its memory; or it has again.
    HostFull {
        /// Which host.
        node: String,
        /// Whether it is full.
        full: bool,
    },
    /// The clock of a host is so many seconds ahead.
    HostClock {
        /// Which host.
        node: String,
        /// How many seconds; fewer than none is behind.
        ahead: i64,
    },
    /// The status daemons of all hosts fall silent, or report again: in the list of resources hosts, guests and storages are
    /// `unknown` then, and everything else goes on.
    StatusDaemons {
        /// Whether they are silent.
        silent: bool,
    },
    /// The cluster loses its quorum, or has it back. It also loses it when half of its hosts are off.
    Quorum {
        /// Whether it is lost.
        lost: bool,
    },
    /// Only the named hosts outside answer (mirrors, registries, time servers, the factory); without a list all do.
    Outside {
        /// The hosts.
        only: Option<Vec<String>>,
    },
    /// A machine's network cable is pulled, or put back. It runs on by itself and hears of no one.
    Unplugged {
        /// The VM of the machine.
        vmid: u32,
        /// Whether it is pulled.
        unplugged: bool,
    },
    /// No time server answers any more, or they do again. Machines that boot without one wait for it, and go by the clock of
    /// their host until then.
    TimeServers {
        /// Whether they answer.
        answer: bool,
    },
    /// A Talos version does not come up on a machine, or does again: an upgrade to it falls back.
    BrokenSystem {
        /// The VM of the machine.
        vmid: u32,
        /// The version, with its `v`.
        talos: String,
        /// Whether it is broken.
        broken: bool,
    },
    /// The etcd database of a machine is full: it has the alarm, until someone ends it.
    FullEtcd {
        /// The VM of the machine.
        vmid: u32,
    },
    /// The boot disk of a machine is no larger than so many GiB from its next start on, whatever Proxmox says; 0 clears it.
    SmallDisk {
        /// Which machine, by the id of its VM.
        vmid: u32,
        /// How large it is.
        gib: u64,
    },
    /// A machine's kubelet ends and is started again, as on a host that is too slow: what was met is unmet for a while.
    KubeletRestart {
        /// Which machine, by the id of its VM.
        vmid: u32,
    },
    /// Something goes wrong on the way to a machine.
    Wire {
        /// What goes wrong.
        fault: Wire,
        /// Which connections and calls it meets.
        when: When,
    },
    /// Packets of an operator are lost one way or the other, or get through again. Connections that were cut stay dead.
    Partition {
        /// Whose, where to, and which way.
        which: Partition,
        /// Whether they are lost.
        cut: bool,
    },
    /// Two machines hear nothing of each other, or do again.
    Apart {
        /// The VM of one.
        one: u32,
        /// The VM of the other.
        other: u32,
        /// Whether they are parted.
        apart: bool,
    },
    /// No registry has the image of a machine's `etcd` or `kubelet`, or they have it again. The service fails for good. The same of a
    /// static pod, such as `kube-apiserver`, which waits with another image until they have it.
    NoImage {
        /// The VM of the machine.
        vmid: u32,
        /// Which service.
        service: String,
        /// Whether the image is missing.
        missing: bool,
    },
    /// Something is wrong with the serial console of a VM from the next client on, or no longer.
    Console {
        /// Which VM.
        vmid: u32,
        /// What; nothing clears it.
        fault: Option<ConsoleFault>,
    },
    /// A relay stands between everybody and the maintenance API of a machine, or no longer: it ends TLS with a certificate of
    /// its own, passes calls on, and keeps what it was sent.
    Relay {
        /// The VM of the machine.
        vmid: u32,
        /// Whether it is there.
        present: bool,
    },
    /// The next connections to the maintenance API of a machine meet a certificate that is issued at that very moment, after
    /// everything that its console had printed.
    Reissue {
        /// The VM of the machine.
        vmid: u32,
        /// How many connections; 0 clears it.
        connections: u32,
    },
    /// A machine comes back as another than it went down, the next time that it boots.
    ComesBack {
        /// The VM of the machine.
        vmid: u32,
        /// How; nothing clears it.
        how: Option<ComesBack>,
    },
    /// A machine's stream of events stays open and says nothing any more, or it does again.
    SilentEvents {
        /// The VM of the machine.
        vmid: u32,
        /// Whether it is silent.
        silent: bool,
    },
    /// So many requests to Kubernetes are answered with an error of its server, and nothing happens.
    KubernetesFails {
        /// Which requests.
        which: CallFilter,
        /// The status, 500 or more.
        status: u16,
        /// How many of them.
        times: u32,
    },
    /// Nothing is broken any more: every host is there, quick and has room, every machine has its network and its time, and
    /// no call is waited for.
    Clear,
    /// One Proxmox call is answered with an error instead of being carried out.
    FailCall {
        /// Which calls are counted.
        which: CallFilter,
        status: u16,
        /// The reason phrase and message.
        text: String,
    },
    /// The connection of one Proxmox call is cut, before or after the call was carried out, without an answer.
    CutCall {
        /// Which calls are counted.
        which: CallFilter,
        /// Whether the call is carried out first.
        after: bool,
    },
    /// A failure that Proxmox is known for, by its number (see [`known_faults`]). An unknown number breaks nothing.
    Known {
        /// Which failure.
        number: u8,
        /// Which calls it meets.
        when: When,
    },
}

/// How a machine comes back that was restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComesBack {
    /// In maintenance mode: its STATE partition is gone, and nothing else.
    InMaintenance,
    /// Without a part of its kernel arguments.
    WithoutKernelArguments,
}

/// Which calls a known failure meets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// The call that comes after so many others, whatever it is: 0 is the next one.
    After(u64),
    /// One call by method and path.
    Call(CallFilter),
    /// So many of a thousand calls that fit, chosen by chance from a seed, until it is cleared. Where no method is
    /// named, those fit that change something.
    Chance {
        /// Which calls; what they skip is not looked at.
        which: CallFilter,
        /// How many of a thousand.
        permille: u16,
        /// What the choice comes from.
        seed: u64,
    },
}

/// Picks one call out of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFilter {
    /// The HTTP method; nothing means any.
    pub method: String,
    /// A part of the path.
    pub path_contains: String,
    /// How many that fit are let through first: 0 hits the next one.
    pub skip: u32,
}

/// Whether a hook runs before the call reached the world or after the world changed and before the answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMoment {
    /// Nothing happened yet.
    Before,
    /// The world has changed and was saved; the answer has not left.
    After,
}

/// What to do to one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallFault {
    Fail { status: u16, text: String },
    Cut { after: bool },
    Known(u8),
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail { status, text } => write!(f, "{status} {text}"),
            Self::Cut { after: false } => f.write_str("a cut connection"),
            Self::Cut { after: true } => f.write_str("a cut connection, after the call was carried out,"),
            Self::Known(number) => write!(f, "failure {number}"),
        }
    }
}

impl fmt::Display for CallFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.method.is_empty() { "any call" } else { &self.method };
        match self.path_contains.as_str() {
            "" => write!(f, "{method}")?,
            path => write!(f, "{method} with {path}")?,
        }
        if self.skip > 0 { write!(f, ", after {} others", self.skip) } else { Ok(()) }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(0) => f.write_str("the next call"),
            Self::After(others) => write!(f, "any call, after {others} others"),
            Self::Call(filter) => write!(f, "{filter}"),
            Self::Chance { which, permille, .. } => write!(f, "{permille} of a thousand: {which}"),
        }
    }
}

/// A failure and the calls it waits for.
#[derive(Debug, Serialize, Deserialize)]
struct Ordered<T> {
    #[serde(alias = "number")]
    what: T,
    when: When,
    /// Where chance stands.
    rng: Rng,
}

impl<T> Ordered<T> {
    fn new(what: T, when: When) -> Self {
        let seed = if let When::Chance { seed, .. } = when { seed } else { 0 };
        Self { what, when, rng: Rng::new(seed) }
    }

    /// Counts one call; says whether it is the one, and whether the order is done with then.
    fn meets(&mut self, method: &str, path: &str) -> (bool, bool) {
        match &mut self.when {
            When::After(left) => {
                let now = *left == 0;
                *left = left.saturating_sub(1);
                (now, now)
            }
            When::Call(filter) => {
                let now = filter.counts(method, path);
                (now, now)
            }
            When::Chance { which, permille, .. } => {
                let changes = !which.method.is_empty() || method != "GET";
                let now = changes && which.fits(method, path) && self.rng.below(1000) < u64::from(*permille);
                (now, false)
            }
        }
    }
}

impl CallFilter {
    fn fits(&self, method: &str, path: &str) -> bool {
        (self.method.is_empty() || self.method == method) && path.contains(&self.path_contains)
    }

    /// Counts one call; says whether it is the one.
    fn counts(&mut self, method: &str, path: &str) -> bool {
        if !self.fits(method, path) {
            return false;
        }
        let now = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        now
    }
}

/// The faults that wait for their call.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Faults {
    calls: Vec<(CallFilter, CallFault)>,
    #[serde(default)]
    ordered: Vec<Ordered<u8>>,
    #[serde(default)]
    met: Vec<Met>,
    #[serde(default)]
    wires: Vec<Ordered<Wire>>,
    #[serde(default)]
    wires_met: Vec<String>,
    #[serde(default)]
    partitions: Vec<Partition>,
    #[serde(default)]
    identity: identity::Identity,
    #[serde(default)]
    partitions_met: BTreeMap<String, u64>,
    #[serde(default)]
    calls_met: Vec<String>,
    #[serde(default)]
    kubernetes: Vec<(CallFilter, u16, u32)>,
}

/// A known failure that met a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Which failure.
    pub number: u8,
    pub method: String,
    pub path: String,
}

impl Faults {
    /// The known failures that met a call, in their order.
    #[must_use]
    pub fn met(&self) -> &[Met] {
        &self.met
    }

    /// What is waited for, in words.
    #[must_use]
    pub fn waiting(&self) -> Vec<String> {
        let calls = self.calls.iter().map(|(filter, fault)| format!("{fault} at {filter}"));
        calls
            .chain(self.ordered.iter().map(|order| format!("failure {} at {}", order.what, order.when)))
            .chain(self.wires.iter().map(|order| format!("{} at {}", order.what, order.when)))
            .collect()
    }

    /// What went wrong on the way to machines, in words, in its order.
    #[must_use]
    pub fn wires_met(&self) -> &[String] {
        &self.wires_met
    }

    /// How many calls were lost on each way that was cut, in words.
    #[must_use]
    pub fn partitions_met(&self) -> &BTreeMap<String, u64> {
        &self.partitions_met
    }

    /// Single calls that failed or were cut on purpose, in words, in their order.
    #[must_use]
    pub fn calls_met(&self) -> &[String] {
        &self.calls_met
    }

    /// Nothing is waited for any more.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.ordered.clear();
        self.wires.clear();
        self.partitions.clear();
        self.identity.clear();
        self.kubernetes.clear();
    }

    pub(crate) fn add(&mut self, which: CallFilter, fault: CallFault) {
        self.calls.push((which, fault));
    }

    /// Orders a known failure.
    pub(crate) fn order(&mut self, number: u8, when: When) {
        self.ordered.push(Ordered::new(number, when));
    }

    /// Orders something that goes wrong on the way to a machine.
    pub(crate) fn order_wire(&mut self, fault: Wire, when: When) {
        self.wires.push(Ordered::new(fault, when));
    }

    /// Orders errors of the server of Kubernetes.
    pub(crate) fn order_kubernetes(&mut self, which: CallFilter, status: u16, times: u32) {
        self.kubernetes.push((which, status, times));
    }

    /// Counts one request to Kubernetes; gives the status that it fails with.
    pub(crate) fn meet_kubernetes(&mut self, method: &str, path: &str) -> Option<u16> {
        let at = self.kubernetes.iter_mut().position(|(filter, ..)| filter.counts(method, path))?;
        let (_, status, times) = self.kubernetes.get_mut(at)?;
        let status = *status;
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.kubernetes.remove(at);
        }
        self.calls_met.push(format!("{status} of Kubernetes at {method} {path}"));
        Some(status)
    }

    /// Counts one connection to a machine, or one call on it; gives what is to go wrong with it.
    pub(crate) fn meet_wire(&mut self, method: &str, place: &str) -> Option<Wire> {
        let fault = next(&mut self.wires, method, place)?;
        self.wires_met.push(format!("{fault} at {method} {place}"));
        Some(fault)
    }

    /// Counts one call; gives the fault that is meant for it.
    pub(crate) fn meet(&mut self, method: &str, path: &str) -> Option<CallFault> {
        let mut hit = None;
        for (index, (filter, _)) in self.calls.iter_mut().enumerate() {
            // One that waits while another takes this call is due at the next that fits.
            if filter.skip == 0 && hit.is_some() {
                continue;
            }
            if filter.counts(method, path) {
                hit = hit.or(Some(index));
            }
        }
        if let Some(index) = hit {
            let fault = self.calls.remove(index).1;
            self.calls_met.push(format!("{fault} at {method} {path}"));
            return Some(fault);
        }
        let number = next(&mut self.ordered, method, path)?;
        self.met.push(Met { number, method: method.to_owned(), path: path.to_owned() });
        Some(CallFault::Known(number))
    }
}

/// Counts one call for every order, until one wants it.
fn next<T: Copy>(orders: &mut Vec<Ordered<T>>, method: &str, path: &str) -> Option<T> {
    let mut at = 0;
    while let Some(order) = orders.get_mut(at) {
        let (now, done) = order.meets(method, path);
        let what = order.what;
        if done {
            orders.remove(at);
        } else {
            at += 1;
        }
        if now {
            return Some(what);
        }
    }
    None
}

/// What a hook wants to happen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    GoOn,
    /// It gets no further: held before, it never reaches the world; held after, its answer never leaves.
    Hold,
}

type Hook = Arc<dyn Fn(u64, CallMoment, &str, &str) -> Verdict + Send + Sync>;

/// The hook of the tests, and how many calls there were.
#[derive(Default)]
pub(crate) struct Hooks {
    hook: Mutex<Option<Hook>>,
    calls: AtomicU64,
    answered: Mutex<BTreeMap<Service, u64>>,
    changes: Mutex<Vec<Arc<AtomicU64>>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Hooks {
    pub(crate) fn set(&self, hook: impl Fn(u64, CallMoment, &str, &str) -> Verdict + Send + Sync + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// How many calls each has had since the lab was opened.
    pub(crate) fn answered(&self) -> BTreeMap<Service, u64> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts again from zero how many calls each has had.
    pub(crate) fn forget_answered(&self) {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts a call that is about to be made, and gives it its number.
    pub(crate) fn count(&self, service: Service) -> u64 {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner).entry(service).or_default() += 1;
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a call that was carried out.
    pub(crate) fn count_change(&self, call: &Call) {
        if call.changes() {
            for counter in self.changes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts calls that change something, from now on.
    pub(crate) fn count_changes(&self) -> Arc<AtomicU64> {
        let counter = Arc::new(AtomicU64::new(0));
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(counter.clone());
        counter
    }

    /// Lets the hook see a call.
    pub(crate) async fn pass(&self, call: &Call, moment: CallMoment) {
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if hook.is_some_and(|hook| hook(call.number, moment, &call.method, &call.path) == Verdict::Hold) {
            std::future::pending::<()>().await;
        }
    }
}
