//! Looking at the world, and changing it as a plan says.
//!
//! - [`systems`]: the clients, the clock and the network in one value. Everything that talks starts from it.
//! - [`attachments`]: the other files that a cluster file points to.
//! - [`files`]: files that are whole or not there. [`secrets`]: the bundle at rest, encrypted with age.
//! - [`render`]: blueprint and bundle to machine configurations and schematics.
//! - [`observe`]: what is there, in parallel, each part allowed to fail with a reason.
//! - [`lease`]: who may change the cluster now. [`record`]: the lease and the bootstrap mark in the cluster record VM, changed by
//!   compare-and-set; `kubernetes_lease`: the lease of a cluster without Proxmox.
//! - `identify` and `owned`: whether a machine, or a VM, is the one that is meant.
//! - [`apply`]: runs the graph of steps. [`steps`] has one file per kind of step: do, then verify. `context` is what they share.
//! - `gate`: who may be disrupted now; nothing disruptive runs without its permit.
//! - [`local`]: the machine that Talosmith runs on, which runs command gates and knows time zones.
//! - [`snapshots`]: where snapshots of etcd are kept; [`backup`]: the store of backups. [`etcd_snapshot`] takes one.
//! - `audit`: says in Kubernetes what is done to a node.
//! - [`doctor`]: whether Proxmox is as a cluster needs it; [`setup`]: making it so, with an administrator's login.
//! - [`health`]: what "healthy" means, as named conditions.
//! - [`logs`]: what a machine wrote.
//! - [`journal`]: events on disk. It explains; nothing reads it to decide.
//! - [`reconcile`]: the loop that the front ends call: observe, plan, check the approval, run, until nothing is left. [`stores`]: what it
//!   keeps outside of the cluster.
//! - [`saved`]: a plan on disk, carried out only if the world is still the same.
//! - [`report`]: what is needed to understand a failed run; [`scrub`] takes secrets out of it.
//!
//! Modules depend on each other in one direction only: from `reconcile` and `apply` by way of `steps` and `context` down to `systems` and `error`.
//!
//! The engine never prints and never reads the environment: the caller hands everything in.

pub mod apply;
pub mod attachments;
mod audit;
pub mod backup;
pub mod consoles;
mod context;
pub mod discovered;
pub mod doctor;
pub mod emit;
pub mod error;
pub mod etcd_snapshot;
mod evidence;
pub mod files;
mod gate;
mod halt;
pub mod health;
mod identify;
pub mod journal;
pub mod kubernetes;
pub mod kubernetes_api;
mod kubernetes_lease;
pub mod lease;
pub mod local;
pub mod logs;
mod missing;
pub mod observe;
mod offline;
mod owned;
mod permits;
pub mod plan_key;
mod power;
mod proof;
pub mod reconcile;
pub mod record;
pub mod render;
pub mod report;
pub mod saved;
pub mod scrub;
pub mod secrets;
pub mod session;
mod settled;
pub mod setup;
pub mod snapshots;
pub mod steps;
pub mod stores;
pub mod systems;
mod tags;
mod unmet;

pub use error::{Error, Result};
pub use session::{Session, Snapshot};
pub use systems::Systems;
