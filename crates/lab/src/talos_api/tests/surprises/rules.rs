//! What a machine answers to a question that is missing something, names something unknown, comes from the wrong role or
//! asks the wrong kind of machine. Each rule follows a check in Talos' own servers, in the order of those checks.

use talos::wire::common::ContainerdInstance;
use talos::wire::machine::image_service_client::ImageServiceClient;
use talos::wire::machine::lifecycle_service_client::LifecycleServiceClient;
use talos::wire::security::CertificateRequest;
use talos::wire::security::security_service_client::SecurityServiceClient;
use talos::wire::storage::storage_service_client::StorageServiceClient;
use talos::wire::storage::{BlockDeviceWipeDescriptor, BlockDeviceWipeRequest};
use talos::wire::time::TimeRequest;
use talos::wire::time::time_service_client::TimeServiceClient;
use tonic::Request;

use super::*;
use crate::machine::BootDisk;
use crate::machine::tests::{BUNDLE, config_of};

/// Code and words of any answer.
fn told<T>(answer: Result<T, Status>) -> (Code, String) {
    answer.map_or_else(|status| (status.code(), status.message().to_owned()), |_| (Code::Ok, String::new()))
}

fn says(code: Code, words: &str) -> (Code, String) {
    (code, words.to_owned())
}

fn fine() -> (Code, String) {
    says(Code::Ok, "")
}

fn with<T>(message: T, headers: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (key, value) in headers {
        request.metadata_mut().append(*key, value.parse().unwrap());
    }
    request
}

impl Rig {
    /// A control plane (101) that is bootstrapped and a worker (102), of a release; both have a second disk.
    async fn pair(talos: &str, contract: &str, kubernetes: &str) -> Self {
        let rig = Self::new();
        for number in [101, 102] {
            let image = crate::machine::BootImage { talos: talos.into(), ..boot(number).image.unwrap() };
            let mut boot = Boot { image: Some(image), ..boot(number) };
            let data = BootDisk { slot: "scsi1".into(), bytes: 8 << 30, serial: None, wwn: None };
            boot.disks.push(data);
            rig.lab.shared().with(|world, now| world.machines.power_on(number, boot, now));
        }
        rig.wait(40).await;
        for (number, role) in [(101, Role::ControlPlane), (102, Role::Worker)] {
            let data = config_of(number, role, contract, kubernetes);
            rig.client(number, None).apply_configuration(apply(data, Mode::Auto)).await.unwrap();
        }
        rig.wait(10).await;
        rig.admin(101).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
        rig.wait(60).await;
        rig
    }

    async fn newest() -> Self {
        Self::pair("v1.13.9", "v1.13", "v1.36.3").await
    }
}

/// The endpoint decides whom a request is for before anybody looks at roles, services or names of methods.
#[tokio::test(start_paused = true)]
async fn e1_the_endpoint_decides_whom_a_request_is_for() {
    let rig = Rig::newest().await;
    let forwarding = denied("no request forwarding");
    let ask = async |number: u32, role: &str, headers: &[(&'static str, &str)]| {
        let identity = rig.role(role);
        rig.client(number, Some(&identity)).version(with((), headers)).await
    };
    let (plane, worker) = ("10.1.0.11", "10.1.0.12");
    for role in ["os:admin", "os:nobody"] {
        for headers in [
            &[("node", plane)][..],
            &[("node", "10.1.0.12:50000")],
            &[("node", "")],
            &[("nodes", plane)],
            &[("nodes", worker), ("nodes", worker)],
        ] {
            assert_eq!(told(ask(102, role, headers).await), forwarding, "{role} {headers:?}");
        }
    }
    // A worker serves what is meant for itself alone, as if no target had been named.
    for headers in [&[("node", worker)][..], &[("node", "n102")], &[("nodes", worker)], &[("nodes", "n102")]]
    {
        let answer = ask(102, "os:admin", headers).await.unwrap().into_inner();
        assert_eq!(answer.messages.len(), 1);
        assert_eq!(answer.messages[0].metadata, None, "{headers:?}");
    }
    // Two values are two values, whatever else is said.
    let twice = says(Code::InvalidArgument, "node metadata must be single-valued");
    let headers = [("node", worker), ("node", plane), ("nodes", plane)];
    assert_eq!(told(ask(101, "os:admin", &headers).await), twice);
    // One target that cannot be one fails the whole call.
    let wrong = says(Code::Internal, "invalid target \"10.1.0.12:50000\"");
    assert_eq!(told(ask(101, "os:admin", &[("nodes", plane), ("nodes", "10.1.0.12:50000")]).await), wrong);
    // Each machine judges the roles for itself.
    let answer = ask(101, "os:nobody", &[("nodes", plane), ("nodes", worker)]).await.unwrap().into_inner();
    let judged = answer.messages.iter().map(|m| m.metadata.clone().unwrap().status.unwrap());
    assert_eq!(judged.map(|s| s.message).collect::<Vec<_>>(), ["not authorized", "not authorized"]);
    let nobody = rig.role("os:nobody");
    let mut images = ImageServiceClient::new(rig.channel(102, Some(&nobody)));
    let request = with(wire::ImageServiceListRequest::default(), &[("nodes", plane)]);
    let words = "one-2-many proxying is not supported for method /machine.ImageService/List";
    assert_eq!(refused(images.list(request).await), says(Code::InvalidArgument, words));
}

/// Unused disks may be wiped by administrators, and while a machine waits by anybody.
#[tokio::test(start_paused = true)]
async fn e1_a_device_is_wiped_when_nothing_uses_it() {
    let rig = Rig::newest().await;
    let wipe = async |role: &str, device: &str, method: i32| {
        let mut client = StorageServiceClient::new(rig.channel(101, Some(&rig.role(role))));
        let device = BlockDeviceWipeDescriptor { device: device.into(), method, ..Default::default() };
        told(client.block_device_wipe(BlockDeviceWipeRequest { devices: vec![device] }).await)
    };
    let busy = |words: &str| says(Code::FailedPrecondition, words);
    assert_eq!(wipe("os:reader", "sdb", 0).await, denied("not authorized"));
    assert_eq!(wipe("os:operator", "sdb", 0).await, denied("not authorized"));
    assert_eq!(wipe("os:admin", "sdb", 0).await, fine());
    assert_eq!(wipe("os:admin", "sdb", 9).await, says(Code::InvalidArgument, "unsupported wipe method 9"));
    assert_eq!(
        wipe("os:admin", "sda", 0).await,
        busy("blockdevice \"sda\" is in use by volume \"EPHEMERAL\"")
    );
    assert_eq!(wipe("os:admin", "sda4", 0).await, busy("blockdevice \"sda4\" is in use by volume \"META\""));
    assert_eq!(wipe("os:admin", "sda3", 0).await, fine());
    assert_eq!(wipe("os:admin", "sda9", 0).await, says(Code::NotFound, "blockdevice \"sda9\" not found"));

    let label = |label: &str| {
        let system_partitions_to_wipe = vec![wire::ResetPartitionSpec { label: label.into(), wipe: true }];
        wire::ResetRequest { system_partitions_to_wipe, ..Default::default() }
    };
    let words = "failed to reset: volume \"/var/log\" is not located";
    assert_eq!(told(rig.admin(101).reset(label("/var/log")).await), says(Code::Unknown, words));
}

/// The checks of images and installers, in their order.
#[tokio::test(start_paused = true)]
async fn e1_images_are_named_before_they_are_fetched() {
    let rig = Rig::newest().await;
    let mut images = ImageServiceClient::new(rig.channel(101, Some(&rig.administrator())));
    let store = |driver, namespace| Some(ContainerdInstance { driver, namespace });
    let mut pull = async |containerd, reference: &str| {
        let request = wire::ImageServicePullRequest { containerd, image_ref: reference.into() };
        told(images.pull(request).await)
    };
    for (reference, why) in [
        ("", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("example.com/Upper:v1", "invalid reference format: repository name (Upper) must be lowercase"),
        ("example.com/a:b:c", "invalid reference format"),
        ("example.com/a@sha256:12", "invalid reference format"),
    ] {
        let words = format!("failed to parse image reference {reference:?}: {why}");
        assert_eq!(pull(store(1, 1), reference).await, says(Code::Unknown, &words));
        let legacy = wire::ImagePullRequest { namespace: 1, reference: reference.into() };
        assert_eq!(told(rig.admin(101).image_pull(legacy).await), says(Code::Unknown, &words));
    }
    assert_eq!(pull(store(1, 2), "registry.k8s.io/kube-proxy:V1.36.3").await.0, Code::Ok);
    let driver = says(Code::InvalidArgument, "invalid containerd driver 7");
    assert_eq!(pull(store(7, 1), "").await, driver);
    assert_eq!(pull(store(0, 9), "").await, says(Code::InvalidArgument, "invalid containerd namespace 9"));

    let verify = |reference: &str| {
        let image_ref = reference.to_owned();
        wire::ImageServiceVerifyRequest { image_ref }
    };
    let wrong = "image reference is invalid: could not parse reference: example.com/Upper:v1";
    assert_eq!(told(images.verify(verify("example.com/Upper:v1")).await), says(Code::InvalidArgument, wrong));
    assert_eq!(told(images.verify(verify("example.com/app:V1")).await), fine());

    use wire::image_service_import_request::Request as Part;
    let mut import = async |parts: Vec<Part>| {
        let parts: Vec<_> =
            parts.into_iter().map(|part| wire::ImageServiceImportRequest { request: Some(part) }).collect();
        told(images.import(futures::stream::iter(parts)).await)
    };
    let chunk =
        |bytes: &[u8]| Part::ImageChunk(talos::wire::common::Data { metadata: None, bytes: bytes.to_vec() });
    let instance = Part::Containerd(store(1, 1).unwrap());
    assert_eq!(import(vec![]).await, says(Code::Unknown, "EOF"));
    let needed = says(Code::InvalidArgument, "containerd instance is required");
    assert_eq!(import(vec![chunk(b"x")]).await, needed);
    for (bytes, why) in [
        (vec![], "unrecognized image format"),
        (vec![1; 7], "unexpected EOF"),
        (vec![1; 1024], "archive/tar: invalid tar header"),
    ] {
        let words = format!("failed to import image: {why}");
        assert_eq!(import(vec![instance.clone(), chunk(&bytes)]).await, says(Code::Internal, &words));
    }
    let words = "failed to import image: no image chunk";
    assert_eq!(import(vec![instance.clone(), instance]).await, says(Code::Internal, words));

    let mut lifecycle = LifecycleServiceClient::new(rig.channel(101, Some(&rig.administrator())));
    let installed = says(Code::AlreadyExists, "machine is already installed");
    assert_eq!(told(lifecycle.install(wire::LifecycleServiceInstallRequest::default()).await), installed);
    let source = Some(wire::InstallArtifactsSource { image_name: "example.com/a".into() });
    let request = wire::LifecycleServiceUpgradeRequest { containerd: None, source };
    let words =
        "upgrade failed: rpc error: code = InvalidArgument desc = invalid containerd namespace NS_UNKNOWN";
    assert_eq!(told(lifecycle.upgrade(request).await), says(Code::Internal, words));
}

/// A service has a log from its first run on; one that runs is not stopped by this API, and one that does not need not be.
#[tokio::test(start_paused = true)]
async fn e1_services_have_logs_once_they_run() {
    let rig = Rig::configured().await;
    let mut client = rig.admin(101);
    let log =
        |id: &str| wire::LogsRequest { namespace: "system".into(), id: id.into(), ..Default::default() };
    let unregistered = |id: &str| says(Code::Unknown, &format!("log {id:?} was not registered"));
    assert_eq!(told(client.logs(log("etcd")).await), unregistered("etcd"));
    let names = client.logs_containers(()).await.unwrap().into_inner().messages.remove(0).ids;
    assert!(!names.contains(&"etcd".to_owned()), "{names:?}");
    assert!(
        ["machined", "kernel", "cri"].iter().all(|name| names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    assert_eq!(told(client.logs(log("trustd")).await), fine());

    let id = |id: &str| id.to_owned();
    let stop = client.service_stop(wire::ServiceStopRequest { id: id("kubelet") }).await;
    let words = "service \"kubelet\" doesn't support stop operation via API";
    assert_eq!(told(stop), says(Code::Unknown, words));
    let restart = client.service_restart(wire::ServiceRestartRequest { id: id("trustd") }).await;
    let words = "service \"trustd\" doesn't support restart operation via API";
    assert_eq!(told(restart), says(Code::Unknown, words));

    // etcd started and was not looked at yet: nothing is known of its health.
    client.bootstrap(wire::BootstrapRequest::default()).await.unwrap();
    rig.wait(3).await;
    assert_eq!(told(client.logs(log("etcd")).await), fine());
    let etcd = Rig::services(rig.admin(101)).await.into_iter().find(|s| s.id == "etcd").unwrap();
    let health = etcd.health.unwrap();
    assert_eq!(
        (etcd.state.as_str(), health.unknown, health.last_message.as_str()),
        ("Running", true, "Unknown")
    );
}

/// Names of types are looked up without regard to case; who may see them is checked before the namespace.
#[tokio::test(start_paused = true)]
async fn e1_resources_are_refused_in_order() {
    let rig = Rig::waiting("v1.13.9").await;
    let mut state = StateClient::new(rig.channel(101, None));
    let small = state.get(get("runtime", "machinestatuses.runtime.talos.dev", "machine")).await;
    let words = "resource machinestatuses.runtime.talos.dev(runtime/machine@undefined) doesn't exist";
    assert_eq!(refused(small), says(Code::NotFound, words));
    let secret = state.get(get("nope", "MachineConfigs.config.talos.dev", "v1alpha1")).await;
    assert_eq!(refused(secret), denied("not authorized"));
    let nowhere = state.get(get("nope", "MachineStatuses.runtime.talos.dev", "machine")).await;
    assert_eq!(refused(nowhere), denied("namespace \"nope\" is not supported"));
}

/// trustd looks at the token, then at the request, and serves nothing else.
#[tokio::test(start_paused = true)]
async fn e1_trustd_says_what_is_wrong_with_a_request() {
    let rig = Rig::configured().await;
    let connector =
        ambient::tls::Connector::new(rig.lab.net(), std::sync::Arc::new(super::super::tls(None)), 50_001);
    let endpoint = tonic::transport::Endpoint::from_static("http://10.1.0.11:50001");
    let channel = endpoint.connect_with_connector_lazy(connector);
    let mut trustd = SecurityServiceClient::new(channel.clone());
    let token = rig.lab.shared().read(|world, _| {
        world.machines.get(101).and_then(|m| m.node()).map(|node| node.settings.token.clone()).unwrap()
    });
    let mut sign = async |csr: &str, token: &str| {
        let request = with(CertificateRequest { csr: csr.into() }, &[("token", token)]);
        trustd.certificate(request).await
    };
    let pem = |tag: &str, der: &[u8]| {
        use base64::Engine as _;
        let body = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {tag}-----\n{body}\n-----END {tag}-----\n")
    };
    let tag = "CERTIFICATE REQUEST";
    assert_eq!(told(sign("", "").await), says(Code::Unauthenticated, "invalid token"));
    assert_eq!(told(sign("", &token).await), says(Code::InvalidArgument, "failed to decode CSR"));
    for (der, why) in [
        (vec![], "asn1: syntax error: sequence truncated"),
        (vec![0x30, 5, 1], "asn1: syntax error: data truncated"),
        (
            vec![0x02, 1, 1],
            "asn1: structure error: tags don't match (16 vs {class:0 tag:2 length:1 isCompound:false}) {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2",
        ),
    ] {
        let words = format!("failed to parse CSR: {why}");
        assert_eq!(told(sign(&pem(tag, &der), &token).await), says(Code::InvalidArgument, &words));
    }
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params =
        rcgen::CertificateParams::new(vec!["other.example".to_owned(), "10.9.9.9".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "os:admin");
    let request = params.serialize_request(&key).unwrap();
    let mut der = request.der().to_vec();
    let signed = sign(&pem(tag, &der), &token).await.unwrap().into_inner();
    assert_eq!(signed.ca, BUNDLE.os().certificate.as_bytes());
    // The words at the fences do not count.
    assert_eq!(told(sign(&pem("NEW CERTIFICATE REQUEST", &der), &token).await), fine());
    *der.last_mut().unwrap() ^= 1;
    let words = "failed to sign CSR: failed verifying CSR signature: x509: Ed25519 verification failure";
    assert_eq!(told(sign(&pem(tag, &der), &token).await), says(Code::Internal, words));

    let version = MachineServiceClient::new(channel).version(()).await;
    assert_eq!(refused(version), says(Code::Unimplemented, "unknown service machine.MachineService"));
}

/// A worker of 1.12 has its own words for what only a control plane does.
#[tokio::test(start_paused = true)]
async fn e1_an_old_worker_has_its_own_words() {
    let rig = Rig::pair("v1.12.11", "v1.12", "v1.35.4").await;
    let mut client = rig.admin(102);
    let only =
        |api: &str| says(Code::Unimplemented, &format!("{api} is only available on control plane nodes"));
    let cancel = only("etcd downgrade cancel");
    let version = || "3.5".to_owned();
    let asked =
        client.etcd_downgrade_validate(wire::EtcdDowngradeValidateRequest { version: version() }).await;
    assert_eq!(told(asked), cancel);
    let asked = client.etcd_downgrade_enable(wire::EtcdDowngradeEnableRequest { version: version() }).await;
    assert_eq!(told(asked), cancel);
    assert_eq!(told(client.etcd_alarm_disarm(()).await), only("etcd alarm list"));
    let request = wire::GenerateClientConfigurationRequest::default();
    let words = "client configuration (talosconfig) can't be generated on worker nodes";
    let asked = client.generate_client_configuration(request).await;
    assert_eq!(told(asked), says(Code::FailedPrecondition, words));
    // It looks into parts of a question that are not there.
    let nil = says(Code::Internal, "runtime error: invalid memory address or nil pointer dereference");
    assert_eq!(told(client.netstat(wire::NetstatRequest::default()).await), nil);
    let request = wire::ContainersRequest { namespace: String::new(), driver: 1 };
    let words = "CRI inspector is supported only for K8s namespace";
    assert_eq!(told(client.containers(request).await), says(Code::Unknown, words));
    let request = wire::ContainersRequest { namespace: "k8s.io".into(), driver: 7 };
    assert_eq!(told(client.containers(request).await), says(Code::Unknown, "unsupported driver \"7\""));
    let mut state = StateClient::new(rig.channel(101, Some(&rig.administrator())));
    let request = with(get("runtime", "Versions.runtime.talos.dev", "version"), &[("nodes", "10.1.0.11")]);
    let words = "one-2-many proxying is not supported for COSI methods";
    assert_eq!(refused(state.get(request).await), says(Code::InvalidArgument, words));
}

/// One role is one role, however it is written; clocks that do not exist are not asked.
#[tokio::test(start_paused = true)]
async fn e1_roles_and_clocks_are_taken_as_they_are_named() {
    let rig = Rig::configured().await;
    let roles = ["", " os:reader ", "os:reader"].map(str::to_owned).to_vec();
    let crt_ttl = Some(prost_types::Duration { seconds: 3600, nanos: 0 });
    let request = wire::GenerateClientConfigurationRequest { roles, crt_ttl };
    let made = rig.admin(101).generate_client_configuration(request).await.unwrap().into_inner();
    let text = String::from_utf8(made.messages[0].talosconfig.clone()).unwrap();
    assert!(text.contains("context: reader@lab\n"), "{text}");
    // Several roles are several organizations of one certificate.
    let roles = ["os:reader", "os:etcd:backup"].map(str::to_owned).to_vec();
    let request = wire::GenerateClientConfigurationRequest { roles, crt_ttl };
    let made = rig.admin(101).generate_client_configuration(request).await.unwrap().into_inner();
    let certificate: rustls::pki_types::CertificateDer<'_> =
        rustls::pki_types::pem::PemObject::from_pem_slice(&made.messages[0].crt).unwrap();
    assert_eq!(talos::pki::Leaf::read(&certificate).unwrap().organizations, ["os:etcd:backup", "os:reader"]);

    let mut time = TimeServiceClient::new(rig.channel(101, Some(&rig.administrator())));
    let request = TimeRequest { server: "/dev/ptp9".into() };
    let words = "error querying PTP device \"/dev/ptp9\": open /dev/ptp9: no such file or directory";
    assert_eq!(told(time.time_check(request).await), says(Code::Unknown, words));
}
