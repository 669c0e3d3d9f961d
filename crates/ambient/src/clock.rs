//! One clock for whoever waits.
//!
//! A clock is an origin, a moment of tokio's time at which that origin was true, and a pace. The real clock is the
//! system's own: a laptop that slept must see that hours have passed, which tokio's time does not count. The lab's clock starts where the lab's world stopped and may run faster. A
//! *virtual* clock is one with pace 1 on a paused tokio runtime: tokio then jumps to the next timer whenever nothing else
//! can run, so ten minutes cost milliseconds.

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]

use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time and waits. Cheap to clone; all clones agree.
#[derive(Debug, Clone)]
pub struct Clock {
    /// `None` for the system's own time.
    origin: Option<(Timestamp, Instant)>,
    pace: f64,
}

/// The time allowed ran out before the work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time allowed ran out")
    }
}

impl std::error::Error for TimedOut {}

impl Clock {
    /// The system's own time.
    #[must_use]
    pub fn real() -> Self {
        Self { origin: None, pace: 1.0 }
    }

    /// A clock that shows `origin` now and then runs `pace` times as fast as the runtime's time.
    ///
    /// # Panics
    ///
    /// When `pace` is not a positive, finite number.
    #[must_use]
    pub fn from(origin: Timestamp, pace: f64) -> Self {
        assert!(pace.is_finite() && pace > 0.0, "a clock must go forward");
        Self { origin: Some((origin, Instant::now())), pace }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let Some((origin, started)) = self.origin else { return Timestamp::now() };
        let elapsed = started.elapsed().mul_f64(self.pace);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        origin.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Waits for `duration` of this clock's time.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration.div_f64(self.pace)).await;
    }

    /// Waits until this clock shows `when`; returns at once if it already does.
    pub async fn sleep_until(&self, when: Timestamp) {
        let left = when.duration_since(self.now());
        if let Ok(left) = Duration::try_from(left) {
            self.sleep(left).await;
        }
    }

    /// Runs `work`, for at most `limit` of this clock's time.
    ///
    /// # Errors
    ///
    /// [`TimedOut`] when the time ran out; `work` is dropped then.
    pub async fn timeout<F: Future>(&self, limit: Duration, work: F) -> Result<F::Output, TimedOut> {
        tokio::time::timeout(limit.div_f64(self.pace), work).await.map_err(|_| TimedOut)
    }
}

/// Certificates are judged by this clock, not by the system's: the lab's certificates are of the lab's time.
impl rustls::time_provider::TimeProvider for Clock {
    fn current_time(&self) -> Option<rustls_pki_types::UnixTime> {
        let seconds = u64::try_from(self.now().as_second()).ok()?;
        Some(rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_waits_less_and_shows_more() {
        let origin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::from(origin, 60.0);
        let before = Instant::now();
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(1));
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:00Z");
        assert_eq!(clock.timeout(Duration::from_secs(6), std::future::pending::<()>()).await, Err(TimedOut));
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:06Z");
        clock.sleep_until(origin).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:06Z");
    }
}
