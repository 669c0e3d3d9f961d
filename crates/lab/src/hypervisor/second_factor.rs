//! One-time codes that a login needs beside its password (RFC 6238: SHA-1, six digits, thirty seconds).

use jiff::Timestamp;
use sha1::{Digest, Sha1};

const STEP_SECONDS: i64 = 30;
const BLOCK: usize = 64;

/// The code of a moment, for a key in base32.
#[must_use]
pub fn one_time_code(key: &str, now: Timestamp) -> String {
    code(&decode(key), now.as_second().div_euclid(STEP_SECONDS))
}

/// Whether a code is right now, or was or will be within one step.
pub(crate) fn is_code(key: &str, given: &str, now: Timestamp) -> bool {
    let (key, step) = (decode(key), now.as_second().div_euclid(STEP_SECONDS));
    (step - 1..=step + 1).any(|step| code(&key, step) == given)
}

fn code(key: &[u8], step: i64) -> String {
    let mac = hmac(key, &step.to_be_bytes());
    let offset = usize::from(mac[mac.len() - 1] & 0xf);
    let number = mac[offset..offset + 4].iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
    format!("{:06}", (number & 0x7fff_ffff) % 1_000_000)
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut block = [0; BLOCK];
    let key: Vec<u8> = if key.len() > BLOCK { Sha1::digest(key).to_vec() } else { key.to_vec() };
    block[..key.len()].copy_from_slice(&key);
    let inner = Sha1::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha1::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

/// Base32 without padding; letters that are none of its alphabet are passed over.
fn decode(text: &str) -> Vec<u8> {
    let mut bytes = vec![];
    let (mut held, mut bits) = (0_u32, 0);
    for letter in text.bytes() {
        let value = match letter.to_ascii_uppercase() {
            letter @ b'A'..=b'Z' => letter - b'A',
            digit @ b'2'..=b'7' => digit - b'2' + 26,
            _ => continue,
        };
        held = (held << 5 | u32::from(value)) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap_or_default());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 6238, appendix B: the key is the text 12345678901234567890.
        let key = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
        for (second, wanted) in [(59, "287082"), (1_111_111_109, "081804"), (2_000_000_000, "279037")] {
            let now = Timestamp::from_second(second).unwrap();
            assert_eq!(one_time_code(key, now), wanted);
            assert!(is_code(key, wanted, now) && !is_code(key, "000000", now));
        }
    }
}
