//! Making a new bundle.
//!
//! Blocking, and slow by one RSA key: run it where blocking is allowed. All of it is plain data, so it can be moved to
//! another thread.

use std::time::Duration;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use jiff::Timestamp;

use super::{Bundle, BundleError, EtcdEncryption, KeyPair};
use crate::{
    contract::Contract,
    keys::{self, KeyGenerationError},
    pki,
    secret::Secret,
};

/// Ten years of 365 days, as Talos gives its authorities.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(87_600 * 3600);

impl Bundle {
    /// Makes a new bundle in the form of a contract. This blocks for seconds.
    ///
    /// # Errors
    ///
    /// Where the crypto library fails or `now` cannot stand in a certificate.
    pub fn generate(contract: Contract, now: Timestamp) -> Result<Self, BundleError> {
        Self::made(contract, now, keys::rsa4096)
    }

    /// A bundle to check a configuration with before there is a real one. Its service account key is of a small kind, so
    /// it is made at once; no cluster should ever run with it.
    ///
    /// # Errors
    ///
    /// Where the crypto library fails or `now` cannot stand in a certificate.
    pub fn placeholder(contract: Contract, now: Timestamp) -> Result<Self, BundleError> {
        Self::made(contract, now, keys::p256)
    }

    fn made(
        contract: Contract,
        now: Timestamp,
        service_account: fn() -> Result<Secret, KeyGenerationError>,
    ) -> Result<Self, BundleError> {
        let making = |what| move |source| BundleError::Generate { what, source };
        let id = keys::random::<32>().map_err(making("cluster id"))?;
        Ok(Self {
            // Only a name, but the alphabet changed with 1.14, whose own tools expect the new one.
            cluster_id: if contract.kubernetes_documents() {
                STANDARD.encode(*id)
            } else {
                URL_SAFE.encode(*id)
            },
            cluster_secret: key32().map_err(making("cluster secret"))?,
            bootstrap_token: token().map_err(making("bootstrap token"))?,
            etcd_encryption: EtcdEncryption::Secretbox(key32().map_err(making("etcd encryption key"))?),
            machine_token: token().map_err(making("machine token"))?,
            etcd: authority("etcd", Some("etcd"), keys::p256, now)?,
            kubernetes: authority("Kubernetes", Some("kubernetes"), keys::p256, now)?,
            // Talos leaves this one without a name.
            aggregator: authority("aggregator", None, keys::p256, now)?,
            service_account: service_account().map_err(making("service account key"))?,
            os: authority("Talos API", Some("talos"), keys::ed25519, now)?,
        })
    }
}

fn authority(
    what: &'static str,
    organization: Option<&str>,
    make_key: fn() -> Result<Secret, KeyGenerationError>,
    now: Timestamp,
) -> Result<KeyPair, BundleError> {
    let key = make_key().map_err(|source| BundleError::Generate { what, source })?;
    let certificate = pki::self_signed(organization, &key, AUTHORITY_LIFETIME, now)
        .map_err(|source| BundleError::Certificate { what, source })?;
    Ok(KeyPair { certificate, key })
}

fn key32() -> Result<Secret, KeyGenerationError> {
    Ok(STANDARD.encode(*keys::random::<32>()?).into())
}

/// Six and sixteen characters around a dot, each of 36 with equal chance.
fn token() -> Result<Secret, KeyGenerationError> {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(23);
    while text.len() < 23 {
        for byte in keys::random::<32>()?.iter().filter(|byte| **byte < 252).take(23 - text.len()) {
            if text.len() == 6 {
                text.push('.');
            }
            if text.len() < 23 {
                text.push(char::from(ALPHABET[usize::from(byte % 36)]));
            }
        }
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Leaf;

    #[test]
    fn tokens_have_the_form_that_kubelet_wants() {
        for _ in 0..100 {
            let token = token().unwrap();
            let (id, secret) = token.expose().split_once('.').unwrap();
            assert_eq!((id.len(), secret.len()), (6, 16));
            assert!(token.expose().chars().all(|c| c == '.' || c.is_ascii_digit() || c.is_ascii_lowercase()));
        }
    }

    #[test]
    fn the_alphabet_of_cluster_ids_changed_with_1_14() {
        let now: Timestamp = "2026-09-01T12:00:00Z".parse().unwrap();
        for (contract, alphabet, marks) in
            [("v1.13", &URL_SAFE, ['-', '_']), ("v1.14", &STANDARD, ['+', '/'])]
        {
            let contract = Contract::parse(contract).unwrap();
            let ids: Vec<String> = (0..16)
                .map(|_| Bundle::placeholder(contract, now).unwrap().cluster_id().to_owned())
                .collect();
            assert!(ids.iter().all(|id| alphabet.decode(id).is_ok_and(|bytes| bytes.len() == 32)), "{ids:?}");
            // Of sixteen ids one without any of these is rarer than a fault of the machine.
            assert!(ids.iter().any(|id| id.contains(marks)), "{ids:?}");
        }
    }

    #[test]
    fn a_new_bundle_survives_its_own_file() {
        let now: Timestamp = "2026-09-01T12:00:00Z".parse().unwrap();
        let bundle = Bundle::generate(Contract::parse("v1.13").unwrap(), now).unwrap();
        let text = bundle.to_yaml();
        let again = Bundle::parse(&text).unwrap();
        assert_eq!(again.to_yaml(), text);
        assert!(bundle.service_account.expose().starts_with("-----BEGIN RSA PRIVATE KEY-----"));
        assert_eq!(format!("{bundle:?}"), format!("Bundle {{ cluster_id: {:?}, .. }}", bundle.cluster_id()));
        for (pair, organization) in
            [(&bundle.os, &["talos"][..]), (&bundle.kubernetes, &["kubernetes"]), (&bundle.aggregator, &[])]
        {
            let der = crate::pem::decode(&pair.certificate).unwrap().der;
            let leaf = Leaf::read(&der).unwrap();
            assert_eq!(leaf.organizations, organization);
            assert_eq!((leaf.not_after.as_second() - now.as_second()) / 3600, 87_600);
            assert_eq!(leaf.not_before, now);
            let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
            parsed.verify_signature(None).unwrap();
            let constraints = parsed.basic_constraints().unwrap().unwrap();
            assert!(
                constraints.critical
                    && constraints.value.ca
                    && constraints.value.path_len_constraint.is_none()
            );
            let usage = parsed.key_usage().unwrap().unwrap();
            assert!(usage.critical && usage.value.key_cert_sign() && usage.value.digital_signature());
            let extended = parsed.extended_key_usage().unwrap().unwrap().value;
            assert!(extended.server_auth && extended.client_auth);
            // Key usage, extended key usage, basic constraints, subject key identifier; no other.
            assert_eq!(parsed.extensions().len(), 4);
        }
    }
}
