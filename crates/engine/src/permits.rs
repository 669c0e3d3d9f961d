//! The permits that the gate gave in this run: two units never count on the same healthy node, and a unit that ends unverified closes the
//! gate for the rest of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::gate::{Blocker, Permit, Standing};
use model::names::NodeName;
use model::observed::Health;
use model::spec::HealthGate;
use model::step::UnitId;

use crate::kubernetes::health::Reading;

/// Who may be disrupted, and who is.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    state: Mutex<State>,
}

/// What this run has been given and has not ended.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Of units that have started and not ended.
    pub permits: BTreeMap<UnitId, Arc<Permit>>,
    /// Units in the order of the plan.
    pub order: Vec<UnitId>,
    /// Units at the gate that wait for nothing but their turn, or have not been judged yet.
    pub queue: BTreeSet<UnitId>,
    /// The unit that ended unverified.
    failed: Option<UnitId>,
    /// What is known of systems that look at themselves only now and then.
    pub freshness: Freshness,
}

impl State {
    /// What the gate takes into account.
    pub(crate) fn standing(&self) -> Standing {
        let in_flight = self.permits.values().map(|permit| permit.request().clone()).collect();
        Standing { in_flight, failed: self.failed.clone() }
    }

    /// Whether a unit that the plan lists before this one waits for its turn, too.
    pub(crate) fn is_behind(&self, unit: &UnitId) -> bool {
        self.order.iter().take_while(|other| *other != unit).any(|other| self.queue.contains(other))
    }

    /// The same, without what goes on with one node.
    pub(crate) fn beside(&self, node: &str) -> Standing {
        let standing = self.standing();
        let in_flight = standing.in_flight.into_iter().filter(|request| request.node != node).collect();
        Standing { in_flight, ..standing }
    }
}

impl Permits {
    /// The permit of a unit that has started.
    pub(crate) fn permit(&self, unit: &UnitId) -> Option<Arc<Permit>> {
        self.state().permits.get(unit).cloned()
    }

    /// A unit has ended. One that was not verified closes the gate.
    pub(crate) fn leave(&self, unit: &UnitId, verified: bool) {
        let mut state = self.state();
        let held = state.permits.remove(unit).is_some();
        if held {
            state.freshness.disrupted();
        }
        if held && !verified && state.failed.is_none() {
            state.failed = Some(unit.clone());
        }
    }

    /// Whether a blocker goes away when units of this run end.
    pub(crate) fn is_own(&self, blocker: &Blocker) -> bool {
        match blocker {
            Blocker::InFlight(_) => true,
            Blocker::Budget { away, budget } => {
                let state = self.state();
                let ours = |name: &&NodeName| state.permits.values().any(|p| p.request().node == **name);
                away.iter().filter(|name| !ours(name)).count() < *budget
            }
            _ => false,
        }
    }

    /// Locked: a judgment and the keeping of its result are one thing.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A unit at the gate. However its wait ends, it does not hold up others afterwards.
pub(crate) struct Turn<'a> {
    permits: &'a Permits,
    unit: &'a UnitId,
}

impl<'a> Turn<'a> {
    /// The unit waits for its turn.
    pub(crate) fn of(permits: &'a Permits, unit: &'a UnitId) -> Self {
        permits.state().queue.insert(unit.clone());
        Self { permits, unit }
    }

    /// Whether it waits for nothing but its turn. Others do not wait for what waits for something else.
    pub(crate) fn is_next(&self, next: bool) {
        let mut state = self.permits.state();
        match next {
            true => state.queue.insert(self.unit.clone()),
            false => state.queue.remove(self.unit),
        };
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.permits.state().queue.remove(self.unit);
    }
}

/// Which readings of systems that look at themselves only now and then are from before the last disruption. Without one there are none.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    before: Option<BTreeMap<HealthGate, String>>,
}

impl Freshness {
    /// A disruption has ended: what is read first from now on may be from before.
    pub(crate) fn disrupted(&mut self) {
        self.before = Some(BTreeMap::new());
    }

    /// What systems say, as far as it is from after the last disruption.
    pub(crate) fn of(&mut self, readings: BTreeMap<HealthGate, Reading>) -> BTreeMap<HealthGate, Health> {
        let mut judge = |gate: HealthGate, reading: Reading| {
            let (Some(before), Some(checked)) = (self.before.as_mut(), reading.checked) else {
                return reading.health;
            };
            match *before.entry(gate).or_insert_with(|| checked.clone()) == checked {
                true => Health::Unknown {
                    why: format!("its status of {checked} may be older than the last disruption"),
                },
                false => reading.health,
            }
        };
        readings.into_iter().map(|(gate, reading)| (gate, judge(gate, reading))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(freshness: &mut Freshness, checked: Option<&str>) -> Health {
        let reading = Reading { health: Health::Healthy, checked: checked.map(str::to_owned) };
        freshness.of([(HealthGate::Ceph, reading)].into()).remove(&HealthGate::Ceph).unwrap()
    }

    #[test]
    fn a_status_counts_after_a_disruption_once_it_is_newer() {
        let mut freshness = Freshness::default();
        assert_eq!(read(&mut freshness, Some("10:00")), Health::Healthy, "nothing was disrupted yet");
        freshness.disrupted();
        for _ in 0..2 {
            assert!(matches!(read(&mut freshness, Some("10:00")), Health::Unknown { .. }));
        }
        assert_eq!(read(&mut freshness, None), Health::Healthy, "it reports by itself");
        for _ in 0..2 {
            assert_eq!(read(&mut freshness, Some("10:01")), Health::Healthy);
        }
        freshness.disrupted();
        assert!(matches!(read(&mut freshness, Some("10:01")), Health::Unknown { .. }));
    }
}
