//! Texts that no one meant: property strings, answers and UPIDs, mutated from real ones. Nothing may panic.
//!
//! Each runs for a fifth of a second, or for as many seconds as `FUZZ_SECONDS` says. A failure prints the input.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use hyper::ext::ReasonPhrase;
use serde_json::Value;

use crate::client::decode;
use crate::{PropertyString, Resource, Upid};

/// A small generator of numbers; the seed is fixed, so that a failure comes back.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

/// Takes a text, cuts, doubles, swaps and spoils parts of it.
fn spoil(text: &str, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, b",=:{}[]\"\\\0\xff%01"[dice.below(14)]),
            2 => drop(bytes.splice(at..at, text.bytes().take(dice.below(40))).collect::<Vec<_>>()),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            _ => {}
        }
    }
    bytes
}

#[expect(clippy::disallowed_methods, reason = "how long a test runs is real time")]
fn fuzz(seeds: &[&str], check: impl Fn(&[u8])) {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.2);
    let (began, mut dice, mut runs) = (Instant::now(), Dice(0x5eed), 0_u64);
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        let input = spoil(seeds[dice.below(seeds.len())], &mut dice);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&input))).is_err() {
            panic!("after {runs} runs: {:?}", String::from_utf8_lossy(&input));
        }
        runs += 1;
    }
    println!("{runs} inputs");
}

#[test]
fn fuzz_property_strings() {
    let seeds = [
        "local-lvm:vm-100-disk-0,discard=on,iothread=1,size=20G,ssd=1",
        "virtio=BC:24:11:A8:49:93,bridge=vmbr0,firewall=1,tag=42",
        "uuid=722ab170-0000-4000-8000-000000000000,serial=ZHM9bm9jbG91ZC1uZXQ=,base64=1",
        "order=scsi0;ide2;net0",
    ];
    fuzz(&seeds, |input| {
        let text = String::from_utf8_lossy(input);
        let parsed = PropertyString::from(text.as_ref());
        // What was read and written again is read as the same.
        let again = PropertyString::from(parsed.to_string().as_str());
        assert_eq!(again.to_string(), parsed.to_string());
        let _ = (parsed.first(), parsed.get("size"), parsed.pairs().count());
    });
}

#[test]
fn fuzz_upids() {
    let seeds = [
        "UPID:pve1:0000013C:0005D8F3:6AFA15BC:qmcreate:200:root@pam!lab:",
        "UPID:pve-2:0000013C:005D8F3AA:6AFA15BC:imgcopy::lab@pve!full:",
    ];
    fuzz(&seeds, |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(upid) = text.parse::<Upid>() {
            assert_eq!(upid.to_string().parse::<Upid>().map(|again| again.to_string()), Ok(upid.to_string()));
        }
    });
}

#[test]
fn fuzz_answers() {
    let seeds = [
        r#"{"data":[{"vmid":"100","type":"qemu","id":"qemu/100","tags":"a;b","maxmem":335544320,"template":1}]}"#,
        r#"{"data":null,"message":"Permission check failed (/vms/100, VM.Audit|VM.Config)\n"}"#,
        r#"{"data":null,"errors":{"net0":"invalid format - format error\nnet0.model: property is missing"},"message":"x\n"}"#,
        r#"{"data":null,"message":"unable to create VM 100 - cfs-lock 'storage-ceph' error: got lock request timeout\n"}"#,
    ];
    fuzz(&seeds, |input| {
        let status =
            [200, 400, 401, 403, 500, 501, 595, 596][input.first().copied().unwrap_or(0) as usize % 8];
        let mut response = Response::builder().status(status).body(Bytes::copy_from_slice(input)).unwrap();
        if let Ok(reason) = ReasonPhrase::try_from(input.iter().copied().take(60).collect::<Vec<u8>>()) {
            response.extensions_mut().insert(reason);
        }
        let _ = (decode::<Value>(&response), decode::<Vec<Resource>>(&response));
    });
}
