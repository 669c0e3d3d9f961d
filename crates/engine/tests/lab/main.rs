//! The engine against the lab: whole runs on a clock that jumps, with everything that can go wrong in between.
//!
//! All tests are in one binary, because linking costs more than running them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

mod any_file;
mod audit;
mod backups;
mod bring_up;
mod causes;
mod client;
mod crashes;
mod destroy;
mod drift;
mod errors;
mod evidence;
mod external;
mod faults;
mod gates;
mod guard;
mod hardware;
mod home;
mod identity;
mod invariants;
mod key_by_key;
mod kubernetes;
mod leases;
mod maintenance;
mod many;
mod moments;
mod observed;
mod operations;
mod operators;
mod ownership;
mod pending;
mod preflight;
mod real_kubernetes;
mod reconcile;
mod refusals;
mod releases;
mod removed;
mod report;
mod restart;
mod rig;
mod saved;
mod says;
mod seeds;
mod setup;
mod six;
mod snapshots;
mod speed;
mod stops;
mod stored;
mod surprises;
mod unchecked;
mod waits;
mod wires;
