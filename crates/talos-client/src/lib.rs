//! Speaking to Talos machines and to the Image Factory.
//!
//! A machine has two faces on one port. Before it has a configuration it trusts everyone and cannot be recognised by its
//! certificate: [`Maintenance`] is one connection to that face, never renewed in silence, so that what was learned over it
//! (the SMBIOS UUID) still holds when the secrets follow. Afterwards both sides show certificates of the cluster's
//! authority: [`Machine`] is a channel to that face, which dials again by itself. [`probe`] tells which face a port
//! shows. [`Factory`] makes images.
//!
//! Nothing here sets a deadline: some calls of Talos wait for as long as they are let, and only the caller knows how
//! long that may be.

mod api;
mod connection;
mod cosi;
mod error;
mod etcd;
mod factory;
mod kubeconfig;
mod machine;
mod maintenance;
mod probe;
mod tls;
mod types;

pub use cosi::Resource;
pub use error::{Error, Kind, Result};
pub use etcd::{EtcdMember, EtcdStatus};
pub use factory::{Factory, FactoryError, Roots};
pub use machine::{Machine, Reset};
pub use maintenance::Maintenance;
pub use probe::{Probe, probe};
pub use tls::Credentials;
pub use types::{Applied, Disk, Link, MachineStatus, Service, Stage, UnmetCondition, Version};

/// The port of the Talos API, in maintenance and afterwards.
pub const PORT: u16 = 50000;

#[cfg(test)]
mod tests;
