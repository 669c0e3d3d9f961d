//! What is broken on purpose: hosts that are off, and single calls that fail, in the world's data so that a reopened
//! world is broken in the same way. Hooks are the tests' way to do something of their own at the nth call.

mod known;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::rng::Rng;
pub use known::known_faults;
pub(crate) use known::{Shows, fill, known};

/// Something to break or to mend.
#[derive(Debug, Clone)]
pub enum Disturbance {
    /// A Proxmox host loses power, and its guests with it.
    HostOffline(String),
    /// It comes back; guests with `onboot` start.
    HostOnline(String),
    /// One Proxmox call is answered with an error instead of being carried out.
    FailCall {
        /// Which calls are counted.
        which: CallFilter,
        /// The status.
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

/// Which calls a known failure meets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// The call that comes after so many others, whatever it is: 0 is the next one.
    After(u64),
    /// One call by method and path.
    Call(CallFilter),
    /// So many of a thousand calls that change something, chosen by chance from a seed, for as long as the world lasts.
    Chance {
        /// How many of a thousand.
        permille: u16,
        /// What the choice comes from.
        seed: u64,
    },
}

/// Picks one call out of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFilter {
    /// The HTTP method.
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

/// A known failure and the calls it waits for.
#[derive(Debug, Serialize, Deserialize)]
struct Ordered {
    number: u8,
    when: When,
    /// Where chance stands.
    rng: Rng,
}

impl Ordered {
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
            When::Chance { permille, .. } => {
                (method != "GET" && self.rng.below(1000) < u64::from(*permille), false)
            }
        }
    }
}

impl CallFilter {
    /// Counts one call; says whether it is the one.
    fn counts(&mut self, method: &str, path: &str) -> bool {
        if self.method != method || !path.contains(&self.path_contains) {
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
    ordered: Vec<Ordered>,
}

impl Faults {
    pub(crate) fn add(&mut self, which: CallFilter, fault: CallFault) {
        self.calls.push((which, fault));
    }

    /// Orders a known failure.
    pub(crate) fn order(&mut self, number: u8, when: When) {
        let seed = if let When::Chance { seed, .. } = when { seed } else { 0 };
        self.ordered.push(Ordered { number, when, rng: Rng::new(seed) });
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
            return Some(self.calls.remove(index).1);
        }
        let mut found = None;
        let mut at = 0;
        while let Some(order) = self.ordered.get_mut(at) {
            let number = order.number;
            let (now, done) = if found.is_none() { order.meets(method, path) } else { (false, false) };
            if now {
                found = Some(CallFault::Known(number));
            }
            if done {
                self.ordered.remove(at);
            } else {
                at += 1;
            }
        }
        found
    }
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

/// The hook of the tests, and the running number of calls.
#[derive(Default)]
pub(crate) struct Hooks {
    hook: Mutex<Option<Hook>>,
    calls: AtomicU64,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Hooks {
    pub(crate) fn set(&self, hook: impl Fn(u64, CallMoment, &str, &str) -> Verdict + Send + Sync + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// Carries out one call, with the hook before and after it.
    pub(crate) async fn around<T>(&self, method: &str, path: &str, call: impl Future<Output = T>) -> T {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.pass(number, CallMoment::Before, method, path).await;
        let answer = call.await;
        self.pass(number, CallMoment::After, method, path).await;
        answer
    }

    async fn pass(&self, number: u64, moment: CallMoment, method: &str, path: &str) {
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if hook.is_some_and(|hook| hook(number, moment, method, path) == Verdict::Hold) {
            std::future::pending::<()>().await;
        }
    }
}
