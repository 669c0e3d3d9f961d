//! Chance from a seed: a counter run through splitmix64, so that its whole state is one number in the saved world.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A seeded source of numbers. The same seed and the same questions give the same answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng(u64);

impl Rng {
    /// A source that starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, not including, `limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64().checked_rem(limit).unwrap_or(0)
    }

    /// A random (version 4) UUID.
    pub fn uuid(&mut self) -> String {
        let bytes = (u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .as_hyphenated()
            .encode_lower(&mut Uuid::encode_buffer())
            .to_owned()
    }

    /// `duration`, longer or shorter by at most five percent.
    pub fn around(&mut self, duration: Duration) -> Duration {
        let permille = 950 + self.below(101);
        Duration::from_micros(
            u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).saturating_mul(permille) / 1000,
        )
    }
}
