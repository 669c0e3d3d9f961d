//! Two operators on a line of time: whatever fails, their changing calls do not overlap.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1000;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

#[test]
fn a7_the_holder_has_stopped_before_its_successor_starts() {
    assert!(SUCCESSOR_WAITS > HOLDER_STOPS + LONGEST_CALL);
    assert_eq!(hold(None), Hold::GivenUp, "an operator that never held it changes nothing");
    assert_eq!(hold(Some(Duration::ZERO)), Hold::Valid);
    assert_eq!(hold(Some(HOLDER_STOPS - Duration::from_millis(1))), Hold::Valid);
    assert_eq!(hold(Some(HOLDER_STOPS)), Hold::Paused);
    assert_eq!(hold(Some(HOLDER_GIVES_UP)), Hold::GivenUp);
    // A holder of an earlier release goes on for five minutes.
    assert!(successor_waits(None) > Duration::from_secs(300) + LONGEST_CALL);
}

#[test]
fn t4_a_lease_that_is_found_late_is_taken_only_when_it_was_never_had() {
    use LateHolder::{Free, Other, Ours};
    for (exists, holder, wanted) in [
        (false, Free, Late::Take),
        (true, Ours, Late::Take),
        (true, Other, Late::Busy),
        (true, Free, Late::Stale),
    ] {
        assert_eq!(late(LateFind { exists, holder }), wanted, "{exists} {holder:?}");
    }
}

/// A holder that renews, loses its way to the lease for a while, and is stopped for a while (its own clock goes on); it makes a
/// call whenever it may. A successor that takes the lease at some moment. Both keep to this module and nothing else.
struct Line {
    /// When renewals of the holder arrive: not while it is cut off.
    cut: (u64, u64),
    /// When it does not run at all.
    stopped: (u64, u64),
    /// When the successor writes its name into the lease.
    taken: u64,
    /// How long each call takes to have its effect.
    call: u64,
}

impl Line {
    fn is_cut(&self, at: u64) -> bool {
        (self.cut.0..self.cut.1).contains(&at)
    }

    fn runs(&self, at: u64) -> bool {
        !(self.stopped.0..self.stopped.1).contains(&at)
    }

    /// When the last changing call of the holder has its effect.
    fn last_effect(&self) -> u64 {
        let (mut renewed, mut next, mut last) = (0, millis(RENEW_EVERY), 0);
        for at in (0..20 * 60 * SECOND).step_by(500) {
            if !self.runs(at) {
                continue;
            }
            let since = |renewed: u64| Some(Duration::from_millis(at - renewed));
            if at >= next || hold(since(renewed)) != Hold::Valid {
                next = at + millis(RENEW_EVERY);
                if !self.is_cut(at) {
                    if at >= self.taken {
                        return last;
                    }
                    renewed = at;
                }
            }
            match hold(since(renewed)) {
                Hold::Valid => last = at + self.call,
                Hold::Paused => {}
                Hold::GivenUp => return last,
            }
        }
        last
    }
}

proptest! {
    #[test]
    fn a7_by_reading_5_calls_of_two_operators_never_overlap(
        cut in 0..600u64, cut_for in 0..900u64,
        stopped in 0..600u64, stopped_for in 0..900u64,
        taken in 0..900u64, call in 0..=75u64,
    ) {
        let line = Line {
            cut: (cut * SECOND, (cut + cut_for) * SECOND),
            stopped: (stopped * SECOND, (stopped + stopped_for) * SECOND),
            taken: taken * SECOND,
            call: call * SECOND,
        };
        let starts = line.taken + millis(SUCCESSOR_WAITS);
        prop_assert!(line.last_effect() < starts, "the last call has its effect at {}, the successor starts at {starts}", line.last_effect());
    }
}

#[test]
fn leftover_4_a_holder_that_waits_itself_may_not_be_the_last_at_work() {
    let (none, long, short) = (None, Some(Duration::from_secs(390)), Some(Duration::from_secs(10)));
    let stops = Some(HOLDER_STOPS);
    assert_eq!(takeover_waits(stops, none), SUCCESSOR_WAITS);
    assert_eq!(takeover_waits(stops, short), SUCCESSOR_WAITS, "never shorter");
    assert_eq!(Some(takeover_waits(stops, long)), long);
    assert_eq!(takeover_waits(none, short), successor_waits(None));
}
