//! The Kubernetes of the lab: an object store, the few controllers whose work everybody looks at, and an API server.
//!
//! Objects live with the etcd cluster that holds them. `controllers` writes what kubelets and Kubernetes' own controllers
//! would write (nodes, their pods); `http` answers clients over the same store, for any kind that it knows.

mod controllers;
mod discovery;
mod http;
mod patch;
mod pods;
mod query;
mod store;
mod table;
mod watch;

pub(crate) use controllers::{Kubelet, reconcile};
pub(crate) use http::serve;
pub use store::Store;

#[cfg(test)]
mod tests;
