//! Lets the time of a paused runtime run at a pace, but never while there is work to do.
//!
//! In the lab everything is one program: who asks and who answers share one processor. On a clock that runs thirty times as fast
//! as real time, a machine that is busy with something else for a quarter of a second would have let a question of seven seconds go
//! unanswered, and that failure would have no cause. So the runtime's own time stands still (`start_paused`), and is moved on
//! from here, in small steps, each only when the runtime was found asleep: then everybody waits for time to pass and for nothing
//! else.

#![expect(clippy::disallowed_methods, reason = "this is what makes the lab's time pass")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One step, in real time.
const STEP: Duration = Duration::from_millis(2);
/// More is never made up for at once: a program that was stopped for an hour has not missed an hour.
const MOST: Duration = Duration::from_millis(20);

/// Whether a runtime sleeps.
#[derive(Debug, Clone, Default)]
pub struct Asleep(Arc<AtomicBool>);

impl Asleep {
    /// Watches the runtime that `builder` makes. It must be one of a single thread.
    #[must_use]
    pub fn watch(builder: &mut tokio::runtime::Builder) -> Self {
        let asleep = Self::default();
        let (falls, wakes) = (asleep.clone(), asleep.clone());
        builder
            .on_thread_park(move || falls.0.store(true, Ordering::Release))
            .on_thread_unpark(move || wakes.0.store(false, Ordering::Release));
        asleep
    }

    /// Moves the paused runtime's time on, `times` as fast as real time, for as long as it is polled.
    ///
    /// While this is awaited, tokio does not jump to the next timer by itself: it never does while something blocks elsewhere.
    pub async fn pace(&self, times: f64) -> Infallible {
        let mut last = Instant::now();
        loop {
            let asleep = self.clone();
            let waited = tokio::task::spawn_blocking(move || {
                std::thread::sleep(STEP);
                asleep.0.load(Ordering::Acquire)
            });
            let nothing_to_do = waited.await.unwrap_or(false);
            let passed = last.elapsed().min(MOST);
            last = Instant::now();
            if nothing_to_do {
                tokio::time::advance(passed.mul_f64(times)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_paced<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let asleep = Asleep::watch(&mut builder);
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                never = asleep.pace(100.0) => match never {},
            }
        })
    }

    #[test]
    fn time_passes_at_its_pace_while_everybody_waits() {
        let (began, paced) = (Instant::now(), tokio::time::Instant::now);
        let passed = in_paced(async {
            let before = paced();
            tokio::time::sleep(Duration::from_secs(5)).await;
            before.elapsed()
        });
        assert!(passed >= Duration::from_secs(5) && passed < Duration::from_secs(8), "{passed:?}");
        assert!(began.elapsed() >= Duration::from_millis(45), "it did not jump");
    }

    #[test]
    fn no_time_passes_while_there_is_work() {
        let answered = in_paced(async {
            // 200 ms of work would be 20 s at this pace.
            let work = async {
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(10));
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(5), work).await
        });
        assert!(answered.is_ok());
    }
}
