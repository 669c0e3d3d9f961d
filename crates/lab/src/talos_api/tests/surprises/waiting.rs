//! A machine that waits for its configuration.

use std::collections::{BTreeMap, BTreeSet};

use talos::wire::storage::storage_service_client::StorageServiceClient;

use super::*;
use crate::hypervisor::cloudinit;
use crate::hypervisor::vm::Vm;

/// An open stream keeps the new listener away for ten seconds, while the port refuses.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_held_open_delays_the_switch() {
    let rig = Rig::waiting("v1.13.9").await;
    rig.apply(101, Role::ControlPlane).await;
    let alone = rig.tenths_until_configured().await;
    assert!(alone <= 23, "{alone} tenths of a second");

    let rig = Rig::waiting("v1.13.9").await;
    let mut events = rig.client(101, None).events(wire::EventsRequest::default()).await.unwrap().into_inner();
    events.message().await.unwrap();
    rig.apply(101, Role::ControlPlane).await;
    let held = rig.tenths_until_configured().await;
    assert!((95..=110).contains(&held), "{held} tenths of a second");
}

/// The old listener may still answer after a good apply. What it then says is no failure of the first one.
#[tokio::test(start_paused = true)]
async fn a_second_apply_before_the_switch_is_not_authorized() {
    let rig = Rig::waiting("v1.13.9").await;
    let mut client = rig.client(101, None);
    client.apply_configuration(apply(usual(), Mode::Auto)).await.unwrap();
    let again = rig.client(101, None).apply_configuration(apply(usual(), Mode::Auto)).await;
    assert_eq!(refused(again), denied("not authorized"));
    rig.wait(5).await;
    assert_eq!(rig.stage(101).await, "booting");
}

/// A configuration that is only tried boots the machine; when it is taken back no one listens any more, in neither way.
#[tokio::test(start_paused = true)]
async fn a_trial_leaves_no_api() {
    let rig = Rig::waiting("v1.13.9").await;
    let request = wire::ApplyConfigurationRequest {
        try_mode_timeout: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
        ..apply(usual(), Mode::Try)
    };
    rig.client(101, None).apply_configuration(request).await.unwrap();
    rig.wait(10).await;
    assert!(rig.admin(101).version(()).await.is_ok());
    rig.wait(60).await;
    assert!(rig.admin(101).version(()).await.is_err());
    assert!(rig.client(101, None).version(()).await.is_err());
}

/// A fresh disk has no place to keep a configuration for later: "staged" is answered well, and lost.
#[tokio::test(start_paused = true)]
async fn what_is_staged_is_lost() {
    let rig = Rig::waiting("v1.13.9").await;
    let answer = rig.client(101, None).apply_configuration(apply(usual(), Mode::Staged)).await.unwrap();
    assert_eq!(answer.into_inner().messages[0].mode(), Mode::Staged);
    rig.lab.shared().with(|world, now| world.machines.power_off(101, now));
    rig.on(101);
    rig.wait(60).await;
    assert!(rig.client(101, None).version(()).await.is_ok(), "it waits again");
}

/// A part of a configuration is taken at once and the machine goes on waiting, with another certificate.
#[tokio::test(start_paused = true)]
async fn a_partial_configuration_changes_the_certificate() {
    let rig = Rig::waiting("v1.13.9").await;
    let shown = async || {
        let config = std::sync::Arc::new(super::super::tls(None));
        let connector = ambient::tls::Connector::new(rig.lab.net(), config, 50_000);
        let stream = connector.connect(&crate::machine::tests::address(101), 50_000).await.unwrap();
        talos::pki::Leaf::read(stream.peer_certificate().unwrap()).unwrap().fingerprint
    };
    let before = shown().await;
    let part = "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: partial1\n";
    rig.client(101, None).apply_configuration(apply(part, Mode::Auto)).await.unwrap();
    rig.wait(5).await;
    let state = StateClient::new(rig.channel(101, None));
    let status = Rig::yaml(state, "runtime", "MachineStatuses.runtime.talos.dev", "machine").await;
    assert!(status.starts_with("stage: maintenance"), "{status}");
    assert_ne!(shown().await, before);
}

/// Sensible modes become "without a restart", and a number that is no mode counts as one.
#[tokio::test(start_paused = true)]
async fn every_mode_is_answered_with_the_one_that_was_used() {
    for mode in [0, 1, 2, 9] {
        let rig = Rig::waiting("v1.13.9").await;
        let request = wire::ApplyConfigurationRequest { mode, ..apply(usual(), Mode::Auto) };
        let answer = rig.client(101, None).apply_configuration(request).await.unwrap().into_inner();
        assert_eq!(answer.messages[0].mode(), Mode::NoReboot, "{mode}");
    }
}

/// What needs rights is refused as unauthorized, what needs a control plane as not offered.
#[tokio::test(start_paused = true)]
async fn refusals_do_not_say_that_it_waits() {
    let rig = Rig::waiting("v1.13.9").await;
    let mut client = rig.client(101, None);
    assert_eq!(refused(client.kubeconfig(()).await), denied("not authorized"));
    assert_eq!(refused(client.reboot(wire::RebootRequest::default()).await), denied("not authorized"));
    assert_eq!(refused(client.reset(wire::ResetRequest::default()).await), denied("not authorized"));
    let read = wire::ReadRequest { path: "/etc/hosts".into() };
    assert_eq!(refused(client.read(read).await), denied("not authorized"));
    let members = client.etcd_member_list(wire::EtcdMemberListRequest::default()).await;
    let words = "member list is only available on control plane nodes".to_owned();
    assert_eq!(refused(members), (Code::Unimplemented, words));
    let mut other = tonic::Request::new(());
    other.metadata_mut().insert("node", "10.9.9.9".parse().unwrap());
    assert!(client.version(other).await.is_ok(), "no one is asked in its place");
}

/// The drive that Proxmox makes is in force before any configuration: addresses, gateway, resolver and name. What it says of
/// DHCP for IPv6, of router advertisements and of search domains is not understood.
#[tokio::test(start_paused = true)]
async fn the_drive_of_the_platform_is_in_force() {
    let rig = Rig::new();
    let mut vm = Vm::new(101, "pve1");
    for (key, value) in [
        ("name", "vm-101"),
        ("ide2", "local-lvm:vm-101-cloudinit,media=cdrom"),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
        ("net1", "virtio=BC:24:11:00:00:02,bridge=vmbr0"),
        ("net2", "virtio=BC:24:11:00:00:03,bridge=vmbr0"),
        ("ipconfig0", "ip=10.1.0.11/24,gw=10.1.0.1,ip6=fd00::11/64,gw6=fd00::1"),
        ("ipconfig1", "ip=10.2.0.11/24,ip6=dhcp"),
        ("ipconfig2", "ip6=auto"),
        ("nameserver", "10.1.0.53"),
        ("searchdomain", "example.org"),
    ] {
        vm.config.insert(key.to_owned(), value.to_owned());
    }
    let told = cloudinit::network_config(&vm);
    assert!(["dhcp6", "ipv6_slaac", "example.org"].iter().all(|word| told.contains(word)), "{told}");
    rig.lab.shared().with(|world, now| {
        world.machines.serve_dhcp(Some("10.3.0.0/24".parse().unwrap()));
        let with = Boot { image: boot(101).image, ..vm.boot(&world.hypervisor.storages) };
        world.machines.power_on(101, with, now);
    });
    rig.wait(40).await;
    let state = || StateClient::new(rig.channel(101, None));
    let hostname = Rig::yaml(state(), "network", "HostnameStatuses.net.talos.dev", "hostname").await;
    assert!(hostname.starts_with("hostname: vm-101\n"), "{hostname}");
    let resolvers = Rig::yaml(state(), "network", "ResolverStatuses.net.talos.dev", "resolvers").await;
    assert!(resolvers.contains("- 10.1.0.53\n") && !resolvers.contains("example"), "{resolvers}");
    let addresses = Rig::listed(state(), "network", "AddressStatuses.net.talos.dev").await;
    let mut ids: Vec<String> = addresses.into_iter().map(|r| r.metadata.unwrap().id).collect();
    ids.retain(|id| id.starts_with("eth") && !id.contains("/fe80:"));
    ids.sort();
    assert_eq!(ids, ["eth0/10.1.0.11/24", "eth0/fd00::11/64", "eth1/10.2.0.11/24"]);
    let routes = Rig::listed(state(), "network", "RouteStatuses.net.talos.dev").await;
    let routes: String = routes.into_iter().map(|r| r.spec.unwrap().yaml_spec).collect();
    assert!(routes.contains("gateway: 10.1.0.1\n") && routes.contains("gateway: fd00::1\n"), "{routes}");
    let platform = Rig::yaml(state(), "runtime", "PlatformMetadatas.talos.dev", "platformmetadata").await;
    let instance = cloudinit::meta_data(&vm).replace("instance-id", "instanceId");
    assert!(platform.contains("platform: nocloud\n") && platform.contains(&instance), "{platform}");
}

/// The list of disks has the root of the running system and the drive, and fields are named differently from type to type.
#[tokio::test(start_paused = true)]
async fn not_every_disk_is_one() {
    let rig = Rig::waiting("v1.13.9").await;
    let state = || StateClient::new(rig.channel(101, None));
    let disks = Rig::listed(state(), "runtime", "Disks.block.talos.dev").await;
    let disks: BTreeMap<String, String> =
        disks.into_iter().map(|r| (r.metadata.unwrap().id, r.spec.unwrap().yaml_spec)).collect();
    assert!(disks["loop0"].contains("readonly: true"), "{disks:?}");
    assert!(disks["sr0"].contains("cdrom: true"), "{disks:?}");
    assert!(disks["sda"].contains("dev_path: /dev/sda"), "{disks:?}");
    let links = Rig::listed(state(), "network", "LinkStatuses.net.talos.dev").await;
    assert!(links.into_iter().any(|r| r.spec.unwrap().yaml_spec.contains("hardwareAddr: ")));
    let old = StorageServiceClient::new(rig.channel(101, None)).disks(()).await.unwrap().into_inner();
    let names: Vec<_> = old.messages[0].disks.iter().map(|d| d.device_name.as_str()).collect();
    assert!(names.contains(&"/dev/sda"), "{names:?}");
}

/// A disk image counts as installed, and has nowhere to keep a configuration yet.
#[tokio::test(start_paused = true)]
async fn a_disk_image_is_installed_and_has_no_state() {
    let rig = Rig::waiting("v1.13.9").await;
    let state = || StateClient::new(rig.channel(101, None));
    let system = Rig::yaml(state(), "runtime", "SystemDisks.block.talos.dev", "system-disk").await;
    assert!(system.contains("sda"), "{system}");
    let phase = async |id: &str| {
        let yaml = Rig::yaml(state(), "runtime", "VolumeStatuses.block.talos.dev", id).await;
        yaml.lines().find_map(|line| line.strip_prefix("phase: ").map(str::to_owned))
    };
    assert_eq!(phase("META").await.as_deref(), Some("ready"));
    assert_eq!(phase("STATE").await.as_deref(), Some("missing"));
}

/// Before any configuration the services of the system run, and none of the cluster's are known.
#[tokio::test(start_paused = true)]
async fn only_the_services_of_the_system_are_there() {
    let rig = Rig::waiting("v1.13.9").await;
    let ids = Rig::services(rig.client(101, None)).await.into_iter().map(|s| s.id);
    let ids: Vec<String> = ids.collect();
    assert_eq!(ids, ["apid", "auditd", "containerd", "machined", "syslogd", "udevd"]);
}

/// Every resource comes as YAML beside its protobuf, so no one needs to know hundreds of messages.
#[tokio::test(start_paused = true)]
async fn every_resource_is_readable_as_yaml() {
    let rig = Rig::waiting("v1.13.9").await;
    let state = || StateClient::new(rig.channel(101, None));
    let types = Rig::listed(state(), "meta", "ResourceDefinitions.meta.cosi.dev").await;
    assert!(types.len() > 150, "{}", types.len());
    let field = |yaml: &str, key: &str| {
        yaml.lines().find_map(|line| line.strip_prefix(key).map(|value| value.trim().to_owned()))
    };
    let (mut seen, mut bare) = (0, BTreeSet::new());
    for definition in types {
        let yaml = definition.spec.unwrap().yaml_spec;
        let (kind, namespace) = (field(&yaml, "type:").unwrap(), field(&yaml, "defaultNamespace:").unwrap());
        let request = ListRequest { namespace, r#type: kind.clone(), options: None };
        // What is sensitive is not shown to a reader.
        let Ok(answer) = state().list(request).await else { continue };
        let mut stream = answer.into_inner();
        while let Ok(Some(found)) = stream.message().await {
            let spec = found.resource.unwrap().spec.unwrap();
            assert!(!spec.yaml_spec.is_empty(), "{kind}");
            if spec.proto_spec.is_empty() {
                bare.insert(kind.clone());
            }
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
    // A message whose fields all have their usual value has no bytes.
    let usual = [
        "MachineTypes.config.talos.dev",
        "MaintenanceServiceRequests.runtime.talos.dev",
        "ResolverStatuses.net.talos.dev",
        "SecurityStates.talos.dev",
        "UniqueMachineTokens.runtime.talos.dev",
    ];
    assert_eq!(bare.iter().map(String::as_str).collect::<Vec<_>>(), usual);
}

/// A type that a release does not know is forbidden, not missing.
#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_a_matter_of_permission() {
    let rig = Rig::waiting("v1.13.9").await;
    let mut state = StateClient::new(rig.channel(101, None));
    assert_eq!(
        refused(state.get(get("runtime", "BootIDs.runtime.talos.dev", "boot-id")).await),
        denied("resource type \"BootIDs.runtime.talos.dev\" is not supported")
    );
    assert_eq!(
        refused(state.get(get("nope", "MachineStatuses.runtime.talos.dev", "machine")).await),
        denied("namespace \"nope\" is not supported")
    );
    assert_eq!(
        refused(state.get(get("runtime", "machinestatus", "machine")).await),
        denied("resource type \"machinestatus\" is not supported"),
        "an alias is not resolved here"
    );
}

/// The extension of the guest agent runs before there is a configuration, so addresses can be asked of Proxmox.
#[tokio::test(start_paused = true)]
async fn the_guest_agent_runs_already() {
    let rig = Rig::new();
    let mut with = boot(101);
    with.image.as_mut().unwrap().extensions = vec!["siderolabs/qemu-guest-agent".into()];
    rig.lab.shared().with(|world, now| world.machines.power_on(101, with, now));
    rig.wait(40).await;
    let agent = Rig::services(rig.client(101, None)).await;
    assert!(agent.iter().any(|s| s.id == "ext-qemu-guest-agent" && s.state == "Running"));
}
