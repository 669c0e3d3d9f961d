//! Private keys in the encodings that Talos writes, made and loaded.
//!
//! Ed25519 is PKCS#8 version 1 under a label of Talos' own, ECDSA P-256 is SEC1 and RSA is PKCS#1. Keys from elsewhere may
//! also be PKCS#8 under the usual label. Everything is loaded for signing, which proves that the key is sound.

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der};
use rcgen::KeyPair;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use zeroize::Zeroizing;

use crate::{pem, secret::Secret};

const ED25519: &str = "ED25519 PRIVATE KEY";
const EC: &str = "EC PRIVATE KEY";
const RSA: &str = "RSA PRIVATE KEY";
const PKCS8: &str = "PRIVATE KEY";

/// The 16 bytes before the seed of an Ed25519 key in PKCS#8 version 1.
const ED25519_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The system's source of randomness or the crypto library failed; there is nothing more to know about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the crypto library could not create a key")]
pub struct KeyGenerationError;

impl From<aws_lc_rs::error::Unspecified> for KeyGenerationError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self
    }
}

/// Bytes that cannot be guessed.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, KeyGenerationError> {
    let mut bytes = Zeroizing::new([0; N]);
    aws_lc_rs::rand::fill(bytes.as_mut_slice())?;
    Ok(bytes)
}

/// A new Ed25519 key as PEM.
pub(crate) fn ed25519() -> Result<Secret, KeyGenerationError> {
    let seed = random::<32>()?;
    let der = Zeroizing::new([ED25519_PREFIX.as_slice(), seed.as_slice()].concat());
    Ok(pem::encode(ED25519, &der).into())
}

/// A new ECDSA P-256 key as PEM.
pub(crate) fn p256() -> Result<Secret, KeyGenerationError> {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
    let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der()?;
    Ok(pem::encode(EC, der.as_ref()).into())
}

/// A new RSA-4096 key as PEM. This takes seconds.
pub(crate) fn rsa4096() -> Result<Secret, KeyGenerationError> {
    use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
    let der: Pkcs8V1Der<'_> = RsaKeyPair::generate(KeySize::Rsa4096)?.as_der()?;
    // PKCS#8 wraps PKCS#1 in an octet string that ends it; with 4096 bits every length before it takes two bytes.
    const HEADER: usize = 26;
    match der.as_ref().split_at_checked(HEADER) {
        Some((header, pkcs1)) if header.ends_with(&length_header(pkcs1.len())) => {
            Ok(pem::encode(RSA, pkcs1).into())
        }
        _ => Err(KeyGenerationError),
    }
}

/// Tag and length of an octet string of two length bytes.
fn length_header(length: usize) -> [u8; 4] {
    let [high, low] = u16::try_from(length).unwrap_or(0).to_be_bytes();
    [0x04, 0x82, high, low]
}

/// A private key from PEM, ready to sign, with the form that rustls takes.
pub(crate) fn load(text: &str) -> Option<(KeyPair, PrivateKeyDer<'static>)> {
    let block = pem::decode(text)?;
    let der = block.der.to_vec();
    let (der, algorithms): (PrivateKeyDer<'static>, &[&rcgen::SignatureAlgorithm]) =
        match block.label.as_str() {
            ED25519 => (PrivatePkcs8KeyDer::from(der).into(), &[&rcgen::PKCS_ED25519]),
            EC => (
                PrivateSec1KeyDer::from(der).into(),
                &[&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384],
            ),
            RSA => (PrivatePkcs1KeyDer::from(der).into(), &[&rcgen::PKCS_RSA_SHA256]),
            PKCS8 => (
                PrivatePkcs8KeyDer::from(der).into(),
                &[
                    &rcgen::PKCS_ED25519,
                    &rcgen::PKCS_ECDSA_P256_SHA256,
                    &rcgen::PKCS_ECDSA_P384_SHA384,
                    &rcgen::PKCS_RSA_SHA256,
                ],
            ),
            _ => return None,
        };
    let pair =
        algorithms.iter().find_map(|algorithm| KeyPair::from_der_and_sign_algo(&der, algorithm).ok())?;
    Some((pair, der))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_have_the_encodings_that_talos_writes() {
        let ed25519 = ed25519().unwrap();
        let block = pem::decode(ed25519.expose()).unwrap();
        assert_eq!((block.label.as_str(), block.der.len()), (ED25519, 48));
        let p256 = p256().unwrap();
        // The same first bytes as a key that Talos wrote: a SEC1 sequence of 119 bytes with curve and public key.
        assert!(p256.expose().starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI"));
        assert_eq!(load(ed25519.expose()).unwrap().0.algorithm(), &rcgen::PKCS_ED25519);
        assert_eq!(load(p256.expose()).unwrap().0.algorithm(), &rcgen::PKCS_ECDSA_P256_SHA256);
    }

    #[test]
    fn a_new_rsa_key_is_pkcs1_and_loads() {
        let rsa = rsa4096().unwrap();
        assert!(rsa.expose().starts_with("-----BEGIN RSA PRIVATE KEY-----\nMII"));
        assert_eq!(load(rsa.expose()).unwrap().0.algorithm(), &rcgen::PKCS_RSA_SHA256);
        // The key and its parts, nine half as long as the number itself, and a few bytes around each.
        let length = pem::decode(rsa.expose()).unwrap().der.len();
        assert!((2340..=2360).contains(&length), "{length} bytes are not 4096 bits");
    }

    #[test]
    fn a_broken_or_foreign_key_does_not_load() {
        assert!(load(&pem::encode(ED25519, &[1, 2, 3])).is_none());
        assert!(load(&pem::encode("CERTIFICATE", &[1, 2, 3])).is_none());
        assert!(load("no key").is_none());
    }
}
