//! The whole program, as people and scripts run it: arguments in, text and exit code out.
//!
//! All tests are in one binary, because linking costs more than running them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

mod a_served_lab;
mod attached;
mod backups;
mod bundles;
mod canaries;
mod files;
#[cfg(target_os = "linux")]
mod first_hour;
mod interrupted;
mod json;
mod killed;
mod lab_runs;
mod offline;
#[cfg(unix)]
mod operators;
mod proxmox;
mod saved;
mod shell;
mod start;
