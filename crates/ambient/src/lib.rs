//! What a program asks of its surroundings: the time, connections, and chance.
//!
//! Everything in Talosmith that waits takes a [`Clock`], and everything that talks takes a [`Net`]. Nothing else reads a
//! clock, sleeps, or opens a connection (`clippy.toml` turns that into a compiler message). Because of this the lab can
//! stand in for the whole outside: its clock may run thirty times faster, or jump, and its network is a table of
//! in-memory pipes. The bytes on those pipes are the real ones, TLS included, so a wrong authority or a missing client
//! certificate fails in a test with the very error that it gives in life.

mod clock;
mod net;
mod pace;
mod random;
pub mod tls;

pub use clock::{Clock, Reading, TimedOut};
pub use net::{DELIVERY_LIMIT, Dial, Net, Stream};
pub use pace::Asleep;
pub use random::Random;
