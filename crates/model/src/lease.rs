//! When the holder of a lease stops, and when its successor may start: one place for all of it.
//!
//! Nothing outside can fence a holder off: Proxmox, Talos and Kubernetes take a call from any client with the keys. So two rules
//! keep the changing calls of two operators apart:
//!
//! - The holder makes no changing call later than [`HOLDER_STOPS`] after it *sent* its last successful renewal, by a clock that
//!   nothing sets back and that goes on while the computer sleeps. It does not matter why it could not renew.
//! - The successor waits from the moment at which the lease cannot be renewed any more, for as long as the holder may go on
//!   ([`HOLDER_STOPS`]) and a call that it sent last may take to have its effect ([`LONGEST_CALL`]), and a while longer.
//!
//! Neither compares its clock with another computer's. What a lease says about its end in wall-clock time only decides whether a
//! successor waits at all or is told at once that the cluster is being changed.

use std::time::Duration;

/// The holder makes no changing call later than this after it sent its last successful renewal.
pub const HOLDER_STOPS: Duration = Duration::from_secs(60);
/// How often the holder renews. Two renewals may fail before it has to stop.
pub const RENEW_EVERY: Duration = Duration::from_secs(20);
/// How long one renewal may take before the next one is tried.
pub const RENEWAL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long after it was sent a changing call may still have its effect: [`UNDELIVERED`] on its way, and as long as Proxmox takes
/// at most to answer a request that waits for a lock.
pub const LONGEST_CALL: Duration = Duration::from_secs(75);
/// How long the system keeps bytes that the other side did not acknowledge. Without this, a call that was sent into a broken
/// network would arrive minutes later, when the network is back.
pub const UNDELIVERED: Duration = Duration::from_secs(15);
/// What a successor waits beyond what it must.
pub const MARGIN: Duration = Duration::from_secs(15);
/// How long a successor waits for a holder that keeps [`HOLDER_STOPS`].
pub const SUCCESSOR_WAITS: Duration = successor_waits(Some(HOLDER_STOPS));
/// After how long without its lease a holder, which changes nothing meanwhile, gives up.
pub const HOLDER_GIVES_UP: Duration = Duration::from_secs(5 * 60);
/// How often a run that started before there was a place for a lease looks whether there is one.
pub const LOOK_FOR_PLACE_EVERY: Duration = Duration::from_secs(3);
/// How long the first holder of a cluster's lease waits for a run that started before there was a place for it, and finds out now.
pub const FIRST_HOLDER_WAITS: Duration =
    successor_waits(Some(LOOK_FOR_PLACE_EVERY.saturating_add(RENEWAL_TIMEOUT)));
/// What a holder keeps whose lease does not say it: releases before 0.1.0 went on for five minutes.
const UNSAID: Duration = Duration::from_secs(5 * 60);

const _: () = assert!(
    HOLDER_STOPS.as_secs() + LONGEST_CALL.as_secs() < SUCCESSOR_WAITS.as_secs(),
    "the holder must have stopped, and its last call ended, before its successor starts"
);
const _: () = assert!(
    RENEW_EVERY.as_secs() + RENEWAL_TIMEOUT.as_secs() < HOLDER_STOPS.as_secs(),
    "one failed renewal must not stop a holder"
);
const _: () = assert!(UNDELIVERED.as_secs() < LONGEST_CALL.as_secs(), "a call takes its way and its time");

/// How long a successor waits for a holder that stops this long after its last renewal; `None` when its lease does not say.
#[must_use]
pub const fn successor_waits(holder_stops: Option<Duration>) -> Duration {
    let stops = match holder_stops {
        Some(stops) => stops,
        None => UNSAID,
    };
    stops.saturating_add(LONGEST_CALL).saturating_add(MARGIN)
}

/// How long a successor waits for a holder of whom the lease says this. One that itself still waits for the holder before it
/// (`outwaits`) may not be the last that is at work.
#[must_use]
pub fn takeover_waits(holder_stops: Option<Duration>, outwaits: Option<Duration>) -> Duration {
    successor_waits(holder_stops).max(outwaits.unwrap_or_default())
}

/// What a holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Changing calls may be made.
    Valid,
    /// No changing call; the lease may be renewed, which tells whether it is still ours.
    Paused,
    /// It was out of reach for so long that the run ends.
    GivenUp,
}

/// What a holder may do that sent its last successful renewal this long ago, by its own clock; `None` when it never held the lease.
#[must_use]
pub fn hold(since_renewal: Option<Duration>) -> Hold {
    match since_renewal {
        Some(since) if since < HOLDER_STOPS => Hold::Valid,
        Some(since) if since < HOLDER_GIVES_UP => Hold::Paused,
        _ => Hold::GivenUp,
    }
}

/// A lease in Kubernetes, as a run finds it that started when there was no place for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateFind {
    /// Whether there is such a lease at all.
    pub exists: bool,
    /// Who has it.
    pub holder: LateHolder,
}

/// Who has a lease that a run finds late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateHolder {
    /// Nothing has it now.
    Free,
    /// This working folder: from a run that ended early, or it was the last to give it back.
    Ours,
    /// Another operator.
    Other,
}

/// What a run does with a lease that it finds late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Take it and go on.
    Take,
    /// Stop: another operator is changing the cluster.
    Busy,
    /// Stop and observe again: another run may have changed the cluster after this one observed it.
    Stale,
}

/// Decides what a run does with a lease that it finds late. One that exists and is free was another run's, and whether that was
/// before or after this run observed the cluster is not known.
#[must_use]
pub fn late(found: LateFind) -> Late {
    match (found.holder, found.exists) {
        (LateHolder::Other, _) => Late::Busy,
        (LateHolder::Ours, _) | (LateHolder::Free, false) => Late::Take,
        (LateHolder::Free, true) => Late::Stale,
    }
}

#[cfg(test)]
mod tests;
