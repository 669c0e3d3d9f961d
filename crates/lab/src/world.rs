//! The world as plain data. Everything that takes time is a moment stored somewhere below; `course` goes through them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::factory::Factory;
use crate::faults::Faults;
use crate::hypervisor::Hypervisor;
use crate::machine::Machines;
use crate::rng::Rng;
use crate::{LabConfig, LabError};

/// Everything that exists in the lab.
#[derive(Debug, Serialize, Deserialize)]
pub struct World {
    /// What the world was made from.
    pub seed: u64,
    /// Where ids, MAC addresses and durations come from.
    pub rng: Rng,
    /// The world's time. It stands still while no lab has the world open.
    pub now: Timestamp,
    /// The Proxmox side.
    pub hypervisor: Hypervisor,
    /// The Image Factory.
    pub factory: Factory,
    /// What runs inside the VMs.
    pub machines: Machines,
    /// What was broken on purpose.
    pub faults: Faults,
    /// What the operator's name server knows.
    #[serde(default)]
    pub names: BTreeMap<String, IpAddr>,
    /// The hosts outside that answer while nothing is disrupted; all when there is none.
    #[serde(default)]
    pub outside: Option<Vec<String>>,
}

impl World {
    /// A new world at `now`.
    ///
    /// # Errors
    ///
    /// When there is no host, or a key cannot be made.
    pub fn new(config: &LabConfig, now: Timestamp) -> Result<Self, LabError> {
        let mut rng = Rng::new(config.seed);
        let hypervisor = Hypervisor::new(config, now, &mut rng)?;
        let factory = Factory::new(config)?;
        let mut machines = Machines::default();
        machines.close_outside(config.outside.clone());
        let names = config.names.clone();
        Ok(Self {
            seed: config.seed,
            rng,
            now,
            hypervisor,
            factory,
            machines,
            faults: Faults::default(),
            names,
            outside: config.outside.clone(),
        })
    }

    /// The names of the hosts, in order.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        self.hypervisor.hosts.keys().cloned().collect()
    }
}
