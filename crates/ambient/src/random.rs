//! Chance, handed in like the time: the system's, or a sequence that one seed decides.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where identifiers that no other run has come from. Clones of one with a seed go on in the same sequence.
#[derive(Debug, Clone)]
pub struct Random(Option<Arc<AtomicU64>>);

impl Random {
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// A sequence that `seed` decides: for the lab, where two worlds with one seed are equal.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(seed))))
    }

    /// A new identifier: 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        let bytes: [u8; 16] = match &self.0 {
            None => rand::random(),
            Some(state) => (u128::from(next(state)) << 64 | u128::from(next(state))).to_be_bytes(),
        };
        bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
            // Writing into a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// The next number of the sequence `SplitMix64`.
fn next(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let at = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    let mixed = (at ^ (at >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_sequence_and_the_system_has_none() {
        let (one, same, other) = (Random::seeded(1), Random::seeded(1), Random::seeded(2));
        let ids = [one.id(), one.clone().id()];
        assert_eq!(ids, [same.id(), same.id()]);
        assert_ne!(ids[0], ids[1]);
        assert_ne!(ids[0], other.id());
        assert_ne!(Random::system().id(), Random::system().id());
        assert_eq!(ids[0].len(), 32);
    }
}
