//! The Talos API over the lab's network, with real TLS on both sides.

mod many;
mod neighbours;
mod relay;
mod surprises;

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use ambient::Clock;
use ambient::tls::Connector;
use futures::StreamExt as _;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use talos::config::Role;
use talos::pki::{Authority, Identity, Leaf};
use talos::secrets::talos_client;
use talos::wire::cosi::state_client::StateClient;
use talos::wire::cosi::{GetRequest, ListRequest, WatchRequest};
use talos::wire::machine as wire;
use talos::wire::machine::machine_service_client::MachineServiceClient;
use talos::wire::storage::storage_service_client::StorageServiceClient;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::machine::tests::{BUNDLE, address, boot, config, start};
use crate::{Lab, LabConfig};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Takes any certificate, as a client of a machine in maintenance does.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The time of day in the rigs, near enough to judge certificates by.
#[derive(Debug)]
struct Noon;

impl rustls::time_provider::TimeProvider for Noon {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(start().as_second()).unwrap() + 3600;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// A client that trusts anybody (`None`), or that is `identity` and trusts its authority.
pub(crate) fn tls(identity: Option<&Identity>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_details(provider, Arc::new(Noon))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = match identity {
        None => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting)).with_no_client_auth()
        }
        Some(identity) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(identity.ca_der()).unwrap();
            let chain = vec![identity.certificate_der().clone()];
            builder.with_root_certificates(roots).with_client_auth_cert(chain, identity.key_der()).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

pub(crate) struct Rig {
    pub(crate) lab: Lab,
    pub(crate) clock: Clock,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(LabConfig::default())
    }

    fn with(config: LabConfig) -> Self {
        // The bundle is made in real time, which a paused clock does not see.
        let _ = &*BUNDLE;
        let clock = Clock::from(start(), 1.0);
        let lab = Lab::open(config, clock.clone()).unwrap();
        Self { lab, clock }
    }

    pub(crate) fn on(&self, number: u32) {
        self.lab.shared().with(|world, now| world.machines.power_on(number, boot(number), now));
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn channel(&self, number: u32, identity: Option<&Identity>) -> Channel {
        let connector = Connector::new(self.lab.net(), Arc::new(tls(identity)), 50_000);
        let endpoint = Endpoint::from_shared(format!("http://{}:50000", address(number))).unwrap();
        endpoint.connect_with_connector_lazy(connector)
    }

    fn client(&self, number: u32, identity: Option<&Identity>) -> MachineServiceClient<Channel> {
        MachineServiceClient::new(self.channel(number, identity))
    }

    async fn apply(&self, number: u32, role: Role) {
        let data = config(number, role, |_| {});
        let request =
            wire::ApplyConfigurationRequest { data, mode: 1, dry_run: false, try_mode_timeout: None };
        let answer = self.client(number, None).apply_configuration(request).await.unwrap().into_inner();
        assert_eq!(answer.messages[0].mode_details, "Applied configuration without a reboot");
        assert_eq!(answer.messages[0].mode, 2);
    }

    /// One control plane, bootstrapped, with its API server up.
    pub(crate) async fn single() -> Self {
        let rig = Self::new();
        rig.on(101);
        rig.wait(40).await;
        rig.apply(101, Role::ControlPlane).await;
        rig.wait(10).await;
        let admin = rig.role("os:admin");
        rig.client(101, Some(&admin)).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
        rig.wait(60).await;
        rig
    }

    fn role(&self, role: &str) -> Identity {
        talos_client(&BUNDLE, role, DAY, self.clock.now()).unwrap()
    }
}

fn get(namespace: &str, kind: &str, id: &str) -> GetRequest {
    GetRequest { namespace: namespace.into(), r#type: kind.into(), id: id.into(), options: None }
}

#[tokio::test(start_paused = true)]
async fn maintenance_lets_everybody_read_and_nobody_bootstrap() {
    let rig = Rig::new();
    rig.on(101);
    rig.wait(40).await;
    let mut client = rig.client(101, None);
    let version = client.version(()).await.unwrap().into_inner().messages.remove(0);
    assert_eq!(version.version.unwrap().tag, "v1.13.9");
    assert_eq!(version.platform.unwrap().mode, "cloud");
    assert_eq!(version.features, None);
    let refused = client.bootstrap(wire::BootstrapRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::PermissionDenied, "not authorized"));
    let refused = client.etcd_status(()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::Unimplemented, "etcd status is only available on control plane nodes")
    );
    let load = client.load_avg(()).await.unwrap().into_inner();
    assert_eq!(load.messages.len(), 1);

    let mut state = StateClient::new(rig.channel(101, None));
    let status =
        state.get(get("runtime", "MachineStatuses.runtime.talos.dev", "machine")).await.unwrap().into_inner();
    let resource = status.resource.unwrap();
    assert_eq!(
        resource.spec.unwrap().yaml_spec,
        "stage: maintenance\nstatus:\n    ready: true\n    unmetConditions: []\n"
    );
    let words = |outcome: Result<_, tonic::Status>| {
        outcome.map(|_: tonic::Response<_>| ()).unwrap_err().message().to_owned()
    };
    assert_eq!(
        words(state.get(get("config", "MachineConfigs.config.talos.dev", "v1alpha1")).await),
        "not authorized"
    );
    assert_eq!(
        words(state.get(get("runtime", "Nope.runtime.talos.dev", "x")).await),
        "resource type \"Nope.runtime.talos.dev\" is not supported"
    );
    assert_eq!(
        words(state.get(get("runtime", "MachineStatuses.runtime.talos.dev", "nope")).await),
        "resource MachineStatuses.runtime.talos.dev(runtime/nope@undefined) doesn't exist"
    );
    let uuid = state
        .get(get("hardware", "SystemInformations.hardware.talos.dev", "systeminformation"))
        .await
        .unwrap();
    assert!(uuid.into_inner().resource.unwrap().spec.unwrap().yaml_spec.contains(&boot(101).uuid));
    let disks = StorageServiceClient::new(rig.channel(101, None)).disks(()).await.unwrap().into_inner();
    assert!(disks.messages[0].disks.iter().any(|d| d.device_name == "/dev/sda" && d.system_disk));
}

#[tokio::test(start_paused = true)]
async fn the_maintenance_certificate_lasts_one_boot() {
    let rig = Rig::new();
    rig.on(101);
    rig.wait(40).await;
    let leaf = async || {
        let connector = Connector::new(rig.lab.net(), Arc::new(tls(None)), 50_000);
        let stream = connector.connect(&address(101), 50_000).await.unwrap();
        Leaf::read(stream.peer_certificate().unwrap()).unwrap()
    };
    let first = leaf().await;
    assert_eq!(first.common_name.as_deref(), Some("maintenance-service.talos.dev"));
    assert_eq!(first.names, ["vm-101", "10.1.0.11", "127.0.0.1", "::1"]);
    assert_eq!(leaf().await.fingerprint, first.fingerprint);
    let mut lines = rig.client(101, None).dmesg(wire::DmesgRequest::default()).await.unwrap().into_inner();
    let mut told = false;
    while let Some(line) = lines.next().await {
        told |= String::from_utf8(line.unwrap().bytes).unwrap().contains(&first.fingerprint);
    }
    assert!(told, "the console shows the fingerprint");
    rig.lab.shared().with(|world, now| world.machines.power_off(101, now));
    rig.on(101);
    rig.wait(40).await;
    assert_ne!(leaf().await.fingerprint, first.fingerprint);
}

#[tokio::test(start_paused = true)]
async fn a_configured_machine_knows_its_own() {
    let rig = Rig::single().await;
    let admin = rig.role("os:admin");
    let version = rig.client(101, Some(&admin)).version(()).await.unwrap().into_inner().messages.remove(0);
    assert!(version.features.unwrap().rbac);
    assert!(rig.client(101, None).version(()).await.is_err());

    let reader = rig.role("os:reader");
    let mut client = rig.client(101, Some(&reader));
    assert!(client.version(()).await.is_ok());
    let refused = client.reboot(wire::RebootRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::PermissionDenied, "not authorized"));
    let nobody = rig.role("os:nobody");
    let refused = rig.client(101, Some(&nobody)).version(()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::PermissionDenied, "not authorized"));

    let mut client = rig.client(101, Some(&admin));
    let again = client.bootstrap(wire::BootstrapRequest::default()).await.unwrap_err();
    assert_eq!((again.code(), again.message()), (Code::AlreadyExists, "etcd data directory is not empty"));
    let members = client.etcd_member_list(wire::EtcdMemberListRequest::default()).await.unwrap().into_inner();
    let member = &members.messages[0].members[0];
    assert_eq!((member.hostname.as_str(), member.is_learner), ("n101", false));
    assert_eq!(member.peer_urls, ["https://10.1.0.11:2380"]);
    let status = client.etcd_status(()).await.unwrap().into_inner().messages.remove(0).member_status.unwrap();
    assert_eq!(status.leader, member.id);

    let mut state = StateClient::new(rig.channel(101, Some(&admin)));
    let configs =
        state.get(get("config", "MachineConfigs.config.talos.dev", "v1alpha1")).await.unwrap().into_inner();
    let yaml = configs.resource.unwrap().spec.unwrap().yaml_spec;
    let text: String = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(text.into_bytes(), config(101, Role::ControlPlane, |_| {}), "byte for byte as submitted");
    let request = ListRequest {
        namespace: "runtime".into(),
        r#type: "Services.v1alpha1.talos.dev".into(),
        options: None,
    };
    let services = state.list(request).await.unwrap().into_inner().count().await;
    assert_eq!(services, 10);
}

/// What a client learns after its handshake, when the machine does not want it.
async fn alert(
    rig: &Rig,
    identity: Option<(CertificateDer<'static>, rustls_pki_types::PrivateKeyDer<'static>)>,
) -> String {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting));
    let config = match identity {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let stream = rig.lab.net().dial(&address(101), 50_000).await.unwrap();
    let name = ServerName::try_from(address(101)).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream =
        connector.connect(name, stream).await.expect("the client's half of the handshake completes");
    let failure = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 16]).await.unwrap_err();
    failure.to_string()
}

#[tokio::test(start_paused = true)]
async fn unwanted_clients_are_told_by_an_alert() {
    let rig = Rig::single().await;
    let now = rig.clock.now();
    assert_eq!(alert(&rig, None).await, "received fatal alert: CertificateRequired");
    let take = |identity: Identity| Some((identity.certificate_der().clone(), identity.key_der()));
    let foreign = Authority::ephemeral(now).unwrap().issue_client(None, "os:admin", DAY, now).unwrap();
    assert_eq!(alert(&rig, take(foreign)).await, "received fatal alert: UnknownCA");
    let own = Authority::from_pem(&BUNDLE.os().certificate, BUNDLE.os().key.expose()).unwrap();
    let old = now.checked_sub(DAY * 2).unwrap();
    let expired = own.issue_client(None, "os:admin", DAY, old).unwrap();
    assert_eq!(alert(&rig, take(expired)).await, "received fatal alert: CertificateExpired");
    let server = own.issue_server("os:admin", &[], DAY, now).unwrap();
    assert_eq!(alert(&rig, take(server)).await, "received fatal alert: BadCertificate");
}

#[tokio::test(start_paused = true)]
async fn the_kubeconfig_is_a_gzip_of_a_tar_without_an_end() {
    let rig = Rig::single().await;
    let admin = rig.role("os:admin");
    let mut stream = rig.client(101, Some(&admin)).kubeconfig(()).await.unwrap().into_inner();
    let mut bytes = vec![];
    while let Some(chunk) = stream.next().await {
        bytes.extend(chunk.unwrap().bytes);
    }
    let mut tar = vec![];
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut tar).unwrap();
    assert!(tar.starts_with(b"kubeconfig\0"));
    let size = std::str::from_utf8(&tar[124..135]).unwrap();
    assert_eq!(tar.len(), 512 + usize::from_str_radix(size, 8).unwrap());
    assert!(String::from_utf8_lossy(&tar[512..]).contains("admin@lab"));

    // A copy is a whole archive, unless there is nothing: then there is not even the gzip.
    let unpacked = async |path: &str| {
        let request = wire::CopyRequest { root_path: path.into() };
        let mut stream = rig.client(101, Some(&admin)).copy(request).await.unwrap().into_inner();
        let mut bytes = vec![];
        while let Some(chunk) = stream.next().await {
            bytes.extend(chunk.unwrap().bytes);
        }
        let mut tar = vec![];
        if !bytes.is_empty() {
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut tar).unwrap();
        }
        tar
    };
    let tar = unpacked("/etc/hostname").await;
    assert!(tar.len() % 512 == 0 && tar.ends_with(&[0; 1024]), "{} bytes", tar.len());
    assert!(unpacked("/nope").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_etcd_call_waits_for_etcd() {
    let rig = Rig::new();
    rig.on(101);
    rig.wait(40).await;
    rig.apply(101, Role::ControlPlane).await;
    rig.wait(10).await;
    let admin = rig.role("os:admin");
    let mut client = rig.client(101, Some(&admin));
    let mut waiting = rig.client(101, Some(&admin));
    assert!(rig.clock.timeout(Duration::from_secs(15), waiting.etcd_status(())).await.is_err());
    let bootstrap = async {
        rig.wait(30).await;
        client.bootstrap(wire::BootstrapRequest::default()).await.unwrap();
    };
    let (status, ()) =
        tokio::join!(rig.clock.timeout(Duration::from_secs(75), waiting.etcd_status(())), bootstrap);
    assert!(status.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_changes_and_dies_with_the_machine() {
    let rig = Rig::single().await;
    let admin = rig.role("os:admin");
    let mut state = StateClient::new(rig.channel(101, Some(&admin)));
    let request = WatchRequest {
        namespace: "runtime".into(),
        r#type: "MachineStatuses.runtime.talos.dev".into(),
        id: Some("machine".into()),
        options: None,
        api_version: 1,
    };
    let mut watch = state.watch(request).await.unwrap().into_inner();
    assert!(watch.next().await.unwrap().unwrap().event.is_empty(), "armed");
    let yaml = |answer: talos::wire::cosi::WatchResponse| {
        answer.event[0].resource.clone().unwrap().spec.unwrap().yaml_spec
    };
    let first = yaml(watch.next().await.unwrap().unwrap());
    assert!(first.starts_with("stage: running\nstatus:\n    ready: true"), "{first}");
    rig.client(101, Some(&admin)).reboot(wire::RebootRequest::default()).await.unwrap();
    let second = yaml(watch.next().await.unwrap().unwrap());
    assert!(second.starts_with("stage: rebooting"), "{second}");
    assert!(!matches!(watch.next().await, Some(Ok(_))), "the connection is cut");
    rig.wait(60).await;
    assert!(rig.client(101, Some(&admin)).version(()).await.is_ok());
}
