//! Speaking to Talos machines and to the Image Factory.
//!
//! A machine has two faces on one port. Before it has a configuration it trusts everyone and cannot be recognised by its
//! certificate: [`Maintenance`] is one connection to that face, never renewed in silence, so that what was learned over it
//! (the SMBIOS UUID) still holds when the secrets follow. Afterwards both sides show certificates of the cluster's
//! authority: [`Machine`] is a channel to that face, which dials again by itself. [`probe`] tells which face a port
//! shows. [`Factory`] makes images.
//!
//! Every call has a limit of time, because some calls of Talos wait for as long as they are let; [`Machine::within`] sets
//! another. Every failure names the machine, what was attempted, the stage in which the machine was last seen, and the
//! likely reason in words.

mod api;
mod common;
mod connection;
mod cosi;
mod error;
mod etcd;
mod events;
mod factory;
mod kubeconfig;
mod machine;
mod maintenance;
mod power;
mod probe;
mod services;
mod snapshot;
mod tls;
mod types;
mod upgrade;

pub use cosi::{Change, Resource, Watch};
pub use error::{Error, Kind, Result};
pub use etcd::{AlarmKind, EtcdAlarm, EtcdMember, EtcdStatus};
pub use events::{Event, Events, Past, SequenceFailure, Step, What};
pub use factory::{Factory, FactoryError, Roots};
pub use machine::Machine;
pub use maintenance::Maintenance;
pub use power::{Reboot, Reset};
pub use probe::{Probe, probe};
pub use services::Lines;
pub use snapshot::{NotSound, Snapshot, SnapshotCheck, check_snapshot};
pub use tls::Credentials;
pub use types::{
    Address, Applied, ApplyMode, Disk, Extension, Link, MachineStatus, Service, Stage, UnmetCondition,
    Version, Volume,
};
pub use upgrade::{ImageStore, LegacyUpgrade, Progress, Upgraded};

/// The port of the Talos API, in maintenance and afterwards.
pub const PORT: u16 = 50000;

#[cfg(test)]
mod tests;
