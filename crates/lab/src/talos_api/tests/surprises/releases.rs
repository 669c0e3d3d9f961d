//! Releases that differ, and how a machine gets from one to the other.

use talos::wire::common::ContainerdInstance;
use talos::wire::cosi::WatchRequest;
use talos::wire::machine::image_service_client::ImageServiceClient;
use talos::wire::machine::lifecycle_service_client::LifecycleServiceClient;
use talos::wire::machine::lifecycle_service_install_progress::Response as Part;

use super::*;
use crate::LabConfig;
use crate::machine::tests::config_of;

const OLD: &str = "v1.12.11";

fn unimplemented(words: &str) -> (Code, String) {
    (Code::Unimplemented, words.to_owned())
}

fn store() -> Option<ContainerdInstance> {
    Some(ContainerdInstance { driver: 1, namespace: 1 })
}

impl Rig {
    async fn pull(&self, number: u32, image: &str) -> Result<String, Status> {
        use wire::image_service_pull_response::Response as Pulled;
        let mut client = ImageServiceClient::new(self.channel(number, Some(&self.administrator())));
        let request = wire::ImageServicePullRequest { containerd: store(), image_ref: image.into() };
        let mut stream = client.pull(request).await?.into_inner();
        while let Some(message) = stream.message().await? {
            if let Some(Pulled::Name(name)) = message.response {
                return Ok(name);
            }
        }
        panic!("no name");
    }

    /// Installs beside the running system; the exit code that the stream told before it ended well.
    async fn install(&self, number: u32, image: &str) -> Result<Option<i32>, Status> {
        let mut client = LifecycleServiceClient::new(self.channel(number, Some(&self.administrator())));
        let source = Some(wire::InstallArtifactsSource { image_name: image.into() });
        let request = wire::LifecycleServiceUpgradeRequest { containerd: store(), source };
        let mut stream = client.upgrade(request).await?.into_inner();
        let mut code = None;
        while let Some(message) = stream.message().await? {
            if let Some(Part::ExitCode(told)) = message.progress.and_then(|p| p.response) {
                code = Some(told);
            }
        }
        Ok(code)
    }

    async fn release(&self, number: u32) -> String {
        let answer = self.admin(number).version(()).await.unwrap().into_inner();
        answer.messages[0].version.clone().unwrap().tag
    }
}

/// Up to 1.12 a machine that waits has another, smaller server: not even its version can be asked, but its resources can.
#[tokio::test(start_paused = true)]
async fn an_old_machine_that_waits_offers_next_to_nothing() {
    let rig = Rig::waiting(OLD).await;
    let mut client = rig.client(101, None);
    let words = "API is not implemented in maintenance mode";
    assert_eq!(refused(client.version(()).await), unimplemented(words));
    assert_eq!(refused(client.service_list(()).await), unimplemented("method ServiceList not implemented"));
    let events = client.events(wire::EventsRequest::default()).await;
    assert_eq!(refused(events), unimplemented("method Events not implemented"));
    let state = StateClient::new(rig.channel(101, None));
    let version = Rig::yaml(state, "runtime", "Versions.runtime.talos.dev", "version").await;
    assert!(version.contains(&format!("version: {OLD}\n")), "{version}");
}

/// There, a mode that says "without a restart" is refused, and the answer to a good apply is empty.
#[tokio::test(start_paused = true)]
async fn an_old_machine_that_waits_wants_the_mode_auto() {
    let rig = Rig::waiting(OLD).await;
    let data = config_of(101, Role::ControlPlane, "v1.12", "v1.35.4");
    let mut client = rig.client(101, None);
    for (mode, name) in [(Mode::NoReboot, "no-reboot"), (Mode::Staged, "staged")] {
        let words = format!("apply configuration --mode='{name}' is not supported in maintenance mode");
        assert_eq!(
            refused(client.apply_configuration(apply(data.clone(), mode)).await),
            unimplemented(&words)
        );
    }
    let garbage = client.apply_configuration(apply("hello", Mode::Auto)).await;
    assert_eq!(refused(garbage).0, Code::Unknown, "what cannot be parsed has no code of its own");
    let dry = wire::ApplyConfigurationRequest { dry_run: true, ..apply(data.clone(), Mode::Auto) };
    let told = client.apply_configuration(dry).await.unwrap().into_inner().messages.remove(0);
    let words = "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.";
    assert_eq!(told.mode_details.trim_end(), words);
    let answer = client.apply_configuration(apply(data, Mode::Auto)).await.unwrap().into_inner();
    assert_eq!(answer.messages, [wire::ApplyConfiguration::default()]);
    assert!(rig.tenths_until_configured().await <= 10);
}

/// A watch without options breaks a 1.12, whether it waits or not; later releases do not mind.
#[tokio::test(start_paused = true)]
async fn an_old_machine_stumbles_over_a_watch_without_options() {
    for (talos, minds) in [(OLD, true), ("v1.13.9", false)] {
        let rig = Rig::waiting(talos).await;
        for id in [None, Some("machine".to_owned())] {
            let request = WatchRequest {
                namespace: "runtime".into(),
                r#type: "MachineStatuses.runtime.talos.dev".into(),
                id,
                options: None,
                api_version: 1,
            };
            let watch = StateClient::new(rig.channel(101, None)).watch(request).await;
            let first = match watch {
                Ok(answer) => answer.into_inner().message().await.map(|_| ()),
                Err(status) => Err(status),
            };
            let words = "runtime error: invalid memory address or nil pointer dereference";
            match first {
                Ok(()) => assert!(!minds, "{talos}"),
                Err(status) => {
                    assert!(minds && status.code() == Code::Internal && status.message().contains(words));
                }
            }
        }
    }
}

/// A configured 1.12 knows neither the newer services nor the newer resources.
#[tokio::test(start_paused = true)]
async fn an_old_machine_has_no_newer_services() {
    let rig = Rig::waiting(OLD).await;
    let data = config_of(101, Role::ControlPlane, "v1.12", "v1.35.4");
    rig.client(101, None).apply_configuration(apply(data, Mode::Auto)).await.unwrap();
    rig.wait(10).await;
    let pull = rig.pull(101, "registry.k8s.io/pause:3.10").await.unwrap_err();
    assert_eq!((pull.code(), pull.message()), (Code::Unimplemented, "unknown service machine.ImageService"));
    let newer = rig.resources(101).get(get("runtime", "Environments.runtime.talos.dev", "x")).await;
    assert_eq!(refused(newer).0, Code::PermissionDenied);
}

/// 1.14 refuses the mode that is meant by saying nothing, and its mode "auto" never restarts.
#[tokio::test(start_paused = true)]
async fn the_newest_release_never_restarts_for_a_configuration() {
    let rig = Rig::waiting("v1.14.0").await;
    let data = config_of(101, Role::ControlPlane, "v1.14", "v1.36.3");
    rig.client(101, None).apply_configuration(apply(data.clone(), Mode::Auto)).await.unwrap();
    rig.wait(10).await;
    let nothing = wire::ApplyConfigurationRequest { data: data.clone(), ..Default::default() };
    assert_eq!(refused(rig.admin(101).apply_configuration(nothing).await).0, Code::Unimplemented);
    let text = String::from_utf8(data).unwrap().replacen("machine:\n", "machine:\n    files: []\n", 1);
    let answer = rig.admin(101).apply_configuration(apply(text, Mode::Auto)).await.unwrap().into_inner();
    assert_eq!(answer.messages[0].mode(), Mode::NoReboot);
}

/// The new way to upgrade asks no one about etcd, and when the installer fails the stream still ends well.
#[tokio::test(start_paused = true)]
async fn an_installer_fails_by_its_exit_code_only() {
    let rig = Rig::cluster().await;
    let image = "ghcr.io/siderolabs/installer:v1.13.8";
    let unpulled = rig.install(101, image).await.unwrap_err();
    assert_eq!(unpulled.code(), Code::Internal, "{unpulled:?}");
    rig.lab.shared().with(|world, now| {
        world.machines.power_off(102, now);
        world.machines.power_off(103, now);
    });
    rig.wait(10).await;
    rig.pull(101, image).await.unwrap();
    assert_eq!(rig.install(101, image).await.unwrap(), Some(0), "though the majority is lost");
    let legacy = wire::UpgradeRequest { image: image.into(), ..Default::default() };
    assert_eq!(refused(rig.admin(101).upgrade(legacy).await).0, Code::Unknown, "the old way asks etcd");

    let config = LabConfig { schematics: vec!["customization: {}\n".into()], ..LabConfig::default() };
    let rig = Rig::with(config);
    rig.on(101);
    rig.wait(40).await;
    let data = config_of(101, Role::ControlPlane, "v1.13", "v1.31.0");
    rig.client(101, None).apply_configuration(apply(data, Mode::Auto)).await.unwrap();
    rig.wait(20).await;
    let newest = "factory.talos.dev/nocloud-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:v1.14.0";
    rig.pull(101, newest).await.unwrap();
    let code = rig.install(101, newest).await.unwrap();
    assert!(code.is_some_and(|code| code != 0), "its Kubernetes is too old for that: {code:?}");
    rig.admin(101).reboot(wire::RebootRequest::default()).await.unwrap();
    rig.wait(60).await;
    assert_eq!(rig.release(101).await, "v1.13.9");
}

/// A system that does not come up gives way to the one before: the machine is healthy, and old.
#[tokio::test(start_paused = true)]
async fn a_machine_may_come_back_healthy_and_old() {
    let rig = Rig::cluster().await;
    let image = "ghcr.io/siderolabs/installer:v1.13.8";
    rig.lab.shared().with(|world, _| world.machines.break_system(104, "v1.13.8", true));
    rig.pull(104, image).await.unwrap();
    assert_eq!(rig.install(104, image).await.unwrap(), Some(0));
    let before = rig.boot_id(104).await;
    rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap();
    rig.wait(300).await;
    assert_ne!(rig.boot_id(104).await, before);
    assert_eq!((rig.stage(104).await.as_str(), rig.release(104).await.as_str()), ("running", "v1.13.9"));
}

/// Since 1.14 there are installers only at the factory.
#[tokio::test(start_paused = true)]
async fn the_public_registry_has_no_newest_installer() {
    let rig = Rig::single().await;
    rig.pull(101, "ghcr.io/siderolabs/installer:v1.13.8").await.unwrap();
    let gone = rig.pull(101, "ghcr.io/siderolabs/installer:v1.14.0").await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound, "{gone:?}");
}

/// A restart drains nothing and cordons nothing: that is up to the caller.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_drain() {
    let rig = Rig::cluster().await;
    let mut events = rig.admin(104).events(wire::EventsRequest::default()).await.unwrap().into_inner();
    rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap();
    let mut phases = vec![];
    while let Some(event) = events.message().await.unwrap() {
        let data = event.data.unwrap_or_default();
        if data.type_url.ends_with("PhaseEvent") {
            let told: wire::PhaseEvent = prost::Message::decode(data.value.as_slice()).unwrap();
            phases.push(told.phase);
        }
    }
    assert!(
        phases.contains(&"stopServices".to_owned()) && !phases.contains(&"drain".to_owned()),
        "{phases:?}"
    );
    let cordoned = rig.lab.shared().read(|world, _| world.machines.is_cordoned(104));
    assert!(!cordoned);
}

/// What the factory compresses cannot be booted from, because Proxmox does not unpack it; nor is its boot medium a disk.
#[tokio::test(start_paused = true)]
async fn only_a_disk_that_is_not_compressed_can_be_booted() {
    let config = LabConfig { schematics: vec!["customization: {}\n".into()], ..LabConfig::default() };
    let rig = Rig::with(config);
    let boots = |file: &str| {
        let path =
            format!("/image/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba/v1.13.9/{file}");
        rig.lab.shared().read(|world, _| world.factory.asset(&path).unwrap().image.is_some())
    };
    assert!(boots("nocloud-amd64.qcow2") && boots("nocloud-amd64.raw"));
    assert!(!boots("nocloud-amd64.raw.xz") && !boots("nocloud-amd64.iso"));
}

/// Since 1.14 Kubernetes speaks the newest TLS and no other.
#[tokio::test(start_paused = true)]
async fn the_newest_kubernetes_takes_no_older_tls() {
    let (older, newer) = (&rustls::version::TLS12, &rustls::version::TLS13);
    for (talos, contract, kubernetes, takes) in
        [("v1.13.9", "v1.13", "v1.35.4", true), ("v1.14.0", "v1.14", "v1.36.3", false)]
    {
        let rig = Rig::waiting(talos).await;
        let data = config_of(101, Role::ControlPlane, contract, kubernetes);
        rig.client(101, None).apply_configuration(apply(data, Mode::Auto)).await.unwrap();
        rig.wait(10).await;
        rig.admin(101).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
        rig.wait(120).await;
        for (version, welcome) in [(older, takes), (newer, true)] {
            let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(&[version])
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(std::sync::Arc::new(super::super::Trusting))
                .with_no_client_auth();
            let connector = ambient::tls::Connector::new(rig.lab.net(), std::sync::Arc::new(config), 6443);
            let met = connector.connect(&crate::machine::tests::address(101), 6443).await;
            assert_eq!(met.is_ok(), welcome, "{version:?} at {talos}");
        }
    }
}

/// Force keeps an upgrade from asking etcd, and from nothing else.
#[tokio::test(start_paused = true)]
async fn force_skips_the_questions_to_etcd_and_no_other() {
    let rig = Rig::cluster().await;
    rig.lab.shared().with(|world, now| world.machines.power_off(103, now));
    rig.wait(10).await;
    let upgrade =
        |image: &str, force| wire::UpgradeRequest { image: image.into(), force, ..Default::default() };
    let good = "ghcr.io/siderolabs/installer:v1.13.8";
    assert_eq!(
        refused(rig.admin(101).upgrade(upgrade(good, false)).await).0,
        Code::Unknown,
        "a member is down"
    );
    let nope = rig.admin(101).upgrade(upgrade("ghcr.io/siderolabs/installer:v9.9.9", true)).await;
    let (code, words) = refused(nope);
    assert!(code == Code::Unknown && words.starts_with("error validating installer image"), "{words}");
    rig.admin(101).upgrade(upgrade(good, true)).await.unwrap();
}
