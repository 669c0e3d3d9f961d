//! The Kubernetes of the lab: an object store, the few controllers whose work everybody looks at, and an API server.
//!
//! Objects live with the etcd cluster that holds them. `controllers` writes what kubelets and Kubernetes' own controllers
//! would write (nodes, workloads, pods); `http` answers clients over the same store, for any kind in the table of `kinds`
//! or brought by a definition. No kind has code of its own beyond what its controller does and how a table shows it.

mod apply;
mod budgets;
mod charts;
mod columns;
mod controllers;
mod defaults;
mod discovery;
mod events;
mod garbage;
mod http;
mod kinds;
mod lists;
mod manifests;
mod nodes;
mod openapi;
mod owned;
mod patch;
mod pods;
mod protobuf;
mod query;
mod read;
mod scheduler;
mod store;
mod table;
mod target;
mod watch;
mod workloads;
mod write;

pub(crate) use budgets::has_budget;
pub(crate) use controllers::{Report, reconcile};
pub(crate) use http::serve;
pub(crate) use nodes::Kubelet;
pub(crate) use pods::has_network;
pub(crate) use store::Place;
pub use store::Store;

#[cfg(test)]
mod tests;
