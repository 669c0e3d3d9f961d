//! When nothing may be touched, nothing is.

use std::time::Duration;

use engine::error::Kind;
use engine::session::ObserveError;
use engine::{Session, Systems};
use lab::{CallFilter, Injection};
use model::event::{Outcome, What};
use model::observed::Api;
use model::plan::RefusalCode;
use pve::Params;

use crate::rig::{HOME, Rig, bundle, spec};

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// A machine of someone else that has the address of `home-control-2`, from the same image as ours.
async fn foreign(rig: &Rig) {
    let snapshot = rig.observe(HOME).await;
    let image = snapshot.blueprint.images.values().next().unwrap();
    let schematic = &snapshot.rendered.schematics["default"];
    let factory = talos_client::Factory::new(
        rig.systems.net.clone(),
        &rig.systems.clock,
        &image.factory,
        &rig.systems.factory_roots,
    )
    .unwrap();
    let made = engine::render::schematic(image, &model::attachments::Attachments::new()).unwrap();
    factory.post_schematic(&made.text).await.unwrap();
    let download = pve::DownloadUrl {
        url: image.url(schematic),
        filename: "mine.qcow2".to_owned(),
        content: "import".to_owned(),
        checksum: None,
        verify_certificates: true,
    };
    let pve = &rig.systems.pve;
    pve.follow(&pve.download_url("pve2", "local", &download).await.unwrap(), |_| {}).await.unwrap();
    let vm = params(&[
        ("name", "someone-elses"),
        ("memory", "2048"),
        ("scsihw", "virtio-scsi-single"),
        ("scsi0", "local-lvm:0,import-from=local:import/mine.qcow2"),
        ("ide2", "local-lvm:cloudinit"),
        ("ipconfig0", "ip=10.25.150.12/24,gw=10.25.150.1"),
        ("net0", "virtio,bridge=vmbr0"),
        ("smbios1", "uuid=11111111-2222-4333-8444-555555555555"),
        ("boot", "order=scsi0"),
    ]);
    pve.follow(&pve.create_vm("pve2", 4711, &vm).await.unwrap(), |_| {}).await.unwrap();
    pve.follow(&pve.start("pve2", 4711).await.unwrap(), |_| {}).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_at_a_nodes_address_gets_no_configuration() {
    let rig = Rig::new();
    // It comes after everything was looked at.
    let snapshot = rig.observe(HOME).await;
    let plan = snapshot.plan();
    foreign(&rig).await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures();
    let told = failures.iter().find(|f| f.starts_with("configure/home-control-2")).unwrap();
    assert!(told.contains("11111111-2222-4333-8444-555555555555"), "{told}");
    assert!(told.contains("it seems to be VM 4711 (someone-elses) on pve2"), "{told}");
    assert!(
        !rig.lab.shared().read(|systems, _| systems.machines.is_configured(4711)),
        "nothing was sent to it"
    );
    assert_eq!(rig.etcd_clusters(), 0, "not every control plane was seen, so etcd was not bootstrapped");
    let skipped = ran.events.iter().any(
        |e| matches!(&e.what, What::StepSkipped { step, because, .. } if step.kind() == "bootstrap" && because.0 == "configure/home-control-2"),
    );
    assert!(skipped, "the bootstrap says why it did not run");

    // Looking again says the same, and now refuses before anything is started.
    let snapshot = rig.observe(HOME).await;
    assert!(matches!(snapshot.observed.machines["home-control-2"].api, Api::ForeignMachine { .. }));
    let plan = snapshot.plan();
    assert!(plan.steps.is_empty() && plan.refusals[0].why.contains("VM 4711"), "{:?}", plan.refusals);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_somebody_has_is_told_before_anything_is_made() {
    let rig = Rig::new();
    foreign(&rig).await;
    let plan = rig.observe(HOME).await.plan();
    assert!(plan.steps.is_empty());
    let why: Vec<&str> = plan.refusals.iter().map(|r| r.why.as_str()).collect();
    let told = "the address 10.25.150.12 of home-control-2 is taken: something answers there on port 50000";
    assert_eq!(why, [told]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_bundle_is_refused_and_nothing_is_touched() {
    let rig = Rig::healthy().await;
    let before = rig.vmids().await;
    let without = Session::new(rig.systems.clone(), spec(HOME), None);
    let Ok(snapshot) = without.observe().await else { panic!("looking works without a bundle") };
    for plan in [snapshot.plan(), snapshot.plan_destroy()] {
        assert!(plan.steps.is_empty());
        assert_eq!(plan.refusals[0].code, RefusalCode::LostBundle, "{:?}", plan.refusals);
        let error = rig.carry_out(&snapshot, &plan, "me").await.err().unwrap();
        assert_eq!(error.kind(), Kind::Refused);
    }
    assert_eq!(rig.vmids().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_cannot_be_seen_means_no_bootstrap() {
    let rig = Rig::new();
    let snapshot = rig.observe(HOME).await;
    // One host loses power while its control plane boots.
    let power_cut = async {
        rig.systems.clock.sleep(Duration::from_secs(40)).await;
        rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    };
    let plan = snapshot.plan();
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), power_cut);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(rig.etcd_clusters(), 0, "{:?}", ran.failures());
    rig.lab.inject(Injection::HostOnline("pve3".to_owned()));
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_makes_no_second_vm() {
    let rig = Rig::new();
    for path in ["/nodes/pve1/qemu", "/nodes/pve2/qemu", "/nodes/pve3/qemu"] {
        for skip in [0, 1] {
            let which = CallFilter { method: "POST".to_owned(), path_contains: path.to_owned(), skip };
            rig.lab.inject(Injection::CutCall { which, after: skip == 0 });
        }
    }
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

/// Nodes whose addresses come by DHCP are expected at what the file says; the server keeps those addresses for their cards.
#[tokio::test(start_paused = true)]
async fn addresses_may_come_from_a_dhcp_server() {
    let file = HOME.replace("vip: 10.25.150.10 }", "vip: 10.25.150.10, dhcp: true }");
    let blueprint = model::resolve::resolve(&spec(&file), None, None).unwrap();
    let kept = blueprint.nodes.values().map(|node| (node.mac.clone(), node.address.into()));
    let config = lab::LabConfig {
        dhcp: Some("10.25.150.0/24".parse().unwrap()),
        reservations: kept.collect(),
        ..lab::LabConfig::default()
    };
    let rig = Rig::with(config);
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.systems.pve.vm_config("pve1", 150_011).await.unwrap().get("ipconfig0"), Some("ip=dhcp"));
    rig.assert_nothing_to_do(&file).await;
}

/// One that got another address is found by its MAC address, through its agent, and everything goes on there.
#[tokio::test(start_paused = true)]
async fn an_address_without_a_reservation_is_found_by_the_card() {
    let config =
        lab::LabConfig { dhcp: Some("10.25.150.0/24".parse().unwrap()), ..lab::LabConfig::default() };
    let rig = Rig::with(config);
    let file = HOME
        .replace("vip: 10.25.150.10 }", "vip: 10.25.150.10, dhcp: true }")
        .replace("count: 3", "count: 1");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    // Someone who knows nothing of that run finds them, too.
    let later = rig.with_world(Systems { found: Default::default(), ..rig.systems.clone() });
    let snapshot = later.observe(&file).await;
    assert!(snapshot.plan().is_empty(), "{:?}", snapshot.plan());
    let addresses: Vec<String> = snapshot.blueprint.nodes.values().map(|n| n.address.to_string()).collect();
    assert!(addresses.iter().all(|a| !a.starts_with("10.25.150.11/")), "{addresses:?}");
}

/// Where the first control plane's address is the cluster's own, it must be the one that stands in the file.
#[tokio::test(start_paused = true)]
async fn without_an_address_of_its_own_the_cluster_needs_the_reservation() {
    let config =
        lab::LabConfig { dhcp: Some("10.25.150.0/24".parse().unwrap()), ..lab::LabConfig::default() };
    let rig = Rig::with(config);
    let file = HOME.replace(", vip: 10.25.150.10 }", ", dhcp: true }").replace("count: 3", "count: 1");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures();
    let told = "and the cluster's API is expected at 10.25.150.11";
    assert!(failures.iter().any(|failure| failure.contains(told)), "{failures:?}");
}

#[tokio::test(start_paused = true)]
async fn without_proxmox_the_rest_is_seen_and_nothing_is_planned() {
    let rig = Rig::healthy().await;
    // An address at which no one is at home.
    let no_one = pve::Client::connect(
        pve::Endpoints::parse(["https://10.25.150.99:8006"]).unwrap(),
        &rig.lab.facts().token.parse().unwrap(),
        &pve::Trust::Insecure,
        rig.lab.net(),
        rig.systems.clock.clone(),
    );
    let systems = Systems { pve: no_one.unwrap(), ..rig.systems.clone() };
    let session = Session::new(systems, spec(HOME), Some(bundle()));
    let Err(ObserveError::Engine(error)) = session.observe().await else {
        panic!("nothing may be changed without Proxmox")
    };
    assert_eq!(error.code(), "no-answer");
    let Ok(snapshot) = session.refresh().await else { panic!("the machines answer") };
    assert_eq!(snapshot.observed.machines.values().filter(|machine| machine.ready).count(), 5);
    assert_eq!(snapshot.observed.kubernetes.nodes.len(), 5);
    assert_eq!(snapshot.observed.unobserved.len(), 1, "{:?}", snapshot.observed.unobserved);
    for plan in [snapshot.plan(), snapshot.plan_destroy()] {
        assert!(plan.steps.is_empty());
        assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::NoProxmox]);
    }
}

/// The status daemons are silent, and Proxmox' list knows no one's state. Everything runs.
#[tokio::test(start_paused = true)]
async fn p5_hosts_and_guests_of_unknown_state_are_neither_offline_nor_stopped() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::StatusDaemons { silent: true });
    let snapshot = rig.observe(HOME).await;
    assert!(snapshot.observed.proxmox.inventory.hosts.values().all(|host| host.online));
    assert!(snapshot.observed.proxmox.marked.iter().filter(|vm| vm.mark.is_node()).all(|vm| vm.running));
    rig.assert_nothing_to_do(HOME).await;
    let removal = rig.session(HOME).observe_to_destroy().await.unwrap().plan_destroy();
    assert_eq!(removal.refusals, []);
    let gone = |step: &&model::step::Step| matches!(step.action, model::step::Action::DeleteVm { .. });
    assert_eq!(removal.steps.iter().filter(gone).count(), 5);
    // A cluster can grow meanwhile.
    let ran = rig.apply(&HOME.replace("worker, count: 2", "worker, count: 3")).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    // A host that is off is off, whatever reports it.
    rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    let snapshot = rig.observe(HOME).await;
    assert!(!snapshot.observed.proxmox.inventory.hosts["pve3"].online);
}

/// The token was replaced or has expired. What machines and Kubernetes say is shown, as when Proxmox does not answer; nothing is planned.
#[tokio::test(start_paused = true)]
async fn left_10_a_rejected_token_hides_neither_machines_nor_kubernetes() {
    let rig = Rig::healthy().await;
    let facts = rig.lab.facts();
    let rejected = pve::Client::connect(
        pve::Endpoints::parse([format!("https://{}", facts.endpoint).as_str()]).unwrap(),
        &"root@pam!lab=00000000-0000-0000-0000-000000000000".parse().unwrap(),
        &pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]),
        rig.lab.net(),
        rig.systems.clock.clone(),
    );
    let systems = Systems { pve: rejected.unwrap(), ..rig.systems.clone() };
    let session = Session::new(systems, spec(HOME), Some(bundle()));
    let Err(ObserveError::Engine(error)) = session.observe().await else {
        panic!("nothing may be changed without Proxmox")
    };
    assert_eq!(error.code(), "unauthenticated");
    let Ok(snapshot) = session.refresh().await else { panic!("the machines answer") };
    assert_eq!(snapshot.observed.machines.values().filter(|machine| machine.ready).count(), 5);
    assert_eq!(snapshot.observed.kubernetes.nodes.len(), 5);
    let [unobserved] = snapshot.observed.unobserved.as_slice() else {
        panic!("{:?}", snapshot.observed.unobserved)
    };
    assert_eq!(unobserved.what, "Proxmox");
    assert!(unobserved.why.contains("token"), "{unobserved:?}");
    for plan in [snapshot.plan(), snapshot.plan_destroy()] {
        assert!(plan.steps.is_empty());
        let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
        assert_eq!(refusal.code, RefusalCode::NoProxmox);
        assert!(!refusal.why.contains("does not answer"), "it did: {refusal:?}");
        assert!(refusal.hint.contains("token"), "{refusal:?}");
    }
    let conditions = engine::health::conditions(&session.systems, &snapshot).await;
    assert!(conditions.iter().all(|condition| condition.missing.is_none()), "{conditions:?}");
}

/// Without the quorum of its hosts Proxmox can be read and not changed. `status` says so.
#[tokio::test(start_paused = true)]
async fn left_3_a_proxmox_cluster_without_quorum_is_observed() {
    let rig = Rig::healthy().await;
    let quorate = async || {
        let Ok(snapshot) = rig.session(HOME).refresh().await else { panic!("it can be read") };
        let observed = serde_json::to_value(&*snapshot.observed).unwrap();
        observed["proxmox"]["quorate"].as_bool()
    };
    assert_eq!(quorate().await, Some(true));
    rig.lab.inject(Injection::Quorum { lost: true });
    assert_eq!(quorate().await, Some(false));
    let which = CallFilter { method: "GET".to_owned(), path_contains: "/cluster/status".to_owned(), skip: 0 };
    rig.lab.inject(Injection::FailCall { which, status: 403, text: "Permission check failed".to_owned() });
    assert_eq!(quorate().await, None, "what was not told is not known");
}
