//! Certificates: identities minted from a cluster's authorities, and what a node does with them.
//!
//! An [`Authority`] is a certificate and its key from PEM, wherever they came from: the bundle, or the configuration that a
//! node was given. It issues [`Identity`]s, which know themselves both as PEM (for files) and as DER (for rustls). Time is
//! handed in. Client certificates start five minutes in the past, because clocks differ.

mod files;
mod leaf;

use std::{fmt, net::IpAddr, time::Duration};

use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::{
    keys::{self, KeyGenerationError},
    pem,
    secret::Secret,
};
pub use files::{kubeconfig, talosconfig};
pub use leaf::Leaf;

/// The role that may do everything.
pub const ADMIN: &str = "os:admin";

/// The common name of the certificate that a node shows before it has a configuration.
pub const MAINTENANCE_NAME: &str = "maintenance-service.talos.dev";

/// How far client certificates start in the past.
const BACKDATED: Duration = Duration::from_secs(300);

/// Why a certificate could not be made or an authority not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The PEM of an authority's certificate is not a certificate.
    #[error("the authority's certificate is not a sound PEM certificate")]
    Certificate,
    /// The PEM of an authority's key is not a private key, or of an unknown kind.
    #[error("the authority's key is not a private key of a known kind")]
    Key,
    /// Certificate and key are both sound but do not belong together.
    #[error("the authority's key does not belong to its certificate")]
    Mismatch,
    /// A time lies outside of what a certificate can hold.
    #[error("the certificate's lifetime cannot be written down")]
    Lifetime,
    /// No key could be made.
    #[error("make a key for a certificate")]
    Generate(#[from] KeyGenerationError),
    /// The certificate could not be put together.
    #[error("issue a certificate for {subject}")]
    Issue {
        /// Whom the certificate was for.
        subject: String,
        /// What was wrong.
        #[source]
        source: rcgen::Error,
    },
}

/// The number (OID) of an organization's name.
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// A certificate with its key, and the certificate of the authority that issued it.
pub struct Identity {
    ca_pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    key_pem: Secret,
}

impl Identity {
    /// The issuing authority's certificate as PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The issuing authority's certificate as DER.
    #[must_use]
    pub fn ca_der(&self) -> CertificateDer<'static> {
        let der = pem::decode(&self.ca_pem).map(|block| block.der.to_vec()).unwrap_or_default();
        CertificateDer::from(der)
    }

    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    #[must_use]
    pub fn certificate_der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The key as PEM, in Talos' encoding.
    #[must_use]
    pub fn key_pem(&self) -> &Secret {
        &self.key_pem
    }

    /// The key as DER, for rustls.
    #[must_use]
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            ca_pem: self.ca_pem.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
            key_pem: self.key_pem.clone(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificate", &Leaf::read(&self.certificate))
            .finish_non_exhaustive()
    }
}

/// A certificate that may issue others, with its key.
pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
    has_key_identifier: bool,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Loads an authority from the PEM of its certificate and key, whatever the key's label.
    ///
    /// # Errors
    ///
    /// Where one of the two is not sound, or they do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, PkiError> {
        let block = pem::decode(certificate)
            .filter(|block| block.label == "CERTIFICATE")
            .ok_or(PkiError::Certificate)?;
        let (pair, _) = keys::load(key).ok_or(PkiError::Key)?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&block.der).map_err(|_| PkiError::Certificate)?;
        if parsed.public_key().subject_public_key.data.as_ref() != pair.public_key_raw() {
            return Err(PkiError::Mismatch);
        }
        let has_key_identifier = parsed
            .extensions()
            .iter()
            .any(|extension| extension.oid == x509_parser::oid_registry::OID_X509_EXT_SUBJECT_KEY_IDENTIFIER);
        let der = CertificateDer::from(block.der.to_vec());
        let issuer = Issuer::from_ca_cert_der(&der, pair).map_err(|_| PkiError::Certificate)?;
        Ok(Self { certificate_pem: certificate.to_owned(), issuer, has_key_identifier })
    }

    /// A new Ed25519 authority without a name, as a node makes it at boot for the certificate it shows in maintenance.
    ///
    /// # Errors
    ///
    /// Where no key can be made or `now` cannot be written down.
    pub fn ephemeral(now: Timestamp) -> Result<Self, PkiError> {
        let key = keys::ed25519()?;
        let certificate = self_signed(None, &key, Duration::from_secs(24 * 3600), now)?;
        Self::from_pem(&certificate, key.expose())
    }

    /// The authority's certificate as PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Issues a server certificate from `now` on. Each name that is an address becomes one in the certificate.
    ///
    /// # Errors
    ///
    /// Where a name cannot stand in a certificate, or no key can be made.
    pub fn issue_server(
        &self,
        common_name: &str,
        names: &[String],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            let san = match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(
                    name.as_str()
                        .try_into()
                        .map_err(|source| PkiError::Issue { subject: name.clone(), source })?,
                ),
            };
            params.subject_alt_names.push(san);
        }
        self.issue(params, common_name, lifetime, now)
    }

    /// Issues a client certificate from `now` on, whose organization is a role (Talos) or a group (Kubernetes).
    ///
    /// # Errors
    ///
    /// Where no key can be made or the times cannot be written down.
    pub fn issue_client(
        &self,
        common_name: Option<&str>,
        organization: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        self.issue_client_of_two(common_name, (organization, None), lifetime, now)
    }

    /// The same, with a second role or group beside the first.
    ///
    /// # Errors
    ///
    /// As [`Self::issue_client`].
    pub fn issue_client_of_two(
        &self,
        common_name: Option<&str>,
        (organization, second): (&str, Option<&str>),
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        if let Some(second) = second {
            // Of each kind of name there is one; the same kind by its number is another.
            params.distinguished_name.push(DnType::CustomDnType(ORGANIZATION.to_vec()), second);
        }
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Exactly this one: Talos refuses a certificate that may also serve.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, common_name.unwrap_or(organization), lifetime, now)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        subject: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let key_pem = if self.issuer.key().is_compatible(&rcgen::PKCS_ED25519) {
            keys::ed25519()?
        } else {
            keys::p256()?
        };
        let (pair, key) = keys::load(key_pem.expose()).ok_or(PkiError::Key)?;
        (params.not_before, params.not_after) = span(lifetime, now)?;
        params.serial_number = Some(serial()?);
        params.use_authority_key_identifier_extension = self.has_key_identifier;
        let certificate = params
            .signed_by(&pair, &self.issuer)
            .map_err(|source| PkiError::Issue { subject: subject.to_owned(), source })?;
        Ok(Identity { ca_pem: self.certificate_pem.clone(), certificate: certificate.into(), key, key_pem })
    }

    /// Issues an identity for a client whose clock may be behind.
    pub(crate) fn issue_for_client(
        &self,
        name: Option<&str>,
        organization: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        self.issue_client(name, organization, lifetime + BACKDATED, backdated(now)?)
    }
}

/// The self-signed certificate of an authority, as PEM.
pub(crate) fn self_signed(
    organization: Option<&str>,
    key: &Secret,
    lifetime: Duration,
    now: Timestamp,
) -> Result<String, PkiError> {
    let (pair, _) = keys::load(key.expose()).ok_or(PkiError::Key)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(organization) = organization {
        // As Go writes it: a server that names its authorities compares bytes, and every Talos has an authority of this name.
        let printable = organization.try_into().map(rcgen::DnValue::PrintableString);
        let name = printable.unwrap_or_else(|_| rcgen::DnValue::from(organization));
        params.distinguished_name.push(DnType::OrganizationName, name);
    }
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    // On an authority too, as Talos does it.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = span(lifetime, now)?;
    params.serial_number = Some(serial()?);
    let certificate = params.self_signed(&pair).map_err(|source| PkiError::Issue {
        subject: organization.unwrap_or("an authority").to_owned(),
        source,
    })?;
    Ok(pem::encode("CERTIFICATE", certificate.der()))
}

fn serial() -> Result<rcgen::SerialNumber, PkiError> {
    let mut bytes = keys::random::<16>()?;
    bytes[0] = (bytes[0] & 0x7f) | 1; // positive, and of full length
    Ok(rcgen::SerialNumber::from_slice(bytes.as_slice()))
}

fn backdated(now: Timestamp) -> Result<Timestamp, PkiError> {
    now.checked_sub(BACKDATED).map_err(|_| PkiError::Lifetime)
}

fn span(lifetime: Duration, now: Timestamp) -> Result<(OffsetDateTime, OffsetDateTime), PkiError> {
    let begin = OffsetDateTime::from_unix_timestamp(now.as_second()).map_err(|_| PkiError::Lifetime)?;
    let lifetime = time::Duration::try_from(lifetime).map_err(|_| PkiError::Lifetime)?;
    Ok((begin, begin.checked_add(lifetime).ok_or(PkiError::Lifetime)?))
}

#[cfg(test)]
mod tests;
