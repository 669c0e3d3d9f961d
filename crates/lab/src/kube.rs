//! The Kubernetes of the lab: an object store, the few controllers whose work everybody looks at, and what requests mean.
//!
//! Objects live with the etcd cluster that holds them. `controllers` writes what kubelets and Kubernetes' own controllers
//! would write (nodes, workloads, pods); `read` and `write` carry out requests on the same store, for any kind in the table
//! of `kinds` or brought by a definition; `kube_api` serves them. No kind has code of its own beyond what its controller does and how a table shows it.

mod apply;
mod budgets;
mod charts;
mod columns;
pub(crate) mod controllers;
mod defaults;
pub(crate) mod discovery;
mod events;
mod garbage;
mod kinds;
mod lists;
mod manifests;
mod nodes;
pub(crate) mod openapi;
mod owned;
mod patch;
mod pods;
pub(crate) mod protobuf;
pub(crate) mod query;
pub(crate) mod read;
mod scheduler;
mod store;
mod table;
pub(crate) mod target;
mod workloads;
pub(crate) mod write;

pub(crate) use budgets::has_budget;
pub(crate) use controllers::{Report, reconcile};
pub(crate) use nodes::{Kubelet, MirrorPod};
pub(crate) use pods::has_network;
pub(crate) use store::Place;
pub use store::Store;

#[cfg(test)]
mod tests;
