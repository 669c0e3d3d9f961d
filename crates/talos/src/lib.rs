//! Talos without a network: what its API looks like on the wire, the secrets of a cluster and the certificates made from
//! them, machine configuration for each release, and Image Factory schematics.
//!
//! Nothing here does IO, and time is always handed in. The client or the simulator brings the connection.

pub mod config;
mod contract;
#[cfg(test)]
mod golden;
mod keys;
pub mod patch;
mod pem;
pub mod pki;
mod problem;
mod schema;
pub mod schematic;
mod secret;
pub mod secrets;
pub mod validate;
pub mod wire;
mod yaml;

pub use keys::KeyGenerationError;
pub use secret::Secret;
