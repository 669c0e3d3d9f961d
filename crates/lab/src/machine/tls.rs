//! The certificates that a machine shows, and whom it lets in.
//!
//! In maintenance: a leaf of an unknown authority, with a key that lasts until the next
//! certificate is issued, for any client.
//! Configured: a leaf of the authority in the configuration, for clients of that authority and of the accepted ones
//! (`machine.acceptedCAs`) whose certificate is for clients only. Kubernetes: a leaf of the cluster's authority; a client may come without a certificate or with a wrong
//! one, which is then an answer and not a broken handshake.
//!
//! Leaves live for a day and are renewed after half of it, as real ones. Those that are shown to another program are valid
//! for decades: it goes by another clock than the lab's. Client certificates are judged by the lab's.

use std::sync::Arc;
use std::time::Duration;

use ambient::Clock;
use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName as Name, RootCertStore, ServerConfig,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use sha2::Digest as _;
use talos::pki::{Authority, Leaf, MAINTENANCE_NAME};

use super::node::{Machine, Node};
use super::settings::Issuer;
use super::{Kind, Machines};

/// What precedes the 32 bytes of an Ed25519 key in PKCS#8.
const ED25519: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// First moment of validity: 2000-01-01.
const LONG_AGO: i64 = 946_684_800;
/// Some ninety years.
const LONG: Duration = Duration::from_secs(90 * 365 * 24 * 3600);
/// How long Talos' own certificates live.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// After how many seconds they are made again.
const RENEWED: i64 = 12 * 3600;

/// Who looks at a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// Someone who goes by the lab's clock.
    Lab,
    /// Another program, whose clock is another.
    Outside,
}

/// Since when, and for how long, a leaf is valid that was first made at `since`.
fn validity(judge: Judge, since: Timestamp, now: Timestamp) -> (Timestamp, Duration) {
    match judge {
        Judge::Outside => (Timestamp::from_second(LONG_AGO).unwrap_or(Timestamp::UNIX_EPOCH), LONG),
        Judge::Lab => {
            let renewals = now.duration_since(since).as_secs().max(0) / RENEWED;
            let made = since.as_second() + renewals * RENEWED;
            (Timestamp::from_second(made).unwrap_or(since), DAY)
        }
    }
}

/// The server side of TLS for one port of one machine, and for Kubernetes whom to believe. `None` when what the
/// configuration carries is no sound authority, or the machine is not what it was.
pub(crate) fn server(
    machines: &Machines,
    vmid: u32,
    kind: Kind,
    clock: Clock,
    judge: Judge,
    relayed: bool,
) -> Option<Arc<ServerConfig>> {
    let machine = machines.get(vmid)?;
    let ahead = SignedDuration::from_secs(machines.clock_error(vmid));
    let by_its_clock = |at: Timestamp| at.checked_add(ahead).unwrap_or(at);
    let now = by_its_clock(clock.now());
    let since = machine.network_since().map_or(now, by_its_clock);
    let valid = validity(judge, since.min(now), now);
    let clock = Wrong { clock, ahead };
    let mut config = match kind {
        Kind::Maintenance => {
            let (chain, key) = maintenance_leaf(machine, maintenance_key(relayed), valid)?;
            builder(clock)?.with_no_client_auth().with_single_cert(vec![chain], key).ok()?
        }
        Kind::Api => {
            let node = machine.node()?;
            let issuer = node.issuer.as_ref()?;
            let (chain, key) =
                leaf(issuer, machine.hostname(), &api_names(machines, vmid, machine, node), valid)?;
            let trusted = verifier(&node.settings.client_cas())?;
            builder(clock)?
                .with_client_cert_verifier(Arc::new(ClientsOnly(trusted)))
                .with_single_cert(vec![chain], key)
                .ok()?
        }
        Kind::Trustd => {
            let node = machine.node()?;
            let names = api_names(machines, vmid, machine, node);
            let (chain, key) = leaf(&node.settings.talos_ca, machine.hostname(), &names, valid)?;
            builder(clock)?.with_no_client_auth().with_single_cert(vec![chain], key).ok()?
        }
        Kind::Kubernetes => {
            let node = machine.node()?;
            let (chain, key) = leaf(
                &node.settings.cluster_ca,
                "kube-apiserver",
                &kubernetes_names(machines, vmid, machine, node),
                match judge {
                    Judge::Outside => valid,
                    // The API server's own lives for a year.
                    Judge::Lab => (valid.0, DAY * 365),
                },
            )?;
            let trusted = verifier(&node.settings.cluster_ca.crt)?;
            builder_for(clock, machine.profile().kubernetes_tls())?
                .with_client_cert_verifier(Arc::new(Anyone(trusted)))
                .with_single_cert(vec![chain], key)
                .ok()?
        }
    };
    config.alpn_protocols = match kind {
        Kind::Kubernetes => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Kind::Maintenance | Kind::Api | Kind::Trustd => vec![b"h2".to_vec()],
    };
    Some(Arc::new(config))
}

/// Whether `certificate` is a client's of the authority `ca`, now.
pub(crate) fn is_client_of(ca: &str, certificate: &CertificateDer<'_>, now: Timestamp) -> bool {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0)));
    verifier(ca).is_some_and(|v| v.verify_client_cert(certificate, &[], now).is_ok())
}

/// A machine's clock, which need not be right.
#[derive(Debug)]
struct Wrong {
    clock: Clock,
    ahead: SignedDuration,
}

impl rustls::time_provider::TimeProvider for Wrong {
    fn current_time(&self) -> Option<UnixTime> {
        let now = self.clock.now().checked_add(self.ahead).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).ok()?)))
    }
}

type Builder = rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>;

fn builder(clock: Wrong) -> Option<Builder> {
    builder_for(clock, rustls::DEFAULT_VERSIONS)
}

fn builder_for(clock: Wrong, versions: &[&'static rustls::SupportedProtocolVersion]) -> Option<Builder> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_details(provider, Arc::new(clock)).with_protocol_versions(versions).ok()
}

fn verifier(ca: &str) -> Option<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()).flatten() {
        roots.add(certificate).ok()?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()
}

type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn leaf(
    issuer: &Issuer,
    common_name: &str,
    names: &[String],
    (since, lifetime): (Timestamp, Duration),
) -> Option<Pair> {
    let authority = Authority::from_pem(&issuer.crt, issuer.key.as_deref()?).ok()?;
    let identity = authority.issue_server(common_name, names, lifetime, since).ok()?;
    Some((identity.certificate_der().clone(), identity.key_der()))
}

/// Signs what a worker asks for: a server's certificate with the names and addresses of the request. `None` when the text
/// is no request.
pub(crate) fn sign_request(issuer: &Issuer, request: &[u8], now: Timestamp) -> Option<String> {
    let mut request = rcgen::CertificateSigningRequestParams::from_der(&request.into()).ok()?;
    let mut name = DistinguishedName::new();
    if let Some(common) = request.params.distinguished_name.get(&DnType::CommonName) {
        name.push(DnType::CommonName, common.clone());
    }
    let params = &mut request.params;
    params.distinguished_name = name;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = time::OffsetDateTime::from_unix_timestamp(now.as_second()).ok()?;
    params.not_after = params.not_before.checked_add(time::Duration::try_from(DAY).ok()?)?;
    let key =
        KeyPair::from_pem(&issuer.key.as_deref()?.replace("ED25519 PRIVATE KEY", "PRIVATE KEY")).ok()?;
    let authority = rcgen::Issuer::from_ca_cert_pem(&issuer.crt, key).ok()?;
    Some(request.signed_by(&authority).ok()?.pem())
}

impl Machines {
    /// The certificate that a configured machine shows, and its key, as PEM.
    pub(crate) fn shown_certificate(&self, vmid: u32) -> Option<(String, String)> {
        let machine = self.get(vmid)?;
        let node = machine.node()?;
        let issuer = node.issuer.as_ref()?;
        let authority = Authority::from_pem(&issuer.crt, issuer.key.as_deref()?).ok()?;
        let names = api_names(self, vmid, machine, node);
        let identity = authority.issue_server(machine.hostname(), &names, DAY, node.began).ok()?;
        Some((identity.certificate_pem(), identity.key_pem().expose().to_owned()))
    }
}

/// Whose key is shown: the machine's, or that of a relay in front of it.
fn maintenance_key(relayed: bool) -> &'static str {
    if relayed { "relay" } else { "maintenance" }
}

/// The leaf of a machine in maintenance. It is the same for every connection: key, serial and times follow from the boot.
fn maintenance_leaf(machine: &Machine, key: &str, (since, lifetime): (Timestamp, Duration)) -> Option<Pair> {
    let authority_key = ed25519(machine.key_seed("maintenance authority"))?;
    let key_der = ed25519_der(machine.key_seed(key));
    let key = KeyPair::try_from(&key_der).ok()?;
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, MAINTENANCE_NAME);
    params.subject_alt_names = vec![SanType::DnsName(machine.hostname().try_into().ok()?)];
    let own = machine.own_addresses().into_iter().map(|(_, net)| net.addr());
    let loopback = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    params.subject_alt_names.extend(own.chain(loopback).map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = time::OffsetDateTime::from_unix_timestamp(since.as_second()).ok()?;
    params.not_after = params.not_before.checked_add(time::Duration::try_from(lifetime).ok()?)?;
    params.serial_number = Some(machine.seed("serial").into());
    let certificate = params.signed_by(&key, &issuer).ok()?;
    Some((certificate.der().clone(), key_der.into()))
}

impl Machine {
    /// The fingerprint of the certificate that a machine in maintenance shows, as its console prints it.
    pub(crate) fn maintenance_fingerprint(&self) -> Option<String> {
        self.shown_fingerprint(false)
    }

    /// The fingerprint that a client sees: the machine's, or that of a relay in front of it.
    pub(crate) fn shown_fingerprint(&self, relayed: bool) -> Option<String> {
        use rcgen::PublicKeyData as _;
        let key = ed25519(self.key_seed(maintenance_key(relayed)))?;
        Some(fingerprint(&key.subject_public_key_info()))
    }
}

/// The fingerprint of a public key in the form that Talos prints.
pub(crate) fn fingerprint(spki: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(spki))
}

fn ed25519_der(seed: [u8; 32]) -> PrivatePkcs8KeyDer<'static> {
    PrivatePkcs8KeyDer::from([&ED25519[..], &seed[..]].concat())
}

fn ed25519(seed: [u8; 32]) -> Option<KeyPair> {
    KeyPair::try_from(&ed25519_der(seed)).ok()
}

fn api_names(machines: &Machines, vmid: u32, machine: &Machine, node: &Node) -> Vec<String> {
    let addresses =
        machines.addresses(vmid).into_iter().flat_map(|(_, nets)| nets).map(|net| net.addr().to_string());
    let own = [machine.hostname().to_owned(), "127.0.0.1".to_owned()];
    unique(node.settings.cert_sans.iter().cloned().chain(own).chain(addresses))
}

fn kubernetes_names(machines: &Machines, vmid: u32, machine: &Machine, node: &Node) -> Vec<String> {
    let service = node.settings.service_subnet.hosts().next().map(|ip| ip.to_string());
    let fixed = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let key = node.settings.cluster_key();
    // Other control planes are reached through this one's certificate too: clients may go by any of the addresses.
    let peers = machines
        .iter()
        .filter(|(_, m)| m.node().is_some_and(|n| n.is_control_plane() && n.settings.cluster_key() == key));
    let peers = peers.flat_map(|(_, m)| m.own_addresses()).map(|(_, net)| net.addr().to_string());
    let names =
        fixed.map(str::to_owned).into_iter().chain(service).chain(node.settings.api_sans.iter().cloned());
    let own =
        [machine.hostname().to_owned(), node.settings.endpoint_host().to_owned(), "127.0.0.1".to_owned()];
    let shared = node.settings.vip.map(|ip| ip.to_string());
    unique(names.chain(own).chain(shared).chain(api_names(machines, vmid, machine, node)).chain(peers))
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.filter(|name| !name.is_empty() && seen.insert(name.clone())).collect()
}

/// Certificates of the authority, and only those whose one purpose is to be a client.
#[derive(Debug)]
struct ClientsOnly(Arc<dyn ClientCertVerifier>);

/// Every certificate, or none; who it is gets judged when a request comes.
#[derive(Debug)]
struct Anyone(Arc<dyn ClientCertVerifier>);

macro_rules! delegate_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.0.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.supported_verify_schemes()
        }
    };
}

impl ClientCertVerifier for ClientsOnly {
    fn root_hint_subjects(&self) -> &[Name] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        use CertificateError::{
            BadEncoding, BadSignature, InvalidPurpose, InvalidPurposeContext, UnknownIssuer,
        };
        // A wrong purpose is told as "bad certificate", which is what clients of a real machine see.
        let bad = || rustls::Error::from(BadEncoding);
        let verified =
            self.0.verify_client_cert(end_entity, intermediates, now).map_err(|error| match error {
                rustls::Error::InvalidCertificate(InvalidPurpose | InvalidPurposeContext { .. }) => bad(),
                // Another cluster's authority has the same name: it is still not known.
                rustls::Error::InvalidCertificate(BadSignature) => UnknownIssuer.into(),
                other => other,
            })?;
        match Leaf::read(end_entity) {
            Some(leaf) if leaf.only_client => Ok(verified),
            _ => Err(bad()),
        }
    }

    delegate_signatures!();
}

impl ClientCertVerifier for Anyone {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[Name] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    delegate_signatures!();
}
