//! A client for Proxmox VE.
//!
//! [`Client`] speaks HTTP/1.1 and JSON to any node of a Proxmox cluster and gives back plain types. Three things are
//! decided here once, so that no caller has to know them: how a scalar looks that Perl may send as number, string or
//! boolean ([`scalar`]); what an answer means, since Proxmox tells most failures apart by their words only ([`Kind`]);
//! and how a task is followed to its end ([`Client::follow`]). What is *not* decided here is whether to try again: a
//! reading call is repeated when the connection broke, a changing call never is, because its effect may have
//! happened ([`Error::effect_unknown`]).
//!
//! Every call can fail in the ways that [`Kind`] lists; a call says what more it can fail with.

mod access;
mod client;
mod cluster;
mod console;
mod copies;
mod error;
mod limits;
mod login;
mod migrate;
mod pending;
mod percent;
mod pools;
mod property;
pub mod scalar;
mod storage;
mod task;
mod token;
mod transport;
mod trust;
mod upid;
mod vm;

pub use access::{Grant, Granted, NewToken, Revocation, Role, User, UserToken};
pub use client::Client;
pub use cluster::{ClusterNode, ClusterStatus, Network, Node, Permissions, Resource, Version, Vnet};
pub use console::{Console, ConsoleError, Lines};
pub use copies::{Clone, Migrate};
pub use error::{Error, Kind, Result};
pub use limits::Turn;
pub use login::{Login, LoginError, SecondFactor};
pub use migrate::Migration;
pub use pending::BothConfigs;
pub use pools::{Check, Mapping, PciDevice, Pool};
pub use property::PropertyString;
pub use storage::{Checksum, Content, DownloadUrl, Storage, StorageDefinition, Upload, UrlAnswer};
pub use task::{Finished, LogLine, TaskStatus};
pub use token::{InvalidToken, Token};
pub use transport::{Endpoint, Endpoints, InvalidEndpoint, NotConnected};
pub use trust::{Fingerprint, InvalidTrust, Trust, Unaccepted, Unverified};
pub use upid::Upid;
pub use vm::{AgentInterface, Drive, Params, PowerState, VmConfig, VmStatus};

#[cfg(test)]
mod fuzz_tests;
