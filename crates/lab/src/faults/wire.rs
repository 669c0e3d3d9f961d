//! What goes wrong on the way to a machine: to its Talos API, in maintenance or configured, and to its Kubernetes API.
//!
//! A connection and each call on it are counted together, so that "the fifth" means the fifth thing that anybody wanted of
//! any machine. A connection shows as `DIAL` of `ADDRESS:PORT`, a call of Talos as `CALL` of `ADDRESS:PORT/SERVICE/METHOD`,
//! one of Kubernetes with its own method and path after the address. A connection that breaks takes every call on it along,
//! as TCP does.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What goes wrong on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// The port refuses the connection; a call loses the one it has.
    Refused,
    /// The connection is reset before the call reached the machine.
    Reset,
    /// The connection is reset after the machine did what was asked and before it answered.
    Lost,
    /// The answer starts, and is cut off in the middle.
    Cut,
    /// Packets vanish: no answer ever comes.
    BlackHole,
    /// The answer takes so much longer.
    Slow(Duration),
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("a refused connection"),
            Self::Reset => f.write_str("a reset connection"),
            Self::Lost => f.write_str("a lost answer"),
            Self::Cut => f.write_str("an answer that is cut off"),
            Self::BlackHole => f.write_str("a black hole"),
            Self::Slow(by) => write!(f, "an answer that is late by {} s", by.as_secs_f64()),
        }
    }
}
