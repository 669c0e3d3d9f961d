//! One clock for everything that waits.
//!
//! A clock is an origin, a moment of tokio's time at which that origin was true, and a pace. The real clock is the
//! system's own: a laptop that slept must see that hours have passed, which tokio's time does not count. The lab's clock starts where the lab's world stopped and may run faster. A
//! *virtual* clock is one with pace 1 on a paused tokio runtime: tokio then jumps to the next timer whenever nothing else
//! can run, so ten minutes cost milliseconds.
//!
//! For how much time has passed there is a [`Reading`], because the time of day can be set back. It counts the time that the
//! computer slept, and takes the longer of two answers where they differ: who asks wants to know what may have expired.

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time and waits. Cheap to clone; all clones agree.
#[derive(Debug, Clone)]
pub struct Clock {
    /// `None` for the system's own time.
    origin: Option<(Timestamp, Instant)>,
    pace: f64,
    /// By how many milliseconds the time of day of a clock of the lab was set since it started.
    set: Arc<AtomicI64>,
}

/// A moment, to ask later how long ago it was. It means nothing to another process.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Never set back. Includes sleep where the system has such a clock.
    steady: Duration,
    wall: Timestamp,
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
        Self { origin: None, pace: 1.0, set: Arc::default() }
    }

    /// A clock that shows `origin` now and then runs `pace` times as fast as the runtime's time.
    ///
    /// # Panics
    ///
    /// When `pace` is not a positive, finite number.
    #[must_use]
    pub fn from(origin: Timestamp, pace: f64) -> Self {
        assert!(pace.is_finite() && pace > 0.0, "a clock must go forward");
        Self { origin: Some((origin, Instant::now())), pace, set: Arc::default() }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let Some((origin, started)) = self.origin else { return Timestamp::now() };
        let elapsed = started.elapsed().mul_f64(self.pace);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        let set = SignedDuration::from_millis(self.set.load(Ordering::Relaxed));
        origin.saturating_add(elapsed.saturating_add(set)).unwrap_or(Timestamp::MAX)
    }

    /// This moment, for [`Self::since`].
    #[must_use]
    pub fn reading(&self) -> Reading {
        let steady = match self.origin {
            Some((_, started)) => started.elapsed().mul_f64(self.pace),
            None => steady(),
        };
        Reading { steady, wall: self.now() }
    }

    /// How much time may have passed since then: never less than has passed.
    #[must_use]
    pub fn since(&self, earlier: &Reading) -> Duration {
        let now = self.reading();
        let wall = Duration::try_from(now.wall.duration_since(earlier.wall)).unwrap_or_default();
        now.steady.saturating_sub(earlier.steady).max(wall)
    }

    /// Sets the time of day of a clock of the lab, as a person or a time server does. No time passes by it. The system's own clock is not
    /// ours to set.
    pub fn set_by(&self, difference: SignedDuration) {
        let millis = i64::try_from(difference.as_millis()).unwrap_or_default();
        self.set.fetch_add(millis, Ordering::Relaxed);
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

/// The time since the computer started, sleep included.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn steady() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// The time since this was first asked. Sleep is not in it; the time of day, which is looked at as well, has it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn steady() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
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

    #[tokio::test(start_paused = true)]
    async fn by_reading_5_a_clock_that_is_set_back_hides_no_time() {
        let clock = Clock::from("2026-01-01T00:00:00Z".parse().unwrap(), 2.0);
        let began = clock.reading();
        clock.sleep(Duration::from_secs(60)).await;
        clock.set_by(SignedDuration::from_hours(-1));
        assert_eq!(clock.clone().now().to_string(), "2025-12-31T23:01:00Z", "clones agree");
        assert_eq!(clock.since(&began), Duration::from_secs(60));
        // A computer that slept shows it in its time of day, if nowhere else.
        clock.set_by(SignedDuration::from_hours(3));
        assert_eq!(clock.since(&began), Duration::from_secs(60 + 2 * 3600));
    }

    #[test]
    fn by_reading_5_the_systems_own_clock_goes_forward() {
        let clock = Clock::real();
        let began = clock.reading();
        std::thread::sleep(Duration::from_millis(5));
        let passed = clock.since(&began);
        assert!(passed >= Duration::from_millis(5) && passed < Duration::from_secs(60), "{passed:?}");
    }
}
