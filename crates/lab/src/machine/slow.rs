//! Services on a slow host. A check that is not answered in time fails although the service runs, so a service that was healthy gets worse
//! again, as recorded on a machine with too little processor time.

use std::time::Duration;

use jiff::Timestamp;

use super::Machines;
use super::node::{Machine, Phase, after};
use super::status::Service;

/// What the container runtime says of such a check.
const TIMED_OUT: &str =
    "Health check failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded";
const NO_CONNECTION: &str = "Health check failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded while waiting for connections to become ready";

/// From when to when after its start, in milliseconds, the checks of a service fail, and with which words.
fn lapses(id: &str) -> &'static [(u64, u64, &'static str)] {
    match id {
        "containerd" => &[(1_000, 15_400, NO_CONNECTION), (30_300, 34_700, TIMED_OUT)],
        "cri" => &[(1_000, 5_400, NO_CONNECTION)],
        _ => &[],
    }
}

impl Service {
    /// What the checks of a service that runs say on a slow host.
    pub(super) fn on_slow_host(self, now: Timestamp) -> Self {
        if self.healthy != Some(true) {
            return self;
        }
        let moment = |millis: u64| after(self.since, Duration::from_millis(millis));
        let past = lapses(&self.id).iter().rev().find(|(from, ..)| moment(*from) <= now);
        match past {
            Some((from, until, words)) if now < moment(*until) => {
                let checked = moment(*from);
                Self { healthy: Some(false), checked, message: (*words).to_owned(), ..self }
            }
            Some((_, until, _)) => Self { checked: moment(*until), ..self },
            None => self,
        }
    }
}

impl Machine {
    /// The moments at which what is known of its services changes because its host is slow.
    pub(super) fn slow_moments(&self) -> Vec<Timestamp> {
        if !self.slow {
            return vec![];
        }
        let runtime = match &self.phase {
            Phase::Configured(node) => Some(("cri", node.cri_from)),
            _ => None,
        };
        let services = self.network_since().map(|since| ("containerd", since)).into_iter().chain(runtime);
        let moments = services.flat_map(|(id, since)| {
            let ends = lapses(id).iter().flat_map(|(from, until, _)| [*from, *until]);
            ends.map(move |millis| after(since, Duration::from_millis(millis)))
        });
        moments.collect()
    }
}

impl Machines {
    /// A machine was switched on by a host that is slow, or that is not.
    pub(crate) fn set_slow(&mut self, vmid: u32, slow: bool) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.slow = slow;
        }
    }
}
