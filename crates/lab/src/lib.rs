//! A world to try things in: Proxmox VE hosts, an Image Factory, Talos machines and the Kubernetes they become.
//!
//! The world is plain data ([`World`]) in which nothing runs by itself: whatever takes time is a due moment stored in
//! it. [`Shared`] guards that data, moves it forward to the clock's time before anyone looks, and saves it before an
//! answer leaves, so that killing the process at any moment leaves the world as of the last answered request. Around it
//! stand the listeners: Proxmox' API, the factory and the machines' own ports, reached either through [`Lab::net`]
//! (in-memory pipes, real TLS bytes) or through loopback TCP ([`Lab::serve`]).

mod calls;
mod canary;
mod config;
mod control;
mod course;
mod error;
mod factory;
mod factory_api;
mod faults;
mod https;
mod hypervisor;
mod invariants;
mod keys;
mod kube;
mod kube_api;
mod line;
pub mod machine;
mod net;
mod operations;
mod outcome;
mod person;
mod pve;
mod rng;
mod schema;
mod serve;
mod shared;
mod stable;
mod talos_api;
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ambient::{Clock, Net};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use calls::{Call, Delivery, Service, changes};
pub use config::description::Description;
pub use config::{HostConfig, LabConfig, PciConfig, ProxmoxVersion, StorageConfig, StorageKind};
pub use control::{Control, ControlError, Order, Report};
pub use error::LabError;
pub use faults::{
    CallFilter, CallMoment, ComesBack, ConsoleFault, Far, Faults, Injection, Lost, Met, Partition, Relayed,
    Verdict, When, Wire, known_faults, known_words,
};
pub use hypervisor::second_factor::one_time_code;
pub use invariants::{Allowance, Rules, Violation, VmConfig, Watch, leftovers};
pub use machine::timing;
pub use person::{Backup, Person};
pub use serve::{ServeOptions, Serving};
pub use shared::Shared;
pub use world::World;

use net::Network;

/// One running world. Dropping it closes every connection and stops its time; a world with a folder can be opened again.
pub struct Lab {
    network: Arc<Network>,
}

/// What someone needs to know to use the lab's Proxmox and factory.
#[derive(Debug, Clone)]
pub struct Facts {
    /// `host:port` of the first Proxmox host.
    pub endpoint: String,
    /// SHA-256 of that host's certificate, as Proxmox prints it.
    pub fingerprint: String,
    /// An API token with all privileges, as it stands after `PVEAPIToken=`.
    pub token: String,
    /// The password of `root@pam`.
    pub root_password: String,
    /// The authority that signed the factory's certificate.
    pub factory_ca_pem: String,
}

impl Lab {
    /// Opens the world in the configured folder, or makes a new one, and lets its time run with `clock`.
    ///
    /// Must be called inside a tokio runtime. What a folder already holds wins over the configuration; hosts, storages
    /// and bridges that are new in the configuration are added.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read or written, or keys cannot be made.
    pub fn open(config: LabConfig, clock: Clock) -> Result<Self, LabError> {
        Ok(Self::run(Shared::open(&config, clock)?))
    }

    /// Goes on with a world as it stands, in memory only: a copy of a world at some moment, for one.
    #[must_use]
    pub fn of(world: World, clock: Clock) -> Self {
        Self::run(Shared::of(world, clock))
    }

    fn run(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let stop = CancellationToken::new();
        let network = Arc::new(Network::new(shared.clone(), stop.clone()));
        tokio::spawn(stop.run_until_cancelled_owned(shared::drive(shared)));
        Self { network }
    }

    /// The time at which the world in `folder` stands still, if there is one.
    #[must_use]
    pub fn saved_time(folder: &Path) -> Option<Timestamp> {
        shared::saved_time(folder)
    }

    /// The lab's network: Proxmox hosts, factory and machines by name or address.
    #[must_use]
    pub fn net(&self) -> Net {
        self.net_of("")
    }

    /// The same network, for someone whose calls are to be told from those of others.
    #[must_use]
    pub fn net_of(&self, origin: &str) -> Net {
        Net::of(net::Dialler(self.network.clone(), origin.into()))
    }

    /// Counts calls that change something, from now on: everywhere, and by everybody.
    #[must_use]
    pub fn count_changes(&self) -> Arc<AtomicU64> {
        self.network.shared.hooks().count_changes()
    }

    /// Forgets how many calls there were: those that prepared the lab do not count.
    pub fn forget_calls(&self) {
        self.network.shared.hooks().forget_answered();
    }

    /// How many calls each service has had, since the lab was opened or they were forgotten.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<Service, u64> {
        self.network.shared.hooks().answered()
    }

    /// Endpoint, fingerprint and credentials.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.network.shared.peek(|world| world.hypervisor.facts(&world.factory))
    }

    /// The fingerprint of each Proxmox host's certificate, in the order of the hosts.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<String> {
        self.network.shared.peek(|world| world.hypervisor.fingerprints())
    }

    /// The world and its lock, for tests and views.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.network.shared
    }

    /// Lets someone look at every call from now on.
    pub fn watch(&self, watch: Arc<Watch>) {
        self.network.shared.set_watch(watch);
    }

    /// Breaks something, or clear it.
    pub fn inject(&self, injection: Injection) {
        let watch = self.network.shared.watch();
        self.network.shared.with(|world, _| {
            watch.iter().for_each(|watch| watch.before_person(world));
            world.inject(injection);
            watch.iter().for_each(|watch| watch.disrupted(world));
        });
    }

    /// Puts a document on the world's web, for machines whose configuration names its address (`extraManifests`).
    pub fn publish(&self, url: &str, text: &str) {
        self.network.shared.with(|world, _| {
            world.machines.documents.insert(url.to_owned(), text.to_owned());
        });
    }

    /// Runs `hook` before and after each call to Proxmox, to a machine, to Kubernetes or to the factory, with the call's
    /// running number, method and path. What the hook holds gets no further.
    pub fn on_call(&self, hook: impl Fn(u64, CallMoment, &str, &str) -> Verdict + Send + Sync + 'static) {
        self.network.shared.hooks().set(hook);
    }
}

impl Drop for Lab {
    /// Nothing of this world may be written after another lab has opened its folder.
    fn drop(&mut self) {
        self.network.stop.cancel();
        self.network.shared.close();
    }
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").finish_non_exhaustive()
    }
}
