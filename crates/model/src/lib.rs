//! The desired state of a cluster, its observed state and the plan: the vocabulary of Talosmith, without any IO.
//!
//! ```text
//!  cluster.yaml ──load──► Spec ──┐
//!                                ├─resolve─► Blueprint ─┐
//!                     Inventory ─┘   (no choice left)   ├─plan─► Plan ──(engine)──► Events
//!                                            Observed ──┘
//! ```
//!
//! - [`load`] reads text into a [`spec::Spec`] and remembers where every value stood; [`check`] finds everything that is
//!   wrong with it, at once, as [`diagnostic::Diagnostic`]s that point at those places.
//! - [`attachments`] lists the other files that it points to.
//! - [`starter`] writes a file to start with, and [`mod@reference`] the page that explains its keys.
//! - [`forms`] are the grammars of single values, and [`derived`] the values that follow from a node's name.
//! - [`resolve`] decides every name, address, VM id, MAC address and host: a [`blueprint::Blueprint`].
//! - [`observed`] is what was found out there, incomplete by design: it says what could not be seen.
//! - [`ownership`] says whether a VM is the one that Talosmith made.
//! - [`readiness`] says whether a node has its place in the cluster.
//! - [`removed`] has the nodes of this cluster that the file does not have any more.
//! - [`vm`] says what a node's VM is in Proxmox' words.
//! - [`alive`] says when a node may be called dead, and [`quorum`] when etcd does not need it.
//! - [`policy`] is how the file wants disruptions to be made.
//! - [`gate`] says whether a node may be disrupted now.
//! - [`allowed`] is what an operator allows a plan to do.
//! - [`plan`] compares the two. All rules of order and safety live there.
//! - [`releases`] has the versions of Talos and Kubernetes that are supported, in one table.
//! - [`retention`] says which backups are kept.
//! - [`rights`] is what a token must be allowed to do for a blueprint, and where.
//! - [`service`] says which services of a machine do not come up by themselves.
//! - [`holder`] is what is given credentials inside the cluster.
//! - [`identity`] is how a machine proves who it is before it receives keys.
//! - [`mod@lease`] is when one operator stops and the next one may start.
//! - [`natural`] is the order in which people count names.
//! - [`hops`] is the way from one release to another, [`mod@upgrade`] what is left of it, and [`stage`] what each node runs after the next
//!   hop.
//! - [`mod@unit`] is what a plan does, in the size in which a person approves it.
//! - [`event`] is what happens while a plan is carried out; terminal, JSON lines and journal all read it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read fixtures"))]

pub mod alive;
pub mod allowed;
pub mod attachments;
pub mod blueprint;
pub mod check;
pub mod derived;
pub mod diagnostic;
mod draft;
pub mod event;
pub mod forms;
pub mod gate;
pub mod holder;
pub mod hops;
pub mod identity;
mod images;
pub mod lease;
pub mod load;
pub mod mark;
pub mod names;
pub mod natural;
pub mod observed;
pub mod ownership;
mod placement;
pub mod plan;
pub mod policy;
pub mod quorum;
pub mod readiness;
pub mod reference;
pub mod releases;
pub mod removals;
pub mod removed;
pub mod resolve;
pub mod retention;
pub mod rights;
pub mod service;
pub mod spec;
pub mod stage;
pub mod starter;
pub mod step;
pub mod unit;
pub mod upgrade;
pub mod vm;
