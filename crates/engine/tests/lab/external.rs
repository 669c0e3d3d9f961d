//! Machines that are not ours to create: everything but the VM.

use std::time::Duration;

use engine::{Session, Systems};
use model::event::Outcome;
use pve::Params;

use crate::rig::{HOME, Rig, bundle, spec};

pub const METAL: &str = "\
cluster: metal
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
nodes:
  cp-1: { role: controlplane, address: 10.25.150.31, external: true, unverified: true, mac: 'BC:24:11:00:00:31' }
  w-1: { role: worker, address: 10.25.150.32, external: true, unverified: true }
";

/// A machine that someone else made and started from a Talos image.
async fn machine(rig: &Rig, vmid: u32, last: u8) {
    let snapshot = rig.observe(HOME).await;
    let image = snapshot.blueprint.images.values().next().unwrap();
    let schematic = &snapshot.rendered.schematics["default"];
    let (net, clock) = (rig.systems.net.clone(), &rig.systems.clock);
    let factory = talos_client::Factory::new(net, clock, &image.factory, &rig.systems.factory_roots).unwrap();
    let made = engine::render::schematic(image, &model::attachments::Attachments::new()).unwrap();
    factory.post_schematic(&made.text).await.unwrap();
    let pve = &rig.systems.pve;
    let file = format!("of-{vmid}.qcow2");
    let download = pve::DownloadUrl {
        url: image.url(schematic),
        filename: file.clone(),
        content: "import".to_owned(),
        checksum: None,
        verify_certificates: true,
    };
    pve.follow(&pve.download_url("pve1", "local", &download).await.unwrap(), |_| {}).await.unwrap();
    let vm: Params = [
        ("name", "metal".to_owned()),
        ("memory", "4096".to_owned()),
        ("cpu", "x86-64-v2-AES".to_owned()),
        ("scsihw", "virtio-scsi-single".to_owned()),
        ("scsi0", format!("local-lvm:0,import-from=local:import/{file}")),
        ("ide2", "local-lvm:cloudinit".to_owned()),
        ("ipconfig0", format!("ip=10.25.150.{last}/24,gw=10.25.150.1")),
        ("net0", format!("virtio=BC:24:11:00:00:{last},bridge=vmbr0")),
        ("boot", "order=scsi0".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    pve.follow(&pve.create_vm("pve1", vmid, &vm).await.unwrap(), |_| {}).await.unwrap();
    pve.follow(&pve.start("pve1", vmid).await.unwrap(), |_| {}).await.unwrap();
}

/// A world with the machines of [`METAL`], in which nothing of Proxmox can be asked.
pub async fn metal() -> Rig {
    let rig = Rig::new();
    machine(&rig, 9001, 31).await;
    machine(&rig, 9002, 32).await;
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let systems = Systems { pve: pve::Client::of_nothing(rig.systems.clock.clone()), ..rig.systems.clone() };
    for vmid in [9001, 9002] {
        rig.guard.watch.allow_external(vmid);
    }
    rig.with_world(systems)
}

/// The lease of that cluster.
pub async fn lease(rig: &Rig) -> engine::kubernetes::lease::Found {
    let snapshot = rig.observe(METAL).await;
    let access = snapshot.access().unwrap();
    let kubernetes =
        engine::kubernetes::Kubernetes::new(&rig.systems, &snapshot.blueprint.endpoint, &access.kubernetes)
            .unwrap();
    kubernetes.find_lease("kube-system", "talosmith-metal").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_machines_that_others_made_needs_no_proxmox() {
    let rig = metal().await;
    let session = Session::new(rig.systems.clone(), spec(METAL), Some(bundle()));
    let Ok(snapshot) = session.observe().await else { panic!("looking works without Proxmox") };
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    assert!(plan.notes[0].text.contains("apply from one place only"), "{:?}", plan.notes);
    let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
    let all = ["configure/cp-1", "configure/w-1", "bootstrap/cp-1", "join/cp-1", "join/w-1", "check-health"];
    assert_eq!(ids, all);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let Ok(snapshot) = session.observe().await else { panic!("looking works without Proxmox") };
    assert!(snapshot.plan().is_empty(), "{:?}", snapshot.plan());
    assert_eq!(snapshot.plan().notes, []);
    assert_eq!(rig.etcd_clusters(), 1);

    // A node that the file does not have any more is still there, and that is told.
    let fewer: String =
        METAL.lines().filter(|line| !line.contains("w-1:")).map(|l| format!("{l}\n")).collect();
    let fewer = format!("{fewer}kubernetes: {{ schedule_on_control_planes: true }}\n");
    let blocked = rig.observe(&fewer).await.plan().blocked;
    assert_eq!(blocked.len(), 1, "{blocked:?}");
    assert!(blocked[0].what.starts_with("w-1 is a node of Kubernetes and is not in the file"), "{blocked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_another_card_is_not_the_one_that_the_file_means() {
    let rig = Rig::new();
    machine(&rig, 9001, 31).await;
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let other = METAL.replace("BC:24:11:00:00:31", "BC:24:11:00:00:99");
    let plan = rig.observe(&other).await.plan();
    assert!(plan.steps.is_empty());
    assert!(
        plan.refusals[0].why.contains("it has no network interface with the MAC address BC:24:11:00:00:99"),
        "{:?}",
        plan.refusals
    );
}

/// Machines that run have keys. Where those are lost, new ones are not made: they would open nothing.
#[tokio::test(start_paused = true)]
async fn machines_that_were_configured_are_not_given_to_a_new_bundle() {
    let rig = metal().await;
    let plan = |snapshot: engine::Snapshot| snapshot.plan();
    let empty = || Session::new(rig.systems.clone(), spec(METAL), None);
    assert_eq!(plan(empty().observe().await.unwrap()).refusals, [], "they wait for a configuration");
    let ran = rig.apply(METAL).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let refusals = plan(empty().observe().await.unwrap()).refusals;
    let told =
        "the secrets bundle is missing, but cp-1, w-1 are configured already, with keys that are not here";
    assert_eq!(refusals.iter().map(|r| r.why.as_str()).collect::<Vec<_>>(), [told]);
    assert_eq!(refusals[0].code, model::plan::RefusalCode::LostBundle);
}
