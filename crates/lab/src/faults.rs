//! What is broken on purpose: hosts that are off, and single calls that fail, in the world's data so that a reopened
//! world is broken in the same way. Hooks are the tests' way to do something of their own at the nth call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

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
}

/// The faults that wait for their call.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Faults {
    calls: Vec<(CallFilter, CallFault)>,
}

impl Faults {
    pub(crate) fn add(&mut self, which: CallFilter, fault: CallFault) {
        self.calls.push((which, fault));
    }

    /// Counts one call; gives the fault that is meant for it.
    pub(crate) fn meet(&mut self, method: &str, path: &str) -> Option<CallFault> {
        let mut hit = None;
        for (index, (filter, _)) in self.calls.iter_mut().enumerate() {
            if filter.method == method && path.contains(&filter.path_contains) {
                if filter.skip == 0 {
                    hit = hit.or(Some(index));
                } else {
                    filter.skip -= 1;
                }
            }
        }
        hit.map(|index| self.calls.remove(index).1)
    }
}

type Hook = Arc<dyn Fn(u64, CallMoment, &str, &str) + Send + Sync>;

/// The hook of the tests, and the running number of Proxmox calls.
#[derive(Default)]
pub(crate) struct Hooks {
    hook: Mutex<Option<Hook>>,
    calls: AtomicU64,
}

impl Hooks {
    pub(crate) fn set(&self, hook: impl Fn(u64, CallMoment, &str, &str) + Send + Sync + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn run(&self, number: u64, moment: CallMoment, method: &str, path: &str) {
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            hook(number, moment, method, path);
        }
    }
}
