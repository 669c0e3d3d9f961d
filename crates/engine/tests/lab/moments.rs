//! Moments in which a program could die: the lab as it stands around calls, each state once.
//!
//! Reads change nothing, so most calls leave a lab that differs from another one in nothing but the time. To write a lab down takes longer
//! than the call, so each test says which calls it wants.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lab::{CallMoment, Service, Verdict, changes};

use crate::rig::Rig;

/// A call, and on which side of it.
pub struct Call<'a> {
    pub number: u64,
    pub moment: CallMoment,
    pub method: &'a str,
    pub path: &'a str,
}

impl Call<'_> {
    /// Whether it changes something. Renewing the lease does not.
    pub fn is_change(&self) -> bool {
        let service = match self.method {
            "CALL" => Service::Talos,
            _ if self.path.starts_with("/api2/") => Service::Proxmox,
            _ => Service::Kubernetes,
        };
        changes(service, self.method, self.path) && !self.path.contains("/150010/")
    }

    /// Whether it is a call that everything else rests on: of the record, its lease, or etcd's membership.
    pub fn is_vital(&self) -> bool {
        let record = self.path.contains("/qemu/150010") || self.path.ends_with("/qemu");
        let membership = ["/Bootstrap", "/EtcdRemove", "/EtcdLeave"];
        self.method != "GET" && (record || membership.iter().any(|call| self.path.contains(call)))
    }
}

/// A lab in which someone could have died.
pub struct Moment {
    pub systems: Vec<u8>,
    /// At which call.
    pub when: String,
    /// Whether that call is vital.
    pub vital: bool,
}

/// What was found while something ran.
pub struct Moments {
    pub all: Vec<Moment>,
    /// How many calls there were.
    pub calls: u64,
}

/// Runs `work`, and gives the labs around the calls that are `wanted`, each once.
pub async fn collect(
    rig: &Rig,
    wanted: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static,
    work: impl Future<Output = ()>,
) -> Moments {
    let found: Arc<Mutex<(BTreeSet<u64>, Vec<Moment>)>> = Arc::default();
    let calls = Arc::new(AtomicU64::new(0));
    rig.lab.on_call({
        let (found, calls, shared) = (found.clone(), calls.clone(), Arc::downgrade(rig.lab.shared()));
        move |number, moment, method, path| {
            calls.fetch_max(number + 1, Ordering::Relaxed);
            let call = Call { number, moment, method, path };
            let Some(shared) = shared.upgrade().filter(|_| wanted(&call)) else { return Verdict::GoOn };
            let systems = shared.read(|systems, _| serde_json::to_value(systems).unwrap());
            let mut found = found.lock().unwrap();
            if found.0.insert(without_time(&systems)) {
                let when = format!("{moment:?} call {number}, {method} {path}");
                let systems = serde_json::to_vec(&systems).unwrap();
                found.1.push(Moment { systems, when, vital: call.is_vital() });
            }
            Verdict::GoOn
        }
    });
    work.await;
    rig.lab.on_call(|_, _, _, _| Verdict::GoOn);
    let all = std::mem::take(&mut found.lock().unwrap().1);
    Moments { all, calls: calls.load(Ordering::Relaxed) }
}

/// The same around each change, and around every nth of the other calls.
pub async fn around_changes(rig: &Rig, every: u64, work: impl Future<Output = ()>) -> Vec<Moment> {
    collect(rig, move |call| call.is_change() || call.number.is_multiple_of(every), work).await.all
}

/// A hash of everything in a lab but its time.
fn without_time(systems: &serde_json::Value) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    for (key, value) in systems.as_object().unwrap() {
        if key != "now" && key != "rng" {
            (key, value.to_string()).hash(&mut hasher);
        }
    }
    hasher.finish()
}
